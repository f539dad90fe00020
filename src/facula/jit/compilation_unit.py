"""Functions given as text: `CompilationUnit`.

Takes: the source of functions. Gives: an object that has them as scripted functions.
Keeps true: the text is parsed and typed, never evaluated; names in it are the script's own, `torch`, the
types of `typing`, and the other functions of the unit.
"""

from __future__ import annotations

import ast
import typing
from typing import Any

import facula
from facula.core.errors import fail
from facula.jit.functions import FunctionUnit, found_name
from facula.jit.script_objects import ScriptFunction
from facula.jit.source import Source, refuse

__all__ = ["CompilationUnit"]

_TYPES = ("Any", "Dict", "List", "NamedTuple", "Optional", "Tuple", "Union")


class _TextUnit(FunctionUnit):
    """A function that a program holds as text."""

    is_archive = False


class CompilationUnit:
    """Functions that are compiled from text.

    Args:
        lang: the source of functions; None for none
        _frames_up: kept as in PyTorch

    Raises:
        RuntimeError: the text is not TorchScript; the error shows the line.

    Example:
        >>> unit = facula.jit.CompilationUnit("def double(x):\\n    return x * 2")
        >>> unit.double(facula.ones(2))
        tensor([2., 2.])
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Compile further functions."""
        source = Source(lang, "<string>")
        try:
            tree = ast.parse(lang)
        except SyntaxError as error:
            refuse(
                None, "source that can be read was required", f"{error.msg} in line {error.lineno}"
            )
        units = []
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef):
                refuse(source.place(node), "a function was required", type(node).__name__)
            units.append(self._unit(node, source))
        for unit in units:
            self._functions[unit.definition.name] = ScriptFunction(unit)
        for unit in units:
            unit.compiled()

    def _unit(self, node: ast.FunctionDef, source: Source) -> FunctionUnit:
        given = node.args
        names = [a.arg for a in (*given.posonlyargs, *given.args)]
        pairs = list(zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True))
        pairs += [
            (a.arg, value)
            for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
            if value is not None
        ]
        defaults = {}
        for name, value in pairs:
            try:
                defaults[name] = ast.literal_eval(value)
            except ValueError:
                refuse(source.place(value), "a literal as default was required", ast.unparse(value))
        return _TextUnit(f"__torch__.{node.name}", node, source, self._look_up, defaults)

    def _look_up(self, name: str) -> Any:
        if name in self._functions:
            return self._functions[name]
        if name in ("torch", "facula"):
            return facula
        if name in _TYPES:
            return getattr(typing, name)
        if name == "Tensor":
            return facula.Tensor
        return found_name(name, [], "the unit")

    def find_function(self, name: str) -> ScriptFunction | None:
        """The function of that name; None where there is none."""
        return self._functions.get(name)

    def get_functions(self) -> list[ScriptFunction]:
        """All functions."""
        return list(self._functions.values())

    def __getattr__(self, name: str) -> ScriptFunction:
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            fail(AttributeError, "CompilationUnit", "a function of the unit was required", name,
                 hint=f"it has {', '.join(self.__dict__.get('_functions', {})) or 'none'}")  # fmt: skip
        return found
