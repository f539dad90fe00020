"""Exported programs from the records of PyTorch's files, which anybody may have written.

Takes: records, and tensors by name. Gives: `GraphModuleDeserializer` and `ExportedProgramDeserializer`, which make the
program.
Keeps true: a file names operators, functions of numbers and containers that are known, and nothing else is looked up; a
name that becomes code is an identifier; no code is written or run while reading.
"""

from __future__ import annotations

import io
import json
import operator
import pickle
from typing import Any

from facula import core, nn, serialization
from facula.export import signature as kinds
from facula.export.description_reader import check_signature
from facula.export.exported_program import ExportedProgram
from facula.export.module_calls import ModuleCallEntry, ModuleCallSignature
from facula.export.pt2 import codes
from facula.export.pt2 import records as R
from facula.export.pt2.expressions import read_condition, read_expression
from facula.export.pt2.guards import guards_read
from facula.export.pt2.plain import SerializeError, refuse
from facula.export.pt2.writing import SEPARATOR, WRITES
from facula.export.ranges import UNBOUNDED, ValueRanges
from facula.export.verifier import load_verifier
from facula.fx import Graph, GraphModule, Node, names
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.graph_module import code_on_demand
from facula.fx.shape_env import ShapeEnv
from facula.fx.symbols import UNBACKED, Expr, SymBool, number
from facula.fx.tree_files import treespec_loads

__all__ = ["ExportedProgramDeserializer", "GraphModuleDeserializer", "deserialize_torch_artifact"]

#: graphs of functions in one another
_DEEPEST = 32
#: the size of a symbol of which no example is known
_SOME = 7


def deserialize_torch_artifact(serialized: object) -> Any:
    """Tensors in containers from the bytes of a checkpoint; what is no bytes is given back."""
    if not isinstance(serialized, bytes):
        return serialized
    return serialization.load(io.BytesIO(serialized), weights_only=True) if serialized else {}


def _name(x: str) -> str:
    return x if names.is_name(x) else refuse("an identifier as the name of a node", repr(x))


