"""Containers of symbolic values: building, items, unpacking, iteration, and their methods.

Takes: symbolic values. Gives: symbolic values; changes of containers from outside are noted, to be
repeated behind the graph.
Keeps true: methods that only move items around are Python's own, run on lists of symbolic values.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.capture import config
from facula.capture.breaks import Break
from facula.capture.guards.reading import is_annotation
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.frames import STOP, UNBOUND
from facula.capture.values.kinds import (
    ArrayValue,
    DictValue,
    GeneratorValue,
    IteratorValue,
    Known,
    NumberValue,
    ObjectValue,
    Raised,
    SequenceValue,
    SetValue,
    SliceValue,
    TensorValue,
    Value,
    ViewValue,
    iterator_at,
)

_MOVES = frozenset("append extend insert pop clear reverse appendleft popleft rotate copy".split())


class Containers(Part):
    """The part of `Symbolic` that knows containers."""

    # building -------------------------------------------------------------------------------------
    def build_tuple(self, items: list[Any]) -> Any:
        return self.made(SequenceValue(tuple, list(items)))

    def build_list(self, items: list[Any]) -> Any:
        return self.made(SequenceValue(list, list(items)))

    def build_set(self, items: list[Any], kind: type = set) -> Any:
        value = self.made(SetValue(kind))
        value.items = {self.key_of(item): self.force(item) for item in items}
        return value

    def build_dict(self, keys: list[Any], values: list[Any], kind: type = dict) -> Any:
        made = self.made(DictValue(kind))
        for key, value in zip(keys, values, strict=True):
            made.items[self.key_of(key)] = (self.force(key), value)
        return made

    def build_slice(self, parts: list[Any]) -> Any:
        forced = [self.force(part) for part in parts]
        if all(isinstance(part, Known) for part in forced):
            return Known(slice(*(part.obj for part in forced)))
        if len(forced) == 1:
            forced = [Known(None), forced[0]]
        return self.made(SliceValue(forced + [Known(None)] * (3 - len(forced))))

    def list_append(self, owner: Any, value: object) -> None:
        owner.items.append(value)
        self.change(owner)

    def list_extend(self, owner: Any, values: object) -> None:
        owner.items.extend(self.unpack_all(values))
        self.change(owner)

    def set_add(self, owner: Any, value: object) -> None:
        owner.items.setdefault(self.key_of(value), self.force(value))
        self.change(owner)

    def set_update(self, owner: Value, values: object) -> None:
        for value in self.unpack_all(values):
            self.set_add(owner, value)

    def dict_update(self, owner: Value, values: object) -> None:
        for key, value in self.pairs(values):
            self.dict_set(owner, key, value)

    def dict_merge(self, owner: Any, values: object) -> None:
        for key, value in self.pairs(values):
            if self.key_of(key) in owner.items:
                self.fail(TypeError, f"got multiple values for keyword argument {key!r}")
            self.dict_set(owner, key, value)

    def keywords(self, value: Value) -> dict[str, Any]:
        """The keyword arguments that `**value` gives."""
        out = {}
        for key, item in self.pairs(value):
            name = self.constant_of(key)
            if not isinstance(name, str):
                self.fail(TypeError, "keywords must be strings")
            out[name] = item
        return out

    # changes ----------------------------------------------------------------------------------------
    def change(self, value: Any, key: object = None) -> None:
        """Note that an object from outside has to be changed behind the graph."""
        if value.source is None:
            return
        value.changed = True
        if isinstance(value, DictValue):
            value.overwritten.add(key)
        self.effects.setdefault(id(value), value)

    # items ----------------------------------------------------------------------------------------
    def getitem(self, owner: object, key: object) -> Any:
        owner, key = self.force(owner), self.force(key)
        if isinstance(owner, TensorValue):
            return self.at_places_read(key, lambda: self.graph_call("[]", [owner, key]))
        if isinstance(owner, ArrayValue):
            return self.array_getitem(owner, key)
        if isinstance(owner, SequenceValue):
            own = self.own_method(owner, "__getitem__")
            if own is not None:
                return self.call(self.trusted(own), [owner, key], {})
            return self._sequence_item(owner, key)
        if isinstance(owner, DictValue):
            return self.dict_item(owner, key)
        if isinstance(owner, ViewValue) and owner.part == "mapping":
            return self.dict_item(owner.owner, key)
        if isinstance(owner, Known):
            if isinstance(owner.obj, type):
                return self._class_item(owner, key)
            return self.fold(lambda o, k: o[k], [owner, key])
        if isinstance(owner, ObjectValue) and owner.real is not None and is_annotation(owner.kind):
            return self.fold(lambda o, k: o[k], [owner, key])
        return self.call_special(owner, "__getitem__", [key])

    def _class_item(self, owner: Known, key: object) -> Any:
        """`list[int]`, and members of an enumeration by name."""
        return self.fold(lambda name: owner.obj[name], [key])

    def _index(self, key: object) -> Any:
        if isinstance(key, (NumberValue, SliceValue)):
            return self.constant_of(key)
        if isinstance(key, Known):
            return key.obj
        if isinstance(key, ObjectValue):
            return self.constant_of(self.call_special(key, "__index__", []))
        if isinstance(key, TensorValue) and self.may_read(key):
            return self.constant_of(self.read(key, "__index__"))
        return self.constant_of(key)

    def _sequence_item(self, owner: SequenceValue, key: object) -> Any:
        index = self._index(key)
        try:
            found = list(owner.items)[index]
        except (IndexError, TypeError, ValueError) as error:
            text = str(error).replace("list", owner.kind.__name__)
            self.fail(type(error), text)
        if isinstance(index, slice):
            kind = owner.kind if owner.kind in (core.Size, owner.basic) else owner.basic
            return self.made(SequenceValue(kind, found))
        return self.force(found)

    def setitem(self, owner: object, key: object, value: Value) -> None:
        owner, key = self.force(owner), self.force(key)
        if isinstance(owner, TensorValue):
            self.graph_call(operator.setitem, [owner, key, value])
        elif isinstance(owner, ArrayValue):
            self.array_setitem(owner, key, value)
        elif isinstance(owner, SequenceValue) and owner.mutable:
            index = self._index(key)
            try:
                if isinstance(index, slice):
                    owner.items[index] = self.unpack_all(value)
                else:
                    owner.items[index] = value
            except (IndexError, ValueError) as error:
                self.fail(type(error), str(error))
            self.change(owner)
        elif isinstance(owner, DictValue) and not self.own_method(owner, "__setitem__"):
            self.dict_set(owner, key, value)
        else:
            self.call_special(owner, "__setitem__", [key, value])

    def delitem(self, owner: object, key: object) -> None:
        owner, key = self.force(owner), self.force(key)
        if isinstance(owner, SequenceValue) and owner.mutable:
            try:
                del owner.items[self._index(key)]
            except IndexError as error:
                self.fail(IndexError, str(error))
            self.change(owner)
        elif isinstance(owner, DictValue) and not self.own_method(owner, "__delitem__"):
            self.dict_delete(owner, key)
        else:
            self.call_special(owner, "__delitem__", [key])

    def contains(self, owner: Any, item: object) -> Any:
        owner, item = self.force(owner), self.force(item)
        if isinstance(owner, DictValue):
            return Known(self.dict_find(owner, self.key_of(item)) is not UNBOUND)
        if isinstance(owner, SetValue):
            if isinstance(item, SetValue):  # which are looked for as frozensets are
                return Known(frozenset(item.items) in owner.items)
            return Known(self.key_of(item) in owner.items)
        own = self.own_method(owner, "__contains__") if isinstance(owner, SequenceValue) else None
        if own is not None:
            return self.to_bool(self.call(self.trusted(own), [owner, item], {}))
        if isinstance(owner, ViewValue) and owner.part in ("keys", "mapping"):
            return self.contains(owner.owner, item)
        if isinstance(owner, TensorValue):
            raise Break("data-dependent-value", "`in` a tensor")
        if isinstance(owner, ArrayValue):
            raise Break("data-dependent-value", "`in` an array")
        if isinstance(owner, ObjectValue) and self.type_lookup(owner.kind, "__contains__"):
            return self.to_bool(self.call_special(owner, "__contains__", [item]))
        if isinstance(owner, Known):
            return self.fold(lambda o, i: i in o, [owner, item])
        return self._is_among(owner, item)

    def _is_among(self, owner: Any, item: object) -> Known:
        """Whether an item is one of those that an iterable gives."""
        for candidate in self.iterate(owner):
            if self.is_same(candidate, item) or self.truth(self.compare("==", candidate, item)):
                return Known(True)
        return Known(False)

    # iteration ------------------------------------------------------------------------------------
    def iter(self, value: Any) -> Any:
        value = self.force(value)
        if isinstance(value, (IteratorValue, GeneratorValue)):
            return value
        if isinstance(value, SequenceValue) and value.basic in (list, tuple):
            return self._iter_sequence(value)
        pull = self._pull(value)
        if pull is not None:
            kind = type(iter(value.obj)) if isinstance(value, Known) else None
            return self.made(IteratorValue(pull, kind=kind))
        if isinstance(value, (ObjectValue,)):
            if self.type_lookup(value.kind, "__iter__") is None:
                if self.type_lookup(value.kind, "__getitem__") is None:
                    self.fail(TypeError, f"'{value.kind.__name__}' object is not iterable")
                return self.made(IteratorValue(self._by_index(value)))
            return self.call_special(value, "__iter__", [])
        self.fail(TypeError, f"'{value.cls.__name__}' object is not iterable")

    def _iter_sequence(self, value: SequenceValue) -> IteratorValue:
        """An iterator over a list or tuple, which sees what is put into it."""
        at = 0

        def pull() -> Iterator[Any]:
            nonlocal at
            while at < len(value.items):
                at += 1
                yield self.force(value.items[at - 1])

        made: IteratorValue = self.made(IteratorValue(pull(), kind=type(iter(value.basic()))))
        made.recipe = lambda: (iterator_at, [value, Known(at)])
        return made

    def _pull(self, value: object) -> Iterator[Any] | None:
        if isinstance(value, SequenceValue):
            return self._items(value)
        if isinstance(value, DictValue):
            self.complete(value)
            return (key for key, _ in self._live(value))
        if isinstance(value, SetValue):
            return self._live(value)
        if isinstance(value, ViewValue):
            self.complete(value.owner)
            pairs = self._live(value.owner)
            if value.part in ("keys", "mapping"):
                return (key for key, _ in pairs)
            if value.part == "values":
                return (item for _, item in pairs)
            return (self.build_tuple([key, item]) for key, item in pairs)
        if isinstance(value, TensorValue):
            return self._items(self.force(self.graph_method("unbind", value, [Known(0)], {})))
        if isinstance(value, ArrayValue):
            return self.array_items(value)
        if isinstance(value, Known):
            try:
                return iter([self.constant(item) for item in value.obj])
            except TypeError as error:
                self.fail(TypeError, str(error))
        return None

    def _live(self, owner: DictValue | SetValue) -> Iterator[Any]:
        """What a dictionary or set has by then; raises where there is more or less of it."""
        keys = tuple(owner.items)
        for key in (*keys, UNBOUND):
            gone = key not in owner.items if key is not UNBOUND else {*keys} != {*owner.items}
            if gone or len(owner.items) != len(keys):
                what = "Set" if isinstance(owner, SetValue) else "dictionary"
                if issubclass(owner.cls, collections.OrderedDict):
                    self.fail(RuntimeError, "OrderedDict mutated during iteration")
                how = "changed size" if len(owner.items) != len(keys) else "keys changed"
                self.fail(RuntimeError, f"{what} {how} during iteration")
            if key is not UNBOUND:
                yield owner.items[key]

    def _items(self, value: SequenceValue) -> Iterator[Any]:
        n = 0
        while n < len(value.items):
            yield self.force(value.items[n])
            n += 1

    def _by_index(self, value: Value) -> Iterator[Any]:
        n = 0
        while True:
            try:
                item = self.getitem(value, Known(n))
            except Raised as error:
                if issubclass(error.value.kind, IndexError):
                    return
                raise
            yield item
            n += 1

    def next(self, iterator: Any) -> Any:
        """The next value, or STOP."""
        iterator = self.force(iterator)
        if isinstance(iterator, IteratorValue):
            try:
                value = next(iterator.pull, STOP)
            except RuntimeError as error:
                # Python turns a StopIteration that leaves a host generator into RuntimeError
                raise Break("unsupported-call", str(error)) from error
            if value is not STOP and iterator.source is not None:
                self.effects.setdefault(id(iterator), iterator)
            return self.force(value)
        if isinstance(iterator, GeneratorValue):
            return self.resume(iterator, Known(None))
        if isinstance(iterator, ObjectValue) and self.type_lookup(iterator.kind, "__next__"):
            try:
                return self.call_special(iterator, "__next__", [])
            except Raised as error:
                if issubclass(error.value.kind, StopIteration):
                    return STOP
                raise
        self.fail(TypeError, f"'{iterator.cls.__name__}' object is not an iterator")

    def iterate(self, value: Value) -> Iterator[Any]:
        """A host iterator over the values."""
        iterator = self.iter(value)
        for _ in range(config.iteration_limit):
            item = self.next(iterator)
            if item is STOP:
                return
            yield item
        # it may have no end, which is Python's to find out
        raise Break(
            "unsupported-value",
            f"{config.iteration_limit} values of an iterator and more (infinite generator)",
        )

    def unpack_all(self, value: Any) -> list[Any]:
        """All values of an iterable; items are not looked at."""
        value = self.force(value)
        if isinstance(value, SequenceValue):
            return list(value.items)
        return list(self.iterate(value))

    def unpack(self, value: Any, count: int) -> list[Any]:
        value = self.force(value)
        if isinstance(value, SequenceValue):
            values = list(value.items)
        else:
            values = list(itertools.islice(self.iterate(value), count + 1))
        if len(values) > count:
            self.fail(ValueError, f"too many values to unpack (expected {count})")
        if len(values) < count:
            self.fail(
                ValueError, f"not enough values to unpack (expected {count}, got {len(values)})"
            )
        return [self.force(item) for item in values]

    def length(self, value: Any) -> Any:
        """`len(value)`."""
        value = self.force(value)
        if isinstance(value, (SequenceValue, SetValue)):
            return Known(len(value.items))
        if isinstance(value, (DictValue, ViewValue)):
            owner = value.owner if isinstance(value, ViewValue) else value
            if not owner.complete and not owner.items and not owner.deleted:
                self.guards.add("length", owner.source, len(owner.real))
                if not owner.real:
                    owner.complete = True
                return Known(len(owner.real))
            self.complete(owner)
            return Known(len(owner.items))
        if isinstance(value, (TensorValue, ArrayValue)):
            return self.getitem(self.getattr(value, "shape"), Known(0))
        if isinstance(value, Known):
            return self.fold(len, [value])
        if isinstance(value, ObjectValue) and self.type_lookup(value.kind, "__len__"):
            return self.call_special(value, "__len__", [])
        self.fail(TypeError, f"object of type '{value.cls.__name__}' has no len()")

    # methods --------------------------------------------------------------------------------------
    def sequence_method(
        self, owner: SequenceValue, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A method of list, tuple, size or deque."""
        if name in _MOVES and owner.mutable:
            return self._move(owner, name, args)
        if name in ("index", "count"):
            places = range(len(owner.items))
            if len(args) > 1:  # between the places that are given
                begin, end, *_ = [*(self.constant_of(arg) for arg in args[1:3]), None]
                places = places[begin:end]
            found = (
                n
                for n in places
                if self.is_same(owner.items[n], args[0])
                or self.truth(self.compare("==", owner.items[n], args[0]))
            )
            if name == "count":
                return Known(sum(1 for _ in found))
            first = next(found, None)
            return self.fail(ValueError, "value is not in list") if first is None else Known(first)
        if name == "remove":
            at = self.sequence_method(owner, "index", args, {})
            del owner.items[at.obj]
            self.change(owner)
            return Known(None)
        if name == "sort":
            owner.items[:] = self.sorted_items(owner, kwargs)
            self.change(owner)
            return Known(None)
        if name == "extendleft":
            return self._extend(owner, args[0], self.append_left)
        if name == "numel" and owner.kind is core.Size:
            total: Any = Known(1)
            for item in owner.items:
                total = self.binary("*", total, item)
            return total
        if name == "_asdict":
            return self.build_dict([Known(n) for n in owner.kind._fields], owner.items)
        if name == "_replace":
            items = [kwargs.get(n, v) for n, v in zip(owner.kind._fields, owner.items, strict=True)]
            return self.made(SequenceValue(owner.kind, items))
        return self.call_special(owner, name, args)

    def base_sequence_method(self, owner: SequenceValue, name: str, args: list[Any]) -> Any:
        """A method as `list` or `tuple` has it, whatever the class has in its place."""
        if name == "__contains__":
            return self._is_among(owner, self.force(args[0]))
        if name == "__getitem__":
            return self._sequence_item(owner, self.force(args[0]))
        return NotImplemented

    def sequence_init(self, owner: SequenceValue, args: list[Any]) -> None:
        """`list.__init__`; tuples are made with their items."""
        if owner.mutable:
            owner.items[:] = self.unpack_all(args[0]) if args else []
            self.change(owner)

    def _extend(self, owner: SequenceValue, values: Any, put: Callable[..., None]) -> Any:
        """Take items one by one, so that who computes them sees those before; not of itself."""
        values = self.force(values)
        for item in list(values.items) if values is owner else self.iterate(values):
            put(owner, item)
        self.change(owner)
        return Known(None)

    @staticmethod
    def append_item(owner: SequenceValue, item: object) -> None:
        owner.items.append(item)
        if owner.maxlen is not None:
            del owner.items[: len(owner.items) - owner.maxlen]

    @staticmethod
    def append_left(owner: SequenceValue, item: object) -> None:
        owner.items.insert(0, item)
        if owner.maxlen is not None:
            del owner.items[owner.maxlen :]

    def _move(self, owner: SequenceValue, name: str, args: list[Any]) -> Any:
        if name == "copy":
            return self.made(SequenceValue(owner.basic, list(owner.items)))
        if name == "extend":
            return self._extend(owner, args[0], self.append_item)
        if name in ("pop", "insert", "rotate") and args:
            args = [self.constant_of(args[0]), *args[1:]]
        items: Any = collections.deque(owner.items, owner.maxlen)
        if owner.kind is not collections.deque:
            items = owner.items
        try:
            result = getattr(items, name)(*args)
        except (IndexError, TypeError) as error:
            self.fail(type(error), str(error))
        owner.items[:] = list(items)
        self.change(owner)
        return Known(None) if result is None else self.force(result)

    def sorted_items(self, values: object, kwargs: dict[str, Any]) -> list[Any]:
        """`sorted(values, key=, reverse=)`."""
        items = [self.force(item) for item in self.unpack_all(values)]
        key = kwargs.get("key")
        keyed = [
            (item if key is None or self.is_none(key) else self.call(key, [item], {}), item)
            for item in items
        ]

        def order(a: tuple, b: tuple) -> int:
            if self.truth(self.compare("<", a[0], b[0])):
                return -1
            return 1 if self.truth(self.compare("<", b[0], a[0])) else 0

        reverse = "reverse" in kwargs and self.truth(kwargs["reverse"])
        ordered = sorted(keyed, key=functools.cmp_to_key(order), reverse=reverse)
        return [item for _, item in ordered]

    def set_method(self, owner: SetValue, name: str, args: list[Any]) -> Any:
        """A method of a set."""
        if name in ("add", "discard", "remove"):
            key = self.key_of(args[0])
            if name == "add":
                owner.items.setdefault(key, self.force(args[0]))
            elif owner.items.pop(key, None) is None and name == "remove":
                self.raise_with(KeyError, [args[0]])
            self.change(owner)
            return Known(None)
        others = [self.build_set(self.unpack_all(a)).items for a in args]
        keys = set(owner.items)
        if name in ("issubset", "issuperset", "isdisjoint"):
            return Known(getattr(keys, name)(set(others[0])))
        target = name.removesuffix("_update") if name != "update" else "union"
        if target not in ("union", "intersection", "difference", "symmetric_difference", "copy"):
            if name == "pop" and owner.items:
                key = next(iter(owner.items))
                self.change(owner)
                return owner.items.pop(key)
            if name == "clear":
                owner.items.clear()
                self.change(owner)
                return Known(None)
            raise Break("unsupported-mutation", f"set.{name}")
        everything = {k: v for part in (*others, owner.items) for k, v in part.items()}
        result = getattr(keys, target)(*[set(o) for o in others])
        items = {k: everything[k] for k in everything if k in result}
        if name.endswith("update"):
            owner.items = items
            self.change(owner)
            return Known(None)
        made: Value = self.made(SetValue(owner.kind))
        made.items = items  # type: ignore[attr-defined]
        return made
