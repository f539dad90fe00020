"""Calls of modules in an unflattened program, with arguments and results nested as they were.

Takes: the flat graph, and signatures by the path of a call. Gives: `KeptCalls`, and `KeptCall`, which writes one call
and the graph of its module.
Keeps true: a call is kept where its signature names all that it reads and all that others read of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from facula.export.module_calls import ModuleCallSignature
from facula.export.signature import ConstantArgument
from facula.fx import Graph, GraphModule, Node
from facula.fx import _pytree as pytree
from facula.fx.call_codegen import CallCodeGen
from facula.fx.codegen import _PyTreeInfo

__all__ = ["KeptCall", "KeptCalls"]


class KeptCalls:
    """The calls whose signatures were kept.

    Args:
        graph: the flat graph
        signatures: path, or `path@1` for another call of the module -> signature
    """

    def __init__(self, graph: Graph, signatures: Mapping[str, ModuleCallSignature]) -> None:
        self.nodes = {node.name: node for node in graph.nodes}
        self.signatures = signatures

    def of(
        self, key: str, path: str, given: Sequence[Node], results: Sequence[Node]
    ) -> KeptCall | None:
        """The kept call of a module.

        Args:
            key: of the call
            path: of the module
            given: what it reads
            results: what others read of it
        """
        _, again, count = key.partition("@")
        signature = self.signatures.get(f"{path}@{count}" if again else path)
        if signature is None:
            return None
        call = KeptCall(signature, self.nodes)
        complete = set(given) <= set(call.given) and set(results) <= set(call.gave)
        return call if complete else None


class KeptCall:
    """One call.

    Args:
        signature: of the call
        nodes: those of the flat graph, by name
    """

    def __init__(self, signature: ModuleCallSignature, nodes: Mapping[str, Node]) -> None:
        self.signature = signature
        self.given, self.gave = (
            [a.value if isinstance(a, ConstantArgument) else nodes.get(a.name) for a in part]
            for part in (signature.inputs, signature.outputs)
        )

    def fill(self, child: Any, nodes: list[Node]) -> None:
        """Write the graph of the module.

        Args:
            child: the part of the program that it is
            nodes: of the flat graph that run in it
        """
        for i, node in enumerate(self.given):
            fresh = isinstance(node, Node) and node not in child.known
            name = node.name if isinstance(node, Node) and fresh else f"arg_{i}"
            made = child.graph.placeholder(name)
            if isinstance(node, Node):
                made.meta = dict(node.meta)
                child.known.setdefault(node, made)
        child.add(nodes)
        values = [child.value(x) if isinstance(x, Node) else x for x in self.gave]
        child.graph.output(tuple(values))

    def sign(self, module: GraphModule) -> None:
        """Let a module take and give what the original did."""
        spec = self.signature.in_spec
        positional, named = spec.children_specs
        names = list(self.signature.forward_arg_names or ())
        if len(names) != positional.num_children + named.num_children:
            names = [*(f"arg_{i}" for i in range(positional.num_children)), *named.context]
        info = _PyTreeInfo(names, spec, self.signature.out_spec)
        module.graph.set_codegen(CallCodeGen(info))
        module.recompile()

    def called(
        self, graph: Graph, target: str, value: Callable[[Node], Node], first: Node
    ) -> dict[Node, Node]:
        """Write the call; gives what stands for the nodes that it gives.

        Args:
            graph: around the call
            target: the path of the module
            value: what stands there for a node of the flat graph
            first: the first node that runs in the module
        """
        leaves = [value(x) if isinstance(x, Node) else x for x in self.given]
        args, kwargs = pytree.tree_unflatten(leaves, self.signature.in_spec)
        call = graph.call_module(target, tuple(args), dict(kwargs))
        call.meta["nn_module_stack"] = first.meta.get("nn_module_stack")
        found: dict[Node, Node] = {}
        for leaf, steps in zip(self.gave, _paths(self.signature.out_spec), strict=True):
            if not isinstance(leaf, Node) or leaf in found or leaf in self.given:
                continue
            at = call
            for function, key in steps:
                at = graph.call_function(function, (at,) if key is None else (at, key))
            at.meta["val"] = leaf.meta.get("val")
            found[leaf] = at
        return found


#: a step into a result: a function, and its second argument where it has one
Step = tuple[Callable[..., Any], Any]


def _paths(spec: Any, before: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """How each leaf of a result is read."""
    if spec.is_leaf():
        yield before
        return
    if spec.type in (tuple, list, pytree.namedtuple):
        keys: Any = range(spec.num_children)
    elif spec.type is dict:
        keys = spec.context
    else:  # a container that says itself how it is taken apart
        flat: Step = (pytree.tree_leaves, None)
        for i in range(spec.num_leaves):
            yield (*before, flat, (operator.getitem, i))
        return
    for key, child in zip(keys, spec.children_specs, strict=True):
        yield from _paths(child, (*before, (operator.getitem, key)))
