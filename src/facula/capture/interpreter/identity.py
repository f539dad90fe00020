"""Which objects are one: `is`, and what stands for a value as a key of dictionaries and sets.

Takes: symbolic values. Gives: whether two are the same object; hashable keys, equal where Python's are.
Keeps true: that two objects of the outside are different ones, and which object a dictionary was asked
for, is guarded as soon as the program depends on it.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import weakref
from typing import Any, NamedTuple

from facula.capture.breaks import Break
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.frames import UNBOUND
from facula.capture.values.kinds import (
    LITERAL_TYPES,
    ArrayValue,
    CellValue,
    FunctionValue,
    GeneratorValue,
    Identity,
    IteratorValue,
    Known,
    MethodValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    SequenceValue,
    SetValue,
    TensorValue,
    Value,
)
from facula.capture.values.sizes import is_argument
from facula.capture.values.sources import Source, held


class FieldsKey(NamedTuple):
    """A dictionary key that stands for an instance of a dataclass: equal where class and fields are."""

    kind: type
    fields: tuple[tuple[str, Any], ...]


class MethodKey(NamedTuple):
    """A dictionary key that stands for a bound method: equal where function and object are."""

    function: Any
    owner: Any


def hashes_fields(kind: type) -> bool:
    """Whether instances are hashed and compared as a dataclass says, by their fields."""
    made = [getattr(vars(kind).get(n), "__code__", None) for n in ("__hash__", "__eq__")]
    return dataclasses.is_dataclass(kind) and all(c and c.co_filename == "<string>" for c in made)


def is_trusted_hash(kind: type) -> bool:
    """Whether a class is hashed by what does not change."""
    return issubclass(kind, enum.Enum) or getattr(kind.__hash__, "__objclass__", None) is not None


def _real(value: Any) -> Any:
    """The object of the outside that a value stands for, None where there is none."""
    return value.obj if isinstance(value, Known) else getattr(value, "real", None)


class Identities(Part):
    """The part of `Symbolic` that knows which objects are one."""

    def is_same(self, left: object, right: object) -> bool:
        """`left is right`, guarded where another call may bring one object under both names."""
        left, right = self.force(left), self.force(right)
        if left is right:
            return True
        if isinstance(left, Known) and isinstance(right, Known):
            if left.obj is right.obj:
                return True
            return (
                type(left.obj) is type(right.obj)
                and isinstance(left.obj, (int, str, float))
                and (left.obj == right.obj)
            )
        self._keep_apart(left, right)
        return False

    def is_same_method(self, left: MethodValue, right: MethodValue) -> bool:
        """Whether two bound methods are equal: one function, and one object that it is bound to."""
        one = [isinstance(method.function, str) for method in (left, right)]
        if any(one):
            same = all(one) and left.function == right.function
        else:
            same = self.is_same(left.function, right.function)
        return same and self.is_same(left.owner, right.owner)

    def _keep_apart(self, left: Any, right: Any) -> None:
        """Ask that two objects, which are different ones now, are so in every call."""
        plain = (Known, NumberValue)  # which are guarded by what they are
        if left.cls is not right.cls or isinstance(left, plain) or isinstance(right, plain):
            return
        if left.source is None or right.source is None:
            return  # one is made here, and nobody else has it
        if left.source.kind == "held":
            left, right = right, left
        if right.source.kind == "held":
            self.guards.add("not", left.source, right.source.key.value)
        else:
            self.guards.add("different", left.source, right.source)

    def keep_identity(self, value: Any, real: object) -> None:
        """Ask that a value, used as a key or a constant, is this object in every call.

        Tensors that are arguments are others in each call: they are kept apart from other keys, and are
        asked for where a dictionary of the outside is (`keep_key`).
        """
        if value.source is None:
            return
        held_ = value.source.kind == "held"
        if not isinstance(value, TensorValue) or not (held_ or is_argument(value.source)):
            if not held_:
                self.guards.add("is", value.source, real)
            return
        arguments, kept = self.tensor_keys
        for other in (*arguments.values(), *(() if held_ else kept.values())):
            if other is not value:
                self._keep_apart(value, other)
        (kept if held_ else arguments)[id(value)] = value

    def keep_key(self, key: Any) -> None:
        """Ask for the objects of a key that a dictionary of the outside was asked for."""
        if type(key) is tuple:
            for part in key:
                self.keep_key(part)
        elif isinstance(key, Identity) and getattr(key.obj, "real", None) is not None:
            self.guards.add("is", key.obj.source, key.obj.real)

    # keys -----------------------------------------------------------------------------------------
    def key_of(self, value: Any) -> Any:
        """What stands for a value as a key: itself where it is known, its identity elsewhere."""
        value = self.force(value)
        if isinstance(value, NumberValue):
            value = self.specialise(value)
        if isinstance(value, Known):
            try:
                hash(value.obj)
            except TypeError:
                self.fail(TypeError, f"unhashable type: '{value.cls.__name__}'")
            return value.obj
        if isinstance(value, SequenceValue):
            if not issubclass(value.kind, tuple):
                self.fail(TypeError, f"unhashable type: '{value.cls.__name__}'")
            return tuple(self.key_of(item) for item in value.items)
        if isinstance(value, SetValue) and value.kind is frozenset:
            return frozenset(value.items)
        if isinstance(value, ArrayValue) and value.scalar:
            raise Break("data-dependent-value", "a number of NumPy's as a dictionary key")
        if isinstance(value, MethodValue):
            function = value.function
            part = function if isinstance(function, str) else self.key_of(function)
            return MethodKey(part, self._identity_of(value.owner))
        if isinstance(value, ObjectValue):
            return self._key_of_object(value)
        alone = (
            TensorValue, FunctionValue, PartialValue, IteratorValue, GeneratorValue, CellValue,
        )  # fmt: skip
        if isinstance(value, alone):
            return self._identity_of(value)
        self.fail(TypeError, f"unhashable type: '{value.cls.__name__}'")

    def _identity_of(self, value: Any) -> Any:
        """The key of what is equal to itself alone."""
        value = self.force(value)
        real = _real(value)
        if real is None or isinstance(value, Known):
            return Identity(value) if real is None else real
        self.keep_identity(value, real)
        return real if isinstance(value, FunctionValue) else Identity(value)

    def _key_of_object(self, value: ObjectValue) -> Any:
        if value.kind is weakref.ReferenceType and value.args is not None:
            # it is found where another reference to the same object is
            referent = getattr(self.force(value.args.items[0]), "real", None)
            return Identity(value) if referent is None else weakref.ref(referent)
        if value.kind.__hash__ is object.__hash__:
            return self._identity_of(value)
        if hashes_fields(value.kind):
            names = [f.name for f in dataclasses.fields(value.kind) if f.compare]
            parts = [self.key_of(self.object_attribute(value, name)) for name in names]
            if not any(isinstance(part, Identity) for part in parts):
                return FieldsKey(value.kind, tuple(zip(names, parts, strict=True)))
        elif value.real is not None and is_trusted_hash(value.kind):
            self.keep_identity(value, value.real)
            return value.real
        raise Break("unsupported-value", f"a {value.kind.__name__} as a dictionary key")

    def real_key(self, key: Any) -> Any:
        """The key as a real dictionary has it; UNBOUND where it can have none."""
        if isinstance(key, Identity):
            real = getattr(key.obj, "real", None)
            return UNBOUND if real is None else real
        if type(key) is tuple:
            parts = tuple(self.real_key(part) for part in key)
            return UNBOUND if any(part is UNBOUND for part in parts) else parts
        if isinstance(key, MethodKey):
            function, owner = self.real_key(key.function), self.real_key(key.owner)
            if function is UNBOUND or owner is UNBOUND:
                return UNBOUND
            named = isinstance(function, str)
            return getattr(owner, function) if named else types.MethodType(function, owner)
        if isinstance(key, FieldsKey):
            made: Any = object.__new__(key.kind)
            for name, part in key.fields:
                object.__setattr__(made, name, self.real_key(part))
            return made
        return key

    def key_value(self, key: Any, source: Source | None) -> Any:
        """The value of a real dictionary's key."""
        if type(key) in LITERAL_TYPES:
            return Known(key)
        if type(key) is tuple:
            return SequenceValue(tuple, [self.key_value(part, None) for part in key])
        return self.wrap(key, held(key))


__all__ = ["FieldsKey", "Identities", "MethodKey", "Value", "hashes_fields", "is_trusted_hash"]
