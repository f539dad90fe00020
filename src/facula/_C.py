"""Names that programs read from PyTorch's extension module.

Takes: nothing. Gives: the functions and classes of facula that stand for them.
Keeps true: re-exports; what facula has no counterpart for is absent.
"""

from __future__ import annotations

from facula.core import (
    Generator,
    Size,
    device,
    dtype,
    layout,
    memory_format,
)
from facula.core import Tensor as TensorBase
from facula.core import _disabled_torch_function_impl as _disabled_torch_function_impl
from facula.core import is_grad_enabled as is_grad_enabled
from facula.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
)

_TensorBase = TensorBase


def _log_api_usage_once(event: str) -> None:
    """Libraries announce their use to PyTorch's telemetry; there is none here."""


__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Size",
    "TensorBase",
    "device",
    "dtype",
    "layout",
    "memory_format",
]
