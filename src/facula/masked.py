"""Operators over the elements that a mask selects.

Re-exports the operators of the table whose place is `masked`; nothing else.
"""

from facula.ops.registry import PLACES as _PLACES

globals().update(_PLACES.get("masked", {}))
__all__ = sorted(_PLACES.get("masked", {}))
