"""How this build of facula was made, as text.

Takes nothing. Gives `show`, `parallel_info` and the flags of the C compiler. Keeps true: only what
this process really uses is named.
"""

from __future__ import annotations

from facula import core
from facula.runtime.compile import default_flags
from facula.runtime.libraries import kernel_libraries

from .version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The version, the kernel library and the instruction set in use."""
    return f"facula {__version__}\n  - kernels: {', '.join(kernel_libraries())}\n"


def _cxx_flags() -> str:
    """The flags with which kernels are compiled on this machine."""
    return " ".join(default_flags())


def parallel_info() -> str:
    """How many threads compute."""
    return f"facula's thread pool: {core.get_num_threads()} threads\n"
