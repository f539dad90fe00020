"""An exported program as the nodes of an ONNX graph.

Takes an `ExportedProgram` and translations of the user's. Gives a `Graph` with inputs and outputs.
Keeps true: what has no translation is made of others first, by the rules of the operator table; what
is left is an error that names the operator, the line of the program, and what to do.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd.transforms.functional import functionalize
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.export.core_forms import composites
from facula.export.signature import ConstantArgument, InputKind, OutputKind
from facula.fx import Node
from facula.lower.decompositions.rules import overload, rule_of
from facula.lower.table import complete, is_copy, operator_of
from facula.onnx import translations  # noqa: F401  (fills the table)
from facula.onnx.custom import Custom, call_custom, custom_for
from facula.onnx.errors import OnnxExporterError, UnsupportedOperatorError
from facula.onnx.graph import Graph, Value
from facula.onnx.pointwise import write_pointwise
from facula.onnx.sizes import Sizes
from facula.onnx.table import REWRITES, TRANSLATIONS, Call
from facula.ops.random.drawing import draws

Tensor = core.Tensor
#: how often operators are made of others before it is said that this leads nowhere
_ROUNDS = 12

#: Python's functions of whole numbers -> ONNX's
_ARITHMETIC: dict[Any, str] = {
    operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.mod: "Mod",
    max: "Max", min: "Min",
}  # fmt: skip


class Translated:
    """A graph with what goes in and comes out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs: list[tuple[Value, Any]] = []
        self.outputs: list[tuple[Value, Any]] = []


def prepared(program: Any, custom: Custom, opset: int) -> Any:
    """The program, without writes, with operators made of others until each has a form."""
    program = program._decomposed(composites())
    for _ in range(_ROUNDS):
        rules: dict[Any, Callable[..., Any]] = {}
        for node in program.graph.nodes:
            found = _rule(node, custom, opset)
            if found is not None:
                found = functionalize(found)  # what it writes to is its own
                rules[node.target] = found
                rules[overload(operator_of(node.target))] = found
        if not rules:
            break
        program = program._decomposed({**composites(), **rules})
    return program


def _rule(node: Node, custom: Custom, opset: int) -> Any:
    """What a call is made of, where it has no form of its own."""
    if node.op != "call_function" or custom_for(custom, node.target, opset) is not None:
        return None
    found = operator_of(node.target)
    if found is None or found.name in TRANSLATIONS:
        return None
    if found.name in REWRITES:
        return REWRITES[found.name]
    if found.definition.kind == "pointwise":
        return None
    return rule_of(found)


def translate(
    program: Any, custom: Custom, opset: int, input_names: Sequence[str] | None = None
) -> Translated:
    """The graph of a program, its inputs named."""
    program = prepared(program, custom, opset)
    return _Translator(program, custom, opset, list(input_names or ())).run()


