"""Special methods and methods of builtin types, by name.

Takes: an owner, a name and arguments. Gives: what the method gives.
Keeps true: a special method means what the operator means.
"""

from __future__ import annotations

import functools
import operator
import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import is_numpy_scalar
from facula.capture.interpreter.frames import UNBOUND
from facula.capture.interpreter.operators import _COMPARED, _NAMES, _UNARY_NAMES
from facula.capture.rules.callables import (
    METHODS,
    PURE_TYPES,
    RULES,
    Rule,
    fold_text,
    is_pure,
    rule_for,
)
from facula.capture.rules.iteration import _next, _reversed
from facula.capture.rules.values import _hash
from facula.capture.values.kinds import (
    DictValue,
    Known,
    NumberValue,
    ObjectValue,
    SequenceValue,
    ViewValue,
)

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


SPECIAL: dict[str, Rule] = {}


def _special(name: str) -> Callable[[Rule], Rule]:
    def put(function: Rule) -> Rule:
        SPECIAL[name] = function
        return function

    return put


def _spread_specials() -> None:
    def binary(symbol: str) -> Rule:
        return lambda d, owner, other: d.binary(symbol, owner, other)

    def swapped(symbol: str) -> Rule:
        return lambda d, owner, other: d.binary(symbol, other, owner)

    def compare(symbol: str) -> Rule:
        return lambda d, owner, other: d.compare(symbol, owner, other)

    def unary(symbol: str) -> Rule:
        return lambda d, owner: d.unary(symbol, owner)

    for symbol, name in _NAMES.items():
        SPECIAL[f"__{name}__"] = binary(symbol)
        SPECIAL[f"__i{name}__"] = binary(symbol + "=")
        SPECIAL[f"__r{name}__"] = swapped(symbol)
    for symbol, (name, _) in _COMPARED.items():
        SPECIAL[name] = compare(symbol)
    for symbol, name in _UNARY_NAMES.items():
        SPECIAL[name] = unary(symbol)


_spread_specials()
SPECIAL["__getitem__"] = lambda d, owner, key: d.getitem(owner, key)
SPECIAL["__setitem__"] = lambda d, owner, key, value: (d.setitem(owner, key, value), Known(None))[1]
SPECIAL["__delitem__"] = lambda d, owner, key: (d.delitem(owner, key), Known(None))[1]
SPECIAL["__contains__"] = lambda d, owner, item: d.contains(owner, item)
SPECIAL["__len__"] = lambda d, owner: d.length(owner)
SPECIAL["__iter__"] = lambda d, owner: d.iter(owner)
SPECIAL["__bool__"] = lambda d, owner: d.to_bool(owner)
SPECIAL["__getattr__"] = SPECIAL["__getattribute__"] = lambda d, owner, name: d.getattr(
    owner, d.constant_of(name)
)
SPECIAL["__next__"] = lambda d, owner: _next(d, [owner], {})
SPECIAL["__reversed__"] = lambda d, owner: _reversed(d, [owner], {})
SPECIAL["__format__"] = lambda d, owner, spec: d.fold(format, [RULES[str](d, [owner], {}), spec])
SPECIAL["__str__"] = lambda d, owner: RULES[str](d, [owner], {})
SPECIAL["__repr__"] = lambda d, owner: RULES[repr](d, [owner], {})
SPECIAL["__hash__"] = lambda d, owner: _hash(d, [owner], {})
SPECIAL["__enter__"] = lambda d, owner: owner


def call_special_method(d: Any, owner: Any, name: str, args: list, kwargs: dict) -> Any:
    """A special method of a builtin type by its name."""
    found = SPECIAL.get(name)
    if found is None:
        if isinstance(owner, NumberValue):
            return d.call(d.getattr(d.specialise(owner), name), args, kwargs)
        known = METHODS.get((owner.cls, name))
        if known is not None and owner.source is not None:
            return known(d, owner, args, kwargs)
        if isinstance(owner, (ObjectValue,)) and owner.real is not None:
            raise Break("unsupported-call", f"{owner.kind.__name__}.{name}")
        if isinstance(owner, ViewValue):
            return d.set_method(d.build_set(d.unpack_all(owner)), name, args)
        return d.fold(lambda o, *a, **k: getattr(o, name)(*a, **k), [owner, *args], kwargs)
    return found(d, owner, *args)


