"""Masked tensors under the names of PyTorch's modules.

Re-exports; which operators there are follows from the table.
"""

from facula.torch_api._maskedtensor import is_masked_tensor
from facula.torch_api._maskedtensor.core import MaskedTensor

from . import binary, core, creation, reductions, unary

__all__ = ["MaskedTensor", "binary", "core", "creation", "is_masked_tensor", "reductions", "unary"]
