"""Records as plain values, which JSON holds, and back.

Takes: records, or lists, dictionaries, numbers and strings that anybody may have written. Gives: the other of the two.
Keeps true: what is read has the types that the records' annotations say, or is refused; nothing is evaluated; fields
that are not known are left out, fields with a default may be missing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from enum import Enum
from functools import cache
from typing import Any

from facula.core.errors import fail
from facula.export.pt2 import records
from facula.export.pt2.union import Union, names_of

__all__ = ["SerializeError", "from_plain", "json_bytes", "read_json", "to_plain"]

_SPECIAL = {math.inf: "Infinity", -math.inf: "-Infinity"}
#: records within one another
_DEEPEST = 64


class SerializeError(RuntimeError):
    """A program that a file can not hold, or a file that holds none."""


def refuse(required: str, got: object) -> Any:
    """Raise for what a file can not hold, or should not."""
    return fail(SerializeError, "export", f"{required} was required", f"{got}"[:200],
                hint="export the program again, and save it with this version")  # fmt: skip


def to_plain(x: Any) -> Any:
    """Records as dictionaries; a union as a dictionary of its one field."""
    if isinstance(x, Union):
        return {x.type: to_plain(x.value)}
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return {name: to_plain(getattr(x, name)) for name in names_of(type(x))}
    if isinstance(x, (list, tuple)):
        return type(x)([to_plain(item) for item in x])
    if isinstance(x, dict):
        return {key: to_plain(item) for key, item in x.items()}
    if isinstance(x, Enum):
        return x.value
    if isinstance(x, float):
        return "NaN" if math.isnan(x) else _SPECIAL.get(x, x)
    return x


def json_bytes(x: Any) -> bytes:
    """Records as the bytes of a file."""
    return json.dumps(to_plain(x), allow_nan=False).encode()


def read_json(kind: type, data: bytes) -> Any:
    """A record from the bytes of a file."""
    return from_plain(kind, json.loads(data.decode()))


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, globalns=records.NAMES)


@cache
def _required(kind: Any) -> frozenset[str]:
    missing = dataclasses.MISSING
    found = dataclasses.fields(kind)
    return frozenset(f.name for f in found if f.default is missing and f.default_factory is missing)


def from_plain(kind: Any, data: Any, depth: int = 0) -> Any:
    """The record of a kind.

    Args:
        kind: its class, or an annotation
        data: the plain value
        depth: in how many records it stands

    Raises:
        SerializeError: it is no such record.
    """
    if depth > _DEEPEST:
        refuse("records in a few records", depth)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if data is None else from_plain(inner[0], data, depth)
    if origin is list:
        return [from_plain(inner[0], item, depth + 1) for item in _a(list, data)]
    if origin is dict:
        return {
            _a(str, key): from_plain(inner[1], item, depth + 1)
            for key, item in _a(dict, data).items()
        }
    if not isinstance(kind, type):
        return refuse("a known annotation", kind)
    if issubclass(kind, Union):
        return _read_union(kind, data, depth)
    if dataclasses.is_dataclass(kind):
        return _read_record(kind, data, depth)
    if issubclass(kind, Enum):
        known = {member.value: member for member in kind}
        return known[data] if type(data) is int and data in known else refuse(kind.__name__, data)
    if kind is float:
        special = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
        return (
            float(data)
            if type(data) in (int, float)
            else special.get(data) or refuse("a float", data)
        )
    return _a(kind, data)


def _a(kind: type, data: Any) -> Any:
    return data if type(data) is kind else refuse(f"a value of type {kind.__name__}", repr(data))


def _read_union(kind: Any, data: Any, depth: int) -> Any:
    if len(_a(dict, data)) != 1:
        refuse(f"one field of {kind.__name__}", list(data))
    ((name, value),) = data.items()
    if name not in names_of(kind):
        refuse(f"a field of {kind.__name__}", name)
    return kind.create(**{name: from_plain(_types_of(kind)[name], value, depth + 1)})


def _read_record(kind: Any, data: Any, depth: int) -> Any:
    _a(dict, data)
    if not _required(kind) <= data.keys():
        refuse(f"all fields of {kind.__name__}", sorted(_required(kind) - data.keys()))
    hints = _types_of(kind)
    return kind(
        **{n: from_plain(hints[n], data[n], depth + 1) for n in names_of(kind) if n in data}
    )
