"""Names of PyTorch's `_library`, which packages with operators of their own read."""

from . import autograd, fake_profile, infer_schema, simple_registry, utils

__all__ = ["autograd", "fake_profile", "infer_schema", "simple_registry", "utils"]
