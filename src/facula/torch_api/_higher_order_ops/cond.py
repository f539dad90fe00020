"""`cond` under the name of PyTorch's module."""

from facula.fx.higher_order import cond, cond_op

__all__ = ["cond", "cond_op"]
