"""The part of a graph that depends on no input, computed once.

Takes a graph module, or a module that is traced. Gives a module whose steps of parameters and constants alone are a
graph of their own, which runs before the first call, and whose results are attributes.
Keeps true: the folded module gives what the whole one gave; steps that draw random numbers or
write stay where they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.fx._symbolic_trace import symbolic_trace
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]

_ATTRIBUTES = "_FX_CONST_FOLDED_ATTRS"


class FoldedGraphModule(GraphModule):
    """A module that computes its constants before the first call.

    Args:
        root: what the graph reads from
        graph: the steps that depend on inputs
        const_subgraph: the steps that do not; None where there are none
        fx_const_folded_attrs_name: the attribute that holds their results
        device_for_folded_attrs: where numbers among them go
    """

    def __init__(
        self,
        root: Any,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cpu",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for these inputs; the constants are computed at the first call."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants now."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        folded = (
            nn.ParameterList([self._parameter(value) for value in found])
            if isinstance(found, tuple)
            else self._parameter(found)
        )
        if hasattr(self, self.fx_const_folded_attrs_name):
            delattr(self, self.fx_const_folded_attrs_name)  # a list takes no parameter's place
        setattr(self, self.fx_const_folded_attrs_name, folded)

    def _parameter(self, value: Any) -> Any:
        if not isinstance(value, core.Tensor):
            value = core.tensor(value, device=self.device_for_folded_attrs)
        return nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: Any, name: str) -> str:
    """A name that a module has no attribute of: the given one, or that with a number.

    Args:
        mod_traced: the module
        name: the wanted name; what no identifier may hold becomes `_`

    Example:
        >>> from facula.fx.experimental.const_fold import get_unique_attr_name_in_module
        >>> get_unique_attr_name_in_module(facula.nn.Linear(1, 1), "weight")
        'weight_1'
    """
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    if name[:1].isdigit():
        name = f"_{name}"
    found, number = name, 0
    while hasattr(mod_traced, found):
        number += 1
        found = f"{name}_{number}"
    return found


def split_const_subgraphs(
    module: Any,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Take the steps that depend on no input out of a graph.

    Args:
        module: a module, which is traced, or a graph module
        skip_folding_node_fn: says of a step that it stays where it is
        device_for_folded_attrs: where numbers among the results go

    Example:
        >>> from facula.fx.experimental.const_fold import split_const_subgraphs
        >>> class Scaled(facula.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weight = facula.nn.Parameter(facula.ones(2))
        ...
        ...     def forward(self, x):
        ...         return x * (self.weight + 1)
        >>> folded = split_const_subgraphs(Scaled())
        >>> folded(facula.ones(2)).tolist()
        [2.0, 2.0]
        >>> [node.op for node in folded.graph.nodes]
        ['placeholder', 'get_attr', 'call_function', 'output']
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced.graph, skip_folding_node_fn or (lambda node: False))
    wanted = [n for n in constant if n.op != "get_attr" and any(u not in constant for u in n.users)]
    if not wanted:
        return FoldedGraphModule(traced, traced.graph)
    name = get_unique_attr_name_in_module(traced, _ATTRIBUTES)
    placeholder = nn.Parameter(core.empty(0))
    setattr(traced, name, placeholder)
    try:
        rest = _without(traced.graph, constant, wanted, name)
        before = _alone(constant, wanted)
        return FoldedGraphModule(traced, rest, before, name, device_for_folded_attrs)
    finally:
        delattr(traced, name)


def _constant_nodes(graph: Graph, skips: Callable[[Node], bool]) -> dict[Node, None]:
    """The nodes that depend on no input, in order."""
    found: dict[Node, None] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            found[node] = None
        elif node.op in ("placeholder", "output") or node.is_impure():
            continue
        elif all(used in found for used in node.all_input_nodes) and not skips(node):
            found[node] = None
    return found


def _alone(constant: dict[Node, None], wanted: list[Node]) -> Graph:
    """The graph of what the wanted nodes are made of, which gives them."""
    needed = set(wanted)
    for node in reversed(constant):
        if node in needed:
            needed.update(node.all_input_nodes)
    graph, there = Graph(), {}  # type: ignore[var-annotated]
    for node in constant:
        if node in needed:
            there[node] = graph.node_copy(node, lambda n: there[n])
    results = tuple(there[node] for node in wanted)
    graph.output(results[0] if len(results) == 1 else results)
    return graph


def _without(graph: Graph, constant: dict[Node, None], wanted: list[Node], name: str) -> Graph:
    """The graph of the other nodes, in which attributes stand for the wanted ones."""
    new, there = Graph(), {}  # type: ignore[var-annotated]
    new._codegen = graph._codegen
    for node in graph.nodes:  # inputs come first, whatever stood in front of them
        if node.op == "placeholder":
            there[node] = new.node_copy(node, lambda n: there[n])
    whole = new.get_attr(name)
    for number, node in enumerate(wanted):
        one = whole if len(wanted) == 1 else new.call_function(operator.getitem, (whole, number))
        one.meta = dict(node.meta)
        there[node] = one
    for node in graph.nodes:
        if node.op == "placeholder" or node in constant and node.op != "get_attr":
            continue
        if node in constant and all(user in constant for user in node.users):
            continue
        there[node] = new.node_copy(node, lambda n: there[n])
    return new
