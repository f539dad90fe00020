"""The module in which PyTorch has Adamax; it stands in `adam`."""

from facula.optim.adam import Adamax, adamax

__all__ = ["Adamax", "adamax"]
