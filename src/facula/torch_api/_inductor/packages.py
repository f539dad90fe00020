"""Packages of exported programs under PyTorch's names.

Takes: exported programs. Gives: `aoti_compile_and_package`, `aoti_load_package`, `aot_compile`.
Keeps true: it holds nothing of its own: `facula.deploy.aot` does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from facula.core.errors import fail
from facula.deploy.aot import LoadedPackage, compile_and_package, load_package
from facula.deploy.package import chosen_options

from .._export import aot_compile as library_of


def aoti_compile_and_package(
    exported_program: Any,
    _deprecated_unused_args: object = None,
    _deprecated_unused_kwargs: object = None,
    *,
    package_path: Any = None,
    inductor_configs: dict[str, Any] | None = None,
    variants: Sequence[str] | None = None,
) -> Any:
    """Compile an exported program into one file of native code, weights and a manifest; gives its path.

    The file runs without Python and without a compiler (`docs/packages.md`).

    Args:
        exported_program: what `export.export` gave.
        package_path: where it is to be, named `.pt2`, or a file that is open for writing; default: a folder among
            the temporary files, the same for equal packages.
        inductor_configs: options of the compiler, `aot_inductor.output_path`, and `aot_inductor.metadata` (texts
            that `get_metadata` of the loaded package gives).
        variants: the instruction sets that it has code for, of one architecture or of several: `v2`, `v3`,
            `v4`, `neon` (which takes a cross compiler). Default: all of this machine's.
    """
    options, path, metadata = chosen_options(inductor_configs)
    package_path = path if package_path is None else package_path
    named = package_path is not None and not hasattr(package_path, "write")
    if named and not os.fspath(package_path).endswith(".pt2"):
        fail(
            ValueError,
            "aoti_compile_and_package",
            "a package_path that ends in .pt2 was required",
            os.fspath(package_path),
            hint="package_path='model.pt2'",
        )
    return compile_and_package(exported_program, package_path, options, variants, metadata)


def aoti_load_package(
    path: object, run_single_threaded: bool = False, device_index: int = -1
) -> LoadedPackage:
    """A package as a function of the module's arguments; any number of threads may call it.

    All arguments but the first are kept for PyTorch's API.

    Args:
        path: the file, or one that is open for reading.
        run_single_threaded: whether one thread alone calls it.
        device_index: -1: packages run on the CPU.
    """
    return load_package(path)


def aot_compile(
    gm: object,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    options: dict[str, Any] | None = None,
) -> str:
    """A module as a shared library for this processor; gives its path."""
    return library_of(gm, args, kwargs, options=options)
