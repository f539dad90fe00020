"""Complex functions as formulas over pairs of real expressions.

Takes: `Complex` values (real ones are lifted).
Gives: entries of `complex_builders`, so that `exp(z)` and `z * w` mean the complex function; `conj`, `angle`, `sgn`.
Keeps true: principal branches and signed zeros as in C99, no overflow in intermediate steps where the result is finite
(division by scaling [Smith 1962], inverse functions after [Kahan 1987]).  As everything is real arithmetic, gradients
need no rules of their own: the pair (dL/dre, dL/dim) is PyTorch's convention.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula.ops.expr import primitives as real
from facula.ops.expr.node import Complex, Scalar, Value, apply, complex_builders, lift, parts
from facula.ops.expr.primitives import where

#: functions that are the analytic continuation of the real function of the same name
HOLOMORPHIC = {"mul", "div"}


def _rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register under the function's name; arguments arrive as `Complex`."""
    name = function.__name__.rstrip("_")

    def build(*args: Value) -> Any:
        return function(*(Complex(*parts(arg)) for arg in args))

    complex_builders[name] = build
    if function.__annotations__["return"] == "Complex":  # the others give real numbers
        HOLOMORPHIC.add(name)
    return function


@_rule
def add(z: Complex, w: Complex) -> Complex:
    """Sum."""
    return Complex(z.re + w.re, z.im + w.im)


@_rule
def sub(z: Complex, w: Complex) -> Complex:
    """Difference."""
    return Complex(z.re - w.re, z.im - w.im)


@_rule
def neg(z: Complex) -> Complex:
    """Negation."""
    return Complex(-z.re, -z.im)


def mul(z: Value, w: Value) -> Complex:
    """Product by its definition; a real factor scales both parts."""
    z, w = lift(z), lift(w)
    if isinstance(w, Scalar):
        return Complex(z.re * w, z.im * w)
    if isinstance(z, Scalar):
        return Complex(z * w.re, z * w.im)
    return Complex(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)


def div(z: Value, w: Value) -> Complex:
    """Quotient, divided through by the larger part of `w` so that squares can not overflow."""
    z, w = lift(z), lift(w)
    if isinstance(w, Scalar):
        return Complex(z.re / w, z.im / w)
    return _quotient(Complex(*parts(z)), w)


complex_builders.update(mul=mul, div=div)


def _quotient(z: Complex, w: Complex) -> Complex:
    wide = abs(w.re) >= abs(w.im)
    large, small = where(wide, w.re, w.im), where(wide, w.im, w.re)
    a, b = where(wide, z.re, z.im), where(wide, z.im, z.re)
    ratio = where(large == 0, large, small / large)
    scale = 1.0 / (large + small * ratio)
    im = (b - a * ratio) * scale
    return Complex((a + b * ratio) * scale, where(wide, im, -im))


@_rule
def reciprocal(z: Complex) -> Complex:
    """`1 / z`."""
    return div(Complex(*parts(1.0)), z)


@_rule
def abs_(z: Complex) -> Scalar:
    """Modulus."""
    return real.hypot(z.re, z.im)


@_rule
def eq(z: Complex, w: Complex) -> Scalar:
    """Both parts are equal."""
    return real.logical_and(z.re == w.re, z.im == w.im)


@_rule
def ne(z: Complex, w: Complex) -> Scalar:
    """A part differs."""
    return real.logical_or(z.re != w.re, z.im != w.im)


@_rule
def isnan(z: Complex) -> Scalar:
    """A part is NaN."""
    return real.logical_or(real.isnan(z.re), real.isnan(z.im))


@_rule
def isinf(z: Complex) -> Scalar:
    """A part is infinite."""
    return real.logical_or(real.isinf(z.re), real.isinf(z.im))


@_rule
def isfinite(z: Complex) -> Scalar:
    """Both parts are finite."""
    return real.logical_and(real.isfinite(z.re), real.isfinite(z.im))


def conj(z: Value) -> Any:
    """Complex conjugate; a real value is its own."""
    z = lift(z)
    return Complex(z.re, -z.im) if isinstance(z, Complex) else z


def angle(z: Value) -> Any:
    """Argument in (-pi, pi]; of a real value 0 or pi, NaN kept."""
    z = lift(z)
    if isinstance(z, Complex):
        return real.atan2(z.im, z.re)
    return (
        where(real.isnan(z), z, where(z < 0, math.pi, 0.0))
        if z.is_float
        else where(z < 0, math.pi, 0.0)
    )


def sgn(z: Value) -> Any:
    """`z / |z|`, zero at zero."""
    z = lift(z)
    if not isinstance(z, Complex):
        return real.sign(z)
    zero = real.logical_and(z.re == 0, z.im == 0)
    # at zero the size of another number, so that neither it nor its derivatives are NaN
    size = abs(Complex(where(zero, 1.0, z.re), z.im))
    return Complex(where(zero, 0.0, z.re / size), where(zero, 0.0, z.im / size))


def times_i(z: Complex) -> Complex:
    """`i z`."""
    return Complex(-z.im, z.re)


