"""Operators over the elements that a mask selects.

Re-exports the operators of the table whose place is `masked`, and what PyTorch's programs read of
their masks; nothing else.
"""

from facula.ops.masked_forms import _canonical_dim as _canonical_dim
from facula.ops.masked_forms import _input_mask as _input_mask
from facula.ops.masked_forms import _output_mask as _output_mask
from facula.ops.masked_sparse import _where as _where
from facula.ops.registry import PLACES as _PLACES

globals().update(_PLACES.get("masked", {}))
__all__ = sorted(_PLACES.get("masked", {}))
