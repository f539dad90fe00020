"""Capture for export under the newer of PyTorch's names.

Takes: a module or function. Gives: a function of its arguments that gives the captured graph module.
Keeps true: it is `_dynamo.export`, which says what the graph module keeps true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.fx import GraphModule

from .exporting import export

__all__ = ["dynamo_graph_capture_for_export"]


def dynamo_graph_capture_for_export(
    mod: Callable[..., Any], constraints: object = None
) -> Callable[..., GraphModule]:
    """A function of a module's arguments that captures it as one graph module.

    Args:
        mod: a module or function.
        constraints: taken for PyTorch's sake; `_dynamo.export` checks `dynamic_shapes`.

    Example:
        >>> from facula._dynamo.functional_export import dynamo_graph_capture_for_export
        >>> module = dynamo_graph_capture_for_export(facula.nn.ReLU())(facula.ones(2))
        >>> module(-facula.ones(3))
        tensor([0., 0., 0.])
    """

    def inner(*args: Any, **kwargs: Any) -> GraphModule:
        found: GraphModule = export(mod)(*args, **kwargs).graph_module
        return found

    return inner


_dynamo_graph_capture_for_export = dynamo_graph_capture_for_export
