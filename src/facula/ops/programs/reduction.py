"""Reductions as blocks and merges: what `ops.reduce.sums`, `ops.layers.norm` and `ops.layers.loss` run.

Takes: the language of `ops.expr.rows`.
Gives: entries in `rows.REDUCTION_PROGRAMS`.
Keeps true: states of f32 sums are f64 and those of f64 sums carry a compensation, so that a sum
over millions of values is as accurate as its blocks of some thousand; variances are two-pass inside
a block and joined by Chan's formula (Chan, Golub, LeVeque 1979), so that no large mean cancels; NaN
wins in max and min, and the first of equal values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.ops.expr import scalar
from facula.ops.expr.rows import (
    FLOAT_STORAGE,
    REAL_STORAGE,
    reduction_program,
    row_first,
    row_length,
    row_max,
    row_mean,
    row_min,
    row_origin,
    row_prod,
    row_sum,
)
from facula.ops.expr.scalar import Scalar, cast, constant, where

State = tuple[Scalar, ...]

#: dtypes that extremes and truth values are taken in; others are converted, or compared with zero,
#: first
ORDER_STORAGE = (*FLOAT_STORAGE, "i64", "i32")
TRUTH_STORAGE = ("f32", "i64", "b8")


# --- sums
def sum_identity(compute: str) -> State:
    """The state of an empty sum: f64 for f32, (sum, compensation) for f64, i64 for integers."""
    if compute == "f64":
        return constant(0.0, "f64"), constant(0.0, "f64")
    return (constant(0, "f64" if compute == "f32" else "i64"),)


def sum_block(x: Scalar) -> State:
    """The state of a block's sum."""
    total = row_sum(x)
    return (total, constant(0.0, "f64")) if x.dtype == "f64" else (total,)


def sum_merge(a: State, b: State) -> State:
    """Join two sums; for f64 with Neumaier's compensation."""
    total = a[0] + b[0]
    if len(a) == 1:
        return (total,)
    lost = where(scalar.abs(a[0]) >= scalar.abs(b[0]), (a[0] - total) + b[0], (b[0] - total) + a[0])
    return total, (a[1] + b[1]) + lost


def sum_value(state: State) -> Scalar:
    """The sum of a state; an infinite sum has no compensation."""
    if len(state) == 1:
        return state[0]
    return where(scalar.isfinite(state[0]), state[0] + state[1], state[0])


def wide(x: Scalar) -> Scalar:
    """Integers as i64, floats as they are."""
    return x if x.is_float else cast(x, "i64")


class _Summed:
    """States that are sums."""

    identity = staticmethod(sum_identity)
    merge = staticmethod(sum_merge)


class _Sum(_Summed):
    """A sum over `element(x)`, scaled at the end."""

    @staticmethod
    def finalize(state: State, count: Scalar) -> Scalar:
        return sum_value(state)


@reduction_program("sum", outputs="result:row:wide", dtypes=REAL_STORAGE)
class Sum(_Sum):
    @staticmethod
    def block(x: Scalar) -> State:
        return sum_block(wide(x))


@reduction_program("nansum")
class NanSum(_Sum):
    @staticmethod
    def block(x: Scalar) -> State:
        return sum_block(where(scalar.isnan(x), 0.0, x))


@reduction_program("mean")
class Mean(_Sum):
    @staticmethod
    def block(x: Scalar) -> State:
        return sum_block(x)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Scalar:
        return sum_value(state) / count


@reduction_program("count_nonzero", outputs="result:row:i64", dtypes=TRUTH_STORAGE)
class CountNonzero:
    @staticmethod
    def identity(compute: str) -> State:
        return (constant(0, "i64"),)

    @staticmethod
    def block(x: Scalar) -> State:
        return (row_sum(where(x != 0, constant(1, "i32"), constant(0, "i32"))),)

    @staticmethod
    def merge(a: State, b: State) -> State:
        return (a[0] + b[0],)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Scalar:
        return state[0]


