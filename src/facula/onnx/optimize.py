"""Simpler graphs with the same results.

Takes a model without the elements of its weights. Changes it in place.
Keeps true: every node's value is what it was: constants are computed by ONNX's own evaluator, equal
nodes are joined, nodes that change nothing and those that nobody reads are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.onnx.errors import onnx_package
from facula.onnx.model import needed

if TYPE_CHECKING:
    from facula.nn import Module


#: constants that are computed here have at most this many elements
_MOST = 4096


def optimize(model: Module) -> None:
    """Make a model's graph simpler, in place."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    state = _Pass(model, outputs)
    for node in list(graph.node):
        state.visit(node)
    kept = needed(state.nodes, outputs)
    del graph.node[:]
    graph.node.extend(kept)


class _Pass:
    """One walk over the nodes in order."""

    def __init__(self, model: Module, outputs: set[str]) -> None:
        self.versions = list(model.opset_import)
        self.outputs = outputs
        self.nodes: list[Any] = []
        #: a value -> the one that stands for it
        self.same: dict[str, str] = {}
        #: constants by name
        self.known: dict[str, Any] = {}
        #: what a node computes -> its results
        self.seen: dict[bytes, list[str]] = {}

    def visit(self, node: Any) -> None:
        """Take a node over, or what stands for it."""
        for i, name in enumerate(node.input):
            node.input[i] = self.same.get(name, name)
        if self._joined(node):
            return
        if node.op_type == "Constant" and not node.domain:
            numpy_helper = onnx_package("onnx.numpy_helper")
            self.known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif self._computed(node):
            return
        self.nodes.append(node)

    def _joined(self, node: Any) -> bool:
        """Whether an earlier node, or the operand itself, gives the same."""
        if any(name in self.outputs for name in node.output):
            return False
        if node.op_type == "Identity" and not node.domain:
            self.same[node.output[0]] = node.input[0]
            return True
        key = _meaning(node)
        earlier = self.seen.get(key)
        if earlier is None or len(earlier) < len(node.output):
            self.seen[key] = list(node.output)
            return False
        self.same.update(zip(node.output, earlier, strict=False))
        return True

    def _computed(self, node: Any) -> bool:
        """Whether the node's value is known, and a constant takes its place."""
        names = [name for name in node.input if name]
        fits = not node.domain and len(node.output) == 1 and node.output[0] not in self.outputs
        if not (fits and names and all(name in self.known for name in names)):
            return False
        if sum(self.known[name].size for name in names) > _MOST:
            return False
        value = self._value(node, names)
        if value is None or value.size > _MOST:
            return False
        helper, numpy_helper = onnx_package("onnx.helper"), onnx_package("onnx.numpy_helper")
        name = node.output[0]
        self.known[name] = value
        made = helper.make_node("Constant", [], [name], name=node.name,
                                value=numpy_helper.from_array(value))  # fmt: skip
        made.doc_string = node.doc_string
        self.nodes.append(made)
        return True

    def _value(self, node: Any, names: list[str]) -> Any:
        """The value of a node of constants; None where the evaluator does not have it."""
        helper, numpy = onnx_package("onnx.helper"), onnx_package("numpy")
        inputs = []
        for name in dict.fromkeys(names):
            element = helper.np_dtype_to_tensor_dtype(self.known[name].dtype)
            inputs.append(
                helper.make_value_info(name, helper.make_tensor_type_proto(element, None))
            )
        outputs = [helper.make_value_info(node.output[0], onnx_package().TypeProto())]
        graph = helper.make_graph([node], "constant", inputs, outputs)
        model = helper.make_model(graph, opset_imports=self.versions)
        evaluator = onnx_package("onnx.reference").ReferenceEvaluator
        try:
            (found,) = evaluator(model).run(None, {name: self.known[name] for name in names})
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            return None  # the node stays: runtimes have it
        return numpy.asarray(found)


def _meaning(node: object) -> bytes:
    """What a node computes, whatever it and its results are called."""
    plain = onnx_package().NodeProto()
    plain.CopyFrom(node)
    plain.name = plain.doc_string = ""
    del plain.output[:]
    return plain.SerializeToString(deterministic=True)
