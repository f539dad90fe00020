"""Reductions of consecutive segments: `segment_reduce`.

Takes data and, along one axis, the lengths of segments or the offsets at which they start and end.
Gives one value a segment. Keeps true: segments may be empty (their value is `initial`, or the
reduction's neutral element; NaN for a mean); gradients are those of `scatter_reduce`.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.ops.registry import F, composite

_KINDS = {"sum": (0.0, "sum"), "mean": (0.0, "sum"), "prod": (1.0, "prod")}
_KINDS |= {"max": (-float("inf"), "amax"), "min": (float("inf"), "amin")}


def _lengths_of(data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> Any:
    """The lengths, checked unless `unsafe`."""
    op = "segment_reduce"
    if (lengths is None) == (offsets is None):
        fail(
            RuntimeError,
            op,
            "Expected exactly one of lengths and offsets to be defined",
            hint="lengths=[2, 3] and offsets=[0, 2, 5] mean the same",
        )
    given = lengths if lengths is not None else offsets
    if given.dim() != axis + 1 or tuple(given.shape[:axis]) != tuple(data.shape[:axis]):
        fail(
            RuntimeError,
            op,
            f"Expected lengths or offsets with the first {axis} sizes of data",
            list(given.shape),
            hint=f"they begin with the sizes {list(data.shape[:axis])}, the last is the number of "
            "segments",
        )
    if offsets is not None:
        if given.shape[-1] < 1:
            fail(
                RuntimeError,
                op,
                "Expected offsets to have at least 1 element",
                list(given.shape),
                hint="offsets starts with 0",
            )
        lengths = offsets.diff(dim=-1)
    if not (unsafe or given.is_meta):
        _check_lengths(op, lengths, data.shape[axis])
    return lengths


def _check_lengths(op: str, lengths: Any, size: int) -> None:
    if lengths.numel() and bool((lengths < 0).any()):
        fail(RuntimeError, op, "lengths contains negative value!", hint="0 is an empty segment")
    if bool((lengths.sum(-1) != size).any()):
        fail(
            RuntimeError,
            op,
            "Expected all rows of lengths along axis to sum to data.size(axis)",
            size,
            hint="make the last segment longer or shorter",
        )


def _check_reduced(data: Any, reduce: str, indices: Any, op: str) -> None:
    if reduce not in _KINDS:
        fail(
            RuntimeError,
            op,
            "reduce has to be one of sum, mean, max, min or prod",
            reduce,
            hint="reduce='sum' adds up",
        )
    if indices is not None:
        fail(
            RuntimeError,
            op,
            "indices based reduction is not supported yet.",
            hint="give lengths or offsets instead",
        )
    if not data.dim() or data.numel() == 0 or not data.is_floating_point():
        fail(
            RuntimeError,
            op,
            "Expected a non-empty floating-point tensor with dimensions",
            list(data.shape),
            hint="data.float() converts, data.reshape(1) has a dimension; look at data.numel() too",
        )


@composite(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
    "Tensor? offsets=None, "
    "int axis=0, bool unsafe=False, Number? initial=None) -> Tensor",
    names=("segment_reduce", "_segment_reduce"),
    out=False,
)
def segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """Reduce consecutive segments along `axis` by sum, mean, max, min or prod.

    Example:
        >>> facula.segment_reduce(facula.tensor([1.0, 2.0, 5.0]), "sum", lengths=facula.tensor([2, 1]))
        tensor([3., 5.])
    """
    op = "segment_reduce"
    _check_reduced(data, reduce, indices, op)
    axis = axis % data.dim()
    lengths = _lengths_of(data, lengths, offsets, axis, unsafe)
    count, rest = lengths.shape[-1], data.dim() - axis - 1
    places = (
        F.arange(data.shape[axis], device=data.device).expand(data.shape[: axis + 1]).contiguous()
    )
    segment = F.searchsorted(lengths.cumsum(-1), places, right=True)
    segment = segment.reshape([*segment.shape, *[1] * rest]).expand(data.shape)
    neutral, scatter = _KINDS[reduce]
    shape = [
        *data.shape[:axis],
        count + 1,
        *data.shape[axis + 1 :],
    ]  # the last holds what no segment does
    start = F.full(
        shape, neutral if initial is None else initial, dtype=data.dtype, device=data.device
    )
    result = start.scatter_reduce(axis, segment, data, scatter).narrow(axis, 0, count)
    if reduce != "mean":
        return result
    size = lengths.reshape([*lengths.shape, *[1] * rest]).to(data.dtype)
    return result / size if initial is None else F.where(size > 0, result / size, result)
