"""The code of an archive: types and functions by their qualified names, compiled when they are needed.

Takes a function that gives the text of a file in the archive, and one that gives its constants. Gives
`ArchiveCode`: `type_named("__torch__.a.B")`, and what names in the code stand for.
Keeps true: text is parsed by `ast` and compiled to graphs; classes that stand for the file's own are made
empty, with attributes only.
"""

from __future__ import annotations

import ast
import enum
import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from facula.core.errors import fail
from facula.jit.context_classes import RANGE
from facula.jit.functions import FunctionUnit
from facula.jit.packed_types import packed_type
from facula.jit.python_types import annotation_type
from facula.jit.source import Source
from facula.jit.values import Names, Operators, Special
from facula.ops.table.schemas import types as T

__all__ = ["ArchiveCode", "ScriptObject"]


class ScriptObject:
    """An object of a class that a file defines."""

    _script_type: Any = None

    def __repr__(self) -> str:
        return f"<ScriptObject {self._script_type.name}>"


def tuple_class(name: str, fields: list[str]) -> type:
    """A class of tuples with names for the items, made without code (`namedtuple` writes some)."""

    def new(cls: type, *items: Any) -> Any:
        if len(items) != len(fields):
            fail(
                TypeError,
                name,
                f"{len(fields)} fields were required",
                len(items),
                hint="the file is damaged, or no TorchScript program",
            )
        return tuple.__new__(cls, items)

    def text(self: Any) -> str:
        return f"{name}({', '.join(f'{f}={v!r}' for f, v in zip(fields, self, strict=True))})"

    parts: dict[str, Any] = {f: property(itemgetter(i)) for i, f in enumerate(fields)}
    return type(
        name, (tuple,), {**parts, "__new__": new, "__repr__": text, "_fields": tuple(fields)}
    )


class _Head:
    """The head of a generic type in the code: `List` in `List[int]`."""

    def __init__(self, name: str) -> None:
        self._name = name


class _Path(Names):
    """`__torch__.a`: a step on the way to a qualified name."""

    def __init__(self, code: ArchiveCode, path: str) -> None:
        self._code, self._path = code, path

    def part(self, name: str) -> Any:
        return self._code.named(f"{self._path}.{name}")


class _Constants(Names):
    """`CONSTANTS.c0`."""

    def __init__(self, values: Callable[[], list[Any]]) -> None:
        self._values = values

    def part(self, name: str) -> Any:
        if not name[1:].isdecimal():
            fail(
                RuntimeError,
                "jit.load",
                "a constant of the file was required",
                f"CONSTANTS.{name}",
                hint="the file is damaged, or no TorchScript program",
            )
        return self._values()[int(name[1:])]


_GENERIC = ("List", "Dict", "Tuple", "Optional", "Union", "Future", "Final", "RRef", "Await")
_FORMS = ("annotate", "uninitialized", "unchecked_cast", "fork", "wait", "awaitable")
_PLAIN: dict[str, Any] = {
    "Tensor": T.TENSOR, "int": int, "float": float, "bool": bool, "str": str, "complex": complex,
    "number": T.NUMBER, "NoneType": T.NONE, "Device": T.DEVICE, "Generator": T.GENERATOR, "Any": T.ANY,
    "Layout": T.INT, "ScalarType": T.INT, "Stream": T.STREAM, "None": None, "inf": math.inf,
    "nan": math.nan, "infj": complex(0, math.inf), "range": range, "getattr": getattr,
    "isinstance": isinstance, "list": list, "dict": dict, "tuple": tuple, "print": print,
    "len": len, "sorted": sorted,
    "MemoryFormat": T.INT, "QScheme": T.QSCHEME, "AnyEnumType": T.ANY, "Capsule": T.Type("Capsule"),
    **{name: _Head(name) for name in _GENERIC}, **{name: Special(name) for name in _FORMS},
    "torch": Operators("aten"), "ops": Operators("ops"),
}  # fmt: skip


