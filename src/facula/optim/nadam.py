"""The module in which PyTorch has NAdam; it stands in `adam`."""

from facula.optim.adam import NAdam, nadam

__all__ = ["NAdam", "nadam"]
