"""Gradients of 16-bit floats that are differentiated again: formulas that round after each step.

Takes: the expression of a gradient and the tensors that it reads. Gives: its value by operators of the 16-bit dtype, or
that the call is not to be computed so.
Keeps true: first gradients, and those of wider dtypes, are not computed here; what PyTorch computes by one operator of
its own (`tanh_backward`) rounds once, here as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.expr import scalar
from facula.ops.table.pointwise_rules import _DTYPE_OF, NARROW, _TensorNamespace
from facula.ops.table.registry import TABLE, F

_LOW = (core.bfloat16, core.float16)

#: gradients whose steps are others than those of the kernel's expression, by operator and operand
_FORMS: dict[tuple[str, int], Callable[..., Any]] = {}


def _steps(name: str, operand: int = 0) -> Callable[[Any], Any]:
    """Decorator: the steps in which the gradient of one operand is known, over what its kernel reads."""

    def enter(form: Callable[..., Any]) -> Callable[..., Any]:
        _FORMS[name, operand] = form
        return form

    return enter


def cube(x: Any) -> Any:
    """The third power, on whose way bfloat16 stores the square; with the gradient of a power."""
    power = x.pow(3)
    if x.dtype is not core.bfloat16:
        return power
    return power + F.where(power.isfinite(), x * x * x - power, F.zeros_like(x)).detach()


@_steps("rsqrt")
def _rsqrt(grad: Any, result: Any) -> Any:
    return -0.5 * grad * cube(result)


@_steps("pow", 1)
def _pow_exponent(grad: Any, result: Any, self: Any, exponent: Any) -> Any:
    if isinstance(self, int | float) and self > 0:  # the logarithm of a number is not stored
        return grad * (result * math.log(self))
    if not isinstance(self, core.Tensor):
        self = F.full_like(grad, self)
    vanishing = (self == 0) & (exponent >= 0)
    return grad * (result * F.log(F.where(vanishing, 1.0, self)))


@_steps("exp2")
def _exp2(grad: Any, result: Any) -> Any:
    return grad * result * math.log(2)


@_steps("acosh")
def _acosh(grad: Any, self: Any) -> Any:
    return grad * (self.pow(2) - 1).rsqrt()


@_steps("asinh")
def _asinh(grad: Any, self: Any) -> Any:
    return grad * (self.pow(2) + 1).rsqrt()


@_steps("atan2")
def _atan2(grad: Any, self: Any, other: Any) -> Any:
    return grad * other * _inverse_square(self, other)


@_steps("atan2", 1)
def _atan2_other(grad: Any, self: Any, other: Any) -> Any:
    return grad * -self * _inverse_square(self, other)


def _inverse_square(self: Any, other: Any) -> Any:
    square = self * self + other * other
    return F.where(square == 0, 0, square.reciprocal())


@_steps("gelu")
def _gelu(grad: Any, self: Any, approximate: str) -> Any:
    NARROW[0]()
    return F._gelu_slope(grad, self, approximate)


@_steps("logsigmoid")
def _logsigmoid(grad: Any, self: Any) -> Any:
    NARROW[0]()
    return F._log_sigmoid_slope(grad, self)


@_steps("hypot")
@_steps("hypot", 1)
def _hypot(grad: Any, result: Any, operand: Any) -> Any:
    return grad * operand / result


@_steps("addcdiv", 1)
def _addcdiv_numerator(grad: Any, tensor2: Any, value: Any = 1) -> Any:
    return grad * (F.full_like(tensor2, value) / tensor2)  # the number is stored, too


@_steps("addcdiv", 2)
def _addcdiv_denominator(grad: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return -grad * (value * tensor1 / (tensor2 * tensor2))


@_steps("xlogy")
def _xlogy(grad: Any, self: Any, other: Any) -> Any:
    return F.where((self == 0) & (other <= 0), 0, F.xlogy(grad, other))


@_steps("special_xlog1py")
def _xlog1py(grad: Any, self: Any, other: Any) -> Any:
    return F.where((self == 0) & (other <= -1), 0, F.special_xlog1py(grad, other))


@_steps("fmod", 1)
def _fmod_divisor(grad: Any, self: Any, other: Any) -> Any:
    return -grad * F.div(self, other, rounding_mode="trunc")


@_steps("remainder", 1)
def _remainder_divisor(grad: Any, self: Any, other: Any) -> Any:
    return -grad * F.div(self, other, rounding_mode="floor")


@_steps("sinc")
def _sinc(grad: Any, self: Any) -> Any:
    angle, square = self * math.pi, self * self * math.pi
    slope = grad * ((angle * angle.cos() - angle.sin()) / square)
    return F.where(square == 0, 0, slope)


@_steps("silu")
def _silu(grad: Any, self: Any) -> Any:
    open_ = self.sigmoid()
    return grad * open_ * (1 + self * (1 - open_))


@_steps("mish")
def _mish(grad: Any, self: Any) -> Any:
    slow, open_ = F.softplus(self).tanh(), self.sigmoid()
    return grad * (slow + self * open_ * (1 - slow * slow))


@_steps("softsign")
def _softsign(grad: Any, self: Any) -> Any:
    size = 1 + self.abs()
    return grad / size + -grad * ((self / size) / size) * self.sgn()


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


def dtype_of(operator: Any, wrt: int, values: list[Any]) -> Any:
    """The 16-bit dtype in which the steps of a gradient are stored; None where it rounds once, or is wider."""
    name = operator.definition.name
    if f"{name}_backward" in TABLE and (name, wrt) not in _FORMS:
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
    form = _FORMS.get((variant.op.definition.name, wrt))
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