class ArchiveCode:
    """All code of an archive."""

    def __init__(
        self,
        text: Callable[[str], str | None],
        constants: Callable[[], list[Any]],
        operators: Operators | None = None,
    ) -> None:
        self._text = text
        self._names = {
            **_PLAIN,
            "__torch__": _Path(self, "__torch__"),
            "CONSTANTS": _Constants(constants),
        }
        if operators is not None:
            self._names["torch"] = operators
        self._files: dict[str, tuple[Source, dict[str, ast.stmt]] | None] = {}
        self._made: dict[str, Any] = {RANGE.name: RANGE}

    def look_up(self, name: str) -> Any:
        """What a name in the code stands for."""
        return self._names[name]

    def named(self, qualified: str) -> Any:
        """A type, a function, or a step towards one."""
        if qualified not in self._made:
            self._made[qualified] = self._make(qualified)
        return self._made[qualified]

    def type_named(self, qualified: str) -> T.Type:
        """The type of a qualified name; KeyError where there is none."""
        found = self.named(qualified)
        if not isinstance(found, T.Type):
            fail(
                KeyError,
                "jit.load",
                "a class was required",
                qualified,
                hint="the file is damaged, or no TorchScript program",
            )
        return found

    def _file(self, module: str) -> tuple[Source, dict[str, ast.stmt]] | None:
        if module not in self._files:
            path = module.replace(".", "/") + ".py"
            text = self._text(path)
            self._files[module] = None
            if text is not None:
                tree = ast.parse(text)
                parts = {
                    n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))
                }
                self._files[module] = Source(text, f"code/{path}"), dict(parts)
        return self._files[module]

    def _make(self, qualified: str) -> Any:
        module, _, name = qualified.rpartition(".")
        packed = packed_type(qualified)
        if packed is not None:
            return packed
        file = self._file(module)
        node = file[1].get(name) if file is not None else None
        if file is None or node is None:
            return _Path(self, qualified)
        if isinstance(node, ast.FunctionDef):
            return self._unit(qualified, node, file[0], None)
        assert isinstance(node, ast.ClassDef)
        base = node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else ""
        if base == "NamedTuple":
            return self._named_tuple(qualified, node)
        if base == "Enum":
            return self._enum(qualified, node)
        return self._class(qualified, node, file[0], base)

    def _unit(
        self, name: str, node: ast.FunctionDef, source: Source, kind: T.ClassType | None
    ) -> FunctionUnit:
        arguments = node.args
        listed = [*arguments.args, *arguments.kwonlyargs]
        given = [None] * (len(arguments.args) - len(arguments.defaults))
        values = [*given, *arguments.defaults, *arguments.kw_defaults]
        defaults = {
            a.arg: self._literal(v) for a, v in zip(listed, values, strict=True) if v is not None
        }
        return FunctionUnit(name, node, source, self.look_up, defaults, kind)

    def _literal(self, node: ast.AST) -> Any:
        """A default, or a constant of a class."""
        if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            return _PLAIN[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._literal(node.operand)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self._literal(e) for e in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "CONSTANTS":
            return self._names["CONSTANTS"].part(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "annotate":
            return self._literal(node.args[1])
        return fail(RuntimeError, "jit.load", "a plain value was required", ast.unparse(node)[:100],
                    hint="the file is damaged, or holds what facula does not read")  # fmt: skip

    def _type(self, node: ast.AST) -> T.Type:
        return annotation_type(node, self.look_up)

    # ---- classes
    def _named_tuple(self, qualified: str, node: ast.ClassDef) -> T.Type:
        given = [s for s in node.body if isinstance(s, ast.AnnAssign)]
        fields = [s.target.id for s in given if isinstance(s.target, ast.Name)]
        defaults = {
            f: self._literal(s.value)
            for f, s in zip(fields, given, strict=True)
            if s.value is not None
        }
        python = tuple_class(node.name, fields)
        kinds = tuple(self._type(s.annotation) for s in given)
        return T.NamedTupleType(qualified, tuple(fields), kinds, python, defaults)

    def _enum(self, qualified: str, node: ast.ClassDef) -> T.Type:
        members: dict[str, Any] = {}
        item = T.INT
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                item = self._type(statement.annotation)
                assert statement.value is not None
                members[statement.target.id] = self._literal(statement.value)
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                members[statement.targets[0].id] = self._literal(statement.value)
        make: Any = enum.Enum
        python = make(node.name, members)
        first = next(iter(members.values()), 0)
        item = {float: T.FLOAT, str: T.STR}.get(type(first), item)
        return T.EnumType(qualified, {m.name: m for m in python}, item, python)

    def _class(self, qualified: str, node: ast.ClassDef, source: Source, base: str) -> T.ClassType:
        kind = T.ClassType(qualified, base in ("Module", "ModuleInterface"))
        kind.is_interface = base in ("Interface", "ModuleInterface")
        if not kind.is_module:
            kind.python = type(node.name, (ScriptObject,), {"_script_type": kind})
        self._made[qualified] = kind  # it may name itself
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                name = statement.name
                unit = self._unit(f"{qualified}.{name}", statement, source, kind)
                if any(
                    isinstance(d, ast.Name) and d.id == "staticmethod"
                    for d in statement.decorator_list
                ):
                    unit.self_type = None
                    kind.static[name] = unit
                else:
                    kind.methods[name] = unit
            else:
                self._declaration(kind, statement)
        return kind

    def _declaration(self, kind: T.ClassType, statement: ast.stmt) -> None:
        """An attribute, a constant, or a list of names."""
        if isinstance(statement, ast.AnnAssign):
            assert isinstance(statement.target, ast.Name)
            if statement.value is None:
                kind.attributes[_own(statement.target.id)] = self._type(statement.annotation)
            else:
                kind.constants[statement.target.id] = self._literal(statement.value)
        elif isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                kind.attributes[_own(str(target.slice.value))] = self._type(statement.value)
            elif isinstance(target, ast.Name):
                listed = kind.listed_names().get(target.id)
                if listed is not None:
                    listed.extend(self._literal(statement.value))


def _own(name: str) -> str:
    """The name of an attribute, unless Python gives that name a meaning: `__class__`, `__dict__`."""
    if name.startswith("__"):
        fail(RuntimeError, "jit.load", "an attribute of the file's own was required", name[:100],
             hint="names with two underscores in front are Python's")  # fmt: skip
    return name
