"""The module in which PyTorch has RAdam; it stands in `adam`."""

from facula.optim.adam import RAdam, radam

__all__ = ["RAdam", "radam"]
