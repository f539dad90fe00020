"""The runtime of packaged models in C: its library and the program `facula-run`.

Takes: the sources in the folder `native`, an architecture. Gives: `runtime_library`, `runtime_program`: their
paths.
Keeps true: what the build left beside the kernel libraries is used; where there is nothing, and for another
architecture, both are compiled once a machine.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence

from facula.core.errors import fail
from facula.runtime import cache, cpu_features, programs
from facula.runtime.compile import CompileError, compiler_command, include_folder, spelled_for
from facula.runtime.libraries import kernel_folder

LIBRARY, PROGRAM = "libfacula_model.so", "facula-run"
_FLAGS = ("-O2", "-std=gnu11", "-fvisibility=hidden", "-pthread", "-w", "-s")


def source_folder() -> str:
    """The folder of the sources, with the header `facula_model.h`."""
    return os.path.join(os.path.dirname(os.path.realpath(__file__)), "native")


def command(sources: Sequence[str], output: str, *, shared: bool, machine: str) -> list[str]:
    """How the runtime is compiled."""
    compiler = compiler_command(machine)
    plain = cpu_features.march_flags(cpu_features.variants(machine)[0])
    kind = ["-shared", "-fPIC"] if shared else ["-rdynamic"]
    flags = spelled_for(compiler, [*_FLAGS, *plain])
    folder = source_folder()
    paths = [os.path.join(folder, name) for name in sources]
    found = [*compiler, *flags, *kind, f"-I{include_folder()}", f"-I{folder}", *paths]
    return [*found, "-o", output, "-lm", "-ldl"]


def build(folder: str) -> None:
    """Compile library and program into a folder."""
    for name in (LIBRARY, PROGRAM):
        _compile(name, os.path.join(folder, name), cpu_features.architecture())


def _compile(name: str, output: str, machine: str) -> None:
    shared = name == LIBRARY
    sources = ["facula_model.c"] if shared else ["facula_run.c", "facula_model.c"]
    status, errors = programs.run(command(sources, output, shared=shared, machine=machine))
    if status:
        first = next((line for line in errors.splitlines() if "error" in line), errors[:200])
        fail(
            CompileError,
            "package",
            "the C compiler must accept the runtime of packaged models",
            f"exit status {status}, {first.strip()}",
            hint="try another compiler: CC=gcc",
        )


@functools.cache
def _path(name: str, machine: str) -> str:
    built = os.path.join(kernel_folder(), name)
    own = machine == cpu_features.architecture()
    if own and os.access(built, os.R_OK):
        return built
    words = [name] if own else [name, *compiler_command(machine)]
    digest = hashlib.sha256("\0".join(words).encode())
    for folder in (source_folder(), include_folder()):
        for each in sorted(os.listdir(folder)):
            if each.endswith((".c", ".h")):
                with open(os.path.join(folder, each), "rb") as file:
                    digest.update(file.read())

    def make(path: str) -> None:
        _compile(name, path, machine)

    suffix = ".so" if name == LIBRARY else ".run"
    return cache.cached_file("runtime", digest.hexdigest()[:40], suffix, make)


def runtime_library(machine: str | None = None) -> str:
    """The path of the library, for this machine or another architecture."""
    return _path(LIBRARY, cpu_features.named_architecture(machine))


def runtime_program(machine: str | None = None) -> str:
    """The path of `facula-run`, for this machine or another architecture."""
    path = _path(PROGRAM, cpu_features.named_architecture(machine))
    if not os.access(path, os.X_OK):
        os.chmod(path, 0o700)
    return path
