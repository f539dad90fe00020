"""Activation functions.

Takes: tensors.
Gives: operators `relu`, `relu6`, `elu`, `selu`, `celu`, `gelu`, `silu`, `mish`, `softplus`, `softsign`, `tanhshrink`,
`hardswish`, `hardsigmoid`, `hardtanh`, `hardshrink`, `softshrink`, `leaky_relu`, `threshold`, `logsigmoid`, `_prelu`.
Keeps true: values and gradients at the kinks are PyTorch's; NaN passes through.  The forms with ``inplace=`` stand in
`activation_functional`.
"""

from __future__ import annotations

import math

from facula import core
from facula.core.errors import fail
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import RUNTIME, functions_and_methods
from facula.ops.table.registry import pointwise

SQRT_HALF, INV_SQRT_2PI = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
SQRT_2_OVER_PI, CUBIC = math.sqrt(2 / math.pi), 0.044715
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@pointwise(
    "relu(Tensor self) -> Tensor",
    dtypes="int float",
    quantizers={"fx": "shared", "xnnpack": "activation"},
)
def relu(x):
    """``max(self, 0)`` [Nair & Hinton 2010]."""
    return s.where(x < 0, s.constant(0, x.dtype), x)


@relu.backward
def _(grad, result):
    """From the result, so that the input need not be kept; nothing at zero, as in PyTorch."""
    return s.where(result <= 0, 0.0, grad)


@pointwise(
    "relu6(Tensor self) -> Tensor",
    names=(),
    dtypes="int float",
    quantized="same range",
    quantizers={"fx": "shared"},
    node="HardtanhBackward0",
)
def relu6(x):
    """``min(max(self, 0), 6)``."""
    return s.clamp(x, s.constant(0, x.dtype), s.constant(6, x.dtype))


@relu6.backward
def _(grad, x):
    """Nothing at both bounds, as in PyTorch, where a half each is the derivative."""
    return s.where((x <= 0) | (x >= 6), 0.0, grad)


@pointwise(
    "elu(Tensor self, Number alpha=1.0) -> Tensor",
    names=(),
    dtypes="float",
    prebuilt=({"alpha": RUNTIME},),
    quantized="same range",
    quantizers={"fx": "own"},
    steps=None,
)
def elu(x, *, alpha):
    """`self` above zero, ``alpha * (exp(self) - 1)`` below [Clevert, Unterthiner & Hochreiter 2015]."""
    return s.where(x > 0, x, alpha * s.expm1(x))


@elu.backward
def _(grad, x, *, alpha):
    """From the exponential itself: from `expm1(x) + 1` far below zero nothing would be left."""
    return s.where(x > 0, grad, grad * (alpha * s.exp(x)))


@pointwise("selu(Tensor self) -> Tensor", names=("selu",), dtypes="float", node="EluBackward0")
def selu(x):
    """Scaled `elu` that keeps mean 0 and variance 1 [Klambauer et al. 2017]."""
    return s.where(x > 0, SELU_SCALE * x, (SELU_SCALE * SELU_ALPHA) * s.expm1(x))


@selu.backward
def _(grad, x):
    """From the exponential itself: from `expm1(x) + 1` far below zero nothing would be left."""
    slope = s.where(x > 0, SELU_SCALE, (SELU_SCALE * SELU_ALPHA) * s.exp(x))
    return grad * slope


def _check_celu(*, alpha: float) -> None:
    if alpha == 0:
        fail(
            RuntimeError,
            "celu",
            "ZeroDivisionError: alpha cannot be 0 for CELU",
            alpha,
            hint="relu is the limit of small alpha",
        )


@pointwise(
    "celu(Tensor self, Number alpha=1.0) -> Tensor",
    names=("celu",),
    dtypes="float",
    check=_check_celu,
    prebuilt=({"alpha": RUNTIME},),
    quantized="same range",
)
def celu(x, *, alpha):
    """`self` above zero, ``alpha * (exp(self / alpha) - 1)`` below [Barron 2017]."""
    return s.where(x > 0, x, alpha * s.expm1(x / alpha))


@celu.backward
def _(grad, x, *, alpha):
    """From the exponential itself: from `expm1(x / alpha) + 1` far below zero nothing would be left."""
    return s.where(x > 0, grad, grad * s.exp(x / alpha))


