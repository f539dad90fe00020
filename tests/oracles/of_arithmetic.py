"""Oracles of elementwise arithmetic, rounding, selection and activations: expressions of NumPy and SciPy."""

import numpy
import scipy.special
from oracle_table import call, oracle

# where a definition's `reference` names a NumPy function that takes the same arguments, nothing stands here


@oracle("add", kind="numpy")
def add(a, b, alpha=1):
    return numpy.add(a, b if alpha == 1 else numpy.multiply(alpha, b))


@oracle("sub", kind="numpy")
def subtract(a, b, alpha=1):
    return numpy.subtract(a, numpy.multiply(alpha, b))


@oracle("rsub", kind="numpy")
def reversed_subtract(a, b, alpha=1):
    return subtract(b, a, alpha)


@oracle("sign", kind="loop")
def sign(a):
    compared = numpy.asarray(a)
    return (
        (compared > 0) ^ (compared < 0)
        if compared.dtype == bool
        else (compared > 0) * compared.dtype.type(1) - (compared < 0) * compared.dtype.type(1)
    )


@oracle("sgn", kind="numpy")
def direction(a):
    if a.dtype == bool:
        return a
    length = numpy.abs(a)
    return numpy.where(length == 0, 0, a / numpy.where(length == 0, 1, length)).astype(a.dtype)


@oracle("square", kind="numpy")
def square(a):
    return a * a if a.dtype != bool else a.astype(numpy.int64) ** 2


@oracle("positive", kind="numpy", samples=lambda S: [call(S(3, 4))])
def positive(a):
    return +a


@oracle("rsqrt", kind="numpy")
def reciprocal_root(a):
    return 1 / numpy.sqrt(a if a.dtype.kind in "fc" else a.astype(float))


@oracle(
    "float_power",
    "float_power_",
    kind="numpy",
    orders=True,
    samples=lambda S: [
        call(S(3, 4, low=0.5, high=2, dtype=S.wide), S(3, 4, dtype=S.wide)),
        call(S(3, 4, low=0.5, high=2, dtype=S.wide), 2.5),
    ],
)
def float_power(a, b):
    return numpy.float_power(a, b)


@oracle("addcmul", kind="numpy")
def add_product(a, b, c, value=1):
    return a + value * b * c


@oracle("addcdiv", kind="numpy", factor=128)
def add_quotient(a, b, c, value=1):
    return a + value * b / c


@oracle("lerp", kind="numpy")
def interpolated(start, end, weight):
    return (1 - weight) * start + weight * end


@oracle("copysign", kind="numpy")
def with_sign_of(a, b):
    return numpy.where(numpy.signbit(b), -numpy.abs(a * 1.0), numpy.abs(a * 1.0))


@oracle(
    "nextafter",
    "nextafter_",
    kind="numpy",
    float32=False,
    samples=lambda S: [
        call(S(3, 4), S(3, 4)),
        call(S.of([0.0, 1.0, -1.0]), S.of([1.0, 1.0, -2.0])),
    ],
)
def next_after(a, b):
    return numpy.nextafter(a, b)


@oracle("conj_physical", "conj", kind="numpy", samples=lambda S: [call(S.complex(3, 4))])
def conjugate(a):
    return a.real - 1j * a.imag if a.dtype.kind == "c" else a


@oracle("resolve_conj", "resolve_neg", kind="identity", samples=lambda S: [call(S.complex(3, 4))])
def unchanged(a):
    return a


@oracle("complex", kind="numpy", samples=lambda S: [call(S(3, 4), S(3, 4))])
def complex_of(real, imag):
    return real + 1j * imag


@oracle("polar", kind="numpy", samples=lambda S: [call(S(3, 4, low=0), S(3, 4))])
def polar(length, angle):
    return length * numpy.exp(1j * angle)


