"""Names of PyTorch's `_library`, which packages with operators of their own read."""

from . import infer_schema, utils

__all__ = ["infer_schema", "utils"]
