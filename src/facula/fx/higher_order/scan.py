"""`scan`: a state carried along a dimension.

Takes: a function of the state and a row, the first state, and trees of tensors. Gives: the last state, and the
stacked results.
Keeps true: results stand in the order of the rows, whichever way they were gone through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd import Function
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.higher_order.errors import refuse
from facula.fx.higher_order.operator import ControlFlow, fresh
from facula.fx.higher_order.slices import (
    check_callable,
    check_direction,
    check_leaves,
    common_length,
    moved,
    row,
    stacked,
)
from facula.fx.higher_order.trees import differentiable, gradient_of
from facula.ops.table.registry import F

__all__ = ["scan", "scan_op"]

Tensor = core.Tensor


class ScanOp(ControlFlow):
    """The operator of `scan`: a function, the first state, what is cut along dimension 0, what it reads besides."""

    functions = ("scan_combine_graph",)

    def __call__(self, combine_fn: Any, init: Any, xs: Any, more: Any = ()) -> Any:
        return super().__call__(combine_fn, list(init), list(xs), list(more))

    def run(self, combine_fn: Any, init: Any, xs: Any, more: Any = ()) -> tuple[Any, ...]:
        """The last state, and the stacked results."""
        carry, rows = list(init), []
        for at in range(xs[0].shape[0]):
            made = list(combine_fn(*carry, *row(xs, at), *more))
            _check_state(init, made[: len(init)])
            carry = made[: len(init)]
            rows.append(made[len(init) :])
        return (*carry, *stacked(rows))

    def inputs_of(self, number: int, args: tuple[Any, ...]) -> list[Any]:
        """The state and one row."""
        return [*args[1], *row(args[2], 0)]

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A state like the first, and as many rows as there are."""
        init, count = args[1], args[2][0].shape[0]
        made = outputs[0]
        _check_state(init, made[: len(init)])
        rows = [
            fresh(y, (count, *y.shape)) if isinstance(y, Tensor) else y for y in made[len(init) :]
        ]
        return (*[fresh(x) for x in init], *rows)

    def recorded(self, *args: Any) -> tuple[Any, ...]:
        """The gradient is a scan from the last row to the first."""
        combine_fn, init, xs, more = args
        counts = len(init), len(xs)
        result = _ScanGradient.apply(self, combine_fn, counts, *init, *xs, *more)
        return result if isinstance(result, tuple) else (result,)


scan_op = ScanOp("scan")


class _ScanGradient(Function):
    """`scan` on the tape of a trace."""

    @staticmethod
    def forward(ctx: Any, op: core.Op, combine_fn: Any, counts: Any, *values: Any) -> Any:
        """The results; the states before each row are kept."""
        n, m = counts
        init, xs, more = values[:n], values[n : n + m], values[n + m :]

        def keeping(*args: Any) -> Any:
            made = list(combine_fn(*args))
            return (*made[:n], *made[n:], *[x.clone() for x in args[:n]])

        found = op(keeping, init, xs, more)
        kept = found[len(found) - n :]
        results = found[: len(found) - n]
        ctx.save_for_backward(*xs, *more, *kept)
        ctx.rest = op, combine_fn, counts, values, [differentiable(x) for x in results]
        ctx.mark_non_differentiable(*[x for x in results if not differentiable(x)])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """A scan back through the rows."""
        op, combine_fn, (n, m), values, kinds = ctx.rest
        saved = ctx.saved_tensors
        xs, more, kept = saved[:m], saved[m : len(values) - n], saved[len(values) - n :]
        wanted = [differentiable(x) for x in values]
        pull = gradient_of(combine_fn, wanted)
        states = [g for g, k in zip(grads[:n], kinds[:n], strict=True) if k]
        rows = [g for g, k in zip(grads[n:], kinds[n:], strict=True) if k]
        sums = [F.zeros_like(x) for x, w in zip(more, wanted[n + m :], strict=True) if w]
        a, b = len(states), len(states) + sum(wanted[n : n + m])

        def back(*args: object) -> Any:
            given, total = args[:a], args[a : a + len(sums)]
            rest = args[a + len(sums) :]
            cotangents, rest = rest[: len(rows)], rest[len(rows) :]
            before, x, others = rest[:n], rest[n : n + m], rest[n + m :]
            found = pull(*before, *x, *others, *given, *cotangents)
            added = [u + v for u, v in zip(total, found[b:], strict=True)]
            return (*found[:a], *added, *found[a:b])

        back._may_alias = True  # type: ignore[attr-defined]
        cut = [x.flip(0) for x in (*rows, *kept, *xs)]
        found = op(back, [*states, *sums], cut, list(more))
        count = len(states) + len(sums)
        first, total, each = found[:a], found[a:count], [x.flip(0) for x in found[count:]]
        result = iter([*first, *each, *total])
        return (None, None, None, *[next(result) if w else None for w in wanted])


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """``carry, y = combine_fn(carry, x)`` along `dim` of the tensors of `xs`: the last carry, and all `y` stacked.

    Raises:
        RuntimeError: there is no state, the lengths differ, or a state has another shape or dtype than the one before.
    """
    check_callable("scan", combine_fn, "Combine_fn")
    check_direction("scan", dim, reverse)
    first, init_spec = pytree.tree_flatten(init)
    if not first:
        fail(
            RuntimeError,
            "scan",
            "tensors were required as init (scan() operator requires init leaves)",
            first,
            hint="pass zeros() where there is no state to begin with",
        )
    check_leaves("scan", first, "init", RuntimeError)
    leaves, xs_spec = pytree.tree_flatten(xs)
    check_leaves("scan", leaves, "xs", RuntimeError)
    if not leaves:
        return init, []
    dim = dim + leaves[0].dim() if dim < 0 else dim
    common_length("scan", leaves, dim)
    specs: list[Any] = []

    def flat(*values: object) -> tuple[Any, ...]:
        carry = pytree.tree_unflatten(list(values[: len(first)]), init_spec)
        given = combine_fn(carry, pytree.tree_unflatten(list(values[len(first) :]), xs_spec))
        made, y = _pair(given)
        state, state_spec = pytree.tree_flatten(made)
        if state_spec != init_spec:
            _other_state(f"{state_spec} after {init_spec}")
        found, spec = pytree.tree_flatten(y)
        specs.append(spec)
        return (*state, *found)

    flat.__name__ = getattr(combine_fn, "__name__", "combine_fn")
    result = scan_op(flat, first, moved(leaves, dim, 0, reverse))
    ys = moved(result[len(first) :], 0, 0, reverse)
    carry = pytree.tree_unflatten(list(result[: len(first)]), init_spec)
    return carry, pytree.tree_unflatten(ys, specs[0])


def _pair(given: object) -> tuple[Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        refuse(
            "scan",
            "a pair of state and result was required of combine_fn",
            type(given).__name__,
            "return carry, y",
        )
    return given[0], given[1]


def _check_state(before: Sequence[Any], after: list[Any]) -> None:
    """That a state can take the place of the one before."""
    for a, b in zip(before, after, strict=False):
        if not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype:
            _other_state(f"{getattr(b, 'dtype', type(b).__name__)}{list(getattr(b, 'shape', ()))}"
                         f" after {a.dtype}{list(a.shape)}")  # fmt: skip


def _other_state(got: str) -> None:
    refuse(
        "scan",
        "a state of the structure, shapes and dtypes of the one before was required (The tree "
        "structure of the inits and the carries are not identical, or their metadata differ)",
        got,
        "convert what combine_fn returns first",
    )
