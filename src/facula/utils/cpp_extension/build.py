"""From C++ sources to a shared library, and the library loaded.

Takes sources, flags and a folder. Gives `build`, the path of a library, `import_module_at`, `load_shared`.
Keeps true: a library is made anew when sources, flags, headers or compiler are others, and only then; it is there
whole or not at all; of several processes that want one, one works and the others wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import itertools
import os
import re
import shlex
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from facula.core.errors import fail
from facula.runtime import cache, programs, trust
from facula.utils.cpp_extension.headers import INCLUDE, generated, header_digest

__all__ = [
    "Plan",
    "build",
    "cxx_compiler",
    "default_root",
    "import_module_at",
    "include_folders",
    "load_shared",
]

STANDARD = "-std=c++17"
_SOURCES = (".cpp", ".cc", ".cxx", ".c++", ".c", ".C")
_INCLUDED = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
#: libraries that this process has loaded, by the names of their modules: where, and of what they were made
_loaded: dict[str, tuple[str, str]] = {}
_modules: dict[str, Any] = {}


def cxx_compiler() -> list[str]:
    """The command of a C++ compiler: `CXX`, else g++, c++, clang++.

    Raises RuntimeError where there is none.
    """
    named = os.environ.get("CXX")
    command = shlex.split(named) if named else []
    for name in command[:1] or ("g++", "c++", "clang++"):
        path = programs.find_program(name)
        if path is not None:
            return [path, *command[1:]]
    fail(
        RuntimeError,
        "cpp_extension",
        "a C++ compiler was required (g++, c++ or clang++ on PATH, or named by CXX)",
        named or "none",
        hint="apt-get install g++",
    )


def include_folders() -> list[str]:
    """The folders of headers that every extension is compiled with."""
    found = [INCLUDE, generated()]
    pybind = importlib.util.find_spec("pybind11")
    if pybind is not None and pybind.origin is not None:
        found.append(os.path.join(os.path.dirname(pybind.origin), "include"))
    return [*found, sysconfig.get_paths()["include"]]


def default_root() -> str:
    """Where extensions are built: `TORCH_EXTENSIONS_DIR`, else a folder of facula's cache."""
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    return os.path.expanduser(named) if named else os.path.join(cache.directory(), "extensions")


class Plan:
    """What a library is made of."""

    def __init__(
        self,
        name: str,
        sources: Sequence[str],
        folder: str | None,
        cflags: Sequence[str] = (),
        ldflags: Sequence[str] = (),
        includes: Sequence[str] = (),
    ) -> None:
        #: the module's name, which `settle` may give a number: a process has one module of a name
        self.name = name
        self.sources = [os.path.abspath(source) for source in sources]
        self.folder = folder or os.path.join(default_root(), name)
        self.includes = [*(os.path.abspath(path) for path in includes), *include_folders()]
        self.ldflags = list(ldflags)
        self.compiler = cxx_compiler()
        # without the least optimization a call is ten times as long as what it calls
        self.own_flags = [
            STANDARD, "-O1", "-fPIC", "-DTORCH_API_INCLUDE_EXTENSION_H",
            "-Wno-attributes", *cflags,
        ]  # fmt: skip
        for source in self.sources:
            _check_source(source)

    @property
    def flags(self) -> list[str]:
        """The compiler's flags."""
        return [f"-DTORCH_EXTENSION_NAME={self.name}", *self.own_flags]

    @property
    def path(self) -> str:
        """Where the library is."""
        return os.path.join(self.folder, f"{self.name}.so")

    def settle(self) -> str:
        """Takes the first name that stands for nothing else in this process; gives the digest."""
        base = self.name
        for version in itertools.count():
            if version:
                self.name = f"{base}_v{version}"
            made = self.path, self.digest()
            if _loaded.get(self.name, made) == made:
                _loaded[self.name] = made
                return made[1]
        raise AssertionError

    def digest(self) -> str:
        """What tells this library from any other."""
        made = hashlib.sha256()
        status = os.stat(self.compiler[0])
        parts = (
            self.compiler, status.st_size, status.st_mtime_ns, self.flags, self.ldflags,
            self.includes, header_digest(), sys.version, sys.platform,
        )  # fmt: skip
        made.update(repr(parts).encode())
        for path, text in sorted(_texts(self.sources).items()):
            made.update(path.encode() + b"\0" + text + b"\0")
        return made.hexdigest()[:32]


def _check_source(source: str) -> None:
    if source.endswith((".cu", ".cuh", ".sycl", ".mm")):
        fail(
            RuntimeError,
            "cpp_extension",
            "sources in C++ for the CPU were required",
            source,
            hint="leave the CUDA sources out: extensions run on the CPU",
        )
    if not os.path.isfile(source):
        fail(
            FileNotFoundError,
            "cpp_extension",
            "source files that exist were required",
            source,
            hint="give their paths from the folder in which the program runs",
        )
    if not source.endswith(_SOURCES):
        required = f"a source file of C++ was required ({' '.join(_SOURCES)})"
        fail(ValueError, "cpp_extension", required, source, hint="rename it")


