"""Which operators are products of matrices on a CUDA device, and of what.

Takes: an operator's arguments as `Geometry`. Gives: `plan_of_product`, for operators that are products.
Keeps true: shapes were checked by the operator itself on tensors without elements; an operand is read where it
lies, whatever its strides.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from facula.codegen.triton.kernels import Kernel
from facula.codegen.triton.product import Factor, product
from facula.devices.cuda.plans import Geometry, Plan, without_elements
from facula.lower.loops.program import Buffer
from facula.lower.loops.values import NotLoops

__all__ = ["plan_of_product"]

#: operator -> function(arguments in schema order): left, right, addend, alpha, beta
_RULES: dict[str, Callable[..., Any]] = {}


def _rule(name: str) -> Callable[[Any], Any]:
    def enter(function: Callable[..., Any]) -> Any:
        _RULES[name] = function
        return function

    return enter


@_rule("mm")
@_rule("bmm")
def _plain(a: Geometry, b: Geometry, *options: Any) -> Any:
    if any(option is not None for option in options):
        raise NotLoops("a product of another dtype")
    return a, b, None, 1, 1


@_rule("dot")
def _dot(a: Geometry, b: Geometry) -> Any:
    row = a._replace(shape=(1, *a.shape), strides=(0, *a.strides))
    return row, b._replace(shape=(*b.shape, 1), strides=(*b.strides, 0)), None, 1, 1


@_rule("addmm")
@_rule("baddbmm")
def _added(addend: Geometry, a: Geometry, b: Geometry, *factors: Any) -> Any:
    beta, alpha = factors[:2]
    return a, b, addend if beta != 0 else None, alpha, beta


@_rule("linear")
def _linear(x: Geometry, weight: Geometry, bias: Geometry | None) -> Any:
    if len(weight.shape) != 2:
        raise NotLoops("a product with a vector")
    turned = weight._replace(shape=weight.shape[::-1], strides=weight.strides[::-1])
    return _flat(x), turned, bias, 1, 1


def _flat(x: Geometry) -> Geometry:
    """All dimensions but the last as one."""
    if len(x.shape) == 1:
        return x._replace(shape=(1, *x.shape), strides=(0, *x.strides))
    outer = [(n, s) for n, s in zip(x.shape[:-1], x.strides[:-1], strict=True) if n != 1]
    for (_, stride), (size, step) in zip(outer, outer[1:], strict=False):
        if stride != size * step:
            raise NotLoops("rows that lie at no one stride")
    stride = outer[-1][1] if outer else 0
    return x._replace(shape=(prod(x.shape[:-1]), x.shape[-1]), strides=(stride, x.strides[-1]))


def _factor(x: Geometry, buffer: Buffer) -> Factor:
    strides = x.strides if len(x.strides) == 3 else (0, *x.strides)
    return Factor(buffer, strides)  # type: ignore[arg-type]


def _addend(x: Geometry, buffer: Buffer, shape: tuple[int, ...]) -> Factor:
    """What is added, broadcast to `[batches, rows, columns]`."""
    shift = 3 - len(x.shape)
    strides = [0] * shift + [0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
    return Factor(buffer, tuple(strides))  # type: ignore[arg-type]


def plan_of_product(
    op: Any, given: tuple[Any, ...], count: int, ready: Callable[[Kernel], Any], precision: str
) -> Plan | None:
    """The plan of a product; None where the operator is none.

    Raises:
        NotLoops, Unprintable: it is one of which there is no kernel.
    """
    rule = _RULES.get(op.name)
    if rule is None:
        return None
    positional, keywords = op.definition.trim(without_elements(given))
    meta = op(*positional, **keywords)
    left, right, addend, alpha, beta = rule(*given)
    geometries = {g.number: g for g in given if isinstance(g, Geometry)}
    buffers = {
        k: Buffer(f"x{k}", g.code, g.shape, g.strides, "input") for k, g in geometries.items()
    }
    result = Buffer("result", meta.dtype.code, meta.shape, meta.stride(), "result")
    plan = Plan([buffers[k] for k in range(count)], False)
    batches = left.shape[0] if len(left.shape) == 3 else 1
    shape = (batches, left.shape[-2], right.shape[-1], left.shape[-1])
    if meta.numel():
        out = Factor(result, (shape[1] * shape[2], shape[2], 1))
        more = None
        if addend is not None:
            more = _addend(addend, buffers[addend.number], shape)
        factors = _factor(left, buffers[left.number]), _factor(right, buffers[right.number])
        plan.add([product(shape, *factors, out, more, alpha, beta, precision)], ready)
    plan.results = [plan.place(result)]
    return plan
