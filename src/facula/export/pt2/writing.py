"""Exported programs as the records of PyTorch's files.

Takes: an exported program. Gives: `GraphModuleSerializer` and `ExportedProgramSerializer`, which write its records.
Keeps true: what a node gives is named by the nodes that read it; the records hold no tensor's elements.
"""

from __future__ import annotations

import io
import json
import operator
from dataclasses import dataclass, field
from typing import Any

from facula import core, serialization
from facula.export import signature as kinds
from facula.export.pt2 import codes
from facula.export.pt2 import records as R
from facula.export.pt2.arguments import Arguments
from facula.export.pt2.expressions import condition_written, written
from facula.export.pt2.forms import in_forms_of_files
from facula.export.pt2.guards import guards_written
from facula.export.pt2.plain import SerializeError, refuse
from facula.export.ranges import UNBOUNDED
from facula.fx import GraphModule, Node
from facula.fx import _pytree as pytree
from facula.fx.symbolic_run import sizes_of
from facula.fx.symbols import SymBool, SymFloat, SymInt, number
from facula.fx.tree_files import named_tuples_in, treespec_dumps
from facula.ops.table.overloads import METHOD_ARGUMENTS, METHOD_NAMES, OpOverload

__all__ = ["ExportedProgramSerializer", "GraphModuleSerializer", "serialize_torch_artifact"]

Tensor = core.Tensor
Argument = R.Argument
SEPARATOR = ";"


@dataclass
class _State:
    """What is known of one graph while it is written."""

    inputs: list[R.Argument] = field(default_factory=list)
    outputs: list[R.Argument] = field(default_factory=list)
    nodes: list[R.Node] = field(default_factory=list)
    tensor_values: dict[str, R.TensorMeta] = field(default_factory=dict)
    sym_int_values: dict[str, R.SymInt] = field(default_factory=dict)
    sym_bool_values: dict[str, R.SymBool] = field(default_factory=dict)
    is_single_tensor_return: bool = False
    custom_obj_values: dict[str, R.CustomObjArgument] = field(default_factory=dict)
    sym_float_values: dict[str, R.SymFloat] = field(default_factory=dict)


# ------------------------------------------------------------------ values


def serialize_sym_int(x: int) -> R.SymInt:
    """A whole number."""
    if not isinstance(x, SymInt) or x.expr.constant is not None:
        return R.SymInt.create(as_int=int(x))
    hint = None
    if not x.expr.unbacked and x.env is not None:
        hint = R.SymExprHint.create(as_int=x.expr.value(x.env.hints))
    return R.SymInt.create(as_expr=R.SymExpr(written(x.expr), hint))


def serialize_sym_float(x: float) -> R.SymFloat:
    """A float."""
    if type(x) is float:
        return R.SymFloat.create(as_float=x)
    if hasattr(x, "function"):
        return R.SymFloat.create(as_expr=R.SymExpr(f"Symbol('{getattr(x, 'name', 'zuf0')}')"))
    top, bottom = (
        written(v.expr) if isinstance(v, SymInt) else f"Integer({v})" if type(v) is int else f"Float('{v}')"
        for v in (getattr(x, "top", 0), getattr(x, "bottom", 1))
    )  # fmt: skip
    return R.SymFloat.create(as_expr=R.SymExpr(f"IntTrueDiv({top}, {bottom})"))


def serialize_sym_bool(x: Any) -> R.SymBool:
    """A condition."""
    if not isinstance(x, SymBool) or x.condition is None:
        return R.SymBool.create(as_bool=bool(x))
    text = condition_written(x.condition)
    return R.SymBool.create(as_expr=R.SymExpr("Symbol('unknown')" if text is None else text))


def serialize_tensor_meta(t: Tensor) -> R.TensorMeta:
    """A tensor without its elements."""
    layout = codes.LAYOUTS.get(t.layout, R.Layout.Unknown)
    if layout is not R.Layout.Strided:
        refuse("tensors with strides", t.layout)
    geometry = getattr(t, "_symbolic", None)
    strides = geometry[1] if geometry else [number(s) for s in Tensor.stride(t)]
    env: Any = getattr(getattr(t, "fake_mode", None), "shape_env", None)

    def size(expr: Any) -> R.SymInt:
        if expr.constant is not None:
            return R.SymInt.create(as_int=expr.constant)
        return serialize_sym_int(SymInt(expr.value(env.hints), expr, env))

    offset = t.storage_offset() if not geometry else 0
    return R.TensorMeta(
        codes.DTYPES[t.dtype], list(map(size, sizes_of(t))), bool(t.requires_grad), codes.device_of(t.device),
        list(map(size, strides)), serialize_sym_int(offset), layout,
    )  # fmt: skip


