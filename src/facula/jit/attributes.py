"""Lowering of `value.name`: attributes of tensors, tuples, modules, classes, enums and Python's objects.

Takes the builder, what stands before the dot, and the name. Gives what the attribute stands for.
Keeps true: names of tensors are looked up in the operator table and the primitives.
"""

from __future__ import annotations

import enum
from typing import Any

from facula.jit.ir import Value
from facula.jit.module_contents import asks_for_contents
from facula.jit.signatures import signatures
from facula.jit.values import Bound, Names, Operators, Python, Special, TypeName, Unit
from facula.ops.table.schemas import types as T

__all__ = ["attribute"]

_WITHOUT_METHODS = ("int", "float", "bool", "Scalar", "Any", "NoneType")
_RENAMED = {"shape": "aten::size", "is_cuda": "prim::is_cuda"}


def attribute(builder: Any, thing: object, name: str) -> Any:
    """What `thing.name` stands for."""
    if isinstance(thing, Python):
        return _of_python(builder, thing, name)
    if isinstance(thing, Operators):
        return thing.part(name)
    if isinstance(thing, TypeName) and isinstance(thing.type, T.EnumType):
        return builder.constant(thing.type.members[name], thing.type)
    if isinstance(thing, TypeName) and name == "__new__":
        return Special("__new__")
    if isinstance(thing, TypeName) and isinstance(thing.type, T.ClassType):
        return Unit(thing.type.static.get(name) or thing.type.methods[name])
    if not isinstance(thing, Value):
        return builder.refuse("a value before the dot was required (attribute lookup is not defined on builtin)",
                              repr(thing))  # fmt: skip
    kind = thing.type
    if kind.kind == "Await":
        return attribute(builder, builder.value("prim::awaitable_wait", [thing], kind.item), name)
    if isinstance(kind, T.ClassType):
        return _of_object(builder, thing, kind, name)
    if isinstance(kind, T.NamedTupleType) and name in kind.fields:
        return builder.unpack(thing)[kind.fields.index(name)]
    if isinstance(kind, T.EnumType) and name in ("name", "value"):
        result = T.STR if name == "name" else kind.item
        return builder.value(
            f"prim::Enum{name.capitalize()}", [thing], result, lambda e: getattr(e, name)
        )
    if kind.kind == "Tensor":
        return _of_tensor(builder, thing, name)
    if kind.kind == "Device" and name in ("type", "index"):
        return builder.call(f"prim::{name}", [thing])
    if kind.kind == "Optional" and not signatures(f"aten::{name}"):
        return _missing(builder, kind, name)
    if kind.kind == "complex" and name in ("real", "imag"):
        return builder.value(f"aten::{name}", [thing], T.FLOAT, lambda c: getattr(c, name))
    if kind.kind in _WITHOUT_METHODS:
        return builder.refuse("a type with attributes was required",
                              f"'{kind}' object has no attribute or method {name!r}")  # fmt: skip
    return Bound(thing, name)


def _of_tensor(builder: Any, value: Value, name: str) -> Any:
    if name in _RENAMED:
        return builder.call(_RENAMED[name], [value])
    if name in ("real", "imag") or _asks_tensor(name):
        space = "aten" if name in ("real", "imag") else "prim"
        return builder.call(f"{space}::{name}", [value])
    return Bound(value, name)


def _asks_tensor(name: str) -> bool:
    """Whether a primitive of this name reads something off a tensor."""
    found = signatures(f"prim::{name}")
    return bool(found) and found[0].parameters[0].type == T.TENSOR


def _missing(builder: Any, kind: T.Type, name: str) -> Any:
    return builder.refuse(
        f"a type with the attribute {name!r} was required", str(kind),
        hint="exclude None first: `if x is not None:`, or `assert x is not None`",
    )  # fmt: skip


def _of_object(builder: Any, value: Value, kind: T.ClassType, name: str) -> Any:
    found = builder.attribute_of_instance(value, kind, name)
    if found is not None:
        return found
    if name in kind.properties:
        getter = kind.methods.setdefault(f"{name}__get", kind.properties[name])
        return builder.call_unit(getter, [value], {}, method=f"{name}__get")
    if name in kind.methods:
        return Bound(value, name)
    if name not in kind.attributes and asks_for_contents(kind, name):
        return Bound(value, name)
    if name in kind.static:
        return Unit(kind.static[name])
    if name in kind.attributes:
        return builder.value("prim::GetAttr", [value], kind.attributes[name], name=name)
    if name in kind.constants:
        return builder.wrap(kind.constants[name])
    note = kind.notes.get(name)
    short = kind.name.rpartition(".")[2]
    if kind.is_module:
        shown = f"{kind}: Module '{short}' has no attribute {name!r}"
    else:
        shown = f"{kind}: '{short}' object has no attribute or method {name!r}"
        if hasattr(kind.python, name):
            shown += f" (it is defined as a class attribute: {name!r} belongs to the class alone)"
    shown += f" ({note})" if note else ""
    return builder.refuse("an attribute that exists was required", shown,
                          hint="set it in __init__, with an annotation where it is empty")  # fmt: skip


def _of_python(builder: Any, thing: Python, name: str) -> Any:
    obj = thing.obj
    if isinstance(obj, Names):
        return builder.wrap(obj.part(name))
    if (
        builder.unit_is_archive()
    ):  # a file names what it defines; Python's objects are out of its reach
        return attribute(builder, builder.as_value(thing), name)
    if isinstance(obj, type) and issubclass(obj, enum.Enum):
        if name not in obj.__members__:
            builder.refuse("a member of the enumeration was required",
                           f"{obj.__name__} has no attribute {name!r}", hint=f"it has "
                           f"{', '.join(obj.__members__)}")  # fmt: skip
        return builder.python_constant(getattr(obj, name))
    try:
        return builder.wrap(getattr(obj, name))
    except AttributeError:
        return builder.refuse("an attribute that exists was required",
                              f"{thing!r} object has no attribute {name}")  # fmt: skip
