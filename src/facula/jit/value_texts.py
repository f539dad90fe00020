"""The text of values as scripts print it: `str(x)`, `print`, `{}`, `%s`.

Takes values of scripts. Gives text.
Keeps true: floats have all their digits, and whole ones end with a point, as in PyTorch's scripts, so that a script
writes the same text here and there; tensors are shown as Python shows them.
"""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["shown"]

#: whole floats below it, those that an int of 64 bits holds, are written without an exponent
_PLAIN = 2.0**63


def _float(value: float) -> str:
    if abs(value) < _PLAIN and value == int(value):
        return f"{int(value)}."
    return f"{value:.17g}"


def _complex(value: complex) -> str:
    sign = "+" if value.imag >= 0 else "-"
    return f"{_float(value.real)}{sign}{_float(abs(value.imag))}j"


def _several(value: Any) -> str:
    body = ", ".join(map(shown, value))
    if isinstance(value, list):
        return f"[{body}]"
    return f"({body},)" if len(value) == 1 else f"({body})"


def shown(value: Any) -> str:
    """The text of a value."""
    if type(value) is float:
        return _float(value)
    if type(value) is complex:
        return _complex(value)
    if isinstance(value, (list, tuple)):
        return _several(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, enum.Enum):
        return f"Enum<{type(value).__name__}.{value.name}>"
    return str(value)