def serialize_torch_artifact(artifact: object, pickle_protocol: int = 2) -> bytes:
    """Tensors in containers as the bytes of a checkpoint."""
    if artifact is None:
        return b""
    buffer = io.BytesIO()
    serialization.save(artifact, buffer, pickle_protocol=pickle_protocol)
    return buffer.getvalue()


# ------------------------------------------------------------------ graphs


class GraphModuleSerializer:
    """Writes a graph with its signature.

    Args:
        graph_signature: what its inputs and outputs stand for
        module_call_graph: the modules of the program
    """

    def __init__(self, graph_signature: Any, module_call_graph: list[Any] | None) -> None:
        self.graph_signature = graph_signature
        self.module_call_graph = module_call_graph or []
        self.custom_objs: dict[str, Any] = {}
        self.treespec_namedtuple_fields: dict[str, R.NamedTupleDef] = {}
        self.graph_state = _State()
        self.arguments = Arguments(self.serialize_graph)

    def serialize(self, graph_module: GraphModule) -> R.GraphModule:
        """The record of a graph module."""
        graph = self.serialize_graph(graph_module)
        custom = graph_module.meta.get("custom")
        return R.GraphModule(
            graph,
            R.GraphSignature(
                [self._input_spec(s) for s in self.graph_signature.input_specs],
                [self._output_spec(s) for s in self.graph_signature.output_specs],
            ),
            [R.ModuleCallEntry(e.fqn, self._call_signature(e.signature)) for e in self.module_call_graph],
            {"custom": _json(custom, "the graph")} if custom else {},
            self.treespec_namedtuple_fields,
        )  # fmt: skip

    def serialize_graph(self, graph_module: GraphModule) -> R.Graph:
        """The record of a graph."""
        before, self.graph_state = self.graph_state, _State()
        state = self.graph_state
        try:
            for node in in_forms_of_files(graph_module).graph.nodes:
                try:
                    self._write(node)
                except SerializeError:
                    raise
                except (AssertionError, KeyError, ValueError, TypeError, AttributeError) as error:
                    raise SerializeError(
                        f"Failed serializing node {node} in graph: {node.format_node()}: {error}"
                    ) from error
        finally:
            self.graph_state = before
        return R.Graph(**vars(state))

    def _write(self, node: Node) -> None:
        state = self.graph_state
        if node.op == "placeholder":
            state.inputs.append(self._input(node))
        elif node.op == "output":
            given = node.args[0]
            state.is_single_tensor_return = isinstance(given, Node)
            values = [given] if isinstance(given, Node) else list(given)
            state.outputs = list(map(self.arguments.written, values))
        elif node.op == "call_function":
            if node.target is not operator.getitem:
                state.nodes.append(self._call(node))
        elif node.op != "get_attr":
            refuse("a flat graph", node.op)

    def _input(self, node: Node) -> R.Argument:
        value = node.meta["val"]
        if isinstance(value, (Tensor, SymInt)):
            return self._output(node.name, value)
        return self.arguments.plain(value)

    def _call(self, node: Node) -> R.Node:
        target, value = node.target, node.meta.get("val")
        made = R.Node(codes.named(target), [], [], self.serialize_metadata(node), name=node.name)
        if isinstance(target, OpOverload) or type(target) in codes.EXTENSIONS:
            made.inputs = self.serialize_inputs(target, node.args, node.kwargs)
            made.outputs = self._outputs(node)
        elif made.target.startswith("torch.ops.higher_order."):
            made.inputs = self._unnamed_inputs(node.args, node.kwargs)
            made.outputs = self._results(node, value)
            made.is_hop_single_tensor_return = isinstance(value, Tensor)
        else:
            names = "ab" if len(node.args) < 3 else "btf"
            made.inputs = [
                R.NamedArgument(name, self.arguments.written(x), R.ArgumentKind.POSITIONAL)
                for name, x in zip(names, node.args, strict=False)
            ]
            made.outputs = [self._output(node.name, _number_of(node))]
        return made

    def serialize_inputs(self, target: Any, args: Any, kwargs: Any = None) -> list[R.NamedArgument]:
        """The records of an operator's arguments, by the names of its schema.

        Args:
            target: the operator
            args, kwargs: its arguments
        """
        handler = codes.EXTENSIONS.get(type(target))
        schema = target._schema if handler is None else handler.op_schema(target)
        made = []
        positional, by_name = 0, False
        definition = target._definition if isinstance(target, OpOverload) else None
        names = codes.names_in_file(target)
        kept = () if definition is None else definition.file_keeps
        overload = getattr(target, "_overloadname", "")
        for known in schema.arguments:
            if known.name in (kwargs or {}):
                value, kind = kwargs[known.name], R.ArgumentKind.KEYWORD
            elif not known.kwarg_only and positional < len(args):
                value, kind = args[positional], R.ArgumentKind.POSITIONAL
                positional += 1
            elif known.name in kept:
                value, kind = known.default_value, R.ArgumentKind.POSITIONAL
            else:
                continue
            if value is None and known.has_default_value() and known.default_value is None:
                by_name = True  # where PyTorch has another default, None means it
                continue
            name = names.get(known.name, known.name)
            kind = R.ArgumentKind.KEYWORD if by_name or name.startswith("*") else kind
            if name.endswith("[]") and not isinstance(value, (list, tuple, type(None))):
                value = [value]
            record = self.arguments.written(codes.value_in_file(known.name, value), known.type)
            made.append(R.NamedArgument(name.strip("*[]"), record, kind))
        # a method of the core has no names for its arguments
        named = {known.name for known in schema.arguments}
        rest = {name: x for name, x in (kwargs or {}).items() if name not in named}
        if getattr(target, "_opname", "") == METHOD_NAMES["to"]:
            rest.pop("copy", None)  # it always does
        words: Any = ()
        if definition is None:  # `to.dtype(x, float64)`
            words = METHOD_ARGUMENTS.get(getattr(target, "_opname", ""), overload.split("_"))
        return made + self._unnamed_inputs(args[positional:], rest, words)

    def _unnamed_inputs(self, args: Any, kwargs: Any, words: Any = ()) -> list[R.NamedArgument]:
        given = [
            (words[i] if i < len(words) else "", x, R.ArgumentKind.POSITIONAL)
            for i, x in enumerate(args)
        ]
        given += [(name, x, R.ArgumentKind.KEYWORD) for name, x in kwargs.items()]
        return [R.NamedArgument(n, self.arguments.written(x), kind) for n, x, kind in given]

    # ---------------------------------------------------------------- results

    def _outputs(self, node: Node) -> list[R.Argument]:
        handler = codes.EXTENSIONS.get(type(node.target))
        target: Any = node.target
        returns = (target._schema if handler is None else handler.op_schema(target)).returns
        value = node.meta.get("val")
        if not returns:
            return []
        several = isinstance(value, tuple) and str(getattr(returns[0], "type", "")) == "Any"
        if len(returns) == 1 and isinstance(value, (list, tuple)) and not several:
            return [self._tensors(node, value)]
        return self._results(node, value)

    def _results(self, node: Node, value: object) -> list[R.Argument]:
        if not isinstance(value, (list, tuple)):
            return [self._output(node.name, value)]
        made = []
        for i, part in enumerate(value):
            reader = self._reader(node, i)
            name = f"{node.name}_unused_{i}" if reader is None else reader.name
            if isinstance(part, (list, tuple)):
                made.append(self._tensors(reader, part, name))
            else:
                made.append(self._output(name, part))
        return made

    def _tensors(self, node: Node | None, values: Any, stem: str = "") -> R.Argument:
        items = []
        for i, value in enumerate(values):
            reader = None if node is None else self._reader(node, i)
            name = (
                f"{stem or getattr(node, 'name', '')}_unused_{i}" if reader is None else reader.name
            )
            items.append(self._output(name, value).as_tensor)
        return Argument.create(as_tensors=items)

    def _reader(self, node: Node, index: int) -> Node | None:
        """The node that reads one of several results; others that do stand for it."""
        found: Node | None = None
        for user in node.users:
            if user.target is operator.getitem and user.args[1] == index:
                if found is not None:
                    self.arguments.same[user.name] = found.name
                found = found or user
        return found

    def _output(self, name: str, value: Any) -> R.Argument:
        state = self.graph_state
        if value is None:
            return Argument.create(as_none=True)
        if isinstance(value, Tensor):
            state.tensor_values[name] = serialize_tensor_meta(value)
            return Argument.create(as_tensor=R.TensorArgument(name))
        if isinstance(value, (bool, SymBool)):
            state.sym_bool_values[name] = serialize_sym_bool(value)
            return Argument.create(as_sym_bool=R.SymBoolArgument.create(as_name=name))
        if isinstance(value, int):
            state.sym_int_values[name] = serialize_sym_int(value)
            return Argument.create(as_sym_int=R.SymIntArgument.create(as_name=name))
        if isinstance(value, (float, SymFloat)):
            state.sym_float_values[name] = serialize_sym_float(value)
            return Argument.create(as_sym_float=R.SymFloatArgument.create(as_name=name))
        return refuse("tensors and numbers as results (Unable to serialize output)", type(value))

    # ---------------------------------------------------------------- what is noted of nodes

    def serialize_metadata(self, node: Node) -> dict[str, str]:
        """Where a node comes from."""
        made: dict[str, str] = {}
        meta = node.meta
        if meta.get("stack_trace"):
            made["stack_trace"] = meta["stack_trace"]
        if meta.get("nn_module_stack"):
            calls = meta["nn_module_stack"].items()
            made["nn_module_stack"] = SEPARATOR.join(
                f"{key},{path},{kind}" for key, (path, kind) in calls
            )
        if meta.get("source_fn_stack"):
            made["source_fn_stack"] = SEPARATOR.join(
                f"{name},{_function_name(function)}" for name, function in meta["source_fn_stack"]
            )
        if meta.get("torch_fn"):
            made["torch_fn"] = SEPARATOR.join(meta["torch_fn"])
        if meta.get("custom"):
            made["custom"] = _json(meta["custom"], f"node {node.name}")
        return made

    # ---------------------------------------------------------------- signatures

    def _argument(self, arg: Any) -> R.Argument:
        if isinstance(arg, kinds.TensorArgument):
            return Argument.create(as_tensor=R.TensorArgument(arg.name))
        if isinstance(arg, kinds.SymIntArgument):
            return Argument.create(as_sym_int=R.SymIntArgument.create(as_name=arg.name))
        return self.arguments.plain(arg.value)

    def _input_spec(self, spec: Any) -> R.InputSpec:
        arg, kind = spec.arg, spec.kind
        if kind is kinds.InputKind.USER_INPUT:
            if isinstance(arg, kinds.ConstantArgument):
                value = R.ConstantValue.create(**_constant(arg.value))
                return R.InputSpec.create(
                    constant_input=R.InputToConstantInputSpec(arg.name, value)
                )
            return R.InputSpec.create(user_input=R.UserInputSpec(self._argument(arg)))
        tensor = R.TensorArgument(arg.name)
        if kind is kinds.InputKind.PARAMETER:
            return R.InputSpec.create(parameter=R.InputToParameterSpec(tensor, spec.target))
        if kind is kinds.InputKind.BUFFER:
            kept = spec.persistent is not False
            return R.InputSpec.create(buffer=R.InputToBufferSpec(tensor, spec.target, kept))
        return R.InputSpec.create(tensor_constant=R.InputToTensorConstantSpec(tensor, spec.target))

    def _output_spec(self, spec: Any) -> R.OutputSpec:
        if spec.kind is kinds.OutputKind.USER_OUTPUT:
            return R.OutputSpec.create(user_output=R.UserOutputSpec(self._argument(spec.arg)))
        tensor = R.TensorArgument(spec.arg.name)
        if spec.kind is kinds.OutputKind.LOSS_OUTPUT:
            return R.OutputSpec.create(loss_output=R.LossOutputSpec(tensor))
        name, record = WRITES[spec.kind]
        return R.OutputSpec.create(**{name: record(tensor, spec.target)})

    def _call_signature(self, signature: Any) -> R.ModuleCallSignature | None:
        if signature is None:
            return None
        return R.ModuleCallSignature(
            list(map(self._argument, signature.inputs)),
            list(map(self._argument, signature.outputs)),
            self._spec(signature.in_spec),
            self._spec(signature.out_spec),
            _argument_names(signature),
        )

    def _spec(self, spec: object) -> str:
        for name, fields in named_tuples_in(spec):
            self.treespec_namedtuple_fields[name] = R.NamedTupleDef(fields)
        return treespec_dumps(spec, R.TREESPEC_VERSION)