def _texts(sources: Sequence[str]) -> dict[str, bytes]:
    """Sources, and what they include by quotes from beside themselves, by their paths."""
    found: dict[str, bytes] = {}
    waiting = list(sources)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        with open(path, "rb") as file:
            found[path] = file.read()
        for name in _INCLUDED.findall(found[path]):
            beside = os.path.normpath(os.path.join(os.path.dirname(path), os.fsdecode(name)))
            if os.path.isfile(beside):
                waiting.append(beside)
    return found


def build(plan: Plan, verbose: bool = False) -> str:
    """The path of the library of a plan, made where it is not there.

    Raises RuntimeError with the compiler's words.
    """
    digest = plan.settle()
    path = plan.path
    make_folder(plan.folder)
    with _locked(plan.folder, plan.name):
        if _kept_digest(path) != digest or not os.path.isfile(path):
            _make(plan, path, verbose)
            with (
                cache.write_atomically(f"{path}.digest") as temporary,
                open(temporary, "w") as file,
            ):
                file.write(digest)
        elif verbose:
            print(f"{plan.name}: {path} is up to date", file=sys.stderr)
    return path


def make_folder(folder: str) -> None:
    """A folder of this user's; what is loaded from it runs, so that nobody else may write there.

    Raises RuntimeError for a link, the folder of another user and one that is open to all.
    """
    hint = "set TORCH_EXTENSIONS_DIR, or give build_directory"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError as error:
        fail(
            RuntimeError,
            "cpp_extension",
            "a folder to build in was required",
            f"{folder} ({error.strerror})",
            hint,
        )
    if stat.S_ISLNK(status.st_mode):
        fail(
            RuntimeError,
            "cpp_extension",
            "a folder to build in was required",
            f"{folder}, which is a link",
            hint,
        )
    if status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
        fail(RuntimeError, "cpp_extension", "a folder that nobody else writes to was required",
             f"{folder} (of user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})", hint)  # fmt: skip
    if os.path.realpath(folder).startswith(os.path.realpath(cache.directory())):
        os.close(trust.open_folder(folder, make=False))


def _kept_digest(path: str) -> str:
    try:
        with open(f"{path}.digest", encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


@contextlib.contextmanager
def _locked(folder: str, name: str) -> Iterator[None]:
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(os.path.join(folder, f".{name}.lock"), flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(plan: Plan, path: str, verbose: bool) -> None:
    """Compiles and links."""
    objects = [f"{path[:-3]}.{os.urandom(4).hex()}.{i}.o" for i in range(len(plan.sources))]
    folders = [part for folder in plan.includes for part in ("-isystem", folder)]
    commands = [
        [*plan.compiler, *plan.flags, *folders, "-c", source, "-o", made]
        for source, made in zip(plan.sources, objects, strict=True)
    ]
    jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
    try:
        with ThreadPoolExecutor(min(jobs, len(commands))) as pool:
            list(pool.map(lambda command: _run(plan, command, verbose), commands))
        with cache.write_atomically(path) as temporary:
            _run(
                plan, [*plan.compiler, *objects, "-shared", *plan.ldflags, "-o", temporary], verbose
            )
            os.chmod(temporary, 0o700)
    finally:
        for made in objects:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(made)


def _run(plan: Plan, command: list[str], verbose: bool) -> None:
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    said = done.stdout + done.stderr
    if verbose and said:
        print(said, file=sys.stderr)
    if done.returncode:
        lines = said.splitlines()
        shown = "\n".join(lines[:60])
        fail(
            RuntimeError,
            "cpp_extension",
            f"sources that the C++ compiler accepts were required (Error building extension '{plan.name}')",
            f"exit status {done.returncode}\n{shown}",
            hint=f"compiled with: {shlex.join(command)}",
        )


# ------------------------------------------------------------------ loading


def import_module_at(name: str, path: str) -> Any:
    """The module of a library of pybind11's."""
    if path in _modules:
        return _modules[path]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    with _registrations():
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    _modules[path] = module
    return module


def load_shared(path: str) -> None:
    """Loads a library that registers operators.

    A library that is loaded stays as it is. Raises OSError where the system does not take it, and what a
    registration raised.
    """
    with _registrations():
        # with the interpreter's lock: static objects of the library register operators
        ctypes.PyDLL(os.path.abspath(path), mode=ctypes.RTLD_LOCAL)


@contextlib.contextmanager
def _registrations() -> Iterator[None]:
    # lazily: the bridge needs all of facula, a build only the names of operators
    from facula.utils.cpp_extension import bridge

    yield
    bridge.raise_failures()
