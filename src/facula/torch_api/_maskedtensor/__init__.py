"""Tensors of which a mask leaves elements out.

Re-exports the class and what makes one; `rules` says what operators do with them.
"""

from . import rules  # noqa: F401  (fills the table of operators)
from .core import MaskedTensor, is_masked_tensor
from .creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