def over_i(z: Complex) -> Complex:
    """`z / i`."""
    return Complex(z.im, -z.re)


def _unless_zero(zero: Value, factor: Value, wave: Value) -> Any:
    """`factor * wave`, which vanishes with `zero`, but `zero` itself where the product would be 0 times infinity."""
    # Elsewhere it must stay the product: a constant has no slope, and gradients are differentiated through this.
    product = factor * wave
    return where(
        real.logical_and(zero == 0, real.logical_not(real.isfinite(product))), zero, product
    )


@_rule
def exp(z: Complex) -> Complex:
    """`e^re (cos im + i sin im)`; an imaginary part of zero stays zero beside an infinity."""
    size = real.exp(z.re)
    undirected = real.logical_not(real.isfinite(z.im))
    vanishes = real.logical_and(size == 0, undirected)
    # of no direction at infinity, as in C: the real part is infinite, the imaginary one undefined
    re = where(real.logical_and(undirected, real.isinf(size)), size, size * real.cos(z.im))
    im = _unless_zero(z.im, size, real.sin(z.im))
    return Complex(where(vanishes, 0.0, re), where(vanishes, 0.0, im))


@_rule
def exp2(z: Complex) -> Complex:
    """`2^z`."""
    return exp(Complex(z.re * real.LN2, z.im * real.LN2))


@_rule
def expm1(z: Complex) -> Complex:
    """`e^z - 1` without cancellation near zero."""
    half = real.sin(z.im * 0.5)
    size = real.exp(z.re)
    return Complex(real.expm1(z.re) * real.cos(z.im) - 2.0 * half * half, size * real.sin(z.im))


@_rule
def log(z: Complex) -> Complex:
    """Logarithm; near the unit circle `log1p((|z| - 1)(|z| + 1)) / 2` keeps the real part exact."""
    a, b = abs(z.re), abs(z.im)
    large, small = real.fmax(a, b), real.fmin(a, b)
    near = real.logical_and(large > 0.5, large < 2.0)
    near = real.logical_and(near, a + b < 4.0)  # not of NaN, which `fmax` passes over
    excess = (large - 1.0) * (large + 1.0) + small * small
    return Complex(
        where(near, 0.5 * real.log1p(excess), real.log(real.hypot(z.re, z.im))),
        real.atan2(z.im, z.re),
    )


def _scaled_log(z: Complex, factor: float) -> Complex:
    out = log(z)
    return Complex(out.re * factor, out.im * factor)


@_rule
def log2(z: Complex) -> Complex:
    """Logarithm to base 2."""
    return _scaled_log(z, 1 / real.LN2)


@_rule
def log10(z: Complex) -> Complex:
    """Logarithm to base 10."""
    return _scaled_log(z, 1 / real.LN10)


@_rule
def log1p(z: Complex) -> Complex:
    """`log(1 + z)` without cancellation near zero."""
    excess = z.re * (2.0 + z.re) + z.im * z.im
    near = abs(excess) < 0.5
    moved = z.re + 1.0
    return Complex(
        where(near, 0.5 * real.log1p(excess), real.log(real.hypot(moved, z.im))),
        real.atan2(z.im, moved),
    )


@_rule
def sqrt(z: Complex) -> Complex:
    """Principal square root: the part without cancellation first, the other by division."""
    a = abs(z.re)
    big = real.fmax(a, abs(z.im)) > 1e30  # any value does between overflow of squares and underflow
    scale = where(big, 0.0625, 1.0)
    size = real.hypot(a * scale, z.im * scale)
    root = real.sqrt((a * scale + size) * 0.5) * where(big, 4.0, 1.0)
    zero = root == 0
    other = where(zero, z.im, z.im / (root + root))
    right = real.logical_not(real.signbit(z.re))
    infinite = real.isinf(z.im)
    re = where(
        right, root, other * real.copysign(1.0, z.im)
    )  # with a slope at zero, which abs() lacks
    im = where(right, other, real.copysign(root, z.im))
    return Complex(where(infinite, math.inf, re), where(infinite, z.im, im))


@_rule
def rsqrt(z: Complex) -> Complex:
    """`1 / sqrt(z)`."""
    return reciprocal(sqrt(z))


@_rule
def pow(z: Complex, w: Complex) -> Complex:
    """`exp(w log z)`; `z^0 = 1`, `0^w = 0` for a positive real part of `w`."""
    out = exp(mul(w, log(z)))
    base_zero = real.logical_and(z.re == 0, z.im == 0)
    power_zero = real.logical_and(w.re == 0, w.im == 0)
    vanishes = real.logical_and(base_zero, w.re > 0)
    one = real.logical_and(power_zero, real.logical_not(real.isfinite(out.re)))  # 0^0, infinity^0
    re = where(one, 1.0, where(vanishes, 0.0, out.re))
    return Complex(re, where(real.logical_or(one, vanishes), 0.0, out.im))


@_rule
def sinh(z: Complex) -> Complex:
    """Hyperbolic sine."""
    im = _unless_zero(z.im, real.cosh(z.re), real.sin(z.im))
    return Complex(_unless_zero(z.re, real.cos(z.im), real.sinh(z.re)), im)


