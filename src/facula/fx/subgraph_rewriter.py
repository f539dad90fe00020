"""Replacing parts of a graph.

Takes a graph module, a pattern and its replacement (functions or graph modules with the same
parameters).  Gives the matches that were replaced; the module is changed.
Keeps true: only what `SubgraphMatcher` finds is replaced; the code is compiled again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from facula import nn
from facula.core.errors import fail
from facula.fx._symbolic_trace import symbolic_trace
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule, copy_attribute
from facula.fx.node import Node
from facula.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = [
    "Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters",
]  # fmt: skip

MatchFilter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place that was replaced: the node that gave the result, and pattern node -> node."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place that was replaced, with the nodes that were put there."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node] = field(default_factory=list)


def _graph_of(x: Callable[..., Any]) -> Graph:
    if isinstance(x, Graph):
        return x
    return x.graph if isinstance(x, GraphModule) else symbolic_trace(x).graph


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Puts a replacement wherever a pattern stands in a graph module, in place.

    Args:
        gm: what is changed
        pattern: what is looked for; its parameters stand for anything
        replacement: what is put there, with the same parameters

    Returns:
        a list of what was found.

    Example:
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> found = facula.fx.replace_pattern(traced, lambda x: x.sin(), lambda x: x.cos())
        >>> len(found), traced(facula.zeros(1))
        (1, tensor([2.]))
    """
    replaced = _replace(gm, pattern, replacement)
    return [Match(r.anchor, r.nodes_map) for r in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern`, where all filters say yes.

    Args:
        match_filters: each gets the match, the graph and the pattern's graph.
        ignore_literals: numbers and strings in the pattern fit any others.
        replacement_callback: makes the replacement for a match.
        node_name_match: only matches whose result has this name.
    """
    return _replace(
        gm,
        pattern,
        replacement,
        match_filters,
        ignore_literals,
        replacement_callback,
        node_name_match,
    )


def _replace(
    gm: GraphModule,
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    match_filters: list[MatchFilter] | None = None,
    ignore_literals: bool = False,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    name: str = "",
) -> list[ReplacedPatterns]:
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        m
        for m in matcher.match(gm.graph, name)
        if all(f(m, gm.graph, pattern_graph) for f in match_filters or [])
    ]
    if replacement is None and callback is None:
        fail(
            AssertionError,
            "replace_pattern",
            "a replacement or a replacement_callback was required",
            hint="pass the function that takes the pattern's place",
        )
    common = None if replacement is None else _graph_of(replacement)
    replaced: list[ReplacedPatterns] = []
    #: results of earlier replacements, which later matches may take as inputs
    renewed: dict[Node, Node] = {}
    for match in matches:
        graph = callback(match, gm.graph, pattern_graph) if callback is not None else common
        assert graph is not None
        replaced.append(_put(gm, match, matcher, graph, renewed))
    if isinstance(replacement, nn.Module):
        _bring_attributes(gm, replacement)
    gm.recompile()
    return replaced


def _put(
    gm: GraphModule,
    match: InternalMatch,
    matcher: SubgraphMatcher,
    graph: Graph,
    renewed: dict[Node, Node],
) -> ReplacedPatterns:
    """Copy the replacement in front of the first user of the match's results, and erase the match."""
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    given = [renewed.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    if len(inputs) != len(given):
        fail(AssertionError, "replace_pattern", f"a replacement with {len(given)} inputs was required, as the "
             "pattern has", got=len(inputs),
             hint="give the replacement the parameters of the pattern")  # fmt: skip
    val_map: dict[Node, Any] = dict(zip(inputs, given, strict=True))
    users = {u for n in match.returning_nodes for u in n.users}
    inside = {n for n in match.nodes_map.values() if isinstance(n, Node)}
    outside = [u for u in users if u not in inside]
    last = max(match.returning_nodes)
    place = min(outside) if outside else last.next
    if place < last or place is last:
        place = last.next
    with gm.graph.inserting_before(place):
        result = gm.graph.graph_copy(graph, val_map)
    results = [result] if isinstance(result, Node) else list(result)  # type: ignore[arg-type]
    if len(results) != len(match.returning_nodes):
        fail(AssertionError, "replace_pattern", f"a replacement with {len(match.returning_nodes)} results was "
             "required", got=len(results), hint="return as many values as the pattern does")  # fmt: skip
    for old, new in zip(match.returning_nodes, results, strict=True):
        if isinstance(new, Node):
            renewed[old] = new
            for key in ("val", "stack_trace", "tensor_meta"):
                if key in old.meta and key not in new.meta:
                    new.meta[key] = old.meta[key]
            old.replace_all_uses_with(new, delete_user_cb=lambda u: u not in inside)
    _erase(gm, match)
    made = [v for k, v in val_map.items() if k.op != "placeholder"]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _erase(gm: GraphModule, match: InternalMatch) -> None:
    own = [
        n
        for p, n in match.nodes_map.items()
        if isinstance(n, Node) and p.op not in ("placeholder", "output")
    ]
    for node in sorted(own, reverse=True):
        if not node.users:
            gm.graph.erase_node(node)


def _bring_attributes(gm: GraphModule, replacement: nn.Module) -> None:
    """Give the module what the replacement reads."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        if _find(gm, str(node.target)) is None and _find(replacement, str(node.target)) is not None:
            source = copy.copy(replacement) if isinstance(replacement, GraphModule) else replacement
            copy_attribute(source, gm, str(node.target))
    gm.graph.lint()


def _find(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module
