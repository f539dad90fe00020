"""A small suite under valgrind's memcheck: reads of what was never written, and of freed blocks.

    python tools/memcheck.py
    python tools/memcheck.py tests/core/test_versions.py

Takes: valgrind, the `v3` kernels (valgrind knows no AVX-512).
Gives: valgrind's report of each error on the standard output; exit status 1 where there was one, or
where a test failed.
Keeps true: Python's blocks and facula's small ones come from malloc and go back to it, so that valgrind
sees each; errors inside of the interpreter, NumPy and the loader are left out (`memcheck.supp`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "tests/core/test_versions.py", "tests/core/test_inplace_autograd.py", "tests/core/test_hooks.py",
    "tests/core/test_views_of_dead_roots.py", "tests/core/test_storage_views.py",
]  # fmt: skip
PROGRAM = """
import sys
import pytest
from facula import core
core.set_cache_limit(0)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def main() -> int:
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: apt-get install valgrind")
    settings = os.environ | {
        "PYTHONMALLOC": "malloc", "FACULA_ISA": "v3", "FACULA_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [
            "valgrind", "--leak-check=no", "--num-callers=16", "--error-limit=no",
            f"--suppressions={ROOT / 'tools' / 'memcheck.supp'}", f"--log-file={log}", sys.executable,
            "-c", PROGRAM, *(sys.argv[1:] or TESTS),
        ]  # fmt: skip
        status = subprocess.run(command, env=settings, cwd=ROOT, check=False).returncode
        report = log.read_text()
    print(report)
    found = re.findall(r"ERROR SUMMARY: (\d+) errors from (\d+) contexts", report)
    errors = int(found[-1][0]) if found else -1
    print(f"{errors} errors; the tests ended with status {status}")
    return 1 if errors or status else 0


if __name__ == "__main__":
    sys.exit(main())
