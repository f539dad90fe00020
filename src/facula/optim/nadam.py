"""The name under which PyTorch has NAdam; it stands in `adam`."""

from facula.optim.adam import NAdam

__all__ = ["NAdam"]
