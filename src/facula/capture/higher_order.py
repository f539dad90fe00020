"""Operators that take functions: `cond`, and the way functions become arguments of a graph.

Takes: a predicate, functions and operands. Gives: what the chosen function gives.
Keeps true: in a captured graph the functions are graphs of their own, and what they read from outside
is among their arguments; nothing of the program is changed by a function that may not be chosen.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from facula import autograd, core
from facula.capture.breaks import Break
from facula.capture.values import Known, NumberValue, SequenceValue, TensorValue
from facula.core.errors import fail
from facula.fx import Graph, GraphModule, _pytree
from facula.ops.registry import F

__all__ = ["cond", "subgraph"]


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple | list = (),
) -> Any:
    """``true_fn(*operands)`` where a condition holds, else ``false_fn(*operands)``.

    In a compiled function both are captured, and the choice is made when the graph runs.

    Args:
        pred: a bool, or a tensor of one
        true_fn, false_fn: functions of tensors, with results of one form
        operands: a tuple of tensors

    Example:
        >>> x = facula.tensor(2.0)
        >>> facula.cond(x > 1, lambda x: x * 10, lambda x: x, (x,))
        tensor(20.)
    """
    if not isinstance(operands, (tuple, list)):
        fail(
            RuntimeError,
            "cond",
            "a tuple or list of operands was required (Expect operands to be a tuple of possibly "
            "nested dict/list/tuple that only consists of tensor leaves)",
            type(operands).__name__,
            hint="pass (x,) for a single operand",
        )
    if isinstance(pred, core.Tensor) and pred.numel() != 1:
        fail(
            RuntimeError,
            "cond",
            "a predicate with one element was required",
            list(pred.shape),
            hint="reduce it with any() or all()",
        )
    if isinstance(pred, core.Tensor) and core.is_dispatching(pred):
        return _both(pred, true_fn, false_fn, tuple(operands))
    return true_fn(*operands) if pred else false_fn(*operands)


def _both(pred: Any, true_fn: Any, false_fn: Any, operands: tuple) -> Any:
    """In a trace, which has no elements: both functions run, and one result is chosen."""
    pred = pred.reshape(()).bool()
    found = []
    for open_, function in ((pred, true_fn), (~pred, false_fn)):
        leaves, spec = _pytree.tree_flatten(operands)
        given = [_gated(open_, (x,))[0] if isinstance(x, core.Tensor) else x for x in leaves]
        found.append(function(*_pytree.tree_unflatten(given, spec)))
    first, second = (_pytree.tree_leaves(tree) for tree in found)
    alike = _pytree.tree_structure(found[0]) == _pytree.tree_structure(found[1])
    for a, b in zip(first, second, strict=False):
        tensors = isinstance(a, core.Tensor) and isinstance(b, core.Tensor)
        same = a.shape == b.shape and a.dtype is b.dtype if tensors else a == b
        alike = alike and bool(same)
    if not alike:
        fail(
            RuntimeError,
            "cond",
            "results of one structure, shapes and dtypes were required of both functions",
            [getattr(x, "shape", x) for x in (*first, *second)],
            hint="in a trace both run: make their results alike",
        )
    chosen = [
        F.where(pred, a, b) if isinstance(a, core.Tensor) else a
        for a, b in zip(first, second, strict=True)
    ]
    return _pytree.tree_unflatten(chosen, _pytree.tree_structure(found[0]))


def subgraph(
    d: Any, function: Any, args: list[Any], may_be_none: bool = False
) -> tuple[GraphModule, list[Any], Any]:
    """A function captured as a graph of its own: (graph, what it reads from outside, its result).

    The graph takes `args` (tensors) first, then the values that it reads from outside.
    """
    outer = (d.graph, d.last_placeholder, d.inputs, d.operator_count)
    effects, writes = dict(d.effects), dict(d.attribute_writes)
    d.graph, d.last_placeholder, d.inputs = Graph(), None, []
    inner_args = []
    for n, arg in enumerate(args):
        arg = d.force(arg)
        node = d.graph.placeholder(f"operand_{n}")
        node.meta["val"] = arg.fake
        d.last_placeholder = node
        inner_args.append(TensorValue(arg.fake, node))
    d.enclosing.append(([], []))
    try:
        result = d.call(function, inner_args, {})
        lifted = d.enclosing[-1][0]
        if len(d.effects) != len(effects) or len(d.attribute_writes) != len(writes):
            raise Break(
                "unsupported-mutation", "a function that may not be chosen has side effects"
            )
        parts = [] if may_be_none and d.is_none(result) else _tensors(d, result)
        d.graph.output(tuple(d.argument(part)[0] for part in parts))
        return GraphModule({}, d.graph), lifted, result
    finally:
        d.enclosing.pop()
        d.graph, d.last_placeholder, d.inputs, d.operator_count = outer


def _tensors(d: Any, result: Any) -> list[Any]:
    result = d.force(result)
    if isinstance(result, TensorValue):
        return [result]
    if isinstance(result, SequenceValue):
        return [part for item in result.items for part in _tensors(d, item)]
    raise Break("no-graph-argument", "a function of cond gives something other than tensors")


class _Gate(autograd.Function):
    """An operand of a function that may not be chosen: then no gradient comes out of it."""

    @staticmethod
    def forward(ctx: Any, open_: Any, x: Any) -> Any:
        """The operand as it is."""
        ctx.save_for_backward(open_)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient where the function is chosen, else zeros, whatever it was."""
        (open_,) = ctx.saved_tensors
        return None, F.where(open_, grad, F.zeros_like(grad))


