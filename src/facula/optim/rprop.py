"""The name under which PyTorch has Rprop; it stands in `running_squares`."""

from facula.optim.running_squares import Rprop

__all__ = ["Rprop"]
