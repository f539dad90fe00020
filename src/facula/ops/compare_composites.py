"""Comparisons of whole tensors.

Takes: two tensors. Gives: one answer, a Python bool. Keeps true: NaN equals nothing unless asked.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import cast_hint, fail
from facula.ops.registry import F, composite


@composite(
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    out=False,
)
def allclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    """Whether ``|self - other| <= atol + rtol * |other|`` everywhere."""
    if self.dtype is not other.dtype:
        fail(
            RuntimeError,
            "allclose",
            f"tensors of one dtype were required ({self.dtype.type_word} did not match "
            f"{other.dtype.type_word})",
            f"{self.dtype} and {other.dtype}",
            hint=cast_hint("other", self.dtype),
        )
    return bool(F.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


@composite("equal(Tensor self, Tensor other) -> bool", out=False)
def equal(self: Any, other: Any) -> bool:
    """Whether shapes and all elements are equal."""
    return self.shape == other.shape and (self.numel() == 0 or bool((self == other).all()))