@reduction_program("prod", outputs="result:row:wide", dtypes=(*FLOAT_STORAGE, "i64"))
class Prod:
    @staticmethod
    def identity(compute: str) -> State:
        return (constant(1, compute if compute[0] == "f" else "i64"),)

    @staticmethod
    def block(x: Scalar) -> State:
        return (row_prod(wide(x)),)

    @staticmethod
    def merge(a: State, b: State) -> State:
        return (a[0] * b[0],)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Scalar:
        return state[0]


# --- extremes
def lowest(compute: str) -> Scalar:
    """The value that any other beats in a maximum."""
    if compute[0] == "f":
        return constant(float("-inf"), compute)
    return constant(-(2 ** (31 if compute == "i32" else 63)), compute)


def highest(compute: str) -> Scalar:
    """The value that any other beats in a minimum."""
    if compute[0] == "f":
        return constant(float("inf"), compute)
    return constant(2 ** (31 if compute == "i32" else 63) - 1, compute)


def beats(a: Scalar, b: Scalar, largest: bool) -> Scalar:
    """Whether `a` replaces `b`, which stands before it: NaN replaces any number, an equal value
    nothing."""
    better = a > b if largest else a < b
    if not a.is_float:
        return better
    return scalar.logical_or(
        better, scalar.logical_and(scalar.isnan(a), scalar.logical_not(scalar.isnan(b)))
    )


class _Extreme:
    """An extreme value and the first position that holds it."""

    largest = True

    @classmethod
    def identity(cls, compute: str) -> State:
        return (lowest if cls.largest else highest)(compute), constant(0, "i64")

    @classmethod
    def block(cls, x: Scalar) -> State:
        value = row_max(x) if cls.largest else row_min(x)
        here = x == value
        if x.is_float:
            here = scalar.logical_or(
                here, scalar.isnan(x)
            )  # if there is a NaN, the value is NaN and equals nothing
        return value, cast(row_first(here), "i64") + row_origin()

    @classmethod
    def improves(cls, value: Scalar, state: State) -> Scalar:
        return beats(value, state[0], cls.largest)

    @classmethod
    def merge(cls, a: State, b: State) -> State:
        better = beats(b[0], a[0], cls.largest)
        return where(better, b[0], a[0]), where(better, b[1], a[1])

    @staticmethod
    def finalize(state: State, count: Scalar) -> Any:
        return state


class _Position(_Extreme):
    @staticmethod
    def finalize(state: State, count: Scalar) -> Any:
        return state[1]


class _Value:
    """An extreme value alone."""

    largest = True

    @classmethod
    def identity(cls, compute: str) -> State:
        return ((lowest if cls.largest else highest)(compute),)

    @classmethod
    def block(cls, x: Scalar) -> State:
        return (row_max(x) if cls.largest else row_min(x),)

    @classmethod
    def merge(cls, a: State, b: State) -> State:
        return ((scalar.maximum if cls.largest else scalar.minimum)(a[0], b[0]),)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Any:
        return state


for _name, _largest in (("max", True), ("min", False)):
    reduction_program(f"{_name}.dim", "values:row, indices:row:i64", dtypes=ORDER_STORAGE)(
        type(_name, (_Extreme,), {"largest": _largest})
    )
    reduction_program(f"arg{_name}", "indices:row:i64", dtypes=ORDER_STORAGE)(
        type(_name, (_Position,), {"largest": _largest})
    )
    reduction_program(f"a{_name}", dtypes=ORDER_STORAGE)(
        type(_name, (_Value,), {"largest": _largest})
    )


@reduction_program("aminmax", "min:row, max:row", dtypes=ORDER_STORAGE)
class MinimumMaximum:
    @staticmethod
    def identity(compute: str) -> State:
        return highest(compute), lowest(compute)

    @staticmethod
    def block(x: Scalar) -> State:
        return row_min(x), row_max(x)

    @staticmethod
    def merge(a: State, b: State) -> State:
        return scalar.minimum(a[0], b[0]), scalar.maximum(a[1], b[1])

    @staticmethod
    def finalize(state: State, count: Scalar) -> Any:
        return state


