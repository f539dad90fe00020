"""TorchScript types of Python's annotations, classes and values.

Takes an annotation as an object or as a syntax tree with a way to look names up, a class, or a value.
Gives its `Type`.
Keeps true: annotations are walked, not evaluated; a value of mixed content, or of a class that cannot be
scripted, has no type, and the error says why.
"""

from __future__ import annotations

import ast
import enum
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from facula import core
from facula.jit.packed_types import type_of_object, type_of_packed
from facula.jit.values import Names
from facula.namespaces._awaits import _Await
from facula.namespaces.futures import Future
from facula.nn import Module
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED
from facula.quantization.tensor import qscheme

__all__ = ["NoType", "annotation_type", "type_of_class", "type_of_value"]


class NoType(Exception):
    """There is no TorchScript type for this."""


#: what makes a ClassType of a Python class that is neither of the plain ones; `recursive` fills it
CLASS_TYPE: list[Callable[[Any], T.Type]] = []
#: what gives the ClassType of a scripted module
MODULE_TYPE: list[Callable[[Any], T.Type]] = []

_PLAIN: dict[Any, T.Type] = {
    core.Tensor: T.TENSOR, int: T.INT, float: T.FLOAT, bool: T.BOOL, str: T.STR, complex: T.COMPLEX,
    None: T.NONE, type(None): T.NONE, Any: T.ANY, core.device: T.DEVICE, core.Size: T.list_of(T.INT),
    qscheme: T.QSCHEME, list: T.list_of(T.TENSOR), core.Generator: T.GENERATOR,  # noqa: UP006
    **dict.fromkeys(CODED, T.INT),
}  # fmt: skip


#: types that texts and comments name without an import
TYPE_NAMES: dict[str, Any] = {
    "Tensor": T.TENSOR, "number": T.NUMBER, "NoneType": T.NONE, "Generator": T.GENERATOR, "Device": T.DEVICE,
    "Stream": T.STREAM, "Future": Future, "Any": Any,
    **{f"BroadcastingList{n}": list for n in (1, 2, 3)},
    **{name: getattr(typing, name) for name in ("Dict", "List", "NamedTuple", "Optional", "Tuple", "Union")},
}  # fmt: skip


#: annotations of modules, of one number or several: lists in scripts
_SIZES = re.compile(r"_size_[1-6]_t")
#: names of `typing` that need the types inside
_BARE: dict[Any, str] = {
    typing.Dict: "Dict", typing.List: "List", typing.Tuple: "Tuple", typing.Optional: "Optional",  # noqa: UP006
}  # fmt: skip


def type_of_class(annotation: Any) -> T.Type:
    """The type of an annotation that is an object."""
    try:
        if annotation in _BARE:
            word, what = (
                _BARE[annotation],
                "contained types" if annotation is typing.Dict else "a contained type",  # noqa: UP006
            )  # noqa: UP006
            article = "" if annotation is typing.Dict else "a "  # noqa: UP006
            raise NoType(f"Attempted to use {word} without {what}. Please add {article}contained type, e.g. "
                         f"{word}[{'int, int' if word == 'Dict' else 'int'}]")  # fmt: skip
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError as error:
        raise NoType(repr(annotation)) from error
    if isinstance(annotation, T.Type):
        return annotation
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if (
        origin is typing.Annotated
        or getattr(origin, "_name", "") == "Final"
        or origin is typing.Final
    ):
        return type_of_class(inner[0])
    if origin is not None:
        return _generic(annotation, origin, inner)
    if isinstance(annotation, type):
        return _class(annotation)
    if annotation in (dict, tuple, typing.Tuple, typing.Dict):  # noqa: UP006
        raise NoType(f"{annotation} without the types inside")
    raise NoType(repr(annotation))


