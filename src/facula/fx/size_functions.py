"""Structures whose numbers depend on sizes, as Python functions of these sizes.

Takes: nested tuples, lists, dicts and slices with `SymInt` where a number depends on sizes; other
objects are kept as they are. Gives: `function_of`, a function from the values of all symbols to the
structure with plain numbers; `holds`, a function that says whether guards hold.
Keeps true: the text that is compiled is made of numbers, operators and the names of symbols alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from facula import core
from facula.fx.shape_env import ShapeGuard
from facula.fx.symbols import SymInt


def number_text(number: object) -> str:
    """A whole number as Python over the names of symbols."""
    return f"({number.env.simplified(number.expr)})" if isinstance(number, SymInt) else repr(number)


def has_symbols(structure: object) -> bool:
    """Whether a number of a structure depends on sizes."""
    if isinstance(structure, dict):
        return any(map(has_symbols, structure.values()))
    if isinstance(structure, (tuple, list)):
        return any(map(has_symbols, structure))
    if isinstance(structure, slice):
        return has_symbols((structure.start, structure.stop, structure.step))
    return isinstance(structure, SymInt)


class _Text:
    """Writes a structure; what is no number is named."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def of(self, x: Any) -> str:
        if isinstance(x, SymInt):
            return number_text(x)
        if x is None or type(x) in (int, bool):
            return repr(x)
        if not has_symbols(x):
            return self.object(x)
        if isinstance(x, slice):
            return f"slice({', '.join(map(self.of, (x.start, x.stop, x.step)))})"
        if isinstance(x, dict):
            return "{" + ", ".join(f"{self.object(k)}: {self.of(v)}" for k, v in x.items()) + "}"
        inner = "".join(f"{self.of(item)}, " for item in x)
        if isinstance(x, list):
            return f"[{inner}]"
        return f"({inner})" if type(x) in (tuple, core.Size) else f"{self.object(type(x))}({inner})"

    def object(self, x: Any) -> str:
        name = f"object{len(self.objects)}"
        self.objects[name] = x
        return name


def function_of(structure: object, names: Sequence[str]) -> Callable[..., Any]:
    """The structure as a function of the symbols with these names."""
    text = _Text()
    body = text.of(structure)
    return _compiled(f"lambda {', '.join(names)}: {body}", text.objects)


def holds(guards: Iterable[ShapeGuard], names: Sequence[str]) -> Callable[..., bool]:
    """Whether guards hold, as a function of the symbols with these names."""
    parts = [f"({guard.left}) {guard.relation} ({guard.right})" for guard in guards]
    return _compiled(f"lambda {', '.join(names)}: {' and '.join(parts) or 'True'}", {})


def _compiled(text: str, objects: dict[str, Any]) -> Any:
    return eval(compile(text, "<facula sizes>", "eval"), dict(objects))
