"""The named tuples that operators with several results return.

Takes names. Gives the classes, by operator. Keeps true: they are derived from the operators' schemas.
"""

from __future__ import annotations

from facula.ops.registry import RETURN_TYPES


def __getattr__(name: str) -> type:
    if name in RETURN_TYPES:
        return RETURN_TYPES[name]
    raise AttributeError(f"module 'facula.return_types' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(RETURN_TYPES)
