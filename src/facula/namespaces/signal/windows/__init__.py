"""Window functions.

Re-exports the operators of the table whose place is `signal.windows`; nothing else.
"""

from facula.ops.table.registry import PLACES as _PLACES

globals().update(_PLACES["signal.windows"])
__all__ = sorted(_PLACES["signal.windows"])
