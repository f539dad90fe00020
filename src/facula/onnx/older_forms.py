"""Operators as the versions of ONNX from 11 to 16 have them.

Takes: an operator as version 17 has it, with its inputs and attributes. Gives: the form of an older version:
arguments that became inputs later as attributes, and operators that came later composed of older ones.
Keeps true: a model of an older version computes the same; what has no older form is an error that names the
version that has it. The versions are those of ONNX's change log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import facula
from facula import core
from facula.core.errors import fail
from facula.onnx.errors import UnsupportedOperatorError

if TYPE_CHECKING:
    from facula.onnx.graph import Graph, Value

__all__ = ["form_of"]

Form = Callable[..., Any]
#: operator -> (the version from which on it stands as it is, its form before)
_FORMS: dict[str, tuple[int, Form]] = {}


def form_of(kind: str, opset: int) -> Form | None:
    """How an operator is written in a version; None where it is written as in version 17."""
    since, form = _FORMS.get(kind, (0, None))
    return form if opset < since else None


def _before(since: int, *kinds: str) -> Callable[[Form], Form]:
    def enter(form: Form) -> Form:
        for kind in kinds:
            _FORMS[kind] = (since, form)
        return form

    return enter


def _refuse(kind: str, what: str, opset: int, since: int) -> Any:
    fail(UnsupportedOperatorError, "onnx.export", f"an opset_version that has {kind} with {what} was required",
         opset, hint=f"pass opset_version={since}")  # fmt: skip


def _numbers(g: Graph, kind: str, given: object) -> Any:
    """Axes or lengths as an attribute: known when the model is written."""
    found = g.known(given)
    if given is None or isinstance(found, (list, tuple)):
        return found
    return _refuse(kind, "sizes that may change", g.opset, 13)


@_before(13, "Squeeze", "Unsqueeze", "ReduceSum")
def _axes_as_attribute(g: Graph, kind: str, x: Any, axes: Any = None, **rest: Any) -> Any:
    return g.append(kind, (x,), axes=_numbers(g, kind, rest.pop("axes", axes)), **rest)


@_before(13, "Split")
def _lengths_as_attribute(g: Graph, kind: str, x: Any, split: Any = None, **rest: Any) -> Any:
    return g.append(kind, (x,), split=_numbers(g, kind, split), **rest)


@_before(13, "Softmax", "LogSoftmax")
def _last_dimension(g: Graph, kind: str, x: Value, axis: int = -1, **rest: Any) -> Any:
    """Before 13 all dimensions from `axis` on are one: only along the last it means what it means now."""
    if axis == -1 or axis == (len(x.shape) - 1 if x.shape is not None else None):
        return g.append(kind, (x,), axis=axis, **rest)
    rank = x.rank
    axis %= rank
    order = [d for d in range(rank) if d != axis] + [axis]
    found = g.append(kind, (g.transpose(x, order),), axis=rank - 1, **rest)
    return g.transpose(found, [order.index(d) for d in range(rank)])


@_before(14, "Reshape")
def _sizes_without_zero(
    g: Graph, kind: str, x: Any, sizes: Any, allowzero: int = 0, **rest: Any
) -> Any:
    """0 means "as before" there; `allowzero` is asked for too where a size that may change could be 0."""
    return g.append(kind, (x, sizes), **rest)


@_before(15, "Shape")
def _whole_shape(
    g: Graph, kind: str, x: Any, start: object = None, end: object = None, **rest: Any
) -> Any:
    shape = g.append(kind, (x,), **rest)
    if start is None and end is None:
        return shape
    least = 0 if start is None else start
    stop = (1 << 62) if end is None else end
    return g.op("Slice", shape, [least], [stop], [0], [1])


@_before(13, "Resize")
def _all_operands(g: Graph, kind: str, x: object, roi: object = None, scales: object = None, sizes: object = None,
                  **rest: Any) -> Any:  # fmt: skip
    """Before 13 the region and the factors are given even where they are not used."""
    nothing = g.constant(facula.zeros(0))
    operands = [x, roi or nothing, nothing if scales is None else scales, sizes]
    return g.append(kind, operands, **rest)


@_before(12, "LessOrEqual", "GreaterOrEqual")
def _not_the_other(g: Graph, kind: str, x: Any, y: Any, **rest: Any) -> Any:
    """Less or equal, in two steps: with NaN neither holds."""
    other = {"LessOrEqual": "Less", "GreaterOrEqual": "Greater"}[kind]
    found = [g.op(of, x, y, **rest) for of in (other, "Equal")]
    return g.op("Or", *found, **rest)


@_before(14, "HardSwish")
def _hard_swish(g: Graph, kind: str, x: Any, **rest: Any) -> Any:
    return g.op("Mul", x, g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5), **rest)


@_before(14, "Trilu")
def _triangle(
    g: Graph, kind: str, x: Value, diagonal: Any = None, upper: int = 1, **rest: Any
) -> Any:
    """What stays is known where the sizes are."""
    sizes = x.shape[-2:] if x.shape else ()
    offset = g.known(diagonal)
    if not all(type(n) is int for n in sizes) or offset is None:
        return _refuse(kind, "sizes that may change", g.opset, 14)
    ones = facula.ones(*sizes, dtype=core.bool_)
    stays = (facula.triu if upper else facula.tril)(ones, int(offset))
    return g.op("Where", g.constant(stays), x, g.value(0, x.dtype), **{**rest, "gives": x.dtype})


@_before(17, "LayerNormalization")
def _layer_norm(g: Graph, kind: str, x: Value, scale: Any, shift: Any = None, axis: int = -1,
                epsilon: float = 1e-5, outputs: int = 1, **rest: Any) -> Any:  # fmt: skip
    """(x - mean) / sqrt(mean square + epsilon), the statistics in float32 as version 17 has them."""
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis - x.rank, 0))
    wide = g.cast(x, core.float32) if x.dtype.itemsize == 2 else x
    mean = g.op("ReduceMean", wide, axes=axes, keepdims=1)
    apart = g.op("Sub", wide, mean)
    square = g.op("ReduceMean", g.op("Mul", apart, apart), axes=axes, keepdims=1)
    slope = g.op("Reciprocal", g.op("Sqrt", g.op("Add", square, epsilon)))
    found = g.op("Mul", g.cast(g.op("Mul", apart, slope), x.dtype), scale)
    if shift is not None:
        found = g.op("Add", found, shift)
    return (found, mean, slope)[:outputs] if outputs > 1 else found


@_before(16, "ScatterElements", "ScatterND")
def _scatter_without_reduction(
    g: Graph, kind: str, *operands: Any, reduction: object = None, **rest: Any
) -> Any:
    if reduction not in (None, "none"):
        return _refuse(
            kind, f"reduction={reduction!r}", g.opset, 18 if reduction in ("max", "min") else 16
        )
    return g.append(kind, operands, **rest)
