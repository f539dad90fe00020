"""The module in which PyTorch has Rprop; it stands in `running_squares`."""

from facula.optim.running_squares import Rprop, rprop

__all__ = ["Rprop", "rprop"]
