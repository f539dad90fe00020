"""Scans: running sums, products, extremes and log-sum-exps, as steps over a state.

Takes: the language of `ops.expr.rows`.
Gives: entries in `rows.SCAN_PROGRAMS`; the operators in `ops.reduce.scan` run them.
Keeps true: running sums and products of f32 are carried in f64; the running extreme takes the last
of equal values and keeps the last NaN, as PyTorch does.
"""

from __future__ import annotations

from typing import Any

from facula.ops.expr import scalar
from facula.ops.expr.rows import FLOAT_STORAGE, scan_program
from facula.ops.expr.scalar import Scalar, cast, constant, where
from facula.ops.programs.reduction import (
    State,
    highest,
    log_sum_identity,
    log_sum_merge,
    log_sum_value,
    lowest,
)


def _carried(compute: str) -> str:
    return "f64" if compute == "f32" else compute


@scan_program("cumsum")
class CumulativeSum:
    @staticmethod
    def identity(compute: str) -> State:
        return (constant(0, _carried(compute)),)

    @staticmethod
    def step(state: State, x: Scalar, position: Scalar) -> State:
        return (state[0] + x,)

    @staticmethod
    def merge(a: State, b: State) -> State:
        return (a[0] + b[0],)

    @staticmethod
    def finalize(state: State) -> Any:
        return state[0]


@scan_program("cumprod")
class CumulativeProduct:
    @staticmethod
    def identity(compute: str) -> State:
        return (constant(1, _carried(compute)),)

    @staticmethod
    def step(state: State, x: Scalar, position: Scalar) -> State:
        return (state[0] * x,)

    @staticmethod
    def merge(a: State, b: State) -> State:
        return (a[0] * b[0],)

    @staticmethod
    def finalize(state: State) -> Any:
        return state[0]


def _replaces(later: Scalar, earlier: Scalar, largest: bool) -> Scalar:
    better = later >= earlier if largest else later <= earlier
    return scalar.logical_or(better, scalar.isnan(later)) if later.is_float else better


class _Extreme:
    largest = True

    @classmethod
    def identity(cls, compute: str) -> State:
        return (lowest if cls.largest else highest)(compute), constant(0, "i64")

    @classmethod
    def step(cls, state: State, x: Scalar, position: Scalar) -> State:
        return cls.merge(state, (x, position))

    @classmethod
    def merge(cls, a: State, b: State) -> State:
        better = _replaces(b[0], a[0], cls.largest)
        return where(better, b[0], a[0]), where(better, b[1], a[1])

    @staticmethod
    def finalize(state: State) -> Any:
        return state


scan_program("cummax", "values, indices:full:i64")(_Extreme)
scan_program("cummin", "values, indices:full:i64")(type("cummin", (_Extreme,), {"largest": False}))


@scan_program("logcumsumexp", dtypes=FLOAT_STORAGE, wide=True)
class LogCumulativeSumExp:
    identity = staticmethod(log_sum_identity)
    merge = staticmethod(log_sum_merge)

    @staticmethod
    def step(state: State, x: Scalar, position: Scalar) -> State:
        # exp(x) relative to the shift x; no shift is subtracted from infinities
        own = where(scalar.isinf(x), cast(scalar.exp(x), "f64"), constant(1.0, "f64"))
        return log_sum_merge(state, (x, own))

    @staticmethod
    def finalize(state: State) -> Any:
        return cast(log_sum_value(state), state[0].dtype)