@oracle("div", kind="numpy")
def divide(a, b, rounding_mode=None):
    if rounding_mode is None:
        return numpy.true_divide(a, b)
    rounded = {"trunc": numpy.trunc, "floor": numpy.floor}[rounding_mode](numpy.true_divide(a, b))
    return rounded.astype(numpy.result_type(a, b))


@oracle("logaddexp", kind="numpy")
def log_of_sum(a, b):
    return numpy.log(numpy.exp(a) + numpy.exp(b))


@oracle("sigmoid", kind="numpy")
def sigmoid(a):
    return 1 / (1 + numpy.exp(-1.0 * a))


@oracle("logit", kind="scipy", integers=False)
def log_odds(a, eps=None):
    return scipy.special.logit(a if eps is None else numpy.clip(a, eps, 1 - eps))


@oracle(
    "ldexp",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4), S.of([1, -2, 3, 0])),
        call(S(3, 4), S(3, 4)),
    ],
)
def times_power(a, b):
    return a * 2.0**b


@oracle(
    "frexp",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4)),
        call(S.of([0.0, 1.0, -8.0, 0.1, 1e30])),
    ],
)
def mantissa_and_exponent(a):
    return numpy.frexp(a)


@oracle("round", kind="numpy")
def rounded(a, decimals=0):
    return numpy.round(a, decimals)


@oracle("frac", kind="numpy")
def fraction(a):
    return a - numpy.trunc(a)


@oracle("clamp", kind="numpy")
def clamped(a, min=None, max=None):
    low = a if min is None else numpy.maximum(a, min)
    return low if max is None else numpy.minimum(low, max)


@oracle(
    "clamp_min",
    "clamp_min_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), 0.25), call(S(3, 4), S(3, 4))],
)
def at_least(a, min):
    return numpy.maximum(a, min)


@oracle(
    "clamp_max",
    "clamp_max_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), 0.25), call(S(3, 4), S(3, 4))],
)
def at_most(a, max):
    return numpy.minimum(a, max)


@oracle(
    "_where",
    kind="numpy",
    samples=lambda S: [call(S.mask(3, 4), S(3, 4), S(3, 4)), call(S.mask(3, 1), S(3, 4), 0.5)],
)
def chosen(condition, a, b):
    return numpy.where(condition, a, b)


@oracle(
    "_tensor_where",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), S.mask(3, 4), S(3, 4)), call(S(3, 4), S.mask(4), 0.5)],
)
def chosen_from_first(a, condition, b):
    return numpy.where(condition, a, b)


@oracle(
    "nan_to_num",
    "nan_to_num_",
    kind="numpy",
    samples=lambda S: [
        call(S.of([1.0, float("nan"), -2.0]), 0.5),
        call(S.of([1.0, float("nan"), float("inf"), -float("inf")]), 0.5, 7.0, -8.0),
    ],
)
def finite(a, nan=None, posinf=None, neginf=None):
    return numpy.nan_to_num(a, nan=nan, posinf=posinf, neginf=neginf)


@oracle("heaviside", kind="numpy")
def heaviside(a, values):
    return numpy.where(a == 0, values, a > 0).astype(numpy.result_type(a, values))


# activations


@oracle(
    "relu", "_functional_relu", "_functional_relu_", kind="numpy", samples=lambda S: [call(S(3, 4))]
)
def relu(a, inplace=False):
    return numpy.maximum(a, 0)


SCALE, ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _elu(a, alpha=1.0, scale=1.0, input_scale=1.0):
    return scale * numpy.where(a > 0, a, alpha * (numpy.exp(a * input_scale) - 1))


@oracle(
    "selu", "_functional_selu", "_functional_selu_", kind="numpy", samples=lambda S: [call(S(3, 4))]
)
def selu(a, inplace=False):
    return _elu(a, ALPHA, SCALE)


@oracle(
    "_functional_elu",
    "_functional_elu_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S(3, 4), 1.5)],
)
def elu(a, alpha=1.0, inplace=False):
    return _elu(a, alpha)


