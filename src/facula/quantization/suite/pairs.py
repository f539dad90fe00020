"""The parts of two graphs that belong together: PyTorch's `ao.ns.fx.graph_matcher`.

Takes: two graphs of the same program, before and after quantization. Gives: pairs of parts, by names. Keeps true: the
pairs come in the order of the graphs; graphs that do not compute the same layers are refused.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.fx import Graph, GraphModule, Node
from facula.quantization.fake_quantize import is_activation_post_process
from facula.quantization.graph.observing import nodes_in
from facula.quantization.suite.relations import (
    end_node_matches_reversed_fusion,
    fusions_by_end,
    get_base_name_for_op,
    get_base_name_to_sets_of_related_ops,
    get_type_a_related_to_b,
    get_unmatchable_types_map,
)
from facula.quantization.suite_types import NSSubgraph

__all__ = ["GraphMatchingException", "SubgraphTypeRelationship", "get_matching_subgraph_pairs"]


class GraphMatchingException(Exception):
    """Two graphs do not compute the same layers."""


class SubgraphTypeRelationship(enum.Enum):
    """What two parts of graphs are to each other."""

    EQUAL = enum.auto()
    EQUAL_BUT_UKNOWN = enum.auto()
    RELATED_BUT_NOT_EQUAL = enum.auto()
    NOT_RELATED = enum.auto()


def _get_output_nodes(g: Graph) -> list[Node]:
    return [node for node in g.nodes if node.op == "output"]


def _get_node_target_type(node: Node, gm: GraphModule) -> Any:
    """What a node calls: a function, a method's name, or the class of a module; None for others."""
    if node.op in ("call_function", "call_method"):
        return node.target
    return type(gm.get_submodule(str(node.target))) if node.op == "call_module" else None


class _NSGraphMatchableSubgraphsIterator:
    """The parts of a graph that are compared, from its results to its inputs."""

    def __init__(
        self, gm: GraphModule, non_matchable_functions: set[Any], non_matchable_modules: set[Any],
        non_matchable_methods: set[Any],
    ) -> None:  # fmt: skip
        self.gm = gm
        self.functions, self.modules, self.methods = (
            non_matchable_functions, non_matchable_modules, non_matchable_methods,
        )  # fmt: skip
        self.fusions = fusions_by_end()
        self.seen: set[Node] = set()
        self.waiting: list[Node] = []
        for node in _get_output_nodes(gm.graph):
            self.waiting += nodes_in(node.args)

    def __iter__(self) -> Iterator[NSSubgraph]:
        return self

    def __next__(self) -> NSSubgraph:
        while self.waiting:
            end = self.waiting.pop()
            if end in self.seen:
                continue
            part = self._part(end)
            node: Any = end
            while True:
                self.seen.add(node)
                inputs = list(nodes_in([node.args, node.kwargs]))
                if node is part.start_node:
                    self.waiting += inputs
                    break
                first = node.args[0]
                self.waiting += [n for n in inputs if n is not first]
                node = first
            if self._is_matchable(part.base_op_node):
                return part
        raise StopIteration

    def _part(self, end: Node) -> NSSubgraph:
        """The longest run of nodes that ends at a node and is compared as one."""
        for fusion, place in self.fusions.get(end.op, ()):
            if end_node_matches_reversed_fusion(end, fusion, self.gm, self.seen):
                run: list[Any] = [end]
                while len(run) < len(fusion):
                    run.insert(0, run[0].args[0])
                return NSSubgraph(run[0], end, run[place])
        return NSSubgraph(end, end, end)

    def _is_matchable(self, node: Node) -> bool:
        if node.op == "call_function":
            return node.target not in self.functions
        if node.op == "call_method":
            return node.target not in self.methods
        if node.op != "call_module":
            return False
        module = self.gm.get_submodule(str(node.target))
        return type(module) not in self.modules and not is_activation_post_process(module)