def _argument_names(signature: Any) -> list[str] | None:
    """The names of the arguments; those of `*rest` are `rest_0`, `rest_1`, ..."""
    names, spec = list(signature.forward_arg_names or ()), signature.in_spec
    if not names or len(spec.children_specs) != 2:
        return names or None
    positional, named = (part.num_children for part in spec.children_specs)
    own = positional - (len(names) - 1 - named)  # of the last positional one
    at = len(names) - 1 - named
    if positional + named == len(names) or not 0 <= at < len(names) or own < 0:
        return names
    return [*names[:at], *(f"{names[at]}_{i}" for i in range(own)), *names[at + 1 :]]


WRITES: dict[Any, Any] = {
    kinds.OutputKind.BUFFER_MUTATION: ("buffer_mutation", R.BufferMutationSpec),
    kinds.OutputKind.PARAMETER_MUTATION: ("parameter_mutation", R.ParameterMutationSpec),
    kinds.OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", R.UserInputMutationSpec),
}


def _constant(value: object) -> dict[str, Any]:
    names = {
        bool: "as_bool",
        int: "as_int",
        float: "as_float",
        str: "as_string",
        type(None): "as_none",
    }
    if type(value) not in names:
        refuse("a number, a string or None as an input that is constant", type(value))
    return {names[type(value)]: True if value is None else value}


