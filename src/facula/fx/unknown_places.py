"""Views of fake tensors at places that are numbers without an example: `x[:n]`, `x[n]` where `n` was read.

Takes: the mode, and a call of `slice` or `select`. Gives: its result.
Keeps true: where nothing that was checked says how long a slice is, its length is a number without an example, at most
the size of what it was taken from; where a view begins in memory that is known only where the program runs is not said.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx.ruled_shapes import ruled
from facula.fx.symbolic_run import concrete, sizes_of
from facula.fx.symbols import SymInt, expr_of, number, plain
from facula.ops.table.registry import F

__all__ = ["viewed"]


def viewed(
    run: Callable[..., Any], mode: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call of `slice` or `select`.

    Args:
        run: gives the result where the places are known
        mode: of the fake tensors
        func, args, kwargs: the call
    """
    env, function = mode.shape_env, getattr(func, "_op", func)
    bound, _ = core.bind_arguments(function, args, kwargs)
    x, dim, *places = bound
    if not -x.dim() <= dim < x.dim():
        return run(mode, func, args, kwargs)
    if not any(map(_is_unknown, places)):
        if function is F.slice and _is_open(x.shape[dim], places[1]):
            result = core.run_fake(function, concrete(tuple(bound)), {}, mode)
            if ruled(env, function, tuple(bound), {}, result):
                return result
        return run(mode, func, args, kwargs)
    if function is F.select:
        index, size = places[0], x.shape[dim]
        if _holds(env, index, ">=", -size) and _holds(env, index, "<", size):
            return run(mode, func, args, kwargs)
        return run(mode, F.select, (x, dim, 0), {})
    return _sliced(run, mode, func, bound)


def _sliced(run: Callable[..., Any], mode: Any, func: Any, bound: Any) -> Any:
    env, x, dim = mode.shape_env, bound[0], bound[1]
    size = x.shape[dim]
    start = 0 if bound[2] is None else bound[2]
    stop = size if bound[3] is None else bound[3]
    known = _holds(env, start, ">=", 0) and _holds(env, start, "<=", stop)
    if bound[4] != 1:
        return run(mode, func, bound, {})
    if known and type(start) is int and start == 0 and _holds(env, stop, "<=", size):
        return _shortened(mode, x, dim % x.dim(), stop)
    whole = expr_of(size).constant
    length = env.create_unbacked_symint(0, math.inf if whole is None else whole)
    if whole is None:
        env.expect((expr_of(length), "<=", expr_of(size)))
        length = env.current(length)
    return _shortened(mode, x, dim % x.dim(), length)


def _shortened(mode: Any, x: Any, dim: int, length: Any) -> Any:
    """The first entries along a dimension, as many as a number says."""
    given = concrete((x, dim, 0, length, 1))
    result = core.run_fake(F.slice, given, {}, mode)
    known = x._symbolic
    strides = tuple(map(number, core.Tensor.stride(x))) if known is None else known[1]
    offset = number(core.Tensor.storage_offset(x)) if known is None else known[2]
    sizes = list(sizes_of(x))
    sizes[dim] = expr_of(length)
    result._symbolic = tuple(sizes), strides, offset
    return result


def _is_open(size: Any, stop: Any) -> bool:
    """Whether a slice may end elsewhere, seen from the end, for other sizes: a few of them say too little."""
    if not isinstance(stop, SymInt):
        return False
    end, whole = stop.env.simplified(stop.expr), stop.env.simplified(expr_of(size))
    if end == whole or plain(stop) >= plain(size):
        return bool(end != whole)
    return whole.constant is None and not end.free_symbols <= whole.free_symbols


def _is_unknown(x: object) -> bool:
    return isinstance(x, SymInt) and bool(x.expr.unbacked)


def _holds(env: Any, left: Any, relation: str, right: Any) -> bool:
    """Whether what was checked says that a relation of two numbers holds."""
    difference = expr_of(left) - expr_of(right)
    if not difference.unbacked:
        return bool(env.unbacked.truth((difference, relation, number(0))))
    return env.known((expr_of(left), relation, expr_of(right))) is True
