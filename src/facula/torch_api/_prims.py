"""The primitive operators under PyTorch's name: see `facula.lower.prims`."""

from facula.lower.prims import PRIMS

globals().update(PRIMS)

__all__ = sorted(PRIMS)  # pyright: ignore
