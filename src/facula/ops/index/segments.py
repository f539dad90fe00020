"""Reductions of consecutive segments: `segment_reduce`.

Takes data and, along one axis, the lengths of segments or the offsets at which they start and end.
Gives one value a segment. Keeps true: segments may be empty (their value is `initial`, or the
reduction's neutral element; NaN for a mean); the gradient of an extreme goes to all that equal it in equal
parts, where NaN equals NaN, and that of a product is the product of the other elements.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.table.registry import F, composite, operator


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
        # lazily: import reads little code
        from facula.ops.forms.on_demand import segment_values

        out.copy_(segment_values(out.shape, data, reduce, segment, lengths, axis, initial))

    def backward(grad, data, reduce, segment, lengths, axis, initial, result):
        # lazily: import reads little code
        from facula.ops.forms.on_demand import segment_gradient

        found = segment_gradient(grad, data, reduce, segment, lengths, axis, initial, result)
        return found, None, None


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
    # lazily: import reads little code
    from facula.ops.forms.on_demand import reduced_by_segments

    return reduced_by_segments(data, reduce, lengths, indices, offsets, axis, unsafe, initial)