class _Translator:
    """One translation at work."""

    def __init__(self, program: Any, custom: Custom, opset: int, names: list[str]) -> None:
        self.program = program
        self.custom = custom
        self.names = names
        self.graph = Graph(opset)
        self.sizes = Sizes(self.graph)
        self.made = Translated(self.graph)
        #: what each node of the program is: a value, a number, or a list of these
        self.known: dict[Node, Any] = {}

    def run(self) -> Translated:
        """Translate everything."""
        nodes = list(self.program.graph.nodes)
        specs = iter(self.program.graph_signature.input_specs)
        for node in nodes:
            if node.op == "placeholder":
                self._input(node, next(specs))
        if len(self.names) > len(self.made.inputs):
            fail(OnnxExporterError, "onnx.export", f"at most {len(self.made.inputs)} input_names were "
                 "required", self.names, hint="name the tensors of args and kwargs, in order")  # fmt: skip
        live = self._live(nodes[-1])
        for node in nodes:
            if node.op == "get_attr" and node in live:
                tensor = getattr(self.program.graph_module, str(node.target))
                self.known[node] = self.graph.weight(str(node.target), tensor)
            elif node.op == "call_function" and node in live:
                self.graph.prefix, self.graph.origin = node.name, _origin(node)
                self.known[node] = self._call(node)
        self.graph.prefix = self.graph.origin = ""
        self._outputs(nodes[-1])
        return self.made

    def _input(self, node: Node, spec: Any) -> None:
        fake = node.meta.get("val")
        if isinstance(spec.arg, ConstantArgument):
            self.known[node] = spec.arg.value
            return
        if spec.kind is InputKind.USER_INPUT:
            value = Value(self._input_name(node.name), fake.dtype, fake.shape)
            self.sizes.note(value, fake)
            self.made.inputs.append((value, fake))
            self.known[node] = value
            return
        held = self.program.constants if spec.kind is InputKind.CONSTANT_TENSOR else None
        if held is None or spec.target not in held:
            held = {**self.program.constants, **self.program.state_dict}
        self.known[node] = self.graph.weight(spec.target, held[spec.target])

    def _input_name(self, own: str) -> str:
        """The name of the next input: the user's, else its own."""
        place = len(self.made.inputs)
        plain = own.removesuffix("_1")
        if hasattr(builtins, plain) and plain in self.program.argument_names:
            own = plain  # graphs have no names of Python's functions
        wanted = self.names[place] if place < len(self.names) else own
        found = self.graph.name(wanted)
        if found != wanted and place < len(self.names):
            fail(OnnxExporterError, "onnx.export", "input_names that nothing else has were required",
                 wanted, hint="weights have the names of state_dict()")  # fmt: skip
        return found

    def _outputs(self, node: Node) -> None:
        log = get_logger("export")
        (values,) = node.args
        for value, spec in zip(values, self.program.graph_signature.output_specs, strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT:
                log.warning(
                    "ONNX keeps nothing between runs: what the model writes to %s is left out",
                    spec.target,
                )
                continue
            given = self.known[value] if isinstance(value, Node) else value
            if given is None:
                continue
            fake = value.meta.get("val") if isinstance(value, Node) else None
            name = value.name if isinstance(value, Node) else "output"
            self.made.outputs.append((self._output(given, name), fake))

    def _output(self, given: Value, wanted: str) -> Value:
        """A value that only this output has the name of."""
        self.graph.prefix = wanted
        value = self.graph.value(given)
        taken = {v.name for v, _ in (*self.made.inputs, *self.made.outputs)}
        if value.name in taken or value.name in self.graph.weights or not isinstance(given, Value):
            value = self.graph.op("Identity", value)
        return value

    def _live(self, end: Node) -> set[Node]:
        """The nodes that the user's outputs need."""
        specs = self.program.graph_signature.output_specs
        pending = [
            value
            for value, spec in zip(end.args[0], specs, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT and isinstance(value, Node)
        ]
        found: set[Node] = set()
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending.extend(node.all_input_nodes)
        return found

    # ---------------------------------------------------------------- calls

    def _given(self, x: Any) -> Any:
        """An argument: nodes as what they are, symbols as values."""
        if isinstance(x, Node):
            return self.known[x]
        if isinstance(x, (tuple, list)):
            return [self._given(item) for item in x]
        if isinstance(x, slice):
            return slice(self._given(x.start), self._given(x.stop), self._given(x.step))
        return self.sizes.number(x)

    def _call(self, node: Node) -> Any:
        try:
            return self._translated(node)
        except UnsupportedOperatorError as error:
            if _origin(node) and _origin(node) not in str(error):
                error.args = (f"{error}\nin the model: {_origin(node)}",)
            raise

    def _translated(self, node: Node) -> Any:
        metas = _metas(node)
        if isinstance(node.meta.get("val"), int):  # a number that follows from sizes
            return self.sizes.number(node.meta["val"])
        written = custom_for(self.custom, node.target, self.graph.opset)
        found = operator_of(node.target)
        if written is not None:
            arguments = self._arguments(node, found)
            return self._named(call_custom(written, self.graph, arguments, len(metas)), metas, node)
        if node.target is operator.getitem:
            values, place = self._given(node.args[0]), node.args[1]
            if place >= len(values):
                _refuse(node, f"result {place} of {node.args[0]}")
            return values[place]
        if found is None:
            return self._other(node, metas)
        operands = [meta for n in node.all_input_nodes for meta in _metas(n)]
        if any(meta.dtype.is_complex for meta in (*metas, *operands)):
            _refuse(node, f"{found.name} of complex numbers")
        return self._named(self._written(node, found, metas), metas, node)

    def _written(self, node: Node, found: core.Op, metas: list[Any]) -> Any:
        """An operator of the table: by its translation, else by its expression."""
        given = self._arguments(node, found)
        if found.name in TRANSLATIONS:
            call = Call(self.graph, self.sizes, found.name, metas)
            results = TRANSLATIONS[found.name](call, *given)
            if results is not NotImplemented:
                return results
        if found.definition.kind != "pointwise":
            _refuse(node, found.name)
        shown = [_shown(x) for x in complete(found.definition.schema, node.args, node.kwargs)]
        results = write_pointwise(self.graph, found, shown, given, metas)
        return results if len(results) > 1 else results[0]

    def _arguments(self, node: Node, found: core.Op) -> list[Any]:
        """The arguments in schema order."""
        schema = getattr(getattr(found, "definition", None), "schema", None)
        if schema is None:
            return [self._given(x) for x in (*node.args, *node.kwargs.values())]
        args = list(node.args)
        last = next((k for k, p in enumerate(schema.parameters) if p.variadic), None)
        if last is not None and len(args) > last and not isinstance(args[last], (tuple, list)):
            args[last:] = [tuple(args[last:])]
        return [self._given(x) for x in complete(schema, args, node.kwargs)]

    def _named(self, results: Any, metas: list[Any], node: Node) -> Any:
        """Results with what is known of them, named as the node where it is one."""
        several = isinstance(results, (tuple, list))
        values = list(results) if several else [results]
        made = []
        for k, value in enumerate(values):
            if isinstance(value, Value) and k < len(metas):
                value = Value(value.name, metas[k].dtype, metas[k].shape)
            made.append(value)
        return made if several else made[0]

    def _other(self, node: Node, metas: list[Any]) -> Any:
        """What is no operator of the table: arithmetic on sizes, and methods that copy."""
        target, name = node.target, str(node.target)
        if is_copy(getattr(target, "_op", target)) or is_copy(target) or metas:
            name = getattr(target, "_opname", "") or name
            name = name.removeprefix("aten.").split(".")[0]
            written = TRANSLATIONS.get(name)
            if written is not None:
                call = Call(self.graph, self.sizes, name, metas)
                args = [self._given(x) for x in node.args]
                kwargs = {k: self._given(x) for k, x in node.kwargs.items()}
                return self._named(written(call, *args, **kwargs), metas, node)
        args = [self._given(x) for x in node.args]
        if not any(isinstance(a, Value) for a in args) and callable(target) and not metas:
            return target(*args)
        if target in _ARITHMETIC and len(args) == 2:
            return self.sizes.arithmetic(_ARITHMETIC[target], *args)
        if target is operator.floordiv:
            return self.sizes.floordiv(*args)
        if target in (operator.truediv, math.trunc, math.floor, int, float, operator.neg):
            return self._quotient(target, args)
        return _refuse(node, name)

    def _quotient(self, target: object, args: list[Any]) -> Any:
        """Arithmetic on sizes that leaves the whole numbers."""
        first = self.graph.cast(args[0], core.float32) if isinstance(args[0], Value) else args[0]
        if target is operator.truediv:
            divisor = args[1]
            if isinstance(divisor, Value):
                divisor = self.graph.cast(divisor, core.float32)
            first = first if isinstance(first, Value) else self.graph.value(first, core.float32)
            return self.graph.op("Div", first, divisor)
        if target is operator.neg:
            return self.graph.op("Neg", args[0])
        return (
            first if target is float else self.graph.cast(self.graph.op("Floor", first), core.int64)
        )


def _shown(x: object) -> Any:
    if isinstance(x, Node):
        return x.meta.get("val")
    return [_shown(item) for item in x] if isinstance(x, (tuple, list)) else x


def _metas(node: Node) -> list[Any]:
    """The results of a node without their elements."""
    value = node.meta.get("val")
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [v for v in value if isinstance(v, Tensor)]
    return []


def _origin(node: Node) -> str:
    """The line of the user's program, as far as it is known."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    return " ".join([line for line in lines if line][-2:])


def _refuse(node: Node, name: str) -> Any:
    at = f" (called by {_origin(node)})" if _origin(node) else ""
    found = operator_of(node.target)
    if found is not None and draws(found.definition):
        hint = "export the model in eval(), where dropout and its like draw nothing"
    else:
        space, _, last = name.rpartition("::")
        key = f"facula.ops.{space or 'aten'}.{last}.default"
        hint = (
            f"write it by other operators, or pass custom_translation_table={{{key}: f}}, "
            "f(graph, *arguments) giving graph.op(...)"
        )
    fail(UnsupportedOperatorError, "onnx.export",
         f"operators that have a form in ONNX were required{at}", name, hint=hint)  # fmt: skip


def check_opset(opset: int, least: int, most: int) -> None:
    """Refuse versions of the operators that translations were not written for."""
    if not least <= opset <= most:
        fail(
            OnnxExporterError,
            "onnx.export",
            f"an opset_version from {least} to {most} was required",
            opset,
            hint="onnx.version_converter changes a model to other versions",
        )
