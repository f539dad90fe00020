"""Rules for callables that are written in C, or whose meaning is known without their code.

Takes: the interpreter (`d`), and a call's arguments. Gives: its result.
Keeps true: a rule stands in `RULES` under the very object that it is for; what is pure and called with
known arguments is computed (`is_pure`) and needs no rule.
"""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.concrete import BINARY, COMPARE, UNARY
from facula.capture.machine import STOP, UNBOUND
from facula.capture.values import (
    DictValue,
    FunctionValue,
    GeneratorValue,
    IteratorValue,
    Known,
    MethodValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    Raised,
    SequenceValue,
    SetValue,
    TensorValue,
    ViewValue,
)

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}
SPECIAL: dict[str, Rule] = {}

_PURE_TYPES = (str, bytes, int, float, bool, complex, range, core.dtype, core.device, type(None))
_PURE_MODULES = frozenset("math cmath operator _operator builtins itertools _bisect".split())
_IMPURE = frozenset(
    (print, input, open, exec, eval, compile, __import__, breakpoint, globals, locals, vars, dir, id, hash)
)


def rule(*objects: Any) -> Callable[[Rule], Rule]:
    """The rule for these callables."""

    def put(function: Rule) -> Rule:
        for obj in objects:
            RULES[obj] = function
        return function

    return put


def rule_for(obj: Any) -> Rule | None:
    """The rule for a callable, None where there is none."""
    try:
        return RULES.get(obj)
    except TypeError:
        return None


def is_pure(obj: Any) -> bool:
    """Whether a C function only computes."""
    try:
        if obj in _IMPURE:
            return False
    except TypeError:
        return False
    if isinstance(obj, types.BuiltinFunctionType):
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, types.ModuleType):
            return owner.__name__ in _PURE_MODULES
        return isinstance(owner, _PURE_TYPES) or owner in _PURE_TYPES
    module = getattr(obj, "__module__", None) or ""
    return type(obj) is type(core.Tensor.copy_) and module.startswith("facula")


# what tells about values --------------------------------------------------------------------------
@rule(isinstance)
def _isinstance(d: Any, args: list, kwargs: dict) -> Any:
    value, kinds = d.force(args[0]), d.constant_of(args[1])
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
def _issubclass(d: Any, args: list, kwargs: dict) -> Any:
    return d.fold(issubclass, args)


@rule(type)
def _type(d: Any, args: list, kwargs: dict) -> Any:
    if len(args) != 1:
        raise Break("unsupported-instruction", "a class definition")
    return d.trusted(d.force(args[0]).cls)


@rule(callable)
def _callable(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, Known):
        return Known(callable(value.obj))
    return Known(hasattr(value.cls, "__call__") or isinstance(value, (FunctionValue, MethodValue)))


@rule(len)
def _len(d: Any, args: list, kwargs: dict) -> Any:
    return d.length(args[0])


@rule(getattr)
def _getattr(d: Any, args: list, kwargs: dict) -> Any:
    name = d.constant_of(args[1])
    if len(args) == 2:
        return d.getattr(args[0], name)
    found = d.getattr_or(args[0], name)
    return d.force(args[2]) if found is None else found


@rule(hasattr)
def _hasattr(d: Any, args: list, kwargs: dict) -> Any:
    return Known(d.getattr_or(args[0], d.constant_of(args[1])) is not None)


@rule(setattr)
def _setattr(d: Any, args: list, kwargs: dict) -> Any:
    d.setattr(args[0], d.constant_of(args[1]), args[2])
    return Known(None)


@rule(delattr)
def _delattr(d: Any, args: list, kwargs: dict) -> Any:
    d.delattr(args[0], d.constant_of(args[1]))
    return Known(None)


@rule(vars)
def _vars(d: Any, args: list, kwargs: dict) -> Any:
    return d.getattr(args[0], "__dict__")


