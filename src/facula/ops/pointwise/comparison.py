"""Comparisons, logic and classification: results are bool, of `allclose` and `equal` one Python bool.

Takes: tensors and numbers.
Gives: operators `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `logical_*`, `isnan`, `isinf`, `isfinite`, `isposinf`, `isneginf`,
`isreal`, `isclose`, `signbit`; composites `allclose` and `equal` of whole tensors.
Keeps true: a comparison with NaN is false (`ne` true); nothing here is differentiable.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail, one_dtype
from facula.ops.expr import scalar as s
from facula.ops.pointwise.naming import functions_and_methods
from facula.ops.table.registry import F, composite, pointwise

_FALSE, _TRUE = s.constant(False, "b8"), s.constant(True, "b8")


def _comparison(name: str, alias: str, symbol: str, dtypes: str) -> core.Op:
    def body(x, y):
        return s.apply(name, x, y)

    body.__doc__ = (
        f"``self {symbol} other``, element by element, in the dtype that both promote to."
    )
    return pointwise(
        f"{name}(Operand self, Operand other) -> Tensor",
        names=functions_and_methods(*filter(None, (name, alias))),
        result="bool",
        dtypes=dtypes,
        strict=("self",),
        differentiable=False,
        in_common_dtype=True,
        reference=f"numpy.{alias or 'equal'}",
    )(body)


eq = _comparison("eq", "", "==", "bool int float complex")
ne = _comparison("ne", "not_equal", "!=", "bool int float complex")
lt = _comparison("lt", "less", "<", "bool int float")
le = _comparison("le", "less_equal", "<=", "bool int float")
gt = _comparison("gt", "greater", ">", "bool int float")
ge = _comparison("ge", "greater_equal", ">=", "bool int float")


def _truth(x: s.Scalar) -> s.Scalar:
    return s.cast(x, "b8")


def _logical(name: str, meaning: str) -> core.Op:
    def body(x, y):
        return getattr(s, name)(_truth(x), _truth(y))

    body.__doc__ = meaning
    return pointwise(
        f"{name}(Tensor self, Operand other) -> Tensor",
        result="bool",
        overload="default",
        strict=("other",),
        differentiable=False,
        reference=f"numpy.{name}",
    )(body)


logical_and = _logical("logical_and", "Both differ from zero.")
logical_or = _logical("logical_or", "At least one differs from zero.")
logical_xor = _logical("logical_xor", "Exactly one differs from zero.")


@pointwise(
    "logical_not(Tensor self) -> Tensor",
    result="bool",
    differentiable=False,
    reference="numpy.logical_not",
)
def logical_not(x):
    """The element is zero."""
    return s.logical_not(_truth(x))


def _is_inexact(x: s.Scalar) -> bool:
    return x.is_float or x.is_complex


@pointwise(
    "isnan(Tensor self) -> Tensor", result="bool", differentiable=False, reference="numpy.isnan"
)
def isnan(x):
    """The element is NaN (of a complex number: a part is)."""
    return s.apply("isnan", x) if _is_inexact(x) else _FALSE


@pointwise(
    "isinf(Tensor self) -> Tensor", result="bool", differentiable=False, reference="numpy.isinf"
)
def isinf(x):
    """The element is infinite (of a complex number: a part is)."""
    return s.apply("isinf", x) if _is_inexact(x) else _FALSE


@pointwise(
    "isfinite(Tensor self) -> Tensor",
    result="bool",
    differentiable=False,
    reference="numpy.isfinite",
)
def isfinite(x):
    """The element is neither infinite nor NaN."""
    return s.apply("isfinite", x) if _is_inexact(x) else _TRUE


@pointwise(
    "isposinf(Tensor self) -> Tensor",
    out_exact=True,
    result="bool",
    dtypes="bool int float",
    differentiable=False,
    reference="numpy.isposinf",
)
def isposinf(x):
    """The element is positive infinity."""
    return x == math.inf if x.is_float else _FALSE


@pointwise(
    "isneginf(Tensor self) -> Tensor",
    out_exact=True,
    result="bool",
    dtypes="bool int float",
    differentiable=False,
    reference="numpy.isneginf",
)
def isneginf(x):
    """The element is negative infinity."""
    return x == -math.inf if x.is_float else _FALSE


@pointwise(
    "isreal(Tensor self) -> Tensor", result="bool", differentiable=False, reference="numpy.isreal"
)
def isreal(x):
    """The imaginary part is zero."""
    return x.im == 0 if x.is_complex else _TRUE


def _sign_dtype(common: core.dtype, variant: Any, values: object) -> Any:
    """uint64 in float64, where none of its values has a sign."""
    return core.float64 if common is core.uint64 else common


@pointwise(
    "signbit(Tensor self) -> Tensor",
    out_exact=True,
    result="bool",
    result_of=_sign_dtype,
    dtypes="bool int float",
    differentiable=False,
    reference="numpy.signbit",
)
def signbit(x):
    """The sign bit is set: negative numbers, and -0."""
    return _FALSE if x.is_bool else s.signbit(x)


def _check_tolerances(*, rtol: float, atol: float, equal_nan: bool) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            fail(
                RuntimeError,
                "isclose",
                f"{name} must be greater than or equal to zero",
                value,
                hint="0 compares exactly",
            )


@pointwise(
    "_isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    names=(),
    result="bool",
    differentiable=False,
    check=_check_tolerances,
    inplace=False,
    out=False,
    reference="numpy.isclose",
)
def _isclose(x, y, *, rtol, atol, equal_nan):
    """``|self - other| <= atol + rtol * |other|``; equal infinities are close, NaNs only if `equal_nan`."""
    if x.is_bool:
        return s.apply("eq", x, y)
    close, loose = x == y, _TRUE
    if not _is_inexact(x):
        # beyond 2**53 different integers round to one double, which without a tolerance is no nearness
        x, y, loose = s.cast(x, "f64"), s.cast(y, "f64"), s.logical_or(rtol != 0, atol != 0)
    elif equal_nan:
        close = s.logical_or(close, s.logical_and(s.apply("isnan", x), s.apply("isnan", y)))
    distance = s.apply("abs", x - y)
    near = distance <= atol + s.apply("abs", rtol * y)
    near = s.logical_and(near, loose)
    return s.logical_or(close, s.logical_and(s.apply("isfinite", distance), near))


_ONE_DTYPE = "tensors of one dtype were required ({0} did not match {1})"


@composite(
    "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
)
def isclose(self, other, rtol, atol, equal_nan):
    """``|self - other| <= atol + rtol * |other|``; equal infinities are close, NaNs only if `equal_nan`."""
    one_dtype("isclose", self, other, _ONE_DTYPE)
    if self.dtype is not core.uint64:
        return F._isclose(self, other, rtol, atol, equal_nan)
    # numbers beyond 2**53 that round to one double are near, not equal
    near = F._isclose(self.double(), other.double(), rtol, atol, equal_nan)
    return (near & (rtol != 0 or atol != 0)) | (self == other)


# ------------------------------------------------------------------ whole tensors


@composite(
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    out=False,
)
def allclose(self, other, rtol, atol, equal_nan):
    """Whether ``|self - other| <= atol + rtol * |other|`` everywhere."""
    one_dtype("allclose", self, other, _ONE_DTYPE)
    # the number itself: of tensors without elements it may be open, which is no check of the arguments
    return F.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all().item()


@composite("equal(Tensor self, Tensor other) -> bool", out=False)
def equal(self, other):
    """Whether shapes and all elements are equal."""
    return self.shape == other.shape and (self.numel() == 0 or (self == other).all().item())