@pointwise(
    "gelu(Tensor self, *, str approximate='none') -> Tensor",
    out_exact=True,
    names=("nn.functional.gelu",),
    home="_C._nn.gelu",
    dtypes="float",
    quantized="same range",
    prebuilt=({"approximate": "tanh"},),
)
def gelu(x, *, approximate):
    """Gaussian error linear unit ``self * Phi(self)`` [Hendrycks & Gimpel 2016]."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + s.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)))
    if approximate != "none":
        fail(
            RuntimeError,
            "gelu",
            "approximate argument must be either none or tanh",
            repr(approximate),
            hint="'none' is exact, and the default",
        )
    return 0.5 * x * (1.0 + s.erf(x * SQRT_HALF))


@gelu.backward
def _(grad, x, *, approximate):
    """The distribution and its density as they stand: fewer roundings where they nearly cancel."""
    if approximate == "tanh":
        t = s.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x))
        inner = SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x)
        return grad * (0.5 * (1.0 + t) + 0.5 * x * (((1.0 - t) * (1.0 + t)) * inner))
    distribution = 0.5 * (1.0 + s.erf(x * SQRT_HALF))
    density = INV_SQRT_2PI * s.exp(-0.5 * x * x)
    return grad * (distribution + x * density)


@pointwise("silu(Tensor self) -> Tensor", names=(), dtypes="float complex")
def silu(x):
    """``self * sigmoid(self)`` [Elfwing, Uchibe & Doya 2017]."""
    return x / (1.0 + s.exp(-x))


@silu.backward
def _(grad, x):
    """With the gate in factors that stay finite where the exponential is infinite."""
    gate = s.sigmoid(s.conj(x))
    return grad * (gate * (1.0 + s.conj(x) * (1.0 - gate)))


def _mish_parts(x: s.Scalar) -> tuple[s.Scalar, s.Scalar]:
    """With ``e = exp(self)``: ``tanh(log(1 + e)) = n / (n + 2)``, ``n = e (e + 2)``; above 20 it is 1."""
    e = s.exp(s.minimum(x, s.constant(20.0, x.dtype)))
    return e, e * (e + 2.0)


@pointwise("mish(Tensor self) -> Tensor", names=(), dtypes="float")
def mish(x):
    """``self * tanh(softplus(self))`` [Misra 2019]."""
    _, n = _mish_parts(x)
    return x * (n / (n + 2.0))


@mish.backward
def _(grad, x):
    """Over the parts of the value, which stay finite where exponentials are not."""
    e, n = _mish_parts(x)
    below = n + 2.0
    slope = 4.0 * (n + 1.0) / (below * below)
    return grad * (n / below + s.minimum(x, 20.0) * (e / (1.0 + e)) * slope)


@pointwise(
    "softplus(Tensor self, Number beta=1, Number threshold=20) -> Tensor",
    out_exact=True,
    names=("nn.functional.softplus",),
    home="_C._nn.softplus",
    dtypes="float",
    prebuilt=({"beta": RUNTIME}, {"beta": RUNTIME, "threshold": RUNTIME}),
    autocast="accelerator float32",
    steps=None,
)
def softplus(x, *, beta, threshold):
    """``log(1 + exp(beta * self)) / beta``, `self` itself above ``threshold / beta``."""
    scaled = x * beta
    return s.where(scaled > threshold, x, s.log1p(s.exp(scaled)) / beta)


@softplus.backward
def _(grad, x, *, beta, threshold):
    """As the logistic function, not as a quotient of exponentials."""
    scaled = x * beta
    return s.where(scaled > threshold, grad, grad / (1.0 + s.exp(-scaled)))


@pointwise(
    "softsign(Tensor self) -> Tensor",
    names=("nn.functional.softsign",),
    result="float",
    file_form="softsign",
)
def softsign(x):
    """``self / (1 + |self|)``."""
    return x / (1.0 + s.apply("abs", x))


@softsign.backward
def _(grad, x):
    """One quotient: of the derivative's two terms little is left far from zero."""
    below = 1.0 + s.apply("abs", x)
    if not x.is_complex:
        return grad / (below * below)
    along = (grad.re * x.re + grad.im * x.im) / (below * below)
    return grad / below - s.sgn(x) * along


@pointwise(
    "tanhshrink(Tensor self) -> Tensor",
    names=("nn.functional.tanhshrink",),
    result="float",
    file_form="tanhshrink",
)
def tanhshrink(x):
    """``self - tanh(self)``."""
    return x - s.tanh(x)


@tanhshrink.backward
def _(grad, x):
    """From `tanh(x)^2`: `1 - (1 - tanh(x)^2)` has no digits near zero."""
    t = s.conj(s.tanh(x))
    return grad * (t * t)


@pointwise(
    "hardswish(Tensor self) -> Tensor",
    names=(),
    dtypes="float",
    quantized="same range",
    quantizers={"fx": "own"},
    steps=None,
)
def hardswish(x):
    """``self * relu6(self + 3) / 6`` [Howard et al. 2019]."""
    return x * s.clamp(x + 3.0, 0.0, 6.0) * (1.0 / 6.0)


@hardswish.backward
def _(grad, x):
    """PyTorch's slopes at the two kinks, and finite ones at infinity."""
    middle = grad * (x * (1.0 / 3.0) + 0.5)
    return s.where(x <= -3.0, 0.0, s.where(x < 3.0, middle, grad))


