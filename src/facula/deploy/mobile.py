"""Models for small machines: files of data alone, and a runtime with the kernels that they need.

Takes: a module and example inputs. Gives: `export_model`, `runtime_folder`, `kernels_of`.
Keeps true: a file has no native code, so that one file serves every processor; the runtime is one program
and one kernel library, which stand beside each other and need nothing else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from facula.deploy.aot import call_text, entries_of
from facula.deploy.kernels import VARIANTS, every_kernel, libraries
from facula.deploy.native import PROGRAM, runtime_program
from facula.deploy.package import write_package
from facula.deploy.programs import Source, compiled_parts
from facula.export import export
from facula.runtime import cache, cpu_features
from facula.runtime.cache import write_atomically
from facula.runtime.compile import find_compiler
from facula.runtime.libraries import kernel_folder
from facula.serialization.archive import read_entry

if TYPE_CHECKING:
    from facula.nn import Module


def export_model(model: Module, example_inputs: tuple[Any, ...], path: Any) -> str:
    """Write a model as one file of launches and weights; gives its path.

    Batch norms are folded and weights packed when the file is opened, as a compiled graph has them; what
    follows a convolution or a linear layer runs with it. Sizes are those of the examples.
    """
    program = export(model, tuple(example_inputs))
    parts = compiled_parts(Source(program), (), fuses=False)
    return write_package(path, {**entries_of(parts, ()), "call": call_text(program)}, "any")


def kernels_of(path: Any) -> list[str] | None:
    """The kernels that a file names; None where it is no such file."""
    try:
        with zipfile.ZipFile(path) as file:
            lines = read_entry(file, "program", os.path.getsize(path)).decode().splitlines()
    except (OSError, KeyError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return None
    # inputs, constants and kernels, each behind its number
    at = 1
    try:
        for _ in range(2):
            at += 1 + int(lines[at])
        return lines[at + 1 : at + 1 + int(lines[at])]
    except (IndexError, ValueError):
        return None


def runtime_folder(kernels: Iterable[str] | None = None, machine: str | None = None) -> str:
    """A folder with the program and a library of these kernels; None: of all that there are.

    A selection is compiled once a machine; without a compiler the library has all kernels. `machine` is the
    architecture that the runtime is for, which takes a cross compiler where it is another than this one.
    """
    machine = cpu_features.named_architecture(machine)
    own = machine == cpu_features.architecture()
    if own and (kernels is None or find_compiler() is None):
        return _whole()
    names = every_kernel(machine) if kernels is None else sorted(set(kernels))
    plainest = cpu_features.variants(machine)[0]
    variant = cpu_features.parts(cpu_features.detected())[0] if own else plainest
    program = runtime_program(machine)
    with open(program, "rb") as file:
        digest = hashlib.sha256("\0".join([variant, *names]).encode() + file.read())
    folder = _folder(digest)
    library = os.path.join(folder, f"{variant}.so")
    if not os.path.exists(library):
        made = libraries(names, {variant: []}, (variant,))[variant]
        _place_program(program, folder)
        with write_atomically(library) as temporary, open(temporary, "wb") as file:
            file.write(made)
    return folder


def _folder(digest: Any) -> str:
    folder = os.path.join(cache.directory(), "mobile", digest.hexdigest()[:32])
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _place_program(program: str, folder: str) -> None:
    target = os.path.join(folder, PROGRAM)
    with write_atomically(target) as temporary:
        shutil.copyfile(program, temporary)
        os.chmod(temporary, 0o755)


def _whole() -> str:
    """The program beside all prebuilt kernels."""
    program = runtime_program()
    with open(program, "rb") as file:
        folder = _folder(hashlib.sha256(kernel_folder().encode() + file.read()))
    if not os.path.exists(os.path.join(folder, PROGRAM)):
        _place_program(program, folder)
    for name in [f"{variant}.so" for variant in VARIANTS[cpu_features.architecture()]]:
        link = os.path.join(folder, name)
        if os.path.exists(os.path.join(kernel_folder(), name)) and not os.path.lexists(link):
            os.symlink(os.path.join(kernel_folder(), name), link)
    return folder
