"""Operators that rearrange elements: flip, roll, rot90, tril, triu, repeat, tile,
repeat_interleave, diag.

Takes one tensor and where its elements shall go; gives a contiguous copy. Keeps true: every element
of a gradient goes
back the way it came.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order


def _unique_dims(op: str, dims: tuple[int, ...], ndim: int) -> list[int]:
    result = [wrap_dim(op, d, ndim) for d in dims]
    for d in result:
        if result.count(d) > 1:
            fail(
                RuntimeError,
                op,
                f"dim {d} appears multiple times in the list of dims",
                list(dims),
                hint=f"name each dimension once; here -1 and {max(ndim, 1) - 1} are the same",
            )
    return result


@operator("flip(Tensor self, int[]... dims) -> Tensor", out=False, quantized="moves")
class flip:
    """The elements in reverse order along each of `dims`."""

    rearranges = True

    vmap = "dims"
    jvp = "linear"

    def meta(self, dims):
        _unique_dims("flip", dims, self.dim())
        return core.empty_like(self)

    def cpu(out, self, dims):
        if self.dim() == 0 or not dims or out.numel() <= 1:
            out.copy_(self)
            return
        places = _unique_dims("flip", dims, self.dim())
        if not out.is_contiguous():
            steps = out.stride()
            order = sorted(range(out.dim()), key=lambda d: -steps[d])
            places = [order.index(d) for d in places]
            out, self = out.permute(order), self.permute(order)
        strides, offset = list(self.stride()), 0
        for d in places:
            offset += (self.shape[d] - 1) * strides[d]
            strides[d] = -strides[d]
        length = self.shape[-1]
        core.kernel("arrange:" + launch.size_code(self.dtype))(
            (out, self),
            (self.dim(), offset, *self.shape, *strides),
            (),
            total=out.numel() // length,
            grain=max(1, launch.SERIAL // length),
        )

    def backward(grad, dims):
        return F.flip(grad, dims)

    def samples(S):
        yield (S(3, 4), (0, -1)), {}

    def errors(S):
        yield (S(3), (0, 0)), {}, RuntimeError, "dim 0 appears multiple times"


@composite("fliplr(Tensor self) -> Tensor", out=False, quantized="moves")
def fliplr(self):
    """Columns in reverse order."""
    if self.dim() < 2:
        fail(
            RuntimeError,
            "fliplr",
            "Input must be >= 2-d.",
            f"{self.dim()}-d",
            hint="facula.atleast_2d(x) has two dimensions",
        )
    return F.flip(self, (1,))


@composite("flipud(Tensor self) -> Tensor", out=False, quantized="moves")
def flipud(self):
    """Rows in reverse order."""
    if self.dim() < 1:
        fail(
            RuntimeError,
            "flipud",
            "Input must be >= 1-d.",
            f"{self.dim()}-d",
            hint="x.reshape(1) is 1-d",
        )
    return F.flip(self, (0,))


@composite(
    "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
    out=False,
    quantized="moves",
    node="Rot90Backward0",
)
def rot90(self, k, dims):
    """Rotate by k quarter turns in the plane of two dimensions, from the first towards the
    second.
    """
    if len(dims) != 2:
        fail(
            RuntimeError,
            "rot90",
            "expected total rotation dims == 2",
            len(dims),
            hint="dims=(0, 1) rotates in the first two dimensions",
        )
    if self.dim() < 2:
        fail(
            RuntimeError,
            "rot90",
            "expected total dims >= 2",
            self.dim(),
            hint="facula.atleast_2d(x) has two dimensions",
        )
    a, b = (wrap_dim("rot90", d, self.dim()) for d in dims)
    if a == b:
        fail(
            RuntimeError,
            "rot90",
            "expected rotation dims to be different",
            f"dim0 = {dims[0]} and dim1 = {dims[1]}",
            hint="a rotation goes from one dimension to another, for example dims=(0, 1)",
        )
    turns = k % 4
    if turns == 1:
        return F.flip(self, (b,)).transpose(a, b)
    if turns == 2:
        return F.flip(self, (a, b))
    if turns == 3:
        return F.flip(self, (a,)).transpose(a, b)
    return self.clone()


def _roll_one(self: Any, shift: int, dim: int) -> Any:
    size = self.shape[dim]
    self = self.contiguous()
    out = core.empty(self.shape, dtype=self.dtype)
    inner = launch.product(self.shape[dim + 1 :]) * self.dtype.itemsize
    lines = launch.product(self.shape[:dim])
    core.kernel("roll")(
        (out, self),
        (size * inner, (shift % size) * inner),
        (),
        total=lines,
        grain=max(1, 131072 // (size * inner)),
    )
    return out


@operator(
    "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor", out=False, quantized="moves"
)
class roll:
    """Elements moved by `shifts` along `dims`, re-entering at the other end; flattened when no dims
    are given.
    """

    rearranges = True

    vmap = batch_forms.roll
    jvp = "linear"

    def meta(self, shifts, dims):
        if not shifts:
            fail(
                RuntimeError,
                "roll",
                "`shifts` required",
                "none",
                hint="roll(x, 1, dims=0) moves rows by one",
            )
        if len(dims) != len(shifts) and not (not dims and len(shifts) == 1):
            fail(
                RuntimeError,
                "roll",
                f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}",
                hint="give each shift its dim; without dims a single shift rolls the flattened "
                "tensor",
            )
        if dims and self.dim() == 0:
            required = f"Dimension specified as {dims[0]} but tensor has no dimensions"
            fail(IndexError, "roll", required, list(dims), "leave dims out, or x.reshape(1)")
        for d in dims:
            wrap_dim("roll", d, self.dim())
        return memory_order.empty(self.shape, self, bool(dims) and memory_order.channels_last(self))

    def cpu(out, self, shifts, dims):
        if out.numel() <= 1:
            out.copy_(self)
            return
        rolled = self if dims else self.reshape(-1)
        places = [wrap_dim("roll", d, rolled.dim()) for d in dims or (0,)]
        if not out.is_contiguous():
            places = [memory_order.row_dimension(d, self.dim()) for d in places]
            out, rolled = memory_order.rows(out), memory_order.rows(rolled)
        for shift, d in zip(shifts, places, strict=True):
            rolled = _roll_one(rolled, shift, d)
        out.copy_(rolled.reshape(out.shape))

    def backward(grad, shifts, dims):
        return F.roll(grad, [-n for n in shifts], dims)

    def samples(S):
        yield (S(3, 4), (1, -2), (0, 1)), {}
        yield (S(3, 4), (5,)), {}


def _triangle_meta(op: str, self: core.Tensor) -> Any:
    if self.dim() < 2:
        fail(
            RuntimeError,
            op,
            f"{op}: input tensor must have at least 2 dimensions",
            self.dim(),
            hint="facula.atleast_2d(x) has two dimensions",
        )
    return core.empty(self.shape, dtype=self.dtype, device=self.device)


def _triangle(out: core.Tensor, self: core.Tensor, diagonal: int, upper: bool) -> None:
    if out.numel() == 0:
        return
    rows, columns = self.shape[-2:]
    diagonal = max(-(1 << 40), min(1 << 40, diagonal))
    core.kernel("triangle:" + launch.size_code(self.dtype))(
        (out, self.contiguous()),
        (rows, columns, diagonal, int(upper)),
        (),
        total=out.numel() // columns,
        grain=max(1, launch.SERIAL // columns),
    )


@operator("tril(Tensor self, int diagonal=0) -> Tensor", inplace=True, quantized="same range")
class tril:
    """The lower triangle of matrices, up to `diagonal`; zero elsewhere."""

    vmap = "whole"
    jvp = "linear"

    def meta(self, diagonal):
        return _triangle_meta("tril", self)

    def cpu(out, self, diagonal):
        _triangle(out, self, diagonal, False)

    def backward(grad, diagonal):
        return F.tril(grad, diagonal)

    def samples(S):
        yield (S(4, 5),), {"diagonal": 1}

    def errors(S):
        yield (S(3),), {}, RuntimeError, "input tensor must have at least 2 dimensions"


@operator("triu(Tensor self, int diagonal=0) -> Tensor", inplace=True, quantized="same range")
class triu:
    """The upper triangle of matrices, from `diagonal` on; zero elsewhere.

    Example:
        >>> facula.ones(2, 3).triu(1)
        tensor([[0., 1., 1.],
                [0., 0., 1.]])
    """

    vmap = "whole"
    jvp = "linear"

    def meta(self, diagonal):
        return _triangle_meta("triu", self)

    def cpu(out, self, diagonal):
        _triangle(out, self, diagonal, True)

    def backward(grad, diagonal):
        return F.triu(grad, diagonal)

    def samples(S):
        yield (S(2, 4, 5),), {"diagonal": -1}


@composite(
    "repeat(Tensor self, int[]... repeats) -> Tensor",
    names=("Tensor.repeat",),
    out=False,
    quantized="moves",
    quantizers={"fx": "shared"},
    node="RepeatBackward0",
)
def repeat(self, repeats):
    """The tensor repeated along each dimension (new leading ones where there are more repeats)."""
    if len(repeats) < self.dim():
        fail(
            RuntimeError,
            "repeat",
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor",
            f"{len(repeats)} and {self.dim()}",
            hint="tile() takes fewer repeats",
        )
    if any(n < 0 for n in repeats):
        fail(
            RuntimeError,
            "repeat",
            "non-negative repeats were required",
            list(repeats),
            hint="0 repeats give an empty tensor",
        )
    sizes = [1] * (len(repeats) - self.dim()) + list(self.shape)
    if all(n == 1 for n in repeats):
        return self.clone().reshape(sizes)
    both = list(zip(repeats, sizes, strict=True))
    result = [count * size for count, size in both]
    if len(both) + sum(count != 1 for count, _ in both) > core.max_dims:
        both = [pair for pair in both if pair != (1, 1)]
    pairs = [n for count, size in both for n in ((size,) if count == 1 else (1, size))]
    wide = [n for count, size in both for n in ((size,) if count == 1 else (count, size))]
    return self.reshape(pairs).expand(wide).reshape(result).contiguous()


@composite(
    "tile(Tensor self, int[]... dims) -> Tensor",
    names=("tile", "Tensor.tile"),
    out=False,
    quantized="moves",
)
def tile(self, dims):
    """`repeat`, where missing leading repeats are 1."""
    return F.repeat(self, (1,) * (self.dim() - len(dims)) + tuple(dims))


def _repeat_all(self: Any, repeats: int, dim: int) -> Any:
    """Every slice of a dimension equally often."""
    shape = list(self.shape)
    if len(shape) == core.max_dims:  # a further one has no place
        rows = self.reshape((math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])))
        shape[dim] *= repeats
        return _repeat_all(rows, repeats, 1).reshape(shape)
    wide = [*shape[: dim + 1], repeats, *shape[dim + 1 :]]
    shape[dim] *= repeats
    copies = self.unsqueeze(dim + 1).expand(wide)
    return copies.clone(memory_format=core.contiguous_format).reshape(shape)


def _repeat_index(repeats: Any, output_size: int | None) -> Any:
    """Entry numbers, each as often as its repeat count says."""
    if repeats.dim() != 1:
        fail(
            RuntimeError,
            "repeat_interleave",
            "repeat_interleave only accept 1D vector as repeat",
            f"{repeats.dim()}-d",
            hint="repeats.reshape(-1) is 1-d",
        )
    launch.check_index_dtype("repeat_interleave", repeats)
    if repeats.numel() == 0:
        return core.empty((0,), dtype=repeats.dtype)
    if output_size is None:
        return F._repeat_index(repeats)
    return F._repeat_index_sized(repeats, output_size)


@operator("_repeat_index(Tensor repeats) -> Tensor", names=(), out=False)
class _repeat_index_counted:
    """Entry numbers, each as often as its repeat count says."""

    dynamic = True

    def meta(repeats):
        pass

    def counted(count, repeats):
        return core.empty((count,), dtype=repeats.dtype, device=repeats.device)

    def cpu(repeats):
        return _numbers(repeats, None)

    def samples(S):
        yield (core.tensor([2, 0, 3]),), {}


@operator("_repeat_index_sized(Tensor repeats, int output_size) -> Tensor", names=(), out=False)
class _repeat_index_sized:
    """The same, where the caller knows how many there are."""

    def meta(repeats, output_size):
        return core.empty((output_size,), dtype=repeats.dtype, device=repeats.device)

    def cpu(out, repeats, output_size):
        out.copy_(_numbers(repeats, output_size))


def _numbers(repeats: core.Tensor, output_size: int | None) -> core.Tensor:
    repeats64 = repeats.to(core.int64)
    if repeats64.min().item() < 0:
        fail(
            RuntimeError,
            "repeat_interleave",
            "repeats can not be negative",
            repeats64.min().item(),
            hint="repeats.clamp(min=0) has none below 0",
        )
    ends = repeats64.cumsum(0)
    total = int(ends[-1])
    _check_total(repeats64, total, output_size)
    result = core.empty((total,), dtype=core.int64)
    core.kernel("repeat.index")((result, ends), (), (), total=repeats.numel(), grain=1024)
    return result.to(repeats.dtype)


def _check_total(repeats64: Any, total: int, output_size: int | None) -> None:
    if repeats64.max().item() * repeats64.numel() >= 2**63 and sum(repeats64.tolist()) != total:
        fail(
            RuntimeError,
            "repeat_interleave",
            "a result that fits memory was required",
            "counts that sum to more than 2**63",
            hint="the counts are numbers of copies, not of elements",
        )
    if output_size is not None and output_size != total:
        fail(
            RuntimeError,
            "repeat_interleave",
            "allocated size does not match required size",
            f"{output_size} != {total}",
            hint=f"leave output_size out, or give {total}",
        )


@composite(
    "repeat_interleave(Tensor self, any repeats=None, int? dim=None, *, int? output_size=None) -> "
    "Tensor",
    overload="repeats:int=self_int, repeats=self_Tensor, Tensor",
    file_arguments={"Tensor.self": "repeats"},
    out=False,
    quantized="moves",
    quantizers={"fx": "shared"},
)
def repeat_interleave(self, repeats, dim, output_size):
    """Each element along `dim` repeated (flattened when None); a lone tensor gives the entry
    numbers.
    """
    if repeats is None:
        return _repeat_index(self, output_size)
    if dim is None:
        self, dim = self.reshape(-1), 0
    elif self.dim() == 0:
        self = self.reshape((1,))
    dim = wrap_dim("repeat_interleave", dim, self.dim())
    size = self.shape[dim]
    if isinstance(repeats, (tuple, list)):
        repeats = core.tensor(repeats, dtype=core.int64)
    if isinstance(repeats, core.Tensor) and repeats.numel() == 1:
        launch.check_index_dtype("repeat_interleave", repeats)
        repeats = repeats.item()
    if not isinstance(repeats, core.Tensor):
        if repeats < 0:
            fail(
                RuntimeError,
                "repeat_interleave",
                "Repeats must be non-negative",
                repeats,
                hint="0 drops every element",
            )
        return _repeat_all(self, repeats, dim)
    if repeats.dim() != 1 or repeats.shape[0] != size:
        fail(
            RuntimeError,
            "repeat_interleave",
            "repeats must have the same size as input along dim",
            f"repeats {list(repeats.shape)} and input.size({dim}) = {size}",
            hint=f"give {size} repeats, or a single one for all",
        )
    return F.index_select(self, dim, _repeat_index(repeats, output_size))


@composite("diag(Tensor self, int diagonal=0) -> Tensor")
def diag(self, diagonal):
    """A matrix with the vector on its diagonal, or the diagonal of a matrix."""
    if self.dim() == 1:
        return F.diag_embed(self, diagonal)
    if self.dim() == 2:
        return self.diagonal(diagonal).clone()
    fail(
        RuntimeError,
        "diag",
        "diag(): Supports 1D or 2D tensors.",
        f"{self.dim()}D",
        hint="diagonal() takes batches of matrices, diag_embed() makes them",
    )


@composite(
    "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    names=("diag_embed", "Tensor.diag_embed"),
    out=False,
    node="DiagEmbedBackward0",
)
def diag_embed(self, offset, dim1, dim2):
    """Matrices in two new dimensions with the last dimension on their diagonal."""
    ndim = self.dim() + 1
    first, second = wrap_dim("diag_embed", dim1, ndim), wrap_dim("diag_embed", dim2, ndim)
    if first == second:
        fail(
            RuntimeError,
            "diag_embed",
            f"diagonal dimensions cannot be identical {dim1}, {dim2}",
            f"dim1={dim1}, dim2={dim2}",
            hint="dim1=-2, dim2=-1 are the last two",
        )
    if self.dim() == 0:
        fail(
            RuntimeError,
            "diag_embed",
            "a tensor of 1 or more dimensions was required",
            "0-d",
            hint="x.reshape(1) has one",
        )
    size = self.shape[-1] + abs(offset)
    shape = list(self.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, size)
    return F.diagonal_scatter(
        F.zeros(shape, dtype=self.dtype, device=self.device), self, offset, first, second
    )


@composite("diagflat(Tensor self, int offset=0) -> Tensor", out=False)
def diagflat(self, offset):
    """A matrix with the flattened tensor on its diagonal."""
    return F.diag_embed(self.reshape(-1), offset)


def _check_part(op: str, part: core.Tensor, src: core.Tensor) -> None:
    if tuple(part.shape) != tuple(src.shape):
        fail(
            RuntimeError,
            op,
            "expected src to have a size equal to the slice of self",
            f"src size = {list(src.shape)}, slice size = {list(part.shape)}",
            hint=f"src.expand({list(part.shape)}) repeats sizes of 1",
        )


@operator("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor", out=False)
class select_scatter:
    """A copy of `self` with `src` in the slice `index` along `dim`."""

    vmap = "dims"
    jvp = "linear"

    def meta(self, src, dim, index):
        _check_part("select_scatter", self.select(dim, index), src)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, src, dim, index):
        out.copy_(self)
        out.select(dim, index).copy_(src)

    def backward(grad, src_shape, dim, index):
        zero = F.zeros(src_shape, dtype=grad.dtype, device=grad.device)
        return F.select_scatter(grad, zero, dim, index), grad.select(dim, index)

    def samples(S):
        yield (S(3, 4), S(3), 1, 2), {}


@operator(
    "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int "
    "step=1) -> Tensor"
)
class slice_scatter:
    """A copy of `self` with `src` in the range start:end:step along `dim`."""

    vmap = "dims"
    jvp = "linear"

    def meta(self, src, dim, start, end, step):
        _check_part("slice_scatter", F.slice(self, dim, start, end, step), src)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, src, dim, start, end, step):
        out.copy_(self)
        F.slice(out, dim, start, end, step).copy_(src)

    def backward(grad, src_shape, dim, start, end, step):
        zero = F.zeros(src_shape, dtype=grad.dtype, device=grad.device)
        return F.slice_scatter(grad, zero, dim, start, end, step), F.slice(
            grad, dim, start, end, step
        )

    def samples(S):
        yield (S(8, 4), S(2, 4), 0, 2, 6, 2), {}


@operator(
    "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    out=False,
)
class diagonal_scatter:
    """A copy of `self` with `src` on the diagonals of two dimensions."""

    vmap = "dims"
    jvp = "linear"

    def meta(self, src, offset, dim1, dim2):
        _check_part("diagonal_scatter", self.diagonal(offset, dim1, dim2), src)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, src, offset, dim1, dim2):
        out.copy_(self)
        out.diagonal(offset, dim1, dim2).copy_(src)

    def backward(grad, src_shape, offset, dim1, dim2):
        zero = F.zeros(src_shape, dtype=grad.dtype, device=grad.device)
        return F.diagonal_scatter(grad, zero, offset, dim1, dim2), grad.diagonal(offset, dim1, dim2)

    def samples(S):
        yield (S(4, 5), S(4)), {}


@composite(
    "fill_diagonal_(Tensor self, Number fill_value, bool wrap=False) -> Tensor",
    names=("Tensor.fill_diagonal_",),
    out=False,
)
def fill_diagonal_(self, fill_value, wrap):
    """Set the main diagonal in place; `wrap` goes on below a square in a tall matrix."""
    if self.dim() < 2:
        fail(
            RuntimeError,
            "fill_diagonal_",
            "dimensions must larger than 1",
            self.dim(),
            hint="x.fill_(value) fills vectors and numbers",
        )
    if self.dim() > 2 and len(set(self.shape)) > 1:
        fail(
            RuntimeError,
            "fill_diagonal_",
            "all dimensions of input must be of equal length",
            list(self.shape),
            hint="x.diagonal().fill_(value) fills where the first two indices are equal",
        )
    step = sum(self.stride())
    size = min(self.shape)
    F.as_strided(self, (size,), (step,)).fill_(fill_value)
    rows, columns = self.shape[0], self.shape[1]
    if wrap and self.dim() == 2 and rows > columns + 1:
        places = list(range((columns + 1) * columns, rows * columns, columns + 1))
        if places:
            index = core.tensor([[p // columns, p % columns] for p in places], dtype=core.int64)
            value = core.empty((), dtype=self.dtype).fill_(fill_value)
            F.index_put_(self, (index.select(1, 0), index.select(1, 1)), value)
    return self
