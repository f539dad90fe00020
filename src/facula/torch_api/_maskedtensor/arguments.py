"""The tables of rules for masked tensors, and how rules take arguments apart.

Takes: arguments of calls. Gives: `rule`, which enters a function into a table; the masked tensors among
arguments; calls of operators with arguments in schema order; the two errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from facula.core.errors import fail

from .core import is_masked_tensor

#: operator name -> function of its arguments in schema order
RULES: dict[str, Callable[..., Any]] = {}
#: the same for functions of the core that have no definition
BELOW: dict[str, Callable[..., Any]] = {}
#: the same for methods, where history is that of what runs on the elements
METHODS: dict[str, Callable[..., Any]] = {}


def rule(*names: str, table: dict[str, Callable[..., Any]] = RULES) -> Callable[..., Any]:
    """Decorator: what the named operators do with masked tensors."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        table.update(dict.fromkeys(names, function))
        return function

    return enter


def over(value: object, of_one: Callable[[Any], Any]) -> Any:
    """An argument with something in the place of its masked tensors."""
    if is_masked_tensor(value):
        return of_one(value)
    if isinstance(value, (list, tuple)):
        return type(value)(over(v, of_one) for v in value)
    return value


def masked_in(values: Any) -> list[Any]:
    """The masked tensors among arguments."""
    found: list[Any] = []
    for value in values:
        if is_masked_tensor(value):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += masked_in(value)
    return found


def call(op: Any, values: Any) -> Any:
    """Call an operator with arguments in schema order."""
    positional, named = op.definition.trim(tuple(values))
    return op(*positional, **named)


def unsupported(name: str) -> NoReturn:
    fail(
        TypeError,
        name,
        "an operator that masked tensors have was required",
        f"aten.{name}",
        hint="take the elements out: mt.get_data(), or mt.to_tensor(value) with a value for masked ones",
    )


def refuse(name: str, required: str, got: object) -> NoReturn:
    fail(TypeError, name, required, got, hint="mt.get_data() is an ordinary tensor")
