"""The module in which PyTorch has RMSprop; it stands in `running_squares`."""

from facula.optim.running_squares import RMSprop, rmsprop

__all__ = ["RMSprop", "rmsprop"]
