"""PyTorch's first way to define operators, which `library.custom_op` replaced (`impl.py`)."""

from . import impl

__all__ = ["impl"]