class _Truth:
    """any and all: the extreme of truth values."""

    largest = True

    @classmethod
    def identity(cls, compute: str) -> State:
        return (constant(0 if cls.largest else 1, "i32"),)

    @classmethod
    def block(cls, x: Scalar) -> State:
        truth = where(x != 0, constant(1, "i32"), constant(0, "i32"))
        return (row_max(truth) if cls.largest else row_min(truth),)

    @classmethod
    def merge(cls, a: State, b: State) -> State:
        return ((scalar.maximum if cls.largest else scalar.minimum)(a[0], b[0]),)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Any:
        return state[0]


reduction_program("any", "result:row:b8", dtypes=TRUTH_STORAGE)(_Truth)
reduction_program("all", "result:row:b8", dtypes=TRUTH_STORAGE)(
    type("all", (_Truth,), {"largest": False})
)


# --- variance
def moments_identity(compute: str) -> State:
    """No values: count, mean, sum of squared deviations."""
    return constant(0.0, "f64"), constant(0.0, "f64"), constant(0.0, "f64")


def moments_block(x: Scalar) -> State:
    """Count, mean and sum of squared deviations, corrected for the rounding of the mean."""
    mean = row_mean(x)
    deviation = x - mean
    count = cast(row_length(), "f64")
    shift = cast(row_sum(deviation), "f64") / count
    squares = cast(row_sum(deviation * deviation), "f64") - count * shift * shift
    middle = cast(mean, "f64")
    # equal elements whose squares are rounded or vanish must not leave less than nothing
    return (
        count,
        where(scalar.isinf(middle), middle, middle + shift),
        where(squares < 0, 0.0, squares),
    )


def moments_merge(a: State, b: State) -> State:
    """Chan's formula; where a mean is infinite, the difference says nothing, and the sum of the means is theirs."""
    count = a[0] + b[0]
    delta = b[1] - a[1]
    share = where(count == 0, 0.0, b[0] / count)
    mean = a[1] + delta * share
    mean = where(scalar.isnan(mean), a[1] + b[1], mean)
    return count, mean, a[2] + b[2] + delta * delta * a[0] * share


class _Moments:
    identity = staticmethod(moments_identity)
    merge = staticmethod(moments_merge)

    @staticmethod
    def block(x: Scalar, correction: Scalar) -> State:
        return moments_block(x)


def spread(state: State, count: Scalar, correction: Scalar) -> Scalar:
    """Variance with `count - correction` degrees of freedom, at least none: 0/0 is NaN, as is the
    mean of nothing."""
    freedom = count - correction
    return where(count == 0, float("nan"), state[2] / where(freedom > 0, freedom, 0.0))


def middle(state: State, count: Scalar) -> Scalar:
    """The mean of a state."""
    return where(count == 0, float("nan"), state[1])


@reduction_program("var", parameters="correction")
class Variance(_Moments):
    @staticmethod
    def finalize(state: State, count: Scalar, correction: Scalar) -> Any:
        return spread(state, count, correction)


@reduction_program("std", parameters="correction")
class Deviation(_Moments):
    @staticmethod
    def finalize(state: State, count: Scalar, correction: Scalar) -> Any:
        return scalar.sqrt(spread(state, count, correction))


@reduction_program("var_mean", "var:row, mean:row", parameters="correction")
class VarianceMean(_Moments):
    @staticmethod
    def finalize(state: State, count: Scalar, correction: Scalar) -> Any:
        return spread(state, count, correction), middle(state, count)


@reduction_program("std_mean", "std:row, mean:row", parameters="correction")
class DeviationMean(_Moments):
    @staticmethod
    def finalize(state: State, count: Scalar, correction: Scalar) -> Any:
        return scalar.sqrt(spread(state, count, correction)), middle(state, count)


