"""What a pass makes and takes away in a graph, and its graph before and after in files.

Takes: a graph module and the name of a pass. Gives: `GraphTransformObserver`, a block around the pass.
Keeps true: behind the block nothing is observed; without a folder nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.graph_drawer import FxGraphDrawer

__all__ = ["GraphTransformObserver"]


class GraphTransformObserver:
    """Observes a pass over a graph.

    Args:
        gm: the module.
        passname: the name of the pass.
        subsystem: who runs it; is kept.
        log_url: a folder for drawings of the graph before and after, if the pass changed it.

    >>> from facula.fx.passes.graph_transform_observer import GraphTransformObserver
    >>> traced = facula.fx.symbolic_trace(lambda x: (x.sin(), x.cos())[1])
    >>> with GraphTransformObserver(traced, "dead code") as seen:
    ...     _ = traced.graph.eliminate_dead_code()
    >>> seen.erased_nodes
    {'sin'}
    """

    __pass_count = 0

    def __init__(
        self,
        gm: GraphModule,
        passname: str,
        subsystem: str | None = None,
        log_url: str | None = None,
    ) -> None:
        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url = log_url
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []
        GraphTransformObserver.__pass_count += 1
        self._before = None if log_url is None else self._drawing("input_graph")

    @classmethod
    def get_current_pass_count(cls) -> int:
        """How many passes were observed in this process."""
        return cls.__pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], Any]) -> Any:
        """What a pass over the module gives, observed.

        Args:
            pass_fn: the pass.
        """
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], Any]) -> Any:
        """What a pass over the graph gives, observed.

        Args:
            pass_fn: the pass.
        """
        with self:
            return pass_fn(self.gm.graph)

    def __enter__(self) -> GraphTransformObserver:
        self._hooks = (
            self.get_node_creation_hook(),
            self.get_node_erase_hook(),
            self.get_deepcopy_hook(),
        )
        self.gm._register_create_node_hook(self._hooks[0])
        self.gm._register_erase_node_hook(self._hooks[1])
        self.gm._register_deepcopy_hook(self._hooks[2])
        self.erased_nodes.clear()
        self.created_nodes.clear()
        self.name_to_node = {node.name: node for node in self.gm.graph.nodes}
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        for gm in (self.gm, *self.copied_gms):
            gm._unregister_create_node_hook(self._hooks[0])
            gm._unregister_erase_node_hook(self._hooks[1])
            gm._unregister_deepcopy_hook(self._hooks[2])
        if (
            self._before is None
            or kind is not None
            or not (self.created_nodes or self.erased_nodes)
        ):
            return
        assert self.log_url is not None
        for which, drawing in (
            ("input_graph", self._before),
            ("output_graph", self._drawing("output_graph")),
        ):
            number = GraphTransformObserver.__pass_count
            path = os.path.join(self.log_url, f"pass_{number}_{self.passname}_{which}.dot")
            with open(path, "w") as file:
                file.write(drawing)

    def _drawing(self, name: str) -> str:
        """The graph as it is, in the language of `dot`."""
        return str(FxGraphDrawer(self.gm, name, ignore_getattr=True).get_dot_graph().to_string())

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """What is called with every new node."""

        def created(node: Node) -> None:
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node

        return created

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """What is called with every node that goes."""

        def erased(node: Node) -> None:
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return erased

    def get_deepcopy_hook(self) -> Callable[[GraphModule], None]:
        """What is called with every copy of the module, which is observed as well."""

        def copied(gm: GraphModule) -> None:
            self.copied_gms.append(gm)

        return copied
