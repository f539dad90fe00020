"""`trace`: a graph of what a function or module does with example inputs.

Takes a function or module and inputs. Gives a scripted one without branches.
Keeps true: every operator that runs is a node, with PyTorch's names; sizes, numbers and branches are those
of the example; a tensor that is turned into a number warns; the result is compared with a second run.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import facula
from facula import core, nn
from facula.core.errors import fail
from facula.jit._state import _enabled
from facula.jit.functions import Empty, FunctionUnit, Lowering, make_unit
from facula.jit.ir import Value
from facula.jit.marks import TRACING, mark_of
from facula.jit.modules import module_attributes
from facula.jit.packed_types import type_of_object
from facula.jit.python_types import named_tuple, qualified_name
from facula.jit.script_objects import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    script_module,
)
from facula.jit.source import Source
from facula.jit.traced_results import TracerWarning, allowed, warn_of_constant
from facula.jit.traced_sizes import TracedInt, plain, sized
from facula.jit.values import Bound
from facula.namespaces.overrides import TorchFunctionMode, as_operator
from facula.nn import Module
from facula.nn.utils.rnn import PackedSequence
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED, code_of

__all__ = ["TracerWarning", "trace", "trace_module"]


class TracingCheckError(Exception):
    """A trace that does something else for the same inputs.

    Args:
        graph_diff_error: how the graphs differ; None where they do not
        tensor_compare_error: how constants differ
        extra_msg: what to add

    Example:
        >>> str(facula.jit.TracingCheckError("graphs differ", None)).splitlines()[0]
        'Tracing failed sanity checks!'
    """

    def __init__(
        self,
        graph_diff_error: str | None,
        tensor_compare_error: str | None,
        extra_msg: str | None = None,
    ) -> None:
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        for title, text in (
            ("ERROR: Graphs differed across invocations!", graph_diff_error),
            (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations.",
                tensor_compare_error,
            ),
        ):
            if text is not None:
                self.message += f"{title}\n{text}\n"
        super().__init__(self.message)


class _Recorder(Lowering):
    """Appends nodes for calls that have run."""

    def __init__(self, unit: FunctionUnit) -> None:
        super().__init__(unit)
        self.known: dict[int, tuple[Any, Value]] = {}
        self.paths: dict[int, tuple[Value, list[str]]] = {}
        #: the modules inside of the traced one: the names on the way
        self.modules: dict[int, list[str]] = {}

    # ---- values of what Python has
    def of(self, obj: object) -> Any:
        """The value of an argument."""
        if isinstance(obj, core.Tensor):
            return self._tensor(obj)
        if isinstance(obj, TracedInt):
            return obj.value()
        if isinstance(obj, CODED):
            return self.constant(code_of(obj))
        if id(obj) in self.paths:  # packed parameters
            return self._at(*self.paths[id(obj)])
        if isinstance(obj, (list, tuple)):
            items = [self.of(v) for v in obj]
            if isinstance(obj, tuple) or not items:
                return self.make_tuple(items)
            return self.list_of_values(items, None)
        if isinstance(obj, dict):
            pairs = [self.of(v) for pair in obj.items() for v in pair]
            return self.dict_of_values(pairs, None)
        return self.constant(obj)

    def _tensor(self, tensor: core.Tensor) -> Value:
        found = self.known.get(id(tensor))
        if found is not None:
            return found[1]
        place = self.paths.get(id(tensor))
        if place is None and tensor.requires_grad:
            fail(RuntimeError, "jit.trace", "tensors without gradients were required besides inputs and parameters "
                 "(Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, "
                 "or detaching the gradient)", f"one of shape {tuple(tensor.shape)}",
                 hint="detach it before the trace, or make it a parameter of the traced module")  # fmt: skip
        if place is None:
            made = self.constant(tensor.detach().as_subclass(core.Tensor))
        else:
            made = self._at(*place)
        self.note(tensor, made)
        return made

    def _at(self, made: Value, names: list[str]) -> Value:
        """What lies below a module, by the names on the way."""
        for name in names:
            assert isinstance(made.type, T.ClassType)
            made = self.value("prim::GetAttr", [made], made.type.attributes[name], name=name)
        return made

    def place_of(self, module: Module) -> Value:
        """The value of a module inside of the traced one."""
        path = self.modules.get(id(module))
        if path is None:
            fail(RuntimeError, "jit.trace", "modules inside of the traced one were required (Tried to trace "
                 f"{module.original_name}, but it is not part of the active trace. Modules that are called during "
                 "a trace must be registered as submodules of the thing being traced.)", module.original_name,
                 hint="make it an attribute of the module that is traced")  # fmt: skip
        return self._at(self.graph.parameters[0], path)

    def note(self, obj: object, value: Value) -> None:
        """Remember the value of a result."""
        if isinstance(obj, core.Tensor):
            self.known[id(obj)] = obj, value
        elif isinstance(obj, (tuple, list)) and value.type.kind == "Tuple":
            for each, item in zip(obj, self.unpack(value), strict=True):
                self.note(each, item)
        elif isinstance(obj, (tuple, list)) and value.type.kind == "List":
            node = self.emit("prim::ListUnpack", [value], [value.type.item] * len(obj))
            for each, item in zip(obj, node.outputs_, strict=True):
                self.note(each, item)
        elif isinstance(obj, dict) and value.type.kind == "Dict":
            for key, each in obj.items():
                self.note(each, self.call("aten::__getitem__", [value, self.constant(key)]))

    # ---- calls
    def record(
        self, function: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
    ) -> None:
        """A node for a call that gave a result."""
        name = getattr(function, "__name__", "")
        if name == "__setitem__":
            view, indices = self._index(args[0], args[1])
            self._write(view, indices, args[2])
            return
        if name == "__getitem__":
            view, indices = self._index(args[0], args[1])
            found = self.call("aten::index", [view, self._index_list(indices)]) if indices else view
            self.note(result, found)
            return
        out = kwargs.get("out")
        if isinstance(out, (tuple, list)):
            self._record_outputs(function, args, kwargs, out)
            return
        given = [self.of(a) for a in args]
        named = {k: self.of(v) for k, v in kwargs.items() if v is not None}
        if isinstance(function, (core.Op, core.InplaceOp)):
            made = self.call_python(function, given, named)
        elif args and isinstance(args[0], core.Tensor):
            made = self.call_bound(Bound(given[0], name), given[1:], named)
        else:
            return  # made of numbers alone: a constant where it is used
        self.note(result, made)

    def _record_outputs(
        self, function: object, args: Any, kwargs: dict[str, Any], out: Any
    ) -> None:
        """A call that writes several results into tensors: its results, and copies of them."""
        given = [self.of(a) for a in args]
        named = {k: self.of(v) for k, v in kwargs.items() if v is not None and k != "out"}
        for each, item in zip(
            out, self.unpack(self.call_python(function, given, named)), strict=True
        ):
            self.note(each, self.call("aten::copy_", [self.of(each), item, self.constant(False)]))

    def _index(self, tensor: core.Tensor, index: object) -> tuple[Value, list[Value | None]]:
        parts = index if isinstance(index, tuple) else (index,)
        value, indices, dim = self.of(tensor), [], 0  # type: ignore[var-annotated]
        whole = sum(p is not None and p is not Ellipsis for p in parts)
        for part in parts:
            if part is Ellipsis:
                dim += tensor.dim() - whole
            elif isinstance(part, slice):
                if part != slice(None):
                    bounds = [self.of(b) for b in (part.start, part.stop)]
                    step = self.constant(1 if part.step is None else part.step)
                    value = self.call("aten::slice", [value, self.constant(dim), *bounds, step])
                dim += 1
            elif part is None:
                value = self.call("aten::unsqueeze", [value, self.constant(dim)])
                dim += 1
            elif isinstance(part, int) and not isinstance(part, bool):
                value = self.call("aten::select", [value, self.constant(dim), self.of(part)])
            else:
                place = self.of(part if isinstance(part, core.Tensor) else facula.tensor(part))
                indices += [None] * (dim - len(indices)) + [place]
                dim += 1
        return value, indices

    def _write(self, view: Value, indices: list[Value | None], given: object) -> None:
        value = self.of(given)
        if not isinstance(given, core.Tensor):
            options = {
                "dtype": self.call("prim::dtype", [view]),
                "device": self.call("prim::device", [view]),
            }
            value = self.call("aten::tensor", [value], options)
        if indices:
            self.call(
                "aten::index_put_", [view, self._index_list(indices), value, self.constant(False)]
            )
        else:
            self.call("aten::copy_", [view, value, self.constant(False)])


class _Mode(TorchFunctionMode):
    """Hears of every function while a trace runs."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder, self.paused = recorder, False

    def __torch_function__(
        self, func: Any, types: object, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.paused:
            return func(*args, **(kwargs or {}))
        self.paused = True  # what the library does inside is no part of the trace
        try:
            result = func(*plain(args), **plain(kwargs or {}))
        finally:
            self.paused = False
        name = getattr(func, "__name__", "")
        if name in ("item", "_item", "__bool__"):
            words = {bool: "boolean", int: "integer"}
            self.warn(f"Python {words.get(type(result), type(result).__name__)}", stacklevel=4)
        if _holds_tensors(result) or name == "__setitem__":
            if not (args and result is args[0]):
                result = sized(result)
            self.recorder.record(*as_operator(func, args), kwargs or {}, result)
        return result

    warn = staticmethod(warn_of_constant)

    def count(self, name: str, value: int) -> None:
        """Keeps what the program adds to a counter."""
        if not self.paused:
            recorder = self.recorder
            recorder.call("prim::AddStatValue", [recorder.constant(name), recorder.constant(value)])

    def keeps_call(self, unit: Any, values: list[Any]) -> bool:
        """Whether a call of a script stays one: of a function, or of a module inside of the traced one."""
        if self.paused or unit.self_type is None:
            return not self.paused
        return (
            isinstance(values[0], ScriptModule) and self.recorder.modules.get(id(values[0])) != []
        )

    def call_unit(self, unit: Any, name: str, values: list[Any]) -> Any:
        """A script that the traced program calls: it stays a call, with its branches."""
        if unit.self_type is not None:
            place = self.recorder.place_of(values[0])
            inputs = [self.recorder.of(v) for v in values[1:]]
            made = self.recorder.call_method(place, name, inputs, {})
        else:
            inputs = [self.recorder.of(v) for v in values]
            made = self.recorder.value("prim::CallFunction", inputs, unit.result_type(),
                                       function=unit, name=unit.name)  # fmt: skip
        self.paused = True
        try:
            result = sized(unit.run(*plain(values)))
        finally:
            self.paused = False
        self.recorder.note(result, made)
        return result


def _holds_tensors(obj: object) -> bool:
    if isinstance(obj, (tuple, list)):
        return any(map(_holds_tensors, obj))
    return isinstance(obj, core.Tensor)


def _inputs(example: object) -> tuple[Any, ...]:
    if isinstance(example, tuple):
        return example
    return tuple(example) if isinstance(example, list) else (example,)


def _unit(name: str, function: Callable[..., Any], kind: T.ClassType | None) -> FunctionUnit:
    definition = ast.FunctionDef(name, ast.arguments([], [], None, [], [], None, []), [], [])
    unit = FunctionUnit(name, definition, Source("", "<trace>"), lambda n: None, {}, kind)
    unit._read = True
    return unit


def _record(
    function: Callable[..., Any], call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    kind: T.ClassType | None,
    module: Any, name: str, strict: bool = False,
) -> FunctionUnit:  # fmt: skip
    """The unit of one traced call; `strict` refuses results whose form may depend on the inputs."""
    unit = _unit(name, function, kind)
    recorder = _Recorder(unit)
    if kind is not None:
        owner = recorder.graph.add_parameter(kind, "self")
        unit._parameters.append(("self", kind, Empty))
        for path, tensor in [*module.named_parameters(remove_duplicate=False),
                             *module.named_buffers(remove_duplicate=False)]:  # fmt: skip
            recorder.paths[id(tensor)] = owner, path.split(".")
        for path, part in module.named_modules():
            recorder.modules[id(part)] = path.split(".") if path else []
            for own, value in vars(part).items():
                if type_of_object(value) is not None:
                    recorder.paths[id(value)] = owner, [*path.split("."), own] if path else [own]
    bound = inspect.signature(function).bind(*args, **kwargs)
    names = [n for n in bound.arguments if n != "self"]
    listed = [bound.arguments[n] for n in names]
    if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values()):
        listed = [*args, *kwargs.values()]
        names = [f"input_{i}" for i in range(len(listed))]
    given = [sized(_fresh(v)) for v in listed]
    for own, value in zip(names, given, strict=True):
        of = _traceable(value)
        made = recorder.graph.add_parameter(of, own)
        unit._parameters.append((own, of, Empty))
        recorder.note(value, made)
    mode = _Mode(recorder)
    TRACING.append(mode)
    replaced = _keep_recurrent(mode, module, unit) if kind is not None else []
    try:
        with mode:
            result = call(*given)
    finally:
        TRACING.pop()
        for each in replaced:
            del each.__dict__["forward"]
    made = recorder.of(allowed(result, strict))
    recorder.graph.results = [made]
    unit.found_result = unit._result = made.type
    unit.graph = recorder.graph
    return unit


