"""Patterns that name nodes: their last result is a dictionary from names to values.

Takes: a traced pattern. Gives: matches whose `name_node_map` has the nodes of these names.
Keeps true: the dictionary is no part of what has to match.
"""

from __future__ import annotations

import copy

from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """A copy of a pattern without its dictionary, and the dictionary with the copy's nodes."""
    made = copy.deepcopy(gm)
    output = made.graph.output_node()
    results = output.args[0]
    codegen = made.graph._codegen
    info = getattr(codegen, "pytree_info", None)
    if info is not None and info.out_spec is not None:  # the results are flat
        results = pytree.tree_unflatten(list(results), info.out_spec)
    if not isinstance(results, (tuple, list)) or not results or not isinstance(results[-1], dict):
        fail(
            RuntimeError,
            "SubgraphMatcherWithNameNodeMap",
            "a pattern whose last result is a dictionary from names to values",
            results,
            hint='return result, {"name": value}',
        )
    *plain, named = results
    output.args = (tuple(plain),)
    if info is not None and info.out_spec is not None:
        leaves, spec = pytree.tree_flatten(tuple(plain))
        output.args = (tuple(leaves),)
        codegen.pytree_info = info._replace_out(spec)  # type: ignore[attr-defined]
    made.graph.eliminate_dead_code()
    made.recompile()
    return made, named


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Looks for a pattern that names some of its nodes.

    Args:
        pattern_gm: the traced pattern, whose last result is a dictionary.
        match_output, match_placeholder, remove_overlapping_matches, ignore_literals: as for
            `SubgraphMatcher`.

    >>> from facula.fx.passes.utils.matcher_with_name_node_map_utils import (
    ...     SubgraphMatcherWithNameNodeMap)
    >>> def pattern(x):
    ...     y = x.sin()
    ...     return y + 1, {"sine": y}
    >>> matcher = SubgraphMatcherWithNameNodeMap(facula.fx.symbolic_trace(pattern))
    >>> traced = facula.fx.symbolic_trace(lambda z: (z.cos().sin() + 1) * 2)
    >>> matcher.match(traced.graph)[0].name_node_map
    {'sine': sin}
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(
            pattern_gm.graph,
            match_output,
            match_placeholder,
            remove_overlapping_matches,
            ignore_literals,
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Every place where the pattern fits, with its named nodes.

        Args:
            graph: where to look.
            node_name_match: as for `SubgraphMatcher.match`.
        """
        found = super().match(graph)
        for match in found:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return found
