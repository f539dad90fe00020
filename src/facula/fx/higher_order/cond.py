"""`cond`: one of two functions.

Takes: a predicate, two functions, operands. Gives: what the chosen function gives.
Keeps true: in a trace both functions are graphs of one node, and the choice is made when the graph runs; the
function that is
not chosen is not run and has no gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd import Function
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.higher_order.batches import on_batches, unwrapped, wrapped
from facula.fx.higher_order.errors import refuse
from facula.fx.higher_order.merging import merged
from facula.fx.higher_order.operator import ControlFlow, is_fake
from facula.fx.higher_order.trees import (
    Flat,
    check_operands,
    differentiable,
    gradient_of,
    same_trees,
)
from facula.fx.proxy_tensor import get_proxy_mode
from facula.ops.table.registry import F

__all__ = ["cond", "cond_op"]

Tensor = core.Tensor


class CondOp(ControlFlow):
    """The operator of `cond`: predicate, two functions, flat operands."""

    before, functions, separate = 1, ("true_graph", "false_graph"), False

    def run(self, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> tuple[Any, ...]:
        """What the chosen function gives."""
        return tuple((true_fn if pred else false_fn)(*operands))

    def inputs_of(self, number: int, args: tuple[Any, ...]) -> list[Any]:
        """The operands, for both."""
        return list(args[3])

    def results_of(self, outputs: list[list[Any]], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What both give, where they are alike."""
        first, second = outputs
        if len(first) != len(second):
            refuse("cond", "as many results of both functions were required (Unmatched number of outputs from cond() "
                   "branches)", [len(first), len(second)], "return the same containers")  # fmt: skip
        return tuple([merged(a, b) for a, b in zip(first, second, strict=True)])

    def mapped(self, level: Any, args: tuple[Any, ...]) -> Any:
        """Both functions on the whole batch, and a choice for each entry; one where the predicate has none."""
        pred, true_fn, false_fn, operands = args
        if getattr(pred, "level", None) != level.number:
            return self._mapped_together(level, args)
        found = [f(*operands) for f in (true_fn, false_fn)]
        return tuple([
            F.where(pred.reshape(()).bool(), a, b) if isinstance(a, Tensor) else a
            for a, b in zip(*found, strict=True)
        ])  # fmt: skip

    def _mapped_together(self, level: Any, args: tuple[Any, ...]) -> Any:
        mode = get_proxy_mode()
        if (mode is None or not mode.enable_tracing) and not is_fake(args):
            return self.run(*args)
        pred, true_fn, false_fn, operands = args
        given, flags = unwrapped(level, operands)
        functions = [on_batches(level, f, flags) for f in (true_fn, false_fn)]
        return wrapped(level, level.call_below(self, (pred, *functions, tuple(given)), {}))

    def layouts(self, number: int, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Both functions give what the results look like."""
        return results

    def recorded(self, *args: Any) -> tuple[Any, ...]:
        """The chosen function's gradients."""
        pred, true_fn, false_fn, operands = args
        result = _CondGradient.apply(self, pred, true_fn, false_fn, *operands)
        return result if isinstance(result, tuple) else (result,)


cond_op = CondOp("cond")


class _CondGradient(Function):
    """`cond` on the tape of a trace: its gradient is `cond` of the functions' gradients."""

    @staticmethod
    def forward(
        ctx: Any, op: core.Op, pred: Tensor, true_fn: Any, false_fn: Any, *operands: Any
    ) -> Any:
        """The results."""
        tensors = [x for x in operands if isinstance(x, Tensor)]
        ctx.save_for_backward(*tensors, *([pred] if isinstance(pred, Tensor) else []))
        ctx.rest = op, pred, true_fn, false_fn, operands
        result = op(pred, true_fn, false_fn, operands)
        ctx.kept = [differentiable(x) for x in result]
        ctx.mark_non_differentiable(
            *[x for x in result if isinstance(x, Tensor) and not differentiable(x)]
        )
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of the operands."""
        op, pred, true_fn, false_fn, operands = ctx.rest
        saved = iter(ctx.saved_tensors)
        given = [next(saved) if isinstance(x, Tensor) else x for x in operands]
        pred = next(saved) if isinstance(pred, Tensor) else pred
        cotangents = [g for g, kept in zip(grads, ctx.kept, strict=True) if kept]
        wanted = [differentiable(x) and x.requires_grad for x in operands]
        found = iter(
            op(
                pred,
                gradient_of(true_fn, wanted),
                gradient_of(false_fn, wanted),
                (*given, *cotangents),
            )
        )
        return (None, None, None, None, *[next(found) if w else None for w in wanted])


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple | list = (),
) -> Any:
    """``true_fn(*operands)`` where a condition holds, else ``false_fn(*operands)``.

    In a compiled function and in an exported program both are captured, and the choice is made when the program runs.

    Args:
        pred: a bool, or a tensor of one
        true_fn, false_fn: functions of tensors, with results of one form that are neither operands nor views of them
        operands: a tuple of tensors, in containers

    Raises:
        RuntimeError: an argument is of another kind, or the results of the functions differ.

    Example:
        >>> x = facula.tensor(2.0)
        >>> facula.cond(x > 1, lambda x: x * 10, lambda x: x + 1, (x,))
        tensor(20.)
    """
    check_operands("cond", operands)
    mode = get_proxy_mode()
    tracing = mode is not None and mode.enable_tracing
    if isinstance(pred, (bool, int, float)) and not getattr(pred, "_is_symbolic", False):
        if tracing:
            warnings.warn(
                "Pred is a Python constant. When used with torch.cond, it specializes on one of the branches. "
                "Make the predicate a boolean tensor to keep both.",
                stacklevel=2,
            )
        return (true_fn if pred else false_fn)(*operands)
    _check(pred, true_fn, false_fn)
    leaves, spec = pytree.tree_flatten(tuple(operands))
    first, second = Flat(true_fn, spec), Flat(false_fn, spec)
    try:
        results = cond_op(pred, first, second, tuple(leaves))
    finally:
        same_trees("cond", first, second)
    return pytree.tree_unflatten(list(results), first.made or second.made)


def _check(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any]) -> None:
    symbolic = getattr(pred, "_is_symbolic", False)
    if not symbolic and (not isinstance(pred, Tensor) or pred.numel() != 1):
        fail(
            RuntimeError,
            "cond",
            "a predicate with one element was required (Expected pred to be bool or single-element tensor)",
            list(pred.shape) if isinstance(pred, Tensor) else pred,
            hint="reduce it with any() or all()",
        )
    if not callable(true_fn) or not callable(false_fn):
        fail(
            RuntimeError,
            "cond",
            "functions were required (Expect both branches to be callable)",
            [type(true_fn).__name__, type(false_fn).__name__],
            hint="pass functions of the operands",
        )
