"""`facula._subclasses`: fake tensors under PyTorch's name.

Re-exports from `facula.fx.fake_tensor`, and holds nothing of its own.
"""

from facula.fx.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

from . import fake_utils
from .fake_utils import CrossRefFakeMode

__all__ = [
    "CrossRefFakeMode",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
]
