"""A stop of the debugger in the code of a graph.

Takes: a graph module. Gives: the same, whose `forward` begins with a break point.
Keeps true: what it computes.
"""

from __future__ import annotations

from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Puts a break point of `pdb` in front of what a module does.

    Args:
        gm: the module, which is changed.

    >>> from facula.fx.experimental.debug import set_trace
    >>> traced = set_trace(facula.fx.symbolic_trace(lambda x: x + 1))
    >>> "pdb.set_trace()" in traced.code
    True
    """

    def with_stop(body: list[str]) -> list[str]:
        return ["import pdb; pdb.set_trace()\n", *body]

    graph: Graph = gm.graph
    with graph.on_generate_code(
        lambda before: lambda body: with_stop(before(body) if before else body)
    ):
        gm.recompile()
    return gm
