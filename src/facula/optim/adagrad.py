"""The name under which PyTorch has Adagrad; it stands in `running_squares`."""

from facula.optim.running_squares import Adagrad

__all__ = ["Adagrad"]
