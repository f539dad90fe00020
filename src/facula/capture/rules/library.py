"""Rules for Python's library: what is written in C, and questions about functions and classes.

Takes: the interpreter (`d`), and a call's arguments. Gives: its result.
Keeps true: where a function of C only moves values about, Python that does the same is followed in its
place; an answer about a function holds as long as its code does, which is guarded.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import functools
import inspect
import itertools
import logging
import random
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.rules.callables import METHODS, RULES, Rule, fold_text, rule
from facula.capture.values.kinds import (
    DictValue,
    FunctionValue,
    GeneratorValue,
    IteratorValue,
    Known,
    MethodValue,
    NumberValue,
    ObjectValue,
)
from facula.capture.values.sizes import look_ahead
from facula.ops.table import overloads

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


#: whose methods the functions of the module random are
_GENERATOR: Any = random.random.__self__  # type: ignore[attr-defined]


# questions about classes and functions ------------------------------------------------------------
@rule(dataclasses.fields)
def _fields(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    cls = value.obj if isinstance(value, Known) and isinstance(value.obj, type) else value.cls
    if d.type_lookup(cls, "__dataclass_fields__") is None:
        d.fail(TypeError, "must be called with a dataclass type or instance")
    return d.build_tuple([d.trusted(field) for field in dataclasses.fields(cls)])


def _real_callable(value: Any) -> Any:
    """The function, class or object that is asked about, as it is outside."""
    if isinstance(value, Known):
        return value.obj
    if isinstance(value, MethodValue) and isinstance(value.function, FunctionValue):
        if value.function.real is not None:
            return types.MethodType(value.function.real, value.owner.cls)
    if isinstance(value, (FunctionValue, ObjectValue)) and value.real is not None:
        return value.real
    raise Break("unsupported-value", f"the signature of a {value.cls.__name__} of the segment")


@rule(inspect.signature)
def _signature(d: Symbolic, args: list, kwargs: dict) -> Any:
    words = {name: d.constant_of(value) for name, value in kwargs.items()}
    real = _real_callable(d.force(args[0]))
    try:
        return d.trusted(inspect.signature(real, **words))
    except (TypeError, ValueError) as error:
        d.raise_host(error)


@rule(collections.namedtuple)
def _namedtuple(d: Symbolic, args: list, kwargs: dict) -> Any:
    """A class of tuples: one for each capture, as for each definition."""
    plain = [d.constant_of(arg) for arg in args]
    words = {name: d.constant_of(value) for name, value in kwargs.items()}
    words.setdefault("module", d.frames[-1].globals.get("__name__", "__main__"))
    try:
        return d.trusted(collections.namedtuple(*plain, **words))  # noqa: PYI024
    except (TypeError, ValueError) as error:
        d.raise_host(error)


@rule(sys.intern)
def _intern(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.fold(sys.intern, args)


RULES[sys.getrecursionlimit] = lambda d, args, kwargs: Known(sys.getrecursionlimit())


# functions of C, in Python ------------------------------------------------------------------------
def _followed(function: Any, python: Callable, d: Symbolic, args: list, kwargs: dict) -> Any:
    """A call of a function of C, as its Python does it."""
    result = d.call(d.trusted(python), args, kwargs)
    if isinstance(result, GeneratorValue) and not result.started:
        result.recipe = Known(function), list(args), dict(kwargs)
    return result


def _in_place_of(*functions: Any) -> Callable[[Callable], Callable]:
    """The Python that is followed where a program calls one of these."""

    def put(python: Callable) -> Callable:
        for function in functions:
            RULES[function] = functools.partial(_followed, function, python)
        return python

    return put


@_in_place_of(itertools.takewhile)
def _takewhile(predicate: Callable, iterable: Iterable) -> Iterator:
    for item in iterable:
        if not predicate(item):
            return
        yield item


@_in_place_of(itertools.dropwhile)
def _dropwhile(predicate: Callable, iterable: Iterable) -> Iterator:
    rest = iter(iterable)
    for item in rest:
        if not predicate(item):
            yield item
            break
    yield from rest


@_in_place_of(itertools.filterfalse)
def _filterfalse(predicate: Callable | None, iterable: Iterable) -> Iterator:
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


@_in_place_of(itertools.compress)
def _compress(data: Iterable, selectors: Iterable) -> Iterator:
    for item, chosen in zip(data, selectors, strict=False):
        if chosen:
            yield item


@_in_place_of(itertools.cycle)
def _cycle(iterable: Iterable) -> Iterator:
    saved = []
    for item in iterable:
        saved.append(item)
        yield item
    while saved:
        yield from saved


def _batched(iterable: Iterable, n: int, *, strict: bool = False) -> Iterator:
    rest = iter(iterable)
    while batch := tuple(itertools.islice(rest, n)):
        if strict and len(batch) != n:
            raise ValueError("batched(): incomplete batch")
        yield batch


if hasattr(itertools, "batched"):
    _in_place_of(itertools.batched)(_batched)


@_in_place_of(getattr(collections, "_count_elements"))  # noqa: B009 - what Counter calls
def _count_elements(mapping: MutableMapping, iterable: Iterable) -> None:
    for item in iterable:
        mapping[item] = mapping.get(item, 0) + 1


class _Ordered:
    """What `cmp_to_key` gives for an object: ordered as a function compares."""

    def __init__(self, compare: Callable, obj: Any) -> None:
        self.compare, self.obj = compare, obj

    def __lt__(self, other: _Ordered) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: _Ordered) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and self.compare(self.obj, other.obj) == 0

    __hash__ = None  # type: ignore[assignment] # as that of functools


@_in_place_of(functools.cmp_to_key)
def _cmp_to_key(mycmp: Callable) -> Callable:
    return functools.partial(_Ordered, mycmp)


@rule(itertools.tee)
def _tee(d: Symbolic, args: list, kwargs: dict) -> Any:
    count = d.constant_of(args[1]) if len(args) > 1 else 2
    items = d.unpack_all(args[0])
    return d.build_tuple([d.made(IteratorValue(iter(list(items)))) for _ in range(count)])


# objects of C -------------------------------------------------------------------------------------
def read_context(variable: contextvars.ContextVar, *default: Any) -> Any:
    """The value of a context variable."""
    return variable.get(*default)


def _context_value(d: Symbolic, owner: ObjectValue, args: list, kwargs: dict) -> Any:
    """`variable.get()`, read anew in each call."""
    default = [d.constant_of(arg) for arg in args]
    try:
        found = read_context(owner.real, *default)
    except LookupError as error:
        raise Break("unsupported-call", "ContextVar.get of a variable without value") from error
    return d.wrap(found, owner.source.apply(read_context, *default))


METHODS[contextvars.ContextVar, "get"] = _context_value


def _draw(d: Symbolic, owner: ObjectValue, args: list, kwargs: dict) -> Any:
    """`generator.random()`: a float that is another one in each call.

    It is looked up ahead, without a change, and drawn behind the graph.
    """
    if owner.source is None or owner.real is None:
        raise Break("unsupported-call", "a new generator of random numbers")
    count = d.draws.get(id(owner), (owner, 0))[1] + 1
    d.draws[id(owner)] = owner, count
    source = owner.source.apply(look_ahead, count)
    d.guards.add("type", source, float)
    return d.made(NumberValue(look_ahead(owner.real, count), source=source))


METHODS[random.Random, "random"] = _draw
RULES[random.random] = lambda d, args, kwargs: _draw(d, d.trusted(_GENERATOR), args, kwargs)


def _weak_reference(d: Symbolic, args: list, kwargs: dict) -> Any:
    if len(args) != 1:
        raise Break("unsupported-call", "a weak reference with a callback")
    made = d.made(ObjectValue(weakref.ReferenceType))
    made.args = d.build_tuple([d.force(args[0])])
    return made


RULES[weakref.ref] = _weak_reference


def warn_from(text: Any, category: Any, file: str, line: int, names: dict) -> None:
    """Warn as a line of a module does."""
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<unknown>"
    warnings.warn_explicit(text, category, file, line, module, registry)


@rule(warnings._filters_mutated)  # type: ignore[attr-defined]
def _filters_changed(d: Symbolic, args: list, kwargs: dict) -> Any:
    """The list of filters was changed, or put back: what notes that is called behind the graph."""
    again = warnings._filters_mutated, ()  # type: ignore[attr-defined]
    if any(said != again for said in d.said):
        raise Break("unsupported-call", "warnings that are said before their filters change")
    d.said[:] = [again]
    return Known(None)


@rule(overloads.takes)
def _takes(d: Symbolic, args: list, kwargs: dict) -> Any:
    """Whether an overload takes arguments: their stand-ins answer."""
    function, given, words = args[0], d.unpack_all(args[1]), d.keywords(args[2])
    fakes = [d.argument(value)[1] for value in given]
    named = {name: d.argument(value)[1] for name, value in words.items()}
    return Known(overloads.takes(d.constant_of(function), tuple(fakes), named))


@rule(types.MappingProxyType)
def _read_only(d: Symbolic, args: list, kwargs: dict) -> Any:
    """A view of a dictionary: the dictionary itself, which nothing changes through it."""
    value = d.force(args[0])
    if not isinstance(value, DictValue):
        raise Break("unsupported-call", "the constructor mappingproxy")
    return value


@rule(warnings.warn)
def _warn(d: Symbolic, args: list, kwargs: dict) -> Any:
    """A warning, repeated behind the graph; those that name the caller of the segment break it."""
    given = dict(zip(("message", "category", "stacklevel"), args, strict=False), **kwargs)
    plain = {name: d.constant_of(value) for name, value in given.items()}
    level = max(plain.get("stacklevel", 1), 1)
    known = {"message", "category", "stacklevel"}
    if level > len(d.frames) or set(plain) - known or not isinstance(plain["message"], str):
        raise Break("unsupported-call", "warnings.warn of another place")
    if any(function is not warn_from for function, _ in d.said):
        raise Break("unsupported-call", "warnings.warn where the filters of warnings change")
    frame = d.frames[-level]
    category = plain.get("category") or UserWarning
    place = (frame.code.co_filename, frame.instruction.line, frame.globals)
    d.said.append((warn_from, (plain["message"], category, *place)))
    return Known(None)


def is_enabled(logger: logging.Logger, level: int) -> bool:
    """Whether a logger says something of a level."""
    return logger.isEnabledFor(level)


@rule(logging.Logger.isEnabledFor)
def _is_enabled(d: Symbolic, args: list, kwargs: dict) -> Any:
    owner, level = d.force(args[0]), d.constant_of(args[1] if len(args) > 1 else kwargs["level"])
    if owner.source is None:
        raise Break("unsupported-call", "a new logger")
    return d.wrap(is_enabled(owner.real, level), owner.source.apply(is_enabled, level))


def _text_rule(function: Callable[..., Any]) -> Rule:
    return lambda d, args, kwargs: fold_text(d, function, args, kwargs)


for _name in ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall"):
    RULES[getattr(re, _name)] = _text_rule(getattr(re, _name))
RULES[core.spoken] = _text_rule(core.spoken)  # a message under the names that the program knows
