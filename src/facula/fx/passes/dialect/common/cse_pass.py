"""Equal calls made once: common subexpressions of a graph.

Takes a graph module. Gives one in which a call that another made before it, with the same arguments, is that other.
Keeps true: calls that draw random numbers, that write, or whose result something writes to are made as often as
before; 1, 1.0 and True are different arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from facula import core
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.infra.pass_base import PassBase, PassResult
from facula.ops.random.drawing import draws
from facula.ops.table.definition import Definition
from facula.ops.table.overloads import namespace
from facula.ops.table.registry import own_operators

__all__ = ["CSEPass", "get_CSE_banned_ops"]


def get_CSE_banned_ops() -> set[Any]:  # noqa: N802 - PyTorch's name
    """The operators whose calls are never one: those that draw random numbers.

    Example:
        >>> from facula.fx.passes.dialect.common.cse_pass import get_CSE_banned_ops
        >>> facula.ops.aten.rand_like in get_CSE_banned_ops()
        True
    """
    random = (name for name, op in own_operators().items() if draws(op.definition))
    return {getattr(namespace("aten"), name) for name in random}


class CSEPass(PassBase):
    """Makes equal calls once.

    Args:
        banned_ops: overloads, or operators with all of their overloads, whose calls stay as they are

    Example:
        >>> from facula.fx.passes.dialect.common.cse_pass import CSEPass
        >>> graph = facula.fx.symbolic_trace(lambda x: facula.exp(x) + facula.exp(x))
        >>> len(graph.graph.nodes), len(CSEPass()(graph).graph_module.graph.nodes)
        (5, 4)
    """

    def __init__(self, banned_ops: Iterable[Any] | None = None) -> None:
        self.banned_ops = set(banned_ops or ())
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """The module with equal calls made once.

        Args:
            graph_module: stays as it is
        """
        source = graph_module.graph
        if any(_writes(node) for node in source.nodes):
            return PassResult(graph_module, False)
        made: dict[Any, Node] = {}
        new, there = Graph(), {}  # type: ignore[var-annotated]
        merged = False
        for node in source.nodes:
            if node.op == "output":
                copied = new.node_copy(node, lambda n: there[n])
                there[node] = copied
                continue
            key = self._key(node, there)
            known = made.get(key) if key is not None else None
            if known is not None:
                there[node], merged = known, True
                continue
            there[node] = new.node_copy(node, lambda n: there[n])
            if key is not None:
                made[key] = there[node]
        new._codegen = source._codegen
        return PassResult(GraphModule(graph_module, new), merged)

    def _key(self, node: Node, there: dict[Node, Node]) -> Any:
        """What equal calls have in common; None for what is no call, or not to be merged."""
        if node.op != "call_function" or self._is_banned(node.target) or node.is_impure():
            return None
        key = (node.target, _described(node.args, there), _described(node.kwargs, there))
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def _is_banned(self, target: Any) -> bool:
        definition = getattr(core.operator_of(getattr(target, "_op", target)), "definition", None)
        return (
            target in self.banned_ops
            or getattr(target, "overloadpacket", None) in self.banned_ops
            or isinstance(definition, Definition)
            and draws(definition)
        )


def _writes(node: Node) -> bool:
    """Whether a node changes something that another made."""
    return node.op in ("call_function", "call_method") and node.is_impure(impure_random=False)


def _described(x: Any, there: dict[Node, Node]) -> Any:
    """An argument as part of a key: nodes by what stands for them, numbers with their types."""
    if isinstance(x, Node):
        return there[x]
    if isinstance(x, (list, tuple)):
        return (list if isinstance(x, list) else tuple, *(_described(v, there) for v in x))
    if isinstance(x, dict):
        return (dict, *((k, _described(v, there)) for k, v in sorted(x.items())))
    if isinstance(x, slice):
        return (slice, *(_described(v, there) for v in (x.start, x.stop, x.step)))
    return (type(x), repr(x) if isinstance(x, float) else x)
