"""Shapes of results that follow from a rule and guards: slices up to a size, elementwise results of equal products.

Takes: a call whose result was computed for the example sizes. Gives: `ruled`.
Keeps true: what the rule takes for granted is a guard; a result to which no rule applies is not described.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx.symbols import Expr, SymInt, expr_of, number, plain
from facula.ops.table.registry import F

__all__ = ["ruled"]

Tensor = core.Tensor


def ruled(
    env: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> bool:
    """Whether a rule says what the sizes of a result are; it has them then.

    Args:
        env: of the symbols
        function, args, kwargs: the call
        result: for the example sizes
    """
    if not isinstance(result, Tensor) or any(e.unbacked for e in _numbers((args, kwargs))):
        return False
    if function is F.slice:
        return _sliced(core.bind_arguments(function, args, kwargs)[0], result)
    if getattr(getattr(function, "definition", None), "kind", "") == "pointwise":
        return _elementwise(env, [x for x in args if isinstance(x, Tensor)], result)
    return False


def _numbers(x: Any) -> list[Expr]:
    if isinstance(x, SymInt):
        return [x.expr]
    if isinstance(x, Tensor):
        return [expr_of(n) for n in x.shape]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else ()
    return [e for part in parts for e in _numbers(part)]


def _inside(place: Any, size: Any) -> Any:
    """A bound of a slice as a place from 0 to the size; how it compares is a guard."""
    if place < 0:
        place = place + size
        return 0 if place < 0 else place
    return size if place > size else place


def _sliced(bound: Any, result: Any) -> bool:
    x, dim, start, stop, step = bound
    dim, size = dim % x.dim(), x.shape[dim]
    start = _inside(0 if start is None else start, size)
    stop = _inside(size if stop is None else stop, size)
    length = 0 if start >= stop else (stop - start + step - 1) // step
    if plain(length) != plain(core.Tensor.size(result, dim)):
        return False
    sizes, strides = [expr_of(n) for n in x.shape], [expr_of(n) for n in x.stride()]
    offset = expr_of(x.storage_offset()) + expr_of(start) * strides[dim]
    sizes[dim] = expr_of(length)
    strides[dim] = strides[dim] * number(step)
    result._symbolic = tuple(sizes), tuple(strides), offset
    return True


def _elementwise(env: Any, tensors: list[Any], result: Any) -> bool:
    """The sizes of operands that are contiguous; those that stand beside each other are equal, or 1."""
    whole = [t for t in tensors if t.dim() == result.dim()]
    if not all(map(Tensor.is_contiguous, (*whole, result))):
        return False
    shapes = [tuple(t.shape)[::-1] for t in tensors]
    sizes: list[Expr] = []
    for column in itertools.zip_longest(*shapes, fillvalue=1):
        others = [n for n in column if not (type(n) is int and n == 1)]
        first = next((n for n in others if isinstance(n, SymInt)), others[0] if others else 1)
        for n in others:
            if plain(n) != plain(first):
                return False
            env.note(expr_of(first), "==", expr_of(n), True)
        sizes.insert(0, env.simplified(expr_of(first)))
    strides: list[Expr] = []
    product = number(1)
    for e in reversed(sizes):
        strides.insert(0, product)
        product = product * e
    result._symbolic = tuple(sizes), tuple(strides), number(0)
    return True
