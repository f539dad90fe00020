"""`map`: a function applied to every row.

Takes: a function, a tree of tensors, and what it gets besides. Gives: the tree of stacked results.
Keeps true: rows are taken in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd import Function
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.higher_order.errors import refuse
from facula.fx.higher_order.operator import ControlFlow, fresh
from facula.fx.higher_order.slices import check_callable, row, stacked
from facula.fx.higher_order.trees import differentiable, gradient_of

__all__ = ["map", "map_impl"]

Tensor = core.Tensor


class MapOp(ControlFlow):
    """The operator of `map`: a function, what is cut along dimension 0, what it reads besides."""

    functions = ("body_graph",)

    def __call__(self, f: Any, xs: Any, more: Any = ()) -> Any:
        return super().__call__(f, list(xs), list(more))

    def run(self, f: Any, xs: Any, more: Any = ()) -> tuple[Any, ...]:
        """The stacked results."""
        return stacked([list(f(*row(xs, at), *more)) for at in range(xs[0].shape[0])])

    def inputs_of(self, number: int, args: tuple[Any, ...]) -> list[Any]:
        """One row."""
        return row(args[1], 0)

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """As many rows as there are."""
        count = args[1][0].shape[0]
        return tuple(
            [fresh(y, (count, *y.shape)) if isinstance(y, Tensor) else y for y in outputs[0]]
        )

    def recorded(self, *args: Any) -> tuple[Any, ...]:
        """The gradient is a map, too."""
        f, xs, more = args
        result = _MapGradient.apply(self, f, len(xs), *xs, *more)
        return result if isinstance(result, tuple) else (result,)


map_impl = MapOp("map_impl")


class _MapGradient(Function):
    """`map` on the tape of a trace."""

    @staticmethod
    def forward(ctx: Any, op: core.Op, f: Any, count: int, *values: Any) -> Any:
        """The results."""
        ctx.save_for_backward(*[x for x in values if isinstance(x, Tensor)])
        result = op(f, values[:count], values[count:])
        ctx.rest = op, f, count, values, [differentiable(x) for x in result]
        ctx.mark_non_differentiable(
            *[x for x in result if isinstance(x, Tensor) and not differentiable(x)]
        )
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Rows of gradients; those of what all rows read are sums."""
        op, f, count, values, kinds = ctx.rest
        saved = iter(ctx.saved_tensors)
        given = [next(saved) if isinstance(x, Tensor) else x for x in values]
        cotangents = [g for g, kind in zip(grads, kinds, strict=True) if kind]
        wanted = [differentiable(x) and x.requires_grad for x in values]
        pull = gradient_of(f, wanted)

        def back(*args: object) -> Any:
            x, rest = args[:count], args[count:]
            return pull(*x, *rest[len(cotangents) :], *rest[: len(cotangents)])

        back._may_alias = True  # type: ignore[attr-defined]
        found = op(back, [*given[:count], *cotangents], given[count:])
        made: list[Any] = []
        rows = iter(found)
        for place, flag in enumerate(wanted):
            each: Any = next(rows) if flag else None
            made.append(each.sum(0) if flag and place >= count else each)
        return (None, None, None, *made)


def map(f: Callable[..., Any], xs: Tensor, *args: object) -> Any:  # noqa: A001 - PyTorch's name
    """``f(x, *args)`` of every `x` along the first dimension of the tensors of `xs`, stacked.

    Raises:
        RuntimeError: there is no tensor to take rows of, or their lengths differ.
    """
    check_callable("map", f, "f")
    leaves, spec = pytree.tree_flatten(xs)
    more, more_spec = pytree.tree_flatten(args)
    _check(leaves)
    made: list[Any] = []

    def flat(*values: object) -> tuple[Any, ...]:
        x = pytree.tree_unflatten(list(values[: len(leaves)]), spec)
        result = f(x, *pytree.tree_unflatten(list(values[len(leaves) :]), more_spec))
        found, out = pytree.tree_flatten(result)
        for each in found:
            if not isinstance(each, Tensor) and each is not None:
                refuse("map_impl", "tensors were required as results (Expected all leaves to be of torch.Tensor type)",
                       type(each).__name__, "convert with tensor()")  # fmt: skip
        made.append(out)
        return tuple(found)

    flat.__name__ = getattr(f, "__name__", "f")
    result = map_impl(flat, leaves, more)
    return pytree.tree_unflatten(list(result), made[0])


def _check(leaves: list[Any]) -> None:
    if not leaves or any(not isinstance(x, Tensor) for x in leaves):
        fail(RuntimeError, "map", "tensors were required as xs (Mapped xs can only consist of tensors. "
             f"Got xs {leaves}.)",
             hint="pass what is the same for each row in args")  # fmt: skip
    if any(not leaf.dim() for leaf in leaves):
        fail(
            RuntimeError,
            "map",
            "tensors of one dimension or more were required (map doesn't work with unmapped leaves)",
            [list(leaf.shape) for leaf in leaves],
            hint="pass what is the same for each row in args",
        )
    sizes = [leaf.shape[0] for leaf in leaves]
    if any(size != sizes[0] for size in sizes):
        shapes = [leaf.shape for leaf in leaves]
        fail(RuntimeError, "map", "tensors of one length were required (Leading dimensions of mapped xs must be "
             f"consistent. Got shapes {shapes}.)", hint="cut them to one length")  # fmt: skip
    if sizes[0] == 0:
        fail(RuntimeError, "map", "a row or more was required (Leading dimensions of mapped xs cannot be 0.)",
             hint="leave out what has no rows")  # fmt: skip
