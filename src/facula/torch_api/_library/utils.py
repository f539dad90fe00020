"""Looking operators up by their qualified names, and what their schemas say.

Takes qualified names (`namespace::name`, `namespace::name.overload`) and schemas. Gives overloads, the
parts of a name, and whether a schema writes to its arguments. Keeps true: one table of operators.
"""

from __future__ import annotations

from typing import Any

from facula import ops
from facula.core.errors import fail

__all__ = ["is_functional_schema", "lookup_op", "parse_namespace"]


def parse_namespace(qualname: str) -> tuple[str, str]:
    """The namespace and the rest of a qualified name."""
    namespace, colons, name = qualname.partition("::")
    if not colons or "::" in name:
        required = "a name 'namespace::name' was required: expected `qualname` to be of that form"
        fail(ValueError, "parse_namespace", required, repr(qualname), "for example 'mylib::scale'")
    return namespace, name


def lookup_op(qualname: str) -> Any:
    """The overload of a qualified name; without one, the default."""
    namespace, name = parse_namespace(qualname)
    name, _, overload = name.partition(".")
    return getattr(getattr(getattr(ops, namespace), name), overload or "default")


def is_functional_schema(schema: object) -> bool:
    """Whether a call by this schema (a text, or an operator's) writes to none of its arguments, gives
    none of them, and gives something.
    """
    text = str(schema).strip()
    arguments, _, results = text.partition("->")
    plain = results.strip()
    aliases = "!" in text or "(a" in plain
    return bool(arguments) and plain not in ("", "()") and not aliases