# --- norms
class _Norm(_Sum):
    """(sum |x|**p) ** (1/p) and its limits."""


@reduction_program("norm.1")
class Norm1(_Norm):
    @staticmethod
    def block(x: Scalar) -> State:
        return sum_block(scalar.abs(x))


@reduction_program("norm.2")
class Norm2(_Norm):
    @staticmethod
    def block(x: Scalar) -> State:
        return sum_block(x * x)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Scalar:
        return scalar.sqrt(sum_value(state))


@reduction_program("norm.p", parameters="p")
class NormP(_Summed):
    @staticmethod
    def block(x: Scalar, p: Scalar) -> State:
        return sum_block(scalar.pow(scalar.abs(x), p))

    @staticmethod
    def finalize(state: State, count: Scalar, p: Scalar) -> Scalar:
        return scalar.pow(sum_value(state), 1.0 / p)


@reduction_program("norm.0")
class Norm0(_Norm):
    @staticmethod
    def block(x: Scalar) -> State:
        return sum_block(where(x != 0, constant(1.0, x.dtype), constant(0.0, x.dtype)))


@reduction_program("norm.inf")
class NormInfinity(_Value):
    @classmethod
    def identity(cls, compute: str) -> State:
        return (constant(0.0, compute),)

    @classmethod
    def block(cls, x: Scalar) -> State:
        return (row_max(scalar.abs(x)),)


@reduction_program("norm.ninf")
class NormNegativeInfinity(_Value):
    largest = False

    @classmethod
    def block(cls, x: Scalar) -> State:
        return (row_min(scalar.abs(x)),)


@reduction_program("outside", outputs="result:row:i64", parameters="low high")
class Outside:
    """0 where a value lies outside of [low, high], -1 where none does (NaN lies nowhere)."""

    @staticmethod
    def identity(compute: str) -> State:
        return (constant(0, "i32"),)

    @staticmethod
    def block(x: Scalar, low: Scalar, high: Scalar) -> State:
        outside = scalar.logical_or(x < low, x > high)
        return (row_max(where(outside, constant(1, "i32"), constant(0, "i32"))),)

    @staticmethod
    def merge(a: State, b: State) -> State:
        return (scalar.maximum(a[0], b[0]),)

    @staticmethod
    def finalize(state: State, count: Scalar, **_: Scalar) -> Scalar:
        return cast(state[0], "i64") - 1


# --- log-sum-exp
def log_sum_identity(compute: str) -> State:
    """Nothing: largest value -inf, sum of exponentials 0."""
    return constant(float("-inf"), compute), constant(0.0, "f64")


def finite_or_zero(x: Scalar) -> Scalar:
    """`x`, or 0 where it is infinite: the shift in log-sum-exp (NaN stays)."""
    return where(scalar.isinf(x), 0.0, x)


def log_sum_block(x: Scalar) -> State:
    """Largest value of the block and the sum of the exponentials relative to it."""
    largest = row_max(x)
    return largest, row_sum(scalar.exp(x - finite_or_zero(largest)))


def log_sum_merge(a: State, b: State) -> State:
    """Bring both sums to the larger shift."""
    largest = scalar.maximum(a[0], b[0])
    shift = finite_or_zero(largest)

    def scaled(state: State) -> Scalar:
        factor = scalar.exp(finite_or_zero(state[0]) - shift)
        return where(state[1] == 0, 0.0, state[1] * cast(factor, "f64"))

    return largest, scaled(a) + scaled(b)


def log_sum_value(state: State) -> Scalar:
    """log of the sum of the exponentials."""
    return cast(finite_or_zero(state[0]), "f64") + scalar.log(state[1])


@reduction_program("logsumexp")
class LogSumExp:
    identity = staticmethod(log_sum_identity)
    block = staticmethod(log_sum_block)
    merge = staticmethod(log_sum_merge)

    @staticmethod
    def finalize(state: State, count: Scalar) -> Scalar:
        return log_sum_value(state)


# --- statistics of batch, group and instance norm


