"""From C text to a shared library, once.

Takes C text that includes `facula_abi.h` and nothing but the standard headers; gives the path of a
shared library. Keeps true: the same text, flags and compiler give the same file from the disk
cache, compiled at most once per machine however many processes ask; a failure names the command,
the compiler's first complaint and the file to look at.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import shlex
import sys
import threading
from collections.abc import Callable, Sequence

from facula.core import config
from facula.core.errors import fail, message
from facula.runtime import cache, cpu_features, programs

__all__ = [
    "CompileError",
    "begin_library",
    "compile_library",
    "library",
    "compiler_command",
    "default_flags",
    "find_compiler",
    "graph_flags",
    "header_digest",
    "include_folder",
]

# no -ffast-math and no -fassociative-math: they remove the rounding steps that kernels rely on
OPTIMIZATION = (
    "-O3",
    "-fPIC",
    "-fopenmp-simd",
    "-fno-ipa-icf",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-std=gnu11",
    "-w",
)


class CompileError(RuntimeError):
    """The C compiler is missing or rejected a kernel."""


def include_folder() -> str:
    """The folder that holds `facula_abi.h`."""
    return os.path.join(
        os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "core", "include"
    )


def find_compiler() -> list[str] | None:
    """The command of a C compiler: `CC`, else gcc, cc, clang, else the `ziglang` package; None
    where there is none.
    """
    named = config.get("compiler")
    if named:
        return shlex.split(named)
    for name in ("gcc", "cc", "clang"):
        path = programs.find_program(name)
        if path:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def find_cross_compiler(machine: str) -> list[str] | None:
    """The command of a C compiler for another architecture: `FACULA_CROSS_CC`, else the one that
    distributions name after it, else the `ziglang` package; None where there is none.
    """
    named = config.get("cross_compiler")
    if named:
        return shlex.split(named)
    path = programs.find_program(f"{machine}-linux-gnu-gcc")
    if path:
        return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu"]
    return None


def compiler_command(machine: str | None = None) -> list[str]:
    """The command of a C compiler for an architecture (this machine's), and what to do where there
    is none."""
    if machine is not None and machine != cpu_features.architecture():
        command = find_cross_compiler(machine)
        if command is None:
            fail(
                CompileError,
                "compile",
                f"a C compiler for {machine} must be on PATH ({machine}-linux-gnu-gcc), or named by "
                "FACULA_CROSS_CC",
                got="none",
                hint=f"apt-get install gcc-{machine.replace('_', '-')}-linux-gnu, or pip install ziglang",
            )
        return command
    command = find_compiler()
    if command is None:
        fail(
            CompileError,
            "compile",
            "a C compiler must be on PATH (gcc, cc or clang), or named by CC",
            got="none",
            hint="pip install ziglang",
        )
    return command


@functools.lru_cache(maxsize=8)
def _identity(command: tuple[str, ...]) -> str:
    """What tells one compiler from another without running it: its file, size and time."""
    if _is_zig(command):
        from importlib.metadata import version

        return f"ziglang {version('ziglang')}"
    path = programs.find_program(command[0])
    if path is None:
        fail(
            CompileError,
            "compile",
            "CC must name a program that exists",
            got=command[0],
            hint="unset CC, or set it to gcc or clang",
        )
    status = os.stat(path)
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns} {' '.join(command[1:])}"


@functools.lru_cache(maxsize=1)
def header_digest() -> bytes:
    """What tells one version of `facula_abi.h`, all that a kernel includes of ours, from another.

    The core's own headers stand beside it and count for no kernel.
    """
    with open(os.path.join(include_folder(), "facula_abi.h"), "rb") as file:
        return hashlib.sha256(file.read()).digest()


def default_flags(variant: str | None = None) -> tuple[str, ...]:
    """The flags for a kernel library of one variant (default: this machine's)."""
    return (*OPTIMIZATION, *cpu_features.march_flags(variant or cpu_features.detected()))


def graph_flags() -> tuple[str, ...]:
    """The flags for the kernels of a compiled graph on this machine.

    At -O3 gcc jams the loops of reductions so that their lanes go through memory; at -O2 alone it
    does not unroll the loop over the lanes, which has the same effect.
    """
    return (*default_flags(), "-O2", "-fpeel-loops", "-fvect-cost-model=dynamic")


def _is_zig(command: Sequence[str]) -> bool:
    return tuple(command[1:3]) == ("-m", "ziglang")


def spelled_for(command: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """The flags as the compiler knows them: Zig names a processor and its features in one."""
    if not _is_zig(command):
        return tuple(flags)
    processor, features, others = "", [], []
    for flag in flags:
        if flag.startswith("-march="):
            name = flag.removeprefix("-march=")
            processor = name.replace("-", "_") if name.startswith("x86-64") else "generic"
        elif flag.startswith(("-mavx", "-mamx", "-mfma", "-mf16c")):
            features.append(flag.removeprefix("-m"))
        else:
            others.append(flag)
    if processor:
        others.append("-mcpu=" + "+".join([processor, *features]))
    return tuple(others)


def compile_library(c_text: str, *, flags: Sequence[str] | None = None, fresh: bool = False) -> str:
    """Compiles C text to a shared library, or finds it in the cache.

    `flags` replaces the default flags (`default_flags()`), which suit this machine's variant.
    `fresh` compiles in any case.
    Raises `CompileError` with the command, the first error and the file to look at.
    """
    found = library(c_text, flags=flags, fresh=fresh)
    found.close()
    return found.path


def library(c_text: str, *, flags: Sequence[str] | None = None, fresh: bool = False) -> cache.Entry:
    """As `compile_library`; gives the open file, which is to be loaded by its `loadable()`."""
    key, make = _job(c_text, flags, fresh)
    return cache.entry("kernels", key, ".so", make)


def _job(
    c_text: str, flags: Sequence[str] | None, fresh: bool
) -> tuple[str, Callable[[str], None]]:
    """The name of a library in the cache, and what makes it."""
    command = compiler_command()
    chosen = spelled_for(command, default_flags() if flags is None else flags)
    digest = hashlib.sha256()
    for part in (_identity(tuple(command)), "\0".join(chosen), c_text):
        digest.update(part.encode())
        digest.update(b"\0")
    digest.update(header_digest())
    if fresh:
        digest.update(os.urandom(16))

    def make(path: str) -> None:
        _compile([*command, *chosen], c_text, path)

    return digest.hexdigest()[:40], make


def begin_library(
    c_text: str, *, flags: Sequence[str] | None = None, fresh: bool = False
) -> Callable[[], cache.Entry]:
    """Starts `library` in the background; gives what waits for it, and raises what it raised."""
    key, make = _job(c_text, flags, fresh)
    known = cache.find("kernels", key, ".so")
    if known is not None:
        return lambda: known
    found: list[cache.Entry] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.append(cache.entry("kernels", key, ".so", make))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="facula-compile", daemon=True)
    thread.start()

    def wait() -> cache.Entry:
        thread.join()
        if errors:
            raise errors[0]
        return found[0]

    return wait


def _compile(command: list[str], c_text: str, output: str) -> None:
    """Runs the compiler on text, into `output`.

    The text goes by way of a file: to feed a pipe takes a call of the system for every page, and in
    a thread beside a busy one each of these waits for its turn.
    """
    source = os.path.splitext(output)[0] + ".c"
    full = [*command, "-shared", f"-I{include_folder()}", source, "-o", output, "-lm"]
    try:
        _write(source, c_text)
        status, errors = programs.run(full)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(source)
    if status != 0:
        name = f"{hashlib.sha256(c_text.encode()).hexdigest()[:16]}.c"
        kept = os.path.join(cache.directory(), "failed", name)
        with cache.write_atomically(kept) as temporary:
            _write(temporary, c_text)
        shown = [kept if part == source else part for part in full]
        _report(shown, status, errors, kept)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _report(full: list[str], status: int, errors: str, source: str) -> None:
    lines = [line for line in errors.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line), lines[0] if lines else "no output")
    shown = shlex.join(full)
    raise CompileError(
        message(
            "compile",
            "the C compiler must accept the kernel",
            got=f"exit status {status}, {first.strip()}",
            hint=f"look at {source}, compiled with: {shown}",
        )
    )
