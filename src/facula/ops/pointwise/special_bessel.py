"""Bessel and Airy functions.

Takes: tensors.
Gives: operators `i0` and, in `special`, `i0e`, `i1`, `i1e`, `bessel_j0`, `bessel_j1`, `bessel_y0`, `bessel_y1`,
`modified_bessel_i0`, .. `k1`, `scaled_modified_bessel_k0`, `k1`, `spherical_bessel_j0`, `airy_ai`.
Keeps true: real arguments; all are differentiable.
Source: Abramowitz & Stegun 1964, chapters 9 and 10.
"""

from __future__ import annotations

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import functions_and_methods
from facula.ops.table.registry import pointwise

REAL = "bool int float"


@pointwise(
    "i0(Tensor self) -> Tensor",
    names=functions_and_methods("i0", special=("i0",)),
    result="float",
    dtypes=REAL,
    reference="scipy.special.i0",
)
def i0(x):
    """Modified Bessel function of the first kind, order 0."""
    return s.i0(x)


def _special(name: str, primitive: str, reference: str, meaning: str, low: float | None) -> core.Op:
    def body(x):
        return getattr(s, primitive)(x)

    body.__doc__ = meaning
    return pointwise(
        f"special_{name}(Tensor self) -> Tensor",
        names=(f"special.{name}",),
        result="float",
        dtypes=REAL,
        domain=None if low is None else (low, None),
        inplace=False,
        reference=f"scipy.special.{reference}",
    )(body)


_FIRST = "Modified Bessel function of the first kind, order"
_SECOND = "Modified Bessel function of the second kind, order"
special_i0e = _special("i0e", "i0e", "i0e", f"{_FIRST} 0, times ``exp(-|self|)``.", None)
special_i1 = _special("i1", "i1", "i1", f"{_FIRST} 1.", None)
special_i1e = _special("i1e", "i1e", "i1e", f"{_FIRST} 1, times ``exp(-|self|)``.", None)
special_modified_bessel_i0 = _special("modified_bessel_i0", "i0", "i0", f"{_FIRST} 0.", None)
special_modified_bessel_i1 = _special("modified_bessel_i1", "i1", "i1", f"{_FIRST} 1.", None)
special_modified_bessel_k0 = _special("modified_bessel_k0", "bessel_k0", "k0", f"{_SECOND} 0.", 0)
special_modified_bessel_k1 = _special("modified_bessel_k1", "bessel_k1", "k1", f"{_SECOND} 1.", 0)
special_bessel_j0 = _special(
    "bessel_j0", "bessel_j0", "j0", "Bessel function of the first kind, order 0.", None
)
special_bessel_j1 = _special(
    "bessel_j1", "bessel_j1", "j1", "Bessel function of the first kind, order 1.", None
)
special_bessel_y0 = _special(
    "bessel_y0", "bessel_y0", "y0", "Bessel function of the second kind, order 0.", 0
)
special_bessel_y1 = _special(
    "bessel_y1", "bessel_y1", "y1", "Bessel function of the second kind, order 1.", 0
)
special_airy_ai = _special("airy_ai", "airy_ai", "airy", "Airy function Ai.", None)


def _scaled(order: int) -> core.Op:
    def body(x):
        return getattr(s, f"bessel_k{order}e")(x)

    body.__doc__ = f"{_SECOND} {order}, times ``exp(self)``."
    return pointwise(
        f"special_scaled_modified_bessel_k{order}(Tensor x) -> Tensor",
        names=(f"special.scaled_modified_bessel_k{order}",),
        result="float",
        dtypes=REAL,
        domain=(0, None),
        inplace=False,
        reference=f"scipy.special.k{order}e",
    )(body)


special_scaled_modified_bessel_k0 = _scaled(0)
special_scaled_modified_bessel_k1 = _scaled(1)


@pointwise(
    "special_spherical_bessel_j0(Tensor x) -> Tensor",
    names=("special.spherical_bessel_j0",),
    result="float",
    dtypes=REAL,
    inplace=False,
)
def special_spherical_bessel_j0(x):
    """Spherical Bessel function of order 0, ``sin(x) / x``."""
    near = s.abs(x) < 1e-4
    series = 1.0 - x * x * (1.0 / 6.0)
    return s.where(s.isinf(x), 0.0, s.where(near, series, s.sin(x) / x))


@special_spherical_bessel_j0.backward
def _(grad, x):
    """A series near zero, where the two terms of the derivative cancel."""
    near = s.abs(x) < 0.1
    square = x * x
    series = -x * (
        1.0 / 3.0 - square * (1.0 / 30.0 - square * (1.0 / 840.0 - square * (1.0 / 45360.0)))
    )
    apart = s.where(near, 1.0, x)  # nothing is divided by zero, in derivatives of this neither
    return grad * s.where(near, series, (apart * s.cos(apart) - s.sin(apart)) / (apart * apart))
