"""The module in which PyTorch has Adadelta; it stands in `running_squares`."""

from facula.optim.running_squares import Adadelta, adadelta

__all__ = ["Adadelta", "adadelta"]
