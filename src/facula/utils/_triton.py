"""PyTorch's questions about Triton: whether the package is there, and a device that its kernels run on.

Takes: nothing. Gives: answers. Keeps true: facula writes its own kernels, so nothing here depends on them.
"""

from __future__ import annotations

from importlib.util import find_spec

from facula import accelerator

__all__ = ["has_triton", "has_triton_package"]


def has_triton_package() -> bool:
    """Whether the package `triton` is installed."""
    return find_spec("triton") is not None


def has_triton() -> bool:
    """Whether Triton is installed and an accelerator is there to run its kernels."""
    return has_triton_package() and accelerator.is_available()
