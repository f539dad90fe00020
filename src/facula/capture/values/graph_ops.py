"""Tensors in the interpreter: operators become nodes of the graph.

Takes: operators, methods and attributes with symbolic arguments. Gives: symbolic values with nodes.
Keeps true: a node stands in the graph for every operator that made or changed a tensor; placeholders
stand first, in the order of their first use; questions about dtype, device or static sizes leave no
node.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture import config
from facula.capture.breaks import Break, Respecialise
from facula.capture.exports import is_exporting
from facula.capture.guards import reads
from facula.capture.guards.layouts import QUESTIONS
from facula.capture.guards.reading import is_numpy_scalar
from facula.capture.interpreter import narration
from facula.capture.interpreter.concrete import BINARY
from facula.capture.interpreter.domain import Part
from facula.capture.values import hooks
from facula.capture.values.graph_names import input_name
from facula.capture.values.kinds import (
    LITERAL_TYPES,
    DictValue,
    FunctionValue,
    Known,
    MethodValue,
    NodeValue,
    NumberValue,
    ObjectValue,
    Raised,
    SequenceValue,
    SliceValue,
    TensorValue,
    follows_float,
)
from facula.capture.values.subclasses import SubclassValue
from facula.capture.values.wrappers import WrapperValue, is_wrapper
from facula.core.errors import is_own
from facula.fx.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from facula.fx.names import qualified_name
from facula.fx.symbols import SymFloat, SymInt
from facula.namespaces import legacy
from facula.ops.table.registry import TABLE

if TYPE_CHECKING:
    from facula.capture.interpreter.frames import Frame
    from facula.capture.values.kinds import Value
    from facula.capture.values.sources import Source
    from facula.fx import Node
    from facula.ops.table.definition import Definition


#: attributes that are tensors: they are operators
_TENSOR_ATTRIBUTES = frozenset("T mT H mH real imag data".split())
#: methods that ask for elements
_ELEMENTS = frozenset(
    "item tolist __bool__ __int__ __float__ __complex__ __index__ __contains__ numpy __array__ "
    "__repr__ __str__ __format__ data_ptr storage untyped_storage".split()
)
#: methods that say what a stand-in for a tensor does not know
_STATES = frozenset("is_inference is_shared".split())
#: attributes that say what happened to a tensor before
_OF_THE_TAPE = frozenset("is_leaf retains_grad output_nr _version".split())
#: methods that give a tensor other memory
_MEMORY = frozenset("resize_ resize_as_ resize_as_sparse_ set_ swap_ share_memory_".split())
_ENGINE = frozenset("backward register_hook register_post_accumulate_grad_hook retain_grad".split())
#: functions that change a mode of the thread; they run while the program is captured, too
MODE_FUNCTIONS: set[Any] = {
    core.set_grad_enabled,
    core.set_inference_mode,
    core.set_autocast,
    core.set_kept_settings,
    core.set_default_dtype,
    core.set_saved_tensor_hooks_disabled,
}


#: Python's types where a dtype is wanted
_TYPES = {bool: core.bool, int: core.int64, float: core.float64, complex: core.complex128}


class NotGraphable(Exception):
    """A value that can not be an argument of a node."""


class GraphOps(Part):
    """The part of `Symbolic` that writes the graph."""

    last_placeholder: Any
    first_frame: Frame | None
    placeholder_names: dict[Any, set[Any]]  # by graph

    # arguments ------------------------------------------------------------------------------------
    def argument(self, value: Any) -> tuple[Any, Any]:
        """A value as a node's argument, and as the fake run gets it."""
        value = self.force(value)
        if isinstance(value, TensorValue):
            return self.node_of(value), value.fake
        if isinstance(value, NodeValue):
            return self.node_of(value), value.fake
        if follows_float(value) and not self.reads_in(value):
            value = self.specialise(value)
        if isinstance(value, NumberValue):
            return self.number_node(value), self.renewed(value)
        value = self.plain_number(value)
        if isinstance(value, Known):
            return self._known_argument(value.obj)
        if isinstance(value, SequenceValue):
            pairs = [self.argument(item) for item in value.items]
            if hasattr(value.kind, "_fields"):
                raise NotGraphable(value.kind.__name__)
            kind = list if issubclass(value.kind, list) else tuple
            return kind(p[0] for p in pairs), kind(p[1] for p in pairs)
        if isinstance(value, SliceValue):
            pairs = [self.argument(part) for part in value.parts]
            return slice(*(p[0] for p in pairs)), slice(*(p[1] for p in pairs))
        if isinstance(value, DictValue) and value.source is None:
            items = {key: self.argument(item) for key, (_, item) in value.items.items()}
            return {k: v[0] for k, v in items.items()}, {k: v[1] for k, v in items.items()}
        found = self.object_node(value) if isinstance(value, ObjectValue) else None
        if found is None:
            raise NotGraphable(value.cls.__name__)
        return found

    @staticmethod
    def _known_argument(obj: Any) -> tuple[Any, Any]:
        plain = (*LITERAL_TYPES, core.dtype, core.device, slice, range, type(core.strided))
        if isinstance(obj, type(legacy.FloatTensor)):
            return obj, obj
        if isinstance(obj, plain) or isinstance(obj, type(core.contiguous_format)):
            return (list(obj), list(obj)) if isinstance(obj, range) else (obj, obj)
        if is_numpy_scalar(type(obj)):
            return obj.item(), obj.item()
        if isinstance(obj, type) and obj in _TYPES:
            return _TYPES[obj], _TYPES[obj]
        raise NotGraphable(type(obj).__name__)

    def node_of(self, value: TensorValue | NodeValue) -> Any:
        """The node of a tensor; one from outside becomes a placeholder."""
        if isinstance(value, SubclassValue):
            return self.node_of(value.inner)
        if self.enclosing:
            return self._inner_node(value)
        if isinstance(value, NodeValue):
            return value.node
        if isinstance(value, WrapperValue):
            return self.wrapper_node(value)
        if value.node is None:
            value.node = self._input(value.source, value.fake)
            value.node.type = value.cls
            value.node.meta["dynamic_dims"] = value.dynamic
            value.node.meta["tensor_dict"] = dict(getattr(value.real, "__dict__", None) or {})
            self.inputs.append(value)
            self.by_fake[id(value.fake)] = value
        return value.node

    def _inner_node(self, value: TensorValue | NodeValue) -> Any:
        """The node of a tensor in the graph of a function that is an argument itself."""
        if value.node is not None and value.node.graph is self.graph:
            return value.node
        lifted, nodes = self.enclosing[-1]
        if value not in lifted:
            lifted.append(value)
            outer = value.node.name if value.node is not None else f"lifted_{len(nodes)}"
            nodes.append(self._placeholder(outer, value.fake))
        return nodes[lifted.index(value)]

    def attach(self, module: Any, stem: str) -> Any:
        """A node that gives a graph module, which the captured graph holds."""
        number = 0
        while f"{stem}_{number}" in self.attached:
            number += 1
        name = f"{stem}_{number}"
        self.attached[name] = module
        return self.graph.get_attr(name)

    def _input(self, source: Source, example: object) -> Any:
        """The placeholder of a value from outside."""
        node = self._placeholder(input_name(source, self.first_frame), example)
        node.meta["source"] = source.label()
        return node

    def _placeholder(self, name: str, fake: Any) -> Any:
        taken = self.placeholder_names.get(self.graph)
        if taken is None:
            taken = {node.target for node in self.graph.nodes if node.op == "placeholder"}
            self.placeholder_names[self.graph] = taken
        stem, count = name, 0
        while name in taken:
            count += 1
            name = f"{stem}_{count}"
        taken.add(name)
        last = self.last_placeholder
        if last is None:
            first = next(iter(self.graph.nodes), None)
            point = self.graph.inserting_before(first) if first is not None else None
        else:
            point = self.graph.inserting_after(last)
        if point is None:
            node = self.graph.placeholder(name)
        else:
            with point:
                node = self.graph.placeholder(name)
        self.last_placeholder = node
        node.meta["val"] = node.meta["example_value"] = fake
        return node

    def number_node(self, value: NumberValue) -> Any:
        """The node of a number that may change."""
        if value.node is None:
            if value.function is not None:
                args = tuple(self.argument(arg)[0] for arg in value.args)
                value.node = self._new_node("call_function", value.function, args, {}, value.hint)
            elif value.source is not None:
                value.node = self._input(value.source, value.hint)
                value.node.type = SymFloat if isinstance(value.hint, float) else SymInt
                self.inputs.append(value)
            else:
                tensor, dim = value.args
                node = self.node_of(tensor)
                value.node = self._new_node("call_method", "size", (node, dim), {}, value.hint)
        return value.node

    def _new_node(
        self, op: str, target: Any, args: tuple, kwargs: dict, val: Any, name: str | None = None
    ) -> Any:
        node = self.graph.create_node(op, target, args, kwargs, name)
        node.meta["val"] = node.meta["example_value"] = val
        node.meta["stack_trace"] = self.stack_trace()
        narration.trace_call("call of", target, self.user_line)
        return node

    # calls ----------------------------------------------------------------------------------------
    def graph_call(self, target: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """A function on tensors as a node, and its result."""
        function = BINARY[target] if isinstance(target, str) else target
        return self._record("call_function", function, function, args, kwargs or {})

    def graph_method(
        self, name: str, owner: TensorValue, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A method of a tensor."""
        if name in ("size", "numel", "nelement", "stride", "__len__", "dim", "ndimension"):
            return self._geometry(name, owner, args, kwargs)
        if name == "get_device":
            return Known(-1 if owner.fake.device.index is None else owner.fake.device.index)
        if name in _STATES and owner.source is not None:
            question = getattr(core.Tensor, name)
            answer = question(owner.real)
            self.guards.add("is", owner.source.apply(question), answer)
            return Known(answer)
        if name in QUESTIONS and not isinstance(owner, WrapperValue):
            return self.layout_method(name, owner, args, kwargs)
        if name == "numpy":
            return self.array_of(owner, *args, **kwargs)
        if name in _ELEMENTS and isinstance(owner, WrapperValue):
            raise Break("data-dependent-value", f"Tensor.{name}()")
        if name == "item" and not args and not kwargs:
            return self.read(owner, name)
        if name == "tolist" and type(owner) is TensorValue:
            return self.read_all(owner)
        if name in _ELEMENTS:
            raise Break("data-dependent-value", f"Tensor.{name}()")
        if name == "register_hook" and owner.source is None and type(owner) is TensorValue:
            return hooks.register(self, owner, *args, **kwargs)
        if name in _ENGINE:
            raise Break("backward", f"Tensor.{name}()")
        if name == "requires_grad_" and self._switches_gradient(owner, args, kwargs):
            raise Break("unsupported-mutation", "Tensor.requires_grad_(), which makes a leaf")
        if name in _MEMORY:
            raise Break("unsupported-mutation", f"Tensor.{name}()")
        if name == "__iter__":
            return self.iter(owner)
        if name == "__setitem__":
            return self.graph_call(operator.setitem, [owner, *args], kwargs)

        def run(fake: Any, *more: Any, **words: Any) -> Any:
            return getattr(fake, name)(*more, **words)

        args = self.float_operands(name, owner, args)
        return self._record("call_method", name, run, [owner, *args], kwargs)

    def _switches_gradient(self, owner: TensorValue, args: list[Any], kwargs: dict) -> bool:
        wanted = [*args, *kwargs.values()]
        flag = bool(self.constant_of(wanted[0])) if wanted else True
        return flag != bool(owner.fake.requires_grad)

    def _record(
        self, op: str, target: object, run: Callable, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if self.asks_others(args, kwargs):
            said = self.overridden(run, args, kwargs, _shown(target))
            if said is not NotImplemented:
                return said
        return self._record_plain(op, target, run, args, kwargs)

    def _record_plain(
        self, op: str, target: object, run: Callable, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A call that no mode and no class has its own idea of."""
        definition = _definition_of(target)
        if definition is not None and definition.numbers:
            args, kwargs = self._numbers_read(definition, args, kwargs)
        if definition is not None:
            args, kwargs = self._numbers_in_tensors(definition, args, kwargs)
        try:
            pairs = [self.argument(arg) for arg in args]
            words = {name: self.argument(arg) for name, arg in kwargs.items()}
        except NotGraphable as error:
            raise Break("no-graph-argument", f"{_shown(target)} got a {error}") from error
        given, settings = [p[1] for p in pairs], {k: v[1] for k, v in words.items()}
        out = None if _has_own_out(target) else settings.pop("out", None)
        if out is not None:
            plain = self._fake_run(run, given, settings, target)
            if _shapes(plain) != _shapes(out):
                raise Break("unsupported-mutation", f"{_shown(target)}: out= of another shape")
            settings["out"] = out
        self.fakes.mode.counted = False
        with self.writes_watched(args):
            result, number = self._counted_run(run, given, settings, target)
        counted = self.fakes.mode.counted
        if given and _repeats(given[0]) and _writes_by_index(target, given):
            # which of the elements at one place is the last, a graph without writes can not say
            raise Break("unsupported-mutation", f"{_shown(target)} of an expanded tensor")
        if not _has_tensor(result) and target is not operator.setitem and result is not None:
            return self._plain_result(result, target)
        known = self._known_result(result, target)
        if core.get_default_dtype() is not self.start_dtype:
            _name_dtype(target, definition, result, len(args), words)
        node = self._new_node(
            op, target, tuple(p[0] for p in pairs), {k: v[0] for k, v in words.items()}, result
        )
        if counted:
            node.meta["count"] = reads.FIRST
            node.meta["known_count"] = number
            self.fakes.counted = self.any_dynamic = True
        self.operator_count += 1
        if known is not None:
            return known
        return self.from_result(result, node)

    def _known_result(self, result: object, target: object) -> Any:
        """The value whose stand-in a call gave; None where it is new, and a break where it is a new leaf."""
        known = self.by_fake.get(id(result))
        if known is None and not self.enclosing and _is_new_leaf(result):
            raise Break("unsupported-mutation", f"{_shown(target)}, which makes a leaf")
        return known

    def _numbers_read(self, definition: Definition, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Arguments with numbers where tensors from outside stand for them, which is guarded."""
        names = [parameter.name for parameter in definition.schema.parameters]
        wanted = [name in definition.numbers for name in names]
        given = [
            self._number_in(value) if read else value
            for value, read in zip(args, wanted, strict=False)
        ]
        words = {k: self._number_in(v) if k in definition.numbers else v for k, v in kwargs.items()}
        return given, words

    def _numbers_in_tensors(
        self, definition: Definition, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Arguments with the numbers of tensors that stand where an operator takes numbers only."""
        kinds = {p.name: p.type for p in definition.schema.parameters}

        def number_of(value: Any, kind: str) -> Any:
            if kind.removesuffix("?") not in ("Number", "float", "int"):
                return value
            value = self.force(value)
            if type(value) is TensorValue and self.may_read(value):
                return self.read(value, "item")
            return value

        given = [number_of(v, kind) for v, kind in zip(args, kinds.values(), strict=False)]
        words = {name: number_of(v, kinds.get(name, "")) for name, v in kwargs.items()}
        return [*given, *args[len(given) :]], words

    def _number_in(self, value: Any) -> Any:
        value = self.force(value)
        if type(value) is not TensorValue or value.source is None or value.fake.numel() != 1:
            return value
        found = value.real.item()
        self.guards.add("equal", value.source.apply(core.Tensor.item), found)
        return Known(found)

    def _plain_result(self, result: Any, target: object) -> Any:
        if hasattr(type(result), "is_nested_int"):
            raise Break("unsupported-attribute", f"a ragged size that {_shown(target)} gives")
        if isinstance(result, (tuple, list)):
            return self.made(
                SequenceValue(type(result), [self._plain_result(r, target) for r in result])
            )
        return self.trusted(result)

    def _counted_run(
        self, run: Callable, args: list[Any], kwargs: dict[str, Any], target: object
    ) -> tuple[Any, int | None]:
        """What a call gives; and where elements say how many places it writes to, their number if what
        is written tells it."""
        try:
            return self._fake_run(run, args, kwargs, target), None
        except Break as reason:
            if not self.fakes.mode.counted:
                raise
            values = args[2] if len(args) > 2 else kwargs.get("values")
            for number in set(values.shape) if isinstance(values, core.Tensor) else ():
                with contextlib.suppress(Break):
                    return self._fake_run(run, args, kwargs, target, int(number)), int(number)
            raise reason

    def _fake_run(
        self,
        run: Callable,
        args: list[Any],
        kwargs: dict[str, Any],
        target: object,
        count: int | None = reads.FIRST,
    ) -> Any:
        try:
            allowed = config.capture_dynamic_output_shape_ops or self.whole
            count = count if allowed and not self.enclosing else None
            return self.fakes.run(run, args, kwargs, count)
        except (Break, Raised, Respecialise):
            raise  # of a function that was captured inside
        except Exception as error:
            kind = type(error).__name__
            text = f"{_shown(target)}: {str(error).splitlines()[0] if str(error) else kind}"
            if isinstance(error, DynamicOutputShapeException):
                raise Break("data-dependent-shape", text) from error
            if isinstance(error, DataDependentOutputException):
                raise Break("data-dependent-value", text) from error
            raise Break("fake-error", f"{kind} in {text}") from error

    def from_result(self, result: object, node: Node) -> Any:
        """The symbolic value of what a node gives."""
        if is_wrapper(type(result)):
            return self.wrapper_result(result, node)
        if getattr(type(result), "_is_sparse_tensor", False):
            raise Break("tensor-subclass", "a graph holds dense tensors, this one is sparse")
        if _handles_calls(type(result)):
            raise Break("tensor-subclass", f"a {type(result).__name__}, which has no parts")
        if isinstance(result, core.Tensor):
            known = self.by_fake.get(id(result))
            if known is not None:
                return known
            value = self.made(TensorValue(result, node))
            self.by_fake[id(result)] = value
            return value
        if isinstance(result, (tuple, list)):
            items = []
            if self.any_dynamic and type(result) in (tuple, list):
                self.assume_count(result, node)
            for n, item in enumerate(result):
                part = self._new_node("call_function", operator.getitem, (node, n), {}, item)
                items.append(self.from_result(item, part))
            return self.made(SequenceValue(type(result), items))
        return self.trusted(result)

    def part_of(self, node: Node, number: int, value: Any) -> Any:
        """The symbolic value of one result of a node."""
        known = self.by_fake.get(id(value))
        if known is not None and (known.node is None or known.node.graph is self.graph):
            return known
        shown = value if isinstance(value, core.Tensor) else None
        part = self._new_node("call_function", operator.getitem, (node, number), {}, shown)
        if shown is None:
            return self.made(NodeValue(value, part))
        made = self.by_fake[id(value)] = self.made(TensorValue(value, part))
        return made

    # numbers --------------------------------------------------------------------------------------
    def size_of(self, tensor: TensorValue, dim: int) -> Any:
        """One size: a known int, or a number that may change."""
        if isinstance(tensor, WrapperValue) and type(tensor.fake.shape[dim]) is not int:
            return self.ragged_size(tensor, dim)
        size = int(tensor.fake.shape[dim])
        if tensor.source is not None and tensor.node is None or tensor.source is not None:
            if dim in tensor.dynamic:
                return self._dimension(tensor, dim, size)
            return Known(size)
        if self.any_dynamic and self.enclosing:
            if tensor.dynamic and is_exporting():  # an operand, whose sizes nobody replays
                return self._dimension(tensor, dim, size) if dim in tensor.dynamic else Known(size)
            raise Respecialise  # what is inside of a transform is not replayed for other sizes
        if self.any_dynamic and self.varies(tensor, dim):
            return self._dimension(tensor, dim, size)
        if self.any_dynamic:
            self.assume_size(tensor, dim, size)
        return Known(size)

    def _dimension(self, tensor: TensorValue, dim: int, size: int) -> NumberValue:
        key = (id(tensor), dim)
        found = self.dimensions.get(key)
        if found is None:
            found = self.dimensions[key] = NumberValue(size, args=(tensor, dim))
        return found

    def shape_of(self, tensor: TensorValue) -> SequenceValue:
        """`tensor.shape`."""
        sizes = [self.size_of(tensor, d) for d in range(tensor.fake.dim())]
        return self.made(SequenceValue(core.Size, sizes))

    def _geometry(
        self, name: str, owner: TensorValue, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        given = [*args, *kwargs.values()]
        if name in ("dim", "ndimension"):
            return Known(owner.fake.dim())
        if name == "__len__":
            return self.length(owner)
        if name == "stride":
            steps = self.strides_of(owner)
            return self.getitem(steps, given[0]) if given else steps
        shape = self.shape_of(owner)
        if name == "size":
            return self.getitem(shape, given[0]) if given else shape
        return self.sequence_method(shape, "numel", [], {})

    # attributes -----------------------------------------------------------------------------------
    def tensor_attribute(self, owner: TensorValue, name: str) -> Any:
        """An attribute of a tensor."""
        written = self.attribute_writes.get((id(owner), name))
        if written is not None:
            return written[2]
        said = self.asked_attribute(owner, name)
        if said is not NotImplemented:
            return said
        if name == "shape":
            return self.shape_of(owner)
        if name == "nbytes":
            numel = self.sequence_method(self.shape_of(owner), "numel", [], {})
            return self.binary("*", numel, Known(owner.fake.itemsize))
        if name in ("grad", "_grad"):
            if owner.source is not None:
                return self.wrap(owner.real.grad, owner.source.attr("grad"))
            return Known(None)
        if name == "grad_fn":
            raise Break("unsupported-attribute", "Tensor.grad_fn")
        if name in _TENSOR_ATTRIBUTES:
            return self.graph_call(getattr, [owner, Known(name)])
        if name == "__class__":
            return self.trusted(owner.cls)
        if owner.real is not None and name in getattr(owner.real, "__dict__", ()):
            return self.wrap(owner.real.__dict__[name], owner.source.attr(name))
        cls = owner.cls
        found = getattr(cls, name, None)
        if found is None and not hasattr(cls, name):
            if owner.source is not None:
                self.guards.add("lacks", owner.source.attr("__dict__"), name)
            self.fail(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
        base = self.class_of_attribute(cls, name) if cls is not core.Tensor else None
        if base is not None and not issubclass(core.Tensor, base):
            return self.bind_attribute(base.__dict__[name], base, name, owner)
        if callable(found):
            return self.made(MethodValue(name, owner))
        return self._fact_of_a_tensor(owner, name)

    def _fact_of_a_tensor(self, owner: TensorValue, name: str) -> Any:
        """An attribute that is a fact about a tensor: a constant."""
        value = getattr(owner.fake, name)
        if name in _OF_THE_TAPE and owner.source is not None and not core.writes(owner.fake):
            value = getattr(owner.real, name)  # what stands for it was made a moment ago
            self.guards.add("equal", owner.source.attr(name), value)
        if isinstance(value, (*LITERAL_TYPES, core.dtype, core.device, type(core.strided))):
            return Known(value)
        if isinstance(value, tuple) and not _has_tensor(value):
            return self.constant(value)
        raise Break("unsupported-attribute", f"Tensor.{name}")

    def set_tensor_attribute(self, owner: TensorValue, name: str, value: Value) -> None:
        """`tensor.name = value`, repeated behind the graph."""
        if name == "requires_grad":
            self.graph_method("requires_grad_", owner, [value], {})
            return
        if name == "data" or (name != "grad" and hasattr(core.Tensor, name)):
            raise Break("unsupported-mutation", f"Tensor.{name} = ...")
        self.attribute_writes[(id(owner), name)] = (owner, name, value)

    # modes ----------------------------------------------------------------------------------------
    def mode_call(self, function: Any, args: list[Any]) -> Any:
        """A function that changes a mode of the thread: a node, and the change itself."""
        values = [self.constant_of(arg) for arg in args]
        recording = core.is_grad_enabled()
        if function is core.set_grad_enabled and values == [recording]:
            if is_own(self.frames[-1].globals.get("__name__")):  # a block, not the program's call
                return Known(recording)
        name = qualified_name(function).rpartition(".")[2]
        node = self._new_node("call_function", function, tuple(values), {}, None, name)
        node.meta["recording_before"] = recording
        self.mode_changes.append((function, tuple(values)))
        return self.trusted(function(*values))


def _is_new_leaf(result: Any) -> bool:
    """Whether a call made a tensor that starts to record: nothing behind a graph's end would be recorded of it."""
    if not isinstance(result, core.Tensor) or core.is_wrapper(result):
        return False
    return result.requires_grad and result.is_leaf


def _handles_calls(kind: type) -> bool:
    """Whether tensors of a class handle operators themselves, and stand for no others."""
    dispatch = getattr(kind, "__torch_dispatch__", None)
    return dispatch is not None and not getattr(kind, "_is_fake", False)


def _definition_of(target: Any) -> Definition | None:
    """The definition of what a call's target is: an operator, its form in place, or a method's name."""
    if isinstance(target, str):
        target = TABLE.get(target.removesuffix("_") if not target.endswith("__") else target)
    elif isinstance(target, core.InplaceOp):
        target = target.op
    return target.definition if isinstance(target, core.Op) else None


def _has_own_out(target: object) -> bool:
    """Whether a call is of a program's operator whose own argument is called `out`."""
    operator = getattr(target, "_op", target)
    parameters = operator.definition.schema.parameters if isinstance(operator, core.Op) else ()
    return any(p.name == "out" for p in parameters)


def _name_dtype(
    target: object, definition: Definition | None, result: Any, count: int, words: dict[str, Any]
) -> None:
    """The dtype of a tensor that is made of no other one, where the segment has changed the default."""
    if "dtype" in words or not isinstance(result, core.Tensor):
        return
    if definition is None:
        left = target is core.tensor
    else:
        parameters = definition.schema.parameters
        names = [p.name for p in parameters[count:] if p.type == "dtype"]
        left = "dtype" in names and parameters[0].type != "Tensor"
    if left:
        words["dtype"] = result.dtype, result.dtype


def _shown(target: object) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", repr(target))


def _shapes(out: object) -> list[Any]:
    """The shapes of results, or of what is given as `out=`, which operators make fit."""
    given = out if isinstance(out, (tuple, list)) else (out,)
    return [tuple(t.shape) for t in given if isinstance(t, core.Tensor)]


def _repeats(value: Any) -> bool:
    """Whether several elements of a tensor lie at one place in memory."""
    return (
        isinstance(value, core.Tensor)
        and value.layout is core.strided
        and any(
            type(stride) is int and stride == 0 and (type(size) is not int or size > 1)
            for size, stride in zip(value.shape, value.stride(), strict=True)
        )
    )


def _writes_by_index(target: Any, given: list[Any]) -> bool:
    """Whether a call writes to some elements of its first argument, which elements say."""
    if target is operator.setitem:
        places = given[1] if isinstance(given[1], tuple) else (given[1],)
        return any(isinstance(place, (core.Tensor, list)) for place in places)
    written = TABLE.get(target.removesuffix("_")) if isinstance(target, str) else None
    return written is not None and target.endswith("_") and written.definition.expanded


def _has_tensor(value: Any) -> bool:
    if isinstance(value, core.Tensor):
        return True
    if isinstance(value, (tuple, list)):
        return any(_has_tensor(item) for item in value)
    if isinstance(value, dict):
        return any(_has_tensor(item) for item in value.values())
    return False


def is_graph_value(world: Any, value: Any) -> bool:
    """Whether a value is, or holds, a tensor or a number that may change."""
    value = world.force(value)
    if isinstance(value, (TensorValue, NumberValue)):
        return True
    if isinstance(value, SequenceValue):
        return any(is_graph_value(world, item) for item in value.items)
    return False


__all__ = ["MODE_FUNCTIONS", "FunctionValue", "GraphOps", "NotGraphable", "ObjectValue"]
