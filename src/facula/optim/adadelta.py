"""The name under which PyTorch has Adadelta; it stands in `running_squares`."""

from facula.optim.running_squares import Adadelta

__all__ = ["Adadelta"]
