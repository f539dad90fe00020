"""Sums, products, powers, signs and roots.

Takes: tensors and numbers.
Gives: operators `add`, `sub`, `rsub`, `mul`, `neg`, `abs`, `sign`, `sgn`, `square`, `sqrt`,
`rsqrt`, `reciprocal`, `pow`,
`float_power`, `addcmul`, `addcdiv`, `lerp`, `hypot`, `copysign`, `nextafter`, `positive`.
Keeps true: integers wrap; gradients of complex arguments are `dL/dre + i dL/dim`.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import RUNTIME, functions_and_methods
from facula.ops.table.older_forms import FACTOR_SECOND, take_older_forms
from facula.ops.table.registry import F, composite, operator, pointwise


@pointwise(
    "add(Operand self, Operand other, *, Number alpha=1) -> Tensor",
    of_numbers=True,
    prebuilt=({"alpha": RUNTIME},),
    fits={"alpha": "all"},
    reference="numpy.add",
    shards="linear",
    quantizers={"fx": "arithmetic", "xnnpack": "arithmetic", "x86": "arithmetic"},
    wraps_numbers="both",
    in_common_dtype=True,
)
def add(x, y, *, alpha):
    """Sum ``self + alpha * other``; of bools the logical or."""
    return x | (y & (alpha != 0)) if x.is_bool else x + alpha * y


@pointwise(
    "sub(Operand self, Operand other, *, Number alpha=1) -> Tensor",
    of_numbers=True,
    names=functions_and_methods("sub", "subtract"),
    dtypes="int float complex",
    prebuilt=({"alpha": RUNTIME},),
    fits={"alpha": "all"},
    refuses_bools=True,
    refusal="Subtraction, the `-` operator, with two bool tensors is not supported. "
    "Use the `^` or `logical_xor()` operator instead.",
    reference="numpy.subtract",
    shards="linear",
    wraps_numbers="right",
    node=lambda call: "RsubBackward1" if "self" in call.aside else "SubBackward0",
    in_common_dtype=True,
)
def sub(x, y, *, alpha):
    """Difference ``self - alpha * other``."""
    return x - alpha * y


@pointwise(
    "rsub(Operand self, Operand other, *, Number alpha=1) -> Tensor",
    overload="other:Tensor=Tensor, Scalar",
    names=("rsub",),
    strict=("self",),
    dtypes="int float complex",
    prebuilt=({"alpha": RUNTIME},),
    fits={"alpha": "all"},
    refuses_bools=True,
    inplace=False,
    node=lambda call: "RsubBackward1" if "other" in call.aside else "RsubBackward0",
    in_common_dtype=True,
)
def rsub(x, y, *, alpha):
    """Difference the other way, ``other - alpha * self``."""
    return y - alpha * x


@pointwise(
    "mul(Operand self, Operand other) -> Tensor",
    of_numbers=True,
    names=functions_and_methods("mul", "multiply"),
    reference="numpy.multiply",
    shards="multilinear",
    quantizers={"fx": "arithmetic", "xnnpack": "arithmetic"},
    wraps_numbers="both",
)
def mul(x, y):
    """Product ``self * other``; of bools the logical and."""
    return x & y if x.is_bool else x * y


@pointwise(
    "neg(Tensor self) -> Tensor",
    out_exact=True,
    names=functions_and_methods("neg", "negative"),
    dtypes="int float complex",
    refusal="Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
    "use the `~` or `logical_not()` operator instead.",
    reference="numpy.negative",
    shards="linear",
)
def neg(x):
    """Negation ``-self``."""
    return -x


@composite("positive(Tensor self) -> Tensor", out=False, elementwise=True)
def positive(self):
    """``+self``: the tensor itself; bools are refused."""
    if self.dtype is core.bool:
        core.errors.fail(RuntimeError, "positive", "a tensor of numbers", got="a bool tensor")
    return self


@pointwise(
    "abs(Tensor self) -> Tensor",
    out_exact=True,
    names=functions_and_methods("abs", "absolute"),
    result="real",
    reference="numpy.abs",
)
def abs(x):
    """Absolute value; of a complex number its modulus."""
    return x if x.is_bool else s.apply("abs", x)


@abs.backward
def _(grad, x):
    """Nothing at zero, of complex numbers too, where the modulus has no derivative."""
    return grad * s.sgn(x)


@pointwise(
    "sign(Tensor self) -> Tensor", out_exact=True, dtypes="bool int float", reference="numpy.sign"
)
def sign(x):
    """-1, 0 or 1 by the sign; 0 for NaN."""
    return x if x.is_bool else s.sign(x)


@pointwise("sgn(Tensor self) -> Tensor", out_exact=True, reference="numpy.sign")
def sgn(x):
    """``self / |self|``, 0 at 0; of a real number its sign."""
    return x if x.is_bool else s.sgn(x)


def _square_dtype(common: core.dtype, variant: object, values: object) -> Any:
    """The square of a bool is an integer."""
    return core.int64 if common == core.bool else common


@pointwise(
    "square(Tensor self) -> Tensor",
    result_of=_square_dtype,
    unsupported=lambda code, chosen: code == "b8",
    reference="numpy.square",
    node="PowBackward0",
)
def square(x):
    """``self * self``."""
    return x * x


@pointwise("sqrt(Tensor self) -> Tensor", result="float", domain=(0, None), reference="numpy.sqrt")
def sqrt(x):
    """Square root, NaN for negative real numbers."""
    return s.sqrt(x)


@pointwise(
    "rsqrt(Tensor self) -> Tensor", result="float", domain=(0, None), autocast="accelerator float32"
)
def rsqrt(x):
    """``1 / sqrt(self)``."""
    return s.rsqrt(x)


@pointwise(
    "reciprocal(Tensor self) -> Tensor",
    result="float",
    reference="numpy.reciprocal",
    autocast="accelerator float32",
)
def reciprocal(x):
    """``1 / self``."""
    return s.reciprocal(x)


@pointwise(
    "pow(Operand self, Operand exponent) -> Tensor",
    dtypes="int float complex",
    nonnegative_exponent=True,
    fits={"exponent": "narrow"},
    reference="numpy.power",
    autocast="accelerator float32",
    node=lambda call: (
        "PowBackward0"
        if "exponent" in call.aside
        else "PowBackward2"
        if "self" in call.aside
        else "PowBackward1"
    ),
    in_common_dtype=True,
)
def pow(x, exponent):
    """``self ** exponent`` as in C99; integers wrap, and a negative exponent truncates towards zero."""
    power = s.pow(x, exponent)
    if x.is_complex:  # no logarithm is needed, which rounds and is none of infinity
        for known, value in ((1, x), (2, x * x), (0.5, s.sqrt(x)), (-1, s.reciprocal(x))):
            power = s.where(exponent == known, value, power)
    return power


@pow.backward
def _(grad, x, exponent, result):
    """No logarithm of zero and no power of zero below it is taken: they would be NaN in further derivatives."""
    y, r = s.conj(exponent), s.conj(result)
    base = s.conj(x)
    by_base = s.where(exponent == 0, 0.0, grad * (y * s.pow(base, y - 1.0)))
    vanishing = (x == 0) & ((exponent.re if exponent.is_complex else exponent) >= 0)
    # no logarithm of zero is taken, which would be NaN in derivatives of this
    return by_base, grad * (r * s.log(s.where(vanishing, 1.0, base)))


@composite(
    "float_power(Operand self, Operand exponent) -> Tensor",
    overload="self:Tensor+exponent:Tensor=Tensor_Tensor, self:Tensor=Tensor_Scalar, Scalar",
)
def float_power(self, exponent):
    """``self ** exponent`` computed in float64, or in complex128 where an operand is complex."""
    wide = core.complex128 if _is_complex(self) or _is_complex(exponent) else core.float64
    base = self.to(wide) if isinstance(self, core.Tensor) else self
    power = exponent.to(wide) if isinstance(exponent, core.Tensor) else exponent
    return F.pow(base, power)


@composite(
    "float_power_(Tensor self, Operand exponent) -> Tensor",
    names=("Tensor.float_power_",),
    out=False,
)
def float_power_(self, exponent):
    """In-place form of `float_power`: the tensor has to be of the wide dtype."""
    wide = core.complex128 if _is_complex(self) or _is_complex(exponent) else core.float64
    if self.dtype is not wide:
        core.errors.fail(
            RuntimeError,
            "float_power_",
            f"a base of {wide} (the operation's result requires dtype {wide})",
            got=self.dtype,
        )
    return F.pow.inplace(self, exponent.to(wide) if isinstance(exponent, core.Tensor) else exponent)


def _is_complex(value: object) -> bool:
    return value.is_complex() if isinstance(value, core.Tensor) else isinstance(value, complex)


@pointwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
    dtypes="int float complex",
    prebuilt=({"value": RUNTIME},),
    autocast="accelerator widest",
)
def addcmul(x, y, z, *, value):
    """``self + value * tensor1 * tensor2``."""
    return x + value * y * z


@pointwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
    dtypes="float complex",
    prebuilt=({"value": RUNTIME},),
    autocast="accelerator widest",
)
def addcdiv(x, y, z, *, value):
    """``self + value * tensor1 / tensor2``."""
    return x + value * (y / z)


take_older_forms(addcmul, ("tntt",), "value")
take_older_forms(addcdiv, ("tntt",), "value")
take_older_forms(add, FACTOR_SECOND, "alpha")
take_older_forms(sub, FACTOR_SECOND, "alpha")


def _with_complex(op: core.Op, name: str, run: Any) -> Any:
    """The operator with a complex factor, of which complex tensors are taken only."""

    def checked(*operands: Any, **factor: object) -> Any:
        if not any(_is_complex(x) for x in operands):
            required = (
                f"a real number was required as {name} (For non-complex input tensors, argument {name} "
                "must not be a complex number; it cannot be converted without overflow)"
            )
            hint = "take .real, or convert the tensor to a complex dtype"
            core.errors.fail(RuntimeError, op.name, required, factor[name], hint)
        return run(*operands, factor[name])

    return checked


addcmul.complexes = _with_complex(addcmul, "value", lambda x, y, z, factor: x + factor * y * z)
addcdiv.complexes = _with_complex(addcdiv, "value", lambda x, y, z, factor: x + factor * (y / z))
add.complexes = _with_complex(add, "alpha", lambda x, y, factor: x + factor * y)
sub.complexes = _with_complex(sub, "alpha", lambda x, y, factor: x - factor * y)


@pointwise(
    "lerp(Tensor self, Tensor end, Operand weight) -> Tensor",
    overload="weight:Tensor=Tensor, Scalar",
    dtypes="float complex",
    fits={"weight": "computed"},
    out_exact=True,
    node=lambda call: "LerpBackward0" if "weight" in call.aside else "LerpBackward1",
)
def lerp(x, end, weight):
    """Linear interpolation ``self + weight * (end - self)``, taken from the nearer end."""
    size = s.hypot(weight.re, weight.im) if weight.is_complex else s.abs(weight)
    step = end - x
    return s.where(size < 0.5, x + weight * step, end - step * (1.0 - weight))


@lerp.backward
def _(grad, x, end, weight):
    """By the weight alone; the value takes the way round that is exact at its end."""
    w = s.conj(weight)
    return grad * (1.0 - w), grad * w, grad * s.conj(end - x)


@pointwise(
    "hypot(Operand self, Operand other) -> Tensor",
    dtypes="float",
    strict=("self", "other"),
    reference="numpy.hypot",
    in_common_dtype=True,
)
def hypot(x, y):
    """``sqrt(self ** 2 + other ** 2)`` without overflow in between."""
    return s.hypot(x, y)


@pointwise(
    "copysign(Operand self, Operand other) -> Tensor",
    overload="other:Tensor=Tensor, Scalar",
    result="float",
    strict=("self",),
    dtypes="bool int float",
    reference="numpy.copysign",
    node=lambda call: "CopysignBackward1" if "other" in call.aside else "CopysignBackward0",
)
def copysign(x, y):
    """The magnitude of ``self`` with the sign of ``other`` (of zeros too)."""
    return s.copysign(x, y)


@pointwise(
    "_nextafter(Operand self, Operand other) -> Tensor",
    file_form="nextafter",
    names=(),
    dtypes="float",
    convention="steps are constants: the gradient is zero",
    reference="numpy.nextafter",
)
def _nextafter(x, y):
    """The next value of the compute dtype after `self` towards `other`."""
    return s.nextafter(x, y)


def _stepped_bits(x: Any, y: Any) -> Any:
    bits = x.view(core.int16)
    up = (x < y) == (x > 0)
    least = F.copysign(F.ones_like(bits).view(x.dtype), y)
    step = F.where(x == 0, least, (bits + F.where(up, 1, -1).to(core.int16)).view(x.dtype))
    return F.where(x == y, y, F.where(F.isnan(x) | F.isnan(y), x + y, step))


@operator("_nextafter_half(Tensor self, Tensor other) -> Tensor", names=(), out=False)
class _nextafter_half:  # noqa: N801
    """`nextafter` of 16-bit floats, which step in their bits since they compute as float32."""

    elementwise = True

    def meta(self, other):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, other):
        out.copy_(_stepped_bits(self.contiguous(), other.contiguous()))

    def backward(grad, self, other):
        return F.where(self == other, 0.0, grad), F.zeros_like(grad)


@composite("nextafter(Tensor self, Tensor other) -> Tensor", out_cast=True)
def nextafter(self, other):
    """The next representable value after `self` towards `other`."""
    dtype = core.result_type(self, other)
    if dtype in (core.float16, core.bfloat16):
        return F._nextafter_half(*F.broadcast_tensors([self.to(dtype), other.to(dtype)]))
    return F._nextafter(self, other)


@composite("nextafter_(Tensor self, Tensor other) -> Tensor", out=False)
def nextafter_(self, other):
    """In-place form of `nextafter`."""
    return self.copy_(F.nextafter(self, other))
