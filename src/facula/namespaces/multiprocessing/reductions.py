"""How tensors and storages are sent to other processes, under PyTorch's names.

Takes: a tensor or a storage. Gives: a function and its arguments, which another process calls to get at the same
memory.
Keeps true: what is sent is the memory, see `shared_memory`.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from facula import core

from ..shared_memory import _reduce_storage, _reduce_tensor, _reduce_typed
from ..storage import TypedStorage

__all__ = ["StorageWeakRef", "init_reductions", "reduce_storage", "reduce_tensor"]

reduce_tensor, reduce_storage, reduce_typed_storage = _reduce_tensor, _reduce_storage, _reduce_typed


class StorageWeakRef:
    """Tells storages apart, and whether one is still there, without keeping it.

    Args:
        storage: a storage.

    Example:
        >>> from facula.multiprocessing.reductions import StorageWeakRef
        >>> x = facula.ones(2)
        >>> StorageWeakRef(x.untyped_storage()) == StorageWeakRef(x[0].untyped_storage())
        True
    """

    __slots__ = ("cdata",)

    def __init__(self, storage: Any) -> None:
        memory = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
        self.cdata = hash(memory)

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


def init_reductions() -> None:
    """Have Python's `multiprocessing` send tensors as their memory; it does as soon as both are loaded."""
    ForkingPickler.register(core.Tensor, reduce_tensor)
    ForkingPickler.register(core.UntypedStorage, reduce_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