@_rule
def cosh(z: Complex) -> Complex:
    """Hyperbolic cosine."""
    product = real.sinh(z.re) * real.sin(z.im)
    zero = real.logical_or(z.re == 0, z.im == 0)
    special = real.logical_and(zero, real.logical_not(real.isfinite(product)))
    signs = real.copysign(1.0, z.re) * real.copysign(0.0, z.im)
    return Complex(real.cosh(z.re) * real.cos(z.im), where(special, signs, product))


@_rule
def tanh(z: Complex) -> Complex:
    """Hyperbolic tangent [Kahan 1987]; beyond |re| = 11 the limit form, where sinh squared would overflow."""
    limit = 11.0 if z.re.dtype == "f32" else 22.0
    t, s = real.tan(z.im), real.sinh(real.clamp(z.re, -limit, limit))
    beta = 1.0 + t * t
    below = 1.0 + beta * s * s
    far = abs(z.re) > limit
    wave = real.where(real.isfinite(z.im), 4.0 * real.sin(z.im) * real.cos(z.im), 0.0)
    vertical = abs(t) > 1e15
    pole = 1.0 / where(
        vertical, s, 1.0
    )  # nothing is divided by zero, in derivatives of this neither
    near_re = where(vertical, pole, beta * real.sqrt(1.0 + s * s) * s / below)
    return Complex(
        where(far, real.copysign(1.0, z.re), near_re),
        where(far, wave * real.exp(-2.0 * abs(z.re)), t / below),
    )


@_rule
def sin(z: Complex) -> Complex:
    """`-i sinh(i z)`."""
    return over_i(sinh(times_i(z)))


@_rule
def cos(z: Complex) -> Complex:
    """`cosh(i z)`."""
    return cosh(times_i(z))


@_rule
def tan(z: Complex) -> Complex:
    """`-i tanh(i z)`."""
    return over_i(tanh(times_i(z)))


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """`sqrt(1 - z)` and `sqrt(1 + z)` with the sign of zero kept on the branch cuts."""
    return sqrt(Complex(1.0 - z.re, -z.im)), sqrt(Complex(1.0 + z.re, z.im))


def _or_limit(z: Complex, near: Complex, limit: Complex) -> Complex:
    """`near`, or what it tends to where z is infinite: products of the parts have no value there."""
    infinite = isinf(z)
    return Complex(where(infinite, limit.re, near.re), where(infinite, limit.im, near.im))


@_rule
def asin(z: Complex) -> Complex:
    """Inverse sine."""
    minus, plus = _roots(z)
    near = Complex(
        real.atan2(z.re, minus.re * plus.re - minus.im * plus.im),
        real.asinh(minus.re * plus.im - minus.im * plus.re),
    )
    return _or_limit(z, near, Complex(real.atan2(z.re, abs(z.im)), real.copysign(math.inf, z.im)))


@_rule
def acos(z: Complex) -> Complex:
    """Inverse cosine."""
    minus, plus = _roots(z)
    near = Complex(
        2.0 * real.atan2(minus.re, plus.re), real.asinh(plus.re * minus.im - plus.im * minus.re)
    )
    return _or_limit(z, near, Complex(real.atan2(abs(z.im), z.re), -real.copysign(math.inf, z.im)))


@_rule
def asinh(z: Complex) -> Complex:
    """Inverse hyperbolic sine, `asin(i z) / i`."""
    return over_i(asin(times_i(z)))


@_rule
def acosh(z: Complex) -> Complex:
    """Inverse hyperbolic cosine."""
    minus, plus = sqrt(Complex(z.re - 1.0, z.im)), sqrt(Complex(z.re + 1.0, z.im))
    near = Complex(
        real.asinh(minus.re * plus.re + minus.im * plus.im), 2.0 * real.atan2(minus.im, plus.re)
    )
    return _or_limit(z, near, Complex(abs(z.re) + abs(z.im), real.atan2(z.im, z.re)))


@_rule
def atanh(z: Complex) -> Complex:
    """Inverse hyperbolic tangent; the real part is odd, and `log1p` of what is positive keeps it exact."""
    side = where(real.signbit(z.re), -1.0, 1.0)
    size = z.re * side
    gap = 1.0 - size
    re = 0.25 * real.log1p(4.0 * size / (gap * gap + z.im * z.im))
    im = 0.5 * real.atan2(2.0 * z.im, gap * (1.0 + size) - z.im * z.im)
    limit = Complex(real.copysign(0.0, z.re), real.copysign(math.pi / 2, z.im))
    return _or_limit(z, Complex(re * side, im), limit)


@_rule
def atan(z: Complex) -> Complex:
    """Inverse tangent, `atanh(i z) / i`."""
    return over_i(atanh(times_i(z)))


def sigmoid(z: Value) -> Any:
    """`1 / (1 + exp(-z))`."""
    return apply("reciprocal", 1.0 + apply("exp", -lift(z)))


@_rule
def square(z: Complex) -> Complex:
    """`z^2`."""
    return Complex((z.re - z.im) * (z.re + z.im), 2.0 * (z.re * z.im))
