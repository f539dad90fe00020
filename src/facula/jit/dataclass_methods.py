"""Methods that `dataclasses` writes, as sources that can be scripted.

Takes a dataclass and the name of one of its methods. Gives a unit, as of a method that stands in a file.
Keeps true: `__init__`, `__eq__` and the order do what the Python methods do, field by field; methods that scripted
code has no words for (`__repr__`, `__hash__`, those that freeze) are left to Python.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.jit.functions import FunctionUnit, found_name
from facula.jit.python_types import qualified_name
from facula.jit.source import Source
from facula.ops.table.schemas import types as T

__all__ = ["generated", "method_unit"]

_FILES = ("<string>", dataclasses.__file__)
_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def generated(owner: type, function: Callable[..., Any]) -> bool:
    """Whether a method comes from `dataclasses.dataclass`: most stand in no file, `__replace__` in its own."""
    made = "__dataclass_fields__" in vars(owner)
    return made and inspect.unwrap(function).__code__.co_filename in _FILES


def method_unit(
    owner: type, function: Callable[..., Any], kind: T.ClassType
) -> FunctionUnit | None:
    """The unit of a generated method; None for those that are left to Python."""
    name = function.__name__
    if name == "__init__":
        lines = _init(owner)
    elif name == "__eq__":
        lines = [_compared(owner, "__eq__"), *_equality(owner)]
    elif name in _ORDER:
        lines = [_compared(owner, name), *_order(owner, _ORDER[name])]
    else:
        return None
    source = Source("\n    ".join(lines), f"<dataclass {owner.__qualname__}>")
    definition = ast.parse(source.text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    given = {f.name: f.default for f in _parameters(owner)}
    defaults = {n: d for n, d in given.items() if d is not dataclasses.MISSING}
    made = FunctionUnit(
        f"{qualified_name(owner)}.{name}", definition, source, _names(owner), defaults, kind, function
    )  # fmt: skip
    made.checks_defaults = False  # Python's own `__init__` takes any default
    return made


def _parameters(owner: type) -> list[Any]:
    """What `__init__` takes, fields and `InitVar`s, in the order of its signature."""
    fields = owner.__dataclass_fields__.values()  # type: ignore[attr-defined]
    taken = [f for f in fields if f.init and not _of_class(f.type)]
    return [f for f in taken if not f.kw_only] + [f for f in taken if f.kw_only]


def _of_class(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.partition("[")[0].rpartition(".")[2] == "ClassVar"
    return annotation is typing.ClassVar or typing.get_origin(annotation) is typing.ClassVar


def _init(owner: type) -> list[str]:
    parameters, stored = _parameters(owner), dataclasses.fields(owner)
    lines = []
    for field in stored:
        if field.default_factory is not dataclasses.MISSING:
            fail(NotImplementedError, "jit.script", f"a dataclass whose defaults are values was required "
                 f"({owner.__name__})", f"a default_factory of the field '{field.name}'",
                 hint="pass the value, or write __init__ and use @dataclass(init=False)")  # fmt: skip
        if field.init:
            lines.append(f"self.{field.name} = {field.name}")
        elif field.default is not dataclasses.MISSING:
            lines.append(f"self.{field.name} = {_default_name(field.name)}")
    if hasattr(owner, "__post_init__"):
        names = {f.name for f in stored}
        passed = [f.name for f in parameters if f.name not in names]
        lines.append(f"self.__post_init__({', '.join(passed)})")
    listed = "".join(f", {f.name}: {_annotation(f)}" for f in parameters)
    return [f"def __init__(self{listed}):", *(lines or ["pass"])]


def _annotation(field: Any) -> str:
    """A field's annotation as text: its own, or a name under which the object is looked up."""
    if not isinstance(field.type, str):
        return _type_name(field.name)
    passed_on = re.fullmatch(r"(?:\w+\.)*InitVar\[(.*)\]", field.type)
    return passed_on[1] if passed_on else field.type


def _type_name(name: str) -> str:
    return f"_type_of_{name}"


def _default_name(name: str) -> str:
    return f"_default_of_{name}"


def _compared(owner: type, name: str) -> str:
    return f"def {name}(self, other: {owner.__name__}) -> bool:"


def _compared_fields(owner: type) -> list[str]:
    return [field.name for field in dataclasses.fields(owner) if field.compare]


def _equality(owner: type) -> list[str]:
    lines = []
    for name in _compared_fields(owner):
        mine, its = f"mine_{name}", f"its_{name}"
        lines += [
            f"{mine} = self.{name}",
            f"{its} = other.{name}",
            f"if {mine} is None or {its} is None:",
            f"    if not ({mine} is None and {its} is None):",
            "        return False",
            f"elif not ({mine} == {its}):",
            "    return False",
        ]
    return [*lines, "return True"]


def _order(owner: type, sign: str) -> list[str]:
    lines = []
    for name in _compared_fields(owner):
        mine, its = f"self.{name}", f"other.{name}"
        lines += [f"if {mine} != {its}:", f"    return {mine} {sign[0]} {its}"]
    return [*lines, f"return {len(sign) == 2}"]


def _names(owner: type) -> Callable[[str], Any]:
    """How the written methods look names up: fields' annotations and defaults, then the class's module."""
    own: dict[str, Any] = {owner.__name__: owner}
    for name, field in owner.__dataclass_fields__.items():  # type: ignore[attr-defined]
        held = field.type
        own[_type_name(name)] = held.type if isinstance(held, dataclasses.InitVar) else held
        own[_default_name(name)] = field.default
    scopes = [own, vars(sys.modules[owner.__module__])]
    return lambda name: found_name(name, scopes, owner.__module__)
