"""Compiling ahead of time under PyTorch's name: see `facula.lower.aot`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import nn
from facula.compiler.pipeline import optimise
from facula.lower.aot.api import print_compile
from facula.lower.aot.drawing import draw_graph, draw_graph_compile

from .._decomp import get_decompositions
from .._functorch.aot_autograd import (
    aot_function,
    aot_module,
    aot_module_simplified,
    compiled_function,
    compiled_module,
    default_partition,
    make_boxed_compiler,
    make_boxed_func,
    min_cut_rematerialization_partition,
    nop,
)

__all__ = [
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
    "default_partition",
    "draw_graph",
    "draw_graph_compile",
    "get_decompositions",
    "make_boxed_compiler",
    "make_boxed_func",
    "memory_efficient_fusion",
    "min_cut_rematerialization_partition",
    "nop",
    "print_compile",
]


def memory_efficient_fusion(fn: Callable[..., Any] | nn.Module, **kwargs: Any) -> Any:
    """`fn` by graphs that keep as little as can be for the backward."""
    settings = {
        "fw_compiler": nop,
        "bw_compiler": nop,
        "partition_fn": min_cut_rematerialization_partition,
        "passes": optimise,
        **kwargs,
    }
    if isinstance(fn, nn.Module):
        return aot_module(fn, **settings)
    return aot_function(fn, **settings)
