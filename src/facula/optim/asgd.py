"""The module in which PyTorch has ASGD; it stands in `running_squares`."""

from facula.optim.running_squares import ASGD, asgd

__all__ = ["ASGD", "asgd"]
