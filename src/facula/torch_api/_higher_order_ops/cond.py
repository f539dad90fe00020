"""`cond` under the name of PyTorch's module."""

from facula.capture.higher_order import cond

cond_op = cond

__all__ = ["cond", "cond_op"]
