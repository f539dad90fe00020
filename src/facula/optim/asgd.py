"""The name under which PyTorch has ASGD; it stands in `running_squares`."""

from facula.optim.running_squares import ASGD

__all__ = ["ASGD"]
