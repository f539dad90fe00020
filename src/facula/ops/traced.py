"""Operators that stand in traces for what is done at once elsewhere.

Takes what the core does without a call: a constant that a program holds, sizes read off a tensor.
Gives operators, so that a trace can name them.
Keeps true: outside of traces nothing calls them, and they give the same numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.registry import composite, operator


@operator("lift_fresh_copy(Tensor self) -> Tensor", names=(), inplace=False)
class lift_fresh_copy:
    """A new tensor with the elements of one that a program holds: what `tensor(data)` gives."""

    def meta(self: Any) -> Any:
        return core.empty_like(self)

    def cpu(out: Any, self: Any) -> None:
        out.copy_(self)

    def backward(grad: Any) -> Any:
        return grad

    def samples(S: Any) -> Any:
        yield (S(3, 4),), {}


@composite("sym_size(Tensor self, int dim) -> int", names=(), out=False, overload="int")
def sym_size(self: Any, dim: int) -> int:
    """The size of a tensor along a dimension, as a number of the trace."""
    return self.shape[dim]


@composite("sym_stride(Tensor self, int dim) -> int", names=(), out=False, overload="int")
def sym_stride(self: Any, dim: int) -> int:
    """The stride of a tensor along a dimension, as a number of the trace."""
    return self.stride()[dim]


@composite("sym_numel(Tensor self) -> int", names=(), out=False)
def sym_numel(self: Any) -> int:
    """The number of elements, as a number of the trace."""
    return self.numel()


@composite("sym_storage_offset(Tensor self) -> int", names=(), out=False)
def sym_storage_offset(self: Any) -> int:
    """The place of the first element in the storage, as a number of the trace."""
    return self.storage_offset()
