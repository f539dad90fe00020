"""Tensors of numbers that were read from elements: `tensor([n, 2])` where `n` is known only where the program runs.

Takes: nested lists of numbers and tensors with one element. Gives: `tensor_of`.
Keeps true: no number is asked for its value.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.fx.symbols import SymBool, SymFloat, SymInt
from facula.ops.table.registry import F

__all__ = ["tensor_of"]


def tensor_of(data: Any, dtype: core.dtype) -> Any:
    """A tensor of nested numbers; None where none of them depends on sizes, or is without an example.

    Args:
        data: nested lists
        dtype: of the tensor
    """
    return _made(data, dtype) if _is_open(data) else None


def _is_open(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_is_open, x))
    if isinstance(x, SymBool):
        return not x.env.backed(x.condition)
    return isinstance(x, SymFloat) or (isinstance(x, SymInt) and bool(x.expr.unbacked))


def _made(data: Any, dtype: core.dtype) -> Any:
    if isinstance(data, (list, tuple)):
        return F.stack([_made(x, dtype) for x in data], 0)
    if isinstance(data, core.Tensor):
        return data.to(dtype)
    return F.scalar_tensor(data, dtype=dtype)
