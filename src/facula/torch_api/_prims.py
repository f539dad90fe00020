"""The primitive operators under PyTorch's name: see `facula.lower.prims`."""

from facula.lower.prims import PRIMS

from . import _prims_common as utils  # noqa: F401 - programs read it here

globals().update(PRIMS)

__all__ = sorted(PRIMS)  # pyright: ignore