class GraphModuleDeserializer:
    """Makes the graph of a record.

    Args:
        ranges: the values of symbols
    """

    def __init__(self, ranges: dict[str, ValueRanges] | None = None) -> None:
        self.env = ShapeEnv(duck_shape=False)
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env)
        self.ranges = ranges or {}
        self.depth = 0
        self._start(Graph(), nn.Module())

    def _start(self, graph: Graph, root: nn.Module) -> None:
        self.graph, self.root = graph, root
        self.nodes: dict[str, Node] = {}
        self.values: dict[str, Any] = {}

    # ---------------------------------------------------------------- values

    def _expression(self, text: str) -> Expr:
        found = read_expression(text)
        return refuse("an expression of whole numbers", text) if found is None else found

    def note_symbols(self, record: R.Graph) -> None:
        """Make the symbols of a graph known, with their examples."""
        found: dict[str, int | None] = {}

        def note(x: R.SymInt) -> None:
            if x.type == "as_int":
                return
            expr = self._expression(x.as_expr.expr_str)
            hint = x.as_expr.hint
            for name in expr.free_symbols:
                found.setdefault(name, None)
            if expr.symbol is not None and hint is not None and hint.type == "as_int":
                found[expr.symbol] = hint.as_int

        for meta in record.tensor_values.values():
            for size in (*meta.sizes, *meta.strides, meta.storage_offset):
                note(size)
        for number_ in record.sym_int_values.values():
            note(number_)
        for name, hint in found.items():
            self._adopt(name, hint)

    def _adopt(self, name: str, hint: int | None) -> None:
        bounds = self.ranges.get(name)
        if name.startswith(UNBACKED):
            low = -UNBOUNDED if bounds is None else bounds.lower
            high = UNBOUNDED if bounds is None else bounds.upper
            self.env.unbacked.adopt(name, low, high)
        elif hint is not None:
            self.env.hints[name] = hint
        else:
            low, high = (2, UNBOUNDED) if bounds is None else (bounds.lower, bounds.upper)
            self.env.hints.setdefault(name, min(max(low, _SOME), high))

    def _size(self, x: R.SymInt) -> Expr:
        return number(x.as_int) if x.type == "as_int" else self._expression(x.as_expr.expr_str)

    def _tensor(self, meta: R.TensorMeta) -> Any:
        if meta.layout is not R.Layout.Strided:
            refuse("tensors with strides", meta.layout.name)
        sizes, strides = (tuple(map(self._size, part)) for part in (meta.sizes, meta.strides))
        if len(sizes) != len(strides):
            refuse("as many strides as sizes", f"{len(strides)} and {len(sizes)}")
        hints = [[e.value(self.env.hints) for e in part] for part in (sizes, strides)]
        if any(not 0 <= n <= UNBOUNDED for part in hints for n in part):
            refuse("sizes and strides of at least 0", hints)
        plain = core.empty_strided(
            *hints, dtype=codes.value_of(codes.DTYPES, meta.dtype), device="meta"
        )
        made: Any = core.fake_tensor(
            self.mode.tensor_class, plain, self.mode, codes.read_device(meta.device)
        )
        if any(e.constant is None for e in (*sizes, *strides)):
            made._symbolic = (sizes, strides, number(0))
        return made.requires_grad_(meta.requires_grad)

    def _number(self, x: R.SymInt) -> Any:
        return self.env.number_of(self._size(x))

    def _float(self, x: R.SymFloat) -> Any:
        return x.as_float if x.type == "as_float" else self.env.create_unbacked_symfloat()

    def _condition(self, x: R.SymBool) -> Any:
        if x.type == "as_bool":
            return x.as_bool
        found = read_condition(x.as_expr.expr_str)
        return None if found is None else SymBool(True, found, self.env)

    # ---------------------------------------------------------------- graphs

    def read_graph(self, record: R.Graph, constants: list[str] | None = None) -> GraphModule:
        """The graph of a record.

        Args:
            record: the record
            constants: names for inputs that are constant
        """
        if self.depth > _DEEPEST:
            refuse("graphs of functions in a few others", self.depth)
        before = self.graph, self.root, self.nodes, self.values
        self._start(Graph(), nn.Module())
        self.depth += 1
        try:
            self._fill(record, constants)
            self.graph.lint()
            with code_on_demand():
                return GraphModule(self.root, self.graph)
        finally:
            self.depth -= 1
            self.graph, self.root, self.nodes, self.values = before

    def _fill(self, record: R.Graph, constants: list[str] | None) -> None:
        self.note_symbols(record)
        readers: list[tuple[dict[str, Any], Any]] = [
            (record.tensor_values, self._tensor),
            (record.sym_int_values, self._number),
            (record.sym_float_values, self._float),
            (record.sym_bool_values, self._condition),
        ]
        for values, read in readers:
            self.values.update({name: read(value) for name, value in values.items()})
        for i, given in enumerate(record.inputs):
            self._placeholder(given, constants[i] if constants else f"arg{i}")
        for node in record.nodes:
            try:
                self._call(node)
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                raise SerializeError(
                    f"Failed deserializing node {node.name or node.target}: {error}"
                ) from error
        results = [self._result(x) for x in record.outputs]
        single = record.is_single_tensor_return and len(results) == 1
        self.graph.output(results[0] if single else tuple(results))

    def _placeholder(self, given: R.Argument, constant: str) -> None:
        if given.type not in ("as_tensor", "as_sym_int"):
            node = self._named("placeholder", constant, (), {}, constant)
            node.meta["val"] = self._read(given)
            return
        name = given.value.name if given.type == "as_tensor" else given.as_sym_int.as_name
        node = self._named("placeholder", name, (), {}, name)
        node.meta["val"] = self.values[name]

    def _named(self, op: str, target: Any, args: object, kwargs: object, name: str | None) -> Node:
        """A node of exactly this name."""
        if name is None:
            return self.graph.create_node(op, target, args, kwargs)
        if op == "placeholder":
            target = _name(name)
        node = self.graph.create_node(op, target, args, kwargs, name=_name(name))
        if node.name != name:
            if name in self.nodes:
                refuse("a name that is free", name)
            node.name = name  # a name of Python's, such as `input`
        self.nodes[name] = node
        return node

    def _result(self, x: R.Argument) -> Any:
        return self._read(x)

    def _call(self, record: R.Node) -> None:
        target = codes.target_named(record.target)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        given = self._given(target, record)
        for name, value, keyword in given:
            if keyword:
                kwargs[_name(name)] = value
            else:
                args.append(value)
        own = record.name or _first_name(record)
        node = self._named("call_function", target, tuple(args), kwargs, own)
        node.meta.update(read_metadata(record.metadata))
        node.meta.setdefault("nn_module_stack", {})
        for x in (*args, *kwargs.values()):
            if isinstance(x, Node) and x.op == "get_attr":
                x.meta.update(read_metadata(record.metadata))
        self._outputs(record, node)

    def _given(self, target: object, record: R.Node) -> list[tuple[str, Any, bool]]:
        """The arguments, and whether each is a keyword."""
        table = getattr(target, "_table_schema", None)
        if table is not None and not any(p.variadic for p in table.parameters):
            return self._by_name(target, table, record)
        schema = getattr(target, "_schema", None)
        only = {a.name for a in schema.arguments if a.kwarg_only} if schema is not None else set()
        order = {a.name: i for i, a in enumerate(schema.arguments)} if schema is not None else {}
        made = []
        for i, x in enumerate(record.inputs):
            keyword = x.kind is R.ArgumentKind.KEYWORD
            if x.kind in (None, R.ArgumentKind.UNKNOWN):  # files before there were kinds
                keyword = x.name in only or (bool(x.name) and order.get(x.name, i) != i)
            made.append((x.name, self._read(x.arg), keyword))
        return made

    def _by_name(self, target: object, schema: Any, record: R.Node) -> list[tuple[str, Any, bool]]:
        """The arguments of an operator of the table; those that stand in their place are given by it."""
        own = {o.strip("*[]"): name for name, o in codes.names_in_file(target).items()}
        parameters = {p.name: p for p in schema.parameters}
        places = {p.name: i for i, p in enumerate(schema.parameters) if not p.keyword_only}
        made: list[tuple[str, Any, bool]] = []
        for i, x in enumerate(record.inputs):
            by_place = x.kind is R.ArgumentKind.POSITIONAL and i < len(schema.parameters)
            name = own.get(x.name, x.name)
            if name not in parameters and by_place:
                name = schema.parameters[i].name  # by another name
            parameter = parameters.get(name)
            in_place = i == len(made) == places.get(name) and not any(k for *_, k in made)
            value = codes.value_from_file(parameter, self._read(x.arg))
            made.append((name, value, not in_place or parameter is None))
        return made

    # ---------------------------------------------------------------- results

    def _outputs(self, record: R.Node, node: Node) -> None:
        outputs = record.outputs
        alone = (
            record.is_hop_single_tensor_return is not False or ".higher_order." not in record.target
        )
        if not outputs:
            node.meta["val"] = None
        elif len(outputs) == 1 and alone and outputs[0].type != "as_tensors":
            node.meta["val"] = self._value_of(outputs[0])
            self._also(outputs[0], node)
        elif len(outputs) == 1 and outputs[0].type == "as_tensors" and alone:
            node.meta["val"] = self._parts(node, [_tensor_argument(x) for x in outputs[0].value])
        else:
            node.meta["val"] = tuple(self._parts(node, outputs))

    def _also(self, x: R.Argument, node: Node) -> None:
        """A node is known by the name of what it gives, too."""
        name = _name_of(x)
        if name is not None:
            self.nodes[name] = node

    def _value_of(self, x: R.Argument) -> Any:
        name = _name_of(x)
        return None if name is None else self.values[name]

    def _parts(self, node: Node, outputs: list[R.Argument]) -> list[Any]:
        made = []
        for i, x in enumerate(outputs):
            name = _name_of(x)
            if x.type == "as_tensors":
                inner = self.graph.call_function(operator.getitem, (node, i))
                inner.meta.update(_own(node.meta))
                inner.meta["val"] = self._parts(inner, [_tensor_argument(t) for t in x.value])
                made.append(inner.meta["val"])
                continue
            made.append(self._value_of(x))
            if name is None or name == f"{node.name}_unused_{i}":
                continue
            part = self._named("call_function", operator.getitem, (node, i), {}, name)
            part.meta.update(_own(node.meta))
            part.meta["val"] = made[-1]
        return made

    # ---------------------------------------------------------------- arguments

    def _read(self, x: R.Argument) -> Any:
        kind, value = x.type, x.value
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(value)
        if kind == "as_tensor":
            return self.nodes[value.name]
        if kind == "as_tensors":
            return [self.nodes[t.name] for t in value]
        if kind == "as_optional_tensor":
            return self._optional(value)
        if kind == "as_optional_tensors":
            return [self._optional(t) for t in value]
        if kind == "as_nested_tensors":
            return [[self.nodes[t.name] for t in inner] for inner in value]
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._symbolic(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._symbolic(item) for item in value]
        if kind == "as_graph":
            return self._function(value)
        if kind == "as_operator":
            return codes.target_named(value)
        if kind == "as_string_to_argument":
            return {key: self._read(item) for key, item in value.items()}
        return refuse("an argument of a known kind", kind)

    def _symbolic(self, x: Any) -> Any:
        return self.nodes[x.as_name] if x.type == "as_name" else x.value

    def _optional(self, x: R.OptionalTensorArgument) -> Any:
        return None if x.type == "as_none" else self.nodes[x.as_tensor.name]

    def _function(self, x: R.GraphArgument) -> Node:
        name = _name(x.name)
        if name.startswith("__") or hasattr(self.root, name):
            refuse("a graph with a name of its own", name)
        self.root.add_module(name, self.read_graph(x.graph))
        node = self.graph.get_attr(name)
        node.meta["val"] = None
        return node


