"""Attention as products and a softmax, which runtimes recognise.

Takes and gives what `onnx.table` says.
Keeps true: rows for which a mask leaves nothing are zeros, as the kernel makes them.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.onnx.table import Call, translation
from facula.onnx.translations.views import ranged


@translation("_scaled_dot_product_flash_attention")
def attention(
    call: Call, query: Any, key: object, value: object, mask: Any, is_causal: bool, scale: float,
    dropout_p: float, state: object,
) -> Any:  # fmt: skip
    """softmax(scale * q @ k.T + mask) @ v, and the logarithm of its denominators."""
    if dropout_p:
        call.unsupported("attention without dropout was required", f"dropout_p={dropout_p}",
                         "export the model in eval()")  # fmt: skip
    dtype = call.dtype
    key, value = (_spread(call, x, query.shape[1]) for x in (key, value))
    turned = call.op("Transpose", key, perm=[0, 1, 3, 2])
    scores = call.op("MatMul", call.op("Mul", query, float(scale)), turned)
    if is_causal:
        kept = _lower(call, query, key)
        scores = call.op("Where", kept, scores, call.graph.value(-math.inf, dtype), gives=dtype)
    if mask is not None:
        if mask.dtype is core.bool_:
            scores = call.op("Where", mask, scores, call.graph.value(-math.inf, dtype), gives=dtype)
        else:
            scores = call.op("Add", scores, call.graph.cast(mask, dtype))
    weights = call.op("Softmax", scores, axis=-1)
    if mask is not None:
        nothing = call.op("IsNaN", weights, gives=core.bool_)
        weights = call.op("Where", nothing, call.graph.value(0.0, dtype), weights, gives=dtype)
    total = call.graph.cast(scores, call.metas[1].dtype)
    if call.graph.opset < 18:
        total = call.op("ReduceLogSumExp", total, axes=[-1], keepdims=0)
    else:
        total = call.op("ReduceLogSumExp", total, [-1], keepdims=0)
    return [call.op("MatMul", weights, value), total]


def _lower(call: Call, query: Any, key: Any) -> Any:
    """Which columns a row sees: those up to its own."""
    rows, columns = (ranged(call, call.graph.size(x, 2)) for x in (query, key))
    return call.op("LessOrEqual", columns, call.op("Unsqueeze", rows, [1]), gives=core.bool_)


def _spread(call: Call, x: Any, heads: int) -> Any:
    """Keys or values of fewer heads, each repeated for the queries that share it."""
    if x.shape[1] == heads:
        return x
    shared = x.shape[1]
    apart = call.op("Unsqueeze", x, [2])
    wide = call.op("Expand", apart, call.graph.sizes([1, 1, heads // shared, 1, 1]))
    kept = [call.op("Shape", x, start=d, end=d + 1, gives=core.int64) for d in (0, 2, 3)]
    shape = call.op("Concat", kept[0], [heads], *kept[1:], axis=0)
    return call.op("Reshape", wide, shape)
