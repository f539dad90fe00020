"""The name under which PyTorch has RMSprop; it stands in `running_squares`."""

from facula.optim.running_squares import RMSprop

__all__ = ["RMSprop"]
