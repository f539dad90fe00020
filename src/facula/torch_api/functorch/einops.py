"""`rearrange` where the `functorch` package has it."""

from .._rearrange import rearrange

__all__ = ["rearrange"]
