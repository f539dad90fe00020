"""Methods of Tensor that PyTorch also has as functions, and low-level names for what other operators do.

Takes and gives what the operators do that are called. Keeps true: nothing is computed here that is not computed there.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.registry import F, composite


@composite(
    "clone(Tensor self, *, memory_format? memory_format=None) -> Tensor",
    names=("clone",),
    elementwise=True,
)
def clone(self, memory_format):
    """A copy in memory of its own."""
    return self.clone(memory_format=memory_format or core.preserve_format)


def _check_fill(value: object) -> None:
    if isinstance(value, core.Tensor) and value.dim():
        fail(
            RuntimeError,
            "fill",
            "fill only supports 0-dimension value tensor",
            f"{value.dim()} dimensions",
            hint="copy_() takes tensors of other shapes",
        )


@composite("fill(Tensor self, Operand value) -> Tensor", names=("fill",))
def fill(self, value):
    """A tensor like `self` whose elements all are `value`.

    Example:
        >>> facula.fill(facula.zeros(2), 7.0)
        tensor([7., 7.])
    """
    _check_fill(value)
    result = self.clone()
    return result.copy_(value) if isinstance(value, core.Tensor) else result.fill_(value)


@composite("fill_function_(Tensor self, Operand value) -> Tensor", names=("fill_",), out=False)
def fill_function_(self, value):
    """Set every element to `value`."""
    _check_fill(value)
    return self.fill_(value)


@composite("zero_(Tensor self) -> Tensor", names=("zero_",), out=False)
def zero_(self):
    """Set every element to zero."""
    return self.zero_()


@composite(
    "detach(Tensor self) -> Tensor",
    names=("detach",),
    out=False,
    elementwise=True,
    quantizers={"fx": "shared"},
)
def detach(self):
    """The same memory without its history."""
    return self.detach()


@composite("detach_(Tensor self) -> Tensor", names=("detach_",), out=False)
def detach_(self):
    """Drop the tensor's history."""
    return self.detach_()


@composite(
    "resize_as_(Tensor self, Tensor the_template, *, memory_format? memory_format=None) -> Tensor",
    names=("resize_as_",),
    out=False,
)
def resize_as_(self, the_template, memory_format):
    """Give the tensor the shape of another; new elements are not set."""
    return self.resize_as_(the_template, memory_format=memory_format)


@composite(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
    names=("_softmax_backward_data",),
)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax's argument, from its result."""
    return F.softmax_backward(grad_output, output, dim).to(input_dtype)


@composite(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
    names=("_log_softmax_backward_data",),
)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax's argument, from its result."""
    return F.log_softmax_backward(grad_output, output, dim).to(input_dtype)


@composite(
    "_safe_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor", names=("_safe_softmax",)
)
def _safe_softmax(self, dim, dtype):
    """Softmax that is zero where every element of a row is -inf."""
    empty = (self == -float("inf")).all(dim, keepdim=True)
    return F.softmax(self.masked_fill(empty, 0), dim, dtype).masked_fill(empty, 0)


@composite(
    "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    names=("native_dropout_backward",),
)
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of dropout's argument."""
    return grad_output * (mask.to(grad_output.dtype) * scale)


def _inside(self: Any, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        None if index is None else index.clamp(-size, size - 1)
        for index, size in zip(indices, self.shape, strict=False)
    )


@composite(
    "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Number fill) -> Tensor",
    names=("_unsafe_masked_index",),
    out=False,
)
def _unsafe_masked_index(self, mask, indices, fill):
    """Indexing where the mask holds, `fill` elsewhere: indices may point anywhere there."""
    if not self.numel():
        shape = F.broadcast_tensors([mask, *(i for i in indices if i is not None)])[0].shape
        return F.full(shape, fill, dtype=self.dtype, device=self.device)
    return F.index(self, _inside(self, indices)).masked_fill(~mask, fill)


@composite(
    "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
    names=("_unsafe_masked_index_put_accumulate",),
    out=False,
)
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """Add values where the mask holds: indices may point anywhere else."""
    if not self.numel():
        return self.clone()
    return F.index_put(self, _inside(self, indices), values.masked_fill(~mask, 0), accumulate=True)
