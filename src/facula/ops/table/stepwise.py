"""Gradients of 16-bit floats that are differentiated again: formulas that round after each step.

Takes: the expression of a gradient and the tensors that it reads. Gives: its value by operators of the 16-bit dtype, or
that the call is not to be computed so.
Keeps true: first gradients, and those of wider dtypes, are not computed here; what PyTorch computes by one operator of
its own (`tanh_backward`) rounds once, here as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.expr import scalar
from facula.ops.table.pointwise_rules import _DTYPE_OF, _TensorNamespace
from facula.ops.table.registry import F

_LOW = (core.bfloat16, core.float16)


def steps(operator: core.Op, operand: int = 0) -> Callable[[Any], Any]:
    """Decorator: the gradient of one operand of an elementwise operator in the steps that 16-bit floats store."""

    def enter(form: Callable[..., Any]) -> Callable[..., Any]:
        operator.definition.steps = {**operator.definition.steps, operand: form}
        return form

    return enter


def cube(x: Any) -> Any:
    """The third power, on whose way bfloat16 stores the square; with the gradient of a power."""
    power = x.pow(3)
    if x.dtype is not core.bfloat16:
        return power
    return power + F.where(power.isfinite(), x * x * x - power, F.zeros_like(x)).detach()


class _Steps(_TensorNamespace):
    """The scalar operations on tensors of one 16-bit dtype, in which each result is stored."""

    def __init__(self, dtype: core.dtype) -> None:
        super().__init__("f32")
        self._computed = dtype

    @staticmethod
    def exp2(x: Any) -> Any:
        return F.pow(2, x)  # as formulas write it: its own slope takes other steps

    def cast(self, x: object, code: str) -> Any:  # type: ignore[override]
        dtype = self._computed if code == "f32" else _DTYPE_OF[code]
        return x.to(dtype) if isinstance(x, core.Tensor) else x


def dtype_of(operator: Any, values: list[Any]) -> Any:
    """The 16-bit dtype in which the steps of a gradient are stored; None where it rounds once, or is wider."""
    if operator.definition.steps is None:
        return None
    read = [v for v in values if v.dtype.is_floating_point or v.dtype.is_complex]
    common = core.result_type(*read) if read else None
    return common if common in _LOW else None


def evaluate(
    variant: Any,
    wrt: int,
    expression: scalar.Traced,
    values: list[Any],
    parameters: list[Any],
    dtype: core.dtype,
) -> Any:
    """The gradient of operand `wrt` by operators of `dtype`; numbers stay numbers, of which constants are made."""
    form = variant.op.definition.steps.get(wrt)
    given = []
    for value, leaf in zip(values, expression.inputs, strict=True):
        number = core.number_of(value)
        if number is not None:
            given.append(number)
        else:
            given.append(value.to(dtype if leaf.dtype == "f32" else _DTYPE_OF[leaf.dtype]))
    if form is None:
        result = scalar.evaluate(expression, given, parameters, _Steps(dtype))[0]
    else:
        named = dict(zip(variant.runtime, parameters, strict=True)) | variant.attributes
        result = form(*given, **named)
    if isinstance(result, core.Tensor):
        return result.to(dtype)
    return F.full_like(next(x for x in given if isinstance(x, core.Tensor)), result, dtype=dtype)
