"""Dictionaries of symbolic values, and instances of classes of dictionaries.

Takes: symbolic values. Gives: symbolic values; changes of dictionaries from outside are noted, to be
repeated behind the graph.
Keeps true: `dict_find`, `dict_set` and `dict_delete` are what `dict` itself does; what a class has of
its own in place of these is Python, and is followed.
"""

from __future__ import annotations

import collections
import types
from typing import Any

from facula.capture.breaks import Break
from facula.capture.guards.reading import DICTS, is_of_python
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.frames import UNBOUND
from facula.capture.values.kinds import (
    DictValue,
    Known,
    Lazy,
    ObjectValue,
    SequenceValue,
    ViewValue,
)


class Dictionaries(Part):
    """The part of `Symbolic` that knows dictionaries."""

    def own_method(self, owner: DictValue | SequenceValue, name: str) -> Any:
        """The function that a class of containers has in place of that of C, or None."""
        if not is_of_python(owner.kind) or owner.kind in DICTS:
            return None
        found = self.type_lookup(owner.kind, name)
        return found if isinstance(found, types.FunctionType) else None

    def pairs(self, value: object) -> list[tuple[Any, Any]]:
        """The keys and values of a mapping, or of an iterable of pairs."""
        value = self.force(value)
        if isinstance(value, ViewValue) and value.part == "mapping":
            value = value.owner
        if isinstance(value, DictValue):
            self.complete(value)
            pairs = [(key, item) for key, item in value.items.values()]
            # of what iterates as `dict` does, C takes the items without asking
            asks = getattr(value.kind, "__iter__", None) is not vars(dict)["__iter__"]
            if asks and self.own_method(value, "__getitem__"):
                return [(key, self.getitem(value, key)) for key, _ in pairs]
            return pairs
        if isinstance(value, ObjectValue) and hasattr(value.kind, "keys"):
            keys = self.unpack_all(self.call(self.getattr(value, "keys"), [], {}))
            return [(key, self.getitem(value, key)) for key in keys]
        return [tuple(self.unpack(item, 2)) for item in self.unpack_all(value)]

    # dictionaries ---------------------------------------------------------------------------------
    def complete(self, value: DictValue) -> None:
        """Look at all keys of a dictionary from outside."""
        if value.complete:
            return
        value.complete = True
        if isinstance(value.real, dict) or value.real is not None:
            self.guards.add("keys", value.source, list(value.real))
        known, value.items = value.items, {}
        for real in value.real:
            key_value = self.key_value(real, value.source)
            key = self.key_of(key_value)
            if key in value.dropped:
                continue  # what was put in again stands at the end
            value.items[key] = known.pop(key, None) or (  # type: ignore[arg-type]
                key_value,
                Lazy(raw_item(value.real, real), self._item_source(value, real)),
            )
        value.items.update(known)

    def dict_find(self, owner: DictValue, key: Any) -> Any:
        """The item of a key (see `key_of`), UNBOUND where there is none."""
        found = owner.items.get(key)
        if found is not None:
            return self.force(found[1])
        if owner.complete or key in owner.deleted:
            return UNBOUND
        real = self.real_key(key)
        if real is UNBOUND:
            return UNBOUND
        source = owner.source
        self.keep_key(key)
        if real not in owner.real:
            self.guards.add("lacks", source, real)
            return UNBOUND
        value = self.wrap(raw_item(owner.real, real), self._item_source(owner, real))
        owner.items[key] = (self.key_value(real, source), value)
        return value

    def _item_source(self, owner: DictValue, key: Any) -> Any:
        """Where an item of a dictionary from outside is."""
        if self.own_method(owner, "__getitem__"):
            return owner.source.apply(raw_item, key)
        return owner.source.item(key)

    def dict_set(self, owner: DictValue, key: Any, value: Any) -> None:
        """Put an item into a dictionary."""
        key = self.force(key)
        name = self.key_of(key)
        known = owner.items.get(name)
        owner.items[name] = (known[0] if known else key, value)
        owner.deleted.discard(name)
        self.change(owner, name)

    def dict_delete(self, owner: DictValue, key: object) -> None:
        """Take an item out of a dictionary."""
        name = self.key_of(key)
        if self.dict_find(owner, name) is UNBOUND:
            self.raise_with(KeyError, [key])
        owner.items.pop(name, None)
        owner.deleted.add(name)
        owner.dropped.add(name)
        self.change(owner, name)

    def dict_item(self, owner: DictValue, key: object) -> Any:
        """`owner[key]`."""
        own = self.own_method(owner, "__getitem__")
        if own is not None:
            return self.call(self.trusted(own), [owner, key], {})
        return self.base_dict_item(owner, key)

    def base_dict_item(self, owner: DictValue, key: object) -> Any:
        """`dict.__getitem__`, and what stands in for a missing item."""
        found = self.dict_find(owner, self.key_of(key))
        if found is not UNBOUND:
            return found
        if owner.factory is not None and not self.is_none(owner.factory):
            made = self.call(owner.factory, [], {})
            self.dict_set(owner, key, made)
            return made
        if hasattr(owner.kind, "__missing__") and owner.kind is not collections.defaultdict:
            missing = self.type_lookup(owner.kind, "__missing__")
            return self.call(self.trusted(missing), [owner, key], {})
        self.raise_with(KeyError, [key])

    def dict_method(
        self, owner: DictValue, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A method of a dictionary."""
        if name in ("keys", "values", "items"):
            return self.made(ViewValue(owner, name))
        if name == "get":
            found = self.dict_find(owner, self.key_of(args[0]))
            return (args[1] if len(args) > 1 else Known(None)) if found is UNBOUND else found
        if name == "setdefault":
            found = self.dict_find(owner, self.key_of(args[0]))
            if found is not UNBOUND:
                return found
            value = args[1] if len(args) > 1 else Known(None)
            self.dict_set(owner, args[0], value)
            return value
        if name == "pop":
            found = self.dict_find(owner, self.key_of(args[0]))
            if found is UNBOUND:
                return args[1] if len(args) > 1 else self.raise_with(KeyError, [args[0]])
            self.dict_delete(owner, args[0])
            return found
        if name == "update":
            self._update(owner, args, kwargs)
            return Known(None)
        return self._whole_dict_method(owner, name, [*args, *kwargs.values()])

    def _whole_dict_method(self, owner: DictValue, name: str, args: list[Any]) -> Any:
        self.complete(owner)
        if name == "copy":
            made = self.made(DictValue(owner.kind))
            made.items, made.factory = dict(owner.items), owner.factory
            return made
        if name == "clear":
            for key, _ in list(owner.items.values()):
                self.dict_delete(owner, key)
            return Known(None)
        if name == "popitem":
            if not owner.items:
                self.fail(KeyError, "dictionary is empty")
            last = not args or self.truth(args[0])
            key, value = list(owner.items.values())[-1 if last else 0]
            self.dict_delete(owner, key)
            return self.build_tuple([key, value])
        if name == "move_to_end":
            return self._move_to_end(owner, *args)
        if name in ("__ior__", "__or__"):
            return self.binary("|=" if name == "__ior__" else "|", owner, args[0])
        raise Break("unsupported-mutation", f"dict.{name}")

    def _move_to_end(self, owner: DictValue, key: object, last: object = None) -> Any:
        """`OrderedDict.move_to_end`."""
        to_end = last is None or self.truth(last)
        name = self.key_of(key)
        if self.dict_find(owner, name) is UNBOUND:
            self.raise_with(KeyError, [key])
        key_value, item = owner.items[name]
        if to_end:
            self.dict_delete(owner, key_value)
            self.dict_set(owner, key_value, item)
        elif owner.source is not None:
            raise Break("unsupported-mutation", "OrderedDict.move_to_end(last=False)")
        else:
            rest = {other: pair for other, pair in owner.items.items() if other != name}
            owner.items = {name: (key_value, item), **rest}
        return Known(None)

    def _update(self, owner: DictValue, args: list[Any], kwargs: dict[str, Any]) -> None:
        """`dict.update`; that of ordered dictionaries puts items in as the class does."""
        through = issubclass(owner.kind, collections.OrderedDict)
        put = self.setitem if through else self.dict_set
        for source in args:
            for key, value in self.pairs(source):
                put(owner, key, value)
        for name, value in kwargs.items():
            put(owner, Known(name), value)

    def dict_init(self, owner: DictValue, args: list[Any], kwargs: dict[str, Any]) -> None:
        """`dict.__init__`, or that of the class of C that an instance's class is made of."""
        if issubclass(owner.kind, collections.defaultdict) and args:
            owner.factory, args = self.force(args[0]), args[1:]
        self._update(owner, args, kwargs)

    def base_dict_method(
        self, owner: DictValue, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A method as `dict` itself has it, whatever the class has in its place."""
        if name == "__getitem__":
            return self.base_dict_item(owner, args[0])
        if name == "__setitem__":
            self.dict_set(owner, *args)
            return Known(None)
        if name == "__delitem__":
            self.dict_delete(owner, *args)
            return Known(None)
        if name in ("__eq__", "__ne__"):
            other = self.force(args[0])
            if not isinstance(other, DictValue):
                return Known(NotImplemented)
            return Known(self.equal_dicts(owner, other) == (name == "__eq__"))
        if not name.startswith("__") or name in ("__or__", "__ior__"):
            return self.dict_method(owner, name, args, kwargs)
        return NotImplemented


def raw_item(owner: dict, key: Any) -> Any:
    """An item of a dictionary, whatever its class does in between."""
    return dict.__getitem__(owner, key) if isinstance(owner, dict) else owner[key]
