"""Rules that make containers, slices, partial functions.

Takes: values. Gives: new symbolic objects.
Keeps true: a new object has no source.
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.rules.callables import RULES, Rule, rule
from facula.capture.values.kinds import (
    DictValue,
    Known,
    MethodValue,
    ObjectValue,
    PartialValue,
    SequenceValue,
)

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


@rule(list)
def _list(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.build_list(d.unpack_all(args[0]) if args else [])


@rule(tuple)
def _tuple(d: Symbolic, args: list, kwargs: dict) -> Any:
    if args and isinstance(d.force(args[0]), SequenceValue) and d.force(args[0]).kind is tuple:
        return d.force(args[0])
    return d.build_tuple(d.unpack_all(args[0]) if args else [])


@rule(core.Size)
def _size(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.made(SequenceValue(core.Size, d.unpack_all(args[0]) if args else []))


@rule(set, frozenset)
def _no_set(d: Symbolic, args: list, kwargs: dict) -> Any:
    raise AssertionError


RULES[set] = lambda d, args, kwargs: d.build_set(d.unpack_all(args[0]) if args else [])
RULES[frozenset] = lambda d, args, kwargs: d.build_set(
    d.unpack_all(args[0]) if args else [], frozenset
)


def _make_dict(kind: type) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
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


def _fromkeys(kind: type) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        value = args[1] if len(args) > 1 else kwargs.get("value", Known(None))
        made = d.made(DictValue(kind))
        for key in d.unpack_all(args[0]):
            d.dict_set(made, key, value)
        return made

    return run


for _kind in (dict, collections.OrderedDict, collections.defaultdict):
    RULES[_kind.fromkeys] = _fromkeys(_kind)


@rule(collections.deque)
def _deque(d: Symbolic, args: list, kwargs: dict) -> Any:
    items = d.unpack_all(args[0]) if args else []
    limit = kwargs.get("maxlen", args[1] if len(args) > 1 else Known(None))
    value = d.made(SequenceValue(collections.deque, items))
    value.maxlen = d.constant_of(limit)
    if value.maxlen is not None:
        value.items = items[len(items) - value.maxlen :] if value.maxlen < len(items) else items
    return value


@rule(slice)
def _slice(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.build_slice(args if len(args) > 1 else [Known(None), args[0]])


@rule(range)
def _range(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.fold(range, args)


@rule(object)
def _object(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.made(ObjectValue(object))


@rule(functools.partial)
def _partial(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.made(PartialValue(d.force(args[0]), list(args[1:]), dict(kwargs)))


@rule(super)
def _super(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.super(None, None, args)


@rule(types.MethodType)
def _bound(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.made(MethodValue(d.force(args[0]), d.force(args[1])))


for _getter in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    RULES[_getter] = lambda d, args, kwargs, kind=_getter: Known(
        kind(*[d.constant_of(arg) for arg in args])
    )
