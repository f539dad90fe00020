"""Operators over boolean masks: `nonzero`, `masked_select`, `masked_scatter`, `masked_fill`.

Takes masks that broadcast with `self`; gives coordinates, the selected values, or a copy with
values put in. Keeps true:
order is that of the elements, row by row.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.index import launch
from facula.ops.table.registry import F, composite, operator

BLOCK = 4096


def block_starts(mask: core.Tensor) -> tuple[Any, int, int]:
    """Count a contiguous mask block by block: first place of each block, number of blocks, number
    of true values.
    """
    count = mask.numel()
    blocks = max(1, -(-count // BLOCK))
    counts = core.empty((blocks,), dtype=core.int64)
    starts = core.empty((blocks + 1,), dtype=core.int64)
    core.kernel("mask.count")((counts, mask), (count, BLOCK), (), total=blocks, grain=8)
    core.kernel("mask.start")((starts, counts), (blocks,), ())
    return starts, blocks, starts[blocks].item()


def positions(mask: core.Tensor) -> Any:
    """Coordinates of the true values of a contiguous mask, int64 [count, ndim]."""
    starts, blocks, total = block_starts(mask)
    result = core.empty((total, mask.dim()), dtype=core.int64)
    if mask.dim() and total:
        core.kernel("mask.positions")(
            (result, mask, starts),
            (mask.numel(), BLOCK, mask.dim(), *mask.shape),
            (),
            total=blocks,
            grain=8,
        )
    return result


def _as_mask(self: core.Tensor) -> Any:
    return (self if self.dtype is core.bool_ else self != 0).contiguous()


def _check_mask(op: str, mask: core.Tensor) -> None:
    if mask.dtype is not core.bool_:
        fail(
            RuntimeError,
            op,
            f"{op}: expected BoolTensor for mask",
            mask.dtype,
            "compare, or use .bool()",
        )


@operator("_nonzero(Tensor self) -> Tensor", names=(), out=False, file_name="nonzero.default")
class _nonzero:
    """Coordinates of the elements that are not zero."""

    dynamic = True
    fast = "nonzero"

    def counted(count, self):
        return core.empty((count, self.dim()), dtype=core.int64, device=self.device)

    def cpu(self):
        return positions(_as_mask(self))


@composite("nonzero(Tensor self, *, bool as_tuple=False) -> Tensor")
def nonzero(self, as_tuple):
    """Coordinates of the elements that are not zero, int64 [count, ndim]; `as_tuple` gives one
    vector a dimension.
    """
    if as_tuple:
        self = self.reshape((1,)) if self.dim() == 0 else self
        return F._nonzero(self).unbind(1)
    return F._nonzero(self)


@composite(
    "nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
    names=("nonzero_static", "Tensor.nonzero_static"),
    vmap="entries",
)
def nonzero_static(self, size, fill_value):
    """The first `size` coordinates of elements that are not zero, filled up with `fill_value`:
    int64 [size, ndim].

    Example:
        >>> facula.nonzero_static(facula.tensor([0, 3, 0, 4]), size=3)
        tensor([[ 1],
                [ 3],
                [-1]])
    """
    if size < 0:
        fail(
            RuntimeError,
            "nonzero_static",
            "'size' must be an non-negative integer",
            size,
            hint="size is the number of coordinates to return",
        )
    result = core.empty((size, self.dim()), dtype=core.int64, device=self.device).fill_(fill_value)
    if self.is_meta:
        return result
    found = F._nonzero(self)
    if getattr(found.shape[0], "_is_symbolic", False):  # nobody knows yet which of both is larger
        return F.cat((found, result)).narrow(0, 0, size)
    count = min(size, found.shape[0])
    result.narrow(0, 0, count).copy_(found.narrow(0, 0, count))
    return result


@composite("argwhere(Tensor self) -> Tensor", out=False)
def argwhere(self):
    """Coordinates of the elements that are not zero, int64 [count, ndim]."""
    return F._nonzero(self)


@operator("masked_select(Tensor self, Tensor mask) -> Tensor", quantized="moves", apart=True)
class masked_select:
    """The elements where `mask` is true, as a vector; both broadcast."""

    rearranges = True

    jvp = "linear"

    dynamic = True
    fast = "select"

    def meta(self, mask):
        _check_mask("masked_select", mask)
        launch.broadcast_shapes("masked_select", self.shape, mask.shape)

    def counted(count, self, mask):
        return core.empty((count,), dtype=self.dtype, device=self.device)

    def cpu(self, mask):
        shape = launch.broadcast_shapes("masked_select", self.shape, mask.shape)
        self, mask = self.expand(shape).contiguous(), mask.expand(shape).contiguous()
        starts, blocks, total = block_starts(mask)
        result = core.empty((total,), dtype=self.dtype)
        if total:
            core.kernel("mask.select:" + launch.size_code(self.dtype))(
                (result, self, mask, starts), (mask.numel(), BLOCK), (), total=blocks, grain=8
            )
        return result

    def backward(grad, self_meta, mask):
        shape = launch.broadcast_shapes("masked_select", self_meta.shape, mask.shape)
        zero = F.zeros(shape, dtype=grad.dtype, device=grad.device)
        return F.sum_to_size(F.masked_scatter(zero, mask, grad), self_meta.shape), None

    def samples(S):
        yield (S(4, 5), S.mask(4, 5)), {}
        yield (S(4, 5), S.mask(5)), {}

    def errors(S):
        yield (S(3), S(3)), {}, RuntimeError, "expected BoolTensor for mask"


@operator("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", inplace=True)
class masked_scatter:
    """A copy of `self` with the elements where `mask` is true taken, in order, from `source`."""

    apart = True

    jvp = "linear"

    def meta(self, mask, source):
        if mask.dtype is not core.bool_:
            fail(
                RuntimeError,
                "masked_scatter",
                "masked_scatter_ only supports boolean masks",
                mask.dtype,
                hint="mask.bool() converts it",
            )
        if self.dtype is not source.dtype:
            fail(
                RuntimeError,
                "masked_scatter",
                "masked_scatter: expected self and source to have same dtypes",
                f"{self.dtype} and {source.dtype}",
                hint=cast_hint("source", self.dtype),
            )
        shape = launch.broadcast_shapes("masked_scatter", self.shape, mask.shape)
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, mask, source):
        if out.numel() == 0:
            return
        self, mask = self.expand(out.shape).contiguous(), mask.expand(out.shape).contiguous()
        starts, blocks, total = block_starts(mask)
        if total > source.numel():
            fail(
                RuntimeError,
                "masked_scatter",
                "Number of elements of source < number of ones in mask",
                f"{source.numel()} < {total}",
                hint=f"masked_fill(mask, value) writes one value to all {total} places",
            )
        core.kernel("mask.scatter:" + launch.size_code(self.dtype))(
            (out, self, mask, starts, source.contiguous()),
            (mask.numel(), BLOCK),
            (),
            total=blocks,
            grain=8,
        )

    def backward(grad, self_meta, mask, source_meta, needs):
        grad_self = grad_source = None
        if needs[0]:
            grad_self = F.sum_to_size(grad.masked_fill(mask, 0), self_meta.shape)
        if needs[-1]:
            # the source's elements in order go to where the mask is true; all others to one more place
            flat, count = mask.expand(grad.shape).reshape(-1), source_meta.numel()
            places = F.where(flat, F.cumsum(flat, 0) - 1, count)
            whole = F.scatter(grad.new_zeros((count + 1,)), 0, places, grad.reshape(-1))
            grad_source = F.slice(whole, 0, 0, count, 1).reshape(source_meta.shape)
        return grad_self, None, grad_source

    def samples(S):
        yield (S(4, 5), S.mask(4, 5), S(20)), {}


@operator(
    "masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor",
    names=(),
    out=False,
)
class masked_scatter_backward:
    """The gradient of what `masked_scatter` takes elements from: those where `mask` is true, in
    order, and zeros behind them.
    """

    jvp = "linear"

    def meta(grad_output, mask, sizes):
        return core.empty(sizes, dtype=grad_output.dtype, device=grad_output.device)

    def cpu(out, grad_output, mask, sizes):
        chosen = F.masked_select(grad_output, mask)
        missing = out.numel() - chosen.numel()
        out.copy_(F.constant_pad_nd(chosen, [0, missing]).reshape(sizes))

    def backward(grad, grad_output_meta, mask):
        zeros = grad.new_zeros(grad_output_meta.shape)
        return F.masked_scatter(zeros, mask, grad), None

    def samples(S):
        yield (S(4, 5), S.mask(4, 5), (20,)), {}


@composite(
    "masked_fill(Tensor self, Tensor mask, Operand value) -> Tensor",
    inplace=True,
    expanded=True,
    out=False,
    node=lambda result, self, mask, value: (
        f"MaskedFillBackward{int(isinstance(value, core.Tensor))}"
    ),
)
def masked_fill(self, mask, value):
    """A copy of `self` with `value` (a number or a 0-d tensor) where `mask` is true.

    Example:
        >>> input = facula.tensor([1.0, 2.0, 3.0])
        >>> facula.masked_fill(input, input > 1.5, 0.0)
        tensor([1., 0., 0.])
    """
    if mask.dtype is not core.bool_:
        fail(
            RuntimeError,
            "masked_fill",
            "masked_fill_ only supports boolean masks",
            mask.dtype,
            hint="mask.bool() converts it",
        )
    if isinstance(value, core.Tensor):
        if value.dim():
            fail(
                RuntimeError,
                "masked_fill",
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.dim()} dimension(s)",
                f"{value.dim()} dimension(s)",
                hint="give a number, or use facula.where(mask, value, x)",
            )
        return F.where(mask, value.to(self.dtype), self)
    if isinstance(value, complex) and not self.dtype.is_complex:
        fail(
            RuntimeError,
            "masked_fill",
            f"value cannot be converted to type {self.dtype} without overflow",
            value,
            hint="give value.real, or convert self with .to(facula.complex64)",
        )
    core.check_number("masked_fill", "value", value, self.dtype)
    filler = core.empty((), dtype=self.dtype, device=self.device)
    filler.fill_(value)
    return F.where(mask, filler, self)