_READERS: dict[str, Any] = {
    "as_none": lambda x: None,
    **{f"as_{n}": (lambda x: x) for n in ("int", "ints", "float", "floats", "string", "strings", "bool", "bools")},
    "as_int_lists": lambda x: [tuple(item) for item in x],
    "as_float_lists": lambda x: x,
    "as_complex": lambda x: complex(x.real, x.imag),
    "as_device": codes.read_device,
    "as_scalar_type": lambda x: codes.value_of(codes.DTYPES, x),
    "as_layout": lambda x: codes.value_of(codes.LAYOUTS, x),
    "as_memory_format": lambda x: codes.value_of(codes.MEMORY_FORMATS, x),
}  # fmt: skip


def _tensor_argument(x: R.TensorArgument) -> R.Argument:
    return R.Argument.create(as_tensor=x)


def _name_of(x: R.Argument) -> str | None:
    """The name of a result."""
    if x.type == "as_tensor":
        return str(x.as_tensor.name)
    return str(x.value.as_name) if x.type in ("as_sym_int", "as_sym_float", "as_sym_bool") else None


def _first_name(record: R.Node) -> str | None:
    """The name of a call in files that name results alone."""
    return _name_of(record.outputs[0]) if len(record.outputs) == 1 else None


def _own(meta: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if key != "val"}


