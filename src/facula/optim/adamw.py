"""The module in which PyTorch has AdamW; it stands in `adam`."""

from facula.optim.adam import AdamW, adamw

__all__ = ["AdamW", "adamw"]
