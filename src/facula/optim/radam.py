"""The name under which PyTorch has RAdam; it stands in `adam`."""

from facula.optim.adam import RAdam

__all__ = ["RAdam"]
