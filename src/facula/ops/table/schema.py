"""Operator schemas: the one line that says what an operator takes and gives.

Takes: text such as ``"sort(Tensor self, int dim=-1, *, bool? stable=None) -> (Tensor values, Tensor indices)"``.
Gives: `Schema`, with one `Parameter` an argument and the names of the results.
Keeps true: argument names and defaults are PyTorch's; a type stands in `TYPES`; parsing needs no evaluation of code.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from facula import core
from facula.core.errors import fail

#: every admissible base type; `?` (may be None) and `[]` (a list) combine with them
TYPES = frozenset(
    "Tensor Operand int float bool Number str dtype device layout memory_format generator any".split()
)

REQUIRED = object()


class Parameter:
    """One argument: its name, type, default, and how it may be passed."""

    __slots__ = (
        "default",
        "is_list",
        "keyword_only",
        "length",
        "name",
        "optional",
        "optional_items",
        "type",
        "variadic",
    )

    def __init__(
        self,
        name: str,
        type: str,
        default: Any,
        optional: bool,
        is_list: bool,
        length: int,
        variadic: bool,
        keyword_only: bool,
        optional_items: bool,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.optional = optional
        self.is_list = is_list
        self.length = length
        self.variadic = variadic
        self.keyword_only = keyword_only
        self.optional_items = optional_items

    @property
    def is_tensor(self) -> bool:
        """Whether tensors (one, or a list) may stand here."""
        return self.type in ("Tensor", "Operand")

    @property
    def has_default(self) -> bool:
        """Whether the argument may be left out."""
        return self.default is not REQUIRED


class Schema:
    """A parsed schema."""

    __slots__ = ("name", "parameters", "results", "text")

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], results: tuple[str, ...], text: str
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.results = results
        self.text = text

    @property
    def tensor_parameters(self) -> tuple[Parameter, ...]:
        """The arguments that take tensors, in order."""
        return tuple(p for p in self.parameters if p.is_tensor)

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        """The arguments that do not take tensors, in order."""
        return tuple(p for p in self.parameters if not p.is_tensor)


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets and quotes."""
    if "'" in text or '"' in text:
        return _split_quoted(text)
    parts, held = [], ""
    for piece in text.split(","):
        held = f"{held},{piece}" if held else piece
        if held.count("(") + held.count("[") == held.count(")") + held.count("]"):
            parts.append(held)
            held = ""
    parts.append(held)
    return [part.strip() for part in parts if part.strip()]


def _split_quoted(text: str) -> list[str]:
    """The same where brackets and commas may stand in quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for position, character in enumerate(text):
        if quote:
            if character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


_LITERALS: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "-inf": -float("inf"),
}
_LITERALS |= {kind.name: kind for kind in vars(core).values() if isinstance(kind, core.dtype)}


def _literal(text: str) -> Any:
    """A default: a name, a number, a quoted string, or a tuple or list of these."""
    if text in _LITERALS:
        return _LITERALS[text]
    if text[0] in "'\"":
        return text[1:-1]
    if text[0] in "([":
        return tuple(_literal(part) for part in _split(text[1:-1]))
    try:
        return int(text)
    except ValueError:
        return float(text)


@cache  # most operators share their first arguments
def _parameter(text: str, keyword_only: bool) -> Parameter:
    declaration, equals, default = text.partition("=")
    type_name, _, name = declaration.strip().rpartition(" ")
    variadic = type_name.endswith("...")
    if variadic:
        type_name = type_name[:-3]
    optional = type_name.endswith("?")
    if optional:
        type_name = type_name[:-1]
    is_list, length = False, 0
    if type_name.endswith("]"):
        type_name, _, size = type_name[:-1].partition("[")
        is_list, length = True, int(size or 0)
    optional_items = type_name.endswith("?")  # Tensor?[]: a list of optional tensors
    if optional_items:
        type_name = type_name[:-1]
    if type_name not in TYPES or not name.isidentifier():
        fail(
            ValueError,
            "schema",
            "an argument reads 'type name[=default]'",
            repr(text),
            hint=f"the types are {', '.join(sorted(TYPES))}",
        )
    value = _literal(default.strip()) if equals else REQUIRED
    return Parameter(
        name, type_name, value, optional, is_list, length, variadic, keyword_only, optional_items
    )


def parse(text: str) -> Schema:
    """Parse one schema.

    Raises:
        ValueError: the text is not of the form ``name(arguments) -> results``.
    """
    head, arrow, tail = text.rpartition("->")
    name, paren, arguments = head.strip().partition("(")
    if not arrow or not paren or not arguments.endswith(")"):
        fail(
            ValueError,
            "schema",
            "'name(arguments) -> results' was required",
            repr(text),
            hint="for example 'scale(Tensor self, float factor=1.0) -> Tensor'",
        )
    parameters, keyword_only = [], False
    for part in _split(arguments[:-1]):
        if part == "*":
            keyword_only = True
        else:
            parameters.append(_parameter(part, keyword_only))
    tail = tail.strip()
    listed = _split(tail[1:-1]) if tail.startswith("(") else [tail]
    results = tuple(part.rpartition(" ")[2] if " " in part else "" for part in listed)
    return Schema(name.strip(), tuple(parameters), results, text)
