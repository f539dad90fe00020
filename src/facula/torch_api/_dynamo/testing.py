"""Backends that count and keep what the compiler captures, as tests and measurements of programs use them.

Takes: captured graphs. Gives: numbers of graphs and of their operators, or the graphs themselves.
Keeps true: the graph runs as it is, so that results are those of eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.compiler.backends import lookup_backend
from facula.lower.aot.api import aot_module_simplified

from .utils import same

__all__ = [
    "AotEagerAndRecordGraphs", "CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs",
    "rand_strided", "same",
]  # fmt: skip


def _operators(graph_module: Any) -> int:
    """How many nodes of a graph call something."""
    return sum("call" in node.op for node in graph_module.graph.nodes)


class CompileCounter:
    """A backend that counts graphs (`frame_count`) and operators in them (`op_count`)."""

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: Any, example_inputs: Any) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += _operators(gm)
        forward: Callable[..., Any] = gm.forward
        return forward

    def clear(self) -> None:
        """Count from 0."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same in front of another backend; the graphs are kept in `graphs`."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend

    def __call__(self, gm: Any, example_inputs: Any) -> Callable[..., Any]:
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        compiled: Callable[..., Any] = lookup_backend(self.backend)(gm, example_inputs)
        return compiled

    def clear(self) -> None:
        """Count from 0, and let the graphs go."""
        super().clear()
        self.graphs: list[Any] = []


class EagerAndRecordGraphs:
    """A backend that keeps graphs (`graphs`) and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Callable[..., Any]:
        self.graphs.append(gm)
        forward: Callable[..., Any] = gm.forward
        return forward


class AotEagerAndRecordGraphs:
    """A backend that keeps captured graphs, and those of forward and backward that become of them."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.fw_graphs: list[Any] = []
        self.bw_graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Callable[..., Any]:
        self.graphs.append(gm)

        def keeping(into: list[Any]) -> Callable[..., Any]:
            def compiler(graph: Any, _: Any) -> Any:
                into.append(graph)
                return graph.forward

            return compiler

        compiled: Callable[..., Any] = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=keeping(self.fw_graphs),
            bw_compiler=keeping(self.bw_graphs),
        )
        return compiled


def rand_strided(
    size: Any,
    stride: Any,
    dtype: core.dtype = core.float32,
    device: Any = "cpu",
    extra_size: int = 0,
) -> Any:
    """A tensor of chance of these sizes and strides; whole numbers where the dtype has only these."""
    needed = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + extra_size
    if 0 in size:
        needed = extra_size
    if dtype.is_floating_point or dtype.is_complex:
        flat = facula.randn(needed, dtype=dtype, device=device)
    else:
        flat = facula.randint(0, 2, (needed,), dtype=dtype, device=device)
    return facula.as_strided(flat, size, stride)
