"""The class of jagged tensors, and ways to make some, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from facula import core
from facula.torch_api.nested import nested_tensor_from_jagged
from facula.torch_api.nested.ragged import NestedInt, ragged_of
from facula.torch_api.nested.tensor import NestedTensor, packed

__all__ = [
    "NestedTensor",
    "buffer_from_jagged",
    "get_tensor_symint",
    "jagged_from_list",
    "nested_from_padded",
    "nested_view_from_values_offsets",
]


def get_tensor_symint(tensor: core.Tensor, *, coeff: int = 1) -> Any:
    """The size of the ragged dimension that these offsets describe."""
    return NestedInt(ragged_of(tensor, tuple(tensor.diff().tolist())), coeff)


def jagged_from_list(
    tensors: Any,
    offsets: object = None,
    dtype: core.dtype | None = None,
    device: core.device | str | int | None = None,
) -> Any:
    """A jagged tensor of tensors, and its offsets."""
    made = packed([t.to(device=device, dtype=dtype) for t in tensors], core.jagged)
    return made, made.offsets() if offsets is None else offsets


def buffer_from_jagged(jagged: Any) -> Any:
    """The rows of a jagged tensor."""
    return jagged.values()


def nested_from_padded(
    padded: core.Tensor, offsets: core.Tensor, ragged_idx: int = 1, sum_S: object = None
) -> Any:  # noqa: N803
    """The entries of a padded batch: as long as `offsets` says, along dimension `ragged_idx`."""
    lengths = offsets.diff().tolist()
    rows = [row.narrow(ragged_idx - 1, 0, n) for row, n in zip(padded, lengths, strict=True)]
    made = packed(rows, core.jagged, ragged_idx)
    made._lengths_of_entries = ragged_of(offsets, tuple(lengths))
    return made


def nested_view_from_values_offsets(
    values: Any,
    offsets: Any,
    ragged_idx: int = 1,
    min_seqlen: object = None,
    max_seqlen: object = None,
) -> Any:
    """A jagged tensor on rows."""
    return nested_tensor_from_jagged(values, offsets, jagged_dim=ragged_idx)
