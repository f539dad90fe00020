"""Backward graphs for runs in which some cotangents do not arrive.

Takes: a backward graph, and which of its cotangents arrive. Gives: the graph of these, compiled once for
each combination.
Keeps true: what does not arrive is nothing, as in eager: no product with it is computed, so that it
meets no infinity, and an input that only it leads to has no gradient. A backward graph is linear in its
cotangents, and so is each of its nodes in those of its arguments that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.fx import Graph, GraphModule, Node
from facula.lower import table
from facula.lower.aot import runtime
from facula.lower.aot.partition import depends_on_tangents, is_tangent
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import F


class Partial:
    """`partial(present)`: the graph module and the compiled graph for a combination of cotangents."""

    def __init__(self, backward: GraphModule, compiler: Callable[..., Any]) -> None:
        self.backward, self.compiler = backward, compiler
        self.made: dict[tuple[bool, ...], tuple[GraphModule, runtime.Boxed]] = {}

    def __call__(self, present: tuple[bool, ...]) -> tuple[GraphModule, runtime.Boxed]:
        found = self.made.get(present)
        if found is None:
            module = without_cotangents(self.backward, present)
            inputs = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
            compiled = runtime.boxed_of(self.compiler(module, inputs))
            found = self.made[present] = (module, compiled)
        return found


def without_cotangents(backward: GraphModule, present: Sequence[bool]) -> GraphModule:
    """A backward graph without the cotangents that are not present."""
    made = _Reduced(backward.graph, present)
    module = GraphModule(backward, made.graph)
    module.meta = dict(backward.meta)
    return module


class _Reduced:
    """The graph that is made: what is zero because a cotangent is missing never becomes a node."""

    def __init__(self, graph: Graph, present: Sequence[bool]) -> None:
        self.graph = Graph()
        self.late = depends_on_tangents(graph)
        self.known: dict[Node, Node] = {}
        self.zero: set[Node] = set()
        arrives = iter(present)
        for node in graph.nodes:
            if is_tangent(node) and not next(arrives):
                self.zero.add(node)
            elif node.op == "output":
                results = [
                    None if isinstance(n, Node) and n in self.zero else n for n in node.args[0]
                ]
                self.graph.output(
                    tuple([self.known[n] if isinstance(n, Node) else n for n in results])
                )
            else:
                self._take(node)
        self.graph.eliminate_dead_code()

    def _take(self, node: Node) -> None:
        read = [n for n in node.all_input_nodes if n in self.late]
        # a summand that depends on no cotangent is the gradient of a function that does not ask for
        # its own: nothing of it goes with another one
        rest = _other_summand(node, self.zero)
        if rest is not None:
            self.known[node] = self.known[rest]
            return
        if read and all(n in self.zero for n in read) and not _is_constant(node):
            self.zero.add(node)
            return
        for n in read:
            if n in self.zero and n not in self.known:
                self.known[n] = self._zeros(n)
        self.known[node] = self.graph.node_copy(node, self.known.__getitem__)

    def _zeros(self, node: Node) -> Node:
        """Zeros in the layout of a node."""
        like = node.meta["val"]
        length = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride(), strict=True))
        options = {"dtype": like.dtype, "device": like.device}
        made = self._call(F.zeros, ((length if like.numel() else 0,),), options, like)
        return self._call(F.as_strided, (made, tuple(like.shape), tuple(like.stride())), {}, like)

    def _call(self, op: Any, args: tuple, kwargs: dict, like: Any) -> Node:
        values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        node = self.graph.call_function(overload_of(op, tuple(values)), args, kwargs)
        with like.fake_mode:
            node.meta["val"] = op(*values, **kwargs)
        return node


def _is_constant(node: Node) -> bool:
    """Whether a node takes a tensor for its shape only, and is not zeros."""
    definition = table.definition_of(node)
    if definition is None or definition.vmap != "new":
        return False
    operator = table.operator_of(node.target)
    if operator in (F.new_zeros, F.zeros_like):
        return False
    return True


def _other_summand(node: Node, zero: set[Node]) -> Node | None:
    """The summand that a sum is, because the other one is zero."""
    if table.operator_of(node.target) is not F.add or node.kwargs or len(node.args) != 2:
        return None
    for one, other in (node.args, node.args[::-1]):
        if isinstance(one, Node) and one in zero and isinstance(other, Node) and other not in zero:
            mine, theirs = node.meta["val"], other.meta["val"]
            if not isinstance(theirs, core.Tensor) or mine.dtype is not theirs.dtype:
                return None
            if mine.shape == theirs.shape and mine.stride() == theirs.stride():
                return other
    return None
