"""Finding the places of a graph that look like another, small graph.

Takes a pattern.  Gives every place of a graph where it fits, as a map from its nodes to the graph's.
Keeps true: inside of a match nothing but its results is used outside; matches do not overlap, unless
that is asked for; placeholders of the pattern stand for anything, the same for the same placeholder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.graph import Graph
from facula.fx.node import Node
from facula.fx.operator_schemas import normalize_function

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place: where it was entered, and which node stands for which."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def copy(self) -> InternalMatch:
        """The same, to be changed apart."""
        return InternalMatch(
            list(self.anchors),
            dict(self.nodes_map),
            list(self.placeholder_nodes),
            list(self.returning_nodes),
            dict(self.name_node_map),
        )


class SubgraphMatcher:
    """Looks for a pattern in graphs."""

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        """Prepare.

        Args:
            pattern: the small graph.
            match_output: its output is the graph's output.
            match_placeholder: its inputs are the graph's inputs.
            remove_overlapping_matches: of matches that share nodes keep the first.
            ignore_literals: numbers and strings among arguments fit any others.
        """
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if not len(pattern.nodes):
            fail(
                ValueError,
                "SubgraphMatcher",
                "a pattern with nodes was required",
                got="an empty graph",
                hint="trace a function with at least one operation as the pattern",
            )
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                fail(
                    AssertionError,
                    "SubgraphMatcher",
                    (
                        "a pattern without dead code was required: SubgraphMatcher cannot be "
                        "initialized with a pattern with dead code"
                    ),
                    got=f"'{node}'",
                    hint="pattern.eliminate_dead_code() removes it",
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = list(output.all_input_nodes)
        self.pattern_anchors = [output] if match_output else self._anchors(output)

    def _anchors(self, output: Node) -> list[Node]:
        """The results that lead nowhere else in the pattern: where a match is entered."""
        return [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All matches in a graph, in order.

        Args:
            graph: where to look.
            node_name_match: only matches whose anchor has this name.
        """
        candidates: list[list[tuple[Node, Node]]] = []
        for anchor in self.pattern_anchors:
            found = [
                (anchor, n)
                for n in graph.nodes
                if self._alike(anchor, n) and (not node_name_match or n.name == node_name_match)
            ]
            candidates.append(found)
        matches: list[InternalMatch] = []

        def enter(number: int, match: InternalMatch) -> None:
            if number == len(candidates):
                match.placeholder_nodes = [
                    match.nodes_map[n]
                    for n in self.pattern_placeholder_nodes
                    if n in match.nodes_map
                ]
                match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
                matches.append(match)
                return
            for pattern_node, node in candidates[number]:
                branch = match.copy()
                if self._match_nodes(pattern_node, node, branch):
                    branch.anchors.append(node)
                    enter(number + 1, branch)

        enter(0, InternalMatch([]))
        matches = [m for m in matches if self._is_contained(m.nodes_map)]
        return self._apart(matches) if self.remove_overlapping_matches else matches

    # ---------------------------------------------------------------- comparing

    def _alike(self, p: Node, n: Node) -> bool:
        """Whether two nodes do the same, whatever their arguments."""
        if p.op == "placeholder" and not self.match_placeholder:
            return True
        if p.op != n.op:
            return False
        if p.op in ("placeholder", "output"):
            return True
        if p.op == "get_attr":
            return self._same_attribute(p, n)
        if p.op == "call_module":
            return self._same_module(p, n)
        return p.target == n.target

    def _same_attribute(self, p: Node, n: Node) -> bool:
        ours, theirs = _value_of(p), _value_of(n)
        if isinstance(ours, core.Tensor) or isinstance(theirs, core.Tensor):
            return isinstance(ours, core.Tensor) and isinstance(theirs, core.Tensor)
        return p.target == n.target

    def _same_module(self, p: Node, n: Node) -> bool:
        ours, theirs = _value_of(p), _value_of(n)
        return p.target == n.target or (ours is not None and type(ours) is type(theirs))

    def _match_nodes(self, p: Node, n: Node, match: InternalMatch) -> bool:
        if p in match.nodes_map:
            return match.nodes_map[p] is n
        if n in match.nodes_map.values():
            return False
        if not self._alike(p, n):
            return False
        match.nodes_map[p] = n
        if p.op == "placeholder":
            return True
        if self._match_arguments(p, n, match):
            return True
        match.nodes_map.pop(p, None)
        return False

    def _match_arguments(self, p: Node, n: Node, match: InternalMatch) -> bool:
        ours, theirs = (list(p.args), dict(p.kwargs)), (list(n.args), dict(n.kwargs))
        if len(ours[0]) != len(theirs[0]) or ours[1].keys() != theirs[1].keys():
            named, other = _by_name(p), _by_name(n)
            if named is None or other is None or named.keys() != other.keys():
                return False
            ours, theirs = ([], named), ([], other)
        pairs = list(zip(ours[0], theirs[0], strict=True))
        pairs += [(ours[1][k], theirs[1][k]) for k in ours[1]]
        return all(self._match_values(a, b, match) for a, b in pairs)

    def _match_values(self, a: Node, b: Node, match: InternalMatch) -> bool:
        if isinstance(a, Node) and isinstance(b, Node):
            return self._match_nodes(a, b, match)
        if isinstance(a, Node):
            # a placeholder stands for a number as well
            if a.op != "placeholder":
                return False
            known = match.nodes_map.get(a, b)
            match.nodes_map[a] = b
            return bool(known == b)
        if isinstance(b, Node):
            return False
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(
                self._match_values(x, y, match) for x, y in zip(a, b, strict=True)
            )
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._match_values(a[k], b[k], match) for k in a)
        if isinstance(a, slice) and isinstance(b, slice):
            parts = ("start", "stop", "step")
            return all(self._match_values(getattr(a, k), getattr(b, k), match) for k in parts)
        return self.ignore_literals or (type(a) is type(b) and a == b)

    # ---------------------------------------------------------------- which matches count

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Whether nothing inside of a match is used outside, but its results."""
        inside = {n for n in nodes_map.values() if isinstance(n, Node)}
        for p, n in nodes_map.items():
            if p.op == "placeholder" or p in self.pattern_returning_nodes or p.op == "output":
                continue
            if any(user not in inside for user in n.users):
                return False
        return True

    def _apart(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            own = {
                n
                for p, n in match.nodes_map.items()
                if isinstance(n, Node) and p.op not in ("placeholder", "output")
            }
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept


def _value_of(node: Node) -> Any:
    """The attribute or module that a node names; None where its graph has no module."""
    at: Any = node.graph.owning_module
    if at is None:
        return None
    for part in str(node.target).split("."):
        at = getattr(at, part, None)
    return at


def _by_name(node: Node) -> dict[str, Any] | None:
    if node.op != "call_function":
        return None
    found = normalize_function(
        node.target,  # type: ignore[arg-type]
        node.args,
        dict(node.kwargs),
        normalize_to_only_use_kwargs=True,
    )
    return None if found is None else found.kwargs