def _keep_recurrent(mode: _Mode, module: Module, unit: FunctionUnit) -> list[Any]:
    """Recurrent layers stay calls: their operators for single layers are the library's own."""
    owner, changed = mode.recorder.graph.parameters[0], []
    for path, child in module.named_modules():
        kept = isinstance(child, (nn.LSTM, nn.GRU, nn.RNN)) or hasattr(child, "_script_forward")
        if not kept or "forward" in vars(child):
            continue
        if path:
            child.__dict__["forward"] = partial(_recurrent, mode, child, owner, path.split("."))
            changed.append(child)
    return changed


def _recurrent(mode: _Mode, child: Module, owner: Value, path: list[str], *args: object) -> Any:
    """Runs a recurrent layer unheard, and records the call of its scripted form."""
    recorder = mode.recorder
    place = recorder._at(owner, path)
    given = [recorder.of(a) for a in args]
    if isinstance(args[0], PackedSequence):
        sequence = named_tuple(PackedSequence)
        items = zip(recorder.unpack(given[0]), sequence.inner, strict=True)
        given[0] = recorder.make_tuple([recorder.converted(v, t) for v, t in items], sequence)
    made = recorder.call_method(place, "forward", given, {})
    mode.paused = True
    try:
        result = sized(type(child).forward(child, *args))
    finally:
        mode.paused = False
    recorder.note(result, made)
    return result


