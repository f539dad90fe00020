"""Names of PyTorch's `_library`, which packages with operators of their own read."""

from . import autograd, infer_schema, simple_registry, utils

__all__ = ["autograd", "infer_schema", "simple_registry", "utils"]
