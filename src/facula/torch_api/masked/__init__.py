"""Operators over the elements that a mask selects, and tensors that carry their masks.

Re-exports the operators of the table whose place is `masked`, what PyTorch's programs read of their
masks, and masked tensors. Keeps true: an operator gives the same for a masked tensor as the masked
operator of that name gives for its elements and mask.
"""

from facula.ops.reduce.masked_forms import _canonical_dim as _canonical_dim
from facula.ops.reduce.masked_forms import _input_mask as _input_mask
from facula.ops.reduce.masked_forms import _output_mask as _output_mask
from facula.ops.reduce.masked_sparse import _where as _where
from facula.ops.table.registry import PLACES as _PLACES

from .._maskedtensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)
from .._maskedtensor.identities import _combine_input_and_mask as _combine_input_and_mask
from .._maskedtensor.identities import _reduction_identity as _reduction_identity

globals().update(_PLACES.get("masked", {}))
__all__ = [
    "MaskedTensor",
    "as_masked_tensor",
    "is_masked_tensor",
    "masked_tensor",
    *sorted(_PLACES.get("masked", {})),
]
