"""Graphs as pictures, without further libraries.

Takes a graph module.  Gives SVG text (and DOT text for those who have Graphviz).
Keeps true: nodes stand in rows, each below all that it uses.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

from facula.fx.graph_module import GraphModule
from facula.fx.node import Node

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "#b3e5fc", "get_attr": "#ffe0b2", "call_module": "#c8e6c9", "output": "#ffcdd2",
    "call_function": "#e1bee7", "call_method": "#fff9c4",
}  # fmt: skip
_WIDTH, _HEIGHT, _GAP = 190, 44, 34


class Drawing:
    """A picture of a graph."""

    def __init__(self, svg: str, dot: str) -> None:
        self.svg = svg
        self.dot = dot

    def create_svg(self) -> bytes:
        """The picture as SVG."""
        return self.svg.encode()

    def write_svg(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file."""
        Path(path).write_text(self.svg)

    def to_string(self) -> str:
        """The graph in the DOT language."""
        return self.dot

    def _repr_svg_(self) -> str:
        return self.svg


class FxGraphDrawer:
    """Draws a graph module and the graph modules in it."""

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        """Draw.

        Args:
            graph_module: what is drawn.
            name: the title.
            ignore_getattr: leave `get_attr` nodes out.
            skip_node_names_in_args: show only arguments that are no nodes.

        The other arguments are PyTorch's and change nothing.
        """
        self._name = name
        self._ignore_getattr = ignore_getattr
        self._skip_names = skip_node_names_in_args
        self._drawings = {name: self._draw(graph_module, name)}
        for path, module in graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                inner = f"{name}_{path}"
                self._drawings[inner] = self._draw(module, inner)

    def get_dot_graph(self, submod_name: str | None = None) -> Drawing:
        """The picture of the module, or of a module in it."""
        return self.get_all_dot_graphs()[self._name if submod_name is None else submod_name]

    get_main_dot_graph = get_dot_graph

    def get_all_dot_graphs(self) -> dict[str, Drawing]:
        """All pictures by name."""
        return self._drawings

    def get_submod_dot_graph(self, submod_name: str) -> Drawing:
        """The picture of a module inside."""
        return self._drawings[f"{self._name}_{submod_name}"]

    def _draw(self, module: GraphModule, name: str) -> Drawing:
        nodes = [n for n in module.graph.nodes if not (self._ignore_getattr and n.op == "get_attr")]
        row: dict[Node, int] = {}
        for node in nodes:
            row[node] = 1 + max((row[u] for u in node.all_input_nodes if u in row), default=-1)
        columns: dict[int, int] = {}
        place: dict[Node, tuple[int, int]] = {}
        for node in nodes:
            column = columns.get(row[node], 0)
            columns[row[node]] = column + 1
            place[node] = (20 + column * (_WIDTH + 24), 40 + row[node] * (_HEIGHT + _GAP))
        return Drawing(self._svg(name, place), self._dot(name, nodes))

    def _label(self, node: Node) -> list[str]:
        target = node._pretty_print_target(node.target)
        plain: list[Any] = [a for a in node.args if not isinstance(a, Node)]
        shown = f"{target}{tuple(plain)}" if plain and self._skip_names else target
        value: Any = node.meta.get("tensor_meta", node.meta.get("val"))
        shape = f" {list(value.shape)}" if hasattr(value, "shape") else ""
        return [f"{node.name}: {node.op}{shape}", shown[:34]]

    def _svg(self, name: str, place: dict[Node, tuple[int, int]]) -> str:
        width = max((x for x, _ in place.values()), default=0) + _WIDTH + 20
        height = max((y for _, y in place.values()), default=0) + _HEIGHT + 20
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="monospace" font-size="10">',
            f'<text x="20" y="22" font-size="14">{escape(name)}</text>',
        ]
        for node, (x, y) in place.items():
            for used in node.all_input_nodes:
                if used in place:
                    a, b = place[used]
                    parts.append(
                        f'<line x1="{a + _WIDTH // 2}" y1="{b + _HEIGHT}" x2="{x + _WIDTH // 2}" '
                        f'y2="{y}" stroke="#90a4ae"/>'
                    )
        for node, (x, y) in place.items():
            first, second = map(escape, self._label(node))
            parts.append(
                f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
                f'fill="{_COLORS.get(node.op, "#eeeeee")}" stroke="#607d8b"/>'
                f'<text x="{x + 6}" y="{y + 17}">{first}</text>'
                f'<text x="{x + 6}" y="{y + 33}">{second}</text>'
            )
        return "\n".join([*parts, "</svg>"])

    def _dot(self, name: str, nodes: list[Node]) -> str:
        def quoted(text: str) -> str:
            return '"' + text.replace('"', '\\"') + '"'

        lines = [f"digraph {quoted(name)} {{", "  node [shape=box, style=filled];"]
        for node in nodes:
            text = "\\n".join(self._label(node))
            color = _COLORS.get(node.op, "#eeeeee")
            lines.append(f'  {quoted(node.name)} [label={quoted(text)}, fillcolor="{color}"];')
            lines += [f"  {quoted(u.name)} -> {quoted(node.name)};" for u in node.all_input_nodes]
        return "\n".join([*lines, "}"])