def _fresh(value: object) -> Any:
    """An input as an object of its own: the same tensor twice is two inputs."""
    if isinstance(value, core.Tensor):
        return (
            value.detach().requires_grad_(value.requires_grad)
            if value.requires_grad
            else value.view_as(value)
        )
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_fresh(v) for v in value)
    return {k: _fresh(v) for k, v in value.items()} if type(value) is dict else value


def _traceable(value: object) -> T.Type:
    """The type of an input."""
    made = _type(value)
    if not _of_tensors(made):
        fail(RuntimeError, "jit.trace", "inputs that are tensors, lists, tuples or dicts of them were required (Type "
             f"'Tuple[{made.annotation_str}]' cannot be traced)", made.annotation_str,
             hint="bind other arguments with functools.partial")  # fmt: skip
    return made


def _of_tensors(kind: T.Type) -> bool:
    """Whether all that a type holds, but the keys of dictionaries, is tensors."""
    inner = kind.inner[1:] if kind.kind == "Dict" else kind.inner
    return (
        kind.kind == "Tensor"
        or bool(inner or kind.kind == "Tuple")
        and all(map(_of_tensors, inner))
    )


_NUMBERS = {int: T.INT, float: T.FLOAT, bool: T.BOOL, str: T.STR, complex: T.COMPLEX, type(None): T.NONE}  # fmt: skip


