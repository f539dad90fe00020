"""Linear algebra.

Re-exports the operators of the table whose place is `linalg`, and the exception that they raise.
"""

from facula.core.errors import LinAlgError as LinAlgError
from facula.ops.table.registry import PLACES as _PLACES

globals().update(_PLACES.get("linalg", {}))
__all__ = sorted([*_PLACES.get("linalg", {}), "LinAlgError"])
