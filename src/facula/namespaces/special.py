"""Special functions.

Re-exports the operators of the table whose place is `special`; nothing else.
"""

from facula.ops.table.registry import PLACES as _PLACES

globals().update(_PLACES.get("special", {}))
__all__ = sorted(_PLACES.get("special", {}))
