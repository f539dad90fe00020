"""Functions given as text: `CompilationUnit`.

Takes: the source of functions. Gives: an object that has them as scripted functions.
Keeps true: the text is parsed and typed, never evaluated; names in it are the script's own, `torch`, the
types of `typing`, and the other functions of the unit.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

import facula
from facula.core.errors import fail
from facula.jit.functions import EXTRA_NAMES, FunctionUnit, caller_names, found_name
from facula.jit.graph_functions import unit_of_graph
from facula.jit.ir import Graph
from facula.jit.python_types import TYPE_NAMES
from facula.jit.script_objects import ScriptFunction
from facula.jit.source import Source, refuse
from facula.ops.table.schemas.types import ClassType

__all__ = ["CompilationUnit", "look_up_name", "text_units"]


class _TextUnit(FunctionUnit):
    """A function that a program holds as text."""

    is_archive = False


def text_units(
    lang: str, owner: str, look_up: Callable[[str], Any], self_type: ClassType | None = None
) -> list[FunctionUnit]:
    """The functions, or methods of a class, that a text defines; they compile when they are needed."""
    lang = textwrap.dedent(lang)
    source = Source(lang, "<string>")
    try:
        tree = ast.parse(lang)
    except SyntaxError as error:
        refuse(None, "source that can be read was required (Syntax error: expected a valid token)",
               f"{error.msg} in line {error.lineno}")  # fmt: skip
    made: list[FunctionUnit] = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            refuse(source.place(node), "a function was required", type(node).__name__)
        name = f"{owner}.{node.name}"
        made.append(_TextUnit(name, node, source, look_up, _defaults(node, source), self_type))
    return made


def _defaults(node: ast.FunctionDef, source: Source) -> dict[str, Any]:
    """The defaults of arguments, which are literals."""
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
    return defaults


def look_up_name(name: str) -> Any:
    """What a name in a text stands for that defines nothing of that name."""
    if name in ("torch", "facula"):
        return facula
    if name == "Tensor":
        return facula.Tensor
    try:
        return found_name(name, [], "the unit")
    except KeyError:
        if name in TYPE_NAMES:
            return TYPE_NAMES[name]
        raise


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
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Compile further functions; names that are not in them are those of the caller, or what `rcb` gives."""
        EXTRA_NAMES.append(caller_names(_frames_up + 1) if rcb is None else {})
        try:
            self._define(lang, rcb)
        finally:
            EXTRA_NAMES.pop()

    def _define(self, lang: str, rcb: Any) -> None:
        look_up = self._look_up if rcb is None else partial(self._look_up, rcb=rcb)
        units = text_units(lang, "__torch__", look_up)
        for unit in units:
            self._functions[unit.definition.name] = ScriptFunction(unit)
        for unit in units:
            unit.compiled()

    def _look_up(self, name: str, rcb: Any = None) -> Any:
        if name in self._functions:
            return self._functions[name]
        given = rcb(name) if rcb is not None else None
        return look_up_name(name) if given is None else given

    def create_function(self, name: str, graph: Graph) -> ScriptFunction:
        """A function that runs a copy of a graph.

        Args:
            name: its name in the unit
            graph: what it does
        """
        made = self._functions[name] = ScriptFunction(unit_of_graph(graph.copy(), name))
        return made

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