def call_known_method(d: Any, owner: Known, name: str, args: list, kwargs: dict) -> Any:
    """A method of a known object."""
    obj = owner.obj
    if isinstance(obj, str) and name == "join":
        return Known(obj.join(d.constant_of(part) for part in d.unpack_all(args[0])))
    if isinstance(obj, str) and name == "format":
        plain = [RULES[str](d, [a], {}) if isinstance(d.force(a), ObjectValue) else a for a in args]
        return d.fold(obj.format, plain, kwargs)
    if name == "__iter__" and isinstance(obj, (str, bytes, range)):
        return d.iter(owner)
    if name == "__get__" and isinstance(
        obj, (types.GetSetDescriptorType, types.MemberDescriptorType)
    ):
        return d.getattr(args[0], obj.__name__)
    if name == "__contains__" and type(obj) is frozenset:
        return d.fold(obj.__contains__, args)
    pure = isinstance(obj, (*PURE_TYPES, slice, core.dtype)) or is_numpy_scalar(type(obj))
    if pure:
        return d.fold(getattr(obj, name), args, kwargs)
    if isinstance(obj, type):
        if name == "__subclasses__":
            return d.lift(obj.__subclasses__())
        found = getattr(obj, name)
        return d.call(Known(found), args, kwargs)
    known = rule_for(getattr(obj, name))
    if known is not None:
        return known(d, args, kwargs)
    if isinstance(obj, (re.Pattern, re.Match)):
        return fold_text(d, getattr(obj, name), args, kwargs)
    if is_pure(obj) and name == "__call__":
        return d.fold(obj, args, kwargs)
    raise Break("unsupported-call", f"{type(obj).__name__}.{name}")


def call_base(d: Any, owner: Any, name: str, args: list, kwargs: dict) -> Any:
    """A method of a builtin base class, as `object.__setattr__` or `super().__init__()` reach it."""
    base, _, method = name.partition(".")
    inner = d.force(owner.owner) if hasattr(owner, "after") else d.force(owner)
    if method == "__init__":
        _base_init(d, inner, args, kwargs)
        return Known(None)
    if method == "__call__" and base == "type":
        return d.new_instance(inner, inner.obj, args, kwargs)
    if method in ("__init_subclass__", "__del__"):
        return Known(None)
    if method == "__new__":
        return _base_new(d, d.constant_of(args[0]), args[1:])
    if method == "__setattr__":
        d.plain_setattr(inner, d.constant_of(args[0]), d.force(args[1]))
        return Known(None)
    if method == "__delattr__":
        d.plain_delattr(inner, d.constant_of(args[0]))
        return Known(None)
    if method == "__getattribute__":
        found = d.plain_attribute(inner, d.constant_of(args[0]))
        if found is UNBOUND:
            d.no_attribute(inner.cls, d.constant_of(args[0]))
        return found
    if isinstance(inner, (DictValue, SequenceValue)):
        found = (
            d.base_dict_method(inner, method, args, kwargs)
            if isinstance(inner, DictValue)
            else d.base_sequence_method(inner, method, args)
        )
        if found is not NotImplemented:
            return found
    if method in ("__eq__", "__ne__"):
        same = d.is_same(inner, args[0])
        return Known(same == (method == "__eq__")) if same else Known(NotImplemented)
    if method == "__str__" and issubclass(inner.cls, BaseException):
        return d.exception_text(inner)
    if method == "with_traceback":
        return inner
    return call_special_method(d, inner, method, args, kwargs)


def _base_init(d: Any, inner: Any, args: list, kwargs: dict) -> None:
    if isinstance(inner, ObjectValue) and issubclass(inner.kind, BaseException):
        inner.args = d.build_tuple(args)
    elif isinstance(inner, DictValue):
        d.dict_init(inner, args, kwargs)
    elif isinstance(inner, SequenceValue):
        d.sequence_init(inner, args)


def _base_new(d: Symbolic, kind: type, args: list) -> Any:
    if kind is list or kind is dict:
        return d.build_list([]) if kind is list else d.build_dict([], [])
    if issubclass(kind, tuple):
        return d.made(SequenceValue(kind, d.unpack_all(args[0]) if args else []))
    return d.bare_instance(kind, args)


for _base in (object, tuple, list, dict):
    RULES[_base.__new__] = lambda d, args, kwargs: _base_new(d, d.constant_of(args[0]), args[1:])


def call_getter(d: Any, getter: Any, owner: object) -> Any:
    """A call of an object of the module operator that reads items or attributes."""
    kind, parts = getter.__reduce__()[:2]
    words: dict[str, Any] = {}
    if isinstance(kind, functools.partial):  # methodcaller(name, *args, **words)
        parts, words, kind = (*kind.args, *parts), kind.keywords, kind.func
    if kind is operator.methodcaller:
        given = {name: d.trusted(v) for name, v in words.items()}
        return d.call(d.getattr(owner, parts[0]), [d.trusted(v) for v in parts[1:]], given)
    found = []
    for part in parts:
        if kind is operator.itemgetter:
            found.append(d.getitem(owner, d.trusted(part)))
        else:
            value = owner
            for name in part.split("."):
                value = d.getattr(value, name)
            found.append(value)
    return found[0] if len(found) == 1 else d.build_tuple(found)
