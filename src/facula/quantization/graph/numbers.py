"""Which nodes of a graph give no tensors.

Takes: a traced model and examples of its inputs. Gives: the nodes whose values are sizes, and what is computed of
sizes. Keeps true: the model runs without elements; what cannot run so is known by what the nodes call.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.interpreter import Interpreter
from facula.fx.shape_env import ShapeEnv


def _may_be_number(value: Any) -> bool:
    """Whether a node may give a number: a size, or what is computed of such."""
    return hasattr(value, "op") and (
        value.op == "call_method"
        or value.op == "call_function"
        and (value.target is getattr or getattr(value.target, "__module__", "") == "_operator")
    )


class _Kinds(Interpreter):
    """Runs a graph without elements and notes which nodes give no tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.plain: set[Any] = set()

    def run_node(self, n: Any) -> Any:
        """The value of a node."""
        value = super().run_node(n)
        if not isinstance(value, core.Tensor) or not value.is_floating_point():
            self.plain.add(n)
        return value


def _sized(model: Any) -> set[Any]:
    """The nodes that ask for sizes, and what Python's operators make of such."""
    found: set[Any] = set()
    for node in model.graph.nodes:
        asks = node.op == "call_method" and node.target in ("size", "dim", "numel")
        if node.op == "call_function" and node.target is getattr:
            asks = node.args[1] in ("shape", "ndim")
        elif node.op == "call_function" and getattr(node.target, "__module__", "") == "_operator":
            inputs = node.all_input_nodes
            asks = bool(inputs) and all(n in found for n in inputs)
        if asks:
            found.add(node)
    return found


def numbers(model: Any, example_inputs: Any) -> set[Any]:
    """The nodes that give numbers and other values which are no tensors: nothing of them is observed.

    The model runs without elements, and only where something may give a number.
    """
    known = _sized(model)
    nodes = model.graph.nodes
    if example_inputs is None or not any(_may_be_number(n) and n not in known for n in nodes):
        return known
    kinds = _Kinds(model)
    given = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    try:
        with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True):
            kinds.run(*given)
    except Exception:
        # a program that asks for elements: what is known until there counts
        return kinds.plain | known
    return kinds.plain | known
