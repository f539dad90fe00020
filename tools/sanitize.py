"""The core and the kernels with the address and undefined-behaviour sanitizers, and tests on them.

    python tools/sanitize.py
    python tools/sanitize.py --tests tests/kernels/test_sort.py

Takes: a checkout whose core was built (its translated C is used), GCC with its sanitizers.
Gives: a second tree in `build/sanitize`, in which the tests run with guarded memory; each distinct line
of a sanitizer on the standard output; exit status 1 where there was one, or where a test failed.
Keeps true: the checkout's own libraries are not touched; what did not change is not compiled again.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "sanitize"
SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
CORE = [
    "-O0",
    "-g1",
    "-fPIC",
    "-shared",
    "-fno-strict-aliasing",
    "-pthread",
    "-march=x86-64-v2",
    "-w",
]
#: none of them starts processes with an environment of its own, which would lack the libraries
TESTS = [
    "tests/core/test_indexing.py", "tests/core/test_inplace_autograd.py", "tests/core/test_promotion.py",
    "tests/core/test_interchange.py", "tests/core/test_versions.py", "tests/core/test_storage_views.py",
    "tests/ops/test_layouts.py", "tests/ops/test_forms.py",
]  # fmt: skip
SIGNS = ("runtime error:", "ERROR: AddressSanitizer", "facula: [guard]")


def preload() -> str:
    """The sanitizers' libraries, which must be there before all others."""
    names = ("libasan.so", "libubsan.so")
    command = ["gcc", *(f"-print-file-name={name}" for name in names)]
    found = [
        subprocess.run(
            [command[0], part], capture_output=True, text=True, check=True
        ).stdout.strip()
        for part in command[1:]
    ]
    return ":".join(os.path.realpath(path) for path in found)


def environment(log: str) -> dict[str, str]:
    """That of a process that has the instrumented libraries."""
    options = "detect_leaks=0:halt_on_error=0:print_stacktrace=0:handle_segv=0:allocator_may_return_null=1"
    return {
        **os.environ, "PYTHONPATH": str(TREE), "LD_PRELOAD": preload(),
        "ASAN_OPTIONS": f"{options}:log_path={log}", "UBSAN_OPTIONS": f"print_stacktrace=0:log_path={log}",
        "PYTHONMALLOC": "malloc", "FACULA_GUARD": "1",
    }  # fmt: skip


def copy_sources() -> None:
    """The package's files but its libraries; those that did not change keep their time."""
    for path in (ROOT / "src" / "facula").rglob("*"):
        target = TREE / path.relative_to(ROOT / "src")
        if path.is_dir() or path.suffix in (".so", ".pyc") or "_kernels" in path.parts:
            continue
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def build_core() -> None:
    """Compiles the core's translated C."""
    source = ROOT / "build" / "cython" / "src" / "facula" / "core" / "_core.c"
    if not source.exists():
        sys.exit(f"{source} is missing: build the checkout first (make venv)")
    include = ROOT / "src" / "facula" / "core" / "include"
    digest = hashlib.sha256(source.read_bytes())
    for header in sorted(include.glob("*.h")):
        digest.update(header.read_bytes())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target, stamp = TREE / "facula" / "core" / f"_core{suffix}", TREE / "core.stamp"
    if target.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    folders = [f"-I{include}", f"-I{include.parent}", f"-I{sysconfig.get_path('include')}"]
    command = ["gcc", *CORE, *SANITIZE, *folders, str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    stamp.write_text(digest.hexdigest())


def build_kernels(isa: str) -> None:
    """Has the build tool compile the kernels with the sanitizers."""
    command = [sys.executable, str(ROOT / "tools" / "build_kernels.py"), "--isa", isa]
    command += ["--output", str(TREE / "facula" / "_kernels"), "--work", str(TREE / "objects")]
    settings = environment("stderr") | {
        "FACULA_BUILDING": "1", "FACULA_GUARD": "0", "CC": " ".join(["gcc", *SANITIZE])
    }  # fmt: skip
    subprocess.run(command, env=settings, check=True, cwd=ROOT)


def run_tests(isa: str, tests: list[str]) -> int:
    """Runs the tests; prints each distinct finding and how often it came. Returns the exit status."""
    log = TREE / "log"
    for path in glob.glob(f"{log}.*"):
        os.unlink(path)
    settings = environment(str(log)) | {"FACULA_ISA": isa, "FACULA_JIT": "0"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--capture=sys",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    status = subprocess.run(command, env=settings, cwd=ROOT, check=False).returncode
    seen: dict[str, int] = {}
    for path in glob.glob(f"{log}.*"):
        for line in Path(path).read_text(errors="replace").splitlines():
            if any(sign in line for sign in SIGNS):
                seen[line] = seen.get(line, 0) + 1
    for line, count in sorted(seen.items()):
        print(f"{count:6d} {line}")
    print(f"{len(seen)} findings of the sanitizers; the tests ended with status {status}")
    return 1 if seen or status else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--isa", default="v3", help="the kernel variant")
    parser.add_argument(
        "--tests", nargs="*", default=TESTS, help="files and folders, or options of pytest"
    )
    parser.add_argument("--build-only", action="store_true")
    arguments = parser.parse_args()
    copy_sources()
    build_core()
    build_kernels(arguments.isa)
    return 0 if arguments.build_only else run_tests(arguments.isa, arguments.tests)


if __name__ == "__main__":
    sys.exit(main())
