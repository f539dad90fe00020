"""The name under which PyTorch has Adamax; it stands in `adam`."""

from facula.optim.adam import Adamax

__all__ = ["Adamax"]
