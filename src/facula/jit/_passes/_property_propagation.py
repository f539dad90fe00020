"""Types of a graph's inputs after example values.

Takes a graph and examples. Gives the graph's inputs such types. Keeps true: one example for each input, of its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.ir import Graph
from facula.jit.tensor_types import of_tensor
from facula.ops.table.schemas import types as T

__all__ = ["apply_input_props_using_example"]


def apply_input_props_using_example(graph: Graph, example_input: Sequence[Any]) -> None:
    """Say of a graph's inputs what is true of examples: dtype, sizes, strides, device.

    Args:
        graph: a graph; its first input may be a module, for which there is no example
        example_input: a value for each input; None says nothing

    Raises:
        RuntimeError: the examples are not those of the graph.

    Example:
        >>> graph = facula.jit.script(facula.nn.ReLU()).graph
        >>> apply_input_props_using_example(graph, [facula.ones(2, 3)])
        >>> list(graph.inputs())[1].type().sizes()
        [2, 3]
    """
    inputs = graph.parameters
    if inputs and isinstance(inputs[0].type, T.ClassType) and inputs[0].hint == "self":
        inputs = inputs[1:]
    if len(inputs) != len(example_input):
        fail(RuntimeError, "jit", f"{len(inputs)} examples were required (Number of inputs in graph does not match "
             "number of inputs in the example)", len(example_input), hint="None for an input says nothing")  # fmt: skip
    for i, (value, example) in enumerate(zip(inputs, example_input, strict=True)):
        if example is None:
            continue
        tensor = isinstance(example, core.Tensor)
        if tensor != (value.type.kind == "Tensor"):
            fail(RuntimeError, "jit", f"an example of type {value.type} was required (Input {i} does not match type of "
                 "example)", type(example).__name__, hint="None for an input says nothing")  # fmt: skip
        if tensor:
            value.type = of_tensor(example)
