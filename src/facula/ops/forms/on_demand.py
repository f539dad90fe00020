"""Bodies of operators that few programs call: read when they are called, as importing the package shall be short.

Takes the operators' arguments. Gives `reduced_by_segments`, `segment_values` and `segment_gradient` (of
`segment_reduce`), `largest_rows` (of `embedding_bag`), `variance_of`
(of `gaussian_nll_loss`), `refuse_quantized` (of gradients), and `attention_with_projections` (the body
of `_native_multi_head_attention`). Keeps true: gradients are made of operators, so they differentiate further.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table import batch_forms
from facula.ops.table.registry import F

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


def _check_reduced(data: Any, reduce: str, indices: object, op: str) -> None:
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


def reduced_by_segments(
    data: Any,
    reduce: str,
    lengths: Any,
    indices: object,
    offsets: object,
    axis: int,
    unsafe: bool,
    initial: object,
) -> Any:
    """The body of `segment_reduce`: checks, and in which segment each element is."""
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


def segment_values(
    shape_of_result: Any,
    data: Any,
    reduce: str,
    segment: object,
    lengths: Any,
    axis: int,
    initial: object,
) -> Any:
    """A value for each segment."""
    neutral, scatter = _KINDS[reduce]
    count = shape_of_result[axis]
    # the last holds what no segment does
    shape = [*shape_of_result[:axis], count + 1, *shape_of_result[axis + 1 :]]
    start = F.full(shape, neutral if initial is None else initial, dtype=data.dtype)
    result = start.scatter_reduce(axis, segment, data, scatter).narrow(axis, 0, count)
    if reduce == "mean":
        size = lengths.to(data.dtype)
        mean = result / size
        result = mean if initial is None else F.where(size > 0, mean, result)
    return result


def _spread(values: Any, segment: Any, axis: int) -> Any:
    """For each element what its segment has; those that are in no segment read the last one's."""
    return values.gather(axis, segment.clamp(max=values.shape[axis] - 1))


def _counted(chosen: Any, segment: object, axis: int, result: Any) -> Any:
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


def _products_before(data: Any, segment: object, axis: int) -> Any:
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


def segment_gradient(
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


def attention_with_projections(
    query: Any, key: object, value: object, embed_dim: int, num_head: int, qkv: Any, projection: Any, mask: Any,
    mask_type: int | None, need_weights: bool, average_attn_weights: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """Attention of `[batch, length, embed_dim]`, and its weights where they are wanted."""
    if embed_dim % num_head or query.dim() != 3 or query.shape[-1] != embed_dim:
        fail(
            RuntimeError,
            "_native_multi_head_attention",
            f"queries [batch, length, {embed_dim}] with a size that {num_head} heads divide were required",
            list(query.shape),
            hint="embed_dim is the last size of the query, num_head divides it",
        )
    parts = zip((query, key, value), qkv[0].chunk(3), qkv[1].chunk(3), strict=True)
    q, k, v = (
        F.linear(x, weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for x, weight, bias in parts
    )
    scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        if mask_type == 1:
            mask = mask[:, None, None, :]
        scores = scores.masked_fill(mask.to(core.bool_), -math.inf)
    weights = scores.softmax(-1)
    result = F.linear((weights @ v).transpose(1, 2).flatten(-2), *projection)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def largest_rows(weight: Any, indices: Any, bags: Any, padded: Any, sizes: Any) -> Any:
    """For each bag and column, the row that the maximum comes from (0 in an empty bag)."""
    count, width = sizes.shape[0], weight.shape[1]
    rows = weight.detach().index_select(0, indices.to(core.int64))
    if padded is not None:
        rows = rows.masked_fill(padded.unsqueeze(1), -float("inf"))
    wide = bags.to(core.int64).unsqueeze(1).expand(rows.shape)
    top = F.full((count, width), -float("inf"), dtype=rows.dtype)
    top = top.scatter_reduce(0, wide, rows, "amax")
    hit = rows == top.gather(0, wide)
    if padded is not None:
        hit = hit & ~padded.unsqueeze(1)
    numbers = indices.unsqueeze(1).expand(rows.shape)
    far = weight.shape[0]
    first = F.full((count, width), far, dtype=indices.dtype)
    first = first.scatter_reduce(0, wide, F.where(hit, numbers, far), "amin")
    return F.where(first == far, 0, first)


def _broadcasts_once(shape: Any, target: Any) -> bool:
    """Whether `shape` is `target` but for one dimension of size 1."""
    unlike = [n for n, m in zip(shape, target, strict=False) if n != m]
    return len(shape) == len(target) and unlike == [1]


def variance_of(input: Any, var: Any, op: str) -> Any:
    """The variances as a tensor that broadcasts against the input."""
    if not isinstance(var, core.Tensor):
        if var < 0:
            fail(
                ValueError,
                op,
                "var has negative entry/entries",
                var,
                hint="pass a variance: log_var.exp() makes one of its logarithm",
            )
        var = F.full_like(input, float(var))
    elif not var.is_meta and batch_forms.anywhere(var < 0):
        fail(
            ValueError,
            op,
            "var has negative entry/entries",
            "a tensor with some",
            hint="pass variances: log_var.exp() makes them of logarithms",
        )
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif not _broadcasts_once(var.shape, input.shape):
            fail(
                ValueError,
                op,
                "var is of incorrect size",
                tuple(var.shape),
                hint="give a variance for each element, for each row ([..., 1]), or a number for "
                "all",
            )
    return var


def refuse_quantized(name: str, tensor: core.Tensor) -> None:
    """Raise what PyTorch does for a quantized tensor where a gradient's numbers are."""
    fail(
        NotImplementedError,
        name,
        f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend",
        tensor.dtype,
        hint="dequantize() first: gradients are of floating-point numbers",
    )
