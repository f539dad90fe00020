"""What stands behind the target of a call.

Takes: overloads, operators, methods. Gives: `callee_of`, `name_of`.
Keeps true: an operator of the table is found whichever of its names was called.
"""

from __future__ import annotations

from typing import Any

from facula import core


def callee_of(target: object) -> Any:
    """The operator, in-place form or method behind an overload; other functions as they are."""
    below = getattr(target, "_op", None)
    if below is None:
        below = getattr(target, "_function", None)
    return target if below is None or isinstance(target, core.Op) else below


def name_of(target: Any) -> str:
    """The name of what `callee_of` gives."""
    found = callee_of(target)
    name = getattr(found, "name", None)
    return name if isinstance(name, str) else getattr(found, "__name__", str(target))


def is_view(target: Any) -> bool:
    """Whether a call gives a view of its first argument."""
    found = callee_of(target)
    return isinstance(found, core.Op) and found.definition.kind == "view"
