"""The module in which PyTorch has Adagrad; it stands in `running_squares`."""

from facula.optim.running_squares import Adagrad, adagrad

__all__ = ["Adagrad", "adagrad"]
