"""Pictures of traced graphs.

Takes a graph module and a file name.  Gives an SVG picture, or the graph in the DOT language.
Keeps true: the graph is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from facula.core.errors import fail
from facula.fx import GraphModule
from facula.fx.passes.graph_drawer import FxGraphDrawer


def draw_graph(
    traced: GraphModule,
    fname: str | os.PathLike[str],
    figname: str = "fx_graph",
    clear_meta: bool = True,
    prog: Any = None,
    parse_stack_trace: bool = False,
    dot_graph_shape: str | None = None,
) -> Any:
    """Write a picture of a graph to a file: SVG, unless the name ends in `.dot`.

    Args:
        figname: the title.
        clear_meta, prog: kept for PyTorch's API; they change nothing here.
        parse_stack_trace, dot_graph_shape: as of `FxGraphDrawer`.

    Raises:
        ValueError: the name ends in something else than `.svg` or `.dot`.
    """
    path = Path(fname)
    if path.suffix not in ("", ".svg", ".dot"):
        fail(
            ValueError,
            "draw_graph",
            "a file name that ends in .svg or .dot was required",
            got=repr(path.name),
            hint="for example 'graph.svg'",
        )
    drawer = FxGraphDrawer(
        traced, figname, parse_stack_trace=parse_stack_trace, dot_graph_shape=dot_graph_shape
    )
    drawing = drawer.get_dot_graph()
    if path.suffix == ".dot":
        path.write_text(drawing.to_string())
    else:
        drawing.write_svg(path if path.suffix else path.with_suffix(".svg"))
    return drawing


def draw_graph_compile(name: str | os.PathLike[str]) -> Callable[[GraphModule, Any], GraphModule]:
    """The compiler that draws graphs to a file and runs them as they are."""

    def compiler(fx_g: GraphModule, _: object) -> GraphModule:
        draw_graph(fx_g, name)
        return fx_g

    return compiler