@rule(id)
def _id(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    real = getattr(value, "real", None) if not isinstance(value, Known) else value.obj
    if real is None:
        raise Break("unsupported-value", "the id of a new object")
    if value.source is not None:
        d.guards.add("is", value.source, real)
    return Known(id(real))


@rule(hash)
def _hash(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, ObjectValue) and d.type_lookup(value.kind, "__hash__") is not object.__hash__:
        return d.call_special(value, "__hash__", [])
    return d.fold(hash, args)


# iteration ----------------------------------------------------------------------------------------
@rule(iter)
def _iter(d: Any, args: list, kwargs: dict) -> Any:
    return d.iter(args[0])


@rule(next)
def _next(d: Any, args: list, kwargs: dict) -> Any:
    value = d.next(args[0])
    if value is not STOP:
        return value
    return d.force(args[1]) if len(args) > 1 else d.raise_with(StopIteration, [])


def _iterator(d: Any, pull: Iterator[Any], lazy: bool = False) -> Any:
    value = d.made(IteratorValue(pull))
    if lazy:
        d.lazy_iterators.add(id(value))
        d.kept.append(value)
    return value


@rule(zip)
def _zip(d: Any, args: list, kwargs: dict) -> Any:
    parts = [d.iter(arg) for arg in args]
    strict = "strict" in kwargs and d.truth(kwargs["strict"])

    def pull() -> Iterator[Any]:
        while parts:
            row = []
            for n, part in enumerate(parts):
                item = d.next(part)
                if item is STOP:
                    if strict and (n or any(d.next(other) is not STOP for other in parts[1:])):
                        d.fail(ValueError, "zip() arguments have different lengths")
                    return
                row.append(item)
            yield d.build_tuple(row)

    return _iterator(d, pull())


@rule(enumerate)
def _enumerate(d: Any, args: list, kwargs: dict) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else Known(0))
    part = d.iter(args[0])

    def pull() -> Iterator[Any]:
        count = start
        while (item := d.next(part)) is not STOP:
            yield d.build_tuple([count, item])
            count = d.binary("+", count, Known(1))

    return _iterator(d, pull())


@rule(map)
def _map(d: Any, args: list, kwargs: dict) -> Any:
    parts = [d.iter(arg) for arg in args[1:]]

    def pull() -> Iterator[Any]:
        while True:
            row = [d.next(part) for part in parts]
            if any(item is STOP for item in row):
                return
            yield d.call(args[0], row, {})

    return _iterator(d, pull(), lazy=True)


@rule(filter)
def _filter(d: Any, args: list, kwargs: dict) -> Any:
    part, test = d.iter(args[1]), args[0]

    def pull() -> Iterator[Any]:
        while (item := d.next(part)) is not STOP:
            if d.truth(item if d.is_none(test) else d.call(test, [item], {})):
                yield item

    return _iterator(d, pull(), lazy=True)


@rule(reversed)
def _reversed(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, ObjectValue) and d.type_lookup(value.kind, "__reversed__"):
        return d.call_special(value, "__reversed__", [])
    return _iterator(d, iter(d.unpack_all(value)[::-1]))


@rule(sorted)
def _sorted(d: Any, args: list, kwargs: dict) -> Any:
    return d.build_list(d.sorted_items(args[0], kwargs))


@rule(sum)
def _sum(d: Any, args: list, kwargs: dict) -> Any:
    total = kwargs.get("start", args[1] if len(args) > 1 else Known(0))
    for item in d.iterate(args[0]):
        total = d.binary("+", total, item)
    return total


def _extreme(symbol: str) -> Rule:
    def run(d: Any, args: list, kwargs: dict) -> Any:
        items = d.unpack_all(args[0]) if len(args) == 1 else args
        if not items:
            return kwargs.get("default") or d.fail(ValueError, "iterable argument is empty")
        key = kwargs.get("key")
        graded = [
            (item if key is None or d.is_none(key) else d.call(key, [item], {}), item)
            for item in items
        ]
        if any(isinstance(d.force(g), NumberValue) for g, _ in graded) and len(graded) == 2:
            function = min if symbol == "<" else max
            return d._number_binary(function, d.force(graded[0][0]), d.force(graded[1][0]))
        best = graded[0]
        for other in graded[1:]:
            if d.truth(d.compare(symbol, other[0], best[0])):
                best = other
        return d.force(best[1])

    return run


RULES[min] = _extreme("<")
RULES[max] = _extreme(">")


@rule(any)
def _any(d: Any, args: list, kwargs: dict) -> Any:
    return Known(any(d.truth(item) for item in d.iterate(args[0])))


@rule(all)
def _all(d: Any, args: list, kwargs: dict) -> Any:
    return Known(all(d.truth(item) for item in d.iterate(args[0])))


@rule(functools.reduce)
def _reduce(d: Any, args: list, kwargs: dict) -> Any:
    items = d.iterate(args[1])
    total = args[2] if len(args) > 2 else next(items, None)
    if total is None:
        d.fail(TypeError, "reduce() of empty iterable with no initial value")
    for item in items:
        total = d.call(args[0], [total, item], {})
    return total


@rule(itertools.chain)
def _chain(d: Any, args: list, kwargs: dict) -> Any:
    def pull() -> Iterator[Any]:
        for arg in args:
            yield from d.iterate(arg)

    return _iterator(d, pull())


