"""Rounding.

Takes: tensors.
Gives: operators `floor`, `ceil`, `trunc`, `fix`, `round`, `frac`.
Keeps true: integers stay as they are; gradients are zero (of `frac`: one).
"""

from __future__ import annotations

from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import RUNTIME, functions_and_methods
from facula.ops.table.registry import pointwise


@pointwise(
    "floor(Tensor self) -> Tensor", out_exact=True, dtypes="int float", reference="numpy.floor"
)
def floor(x):
    """The largest integer not above."""
    return s.floor(x) if x.is_float else x


@pointwise(
    "ceil(Tensor self) -> Tensor", out_exact=True, dtypes="int float", reference="numpy.ceil"
)
def ceil(x):
    """The least integer not below."""
    return s.ceil(x) if x.is_float else x


@pointwise(
    "trunc(Tensor self) -> Tensor",
    out_exact=True,
    names=functions_and_methods("trunc", "fix"),
    dtypes="int float",
    reference="numpy.trunc",
)
def trunc(x):
    """The integer part."""
    return s.trunc(x) if x.is_float else x


@pointwise(
    "round(Tensor self, *, int decimals=0) -> Tensor",
    overload="decimals=decimals",
    out_exact=True,
    names=functions_and_methods("round", special=("round",)),
    dtypes="int float",
    prebuilt=({"decimals": RUNTIME},),
    reference="numpy.round",
)
def round(x, *, decimals):
    """The nearest integer, half to even; with `decimals`, the nearest multiple of ``10 ** -decimals``."""
    if not x.is_float:
        return x
    if isinstance(decimals, int) and decimals == 0:
        return s.round(x)
    digits = s.cast(decimals, "f64")
    scale = s.cast(s.pow(10.0, s.abs(digits)), x.dtype)
    return s.where(digits < 0, s.round(x / scale) * scale, s.round(x * scale) / scale)


@pointwise("frac(Tensor self) -> Tensor", out_exact=True, dtypes="float")
def frac(x):
    """The part after the point, ``self - trunc(self)``."""
    return x - s.trunc(x)
