"""Shapes by running: what each node of a graph gives for example inputs.

Takes a graph module and inputs.  Gives `meta["tensor_meta"]` and `meta["type"]` of every node.
Keeps true: with a fake mode nothing is computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail, message
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Interpreter
from facula.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a tensor looks like."""

    shape: core.Size
    dtype: core.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(
    result: core.Tensor, include_contiguity: bool = True
) -> TensorMetadata:
    """What a tensor looks like, its memory format if that has a name."""
    found = None
    if include_contiguity:
        formats = {core.contiguous_format: None}
        if result.dim() == 4:
            formats[core.channels_last] = None
        if result.dim() == 5:
            formats[core.channels_last_3d] = None
        found = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes what each node gives."""

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        """Prepare; with a `fake_mode` the graph runs without elements."""
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted in its `meta`."""
        try:
            if self.fake_mode is not None:
                with self.fake_mode:
                    result = super().run_node(n)
            else:
                result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                message(
                    "ShapeProp",
                    (
                        f"a graph that runs was required: ShapeProp error for: node={n.format_node()} "
                        f"with meta={n.meta}: {error}"
                    ),
                    hint="run the module itself on these inputs to see the error in its place",
                )
            ) from error
        found = False

        def note(value: object) -> Any:
            nonlocal found
            if isinstance(value, core.Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        if self.fake_mode is not None:
            n.meta["val"] = result
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: object) -> Any:
        """Run for these inputs; gives the result."""
        if self.fake_mode is not None:
            mode = self.fake_mode
            args = tuple(mode.from_tensor(a) if isinstance(a, core.Tensor) else a for a in args)
        return super().run(*args)


def check_propagated(gm: GraphModule) -> None:
    """Raise where a node that gives a tensor has no meta data.

    Raises:
        RuntimeError: `ShapeProp(gm).propagate(...)` has not run.
    """
    for node in gm.graph.nodes:
        if node.op != "output" and "type" not in node.meta:
            fail(
                RuntimeError,
                "ShapeProp",
                "shapes of every node were required",
                got=f"none of {node}",
                hint="ShapeProp(module).propagate(*inputs) records them",
            )
