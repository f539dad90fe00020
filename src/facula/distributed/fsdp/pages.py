"""Pages of memory that go from tensors which are not in use to those that are about to be.

Takes: tensors whose memory stays where it is. Gives: `Span`, the whole pages of a tensor, and `move`.
Keeps true: pages move without a copy, since addresses are all that changes; where they came from there is memory
as before, whose elements are lost; where the system cannot move pages nothing has changed, and `move` says so.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, NamedTuple

from facula import core

__all__ = ["LEAST", "Span", "move", "span_of"]

#: bytes below which new pages cost no more than to move some
LEAST = 256 << 10
#: what the system is told: any place will do; at this place; the old place stays mapped
_ANY, _FIXED, _KEEP = 1, 2, 4
_FAILED = ctypes.c_void_p(-1).value
#: other threads of Python wait meanwhile
_library = ctypes.PyDLL(None, use_errno=True)


class Span(NamedTuple):
    """Whole pages: where they begin, and how many bytes they have."""

    start: int
    size: int


def span_of(tensor: Any) -> Span:
    """The whole pages of a dense tensor: of tensors of one size as many, wherever they begin, so that those of one are
    mapped together when another had them.

    Args:
        tensor: on the processor.
    """
    first = -(-core.address_of(tensor.untyped_storage()) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = (tensor.numel() * tensor.element_size() + 1) // mmap.PAGESIZE - 1
    return Span(first, max(pages, 0) * mmap.PAGESIZE)


def _function() -> Any:
    """`mremap`, where it is."""
    found = getattr(_library, "mremap", None)
    if found is not None:
        found.restype = ctypes.c_void_p
        found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]  # fmt: skip
    return found


_mremap = _function()


def move(source: int, target: int, size: int) -> bool:
    """Have the pages of one place at another, whose own are lost; gives whether that was done.

    They go by a place of their own: what can fail, such as pages that were mapped one by one, fails before the
    target is touched.

    Args:
        source, target: addresses of whole pages in private memory.
        size: how many bytes.
    """
    if _mremap is None:
        return False
    between = _mremap(source, size, size, _ANY | _KEEP, None)
    if between in (None, _FAILED):
        return False
    if _mremap(between, size, size, _ANY | _FIXED, target) == target:
        return True
    _library.munmap(ctypes.c_void_p(between), ctypes.c_size_t(size))
    return False
