"""Reductions of consecutive segments: `segment_reduce`.

Takes data and, along one axis, the lengths of segments or the offsets at which they start and end.
Gives one value a segment. Keeps true: segments may be empty (their value is `initial`, or the
reduction's neutral element; NaN for a mean); the gradient of an extreme goes to all that equal it in equal
parts, where NaN equals NaN, and that of a product is the product of the other elements.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.registry import F, composite, operator

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
    if not data.dim() or not data.is_floating_point():
        fail(
            RuntimeError,
            op,
            "Expected a floating-point tensor with dimensions",
            f"{list(data.shape)} of {data.dtype}",
            hint="data.float() converts, data.reshape(1) has a dimension",
        )


def _spread(values: Any, segment: Any, axis: int) -> Any:
    """For each element what its segment has; those that are in no segment read the last one's."""
    return values.gather(axis, segment.clamp(max=values.shape[axis] - 1))


def _counted(chosen: Any, segment: Any, axis: int, result: Any) -> Any:
    """For each element how many of its segment are chosen."""
    shape = [*result.shape[:axis], result.shape[axis] + 1, *result.shape[axis + 1 :]]
    counts = F.zeros(shape, dtype=core.int64, device=chosen.device)
    return counts.scatter_add(axis, segment, chosen.to(core.int64)).gather(axis, segment)


def _shifted(x: Any, by: int, axis: int, fill: float) -> Any:
    """The element `by` places before each."""
    shape = [*x.shape]
    shape[axis] = by
    first = F.full(shape, fill, dtype=x.dtype, device=x.device)
    return F.cat([first, x.narrow(axis, 0, x.shape[axis] - by)], axis)


def _products_before(data: Any, segment: Any, axis: int) -> Any:
    """The product of the elements before each one in its segment, in steps that double."""
    found, by = data, 1
    while by < data.shape[axis]:
        same = segment == _shifted(segment, by, axis, -1)
        found = found * F.where(same, _shifted(found, by, axis, 1.0), 1.0)
        by *= 2
    same = segment == _shifted(segment, 1, axis, -1)
    return F.where(same, _shifted(found, 1, axis, 1.0), 1.0)


def _product_of_others(data: Any, segment: Any, axis: int) -> Any:
    """The product of the other elements of each element's segment; nothing is divided by."""
    before = _products_before(data, segment, axis)
    behind = _products_before(data.flip([axis]), segment.flip([axis]), axis).flip([axis])
    return before * behind


def _of_batch(
    batch: Any, data: Any, reduce: str, segment: Any, lengths: Any, axis: int, initial: Any
) -> Any:
    """The entries of a batch side by side, in front of the axis."""
    parts = (batch.full(x) for x in (data, segment, lengths))
    data, segment, lengths = parts
    return F._segment_values(data, reduce, segment, lengths, axis + 1, initial)


@operator(
    "_segment_values(Tensor data, str reduce, Tensor segment, Tensor lengths, int axis, "
    "Number? initial) -> Tensor",
    names=(),
    out=False,
)
class _segment_values:
    """A value for each segment; `segment` says for each element in which it is, past the last: in none."""

    vmap = _of_batch

    def meta(data, reduce, segment, lengths, axis, initial):
        shape = [*data.shape[:axis], lengths.shape[axis], *data.shape[axis + 1 :]]
        return core.empty(shape, dtype=data.dtype, device=data.device)

    def cpu(out, data, reduce, segment, lengths, axis, initial):
        neutral, scatter = _KINDS[reduce]
        count = out.shape[axis]
        # the last holds what no segment does
        shape = [*out.shape[:axis], count + 1, *out.shape[axis + 1 :]]
        start = F.full(shape, neutral if initial is None else initial, dtype=data.dtype)
        result = start.scatter_reduce(axis, segment, data, scatter).narrow(axis, 0, count)
        if reduce == "mean":
            size = lengths.to(data.dtype)
            mean = result / size
            result = mean if initial is None else F.where(size > 0, mean, result)
        out.copy_(result)

    def backward(grad, data, reduce, segment, lengths, axis, initial, result):
        return (
            _gradient(grad, data, reduce, segment, lengths, axis, initial, result),
            None,
            None,
        )


def _gradient(
    grad: Any,
    data: Any,
    reduce: str,
    segment: Any,
    lengths: Any,
    axis: int,
    initial: Any,
    result: Any,
) -> Any:
    """What each element of the data contributes."""
    if 0 in (result.shape[axis], data.shape[axis]):
        return F.zeros_like(data)
    grad = F.where(segment < result.shape[axis], _spread(grad, segment, axis), 0.0)
    if reduce == "sum":
        return grad
    if reduce == "mean":
        size = lengths.expand(result.shape).to(data.dtype)
        return grad / _spread(size, segment, axis)
    if reduce == "prod":
        others = _product_of_others(data, segment, axis)
        return grad * (others if initial is None else others * initial)
    best = _spread(result, segment, axis)
    chosen = (data == best) | (data.isnan() & best.isnan())
    count = _counted(chosen, segment, axis, result).clamp(min=1)
    return F.where(chosen, grad / count.to(grad.dtype), 0.0)


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
    rest = data.dim() - axis - 1
    places = (
        F.arange(data.shape[axis], device=data.device).expand(data.shape[: axis + 1]).contiguous()
    )
    segment = F.searchsorted(lengths.cumsum(-1), places, right=True)
    segment = segment.reshape([*segment.shape, *[1] * rest]).expand(data.shape)
    lengths = lengths.reshape([*lengths.shape, *[1] * rest])
    return F._segment_values(data, reduce, segment, lengths, axis, initial)