class _Statistics:
    identity = staticmethod(moments_identity)
    merge = staticmethod(moments_merge)

    @staticmethod
    def block(x: Scalar, **_: Scalar) -> State:
        return moments_block(x)


def _inverse_deviation(state: State, count: Scalar, eps: Scalar) -> Scalar:
    return 1.0 / scalar.sqrt(state[2] / count + eps)


@reduction_program("norm_statistics", "mean:row:compute, invstd:row:compute", parameters="eps")
class NormStatistics(_Statistics):
    @staticmethod
    def finalize(state: State, count: Scalar, eps: Scalar) -> Any:
        return state[1], _inverse_deviation(state, count, eps)


@reduction_program(
    "norm_statistics.track",
    "mean:row:compute, invstd:row:compute, new_mean:row:compute, new_var:row:compute",
    inputs="x, running_mean:row:compute, running_var:row:compute",
    parameters="eps momentum",
)
class NormStatisticsTracked(_Statistics):
    @staticmethod
    def finalize(
        state: State,
        count: Scalar,
        running_mean: Scalar,
        running_var: Scalar,
        eps: Scalar,
        momentum: Scalar,
    ) -> Any:
        """Also the new running mean and (unbiased) variance."""
        unbiased = state[2] / (count - 1.0)
        old_mean, old_var = cast(running_mean, "f64"), cast(running_var, "f64")
        return (
            state[1],
            _inverse_deviation(state, count, eps),
            old_mean + momentum * (state[1] - old_mean),
            old_var + momentum * (unbiased - old_var),
        )


@reduction_program(
    "norm_backward_sums",
    "sum_grad:row:compute, sum_product:row:compute",
    inputs="grad, x, mean:row:compute, invstd:row:compute",
)
class NormBackwardSums:
    """The sums of the gradient and of its product with the standardised x: the gradients of bias
    and weight."""

    @staticmethod
    def identity(compute: str) -> State:
        return constant(0.0, "f64"), constant(0.0, "f64")

    @staticmethod
    def block(grad: Scalar, x: Scalar, mean: Scalar, invstd: Scalar) -> State:
        return row_sum(grad), row_sum(grad * ((x - mean) * invstd))

    @staticmethod
    def merge(a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def finalize(state: State, count: Scalar, mean: Scalar, invstd: Scalar) -> Any:
        return state


# --- losses that are one number: summed over all elements of two tensors


def _loss(name: str, element: Callable[..., Any], parameters: str = "") -> None:
    def block(x: Scalar, y: Scalar, **settings: Scalar) -> State:
        return sum_block(element(x, y, **settings))

    def total(state: State, count: Scalar, **_: Scalar) -> Scalar:
        return sum_value(state)

    def mean(state: State, count: Scalar, **_: Scalar) -> Scalar:
        return sum_value(state) / count

    for reduction, finalize in (("sum", total), ("mean", mean)):
        parts = {
            "identity": staticmethod(sum_identity),
            "merge": staticmethod(sum_merge),
            "block": staticmethod(block),
            "finalize": staticmethod(finalize),
        }
        reduction_program(f"{name}.{reduction}", inputs="x, y", parameters=parameters)(
            type(name, (), parts)
        )


def squared_error(x: Scalar, y: Scalar) -> Scalar:
    """(x - y)**2."""
    return (x - y) * (x - y)


def binary_cross_entropy_logits(x: Scalar, y: Scalar) -> Scalar:
    """-y log sigmoid(x) - (1 - y) log(1 - sigmoid(x)), without overflow."""
    return (1.0 - y) * x + scalar.maximum(-x, 0.0) + scalar.log1p(scalar.exp(-scalar.abs(x)))


def absolute_error(x: Scalar, y: Scalar) -> Scalar:
    """|x - y|."""
    return scalar.abs(x - y)


_loss("mse_loss", squared_error)
_loss("l1_loss", absolute_error)
_loss("bce_with_logits", binary_cross_entropy_logits)
