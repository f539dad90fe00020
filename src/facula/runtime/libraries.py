"""The kernel libraries that were built with the package.

Takes the folder `facula/_kernels`; gives the paths of the libraries that suit this processor.  Keeps
true: the choice is made by file names alone, so that importing facula opens no other library.
"""

import os

from facula.runtime import cpu_features

__all__ = ["kernel_folder", "kernel_libraries", "kernel_variant"]


def kernel_folder() -> str:
    """Where the build puts the libraries, one per variant."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_kernels")


def kernel_variant() -> str:
    """The richest variant that is there and can run here."""
    try:
        names = os.listdir(kernel_folder())
    except FileNotFoundError:
        names = []
    return cpu_features.choose(name[: -len(".so")] for name in names if name.endswith(".so"))


def kernel_libraries() -> list[str]:
    """The libraries to load, in this order: `_kernels/<variant>.so`, and the one that it adds to."""
    folder = kernel_folder()
    return [os.path.join(folder, f"{name}.so") for name in cpu_features.parts(kernel_variant())]
