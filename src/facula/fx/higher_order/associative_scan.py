"""`associative_scan`: all partial results of an associative function.

Takes: a function of two rows, and a tree of tensors. Gives: the tree of results, of the same shapes.
Keeps true: each result is what the function makes of all rows up to its own, combined from the first on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.higher_order.errors import refuse
from facula.fx.higher_order.operator import ControlFlow, fresh
from facula.fx.higher_order.scan import scan_op
from facula.fx.higher_order.slices import (
    check_callable,
    check_direction,
    check_leaves,
    common_length,
    moved,
    row,
    stacked,
)
from facula.ops.table.registry import F

__all__ = ["associative_scan", "associative_scan_op"]

Tensor = core.Tensor


class AssociativeScanOp(ControlFlow):
    """The operator of `associative_scan`: a function, what is cut along dimension 0, what it reads besides."""

    functions = ("associative_scan_combine_graph",)

    def __call__(self, combine_fn: Any, xs: Any, more: Any = ()) -> Any:
        return super().__call__(combine_fn, list(xs), list(more))

    def run(self, combine_fn: Any, xs: Any, more: Any = ()) -> tuple[Any, ...]:
        """The partial results."""
        total = row(xs, 0)
        rows = [total]
        for at in range(1, xs[0].shape[0]):
            made = list(combine_fn(*total, *row(xs, at), *more))
            _check_like(total, made)
            total = made
            rows.append(total)
        return stacked(rows)

    def inputs_of(self, number: int, args: tuple[Any, ...]) -> list[Any]:
        """Two rows."""
        return [*row(args[1], 0), *row(args[1], 0)]

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Rows like the first."""
        xs = args[1]
        _check_like(row(xs, 0), outputs[0])
        return tuple([fresh(x.contiguous()) for x in xs])

    def recorded(self, *args: Any) -> tuple[Any, ...]:
        """In one order of the rows it is a scan, whose gradient is known."""
        combine_fn, xs, more = args
        first = [x.select(0, 0) for x in xs]

        def step(*values: Any) -> Any:
            made = list(combine_fn(*values))
            return (*made, *[x.clone() for x in made])

        if xs[0].shape[0] == 1:
            return tuple([x.clone() for x in xs])
        rest = scan_op(
            step, [x.clone() for x in first], [x.narrow(0, 1, x.shape[0] - 1) for x in xs], more
        )
        rows = rest[len(xs) :]
        return tuple([F.cat([a.unsqueeze(0), b], 0) for a, b in zip(first, rows, strict=True)])


associative_scan_op = AssociativeScanOp("associative_scan")


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int = 0,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Partial results of `combine_fn` along `dim` of the tensors of `xs`, like `cumsum` of an addition.

    Raises:
        ValueError: an argument is of another type, or the function gives another structure or shape.
    """
    check_callable("associative_scan", combine_fn, "Combine_fn", ValueError)
    check_direction("associative_scan", dim, reverse, ValueError)
    if combine_mode not in ("pointwise", "generic"):
        fail(
            ValueError,
            "associative_scan",
            "pointwise or generic was required as combine_mode (Combine_mode must either 'pointwise' or 'generic')",
            combine_mode,
            hint="leave it out",
        )
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        fail(
            ValueError,
            "associative_scan",
            "a tensor was required (Expected at least 1 xs leaf)",
            hint="pass a tensor, or a tree of them",
        )
    check_leaves("associative_scan", leaves, "xs", ValueError)
    dim = dim + leaves[0].dim() if dim < 0 else dim
    common_length("associative_scan", leaves, dim)

    def flat(*values: object) -> tuple[Any, ...]:
        a = pytree.tree_unflatten(list(values[: len(leaves)]), spec)
        b = pytree.tree_unflatten(list(values[len(leaves) :]), spec)
        found, made = pytree.tree_flatten(combine_fn(a, b))
        if made != spec:
            _differ(made)
        return tuple(found)

    flat.__name__ = getattr(combine_fn, "__name__", "combine_fn")
    result = associative_scan_op(flat, moved(leaves, dim, 0, reverse))
    return pytree.tree_unflatten(
        moved(result, 0, dim, reverse) if dim else moved(result, 0, 0, reverse), spec
    )


def _check_like(before: list[Any], after: list[Any]) -> None:
    same = len(before) == len(after) and all(
        isinstance(b, Tensor) and a.shape == b.shape and a.dtype is b.dtype
        for a, b in zip(before, after, strict=True)
    )
    if not same:
        _differ([(list(x.shape), x.dtype) for x in after if isinstance(x, Tensor)])


def _differ(got: object) -> None:
    refuse(
        "associative_scan",
        "results like the arguments were required of combine_fn (The pytree of the output of the "
        "operator needs to match the xs pytree; the shapes and dtypes, too)",
        got,
        "a function that changes shapes or dtypes is no associative one",
    )
