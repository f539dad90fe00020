"""Lowering of calls: operators, methods, functions, classes, modules.

Takes syntax trees. Gives values.
Keeps true: a Python function is compiled, or marked `@ignore`, or belongs to the library; nothing else
of Python is called when the graph runs.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.jit.builder import constant_of
from facula.jit.builtin_calls import BUILTINS, OPERATOR_FORMS, type_question
from facula.jit.conditions import Condition
from facula.jit.expressions import BINARY
from facula.jit.ir import Value
from facula.jit.marks import mark_of
from facula.jit.module_contents import asks_for_contents, contents
from facula.jit.python_types import NoType, annotation_type, type_of_class, type_of_value
from facula.jit.python_values import builtin_name, wrapped
from facula.jit.signatures import primitives_of, signature_of_operator, signatures, with_out
from facula.jit.source import NotSupportedError
from facula.jit.subscripts import Subscripts
from facula.jit.values import (
    Bound,
    Items,
    Operator,
    Operators,
    Python,
    Range,
    Special,
    TypeName,
    Unit,
)
from facula.ops.table.overloads import OpOverload, Packet
from facula.ops.table.schemas import types as T

__all__ = ["Calls"]


class Calls(Subscripts):
    """The lowering of calls."""

    in_init: bool
    declared: dict[str, T.Type]
    #: gives the compiled unit of a Python function
    unit_of: Callable[[Any], Any]

    # ---- names
    def global_name(self, name: str) -> Any:
        try:
            found = self.look_up(name)
        except KeyError:
            return self.refuse(
                f"a name that is defined was required: {name!r} is not", f"undefined value {name}"
            )
        return self.wrap(found)

    def wrap(self, obj: object) -> Any:
        """What an object of the surrounding program stands for."""
        if isinstance(obj, (Operators, Operator, Special, TypeName, Unit, Value)):
            return obj
        return wrapped(obj)

    def type_of_object(self, obj: object) -> T.Type:
        try:
            return type_of_value(obj)
        except NoType as reason:
            return self.refuse("a value with a TorchScript type was required", reason)

    def annotation(self, node: ast.AST) -> T.Type:
        """The type that an annotation names."""
        try:
            return annotation_type(node, self.type_name)
        except NoType as reason:
            return self.refuse("a type that TorchScript has was required", str(reason))
        except KeyError as reason:
            return self.refuse("a type that is defined was required", str(reason))

    def type_name(self, name: str) -> Any:
        return self.look_up(name)

    def type_question(self, node: ast.Call) -> Condition | None:
        return type_question(self, node)

    def attribute_of_instance(self, value: Value, kind: T.ClassType, name: str) -> Any:
        """What a module's attribute stands for where that is no value: filled by `module_values`."""
        lookup = getattr(kind, "lookup", None)
        return lookup(self, value, name) if lookup is not None else None

    def items_of_module(self, value: Value, kind: T.ClassType) -> list[tuple[str, Value]] | None:
        """The modules in a list, sequence or dict of modules, or the parameters in such a list or dict."""
        if not kind.is_module:
            return None
        if _is_container(kind, (nn.ParameterList, nn.ParameterDict)):
            kinds = kind.attributes.items()
            names = [n for n, t in kinds if t.kind == "Tensor"]
            return [(n, self.value("prim::GetAttr", [value], T.TENSOR, name=n)) for n in names]
        return self.children(value, kind) if _is_container(kind, _OF_MODULES) else None

    def children(self, value: Value, kind: T.ClassType) -> list[tuple[str, Value]]:
        """All modules inside."""
        names = [
            n for n, t in kind.attributes.items() if isinstance(t, T.ClassType) and t.is_module
        ]
        return [
            (n, self.value("prim::GetAttr", [value], kind.attributes[n], name=n)) for n in names
        ]

    # ---- calls
    def _Call(self, node: ast.Call, hint: T.Type | None = None) -> Any:
        special = self.type_question(node)
        if special is not None:
            return self.constant(special.known) if special.value is None else special.value
        callee = self.sugared(node.func)
        if isinstance(callee, Special) or isinstance(callee, Python):
            form = BUILTINS.get(_key(callee))
            if form is not None:
                return form(self, node)
        args, kwargs = self.arguments(node)
        if isinstance(callee, Bound) and callee.name == "tolist" and callee.value.type == T.TENSOR:
            return self._as_list(callee.value, hint)
        return self.call_thing(callee, args, kwargs)

    def _as_list(self, tensor: Value, hint: T.Type | None) -> Value:
        """`x.tolist()`: how deep the list is, only the program can say."""
        item = hint
        while item is not None and item.kind == "List":
            item = item.item
        if item is None:
            self.refuse("a type for the result was required (Expected type hint for result of tolist())", "none",
                        hint="items: List[float] = x.tolist()")  # fmt: skip
        elif item not in (T.INT, T.FLOAT, T.BOOL, T.COMPLEX):
            self.refuse("a list of numbers was required (only int, float, complex and bool are supported as items of "
                        "the result of tolist())", hint, hint="items: List[float] = x.tolist()")  # fmt: skip
        assert hint is not None
        return self.value("prim::tolist", [tensor], hint)

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call; a starred tuple is its items."""
        args: list[Any] = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                args.extend(self._starred(self.sugared(each.value)))
            else:
                args.append(self.sugared(each))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.refuse("named arguments were required (keyword-arg expansion is not supported)", "**",
                            hint="write them out", error=NotSupportedError)  # fmt: skip
            assert keyword.arg is not None
            kwargs[keyword.arg] = self.sugared(keyword.value)
        return args, kwargs

    def _starred(self, thing: object) -> list[Any]:
        if isinstance(thing, Items):
            return thing.items
        value = self.as_value(thing)
        if value.type.kind == "Tuple":
            return list(self.unpack(value))
        if value.type.kind == "List":
            return [value]
        return self.refuse("a tuple behind * was required", value.type)

    def call_thing(self, callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of what an expression stands for."""
        if isinstance(callee, Python):
            return self.call_python(callee.obj, args, kwargs)
        if isinstance(callee, Bound):
            return self.call_bound(callee, args, kwargs)
        if isinstance(callee, Operator):
            if callee.name in ("aten::eq", "aten::ne") and isinstance(args[0].type, T.EnumType):
                return self.binary(callee.name[6:], args[0], self.as_value(args[1]))
            form = OPERATOR_FORMS.get(callee.name)
            if form is not None:
                return form(self, self.plain(args, kwargs)[0])
            return self.call(callee.name, *self.plain(args, kwargs))
        if isinstance(callee, Unit):
            return self.call_unit(callee.function, args, kwargs)
        if isinstance(callee, TypeName):
            return self.construct(callee.type, args, kwargs)
        if isinstance(callee, Value) and isinstance(callee.type, T.ClassType):
            name = "forward" if "forward" in callee.type.methods else "__call__"
            if callee.type.hooks or callee.type.pre_hooks:
                return self._hooked(callee, callee.type, args, kwargs)
            return self.call_method(callee, name, args, kwargs)
        shown = (
            f"cannot call a value of type {callee.type}" if isinstance(callee, Value) else callee
        )
        return self.refuse("something that can be called was required", shown)

    def _hooked(
        self, module: Value, kind: T.ClassType, args: list[Any], kwargs: dict[str, Any]
    ) -> Value:
        """A call of a module with hooks: those before `forward` may change the arguments, those behind the result."""
        # lazily: few modules have hooks
        from facula.jit.hook_signatures import check_hooks

        check_hooks(kind)
        given = [self.as_value(a) for a in args]
        for name in kind.pre_hooks:
            made = self.call_method(module, name, [self.make_tuple(given)], {})
            if made.type.kind == "Tuple":
                given = self.unpack(made)
            elif made.type != T.NONE:
                given = [made]
        result = self.call_method(module, "forward", list(given), kwargs)
        for name in kind.hooks:
            made = self.call_method(module, name, [self.make_tuple(given), result], {})
            result = result if made.type == T.NONE else made
        return result

    def plain(
        self, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Value], dict[str, Value]]:
        return [self.as_value(a) for a in args], {k: self.as_value(v) for k, v in kwargs.items()}

    def call_bound(self, bound: Bound, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A method of a value."""
        kind = bound.value.type
        if isinstance(kind, T.ClassType):
            return self.call_method(bound.value, bound.name, args, kwargs)
        if bound.name == "format" and kind == T.STR:
            return self.value("aten::format", [bound.value, *self.plain(args, {})[0]], T.STR)
        given, named = self.plain(args, kwargs)
        if kind.kind == "Tensor":
            return self._tensor_method(bound, given, named)
        if isinstance(kind, T.NamedTupleType) and bound.name == "_replace":
            return self._replaced(bound.value, kind, named)
        if not signatures(f"aten::{bound.name}"):
            self.refuse(f"a method of {kind} was required", bound.name,
                        hint="exclude None first: `assert x is not None`" if kind.kind == "Optional"
                        else "see docs/torchscript.md for the methods of lists, dicts and text")  # fmt: skip
        return self.call(f"aten::{bound.name}", [bound.value, *given], named)

    def _replaced(self, value: Value, kind: T.NamedTupleType, named: dict[str, Value]) -> Value:
        items = dict(zip(kind.fields, self.unpack(value), strict=True))
        return self.make_tuple(list({**items, **named}.values()), kind)

    def _tensor_method(self, bound: Bound, given: list[Value], named: dict[str, Value]) -> Value:
        name = bound.name
        if name == "__getitem__":
            if len(given) != 1 or named:
                self.refuse(
                    "one index was required (expected exactly 1 argument)", len(given) + len(named)
                )
            item = given[0]
            return self.tensor_index(
                bound.value, self.unpack(item) if item.type.kind == "Tuple" else [item]
            )
        dtype = _DTYPE_METHODS.get(name)
        if dtype is not None and not given and not named:
            return self.call("aten::to", [bound.value, self.constant(dtype)])
        if name == "type" and len(given) == 1 and given[0].type.kind == "int":
            return self.call("aten::to", [bound.value, *given])
        found = signatures(f"aten::{name}")
        if not found:
            method = core.operator_of(getattr(core.Tensor, name, None))
            if isinstance(method, (core.Op, core.InplaceOp)):
                signature = signature_of_operator(method)
                return self.call(signature.name, [bound.value, *given], named, [signature])
            self.refuse("a method that scripted tensors have was required",
                        f"'Tensor' object has no attribute or method {name!r}")  # fmt: skip
        return self.call(f"aten::{name}", [bound.value, *given], named)

    def call_method(
        self, value: Value, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Value:
        """A method of an object or module."""
        kind = value.type
        assert isinstance(kind, T.ClassType)
        if asks_for_contents(kind, name):
            return contents(self, value, name)
        if name not in kind.methods:
            self.refuse(f"a method that {kind} has was required", name)
        unit = kind.methods[name]
        return self.call_unit(unit, [value, *args], kwargs, method=name)

    def call_unit(
        self, unit: Any, args: list[Any], kwargs: dict[str, Any], method: str = ""
    ) -> Value:
        """A call of a compiled function."""
        special = getattr(unit, "lower_call", None)
        if special is not None:
            return special(self, args, kwargs)
        function = self._compiled(unit)
        given, named = self.plain(args, kwargs)
        inputs = self.bind_arguments(function, given, named)
        if method:
            return self.value("prim::CallMethod", inputs, function.result_type(), name=method)
        return self.value("prim::CallFunction", inputs, function.result_type(), function=unit,
                          name=unit.name)  # fmt: skip

    def _compiled(self, unit: Any) -> Any:
        """A function that is called here; what is wrong with it says who calls it."""
        try:
            return unit.compiled()
        except RuntimeError as error:
            text = str(error)
            named = f"{unit.name.rpartition('.')[2]!r} is being compiled since it was called from "
            if error.args and isinstance(error.args[0], str) and self.place is not None:
                body, mark, hint = text.rpartition("\nhint: ")
                body = body if mark else text
                caller = getattr(getattr(self, "unit", None), "name", "").rpartition(".")[2]
                error.args = (
                    f"{body}\n{named}{caller!r}\n{self.place.shown()}{mark}{hint if mark else ''}",
                    *error.args[1:],
                )
            raise

    def bind_arguments(
        self, function: Any, given: list[Value], named: dict[str, Value]
    ) -> list[Value]:
        """The arguments of a compiled function in order, converted to its types."""
        inputs = []
        rest, left = list(given), dict(named)
        for name, kind, default in function.parameters:
            if rest:
                value = rest.pop(0)
            elif name in left:
                value = left.pop(name)
            elif default is not inspect.Parameter.empty:
                value = self.python_constant(default)
            else:
                self.refuse(
                    f"a value for the argument {name!r} of {function.name} was required",
                    f"Argument {name} not provided.",
                )
            length = getattr(function, "lengths", {}).get(name, 0)
            made = self.fitted(value, kind, length=length)
            if made is None:
                self.refuse(f"arguments that {function.name} takes were required", self.unfit(value, name, kind),
                            hint="convert the value, or change the annotation")  # fmt: skip
            assert made is not None
            inputs.append(made)
        if rest or left:
            most = len(function.parameters)
            extra = (
                f"the argument {next(iter(left))!r}, Unknown keyword argument"
                if left
                else f"{len(rest)} more: Expected at most {most} arguments but found {most + len(rest)}"
            )
            self.refuse(f"the arguments of {function.name} were required", extra)
        return inputs

    def construct(self, kind: T.Type, args: list[Any], kwargs: dict[str, Any]) -> Value:
        """A call of a class."""
        if isinstance(kind, T.NamedTupleType):
            return self._named_tuple(kind, args, kwargs)
        if isinstance(kind, T.EnumType):
            self.refuse("a member of the enumeration was required", f"a call of {kind.name}",
                        hint="write Class.MEMBER")  # fmt: skip
        assert isinstance(kind, T.ClassType)
        made = self.value("prim::CreateObject", [], kind)
        if "__init__" in kind.methods:
            self.call_method(made, "__init__", args, kwargs)
        return made

    def _named_tuple(
        self, kind: T.NamedTupleType, args: list[Any], kwargs: dict[str, Any]
    ) -> Value:
        given, named = self.plain(args, kwargs)
        items: list[Value] = []
        for name, wanted in zip(kind.fields, kind.inner, strict=True):
            if given:
                value = given.pop(0)
            elif name in named:
                value = named.pop(name)
            elif name in kind.defaults:
                value = self.python_constant(kind.defaults[name])
            else:
                self.refuse(f"a value for the field {name!r} was required", "none")
            made = self.fitted(value, wanted)
            if made is None:
                self.refuse(f"fields that {kind.name} has were required", self.unfit(value, name, wanted),
                            hint="convert the value, or change the annotation")  # fmt: skip
            assert made is not None
            items.append(made)
        return self.make_tuple(items, kind)

    def converted(self, value: Value, kind: T.Type) -> Value:
        raise NotImplementedError

    # ---- Python's objects
    def call_python(self, obj: object, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of an object of the surrounding program."""
        if isinstance(obj, functools.partial):
            bound = {name: self.wrap(value) for name, value in obj.keywords.items()}
            args = [*map(self.wrap, obj.args), *args]
            return self.call_python(obj.func, args, {**bound, **kwargs})
        obj = core.operator_of(obj)
        name = builtin_name(obj)
        if name is not None:
            given, named = self.plain(args, kwargs)
            return self.call(name, given, named)
        if isinstance(obj, (Packet, OpOverload)):
            given, named = self.plain(args, kwargs)
            return self.call(obj._qualified_op_name.partition(".")[0], given, named)
        if isinstance(obj, (core.Op, core.InplaceOp)):
            signature = signature_of_operator(obj)
            given, named = self.plain(args, kwargs)
            return self.call(
                signature.name,
                given,
                named,
                [*primitives_of(signature.name), signature, *with_out(signature)],
            )
        if isinstance(obj, type):
            return self._class(obj, args, kwargs)
        if isinstance(obj, nn.Module) and not getattr(obj, "_script_type", None):
            return self._python_call(obj, args, kwargs)
        if callable(obj) and mark_of(type(obj).__call__) == "ignore":
            return self._python_call(obj, args, kwargs)
        if isinstance(obj, nn.Module):
            self.refuse("a module that is an attribute of the caller was required",
                        f"{type(obj).__name__}: Cannot call a ScriptModule that is not a submodule of the caller",
                        hint="make it an attribute, and call self.name(...)")  # fmt: skip
        if callable(obj) and not self.unit_is_archive():
            return self.call_unit(self.unit_of(obj), args, kwargs)
        return self.refuse("something that can be called was required", repr(obj)[:80])

    def _python_call(self, obj: Any, args: list[Any], kwargs: dict[str, Any]) -> Value:
        """A call that stays Python's: of a module that is no part of the script, or of an object whose class "
        "says so."""
        if kwargs or self.unit_is_archive():
            self.refuse(
                "arguments by position were required in a call that stays Python's",
                ", ".join(kwargs),
            )
        method = type(obj).__call__ if not isinstance(obj, nn.Module) else type(obj).forward
        try:
            said = inspect.get_annotations(method, eval_str=True).get("return")
        except NameError:  # what a name in quotes stands for may be gone
            said = None
        result = T.TENSOR if said is None else type_of_class(said)
        name = type(obj).__qualname__
        return self.value(
            "prim::PythonOp", self.plain(args, {})[0], result, function=obj, name=name
        )

    def _class(self, obj: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if issubclass(obj, enum.Enum) and len(args) == 1:
            known, value = constant_of(args[0])
            if known:
                return self.python_constant(obj(value))
        if issubclass(obj, BaseException):
            self.refuse("a value was required", f"{obj.__name__}(...), which cannot be used as a value",
                        hint="raise it")  # fmt: skip
        try:
            kind = type_of_class(obj)
        except NoType as reason:
            return self.refuse("a class that can be scripted was required", str(reason))
        return self.construct(kind, args, kwargs)

    # ---- iterables
    def iterable(self, thing: object) -> Items | Range:
        """What a loop goes through."""
        if isinstance(thing, (Items, Range)):
            return thing
        if isinstance(thing, Python) and isinstance(thing.obj, (list, tuple)):
            return Items([self.wrap(v) for v in thing.obj])
        if isinstance(thing, Python) and isinstance(thing.obj, enum.EnumMeta):
            members: list[Any] = list(thing.obj)
            return Items([self.python_constant(m) for m in members])
        value = self.as_value(thing)
        kind = value.type
        if isinstance(kind, T.ClassType):
            items = self.items_of_module(value, kind)
            if items is not None:
                wants_keys = getattr(kind.python, "__name__", "") in ("ModuleDict", "ParameterDict")
                return Items([self.constant(n) if wants_keys else v for n, v in items])
        if kind.kind == "Tuple":
            return Items(self.unpack(value))
        if kind.kind == "Dict":
            value = self.call("aten::keys", [value])
        if kind.kind == "Tensor":
            length = self.call("aten::len", [value])
            return Range(length, lambda i: self.call("aten::select", [value, self.constant(0), i]))
        if value.type.kind not in ("List", "str"):
            self.refuse("something to loop over was required", f"'{kind}' object is not iterable",
                        hint="a list, tuple, dict, tensor, text, range(), zip() or enumerate()")  # fmt: skip
        length = self.call("aten::len", [value])
        return Range(length, lambda i: self.call("aten::__getitem__", [value, i]))

    def augmented(self, op: ast.operator, current: Value, given: Value) -> Value:
        """`x op= y` for values that are no tensors."""
        name = BINARY[type(op)]
        kind = current.type
        if isinstance(kind, T.ClassType):
            method = f"__i{name}__"
            if method in kind.methods:
                return self.call_method(current, method, [given], {})
        return self.binary(name, current, given)


_DTYPE_METHODS = {
    "byte": 0, "char": 1, "short": 2, "int": 3, "long": 4, "half": 5, "float": 6, "double": 7,
    "cfloat": 9, "cdouble": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip


def _key(callee: Any) -> Any:
    obj = callee.obj if isinstance(callee, Python) else callee.name
    try:
        hash(obj)
    except TypeError:
        return None
    return obj


_OF_MODULES = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


def _is_container(kind: T.ClassType, containers: tuple[type, ...]) -> bool:
    return isinstance(kind.python, type) and issubclass(kind.python, containers)
