"""Rules that ask about values, and convert them.

Takes and gives: symbolic values.
Keeps true: asking about a value looks at no more of it than the answer needs.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.interpreter.concrete import BINARY, COMPARE, UNARY
from facula.capture.rules.callables import RULES, Rule, rule
from facula.capture.values.kinds import (
    ArrayValue,
    FunctionValue,
    Known,
    MethodValue,
    NumberValue,
    ObjectValue,
    SequenceValue,
    TensorValue,
    follows_float,
)

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


@rule(isinstance)
def _isinstance(d: Symbolic, args: list, kwargs: dict) -> Any:
    value, kinds = d.force(args[0]), d.force(args[1])
    if isinstance(kinds, ObjectValue) and kinds.kind.__module__ == "typing":
        d.guards.add("is", kinds.source, kinds.real)  # `typing.Sequence` and its like
        kinds = kinds.real
    else:
        kinds = d.constant_of(kinds)
    try:
        isinstance(None, kinds)
    except TypeError as error:
        d.raise_host(error)
    cls = value.cls
    if isinstance(value, Known):
        return Known(isinstance(value.obj, kinds))
    real = getattr(value, "real", None)
    if real is not None and not isinstance(value, SequenceValue):
        return Known(isinstance(real, kinds))
    if isinstance(value, TensorValue):
        return Known(isinstance(value.fake, kinds) or issubclass(cls, kinds))
    return Known(issubclass(cls, kinds))


@rule(issubclass)
def _issubclass(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.fold(issubclass, args)


@rule(type)
def _type(d: Symbolic, args: list, kwargs: dict) -> Any:
    if len(args) != 1:
        raise Break("unsupported-instruction", "a class definition")
    return d.trusted(d.force(args[0]).cls)


@rule(callable)
def _callable(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, Known):
        return Known(callable(value.obj))
    calls = d.type_lookup(value.cls, "__call__") is not None
    return Known(calls or isinstance(value, (FunctionValue, MethodValue)))


@rule(len)
def _len(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.length(args[0])


def _attribute_name(d: Symbolic, value: Any) -> str:
    name = d.constant_of(value)
    if not isinstance(name, str):
        d.fail(TypeError, f"attribute name must be string, not '{type(name).__name__}'")
    return name


@rule(getattr)
def _getattr(d: Symbolic, args: list, kwargs: dict) -> Any:
    name = _attribute_name(d, args[1])
    if len(args) == 2:
        return d.getattr(args[0], name)
    found = d.getattr_or(args[0], name)
    return d.force(args[2]) if found is None else found


@rule(hasattr)
def _hasattr(d: Symbolic, args: list, kwargs: dict) -> Any:
    return Known(d.getattr_or(args[0], _attribute_name(d, args[1])) is not None)


@rule(setattr)
def _setattr(d: Symbolic, args: list, kwargs: dict) -> Any:
    d.setattr(args[0], _attribute_name(d, args[1]), args[2])
    return Known(None)


@rule(delattr)
def _delattr(d: Symbolic, args: list, kwargs: dict) -> Any:
    d.delattr(args[0], d.constant_of(args[1]))
    return Known(None)


@rule(vars)
def _vars(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.getattr(args[0], "__dict__")


@rule(id)
def _id(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    real = getattr(value, "real", None) if not isinstance(value, Known) else value.obj
    if real is None:
        raise Break("unsupported-value", "the id of a new object")
    if value.source is not None:
        d.guards.add("is", value.source, real)
    return Known(id(real))


@rule(hash)
def _hash(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if (
        isinstance(value, ObjectValue)
        and d.type_lookup(value.kind, "__hash__") is not object.__hash__
    ):
        return d.call_special(value, "__hash__", [])
    return d.fold(hash, args)


# numbers and text
def _convert(kind: type, special: str) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        if not args and not kwargs:
            return Known(kind())
        if kwargs or len(args) > 1:
            return d.fold(kind, args, kwargs)
        value = d.force(args[0])
        if isinstance(value, TensorValue):
            if kind is complex:
                raise Break("data-dependent-value", f"{kind.__name__}() of a tensor")
            value = d.read(value, special)
        if follows_float(value):
            return value if kind is float else d.fold(kind, [value])
        if isinstance(value, NumberValue):
            if kind is int and isinstance(value.hint, int):
                return value
            return d.made(NumberValue(kind(value.hint), kind, (value,)))
        if isinstance(value, ObjectValue) and d.type_lookup(value.kind, special):
            return d.call_special(value, special, [])
        return d.fold(kind, args, kwargs)

    return run


for _kind, _name in ((int, "__int__"), (float, "__float__"), (complex, "__complex__")):
    RULES[_kind] = _convert(_kind, _name)


def _truth(d: Symbolic, args: list, kwargs: dict) -> Any:
    if not args:
        return Known(False)
    value = d.force(args[0])
    if isinstance(value, TensorValue) and d.may_read(value):
        value = d.read(value, "__bool__")
    if d.reads_in(value) and d.known_truth(value) is None:
        return value if value.cls is bool else d.made(NumberValue(bool(value.hint), bool, (value,)))
    return d.to_bool(value)


RULES[bool] = _truth


def _text(function: Any) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        if not args:
            return Known("")
        value = d.force(args[0])
        if isinstance(value, TensorValue):
            raise Break("data-dependent-value", "the text of a tensor")
        if isinstance(value, ObjectValue) and not kwargs and len(args) == 1:
            return _object_text(d, value, function)
        return d.fold(function, args, kwargs)

    return run


def _object_text(d: Symbolic, value: ObjectValue, function: type) -> Any:
    names = ["__repr__"] if function is repr else ["__str__", "__repr__"]
    for name in names:
        found = d.type_lookup(value.kind, name)
        if isinstance(found, types.FunctionType):
            return d.call_special(value, name, [])
    if issubclass(value.kind, BaseException):
        if function is str:
            return d.exception_text(value)
        shown = ", ".join(repr(d.constant_of(a)) for a in d.exception_args(value).items)
        return Known(f"{value.kind.__name__}({shown})")
    if d.constant_or_none(value) is not None:
        return d.fold(function, [value])
    raise Break("unsupported-value", f"the text of a {value.kind.__name__}")


RULES[str] = _text(str)
RULES[repr] = _text(repr)


@rule(format)
def _format(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.format(args[0], None, args[1] if len(args) > 1 else Known(""))


@rule(abs)
def _abs(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, TensorValue):
        return d.graph_call(abs, [value])
    if isinstance(value, ArrayValue):
        return d.array_ufunc("absolute", [value], {})
    if isinstance(value, ObjectValue):
        return d.call_special(value, "__abs__", [])
    return d.fold(abs, args)


@rule(pow)
def _pow(d: Symbolic, args: list, kwargs: dict) -> Any:
    args = [
        *args,
        *(kwargs[name] for name in ("base", "exp", "mod")[len(args) :] if name in kwargs),
    ]
    return d.binary("**", *args) if len(args) == 2 else d.fold(pow, args)


@rule(divmod)
def _divmod(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.build_tuple([d.binary("//", *args), d.binary("%", *args)])


@rule(math.prod)
def _prod(d: Symbolic, args: list, kwargs: dict) -> Any:
    total = kwargs.get("start", Known(1))
    for item in d.iterate(args[0]):
        total = d.binary("*", total, item)
    return total


def _operator_rule(symbol: str, method: str) -> Rule:
    return lambda d, args, kwargs: getattr(d, method)(symbol, *args)


for _symbol, _function in BINARY.items():
    if _symbol != "[]":
        RULES[_function] = _operator_rule(_symbol, "binary")
for _symbol, _function in COMPARE.items():
    RULES[_function] = _operator_rule(_symbol, "compare")
for _symbol, _one in UNARY.items():
    RULES[_one] = _operator_rule(_symbol, "unary")
RULES[operator.getitem] = lambda d, args, kwargs: d.getitem(*args)
RULES[operator.setitem] = lambda d, args, kwargs: (d.setitem(*args), Known(None))[1]
RULES[operator.delitem] = lambda d, args, kwargs: (d.delitem(*args), Known(None))[1]
RULES[operator.iconcat] = lambda d, args, kwargs: d.binary("+=", *args)
RULES[operator.contains] = lambda d, args, kwargs: d.contains(*args)
RULES[operator.is_] = lambda d, args, kwargs: Known(d.is_same(*args))
RULES[operator.is_not] = lambda d, args, kwargs: Known(not d.is_same(*args))
RULES[operator.truth] = lambda d, args, kwargs: d.to_bool(args[0])
RULES[operator.not_] = lambda d, args, kwargs: d.logical_not(args[0])
RULES[operator.index] = lambda d, args, kwargs: RULES[int](d, args, kwargs)


# modes of the thread
@rule(core.is_grad_enabled)
def _is_grad_enabled(d: Symbolic, args: list, kwargs: dict) -> Any:
    return Known(core.is_grad_enabled())


def _state_question(function: Callable[..., Any]) -> Rule:
    return lambda d, args, kwargs: d.trusted(function(*[d.constant_of(a) for a in args]))


for _name in (
    "is_inference_mode_enabled get_default_dtype thread_keys is_anomaly_enabled is_profiling "
    "is_anomaly_check_nan_enabled get_num_threads"
).split():
    if hasattr(core, _name):
        RULES[getattr(core, _name)] = _state_question(getattr(core, _name))
