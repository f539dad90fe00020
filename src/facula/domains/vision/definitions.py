"""All operators that torchvision's compiled library has: importing this module defines them."""

from . import deform, operators, pooling

__all__ = ["deform", "operators", "pooling"]