@rule(itertools.chain.from_iterable)
def _chain_from(d: Any, args: list, kwargs: dict) -> Any:
    return _chain(d, d.unpack_all(args[0]), {})


def _by_position(function: Callable) -> Rule:
    """A function of itertools that only chooses and orders items."""

    def run(d: Any, args: list, kwargs: dict) -> Any:
        count = 1 if function is not itertools.product else len(args)
        lists = [d.unpack_all(arg) for arg in args[:count]]
        plain = [d.constant_of(arg) for arg in args[count:]]
        words = {k: d.constant_of(v) for k, v in kwargs.items()}
        chosen = function(*[range(len(items)) for items in lists], *plain, **words)
        rows = [
            d.build_tuple([lists[n if count > 1 else 0][i] for n, i in enumerate(row)])
            for row in chosen
        ]
        return _iterator(d, iter(rows))

    return run


for _function in (itertools.permutations, itertools.combinations, itertools.product):
    RULES[_function] = _by_position(_function)
if hasattr(itertools, "pairwise"):
    RULES[itertools.pairwise] = lambda d, args, kwargs: _iterator(
        d,
        iter([d.build_tuple(list(p)) for p in itertools.pairwise(d.unpack_all(args[0]))]),
    )


@rule(itertools.islice)
def _islice(d: Any, args: list, kwargs: dict) -> Any:
    plain = slice(*[d.constant_of(arg) for arg in args[1:]])
    part = d.iter(args[0])

    def pull() -> Iterator[Any]:
        stop = math.inf if plain.stop is None else plain.stop
        n = 0
        while n < stop and (item := d.next(part)) is not STOP:
            if n >= (plain.start or 0) and (n - (plain.start or 0)) % (plain.step or 1) == 0:
                yield item
            n += 1

    return _iterator(d, pull())