def read_metadata(data: dict[str, str]) -> dict[str, Any]:
    """Where a node comes from."""
    made: dict[str, Any] = {}
    if data.get("stack_trace"):
        made["stack_trace"] = data["stack_trace"]
    if data.get("nn_module_stack"):
        calls = [_split(item) for item in data["nn_module_stack"].split(SEPARATOR)]
        made["nn_module_stack"] = {key: (path, kind) for key, path, kind in calls}
    if data.get("source_fn_stack"):
        made["source_fn_stack"] = [
            tuple(item.split(",", 1)) for item in data["source_fn_stack"].split(SEPARATOR)
        ]
    if data.get("torch_fn"):
        made["torch_fn"] = tuple(data["torch_fn"].split(SEPARATOR))
    if data.get("custom"):
        made["custom"] = json.loads(data["custom"])
    return made


def _split(item: str) -> list[str]:
    """The three parts of a call; commas in brackets separate nothing."""
    parts, start, depth = [], 0, 0
    for i, letter in enumerate(item):
        depth += letter in "[("
        depth -= letter in ")]"
        if letter == "," and not depth:
            parts.append(item[start:i])
            start = i + 1
    parts.append(item[start:])
    return parts if len(parts) == 3 else refuse("a module call of three parts", item)


# ------------------------------------------------------------------ programs

