"""`facula._dispatch`: PyTorch's name for what chooses the implementation of an operator.

Takes nothing.  Gives the module `python`.
Keeps true: it holds nothing of its own.
"""

from . import python as python

__all__ = ["python"]
