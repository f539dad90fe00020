"""A translated graph as an ONNX model.

Takes what `translate` gave, and names for inputs, outputs and sizes. Gives the message `ModelProto`
without the elements of weights.
Keeps true: nodes that no output needs are left out; the same program gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.symbolic_run import sizes_of
from facula.onnx.errors import OnnxExporterError, onnx_package
from facula.onnx.graph import Value, element_type
from facula.onnx.translate import Translated
from facula.torch_api.version import __version__

PRODUCER = "facula"
#: the version of the file format; newer operators may ask for a newer one
_IR_VERSION = 10
#: the version of operators from which on that format is written
_FIRST_OF_FORMAT = 17
_IR_OF_FUNCTIONS = 8


def needed(nodes: Sequence[Any], outputs: Iterable[str]) -> list[Any]:
    """The nodes that outputs need; last results that nobody reads are left out."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not any(name in wanted for name in node.output):
            continue
        least = _least_results(node)
        while len(node.output) > least and node.output[-1] not in wanted:
            del node.output[-1]
        wanted.update(node.input)
        kept.append(node)
    return kept[::-1]


def _least_results(node: Any) -> int:
    """How many results a node has to name."""
    defs = onnx_package("onnx.defs")
    if node.domain or node.op_type == "Split" or not defs.has(node.op_type):
        return len(node.output)
    return max(1, defs.get_schema(node.op_type).min_output)


def rename(nodes: Sequence[Any], names: Mapping[str, str]) -> None:
    """Give values other names."""
    for node in nodes:
        for field in (node.input, node.output):
            for i, name in enumerate(field):
                if name in names:
                    field[i] = names[name]


def described(name: str, dtype: Any, fake: object, dims: Mapping[str, str], own: Any = None) -> Any:
    """An input or output: its name, dtype and sizes, those that may change by name."""
    sizes: list[Any] | None = None
    if fake is not None:
        sizes = []
        for dim, expr in enumerate(sizes_of(fake)):
            named = (own or {}).get(dim)
            text = str(expr)
            for symbol in sorted(expr.free_symbols, key=len, reverse=True):
                text = text.replace(symbol, dims.get(symbol, symbol))
            sizes.append(expr.constant if expr.constant is not None else named or text)
    make = onnx_package("onnx.helper").make_tensor_value_info
    return make(name, element_type(dtype), sizes if sizes is not None else [])


def output_names(translated: Translated, wanted: Sequence[str] | None) -> dict[str, str]:
    """The names of outputs: those asked for, else those of the program's results."""
    given = list(wanted or ())
    values = [value for value, _ in translated.outputs]
    if len(given) > len(values):
        fail(OnnxExporterError, "onnx.export", f"at most {len(values)} output_names were required",
             given, hint="name the tensors that the model returns, nested ones in order")  # fmt: skip
    taken = {v.name for v, _ in translated.inputs} | set(translated.graph.weights)
    names: dict[str, str] = {}
    for k, value in enumerate(values):
        plain = value.name.partition("/")[0]
        name, count = given[k] if k < len(given) else plain, 0
        while name in taken:
            if k < len(given):
                fail(OnnxExporterError, "onnx.export", "output_names that nothing else has were "
                     "required", name, hint="choose another name")  # fmt: skip
            count += 1
            name = f"{plain}_{count}"
        taken.add(name)
        names[value.name] = name
    return names


def build(
    translated: Translated,
    opset: int,
    wanted_outputs: Sequence[str] | None,
    dims: Mapping[str, str],
    output_dims: Mapping[str, Mapping[int, str]],
) -> Any:
    """The model, with weights by name only."""
    helper, graph = onnx_package("onnx.helper"), translated.graph
    nodes = needed(graph.nodes, [v.name for v, _ in translated.outputs])
    names = output_names(translated, wanted_outputs)
    # what has an output's new name already is moved out of the way
    held = {name for node in nodes for name in node.output} - set(names)
    moved = {name: graph.name(f"{name}_value") for name in held & set(names.values())}
    rename(nodes, moved)
    rename(nodes, names)
    inputs = [described(v.name, v.dtype, fake, dims) for v, fake in translated.inputs]
    outputs = [
        described(names[v.name], _dtype(v, fake), fake, dims, output_dims.get(names[v.name]))
        for v, fake in translated.outputs
    ]
    read = {name for node in nodes for name in node.input}
    for name in [name for name in graph.weights if name not in read]:
        del graph.weights[name]
    made = helper.make_graph(nodes, "main_graph", inputs, outputs)
    versions = {"": opset, **dict(sorted(graph.domains.items()))}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    model = helper.make_model(
        made, opset_imports=imports, producer_name=PRODUCER, producer_version=__version__,
        functions=[graph.functions[key] for key in sorted(graph.functions)],
    )  # fmt: skip
    least = helper.find_min_ir_version_for(imports[:1])
    if opset < _FIRST_OF_FORMAT:  # who asks for an older version may have an older runtime
        model.ir_version = max(least, _IR_OF_FUNCTIONS) if graph.functions else least
    else:
        model.ir_version = max(_IR_VERSION, least)
    return model


def _dtype(value: Value, fake: core.Tensor) -> Any:
    return value.dtype if fake is None or not hasattr(fake, "dtype") else fake.dtype
