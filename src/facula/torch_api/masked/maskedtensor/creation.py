"""What makes masked tensors, under the name of PyTorch's module."""

from facula.torch_api._maskedtensor import MaskedTensor, as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "masked_tensor"]
