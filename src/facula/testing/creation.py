"""`make_tensor`: tensors of random elements for tests.

Takes a shape, a dtype and bounds; gives a tensor whose elements lie in `[low, high)`.  Keeps true:
every dtype has finite default bounds that it can represent, and bounds that make no sense are
errors.
"""

import math
import warnings
from typing import Any

import facula
from facula import core
from facula.core import Tensor
from facula.core.errors import fail

__all__ = ["make_tensor"]


def _limits(dtype: core.dtype) -> tuple[float, float]:
    """The lowest and highest value of a dtype."""
    if dtype == facula.bool:
        return 0, 1
    info: Any
    if dtype.is_floating_point or dtype.is_complex:
        info = facula.finfo(dtype.to_real() if dtype.is_complex else dtype)
    else:
        info = facula.iinfo(dtype)
    return info.min, info.max


def _bounds(
    low: float | None, high: float | None, dtype: core.dtype, defaults: tuple[float, float]
) -> tuple[float, float]:
    lowest, highest = _limits(dtype)
    low = max(defaults[0], lowest) if low is None else low
    high = min(defaults[1], highest) if high is None else high
    if any(isinstance(value, float) and math.isnan(value) for value in (low, high)):
        fail(
            ValueError,
            "make_tensor",
            f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}",
            hint="leave them out for the range of the dtype",
        )
    if dtype == facula.bool:
        low, high = math.ceil(max(low, 0)), math.ceil(min(high, 2))
    elif not dtype.is_floating_point and not dtype.is_complex:
        low, high = math.ceil(max(low, lowest)), math.ceil(min(high, highest + 1))
    else:
        low, high = max(low, lowest), min(high, highest)
    inexact = dtype.is_floating_point or dtype.is_complex
    if inexact and low == high:
        warnings.warn(
            core.spoken(
                "[make_tensor] Passing `low==high` to `facula.testing.make_tensor` for floating or "
                "complex types is deprecated: use facula.full()"
            ),
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        fail(
            ValueError,
            "make_tensor",
            f"`low` must be less than `high`, but got {low} >= {high}",
            hint="leave them out for the range of the dtype",
        )
    return low, high


def _random(
    shape: tuple[int, ...],
    dtype: core.dtype,
    device: core.device | str | int | None,
    low: float | None,
    high: float | None,
) -> Tensor:
    if dtype == facula.bool:
        first, last = _bounds(low, high, dtype, (0, 2))
        return facula.randint(int(first), int(last), shape, device=device, dtype=dtype)
    if dtype.is_complex:
        real = dtype.to_real()
        parts = [_random(shape, real, device, low, high) for _ in range(2)]
        return facula.complex(*(part.to(_computing(real)) for part in parts)).to(dtype)
    if dtype.is_floating_point:
        first, last = _bounds(low, high, dtype, (-9, 9))
        values = facula.empty(shape, device=device, dtype=_computing(dtype))
        return _below(values.uniform_(first, last).clamp_(first, last).to(dtype), first, last)
    first, last = _bounds(low, high, dtype, (-9, 10))
    return facula.randint(int(first), int(last), shape, device=device, dtype=dtype)


def _below(drawn: Any, first: float, last: float) -> Any:
    """The numbers with those that were rounded up to the bound one step below it."""
    if first == last:
        return drawn
    limits = facula.finfo(drawn.dtype)
    step = max(abs(last) * limits.eps, limits.tiny)
    return facula.where(drawn.double() >= last, max(last - step, first), drawn.double()).to(
        drawn.dtype
    )


def _computing(dtype: core.dtype) -> Any:
    """The dtype in which numbers are drawn: 8-bit floats have no arithmetic of their own."""
    return facula.float32 if dtype.itemsize < 4 else dtype


def make_tensor(
    *shape: Any,
    dtype: core.dtype,
    device: core.device | str | int | None = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object = None,
) -> Tensor:
    """A tensor of the given shape with random elements in `[low, high)`.

    Args:
        *shape: sizes, or one sequence of them
        dtype: of the elements
        device: where it lies
        low, high: bounds; without them floats and complex parts lie in `[-9, 9)`, integers in
            `[-9, 10)` (`[0, 10)` if unsigned)
        requires_grad: whether it asks for gradients
        noncontiguous: whether there are gaps along the last dimension
        exclude_zero: whether the smallest positive value (1 for integers) takes the place of zeros
        memory_format: the order of elements in memory

    Raises:
        ValueError: bounds are out of order, or the dtype has no gradients.

    Example:
        >>> x = facula.testing.make_tensor(2, 3, dtype=facula.int64, low=0, high=5)
        >>> x.shape, bool(((x >= 0) & (x < 5)).all())
        (facula.Size([2, 3]), True)
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        (shape,) = shape
    differentiable = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not differentiable:
        fail(
            ValueError,
            "make_tensor",
            (
                "`requires_grad=True` is not supported for boolean and integral dtypes, but "
                f"got dtype={dtype!r}"
            ),
            hint="ask for dtype=facula.float32",
        )
    if noncontiguous and memory_format is not None:
        fail(
            ValueError,
            "make_tensor",
            (
                "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
                f"but got noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
            ),
            hint="leave one of them out",
        )
    result = _random(tuple(shape), dtype, device, low, high)
    if noncontiguous and result.numel() > 1:
        result = facula.repeat_interleave(result, 2, dim=-1)[..., ::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = 1
        if differentiable:
            smallest = facula.finfo(dtype.to_real() if dtype.is_complex else dtype).tiny
        result[result == 0] = smallest
    return result.requires_grad_() if requires_grad else result
