"""The named tuples that operators with several results return.

Takes names. Gives the classes, by operator. Keeps true: they are derived from the operators' schemas.
"""

from __future__ import annotations

from facula.core.errors import no_attribute as _no_attribute
from facula.ops.table.registry import RETURN_TYPES


def __getattr__(name: str) -> type:
    if name in RETURN_TYPES:
        return RETURN_TYPES[name]
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted(RETURN_TYPES)