class _Chosen(autograd.Function):
    """One of two values; the gradient goes to both, and the gates let one through."""

    @staticmethod
    def forward(ctx: Any, pred: Any, a: Any, b: Any) -> Any:
        """`a` where the predicate holds."""
        return F.where(pred, a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient as it is."""
        return None, grad, grad


def _gated(open_: Any, operands: tuple) -> list[Any]:
    return [_Gate.apply(open_, x) if x.requires_grad else x for x in operands]


def _run_cond(pred: Any, true_graph: Any, false_graph: Any, operands: Any, count: Any) -> Any:
    """The node of `cond`: each graph gets the operands and what it reads itself.

    In a trace, which has no elements, both run and one is chosen.
    """
    shared, more_true = operands[: count[0]], operands[count[0] : count[0] + count[1]]
    more_false = operands[count[0] + count[1] :]
    if isinstance(pred, core.Tensor) and core.is_dispatching(pred):
        pred = pred.reshape(()).bool()
        first = true_graph(*_gated(pred, (*shared, *more_true)))
        second = false_graph(*_gated(~pred, (*shared, *more_false)))
        return tuple(_Chosen.apply(pred, a, b) for a, b in zip(first, second, strict=True))
    if pred:
        return true_graph(*shared, *more_true)
    return false_graph(*shared, *more_false)


def capture_cond(d: Any, args: list, kwargs: dict) -> Any:
    """The rule of `cond`."""
    words = dict(zip(("pred", "true_fn", "false_fn", "operands"), args, strict=False), **kwargs)
    pred = d.force(words["pred"])
    operands = [d.force(v) for v in d.unpack_all(words.get("operands", Known(())))]
    if isinstance(pred, (Known, NumberValue)):
        chosen = words["true_fn"] if d.truth(pred) else words["false_fn"]
        return d.call(chosen, operands, {})
    if not all(isinstance(value, TensorValue) for value in operands):
        raise Break("no-graph-argument", "operands of cond that are no tensors")
    true_graph, true_more, result = subgraph(d, words["true_fn"], operands)
    false_graph, false_more, other = subgraph(d, words["false_fn"], operands)
    shapes = [
        [(tuple(t.fake.shape), t.fake.dtype) for t in _tensors(d, r)] for r in (result, other)
    ]
    if shapes[0] != shapes[1]:
        raise Break(
            "no-graph-argument", "the functions of cond give tensors of different shapes or dtypes"
        )
    nodes = [
        d.attach(graph, name)
        for graph, name in ((true_graph, "true_graph"), (false_graph, "false_graph"))
    ]
    values = [*operands, *true_more, *false_more]
    arguments = tuple(d.argument(value)[0] for value in values)
    counts = (len(operands), len(true_more))
    node = d._new_node(
        "call_function",
        _run_cond,
        (d.node_of(pred), *nodes, arguments, counts),
        {},
        tuple(t.fake for t in _tensors(d, result)),
    )
    d.operator_count += 1
    return _shaped(d, result, node, [0])


def _shaped(d: Any, result: Any, node: Any, position: list[int]) -> Any:
    """The result of one function, with the tensors of the node instead."""
    result = d.force(result)
    if isinstance(result, TensorValue):
        part = d._new_node("call_function", operator.getitem, (node, position[0]), {}, result.fake)
        position[0] += 1
        return d.made(TensorValue(result.fake, part))
    return d.made(SequenceValue(result.kind, [_shaped(d, i, node, position) for i in result.items]))