@rule(itertools.count)
def _count(d: Any, args: list, kwargs: dict) -> Any:
    start = args[0] if args else kwargs.get("start", Known(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", Known(1))

    def pull() -> Iterator[Any]:
        value = start
        while True:
            yield value
            value = d.binary("+", value, step)

    return _iterator(d, pull(), lazy=True)


@rule(itertools.repeat)
def _repeat(d: Any, args: list, kwargs: dict) -> Any:
    times = args[1] if len(args) > 1 else kwargs.get("times")
    if times is not None:
        return _iterator(d, iter([args[0]] * d.constant_of(times)))
    return _iterator(d, itertools.repeat(args[0]), lazy=True)


@rule(itertools.accumulate)
def _accumulate(d: Any, args: list, kwargs: dict) -> Any:
    function = args[1] if len(args) > 1 else Known(operator.add)
    out: list[Any] = []
    for item in d.iterate(args[0]):
        out.append(item if not out else d.call(function, [out[-1], item], {}))
    return _iterator(d, iter(out))


@rule(itertools.zip_longest)
def _zip_longest(d: Any, args: list, kwargs: dict) -> Any:
    fill = kwargs.get("fillvalue", Known(None))
    rows = itertools.zip_longest(*[d.unpack_all(arg) for arg in args], fillvalue=fill)
    return _iterator(d, iter([d.build_tuple(list(row)) for row in rows]))


@rule(itertools.starmap)
def _starmap(d: Any, args: list, kwargs: dict) -> Any:
    def pull() -> Iterator[Any]:
        for item in d.iterate(args[1]):
            yield d.call(args[0], d.unpack_all(item), {})

    return _iterator(d, pull(), lazy=True)


# making things ------------------------------------------------------------------------------------
@rule(list)
def _list(d: Any, args: list, kwargs: dict) -> Any:
    return d.build_list(d.unpack_all(args[0]) if args else [])


@rule(tuple)
def _tuple(d: Any, args: list, kwargs: dict) -> Any:
    if args and isinstance(d.force(args[0]), SequenceValue) and d.force(args[0]).kind is tuple:
        return d.force(args[0])
    return d.build_tuple(d.unpack_all(args[0]) if args else [])


@rule(core.Size)
def _size(d: Any, args: list, kwargs: dict) -> Any:
    return d.made(SequenceValue(core.Size, d.unpack_all(args[0]) if args else []))


@rule(set, frozenset)
def _no_set(d: Any, args: list, kwargs: dict) -> Any:
    raise AssertionError


RULES[set] = lambda d, args, kwargs: d.build_set(d.unpack_all(args[0]) if args else [])
RULES[frozenset] = lambda d, args, kwargs: d.build_set(
    d.unpack_all(args[0]) if args else [], frozenset
)


def _make_dict(kind: type) -> Rule:
    def run(d: Any, args: list, kwargs: dict) -> Any:
        made = d.made(DictValue(kind))
        if kind is collections.defaultdict and args:
            made.factory, args = d.force(args[0]), args[1:]
        for arg in args:
            for key, value in d.pairs(arg):
                d.dict_set(made, key, value)
        for name, value in kwargs.items():
            d.dict_set(made, Known(name), value)
        return made

    return run


for _kind in (dict, collections.OrderedDict, collections.defaultdict):
    RULES[_kind] = _make_dict(_kind)


@rule(dict.fromkeys)
def _fromkeys(d: Any, args: list, kwargs: dict) -> Any:
    value = args[1] if len(args) > 1 else Known(None)
    keys = d.unpack_all(args[0])
    return d.build_dict(keys, [value] * len(keys))


@rule(collections.deque)
def _deque(d: Any, args: list, kwargs: dict) -> Any:
    items = d.unpack_all(args[0]) if args else []
    limit = kwargs.get("maxlen", args[1] if len(args) > 1 else Known(None))
    value = d.made(SequenceValue(collections.deque, items))
    value.maxlen = d.constant_of(limit)
    if value.maxlen is not None:
        value.items = items[len(items) - value.maxlen :] if value.maxlen < len(items) else items
    return value


@rule(slice)
def _slice(d: Any, args: list, kwargs: dict) -> Any:
    return d.build_slice(args if len(args) > 1 else [Known(None), args[0]])


@rule(range)
def _range(d: Any, args: list, kwargs: dict) -> Any:
    return d.fold(range, args)


@rule(object)
def _object(d: Any, args: list, kwargs: dict) -> Any:
    return d.made(ObjectValue(object))


@rule(functools.partial)
def _partial(d: Any, args: list, kwargs: dict) -> Any:
    return d.made(PartialValue(d.force(args[0]), list(args[1:]), dict(kwargs)))


@rule(super)
def _super(d: Any, args: list, kwargs: dict) -> Any:
    return d.super(None, None, args)


@rule(types.MethodType)
def _bound(d: Any, args: list, kwargs: dict) -> Any:
    return d.made(MethodValue(d.force(args[0]), d.force(args[1])))


@rule(operator.itemgetter, operator.attrgetter, operator.methodcaller)
def _getter(d: Any, args: list, kwargs: dict) -> Any:
    raise Break("unsupported-call", "a getter of the module operator")


# numbers and text ---------------------------------------------------------------------------------
def _convert(kind: type, special: str) -> Rule:
    def run(d: Any, args: list, kwargs: dict) -> Any:
        if not args:
            return Known(kind())
        value = d.force(args[0])
        if isinstance(value, TensorValue):
            raise Break("data-dependent-value", f"{kind.__name__}() of a tensor")
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
RULES[bool] = lambda d, args, kwargs: d.to_bool(args[0]) if args else Known(False)


def _text(function: Any) -> Rule:
    def run(d: Any, args: list, kwargs: dict) -> Any:
        if not args:
            return Known("")
        value = d.force(args[0])
        if isinstance(value, TensorValue):
            raise Break("data-dependent-value", "the text of a tensor")
        if isinstance(value, ObjectValue) and not kwargs and len(args) == 1:
            return _object_text(d, value, function)
        return d.fold(function, args, kwargs)

    return run


def _object_text(d: Any, value: ObjectValue, function: Any) -> Any:
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
def _format(d: Any, args: list, kwargs: dict) -> Any:
    return d.format(args[0], None, args[1] if len(args) > 1 else Known(""))


@rule(abs)
def _abs(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, TensorValue):
        return d.graph_call(abs, [value])
    if isinstance(value, ObjectValue):
        return d.call_special(value, "__abs__", [])
    return d.fold(abs, args)


@rule(pow)
def _pow(d: Any, args: list, kwargs: dict) -> Any:
    return d.binary("**", *args) if len(args) == 2 else d.fold(pow, args)


@rule(divmod)
def _divmod(d: Any, args: list, kwargs: dict) -> Any:
    return d.build_tuple([d.binary("//", *args), d.binary("%", *args)])


@rule(math.prod)
def _prod(d: Any, args: list, kwargs: dict) -> Any:
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
for _symbol, _function in UNARY.items():
    RULES[_function] = _operator_rule(_symbol, "unary")
RULES[operator.getitem] = lambda d, args, kwargs: d.getitem(*args)
RULES[operator.setitem] = lambda d, args, kwargs: (d.setitem(*args), Known(None))[1]
RULES[operator.contains] = lambda d, args, kwargs: d.contains(*args)
RULES[operator.is_] = lambda d, args, kwargs: Known(d.is_same(*args))
RULES[operator.is_not] = lambda d, args, kwargs: Known(not d.is_same(*args))
RULES[operator.truth] = lambda d, args, kwargs: d.to_bool(args[0])
RULES[operator.not_] = lambda d, args, kwargs: d.logical_not(args[0])
RULES[operator.index] = lambda d, args, kwargs: RULES[int](d, args, kwargs)


# copies -------------------------------------------------------------------------------------------
@rule(copy.copy)
def _copy(d: Any, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, SequenceValue):
        return d.made(SequenceValue(value.kind, list(value.items))) if value.mutable else value
    if isinstance(value, DictValue):
        return d.dict_method(value, "copy", [], {})
    if isinstance(value, ObjectValue) and not hasattr(value.kind, "__copy__"):
        made = d.made(ObjectValue(value.kind))
        attributes = d.instance_dict(value)
        made.attributes = d.dict_method(attributes, "copy", [], {})
        return made
    raise Break("unsupported-call", f"copy.copy of a {value.cls.__name__}")


# special methods ----------------------------------------------------------------------------------
def _special(name: str) -> Callable[[Rule], Rule]:
    def put(function: Rule) -> Rule:
        SPECIAL[name] = function
        return function

    return put


def _spread_specials() -> None:
    from facula.capture.operators import _COMPARED, _NAMES, _UNARY_NAMES

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
SPECIAL["__call__"] = lambda d, owner, *args: d.call(owner, list(args), {})
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
    if isinstance(obj, _PURE_TYPES) or isinstance(obj, (slice, core.dtype)):
        return d.fold(getattr(obj, name), args, kwargs)
    if isinstance(obj, type):
        if name == "__subclasses__":
            return d.lift(obj.__subclasses__())
        found = getattr(obj, name)
        return d.call(Known(found), args, kwargs)
    known = rule_for(getattr(obj, name))
    if known is not None:
        return known(d, args, kwargs)
    raise Break("unsupported-call", f"{type(obj).__name__}.{name}")


def call_base(d: Any, owner: Any, name: str, args: list, kwargs: dict) -> Any:
    """A method of a builtin base class, as `object.__setattr__` or `super().__init__()` reach it."""
    base, _, method = name.partition(".")
    inner = d.force(owner.owner) if hasattr(owner, "after") else d.force(owner)
    if method == "__init__":
        if isinstance(inner, ObjectValue) and issubclass(inner.kind, BaseException):
            inner.args = d.build_tuple(args)
        elif isinstance(inner, (DictValue,)):
            d.dict_method(inner, "update", args, kwargs)
        return Known(None)
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
    if method in ("__eq__", "__ne__"):
        same = d.is_same(inner, args[0])
        return Known(same == (method == "__eq__")) if same else Known(NotImplemented)
    if method == "__str__" and issubclass(inner.cls, BaseException):
        return d.exception_text(inner)
    if method == "with_traceback":
        return inner
    return call_special_method(d, inner, method, args, kwargs)


def _base_new(d: Any, kind: type, args: list) -> Any:
    if issubclass(kind, tuple):
        return d.made(SequenceValue(kind, d.unpack_all(args[0]) if args else []))
    return d.bare_instance(kind, args)


RULES[object.__new__] = lambda d, args, kwargs: _base_new(d, d.constant_of(args[0]), args[1:])


# the framework ------------------------------------------------------------------------------------
@rule(core.is_grad_enabled)
def _is_grad_enabled(d: Any, args: list, kwargs: dict) -> Any:
    return Known(core.is_grad_enabled())


def _state_question(function: Any) -> Rule:
    return lambda d, args, kwargs: d.trusted(function(*[d.constant_of(a) for a in args]))


for _name in (
    "is_inference_mode_enabled get_default_dtype thread_keys is_anomaly_enabled is_profiling "
    "is_anomaly_check_nan_enabled get_num_threads"
).split():
    if hasattr(core, _name):
        RULES[getattr(core, _name)] = _state_question(getattr(core, _name))


def add_framework_rules() -> None:
    """Rules for functions of higher layers, put here when they are there."""
    from facula import autograd, functional
    from facula.autograd import autocast, grad_mode
    from facula.capture import framework_rules

    framework_rules.put(RULES, autograd, functional, autocast, grad_mode)


__all__ = [
    "RULES", "SPECIAL", "GeneratorValue", "Raised", "SetValue", "add_framework_rules", "builtins",
    "call_base", "call_known_method", "call_special_method", "is_pure", "rule", "rule_for",
]  # fmt: skip
