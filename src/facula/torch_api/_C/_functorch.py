"""Tensors inside of `vmap`, under the names of PyTorch's extension module.

Takes tensors. Gives whether one stands for the entries of a batch, and what lies behind it.
Keeps true: re-exports of `facula.autograd.transforms`; a level is the number of its `vmap`.
"""

from __future__ import annotations

from facula import core
from facula.autograd.transforms.batching import EntryByEntry
from facula.autograd.transforms.levels import BatchedTensor
from facula.autograd.transforms.vmapping import add_batch_dim as _add_batch_dim
from facula.autograd.transforms.vmapping import remove_batch_dim as _remove_batch_dim

__all__ = [
    "_add_batch_dim",
    "_is_vmap_fallback_enabled",
    "_remove_batch_dim",
    "_set_vmap_fallback_enabled",
    "_set_vmap_fallback_warning_enabled",
    "get_unwrapped",
    "is_batchedtensor",
    "is_functorch_wrapped_tensor",
    "is_legacy_batchedtensor",
    "maybe_get_bdim",
    "maybe_get_level",
]


def is_batchedtensor(tensor: core.Tensor) -> bool:
    """Whether a tensor stands for the entries of a batch."""
    return isinstance(tensor, BatchedTensor)


def is_legacy_batchedtensor(tensor: core.Tensor) -> bool:
    """Whether a tensor belongs to the `vmap` of PyTorch's first versions; there is one `vmap` here."""
    return False


#: gradients and tangents need no wrapper here: those of `vmap` are the only ones
is_functorch_wrapped_tensor = is_batchedtensor


def get_unwrapped(tensor: core.Tensor) -> core.Tensor:
    """The whole batch behind an entry; any other tensor as it is."""
    return tensor.value if isinstance(tensor, BatchedTensor) else tensor


def maybe_get_bdim(tensor: core.Tensor) -> int:
    """The dimension of the batch behind an entry; -1 for any other tensor."""
    return tensor.batch_dim if isinstance(tensor, BatchedTensor) else -1


def maybe_get_level(tensor: core.Tensor) -> int:
    """The level of the `vmap` that an entry belongs to; -1 for any other tensor."""
    return tensor.level if isinstance(tensor, BatchedTensor) else -1


def _is_vmap_fallback_enabled() -> bool:
    """Whether an operator without a rule for batches runs once for each entry."""
    return EntryByEntry.enabled


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Allow, or forbid with a RuntimeError, that such an operator runs once for each entry."""
    EntryByEntry.enabled = bool(enabled)


def _set_vmap_fallback_warning_enabled(enabled: bool) -> None:
    """Whether the first such run of an operator is announced by a warning."""
    EntryByEntry.warns = bool(enabled)
