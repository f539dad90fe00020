"""The module in which PyTorch has Adafactor; it stands in `other`."""

from facula.optim.other import Adafactor, adafactor

__all__ = ["Adafactor", "adafactor"]
