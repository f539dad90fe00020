"""The source of what is scripted: its text, places in it, and errors that show them.

Takes a Python function or class, or the text of a file of an archive. Gives a parsed definition, `Place`s
(file, line, column), and `refuse`, which raises with the line, a caret, what was found and what was needed.
Keeps true: the source is parsed and never run; an error of the program's text is a `RuntimeError`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

from facula.core.errors import spoken

__all__ = [
    "FrontendError",
    "FrontendTypeError",
    "NotSupportedError",
    "Place",
    "Source",
    "UnknownTypeError",
    "UnsupportedNodeError",
    "refuse",
]


class FrontendError(RuntimeError):
    """Source that is not TorchScript."""


class NotSupportedError(FrontendError):
    """Python that TorchScript does not have."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that TorchScript does not have."""


class FrontendTypeError(FrontendError):
    """A form of Python that cannot be typed."""


class UnknownTypeError(FrontendError, ValueError):
    """An annotation that is no type of TorchScript."""


class Source:
    """A text, its name, and the number of its first line."""

    def __init__(self, text: str, name: str, first_line: int = 1, indent: int = 0) -> None:
        self.text, self.name, self.first_line, self.indent = text, name, first_line, indent
        self.lines = text.splitlines()

    def place(self, node: Any) -> Place | None:
        """Where a node of the syntax tree stands."""
        line = getattr(node, "lineno", None)
        return None if line is None else Place(self, node)


class Place:
    """A place in a source."""

    __slots__ = ("column", "end", "line", "source")

    def __init__(self, source: Source, node: Any) -> None:
        self.source, self.line, self.column = source, node.lineno, node.col_offset
        same = getattr(node, "end_lineno", None) == node.lineno
        self.end = node.end_col_offset if same else self.column + 1

    def text(self) -> str:
        """`file:line:column`."""
        s = self.source
        return f"{s.name}:{self.line + s.first_line - 1}:{self.column + s.indent}"

    def shown(self, function: str = "") -> str:
        """The line, with those before it, and the place in it marked."""
        s = self.source
        lines = s.lines[max(0, self.line - 3) : self.line]
        mark = " " * self.column + "~" * max(1, self.end - self.column) + " <--- HERE"
        inside = f", in {function}" if function else ""
        head = f'  File "{s.name}", line {self.line + s.first_line - 1}{inside}'
        return "\n".join([head, *("    " + line for line in lines), "    " + mark])


def refuse(
    place: Place | None,
    required: str,
    got: object = None,
    hint: str = "see docs/torchscript.md for what scripted code may hold",
    error: type[Exception] = RuntimeError,
) -> NoReturn:
    """Raise for what the program's text may not hold."""
    text = spoken(f"[jit.script] {required}") + ("" if got is None else f": got {got}")
    if place is not None:
        text += "\n" + place.shown()
    raise error(f"{text}\nhint: {hint}")


def source_of(obj: Callable[..., Any]) -> tuple[Source, ast.AST]:
    """The source and the parsed definition of a function or class."""
    try:
        lines, first = inspect.getsourcelines(obj)
        name = inspect.getsourcefile(obj) or "<source>"
    except (OSError, TypeError):
        shown = getattr(obj, "__qualname__", repr(obj))
        refuse(None, "source code that can be read was required", f"none for {shown}",
               "scripted functions stand in a file", OSError)  # fmt: skip
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = Source(dedented, name, first, indent)
    try:
        tree = ast.parse(dedented)
    except SyntaxError:
        try:  # comments and texts of several lines may stand further left than the function
            tree = ast.parse("if 1:\n" + text)
        except SyntaxError:
            return source, _lambda(source, dedented)
        source = Source(text, name, first)
        inside: Any = tree.body[0]
        ast.increment_lineno(inside, -1)
        tree.body = inside.body
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.ClassDef)):
        return source, _find_lambda(source, definition)
    return source, definition


def _lambda(source: Source, text: str) -> ast.AST:
    refuse(None, "a function with a name was required", text.strip()[:60],
           "write it with def", NotSupportedError)  # fmt: skip


def _find_lambda(source: Source, statement: ast.AST) -> ast.AST:
    found = [n for n in ast.walk(statement) if isinstance(n, ast.Lambda)]
    if len(found) != 1:
        _lambda(source, source.text)
    made = ast.FunctionDef("<lambda>", found[0].args, [ast.Return(found[0].body)], [])
    made.body[0].lineno, made.body[0].col_offset = found[0].lineno, found[0].col_offset
    return ast.copy_location(made, found[0])
