"""The name under which PyTorch has SparseAdam; it stands in `other`."""

from facula.optim.other import SparseAdam

__all__ = ["SparseAdam"]