@pointwise(
    "hardsigmoid(Tensor self) -> Tensor",
    names=(),
    dtypes="float",
    quantized="unit",
    steps=None,
)
def hardsigmoid(x):
    """``relu6(self + 3) / 6``."""
    return s.clamp(x + 3.0, 0.0, 6.0) * (1.0 / 6.0)


@hardsigmoid.backward
def _(grad, x):
    """Nothing at the two kinks, as in PyTorch."""
    return s.where((x > -3.0) & (x < 3.0), grad * (1.0 / 6.0), 0.0)


@pointwise(
    "hardtanh(Tensor self, float min_val=-1.0, float max_val=1.0) -> Tensor",
    names=(),
    dtypes="int float",
    prebuilt=({"min_val": RUNTIME, "max_val": RUNTIME},),
    fits={"min_val": "all", "max_val": "all"},
    quantized="same range",
    quantizers={"fx": "shared", "xnnpack": "activation"},
    steps=None,
)
def hardtanh(x, *, min_val, max_val):
    """``min(max(self, min_val), max_val)``."""
    return s.clamp(x, _bound(min_val, x), _bound(max_val, x))


def _bound(value: s.Scalar, x: s.Scalar) -> s.Scalar:
    return s.cast(value, x.dtype)


@hardtanh.backward
def _(grad, x, *, min_val, max_val):
    """Nothing at both bounds, as in PyTorch."""
    return s.where((x <= _bound(min_val, x)) | (x >= _bound(max_val, x)), 0.0, grad)


@pointwise(
    "hardshrink(Tensor self, Number lambd=0.5) -> Tensor",
    out_exact=True,
    names=(*functions_and_methods("hardshrink"), "nn.functional.hardshrink"),
    dtypes="float",
    fits={"lambd": "all"},
    prebuilt=({"lambd": RUNTIME},),
    inplace=False,
    steps=None,
)
def hardshrink(x, *, lambd):
    """`self` where ``|self| > lambd``, else 0."""
    return s.where((x >= -lambd) & (x <= lambd), 0.0, x)


def _check_lambd(*, lambd: float) -> None:
    if not 0 <= lambd <= core.finfo(core.float32).max:
        fail(
            RuntimeError,
            "softshrink",
            f"lambda must be in range [0, 3.40282e+38] for input dtype Float, but found {lambd:g}",
            lambd,
            hint="lambd=0 changes nothing",
        )


@pointwise(
    "softshrink(Tensor self, Number lambd=0.5) -> Tensor",
    out_exact=True,
    names=("nn.functional.softshrink",),
    home="_C._nn.softshrink",
    dtypes="float",
    check=_check_lambd,
    fits={"lambd": "all"},
    prebuilt=({"lambd": RUNTIME},),
    inplace=False,
    steps=None,
)
def softshrink(x, *, lambd):
    """`self` moved by `lambd` towards zero, 0 between ``-lambd`` and ``lambd``."""
    value = s.where(x > lambd, x - lambd, s.where(x < -lambd, x + lambd, x * 0.0))
    return s.where(s.isnan(x), x, value)


@pointwise(
    "leaky_relu(Tensor self, Number negative_slope=0.01) -> Tensor",
    names=(),
    dtypes="float",
    prebuilt=({"negative_slope": RUNTIME},),
    quantized="same range",
    quantizers={"fx": "own", "script": "shared"},
    steps=None,
)
def leaky_relu(x, *, negative_slope):
    """`self` above zero, ``negative_slope * self`` below."""
    return s.where(x > 0, x, x * negative_slope)


@pointwise(
    "threshold(Tensor self, Number threshold, Number value) -> Tensor",
    names=("threshold",),
    dtypes="int float",
    fits={"value": "all"},
    quantized="same range",
    steps=None,
)
def threshold(x, *, threshold, value):
    """`self` above the threshold, `value` elsewhere."""
    return s.where(x <= _bound(threshold, x), _bound(value, x), x)


@pointwise(
    "logsigmoid(Tensor self) -> Tensor",
    out_exact=True,
    names=("nn.functional.logsigmoid",),
    home="_C._nn.log_sigmoid",
    dtypes="float",
    inplace=False,
    node="LogSigmoidBackward0",
    file_name="log_sigmoid.default",
)
def logsigmoid(x):
    """``log(sigmoid(self)) = min(self, 0) - log(1 + exp(-|self|))``."""
    return s.minimum(x, s.constant(0.0, x.dtype)) - s.log1p(s.exp(-s.abs(x)))


@logsigmoid.backward
def _(grad, x):
    """One quotient that neither overflows nor cancels."""
    return grad / (1.0 + s.exp(x))


@pointwise(
    "_prelu(Tensor self, Tensor weight) -> Tensor",
    names=(),
    dtypes="float",
    inplace=False,
    out=False,
)
def _prelu(x, weight):
    """`self` above zero, ``weight * self`` below [He et al. 2015]; `weight` broadcasts."""
    return s.where(x > 0, x, weight * x)
