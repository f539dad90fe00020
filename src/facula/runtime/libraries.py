"""The kernel libraries that were built with the package.

Takes the folder `facula/_kernels`; gives the path of the library that suits this processor.  Keeps
true: the choice is made by file names alone, so that importing facula opens one library and reads
no other.
"""

from pathlib import Path

from facula.runtime import cpu_features

__all__ = ["kernel_folder", "kernel_library"]


def kernel_folder() -> Path:
    """Where the build puts the libraries, one per variant."""
    return Path(__file__).resolve().parent.parent / "_kernels"


def kernel_library() -> Path:
    """The library to load: `facula/_kernels/<variant>.so` for the richest variant that can run
    here.
    """
    folder = kernel_folder()
    available = [path.stem for path in folder.glob("*.so")]
    return folder / f"{cpu_features.choose(available)}.so"