def _get_subgraph_relationship_type(
    subgraph_a: NSSubgraph, subgraph_b: NSSubgraph, gm_a: GraphModule, gm_b: GraphModule, type_a_related_to_b: set[Any],
) -> SubgraphTypeRelationship:  # fmt: skip
    """What two parts are to each other, by what their bases call."""
    kinds = SubgraphTypeRelationship
    node_a, node_b = subgraph_a.base_op_node, subgraph_b.base_op_node
    called = ("call_function", "call_method")
    if node_a.op != node_b.op and not (node_a.op in called and node_b.op in called):
        return kinds.NOT_RELATED
    pair = _get_node_target_type(node_a, gm_a), _get_node_target_type(node_b, gm_b)
    same = pair[0] == pair[1]
    if pair not in type_a_related_to_b:
        method = same and node_a.op == "call_method"
        return kinds.EQUAL if method else kinds.EQUAL_BUT_UKNOWN if same else kinds.NOT_RELATED
    alone = [s.end_node is s.base_op_node for s in (subgraph_a, subgraph_b)]
    return kinds.EQUAL if same and alone[0] == alone[1] else kinds.RELATED_BUT_NOT_EQUAL


def _get_name_for_subgraph(
    subgraph_a: NSSubgraph, gm_a: GraphModule, base_name_to_sets_of_related_ops: dict[str, set[Any]],
    existing_names: set[str],
) -> str:  # fmt: skip
    """A name for a pair: that of the set that its base is in, and a number."""
    kind = _get_node_target_type(subgraph_a.base_op_node, gm_a)
    head = f"base_op_{get_base_name_for_op(base_name_to_sets_of_related_ops, kind)}"
    number = 0
    while f"{head}_{number}" in existing_names:
        number += 1
    existing_names.add(f"{head}_{number}")
    return f"{head}_{number}"


def _refuse(what: str, a: Any, b: Any) -> None:
    fail(
        GraphMatchingException, "get_matching_subgraph_pairs", f"graphs with the same layers were required: {what}",
        f"{a} and {b}", hint="compare a prepared model with what convert_fx makes of it",
    )  # fmt: skip


def _shown(part: NSSubgraph | None, gm: GraphModule) -> str:
    if part is None:
        return "nothing"
    return f"{part.base_op_node} ({_get_node_target_type(part.base_op_node, gm)})"


def get_matching_subgraph_pairs(
    gm_a: GraphModule, gm_b: GraphModule, base_name_to_sets_of_related_ops: dict[str, set[Any]] | None = None,
    unmatchable_types_map: dict[str, set[Any]] | None = None,
) -> dict[str, tuple[NSSubgraph, NSSubgraph]]:  # fmt: skip
    """The parts of two graphs that belong together.

    Args:
        gm_a: a graph
        gm_b: a graph of the same program
        base_name_to_sets_of_related_ops: what is whose form; None for facula's own
        unmatchable_types_map: what is left out; None for facula's own

    Returns:
        pairs by name, in the order of the graphs

    Errors:
        GraphMatchingException: the graphs do not compute the same layers

    Example:
        >>> from facula import fx, nn
        >>> from facula.quantization.suite.pairs import get_matching_subgraph_pairs
        >>> a, b = (fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))) for _ in range(2))
        >>> [(x.base_op_node, y.base_op_node) for x, y in get_matching_subgraph_pairs(a, b).values()]
        [(_0, _0)]
    """
    sets = base_name_to_sets_of_related_ops
    sets = get_base_name_to_sets_of_related_ops() if sets is None else sets
    left = unmatchable_types_map or get_unmatchable_types_map()
    unseen = left["funs_unmatchable"], left["mods_unmatchable"], left["meths_unmatchable"]
    parts = [_NSGraphMatchableSubgraphsIterator(gm, *unseen) for gm in (gm_a, gm_b)]
    related, names = get_type_a_related_to_b(sets), set[str]()
    found: dict[str, tuple[NSSubgraph, NSSubgraph]] = {}
    while True:
        a, b = (next(part, None) for part in parts)
        if a is None and b is None:
            return dict(reversed(list(found.items())))
        if a is None or b is None:
            _refuse("one has more of them", _shown(a, gm_a), _shown(b, gm_b))
            continue
        kind = _get_subgraph_relationship_type(a, b, gm_a, gm_b, related)
        if kind is SubgraphTypeRelationship.NOT_RELATED:
            _refuse("two are no forms of the same", _shown(a, gm_a), _shown(b, gm_b))
        if kind is not SubgraphTypeRelationship.EQUAL_BUT_UKNOWN:
            found[_get_name_for_subgraph(a, gm_a, sets, names)] = (a, b)
