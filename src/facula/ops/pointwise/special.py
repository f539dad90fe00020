"""Error, gamma and related functions.

Takes: tensors.
Gives: operators `erf`, `erfc`, `erfinv`, `special_erfcx`, `special_ndtr`, `special_log_ndtr`, `special_ndtri`,
`special_entr`, `lgamma`, `digamma`, `polygamma`, `mvlgamma`, `special_zeta`, `igamma`, `igammac`.
Keeps true: real arguments only; integers compute in the default dtype.
Source: Abramowitz & Stegun 1964, chapters 6, 7 and 23.
"""

from __future__ import annotations

import math

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import functions_and_methods
from facula.ops.table.registry import F, composite, pointwise

REAL = "bool int float"
SQRT_HALF, SQRT_2_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


@pointwise(
    "erf(Tensor self) -> Tensor",
    names=functions_and_methods("erf", special=("erf",)),
    result="float",
    dtypes=REAL,
    reference="scipy.special.erf",
)
def erf(x):
    """Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t^2)`` from 0 to `self`."""
    return s.erf(x)


@pointwise(
    "erfc(Tensor self) -> Tensor",
    names=functions_and_methods("erfc", special=("erfc",)),
    result="float",
    dtypes=REAL,
    reference="scipy.special.erfc",
)
def erfc(x):
    """Complementary error function ``1 - erf(self)``."""
    return s.erfc(x)


@pointwise(
    "erfinv(Tensor self) -> Tensor",
    names=functions_and_methods("erfinv", special=("erfinv",)),
    result="float",
    dtypes=REAL,
    domain=(-1, 1),
    reference="scipy.special.erfinv",
    autocast="accelerator float32",
)
def erfinv(x):
    """Inverse error function on (-1, 1)."""
    return s.erfinv(x)


@pointwise(
    "special_erfcx(Tensor self) -> Tensor",
    names=("special.erfcx",),
    result="float",
    dtypes=REAL,
    inplace=False,
    reference="scipy.special.erfcx",
)
def special_erfcx(x):
    """Scaled complementary error function ``exp(self^2) * erfc(self)``."""
    return s.erfcx(x)


@pointwise(
    "special_ndtr(Tensor self) -> Tensor",
    names=("special.ndtr",),
    result="float",
    dtypes=REAL,
    inplace=False,
    reference="scipy.special.ndtr",
)
def special_ndtr(x):
    """Distribution function of the standard normal, ``erfc(-self / sqrt(2)) / 2``."""
    return 0.5 * s.erfc(-x * SQRT_HALF)


@special_ndtr.backward
def _(grad, x):
    """The density itself; the derivative of the two branches cancels."""
    return grad * (s.exp(-0.5 * x * x) * INV_SQRT_2PI)


@pointwise(
    "special_log_ndtr(Tensor self) -> Tensor",
    names=("special.log_ndtr",),
    result="float",
    dtypes=REAL,
    inplace=False,
    reference="scipy.special.log_ndtr",
)
def special_log_ndtr(x):
    """Logarithm of the standard normal's distribution function, exact in the left tail."""
    t = x * SQRT_HALF
    return s.where(x < -1.0, s.log(s.erfcx(-t) * 0.5) - t * t, s.log1p(-0.5 * s.erfc(t)))


@special_log_ndtr.backward
def _(grad, x):
    """By `erfcx`, which is finite far below zero, where the quotient of the derivative is not."""
    return grad / s.erfcx(-x * SQRT_HALF) * SQRT_2_OVER_PI


@pointwise(
    "special_ndtri(Tensor self) -> Tensor",
    names=("special.ndtri",),
    result="float",
    dtypes=REAL,
    domain=(0, 1),
    inplace=False,
    reference="scipy.special.ndtri",
)
def special_ndtri(x):
    """Quantile of the standard normal, the inverse of `ndtr`."""
    return s.ndtri(x)


