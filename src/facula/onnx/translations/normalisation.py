"""Normalisation, and the softmax.

Takes and gives what `onnx.table` says.
Keeps true: a scale or shift that is not given is one of ones or zeros, which ONNX asks for.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.fx.symbols import plain
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation
from facula.onnx.translations.reduction import reduce, variance, wide


def _filled(call: Call, shape: Any, value: float, dtype: Any) -> Any:
    count = math.prod(shape)
    return call.graph.constant(core.tensor([value] * count, dtype=dtype).reshape(list(shape)))


def _given(call: Call, x: Any, shape: Any, value: float, dtype: Any) -> Any:
    return _filled(call, shape, value, dtype) if x is None else call.graph.cast(x, dtype)


def along_channels(call: Call, x: Value, rank: int) -> Any:
    """A number for each channel, shaped to meet images."""
    return call.op("Reshape", x, [-1, *[1] * (rank - 2)])


@translation("batch_norm_eval")
def batch_norm_eval(
    call: Call, x: Value, mean: Any, var: Value, weight: Value, bias: Value, eps: float
) -> Any:
    """Normalised by running statistics."""
    shape = mean.shape
    scale = _given(call, weight, shape, 1.0, mean.dtype)
    shift = _given(call, bias, shape, 0.0, mean.dtype)
    return call.op("BatchNormalization", x, scale, shift, mean, var, epsilon=float(eps))


@translation("batch_norm_train")
def batch_norm_train(
    call: Call, x: Value, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Normalised by the batch's statistics; these, and the running ones that they lead to."""
    rank, dims = x.rank, [0, *range(2, x.rank)]
    spread, _ = variance(call, x, dims, 0.0, True)
    scale = call.op("Reciprocal", call.op("Sqrt", call.op("Add", spread, float(eps))))
    flat = reduce(call, "ReduceMean", wide(call, x), dims, False, rank)
    middle = reduce(call, "ReduceMean", wide(call, x), dims, True, rank)
    y = call.op("Mul", call.op("Sub", wide(call, x), middle), scale)
    if weight is not None:
        y = call.op("Mul", y, along_channels(call, call.graph.cast(weight, y.dtype), rank))
    if bias is not None:
        y = call.op("Add", y, along_channels(call, call.graph.cast(bias, y.dtype), rank))
    return [call.graph.cast(y, call.dtype), flat, call.op("Reshape", scale, [-1])]


@translation("native_group_norm")
def native_group_norm(call: Call, x: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
    """Normalised over groups of channels; the mean and inverse deviation of each group."""
    rank, dtype = x.rank, x.dtype
    rows = call.op("Reshape", x, [0, groups, -1])
    ones, zeros = (_filled(call, (groups,), v, dtype) for v in (1.0, 0.0))
    y = call.op("InstanceNormalization", rows, ones, zeros, epsilon=float(eps))
    y = call.op("Reshape", y, call.op("Shape", x, gives=core.int64))
    if weight is not None:
        y = call.op("Mul", y, along_channels(call, weight, rank))
    if bias is not None:
        y = call.op("Add", y, along_channels(call, bias, rank))
    known = Value(rows.name, dtype, (x.shape[0], groups, _rest(x, groups)))
    spread, centre = variance(call, known, [2], 0.0, False)
    scale = call.op("Reciprocal", call.op("Sqrt", call.op("Add", spread, float(eps))))
    return [y, centre, scale]


def _rest(x: Any, groups: int) -> Any:
    """The size of a group where it is known."""
    sizes = x.shape[1:]
    return math.prod(sizes) // groups if all(type(n) is int for n in sizes) else None


@translation("native_layer_norm")
def native_layer_norm(
    call: Call, x: Value, normalized_shape: Any, weight: Value, bias: Any, eps: float
) -> Any:
    """Normalised over the last dimensions; the mean and inverse deviation of each row."""
    shape = [plain(n) for n in normalized_shape]
    scale = _given(call, weight, shape, 1.0, x.dtype)
    shift = None if bias is None else call.graph.cast(bias, x.dtype)
    results = call.op("LayerNormalization", x, scale, shift, outputs=3, axis=-len(shape),
                      epsilon=float(eps))  # fmt: skip
    # ONNX has statistics in float32
    statistics = [Value(r.name, core.float32) for r in results[1:]]
    return [results[0], *(call.graph.cast(v, call.metas[1].dtype) for v in statistics)]


def _along(name: str, kind: str) -> None:
    def along(call: Call, x: Value, dim: int, dtype: Any) -> Any:
        rank, x = x.rank, call.graph.cast(x, call.dtype)
        if rank:
            return call.op(kind, x, axis=dim)
        return call.op(
            "Reshape", call.op(kind, call.op("Reshape", x, [1]), axis=0), call.graph.sizes([])
        )

    translation(name)(along)


_along("softmax", "Softmax")
_along("log_softmax", "LogSoftmax")
