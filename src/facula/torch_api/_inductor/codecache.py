"""`facula._inductor.codecache`: the disk cache under PyTorch's name.

Takes: nothing. Gives: `cache_dir`, `clear`.
Keeps true: the cache is that of `facula.runtime.cache`.
"""

from __future__ import annotations

from facula.runtime.cache import clear, directory

__all__ = ["cache_dir", "clear"]


def cache_dir() -> str:
    """The folder of the disk cache."""
    return str(directory())
