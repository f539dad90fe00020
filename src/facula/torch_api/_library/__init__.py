"""Names of PyTorch's `_library`, which packages with operators of their own read."""

from . import utils

__all__ = ["utils"]