@pointwise(
    "special_entr(Tensor self) -> Tensor",
    names=("special.entr",),
    result="float",
    dtypes=REAL,
    domain=(0, None),
    inplace=False,
    reference="scipy.special.entr",
)
def special_entr(x):
    """Entropy term ``-self * log(self)``: 0 at 0, minus infinity below."""
    value = s.where(x == 0, 0.0, s.where(x > 0, -x * s.log(x), -math.inf))
    return s.where(s.isnan(x), x, value)


@special_entr.backward
def _(grad, x):
    """NaN below zero, as in PyTorch, where the value is constant."""
    return grad * (-(s.log(x) + 1.0))


@pointwise(
    "lgamma(Tensor self) -> Tensor",
    names=functions_and_methods("lgamma", special=("gammaln",)),
    result="float",
    dtypes=REAL,
    reference="scipy.special.gammaln",
)
def lgamma(x):
    """Logarithm of the absolute value of the gamma function."""
    return s.lgamma(x)


@pointwise(
    "digamma(Tensor self) -> Tensor",
    names=functions_and_methods("digamma", special=("digamma", "psi")),
    result="float",
    dtypes=REAL,
    reference="scipy.special.digamma",
)
def digamma(x):
    """Derivative of `lgamma`."""
    return s.digamma(x)


@pointwise(
    "_polygamma(Tensor self, int n) -> Tensor",
    names=("Tensor.polygamma",),
    file_form="polygamma",
    result="float",
    dtypes=REAL,
    domain=(0, None),
)
def _polygamma(x, *, n):
    """The n-th derivative of `digamma`."""
    return s.polygamma(s.cast(n, x.dtype), x)


@composite("polygamma(Number n, Tensor self) -> Tensor", names=("polygamma", "special.polygamma"))
def polygamma(n, self):
    """The n-th derivative of `digamma`.

    Example:
        >>> facula.polygamma(1, facula.tensor([1.0, 2.0]))
        tensor([1.6449, 0.6449])
    """
    if not 0 <= n < 2**63 or n != int(n):
        core.errors.fail(
            RuntimeError,
            "polygamma",
            "an integer order n >= 0 was required",
            got=n,
            hint="polygamma(0, x) is digamma(x), and each n its derivative of that order",
        )
    return F._polygamma(self, int(n))


@composite(
    "mvlgamma(Tensor self, int p) -> Tensor",
    names=functions_and_methods("mvlgamma", special=("multigammaln",)),
    inplace=True,
    elementwise=True,
    node="MvlgammaBackward0",
)
def mvlgamma(self, p):
    """Logarithm of the multivariate gamma function of dimension `p`."""
    if p < 1:
        core.errors.fail(RuntimeError, "mvlgamma", "a dimension p >= 1", got=p)
    kind = self.dtype if self.is_floating_point() else core.get_default_dtype()
    # all at once: a `p` that no memory holds is an error, not a loop without an end
    halves = F.arange(0, p, dtype=kind, device=self.device) * -0.5
    return F.lgamma(self.unsqueeze(-1) + halves).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


@pointwise(
    "special_zeta(Operand self, Operand other) -> Tensor",
    names=("special.zeta",),
    result="float",
    dtypes=REAL,
    domain=(1, None),
    inplace=False,
    reference="scipy.special.zeta",
)
def special_zeta(x, q):
    """Hurwitz zeta function, the sum of ``(k + other) ** -self`` over k from 0."""
    return s.zeta(x, q)


@pointwise(
    "igamma(Operand self, Operand other) -> Tensor",
    names=functions_and_methods("igamma", special=("gammainc",)),
    strict=("self", "other"),
    result="float",
    dtypes=REAL,
    domain=(0, None),
    reference="scipy.special.gammainc",
)
def igamma(a, x):
    """Regularised lower incomplete gamma function P(self, other)."""
    return s.igamma(a, x)


@pointwise(
    "igammac(Operand self, Operand other) -> Tensor",
    names=functions_and_methods("igammac", special=("gammaincc",)),
    strict=("self", "other"),
    result="float",
    dtypes=REAL,
    domain=(0, None),
    reference="scipy.special.gammaincc",
)
def igammac(a, x):
    """Regularised upper incomplete gamma function Q(self, other)."""
    return s.igammac(a, x)
