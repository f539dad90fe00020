"""The steps of elementwise gradients that 16-bit floats store, where PyTorch's formulas take others than the kernels.

Takes: what the kernel of a gradient reads, in its order, in the 16-bit dtype; attributes by name. Gives: the fields
`steps` of the operators.
Keeps true: each is the operator's derivative, over operators, so that further derivatives follow; this module is
loaded by the first gradient of a 16-bit gradient.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.ops.forms import narrow  # noqa: F401 - defines what is called
from facula.ops.pointwise.activation import gelu, logsigmoid, mish, silu, softsign
from facula.ops.pointwise.arithmetic import addcdiv, hypot, pow, rsqrt
from facula.ops.pointwise.division import fmod, remainder
from facula.ops.pointwise.exponential import exp2, special_xlog1py, xlogy
from facula.ops.pointwise.trigonometric import acosh, asinh, atan2, sinc
from facula.ops.table.registry import F
from facula.ops.table.stepwise import cube, steps


@steps(gelu)
def _(grad, self, approximate):
    return F._gelu_slope(grad, self, approximate)


@steps(silu)
def _(grad, self):
    open_ = self.sigmoid()
    return grad * open_ * (1 + self * (1 - open_))


@steps(mish)
def _(grad, self):
    slow, open_ = F.softplus(self).tanh(), self.sigmoid()
    return grad * (slow + self * open_ * (1 - slow * slow))


@steps(softsign)
def _(grad, self):
    size = 1 + self.abs()
    return grad / size + -grad * ((self / size) / size) * self.sgn()


@steps(logsigmoid)
def _(grad, self):
    return F._log_sigmoid_slope(grad, self)


@steps(rsqrt)
def _(grad, result):
    return -0.5 * grad * cube(result)


@steps(pow, 1)
def _(grad, result, self, exponent):
    if isinstance(self, int | float) and self > 0:  # the logarithm of a number is not stored
        return grad * (result * math.log(self))
    if not isinstance(self, core.Tensor):
        self = F.full_like(grad, self)
    vanishing = (self == 0) & (exponent >= 0)
    return grad * (result * F.log(F.where(vanishing, 1.0, self)))


@steps(addcdiv, 1)
def _(grad, tensor2, value=1):
    return grad * (F.full_like(tensor2, value) / tensor2)  # the number is stored, too


@steps(addcdiv, 2)
def _(grad, tensor1, tensor2, value=1):
    return -grad * (value * tensor1 / (tensor2 * tensor2))


@steps(hypot)
@steps(hypot, 1)
def _(grad, result, operand):
    return grad * operand / result


@steps(remainder, 1)
def _(grad, self, other):
    return -grad * F.div(self, other, rounding_mode="floor")


@steps(fmod, 1)
def _(grad, self, other):
    return -grad * F.div(self, other, rounding_mode="trunc")


@steps(exp2)
def _(grad, result):
    return grad * result * math.log(2)


@steps(xlogy)
def _(grad, self, other):
    return F.where((self == 0) & (other <= 0), 0, F.xlogy(grad, other))


@steps(special_xlog1py)
def _(grad, self, other):
    return F.where((self == 0) & (other <= -1), 0, F.special_xlog1py(grad, other))


def _inverse_square(self: Any, other: Any) -> Any:
    square = self * self + other * other
    return F.where(square == 0, 0, square.reciprocal())


@steps(atan2)
def _(grad, self, other):
    return grad * other * _inverse_square(self, other)


@steps(atan2, 1)
def _(grad, self, other):
    return grad * -self * _inverse_square(self, other)


@steps(asinh)
def _(grad, self):
    return grad * (self.pow(2) + 1).rsqrt()


@steps(acosh)
def _(grad, self):
    return grad * (self.pow(2) - 1).rsqrt()


@steps(sinc)
def _(grad, self):
    angle, square = self * math.pi, self * self * math.pi
    slope = grad * ((angle * angle.cos() - angle.sin()) / square)
    return F.where(square == 0, 0, slope)