_PARTS: dict[str, Any] = {
    "parameter": (kinds.InputKind.PARAMETER, "parameter_name"),
    "buffer": (kinds.InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (kinds.InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
}
_WRITES = {name: kind for kind, (name, _) in WRITES.items()}


def _argument(x: R.Argument) -> Any:
    if x.type == "as_tensor":
        return kinds.TensorArgument(x.as_tensor.name)
    if x.type == "as_sym_int":
        return kinds.SymIntArgument(x.as_sym_int.as_name)
    if x.type in ("as_sym_float", "as_sym_bool"):
        return kinds.TensorArgument(x.value.as_name)
    return kinds.ConstantArgument("", _READERS[x.type](x.value))


def _input_spec(spec: R.InputSpec) -> kinds.InputSpec:
    if spec.type == "user_input":
        return kinds.InputSpec(kinds.InputKind.USER_INPUT, _argument(spec.user_input.arg))
    if spec.type == "constant_input":
        value = spec.constant_input.value
        known = None if value.type == "as_none" else value.value
        arg = kinds.ConstantArgument(spec.constant_input.name, known)
        return kinds.InputSpec(kinds.InputKind.USER_INPUT, arg)
    if spec.type not in _PARTS:
        refuse("inputs that are tensors and numbers", spec.type)
    kind, field = _PARTS[spec.type]
    held = spec.value
    persistent = held.persistent if spec.type == "buffer" else None
    return kinds.InputSpec(
        kind, kinds.TensorArgument(held.arg.name), getattr(held, field), persistent
    )


def _output_spec(spec: R.OutputSpec) -> kinds.OutputSpec:
    if spec.type == "user_output":
        return kinds.OutputSpec(kinds.OutputKind.USER_OUTPUT, _argument(spec.user_output.arg))
    if spec.type == "loss_output":
        arg = kinds.TensorArgument(spec.loss_output.arg.name)
        return kinds.OutputSpec(kinds.OutputKind.LOSS_OUTPUT, arg)
    if spec.type not in _WRITES:
        refuse("outputs that are results, and writes to buffers, parameters and inputs", spec.type)
    held = spec.value
    target = next(value for name, value in vars(held).items() if name != "arg")
    return kinds.OutputSpec(_WRITES[spec.type], kinds.TensorArgument(held.arg.name), target)


def read_signature(record: R.GraphSignature) -> kinds.ExportGraphSignature:
    """The signature of a record."""
    return kinds.ExportGraphSignature(
        list(map(_input_spec, record.input_specs)), list(map(_output_spec, record.output_specs))
    )


def _entry(record: R.ModuleCallEntry) -> ModuleCallEntry:
    found = record.signature
    if found is None:
        return ModuleCallEntry(record.fqn)
    return ModuleCallEntry(
        record.fqn,
        ModuleCallSignature(
            list(map(_argument, found.inputs)), list(map(_argument, found.outputs)),
            treespec_loads(found.in_spec), treespec_loads(found.out_spec), found.forward_arg_names,
        ),
    )  # fmt: skip


class ExportedProgramDeserializer:
    """Makes the program of a record.

    Args:
        expected_opset_version: kept for PyTorch's API
    """

    def __init__(self, expected_opset_version: dict[str, int] | None = None) -> None:
        self.expected_opset_version = expected_opset_version or {}

    def deserialize(
        self,
        exported_program: R.ExportedProgram,
        state_dict: object,
        constants: object,
        example_inputs: object = None,
        *,
        _unsafe_skip_version_check: bool = False,
    ) -> ExportedProgram:
        """The program.

        Args:
            exported_program: its record
            state_dict, constants, example_inputs: its tensors, or checkpoints of them

        Raises:
            SerializeError: it is no such record, or one of another version.
        """
        version = exported_program.schema_version
        if version.major not in (R.SCHEMA_VERSION[0], 0) and not _unsafe_skip_version_check:
            refuse(
                f"version {R.SCHEMA_VERSION} of the format (Serialized schema version {version} does not match our "
                f"current schema version {R.SCHEMA_VERSION}.)",
                version,
            )
        ranges = {n: _bounds(r) for n, r in exported_program.range_constraints.items()}
        module = exported_program.graph_module
        signature = read_signature(module.signature)
        reader = GraphModuleDeserializer(ranges)
        labels = [spec.arg.name or f"arg{i}" for i, spec in enumerate(signature.input_specs)]
        made = reader.read_graph(module.graph, labels)
        if module.metadata.get("custom"):
            made.meta["custom"] = json.loads(module.metadata["custom"])
        calls = list(map(_entry, module.module_call_graph))
        if not calls or calls[0].signature is None:
            refuse("the structure of the arguments", "a program without its first module call")
        state, held = deserialize_torch_artifact(state_dict), deserialize_torch_artifact(constants)
        check_signature(signature, made.graph, {**state, **held})
        examples = _examples(example_inputs)
        return _made(exported_program, made, signature, state, held, calls, ranges, examples)


def _examples(data: object) -> Any:
    """The example inputs; None where they name classes of a program, which are not looked up."""
    try:
        return deserialize_torch_artifact(data) or None
    except pickle.UnpicklingError:
        return None


def _made(
    record: R.ExportedProgram, module: GraphModule, signature: Any, state: Any, constants: Any,
    calls: list[ModuleCallEntry], ranges: dict[str, ValueRanges], examples: Any,
) -> ExportedProgram:  # fmt: skip
    root: Any = calls[0].signature
    program = ExportedProgram(
        module, signature, state, constants, ranges, root.in_spec, root.out_spec, guards=[],
        argument_names=[_name(n) for n in root.forward_arg_names or ()], example_inputs=examples,
        training=record.graph_module.metadata.get("training") == "true", module_call_graph=calls,
    )  # fmt: skip
    program._verifiers = list(map(load_verifier, record.verifiers)) or program._verifiers
    if record.guards_code:
        program.guards = guards_read(record.guards_code, program.module(check_guards=False)._inputs)
    return program


def _bounds(r: R.RangeConstraint) -> ValueRanges:
    low = -UNBOUNDED if r.min_val is None else r.min_val
    return ValueRanges(low, UNBOUNDED if r.max_val is None else r.max_val)
