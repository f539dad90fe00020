"""`rearrange` where PyTorch defines it."""

from .._rearrange import rearrange

__all__ = ["rearrange"]
