"""The kernel libraries that were built with the package.

Takes the folder `facula/_kernels`; gives the path of the library that suits this processor.  Keeps
true: the choice is made by file names alone, so that importing facula opens one library and reads
no other.
"""

import os

from facula.runtime import cpu_features

__all__ = ["kernel_folder", "kernel_library"]


def kernel_folder() -> str:
    """Where the build puts the libraries, one per variant."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_kernels")


def kernel_library() -> str:
    """The library to load: `_kernels/<variant>.so` for the richest variant that can run here."""
    folder = kernel_folder()
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []
    available = [name[: -len(".so")] for name in names if name.endswith(".so")]
    return os.path.join(folder, f"{cpu_features.choose(available)}.so")
