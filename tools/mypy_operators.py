"""A plugin of mypy: what a definition of an operator means to a type checker.

Takes the classes below `@operator` and `@view`, whose functions belong to no instance and whose
argument types stand in the schema above them. Gives each function its types, by the names of its
arguments, and says that calling the class calls the operator.
Keeps true: types come from the schema alone; an argument that it does not name (`grads`, `S`) is Any.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from mypy.nodes import Argument, FuncDef, StrExpr
from mypy.plugin import ClassDefContext, FunctionContext, Plugin
from mypy.types import AnyType, CallableType, NoneType, Type, TypeOfAny, UnionType

DECORATORS = frozenset(f"facula.ops.table.registry.{name}" for name in ("operator", "view"))
SCHEMA = Path(__file__).resolve().parent.parent / "src" / "facula" / "ops" / "table" / "schema.py"
MARK = "facula operator"
CLASSES = {
    "Tensor": "facula.core._core.Tensor",
    "int": "builtins.int",
    "float": "builtins.float",
    "bool": "builtins.bool",
    "str": "builtins.str",
    "dtype": "facula.core._core.dtype",
}


def _schema_parser() -> Callable[[str], Any]:
    # by its path: importing the package would need the built core
    spec = spec_from_file_location("facula_schema", SCHEMA)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.parse


_parse = _schema_parser()


def _anything() -> Type:
    return AnyType(TypeOfAny.explicit)


def _parameter_type(context: ClassDefContext, parameter: Any) -> Type:
    """The type of the values that an implementation gets for an argument of a schema.

    An optional tensor is Any: that it is there follows from other arguments, such as `needs`.
    """
    name = CLASSES.get(parameter.type)
    if name is None or (parameter.is_tensor and parameter.optional):
        return _anything()
    kind: Type | None = context.api.named_type_or_none(name, [])
    if kind is None:
        return _anything()
    if parameter.optional_items:
        kind = UnionType.make_union([kind, NoneType()])
    if parameter.is_list:
        kind = context.api.named_type("builtins.tuple", [kind])
    return UnionType.make_union([kind, NoneType()]) if parameter.optional else kind


def _signature(context: ClassDefContext, function: FuncDef, known: dict[str, Type]) -> CallableType:
    arguments: list[Argument] = function.arguments
    return CallableType(
        [known.get(a.variable.name, _anything()) for a in arguments],
        [a.kind for a in arguments],
        [None if a.pos_only else a.variable.name for a in arguments],
        _anything(),
        context.api.named_type("builtins.function", []),
        name=function.name,
        definition=function,
    )


def _define(context: ClassDefContext) -> None:
    """Types the functions of a definition."""
    known: dict[str, Type] = {}
    schema = context.reason.args[0] if hasattr(context.reason, "args") else None
    if isinstance(schema, StrExpr):
        for parameter in _parse(schema.value).parameters:
            known[parameter.name] = _parameter_type(context, parameter)
        if "Tensor" in schema.value:
            tensor = context.api.named_type_or_none(CLASSES["Tensor"], [])
            known["grad"] = tensor if tensor is not None else _anything()
    info = context.cls.info
    for symbol in info.names.values():
        function = symbol.node
        if isinstance(function, FuncDef):
            function.is_static = True
            if function.type is None:
                function.type = _signature(context, function, known)
    info.fallback_to_any = True
    info.metadata[MARK] = {}


def _call(context: FunctionContext) -> Type:
    return _anything()


class OperatorPlugin(Plugin):
    """Knows definitions of operators."""

    def get_class_decorator_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Called for each decorator of each class."""
        return _define if fullname in DECORATORS else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Called for each call of something with a name, a class among them."""
        found = self.lookup_fully_qualified(fullname) if "facula.ops." in fullname else None
        marked = found is not None and MARK in getattr(found.node, "metadata", {})
        return _call if marked else None


def plugin(version: str) -> type[Plugin]:
    """What mypy asks a plugin's module for."""
    return OperatorPlugin