def _type(value: object) -> T.Type:
    if isinstance(value, core.Tensor):
        return T.TENSOR
    if isinstance(value, list):
        return T.list_of(_same(value, "List", "list"))
    if isinstance(value, tuple):
        return T.tuple_of([_type(v) for v in value])
    if isinstance(value, dict):
        return T.dict_of(
            _same(list(value), "Dictionary", "dict"),
            _same(list(value.values()), "Dictionary", "dict"),
        )
    return _NUMBERS.get(type(value)) or fail(
        RuntimeError, "jit.trace", "inputs that are tensors, lists, tuples or dicts of them were required",
        type(value).__name__, hint="bind other arguments with functools.partial",
    )  # fmt: skip


def _same(items: list[Any], word: str, container: str) -> T.Type:
    """The one type of what a container holds."""
    kinds = [_type(v) for v in items]
    if not kinds:
        lacks = (
            "List trace inputs must have elements"
            if word == "List"
            else "Dictionary inputs must have entries"
        )
        fail(RuntimeError, "jit.trace", f"inputs whose types can be told were required ({lacks})",
             f"an empty {container}", hint="bind it with functools.partial")  # fmt: skip
    other = [kind for kind in kinds if kind != kinds[0]]
    if other:
        fail(RuntimeError, "jit.trace", f"one type in each {container} was required ({word} inputs to traced functions "
             "must have consistent element type)", f"{kinds[0].annotation_str} and {other[0].annotation_str}",
             hint="give a tuple, whose items may be of different types")  # fmt: skip
    return kinds[0]


