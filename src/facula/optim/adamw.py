"""The name under which PyTorch has AdamW; it stands in `adam`."""

from facula.optim.adam import AdamW

__all__ = ["AdamW"]