@oracle(
    "celu",
    "_functional_celu",
    "_functional_celu_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S(3, 4), 1.5)],
)
def celu(a, alpha=1.0, inplace=False):
    return _elu(a, alpha, input_scale=1 / alpha)


@oracle("gelu", kind="scipy")
def gelu(a, approximate="none"):
    if approximate == "none":
        return a * scipy.special.ndtr(a)
    return 0.5 * a * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (a + 0.044715 * a**3)))


@oracle("softplus", kind="numpy")
def softplus(a, beta=1, threshold=20):
    return numpy.where(a * beta > threshold, a, numpy.log(1 + numpy.exp(a * beta)) / beta)


@oracle("softsign", kind="numpy")
def softsign(a):
    return a / (1 + numpy.abs(a))


@oracle("tanhshrink", kind="numpy", factor=64)
def tanhshrink(a):
    return a - numpy.tanh(a * 1.0)


@oracle("hardshrink", kind="numpy")
def hardshrink(a, lambd=0.5):
    return numpy.where(numpy.abs(a) <= lambd, 0, a)


@oracle("softshrink", kind="numpy")
def softshrink(a, lambd=0.5):
    return numpy.sign(a) * numpy.maximum(numpy.abs(a) - lambd, 0)


@oracle("threshold", kind="numpy")
@oracle(
    "_functional_threshold",
    "_functional_threshold_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), 0.1, 0.7)],
)
def thresholded(a, threshold, value, inplace=False):
    return numpy.where(a > threshold, a, numpy.asarray(value, a.dtype))


@oracle("logsigmoid", kind="numpy")
def log_sigmoid(a):
    return -numpy.log1p(numpy.exp(-a))


@oracle("_functional_relu6", kind="numpy", samples=lambda S: [call(S(3, 4, low=-2, high=9))])
def relu6(a, inplace=False):
    return numpy.clip(a, 0, 6)


@oracle("_functional_silu", kind="numpy", samples=lambda S: [call(S(3, 4, low=-5, high=5))])
def silu(a, inplace=False):
    return a / (1 + numpy.exp(-a))


@oracle("_functional_mish", kind="numpy", samples=lambda S: [call(S(3, 4, low=-5, high=5))])
def mish(a, inplace=False):
    return a * numpy.tanh(numpy.log1p(numpy.exp(a)))


@oracle("_functional_hardswish", kind="numpy", samples=lambda S: [call(S(3, 4, low=-5, high=5))])
def hardswish(a, inplace=False):
    return a * numpy.clip(a + 3, 0, 6) / 6


@oracle("_functional_hardsigmoid", kind="numpy", samples=lambda S: [call(S(3, 4, low=-5, high=5))])
def hardsigmoid(a, inplace=False):
    return numpy.clip(a + 3, 0, 6) / 6


@oracle(
    "_functional_leaky_relu",
    "_functional_leaky_relu_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S(3, 4), 0.3)],
)
def leaky_relu(a, negative_slope=0.01, inplace=False):
    return numpy.where(a > 0, a, negative_slope * a)


@oracle(
    "_functional_hardtanh",
    "_functional_hardtanh_",
    kind="numpy",
    samples=lambda S: [call(S(3, 4, low=-2, high=2)), call(S(3, 4), -0.5, 0.25)],
)
def hardtanh(a, min_val=-1.0, max_val=1.0, inplace=False):
    return numpy.clip(a, min_val, max_val)


@oracle(
    "prelu",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), S.of([0.25])), call(S(3, 4, 2), S.of([0.1, 0.2, 0.3, 0.4]))],
)
def prelu(a, weight):
    slope = weight.reshape(1, -1, *[1] * (a.ndim - 2))
    return numpy.where(a > 0, a, slope * a)


@oracle("glu", kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(3, 4, 2), 1)])
def gated(a, dim=-1):
    first, second = numpy.split(a, 2, axis=dim)
    return first * sigmoid(second)
