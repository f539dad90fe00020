"""Sums of complex exponentials, as scalar expressions.

Takes: two complex numbers. Gives: `log_add`.
Keeps true: infinite numbers have the limits that PyTorch gives them.
"""

from __future__ import annotations

import math

from facula.ops.expr import scalar as s


def log_add(x: s.Complex, y: s.Complex) -> s.Complex:
    """The number with the larger real part and what the other adds.

    An infinite one of two is the sum, two infinite ones add as they stand, and NaN anywhere is all of it.
    """
    first = x.re >= y.re
    top, low = s.where(first, x, y), s.where(first, y, x)
    both = s.logical_and(x.re == y.re, s.isinf(x.re))
    infinite = s.where(x.re < 0, y, s.log(s.exp(x) + s.exp(y)))
    value = s.where(both, infinite, top + s.log1p(s.exp(low - top)))
    unknown = s.logical_or(s.isnan(x), s.isnan(y))
    return s.Complex(s.where(unknown, math.nan, value.re), s.where(unknown, math.nan, value.im))
