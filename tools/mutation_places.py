"""Places where one small change must make a test fail: constants, signs, comparisons, indices.

Takes: the Python sources of definitions, code generators and passes.
Gives: `find(path)`, the places of one file; `draw(root, count, seed)`, random ones of all groups;
`Place.apply(text)`, the file's text with that one change.
Keeps true: a place is an exact range of characters; what only tells or times (messages, annotations,
docstrings, warnings, how work is cut for threads), samples for tests, and sizes of arrays in C are no
places; the same seed draws the same places from the same sources.
"""

from __future__ import annotations

import ast
import io
import math
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: what is changed, by group; each group gives as many places as the others
GROUPS = {
    "definitions": ("src/facula/ops",),
    "templates": ("src/facula/codegen/c",),
    "passes": (
        "src/facula/lower",
        "src/facula/compiler",
        "src/facula/autograd/transforms",
    ),
}
#: calls whose arguments only tell something
TELLING = {"fail", "message", "warn", "warn_once", "overload", "getLogger", "debug", "info"}
#: arguments that decide how work is cut, not what comes out
TIMING = {"grain", "stacklevel"}
#: a line with this comment, or a function with these words in its docstring, changes how fast
#: something is and nothing else, or nothing at all; and such lines of C
SPEED_ONLY = re.compile(r"speed only|any value does")
C_SPEED_ONLY = re.compile(r"speed only|any value does|\bgrain\b|#pragma|prefetch|__builtin_expect")
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
#: a number or a binary operator of C
C_TOKEN = re.compile(
    r"(?<![\w.%&])(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?![\w.])"
    r"|(?<=[\w)\]}] )(?P<operator>\+|-|\*|<=|>=|<|>|==|!=)(?= [\w({])"
)
C_SWAPS = dict(OPERATORS.values()) | {"*": "+"}
#: comments, hints for the compiler, and the sizes of arrays: one element more holds nothing
C_QUIET = re.compile(
    r"/\*.*?(\*/|\Z)|//[^\n]*|_Pragma\([^()]*\)"
    r"|\b(?!return\b|else\b|case\b|goto\b|sizeof\b)[A-Za-z_]\w*@? +\**\w+(?:\[[^]\n]*\])+(?= ?[;=,])",
    re.DOTALL,
)
#: methods of a definition that give what tests call it with, or only tell something
NO_PART = {"errors", "samples", "__repr__", "__str__"}


