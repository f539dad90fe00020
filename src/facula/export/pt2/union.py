"""Records of which exactly one field is set.

Takes: a class with annotated fields. Gives: `Union`, whose instances `create` makes.
Keeps true: `type` names the field that is set and `value` is what it holds; no other field can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from facula.core.errors import fail

__all__ = ["Union", "names_of", "union_record"]

T = TypeVar("T", bound=type)


def names_of(kind: Any) -> tuple[str, ...]:
    """The names of a record's fields, in order."""
    found = _NAMES.get(kind)
    if found is None:
        found = _NAMES[kind] = tuple(field.name for field in fields(kind))
    return found


_NAMES: dict[Any, tuple[str, ...]] = {}


def union_record(kind: T) -> T:
    """Make a class of annotated fields a record of one of them."""
    made: Any = dataclass(repr=False, eq=False)(kind)
    return made


class Union:
    """A record of one of its fields."""

    @classmethod
    def create(cls, **field: Any) -> Any:
        """The record of one field.

        Args:
            field: its name and value

        Raises:
            AssertionError: it is not one field of this record.
        """
        names = names_of(cls)
        if len(field) != 1 or not field.keys() <= set(names):
            fail(AssertionError, cls.__name__, f"one of the fields {', '.join(names)} was required",
                 ", ".join(field) or "none", hint="name one field and its value")  # fmt: skip
        made = cls(**{**dict.fromkeys(names), **field})
        object.__setattr__(made, "_type", next(iter(field)))
        return made

    @property
    def type(self) -> str:
        """The name of the field that is set."""
        found = self.__dict__.get("_type")
        if found is None:
            fail(RuntimeError, type(self).__name__, f"a record of one field was required (Please use "
                 f"{type(self).__name__}.create to instantiate the union type)", "another",
                 hint="create(field=value) makes one")  # fmt: skip
        return str(found)

    @property
    def value(self) -> Any:
        """What the field holds."""
        return self.__dict__[self.type]

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if found is None and name in names_of(type(self)) and name != self.type:
            raise AttributeError(f"Field {name} is not set.")
        return found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Union) and self.type == other.type and bool(self.value == other.value)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type}={self.value!r})"