def _json(value: object, what: str) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise SerializeError(f"Failed to serialize custom metadata for {what}: {error}") from error


def _function_name(function: object) -> str:
    if isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", str(function))
    return f"{module}.{name}".replace("facula.", "torch.", 1)


def _number_of(node: Node) -> Any:
    """The value of a node that computes with numbers; a condition that nothing is known of is open."""
    value = node.meta.get("val")
    return SymBool(True, ("test", operator.truth, 1)) if value is None else value


class ExportedProgramSerializer:
    """Writes a program.

    Args:
        opset_version: namespace of operators -> version
        pickle_protocol: of the checkpoints
    """

    def __init__(
        self, opset_version: dict[str, int] | None = None, pickle_protocol: int = 2
    ) -> None:
        self.opset_version = {"aten": 10, **(opset_version or {})}
        self.pickle_protocol = pickle_protocol

    def serialize(
        self,
        exported_program: Any,
        *,
        serialize_state_dict: bool = True,
        serialize_constants: bool = True,
        serialize_example_inputs: bool = True,
    ) -> SerializedProgram:
        """The records of a program, and its tensors as checkpoints.

        Args:
            exported_program: the program
            serialize_state_dict, serialize_constants, serialize_example_inputs: what is written of its tensors
        """
        exported_program.validate()
        writer = GraphModuleSerializer(
            exported_program.graph_signature, exported_program.module_call_graph
        )
        module = writer.serialize(exported_program.graph_module)
        if exported_program.training:
            module.metadata["training"] = "true"
        record = R.ExportedProgram(
            module, self.opset_version,
            {name: _range(r) for name, r in exported_program.ranges.items()},
            R.SchemaVersion(*R.SCHEMA_VERSION), [v.dialect for v in exported_program.verifiers], R.TORCH_VERSION,
            guards_written(exported_program),
        )  # fmt: skip
        parts = [
            serialize_torch_artifact(value, self.pickle_protocol) if wanted else b""
            for value, wanted in (
                (dict(exported_program.state_dict), serialize_state_dict),
                (dict(exported_program.constants), serialize_constants),
                (_examples(exported_program), serialize_example_inputs),
            )
        ]
        return SerializedProgram(record, *parts)


def _range(r: Any) -> R.RangeConstraint:
    low = None if r.lower <= -UNBOUNDED else r.lower
    return R.RangeConstraint(low, None if r.upper >= UNBOUNDED else r.upper)


def _examples(program: Any) -> Any:
    """The example inputs, where they are data."""
    leaves = pytree.tree_leaves(program.example_inputs)
    data = (Tensor, int, float, bool, str, type(None))
    if not all(isinstance(x, data) for x in leaves):
        return None
    return pytree.tree_map_only(Tensor, lambda t: t.detach(), program.example_inputs)


@dataclass
class SerializedProgram:
    """The records of a program, and its tensors."""

    exported_program: R.ExportedProgram
    state_dict: bytes
    constants: bytes
    example_inputs: bytes