def _clones(value: object) -> Any:
    if isinstance(value, core.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_clones(v) for v in value)
    return {k: _clones(v) for k, v in value.items()} if isinstance(value, dict) else value


def _flat(value: object) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _flat(v)] if isinstance(value, (tuple, list)) else [value]


def _check(
    traced: Any, original: Callable[..., Any], args: tuple[Any, ...], tolerance: float
) -> None:
    """Warns where a second run gives something else than the trace."""
    with facula.random.fork_rng():
        state = facula.get_rng_state()
        expected = original(*_clones(args))
        facula.set_rng_state(state)
        got = traced(*_clones(args))
    for i, (a, b) in enumerate(zip(_flat(got), _flat(expected), strict=False)):
        if isinstance(a, core.Tensor) and not facula.allclose(
            a, b, rtol=tolerance, atol=tolerance, equal_nan=True
        ):
            warnings.warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding output of the Python "
                "function. The function is random, or depends on more than its inputs.",
                TracerWarning, stacklevel=4,
            )  # fmt: skip


def _check_graph(unit: FunctionUnit, again: Callable[[], FunctionUnit]) -> None:
    """Raises where a second trace, with inputs that may be others, is another graph.

    What draws random numbers, or reads what it changed, is told by the results instead.
    """
    with facula.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        second = again().graph
    first = unit.graph
    one, two = _text(first), _text(second)
    if one != two:
        lines = difflib.ndiff(one.splitlines(), two.splitlines())
        raise TracingCheckError("Graph diff:\n" + "\n".join("\t" + line for line in lines), None)
    for a, b in zip(
        first.findAllNodes("prim::Constant"), second.findAllNodes("prim::Constant"), strict=True
    ):
        x, y = a.attributes.get("value"), b.attributes.get("value")
        if isinstance(x, core.Tensor) and not (
            isinstance(y, core.Tensor)
            and x.shape == y.shape
            and facula.allclose(x, y, equal_nan=True)
        ):
            raise TracingCheckError(None, f"Node:\n\t{a}\n\tthe values are {x}\n\tand {y}")


def _text(graph: object) -> str:
    """A graph without the places in the source."""
    return re.sub(r" # .*", "", str(graph))


def trace(
    func: Callable[..., Any],
    example_inputs: object = None,
    optimize: object = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: object = None,
    _compilation_unit: object = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """The scripted form of what a function or module does with example inputs: one path, without
    Python's control flow.

    Args:
        func: a function of tensors, or a module
        example_inputs: a tuple of tensors, or one
        optimize: an older argument without effect
        check_trace: whether a second trace, and the original, are compared with it
        check_inputs: further inputs for that
        check_tolerance: how far results may be apart
        strict: whether results that are lists or dictionaries are errors
        example_kwarg_inputs: keyword arguments, in place of ``example_inputs``

    Raises:
        TracingCheckError: the trace does something else than the original.

    Example:
        >>> traced = facula.jit.trace(lambda x: x.sin() + 1, facula.zeros(2))
        >>> traced(facula.zeros(3))
        tensor([1., 1., 1.])
    """
    if not _enabled:
        return func
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op.", stacklevel=2
        )
        return func
    kwargs = example_kwarg_inputs or {}
    args = _inputs(example_inputs) if example_inputs is not None else ()
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module) and func.__name__ != "forward":
        fail(AttributeError, "jit.trace", "a module or a function was required (trace doesn't support compiling "
             "individual module's functions)", f"the method {func.__name__}",
             hint="trace_module(module, {'method': inputs}) traces methods")  # fmt: skip
    func = owner if isinstance(owner, Module) else func
    if isinstance(func, Module):
        given = {"forward": kwargs or args}
        return trace_module(func, given, None, check_trace, check_inputs, check_tolerance, strict)
    name = qualified_name(func) if hasattr(func, "__qualname__") else "__torch__.traced"
    unit = _record(
        func, lambda *a: _call(func, kwargs, len(args), a), args, kwargs, None, None, name, strict
    )
    unit.definition.name = getattr(func, "__name__", "traced").replace("<lambda>", "lambda_")
    made = ScriptFunction(unit)
    made.__wrapped__ = func
    if check_trace and not kwargs:
        for each in [args, *map(_inputs, check_inputs or ())]:
            given = _clones(each)
            again = partial(_record, func, partial(_spread, func, kwargs, len(args)), given, kwargs,
                            None, None, name)  # fmt: skip
            _check_graph(unit, again)
            _check(made, func, each, check_tolerance)
    return made