@dataclass(frozen=True)
class Place:
    """One change: `before` at `[start, end)` of the file becomes `after`."""

    path: str
    line: int
    start: int
    end: int
    kind: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        """The text with this change."""
        assert text[self.start : self.end] == self.before, f"{self.path} is not what was drawn from"
        return text[: self.start] + self.after + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind} {self.before} -> {self.after}"

    def data(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return asdict(self)


def changed_number(text: str) -> str | None:
    """Another number for a literal: integers step by one, fractions by a hundredth."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return str(value + 1)
    steps = value == int(value) and value + 1.0 != value  # beyond 2**53 a step of one is none
    changed = value + 1.0 if steps else value * 1.01 or 1.0
    return repr(changed if math.isfinite(changed) else value * 0.99)


class _Lines:
    """Offsets into a text by line and column (columns of `ast` count bytes of UTF-8)."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.begins = [0]
        for line in self.lines:
            self.begins.append(self.begins[-1] + len(line))

    def at(self, line: int, column: int, counts_bytes: bool = True) -> int:
        text = self.lines[line - 1]
        if counts_bytes and not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.begins[line - 1] + column


class _Finder(ast.NodeVisitor):
    """The places of Python code."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.lines = path, text, _Lines(text)
        self.found: list[Place] = []
        self.telling: list[tuple[int, int]] = []

    def span(self, node: Any) -> tuple[int, int]:
        begin = self.lines.at(node.lineno, node.col_offset)
        return begin, self.lines.at(node.end_lineno, node.end_col_offset)

    def add(self, line: int, start: int, end: int, kind: str, after: str) -> None:
        if SPEED_ONLY.search(self.lines.lines[line - 1]):
            return
        before = self.text[start:end]
        self.found.append(Place(self.path, line, start, end, kind, before, after))

    def skip(self, node: ast.AST) -> None:
        self.telling.append(self.span(node))

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = getattr(function, "id", None) or getattr(function, "attr", "")
        if name in TELLING:
            return self.skip(node)
        self.visit(function)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in TIMING:
                self.visit(keyword.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.skip(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.skip(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_match_case(self, node: ast.match_case) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """The body only: decorators and defaults are a definition's fields, which other rules hold."""
        if node.name in NO_PART or SPEED_ONLY.search(ast.get_docstring(node) or ""):
            return self.skip(node)
        for statement in node.body:
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            self.skip(node)  # a docstring
        else:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Parts of an f-string have no exact position; their C is found by `c_places`."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        index = node.slice
        if isinstance(index, ast.Constant) and type(index.value) is int:
            self.number(index, "index")
        else:
            self.visit(index)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) in (int, float):
            self.number(node, "constant")

    def number(self, node: ast.Constant, kind: str) -> None:
        start, end = self.span(node)
        after = changed_number(self.text[start:end])
        if after is not None:
            self.add(node.lineno, start, end, kind, after)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            start, _ = self.span(node)
            self.add(node.lineno, start, start + 1, "sign", "+")
        if not isinstance(node.operand, ast.Constant):
            self.visit(node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = isinstance(node.left, ast.Constant | ast.JoinedStr) and not isinstance(
            getattr(node.left, "value", ""), int | float
        )
        if not text:
            self.between(node, node.left, node.op, node.right, "sign")
        self.visit(node.left)
        self.visit(node.right)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            self.between(node, left, operator, right, "comparison")
        self.generic_visit(node)

    def between(self, node: Any, left: Any, operator: ast.AST, right: Any, kind: str) -> None:
        """The operator that stands between two operands."""
        swap = OPERATORS.get(type(operator))
        if swap is None:
            return
        begin, end = self.span(left)[1], self.span(right)[0]
        at = self.text.find(swap[0], begin, end)
        if at >= 0 and "#" not in self.text[begin:at]:
            line = self.text.count("\n", 0, at) + 1
            self.add(line, at, at + len(swap[0]), kind, swap[1])


def c_places(path: str, text: str, hidden: list[tuple[int, int]]) -> Iterator[Place]:
    """Numbers and operators of C in the strings of a code generator."""
    lines = _Lines(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.STRING:
            continue
        start = lines.at(*token.start, counts_bytes=False)
        if any(begin <= start < end for begin, end in hidden):
            continue
        quiet = [m.span() for m in C_QUIET.finditer(token.string)]
        if "f" in token.string[:3].partition('"')[0]:
            quiet += [m.span() for m in re.finditer(r"(?<!\{)\{(?!\{)[^{}]*\}", token.string)]
        if not re.search(r"[;{}=]", token.string):
            continue
        for match in C_TOKEN.finditer(token.string):
            at = match.start()
            if any(begin <= at < end for begin, end in quiet):
                continue
            place = _c_place(path, text, start + at, match)
            if place is not None:
                yield place


def _c_place(path: str, text: str, at: int, match: re.Match[str]) -> Place | None:
    line = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    if C_SPEED_ONLY.search(text[begin : text.find("\n", at)]):
        return None
    number, operator = match["number"], match["operator"]
    if operator:
        kind = "sign" if operator in "+-*" else "comparison"
        return Place(path, line, at, at + len(operator), kind, operator, C_SWAPS[operator])
    after = changed_number(number)
    kind = "index" if text[at - 1] == "[" else "constant"
    return after and Place(path, line, at, at + len(number), kind, number, after) or None


def find(root: Path, path: str) -> list[Place]:
    """The places of one file, in order."""
    text = (root / path).read_text()
    finder = _Finder(path, text)
    finder.visit(ast.parse(text))
    found = finder.found
    if path.startswith("src/facula/codegen/"):
        found += c_places(path, text, finder.telling)
    return sorted(found, key=lambda place: place.start)


def draw(root: Path, count: int, seed: int) -> list[Place]:
    """Random places, as many of each group; files count by how many places they have."""
    chance = random.Random(seed)
    chosen = []
    for number, folders in enumerate(GROUPS.values()):
        paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
        places = [place for path in paths for place in find(root, str(path.relative_to(root)))]
        share = count // len(GROUPS) + (number < count % len(GROUPS))
        chosen += chance.sample(places, min(share, len(places)))
    return chosen
