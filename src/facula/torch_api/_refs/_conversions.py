"""Conversions between dtypes: one function for each, named like the method of Tensor.

Takes tensors. Gives tensors of the dtype in the name. Keeps true: what PyTorch's functions of these
names give, `complex` and `polar` from two real tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.table.registry import F

_DTYPES = {
    "bfloat16": core.bfloat16,
    "bool": core.bool_,
    "byte": core.uint8,
    "cdouble": core.complex128,
    "cfloat": core.complex64,
    "chalf": core.complex32,
    "char": core.int8,
    "double": core.float64,
    "float": core.float32,
    "half": core.float16,
    "int": core.int32,
    "long": core.int64,
    "short": core.int16,
}


def _conversion(name: str, dtype: core.dtype) -> Callable[..., Any]:
    def convert(self: Any, memory_format: core.memory_format = core.preserve_format) -> Any:
        return self.to(dtype, memory_format=memory_format)

    convert.__name__, convert.__doc__ = name, f"The tensor as {dtype}."
    return convert


globals().update({name: _conversion(name, dtype) for name, dtype in _DTYPES.items()})
complex = F.complex
polar = F.polar

__all__ = sorted([*_DTYPES, "complex", "polar"])  # pyright: ignore