def _generic(annotation: Any, origin: Any, inner: tuple[Any, ...]) -> T.Type:
    if origin in (typing.Union, types.UnionType):
        return T.union_of([type_of_class(i) for i in inner])
    if origin is list:
        return T.list_of(type_of_class(inner[0]))
    if origin is dict:
        return T.dict_of(*map(type_of_class, inner))
    if origin is tuple:
        return T.tuple_of([type_of_class(i) for i in inner if i != ()])
    if origin is _Await:
        return T.await_of(type_of_class(inner[0]))
    if origin is Future:
        return T.future_of(type_of_class(inner[0]))
    raise NoType(repr(annotation))


def _class(kind: type) -> T.Type:
    if issubclass(kind, core.Tensor):
        return T.TENSOR
    if issubclass(kind, enum.Enum):
        return enum_type(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return named_tuple(kind)
    if kind is tuple or kind is dict:
        raise NoType(f"{kind.__name__} without the types inside")
    if kind is _Await:
        return T.Type("AnyAwait")
    packed = type_of_packed(kind)
    if packed is not None:
        return packed
    return CLASS_TYPE[0](kind)


def qualified_name(obj: Any) -> str:
    """The name of a function or class in graphs and files."""
    module = getattr(obj, "__module__", None) or "__main__"
    head, _, rest = module.partition(".")
    if head == "facula":
        module = f"torch.{rest}" if rest else "torch"
    parts = [p for p in ("__torch__" if module == "__main__" else f"__torch__.{module}").split(".")]
    own = obj.__qualname__.rpartition("<locals>.")[2]
    return ".".join([*parts, own])


_ENUMS: dict[type, T.EnumType] = {}
_TUPLES: dict[type, T.NamedTupleType] = {}


def enum_type(kind: type[enum.Enum]) -> T.EnumType:
    """The type of an enumeration, whose values have one type."""
    if kind not in _ENUMS:
        values = {m.name: m for m in kind}
        kinds = {type(m.value) for m in kind}
        if len(kinds) != 1:
            raise NoType(
                f"the enumeration {kind.__name__}, whose values are of different types (Could not unify type list)"
            )
        item = type_of_value(next(iter(kind)).value)
        if item not in (T.INT, T.FLOAT, T.STR):
            raise NoType(f"the enumeration {kind.__name__}: Cannot create Enum with value type "
                         f"{item.annotation_str!r}, "
                         "only int, float and str")  # fmt: skip
        _ENUMS[kind] = T.EnumType(qualified_name(kind), values, item, kind)
    return _ENUMS[kind]


def named_tuple(kind: Any) -> T.NamedTupleType:
    """The type of a class made by `NamedTuple` or `namedtuple`."""
    if kind not in _TUPLES:
        hints = {}
        if any(isinstance(d, core.Tensor) for d in kind._field_defaults.values()):
            raise NoType(f"{kind.__name__}: Tensors are not supported as default NamedTuple fields")
        written: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            written.update(vars(base).get("__annotations__", {}))
        for name in kind._fields:
            found = written.get(name, core.Tensor)
            if isinstance(found, (str, typing.ForwardRef)):
                try:
                    found = typing.get_type_hints(kind)[name]
                except NameError as error:
                    raise NoType(f"{kind.__name__}.{name}: {error}") from error
            hints[name] = type_of_class(found)
        name, fields = qualified_name(kind), tuple(kind._fields)
        made = T.NamedTupleType(name, fields, tuple(hints.values()), kind, kind._field_defaults)
        _TUPLES[kind] = made
    return _TUPLES[kind]


def type_of_value(value: Any) -> T.Type:
    """The type of a value, as an attribute of a module or an example has it."""
    kind = type(value)
    if kind in _PLAIN and kind is not list:
        return _PLAIN[kind]
    if isinstance(value, core.Tensor):
        return T.TENSOR
    if isinstance(value, CODED):
        return T.INT
    if isinstance(value, enum.Enum):
        return enum_type(kind)
    if isinstance(value, tuple):
        if hasattr(kind, "_fields") and "return_types" not in kind.__module__:
            return _holding(named_tuple(kind), value)
        return T.tuple_of([type_of_value(v) for v in value])
    if isinstance(value, list):
        return T.list_of(_common(value, "list"))
    if isinstance(value, dict):
        keys = _common(value, "dict")
        if keys.kind in T.NO_KEYS:
            raise NoType(f"a dict of keys {keys.annotation_str}, which scripts cannot look up by")
        return T.dict_of(keys, _common(value.values(), "dict"))
    if isinstance(value, Module):
        return MODULE_TYPE[0](value)
    if isinstance(value, Future):
        return T.future_of(T.ANY)
    known = getattr(value, "_script_type", None) or type_of_object(value)
    if isinstance(known, T.Type):
        return known
    return CLASS_TYPE[0](kind)


def _holding(made: T.NamedTupleType, value: Any) -> T.Type:
    """The type of a named tuple; items that count as tensors (those without a type do) must be such."""
    for name, kind, item in zip(made.fields, made.inner, value, strict=True):
        if kind is T.TENSOR and not isinstance(item, core.Tensor):
            holds = f"{type(value).__name__}.{name} holds a {type(item).__name__}"
            raise NoType(f"{holds}, where a tensor was said, or nothing")
    return made


def _common(values: Any, what: str) -> T.Type:
    found: T.Type | None = None
    for value in values:
        if isinstance(value, Module):
            raise NoType(f"a {what} of modules, which nn.ModuleList and nn.ModuleDict are for (Could not infer type of "
                         f"{what} element: Cannot infer concrete type of torch.nn.Module)")  # fmt: skip
        own = type_of_value(value)
        found = own if found is None else T.unify(found, own)
        if found is None:
            raise NoType(f"a {what} of values of different types")
    if found is None:
        raise NoType(f"an empty {what}, whose type has to be annotated")
    return found


# ------------------------------------------------------------------ syntax trees


def annotation_type(node: ast.AST, look_up: Callable[[str], Any]) -> T.Type:
    """The type of an annotation in source text; `look_up` gives the object of a name, or a Type."""
    return type_of_class(_object(node, look_up))


def _object(node: ast.AST, look_up: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return _object(ast.parse(node.value, mode="eval").body, look_up)
        return node.value
    if isinstance(node, ast.Name) and _SIZES.fullmatch(node.id):
        return T.list_of(T.INT)
    if isinstance(node, ast.Name):
        return look_up(node.id)
    if isinstance(node, ast.Attribute):
        owner = _object(node.value, look_up)
        if isinstance(owner, Names):
            return owner.part(node.attr)
        if node.attr.startswith("__"):
            raise NoType(ast.unparse(node))
        return getattr(owner, node.attr)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [type_of_class(_object(n, look_up)) for n in (node.left, node.right)]
        return T.union_of(sides)
    if isinstance(node, ast.Subscript):
        return _subscripted(node, look_up)
    raise NoType(ast.unparse(node))


def _subscripted(node: ast.Subscript, look_up: Callable[[str], Any]) -> T.Type:
    head = _object(node.value, look_up)
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    inner = [type_of_class(_object(item, look_up)) for item in items]
    name = getattr(head, "_name", None) or getattr(head, "__name__", None) or str(head)
    if name in ("Tuple", "tuple"):
        return T.tuple_of(inner)
    if name in ("List", "list", "Sequence") or name.startswith("BroadcastingList"):
        return T.list_of(inner[0])
    if name == "Optional":
        return T.union_of([inner[0], T.NONE])
    if name == "Union":
        return T.union_of(inner)
    if name in ("Dict", "dict"):
        return T.dict_of(*inner)
    if name == "Future":
        return T.future_of(inner[0])
    if name in ("Await", "_Await"):
        return T.await_of(inner[0])
    if name in ("Final", "Annotated", "RRef"):
        return inner[0]
    raise NoType(ast.unparse(node))
