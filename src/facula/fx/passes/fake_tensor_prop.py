"""Fake values by running: `meta["val"]` of every node for example inputs.

Takes a graph module and inputs.  Gives a fake tensor in `meta["val"]` of each node.
Keeps true: nothing is computed; parameters of the module count as fake tensors.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.nested import tensors_in
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Interpreter
from facula.fx.node import Node

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors and keeps what each node gives."""

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        """Prepare to run under `mode`, default a new one."""
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode
        self._mode.allow_non_fake_inputs = True

    def run_node(self, n: Node) -> Any:
        """The fake value of a node."""
        result = super().run_node(n)
        if tensors_in(result) or isinstance(result, int):
            n.meta["val"] = result
        return result

    def propagate(self, *args: object) -> Any:
        """Run for real or fake inputs."""
        mode = self._mode
        return self.propagate_dont_convert_inputs(
            *[mode.from_tensor(a) if isinstance(a, core.Tensor) else a for a in args]
        )

    def propagate_dont_convert_inputs(self, *args: object) -> Any:
        """Run for fake inputs."""
        with self._mode:
            return super().run(*args)
