"""Functions that scripted code calls and that are not compiled as they stand: ignored, unused, overloaded,
the library's own.

Takes Python functions and the arguments of a call. Gives units whose `lower_call` emits the call.
Keeps true: a function of the library is compiled from its source with the types of the call; where that
source is no TorchScript, the graph shows a `prim::PythonOp` with its name.
"""

from __future__ import annotations

import inspect
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.jit.functions import SPECIAL, Empty, FunctionUnit, make_unit, unit_of_python
from facula.jit.ir import Value
from facula.jit.marks import OVERLOADS, mark_of
from facula.jit.python_types import NoType, type_of_class
from facula.jit.python_values import is_own
from facula.jit.script_objects import converted
from facula.jit.values import Python
from facula.ops.table.schemas import types as T

__all__ = ["IgnoredUnit", "LibraryUnit", "special_unit"]


class IgnoredUnit:
    """A function left to Python, or one whose call raises."""

    def __init__(self, function: Any, self_type: T.ClassType | None = None) -> None:
        self.function, self.name = function, function.__qualname__
        self.drops = mark_of(function) == "unused"
        self.declaration = make_unit(function, self_type)

    def lower_call(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> Value:
        """The call as a node."""
        given, named = builder.plain(args, kwargs)
        inputs = builder.bind_arguments(self.declaration, given, named)
        result = self.declaration.declared_result or T.TENSOR
        if self.drops:
            text = builder.constant(
                f"the function {self.name} is marked @jit.unused: annotated to be ignored and cannot be run"
            )
            builder.emit(
                "prim::RaiseException", [text, builder.constant(None)], [], exception=RuntimeError
            )
            return builder.uninitialized(result)
        return builder.value(
            "prim::PythonOp", inputs, result, function=self._checked(result), name=self.name
        )

    def _checked(self, kind: T.Type) -> Any:
        """The function, whose results have to be of the declared type."""

        def run(*args: Any) -> Any:
            made = self.function(*args)
            if kind == T.NONE:
                return None
            try:
                return converted(made, kind, f"{self.name}() result")
            except RuntimeError:
                fail(RuntimeError, self.name, f"a result of type {kind.annotation_str} was required, as annotated, but "
                     f"instead got value of type {type(made).__name__}", made,
                     hint="change the annotation: without one the result is a tensor")  # fmt: skip

        return run

    def compiled(self) -> IgnoredUnit:
        return self

    def run(self, *args: Any) -> Any:
        return self.function(*args)


class OverloadedUnit:
    """An implementation with several declarations: the first that takes the arguments."""

    def __init__(self, function: Any, declarations: list[Any], self_type: Any = None) -> None:
        self.name = function.__qualname__
        self.candidates = []
        for declared in declarations:
            made, head = make_unit(function, self_type), make_unit(declared, self_type)
            names = [n for n, _, _ in head.parameters]
            made._read = True
            own = {p.name: p.default for p in inspect.signature(function).parameters.values()}
            made._parameters = [
                (n, k, d if d is not Empty else own.get(n, Empty)) for n, k, d in head.parameters
            ]
            assert names
            made._result = head.declared_result
            self.candidates.append(made)

    def lower_call(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> Value:
        """A call of the first declaration that fits."""
        given, named = builder.plain(args, kwargs)
        for unit in self.candidates:
            mark = len(builder.block.nodes_)
            try:
                inputs = builder.bind_arguments(unit, given, named)
            except RuntimeError:
                del builder.block.nodes_[mark:]
                continue
            return builder.value("prim::CallFunction", inputs, unit.result_type(), function=unit,
                                 name=unit.name)  # fmt: skip
        shown = ", ".join(str(v.type) for v in given)
        return builder.refuse(
            f"arguments that an overload of {self.name} takes were required", shown
        )

    def compiled(self) -> OverloadedUnit:
        return self


class LibraryUnit:
    """A function or method of the library, compiled for the types of each call."""

    def __init__(self, function: Any, self_type: T.ClassType | None = None) -> None:
        self.function, self.self_type = function, self_type
        self.name = function.__qualname__
        self.made: dict[Any, FunctionUnit | None] = {}
        self._whole: Any = None

    def compiled(self) -> Any:
        """The unit for tensors as arguments and defaults for the rest; itself where there is none."""
        if self.self_type is None:
            return self
        if self._whole is None:
            names = [
                n
                for n, p in inspect.signature(self.function).parameters.items()
                if p.default is Empty
            ]
            kinds = [self.self_type, *[T.TENSOR] * (len(names) - 1)]
            bound = {n: Value(k, None) for n, k in zip(names, kinds, strict=True)}
            self._whole = self._specialised(bound, len(self.made)) or self
            if self._whole is not self:
                self.made[tuple((n, v.type) for n, v in bound.items())] = self._whole
        return self._whole

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Python's own call, where the source is no TorchScript."""
        if self.self_type is not None:
            return self.function(shadow(args[0]), *args[1:], **kwargs)
        return self.function(*args, **kwargs)

    @property
    def graph(self) -> Any:
        """There is none."""
        fail(RuntimeError, "jit.script", "a module with a graph was required", self.name,
             hint="its source is no TorchScript: it runs in Python, inside of others as prim::PythonOp")  # fmt: skip

    def lower_call(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> Value:
        """A call of the unit for these types; of Python where there is none."""
        bound = self._bound(builder, args, kwargs)
        key = tuple((n, v.type) if isinstance(v, Value) else (n, repr(v)) for n, v in bound.items())
        if key not in self.made:
            self.made[key] = self._specialised(bound, len(self.made))
        unit = self.made[key]
        inputs = [v for v in bound.values() if isinstance(v, Value)]
        if unit is None:
            return self._python(builder, inputs, bound)
        if self.self_type is not None:
            return builder.value(
                "prim::CallMethod", inputs, unit.result_type(), name=unit.method_name
            )
        return builder.value(
            "prim::CallFunction", inputs, unit.result_type(), function=unit, name=unit.name
        )

    def _bound(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            builder.refuse(f"the arguments of {self.name} were required", str(error))
        return {
            n: v if isinstance(v, Python) else builder.as_value(v)
            for n, v in bound.arguments.items()
        }

    def _specialised(self, bound: dict[str, Any], count: int) -> FunctionUnit | None:
        try:
            unit = make_unit(self.function, self.self_type)
            unit._read = True
            unit._parameters = [
                (n, v.type, Empty) for n, v in bound.items() if isinstance(v, Value)
            ]
            given = {n: v for n, v in bound.items() if not isinstance(v, Value)}
            rest = {n: Python(v) for n, v in unit.defaults.items() if n not in bound}
            unit.presets = {**given, **rest}
            unit._result = self._annotated()
            unit.method_name = f"{unit.definition.name}__{count}"
            unit.compiled()
        except (RuntimeError, OSError, TypeError, AttributeError, KeyError, NotImplementedError):
            return None
        if self.self_type is not None:
            self.self_type.methods[unit.method_name] = unit
        return unit

    def _annotated(self) -> T.Type | None:
        try:
            kind = type_of_class(inspect.get_annotations(self.function, eval_str=True)["return"])
        except (NoType, KeyError, NameError, TypeError, AttributeError):
            return None
        return None if kind.kind == "Any" else kind

    def _python(self, builder: Any, inputs: list[Value], bound: dict[str, Any]) -> Value:
        names = [n for n, v in bound.items() if isinstance(v, Value)]
        fixed = {n: v.obj for n, v in bound.items() if isinstance(v, Python)}
        function, is_method = self.function, self.self_type is not None

        def call(*values: Any) -> Any:
            given = dict(zip(names, values, strict=True))
            if is_method:
                first = given.pop(names[0])
                return function(shadow(first), **given, **fixed)
            return function(**given, **fixed)

        result = self._result_without_source(builder)
        return builder.value("prim::PythonOp", inputs, result, function=call, name=self.name)

    def _result_without_source(self, builder: Any) -> T.Type:
        kind = self.self_type.python if self.self_type is not None else None
        if isinstance(kind, type) and self.function.__name__ == "forward":
            for known, result in RESULTS.items():
                if issubclass(kind, known):
                    return result
        found = self._annotated()
        if found is not None:
            return found
        if not is_own(builder.unit.python):
            return T.TENSOR
        return builder.refuse(
            "a library function that scripted code can call was required", self.name
        )


_STATE = T.tuple_of([T.TENSOR, T.TENSOR])
#: what modules give whose source is no TorchScript, where that is no tensor
RESULTS: dict[type, T.Type] = {
    nn.LSTM: T.tuple_of([T.TENSOR, _STATE]),
    nn.GRU: _STATE,
    nn.RNN: _STATE,
    nn.LSTMCell: _STATE,
    nn.MultiheadAttention: T.tuple_of([T.TENSOR, T.optional_of(T.TENSOR)]),
}


def shadow(module: Any) -> Any:
    """A module of the Python class that a scripted one was made from, with the same state."""
    kind = module._script_type.python
    made = kind.__new__(kind)
    object.__setattr__(made, "__dict__", module.__dict__)
    return made


def special_unit(function: Any, self_type: T.ClassType | None = None) -> Any:
    """The unit of a function that is not compiled as it stands; None for others."""
    unit = getattr(function, "_script_unit", None)
    if unit is not None:
        return unit
    original = getattr(function, "__original_fn", None)
    if original is not None:
        return unit_of_python(original)
    if mark_of(function) in ("ignore", "unused"):
        return IgnoredUnit(function, self_type)
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    if name in OVERLOADS:
        if function in OVERLOADS[name]:
            what = "function" if self_type is None else "method"
            fail(RuntimeError, "jit.script", f"an implementation behind the overloads was required "
                               f"(Implementation for the "
                 f"{what} \"{function.__qualname__}\" is missing.)", "declarations alone",
                 hint="define it once more, without the decorator")  # fmt: skip
        return OverloadedUnit(function, OVERLOADS[name], self_type)
    if is_own(function) and hasattr(function, "__code__"):
        return LibraryUnit(function, self_type)
    return None


SPECIAL.append(special_unit)
