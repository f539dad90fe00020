"""Joining, padding and turning around.

Takes and gives what `onnx.table` says.
Keeps true: empty vectors beside tensors of other ranks add nothing, as in `cat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.onnx.table import Call, translation

if TYPE_CHECKING:
    from facula.onnx.graph import Value


_FIRST = -(2**63)


@translation("cat")
def cat(call: Call, tensors: Any, dim: int) -> Any:
    """Tensors one behind another."""
    rank = call.metas[0].dim()
    kept = [t for t in tensors if not (t.rank == 1 != rank)]
    kept = [call.graph.cast(t, call.dtype) for t in kept]
    return kept[0] if len(kept) == 1 else call.op("Concat", *kept, axis=dim)


def _padding(call: Call, rank: int, pad: Any) -> Any:
    """PyTorch's pairs from the last dimension, as ONNX's beginnings and ends."""
    before: list[Any] = [0] * rank
    after: list[Any] = [0] * rank
    for k in range(len(pad) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return call.graph.sizes([*before, *after])


@translation("constant_pad_nd")
def constant_pad_nd(call: Call, x: Value, pad: Any, value: object = 0) -> Any:
    """A number around a tensor."""
    number = call.graph.cast(call.graph.value(value, x.dtype), x.dtype)
    return call.op("Pad", x, _padding(call, x.rank, pad), number)


@translation("_pad_index")
def pad_index(call: Call, x: Value, pad: Any, mode: str) -> Any:
    """A tensor's own values around it."""
    if mode != "circular":
        names = {"reflect": "reflect", "replicate": "edge"}
        return call.op("Pad", x, _padding(call, x.rank, pad), mode=names[mode])
    pad = call.static("circular padding", pad)
    rank = x.rank
    for k in range(len(pad) // 2):
        dim, (before, after) = rank - 1 - k, pad[2 * k : 2 * k + 2]
        kept = call.graph.slice(x, dim, max(-before, 0), min(after, 0) or 2**63 - 1)
        parts = [kept]
        if before > 0:
            parts.insert(0, call.graph.slice(x, dim, -before, 2**63 - 1))
        if after > 0:
            parts.append(call.graph.slice(x, dim, 0, after))
        x = parts[0] if len(parts) == 1 else call.op("Concat", *parts, axis=dim)
    return x


@translation("flip")
def flip(call: Call, x: Value, dims: Any) -> Any:
    """Dimensions in the other direction."""
    dims = [int(d) % x.rank for d in dims] if x.rank else []
    if not dims:
        return x
    count = len(dims)
    return call.op("Slice", x, [-1] * count, [_FIRST] * count, dims, [-1] * count)


def _triangle(name: str, upper: int) -> None:
    def triangle(call: Call, x: Value, diagonal: Any = 0) -> Any:
        # of whole numbers, runtimes have it for the widest
        wide = x if x.dtype.is_floating_point else call.graph.cast(x, core.int64)
        found = call.op("Trilu", wide, call.graph.value(diagonal, core.int64), upper=upper)
        return call.graph.cast(found, call.dtype)

    translation(name)(triangle)


_triangle("tril", 0)
_triangle("triu", 1)
