"""Bytes in and out of storages: the only place here that knows how the core holds memory.

Takes storages, buffers and files; gives storages, views of their bytes, and tensors on them.  Keeps
true: reading puts the bytes straight into the storage's own memory, and a storage made from a
mapped file keeps the mapping alive.
"""

from typing import Any

from facula import core

__all__ = [
    "allocate",
    "another_handle",
    "contents",
    "from_buffer",
    "identity",
    "moved",
    "tensor_on",
]


def allocate(nbytes: int) -> Any:
    """A storage of `nbytes` unset bytes on the CPU."""
    return core.UntypedStorage(nbytes)


def contents(storage: Any) -> memoryview:
    """The bytes of a storage, as a writable view; a copy where the storage is not on the CPU."""
    if storage.device.type != "cpu":
        storage = moved(storage, core.device("cpu"))
    return core.bytes_of(storage).cast("B")


def from_buffer(buffer: object) -> Any:
    """A storage on the memory of `buffer`, which it keeps alive."""
    return core.UntypedStorage.from_buffer(buffer)


def another_handle(storage: object) -> Any:
    """A second object for the same memory."""
    return tensor_on(storage, core.uint8, 0, (0,), (1,)).untyped_storage()


def identity(storage: Any) -> tuple[int, int]:
    """What two handles of one storage have in common."""
    return core.address_of(storage), storage.nbytes()


def tensor_on(storage: Any, dtype: core.dtype, offset: int, size: tuple, stride: tuple) -> Any:
    """A tensor of the given geometry on a storage; the caller has checked that it fits."""
    return core.empty((0,), dtype=dtype, device=storage.device).set_(storage, offset, size, stride)


def moved(storage: Any, device: core.device | str | int | None) -> Any:
    """The storage itself on the CPU, a copy on another device, one without bytes on `meta`."""
    if device == storage.device:
        return storage
    whole = tensor_on(storage, core.uint8, 0, (storage.nbytes(),), (1,))
    return whole.to(device).untyped_storage()
