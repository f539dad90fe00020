"""Names for values: numbers, None as a new dimension, and PyTorch's second names of dtypes.

Takes: nothing. Gives: constants. Keeps true: a second name is the same object as the first.
"""

from __future__ import annotations

import math

from facula import core

e = math.e
pi = math.pi
inf = math.inf
nan = math.nan
newaxis = None

bool = core.bool_  # noqa: A001
half = core.float16
float = core.float32  # noqa: A001 - PyTorch's names, here and below
double = core.float64
short = core.int16
int = core.int32  # noqa: A001
long = core.int64
chalf = core.complex32
cfloat = core.complex64
cdouble = core.complex128

legacy_contiguous_format = core.contiguous_format

__all__ = [
    name
    for name in globals()
    if not name.startswith("_") and name not in ("annotations", "core", "math")
]
