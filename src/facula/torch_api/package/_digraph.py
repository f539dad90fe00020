"""Directed graphs of modules: who needs whom.

Takes nodes with attributes, and edges. Gives successors, predecessors, closures, the paths between two nodes, and
the text that Graphviz draws. Keeps true: nodes and edges stay in the order in which they were added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

from facula.core.errors import fail

__all__ = ["DiGraph"]


class DiGraph:
    """A directed graph whose nodes have attributes."""

    def __init__(self) -> None:
        self._nodes: dict[Any, dict[str, Any]] = {}
        self._next: dict[Any, dict[Any, None]] = {}
        self._before: dict[Any, dict[Any, None]] = {}

    def add_node(self, n: object, **attributes: object) -> None:
        """Add a node, or attributes to one that is there."""
        if n not in self._nodes:
            self._nodes[n], self._next[n], self._before[n] = {}, {}, {}
        self._nodes[n].update(attributes)

    def add_edge(self, u: object, v: object) -> None:
        """Add an edge from u to v, and the nodes where they are not there."""
        self.add_node(u)
        self.add_node(v)
        self._next[u][v] = self._before[v][u] = None

    def _known(self, n: str) -> Any:
        if n not in self:
            fail(
                ValueError, "DiGraph", "a node of the graph was required", n, "add_node(n) adds it"
            )
        return n

    def successors(self, n: Any) -> Iterator[Any]:
        """The nodes to which edges lead."""
        return iter(self._next[self._known(n)])

    def predecessors(self, n: Any) -> Iterator[Any]:
        """The nodes from which edges come."""
        return iter(self._before[self._known(n)])

    @property
    def edges(self) -> Iterator[tuple[Any, Any]]:
        """All edges, as pairs."""
        return ((u, v) for u, found in self._next.items() for v in found)

    @property
    def nodes(self) -> dict[Any, dict[str, Any]]:
        """The attributes of each node."""
        return self._nodes

    def __iter__(self) -> Iterator[Any]:
        return iter(self._nodes)

    def __contains__(self, n: object) -> bool:
        return isinstance(n, Hashable) and n in self._nodes

    def forward_transitive_closure(self, src: Any) -> set[Any]:
        """What can be reached from a node, and the node."""
        return _closure(self._known(src), self._next)

    def backward_transitive_closure(self, src: Any) -> set[Any]:
        """What a node can be reached from, and the node."""
        return _closure(self._known(src), self._before)

    def all_paths(self, src: object, dst: object) -> str:
        """The edges on the ways from one node to another, as Graphviz's text."""
        inside = self.forward_transitive_closure(src) & self.backward_transitive_closure(dst)
        ways = DiGraph()
        for u, v in self.edges:
            if u in inside and v in inside:
                ways.add_edge(u, v)
        return ways.to_dot()

    def first_path(self, dst: object) -> list[Any]:
        """A way to a node from one that nobody needs."""
        way = [dst]
        while found := [n for n in self._before[way[0]] if n not in way]:
            way.insert(0, found[0])
        return way

    def to_dot(self) -> str:
        """The text that Graphviz draws."""
        edges = "\n".join(f'"{u}" -> "{v}";' for u, v in self.edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"


def _closure(start: object, edges: dict[Any, dict[Any, None]]) -> set[Any]:
    found, waiting = {start}, deque((start,))
    while waiting:
        for n in edges[waiting.popleft()]:
            if n not in found:
                found.add(n)
                waiting.append(n)
    return found
