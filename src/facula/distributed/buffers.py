"""The elements of tensors as bytes, and back.

Takes: tensors. Gives: `memoryview`s of contiguous copies or of the tensors themselves.
Keeps true: no element is converted; a view keeps its tensor alive.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from facula import core
from facula.core.errors import fail

Tensor = core.Tensor

#: bytes of a page, and what `madvise` is told: the contents are of no use
_PAGE, _DONT_NEED = mmap.PAGESIZE, mmap.MADV_DONTNEED
_advise = ctypes.CDLL(None, use_errno=True).madvise
_advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def host(t: Tensor) -> Tensor:
    """A dense tensor in the memory of the processor with the same elements."""
    plain = t.detach()
    if plain.device.type != "cpu":
        plain = plain.cpu()
    return plain.contiguous()


class Bytes:
    """The bytes of a dense tensor."""

    def __init__(self, t: Tensor) -> None:
        if t.is_meta or getattr(t, "_is_fake", False):
            fail(NotImplementedError, "distributed", "tensors with elements were required", type(t).__name__,
                 hint="a program that is traced calls distributed._functional_collectives")  # fmt: skip
        self.tensor = t
        size = t.numel() * t.element_size()
        if size:
            held = (ctypes.c_ubyte * size).from_address(core.address_of(t))
            self.view = memoryview(held).cast("B")
        else:
            self.view = memoryview(bytearray())


def view_of(t: Tensor) -> memoryview:
    """The bytes of a dense tensor, to be used while the tensor lives."""
    return Bytes(t).view


def fill(t: Tensor, payload: Any) -> None:
    """Write bytes to any tensor of as many."""
    target = t.detach()
    if target.device.type == "cpu" and target.is_contiguous():
        view_of(target)[:] = payload
        core.count_unseen_write(target)
        return
    made = core.empty(tuple(t.shape), dtype=t.dtype)
    view_of(made)[:] = payload
    recording = core.set_grad_enabled(False)
    try:
        target.copy_(made)
    finally:
        core.set_grad_enabled(recording)


def begin_together(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors begin at the same place; not all devices' memory has addresses (`data_ptr()` is 0 there)."""
    if one.device != other.device:
        return False
    if one.data_ptr() or one.device.type in ("cpu", "meta") or getattr(one, "_is_fake", False):
        return one.data_ptr() == other.data_ptr()
    (held, first), (kept, second) = core.foreign_buffer(one), core.foreign_buffer(other)
    return held is kept and first == second


def tensor_of(payload: Any, like: Tensor) -> Tensor:
    """A tensor of one dimension, of these bytes."""
    size = len(payload) // like.element_size()
    made = core.empty((size,), dtype=like.dtype)
    view_of(made)[:] = payload
    return made


def give_back(t: Tensor) -> None:
    """Give the pages of an empty storage to the system. The address stays reserved, so that tensors on the storage
    need not be looked for; its elements are lost."""
    start = core.address_of(t.untyped_storage())
    size = t.numel() * t.element_size()
    first, last = -(-start // _PAGE) * _PAGE, (start + size) // _PAGE * _PAGE
    if first < last:
        _advise(first, last - first, _DONT_NEED)