def _call(func: Any, kwargs: dict[str, Any], count: int, values: tuple[Any, ...]) -> Any:
    return func(*values[:count], **dict(zip(kwargs, values[count:], strict=True)))


def _spread(func: Callable[..., Any], kwargs: dict[str, Any], count: int, *values: object) -> Any:
    return _call(func, kwargs, count, values)


def trace_module(
    mod: nn.Module,
    inputs: dict[str, Any],
    optimize: object = None,
    check_trace: bool = True,
    check_inputs: object = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    **options: object,
) -> Any:
    """The scripted form of a module: each method as it runs with its example inputs.

    Args:
        mod: the module
        inputs: example inputs by name of method
        optimize: an older argument without effect
        check_trace: whether a second trace, and the original, are compared with it
        check_inputs: further inputs for that
        check_tolerance: how far results may be apart
        strict: whether results that are lists or dictionaries are errors

    Example:
        >>> traced = facula.jit.trace_module(facula.nn.ReLU(), {"forward": facula.zeros(2)})
        >>> traced(facula.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    if not _enabled:
        return mod
    if not isinstance(mod, Module):
        fail(AttributeError, "jit.trace_module", "expected torch.nn.Module as the first argument",
             type(mod).__name__, hint="jit.trace() traces functions")  # fmt: skip
    hooked = [path or type(mod).__name__ for path, m in mod.named_modules() if m._backward_hooks]
    if hooked:
        fail(ValueError, "jit.trace", "modules without backward hooks were required (Modules that have backward "
             "hooks assigned can't be compiled)", ", ".join(hooked),
             hint="take the hooks away for the trace")  # fmt: skip
    kind = T.ClassType(qualified_name(type(mod)), True, type(mod))
    module_attributes(kind, mod)
    for method, example in inputs.items():
        kwargs = example if isinstance(example, dict) else {}
        args = () if kwargs else _inputs(example)
        function = getattr(mod, method)
        call = mod if method == "forward" else function
        run = partial(_spread, call, kwargs, len(args))
        unit = _record(function, run, args, kwargs, kind, mod, method, strict)
        kind.methods[method] = unit
    for name, function in inspect.getmembers(type(mod), inspect.isfunction):
        if mark_of(function) == "export" and name not in inputs:
            kind.methods[name] = make_unit(function, kind).compiled()
    made: RecursiveScriptModule = script_module(mod, kind)
    _without_hooks(made, mod)
    for method, example in inputs.items() if check_trace else ():
        if not isinstance(example, dict):
            original = mod if method == "forward" else getattr(mod, method)
            _check(getattr(made, method), original, _inputs(example), check_tolerance)
    return made


def _without_hooks(made: Module, traced: Module) -> None:
    """What hooks did is part of the graph: the traced module does not run them once more."""
    own = {id(m) for m in traced.modules()}
    for module in made.modules():
        if id(module) not in own:
            vars(module)["_forward_hooks"], vars(module)["_forward_pre_hooks"] = (
                OrderedDict(),
                OrderedDict(),
            )


def trace_graph(
    f: Callable[..., Any],
    args: object = (),
    kwargs: dict[str, Any] | None = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> Any:
    """The graph of what a function or module does with example inputs, and its results.

    Args:
        f: a function of tensors, or a module
        args: example inputs, or one
        kwargs: keyword arguments, in place of ``args``
        strict: kept as in PyTorch
        return_inputs: whether the inputs are given, too

    Returns:
        the graph, the results, and the inputs where they are asked for.
    """
    traced = trace(f, None if kwargs else args, check_trace=False, example_kwarg_inputs=kwargs)
    given = _inputs(args)
    results = f(*_clones(given), **(kwargs or {}))
    graph = traced.inlined_graph
    return (graph, results, given) if return_inputs else (graph, results)
