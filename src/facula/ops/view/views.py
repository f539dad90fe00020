"""Views: operators whose result shares the memory of their argument.

Takes: a tensor and index arithmetic. Gives: shape, strides and offset of the result; the hot
geometries stand in the core and are named here. Keeps true: no element is read or written;
gradients are formulas over operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite, view

Tensor = core.Tensor


@view(
    "view(Tensor self, any... size) -> Tensor",
    names=("Tensor.view",),
    keyword_aliases={"dtype": "size"},
    quantizers={"fx": "shared", "xnnpack": "shared", "x86": "shared"},
    overload="size:dtype=dtype, default",
    file_arguments={"dtype.size": "dtype"},
)
class view_:
    """The same elements in another shape (one size may be -1), or as another dtype."""

    shards = "reshaped"

    geometry = "view"

    def vmap(batch, self, size):
        x = batch.front(self)
        return x.view((x.shape[0], *size)) if isinstance(size, tuple) else x.view(size)

    def backward(grad, self_shape):
        return grad.reshape(self_shape)

    def samples(S):
        yield (S(3, 4), (2, 6)), {}
        yield (S(6), (-1, 3)), {}

    def errors(S):
        yield (S(3, 4), (5, 2)), {}, RuntimeError, "is invalid for input of size 12"


@view(
    "transpose(Tensor self, int dim0, int dim1) -> Tensor",
    overload="int",
    names=(
        "transpose",
        "Tensor.transpose",
        "swapdims",
        "Tensor.swapdims",
    ),
    inplace=True,
    quantizers={"fx": "shared", "xnnpack": "shared"},
)
class transpose:
    """Exchange two dimensions."""

    shards = "exchanged"

    geometry = "transpose"

    def backward(grad, dim0, dim1):
        return grad.transpose(dim0, dim1)

    def samples(S):
        yield (S(3, 4), 0, 1), {}
        yield (S(2, 3, 4), -1, 0), {}

    def errors(S):
        yield (S(3), 0, 2), {}, IndexError, "Dimension out of range"


@view("swapaxes(Tensor self, int axis0, int axis1) -> Tensor", inplace=True)
class swapaxes:
    """Exchange two dimensions."""

    shards = "exchanged"

    geometry = "transpose"

    def backward(grad, axis0, axis1):
        return grad.transpose(axis0, axis1)

    def samples(S):
        yield (S(3, 4), 0, 1), {}
        yield (S(2, 3, 4), -1, 0), {}


@view("t(Tensor self) -> Tensor", inplace=True, quantizers={"fx": "shared"})
class t:
    """The transpose of a matrix; tensors of fewer dimensions as they are."""

    shards = "transposed"

    geometry = "t"

    def vmap(batch, self):
        x = batch.front(self)
        if self.dim() > 2:
            fail(
                RuntimeError,
                "t",
                "t() expects a tensor with <= 2 dimensions",
                self.dim(),
                hint="x.mT exchanges the last two dimensions",
            )
        return x.transpose(1, 2) if self.dim() == 2 else x

    def backward(grad):
        return grad.t()

    def samples(S):
        yield (S(3, 4),), {}


@view(
    "permute(Tensor self, int[]... dims) -> Tensor",
    quantizers={"fx": "shared", "xnnpack": "shared"},
)
class permute:
    """The dimensions in another order.

    Example:
        >>> facula.zeros(2, 3, 5).permute(2, 0, 1).shape
        facula.Size([5, 2, 3])
    """

    shards = "permuted"

    geometry = "permute"

    def vmap(batch, self, dims):
        rank = self.dim()
        if len(dims) != rank:
            fail(
                RuntimeError,
                "permute",
                f"as many dims as dimensions ({rank})",
                list(dims),
                hint=f"name every dimension once, for example {tuple(range(rank))[::-1]}",
            )
        return batch.front(self).permute((0, *(wrap_dim("permute", d, rank) + 1 for d in dims)))

    def backward(grad, dims):
        inverse = [0] * len(dims)
        for position, dim in enumerate(dims):
            inverse[dim % len(dims)] = position
        return grad.permute(inverse)

    def samples(S):
        yield (S(2, 3, 4), (2, 0, 1)), {}


@view(
    "expand(Tensor self, int[]... size, *, bool implicit=False) -> Tensor",
    names=("Tensor.expand",),
    quantizers={"xnnpack": "shared"},
)
class expand:
    """Repeat along dimensions of size 1, and new leading ones, without copying.

    Example:
        >>> facula.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """

    shards = "expanded"

    geometry = "expand"

    def vmap(batch, self, size, implicit):
        x = batch.aligned(self, len(size))
        return x.expand((x.shape[0], *size))

    def backward(grad, self_shape):
        return F.sum_to_size(grad, self_shape)

    def samples(S):
        yield (S(3, 1), (2, 3, 4)), {}


@view(
    "select(Tensor self, int dim, int index) -> Tensor",
    overload="int",
    quantizers={"xnnpack": "shared"},
)
class select:
    """One slice along a dimension."""

    shards = "selected"

    geometry = "select"

    def backward(grad, self_meta, dim, index):
        return _placed(grad, self_meta, lambda z: z.select(dim, index))

    def samples(S):
        yield (S(3, 4), 1, 2), {}


@view(
    "slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
    names=(),
    overload="Tensor",
    quantizers={"xnnpack": "shared"},
)
class slice_:
    """A range along a dimension."""

    shards = "ranged"

    geometry = "slice"

    def backward(grad, self_meta, dim, start, end, step):
        return _placed(grad, self_meta, lambda z: F.slice(z, dim, start, end, step))

    def samples(S):
        yield (S(5, 4), 0, 1, 4, 2), {}


@view(
    "unsqueeze(Tensor self, int dim) -> Tensor",
    inplace=True,
    quantizers={"fx": "shared", "xnnpack": "shared"},
)
class unsqueeze:
    """A new dimension of size 1.

    Example:
        >>> facula.zeros(2, 3).unsqueeze(1).shape
        facula.Size([2, 1, 3])
    """

    shards = "with_new"

    geometry = "unsqueeze"

    def backward(grad, dim, self_meta):
        return grad.squeeze(dim)

    def samples(S):
        yield (S(3, 4), 1), {}


def _squeeze_node(call: core.NodeCall) -> str:
    dim = call.saved["dim"]
    return f"SqueezeBackward{0 if dim is None else 1 if isinstance(dim, int) else 2}"


@view(
    "squeeze(Tensor self, any dim=None) -> Tensor",
    inplace=True,
    overload="dim:int=dim, dim=dims",
    quantizers={"fx": "shared", "xnnpack": "shared"},
    node=_squeeze_node,
)
class squeeze:
    """Without dimensions of size 1: all, or the given ones."""

    shards = "without_ones"

    geometry = "squeeze"

    def vmap(batch, self, dim):
        x, rank = batch.front(self), self.dim()
        dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        return x.squeeze(tuple(wrap_dim("squeeze", d, rank) + 1 for d in dims)) if rank else x

    def backward(grad, self_shape, dim):  # noqa: ARG001 - `dim` is kept for the node's name
        return grad.reshape(self_shape)

    def samples(S):
        yield (S(3, 1, 4),), {}


@view(
    "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    inplace=True,
)
class as_strided:
    """A view by explicit sizes, strides and offset (in elements of the storage)."""

    geometry = "as_strided"

    def vmap(batch, self, size, stride, storage_offset):
        x = _apart(batch.front(self))
        offset = x.storage_offset() + (storage_offset or 0)
        return x.as_strided((x.shape[0], *size), (x.stride(0), *stride), offset)

    def backward(grad, self_meta, size, stride, storage_offset, result_meta):
        offset = 0 if storage_offset is None else storage_offset - self_meta.storage_offset
        return strided_scatter(grad, self_meta, size, stride, offset)

    def samples(S):
        yield (S(12), (3, 2), (4, 1), 1), {}


def _apart(x: Tensor) -> Tensor:
    """Entries along dimension 0 that share memory, in memory of their own: as one tensor that is
    viewed, all of them would get the mean of their gradients."""
    strides = x.stride()
    if x.shape[0] < 2 or strides[0] or 0 in strides[1:]:
        return x
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape[1:], strides[1:], strict=True) if n > 0)
    return x.new_empty_strided(x.shape, (extent, *strides[1:])).copy_(x)


def _placed(grad: Tensor, meta: core.TensorMeta, part: Callable[..., Any]) -> Tensor:
    """Zeros of the argument's shape with the gradient where the view was."""
    z = grad.new_zeros(meta.shape)
    part(z).copy_(grad)
    return z


def strided_scatter(
    grad: Tensor, meta: Any, shape: Sequence[int], stride: Any, offset: int
) -> Tensor:
    """The adjoint of reading a strided part of memory: overlapping reads add up.

    offset: from the first element of the argument; what lies outside of it gets no gradient.
    """
    before = max(-offset, 0)
    offset += before
    extent = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True) if n > 0)
    own = 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True) if n > 0)
    length = max(extent, own + before)
    index = F.arange(length).as_strided(shape, stride, offset).reshape(-1)
    flat = F.zeros((length,), dtype=grad.dtype, device=grad.device)
    flat = flat.index_add(0, index, grad.reshape(-1))
    if (
        math.prod(meta.shape) > own or 0 in meta.strides
    ):  # elements that share a place share its gradient
        places = F.arange(length).as_strided(meta.shape, meta.strides, before).reshape(-1)
        count = F.zeros((length,), dtype=grad.dtype, device=grad.device)
        flat = flat / count.index_add(0, places, grad.new_ones(places.shape))
    return flat.as_strided(meta.shape, meta.strides, before)


def _strided_gather(
    grad: Tensor, meta: Any, shape: Sequence[int], stride: int | Sequence[int], offset: int
) -> Tensor:
    whole = grad.new_empty_strided(meta.shape, meta.strides)
    return whole.copy_(grad).as_strided(shape, stride, offset).clone()


def _strided_replace(
    grad: Tensor,
    meta: Any,
    shape: Sequence[int],
    stride: int | Sequence[int],
    offset: int,
    part: Tensor | None,
) -> Tensor:
    whole = grad.new_empty_strided(meta.shape, meta.strides)
    whole.copy_(grad)
    hole = whole.as_strided(shape, stride, offset)
    hole.zero_() if part is None else hole.copy_(part)
    return whole


core.AS_STRIDED_SCATTER[0] = strided_scatter
core.AS_STRIDED_GATHER[0] = _strided_gather
core.AS_STRIDED_REPLACE[0] = _strided_replace
core.REAL_AND_COMPLEX[:] = (
    lambda x: F.view_as_real(x.contiguous()),
    lambda x: F.view_as_complex(x.contiguous()),
)


def _index_node(call: core.NodeCall) -> str:
    """What PyTorch's last step of an index is: it takes one after the other, and leaves out whole slices."""
    index = call.saved["index"]
    for item in reversed(index if isinstance(index, (tuple, list)) else (index,)):
        if item is None:
            return "UnsqueezeBackward0"
        if isinstance(item, slice):
            if item != slice(None):
                return "SliceBackward0"
        elif item is not Ellipsis:
            return "SelectBackward0"
    return "AliasBackward0"


@view("basic_index(Tensor self, any index) -> Tensor", names=(), copied=(), node=_index_node)
class basic_index:
    """The view that an index of ints, slices, None and Ellipsis gives."""

    shards = "indexed"

    def geometry(self, index):
        return core.basic_index(self, index)

    def vmap(batch, self, index):
        core.basic_index(self, index)  # raises for an index that no entry takes
        items = index if isinstance(index, tuple) else (index,)
        return F.basic_index(batch.front(self), (slice(None), *items))

    def backward(grad, self_meta, index):
        return _placed(grad, self_meta, lambda z: z[index])


core.INDEXING[0] = F.basic_index


@composite(
    "reshape(Tensor self, int[]... shape) -> Tensor",
    fast="reshape",
    quantizers={"fx": "shared", "xnnpack": "shared"},
)
def reshape(self, shape):
    """The same elements in another shape: a view where one can be had, else a copy."""
    if self.is_contiguous():
        return self.view(shape)
    try:
        return self.view(shape)
    except RuntimeError as error:
        if "needs no copy" not in str(error):
            raise
    return self.contiguous().view(shape)


@composite("view_as(Tensor self, Tensor other) -> Tensor", names=("Tensor.view_as",))
def view_as(self, other):
    """View in the shape of another tensor."""
    return self.view(other.shape)


@composite("reshape_as(Tensor self, Tensor other) -> Tensor", names=("Tensor.reshape_as",))
def reshape_as(self, other):
    """Reshape to the shape of another tensor."""
    return self.reshape(other.shape)


@composite("expand_as(Tensor self, Tensor other) -> Tensor", names=("Tensor.expand_as",))
def expand_as(self, other):
    """Expand to the shape of another tensor."""
    return self.expand(other.shape)


@composite("broadcast_to(Tensor self, int[]... size) -> Tensor", keyword_aliases={"shape": "size"})
def broadcast_to(self, size):
    """Expand to a shape."""
    return self.expand(size)


@composite(
    "flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
    names=("flatten", "Tensor.flatten"),
    overload="using_ints",
    quantizers={"fx": "shared", "xnnpack": "shared", "x86": "shared"},
)
def flatten(self, start_dim, end_dim):
    """Merge the dimensions from `start_dim` to `end_dim` into one."""
    if self.dim() == 0:
        return self.reshape(1)
    start, end = (
        wrap_dim("flatten", start_dim, self.dim()),
        wrap_dim("flatten", end_dim, self.dim()),
    )
    if start > end:
        fail(
            RuntimeError,
            "flatten",
            "flatten() has invalid args: start_dim cannot come after end_dim",
            (start_dim, end_dim),
            hint=f"flatten({end_dim}, {start_dim}) merges the dimensions from one to the other",
        )
    if start == end:
        return self
    shape = list(self.shape)
    merged = 1
    for size in shape[start : end + 1]:
        merged *= size
    return self.reshape([*shape[:start], merged, *shape[end + 1 :]])


@composite("ravel(Tensor self) -> Tensor")
def ravel(self):
    """One dimension; a copy where the elements do not lie in order."""
    return self.contiguous().reshape(-1)


@composite(
    "unflatten(Tensor self, int dim, int[] sizes) -> Tensor",
    names=("unflatten", "Tensor.unflatten"),
    overload="int",
)
def unflatten(self, dim, sizes):
    """Split one dimension into several; one size may be -1."""
    dim = wrap_dim("unflatten", dim, self.dim())
    if not sizes:
        fail(
            RuntimeError,
            "unflatten",
            "unflatten: sizes must be non-empty",
            hint=f"unflatten({dim}, ({self.shape[dim]}, 1)) is a call that fits",
        )
    known = 1
    for size in sizes:
        known *= size
    if (known != self.shape[dim] and -1 not in sizes) or list(sizes).count(-1) > 1:
        fail(
            RuntimeError,
            "unflatten",
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({self.shape[dim]}) in the input tensor",
            hint="one of the sizes, and only one, may be -1: it is worked out from the others",
        )
    shape = list(self.shape)
    return self.reshape([*shape[:dim], *sizes, *shape[dim + 1 :]])


@composite(
    "movedim(Tensor self, int[] source, int[] destination) -> Tensor",
    names=("movedim", "Tensor.movedim", "moveaxis", "Tensor.moveaxis"),
    overload="intlist",
)
def movedim(self, source, destination):
    """Move dimensions to other positions, the others in order."""
    n = self.dim()
    if len(source) != len(destination):
        fail(
            RuntimeError,
            "movedim",
            "movedim: Invalid source or destination dims: as many sources as destinations were required",
            (source, destination),
            hint=f"give {len(source)} destination(s) to move {len(source)} dimension(s)",
        )
    named = (("source", source), ("destination", destination))
    source = [wrap_dim("movedim", d, n) for d in source]
    destination = [wrap_dim("movedim", d, n) for d in destination]
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        name, dims = named[len(set(source)) == len(source)]
        fail(
            RuntimeError,
            "movedim",
            f"movedim: repeated dim in `{name}` ({list(dims)})",
            list(dims),
            hint=f"name each dimension once; in this tensor -1 and {n - 1} are the same",
        )
    if n == 0:
        return self.permute([])
    order: list[int] = [-1] * n
    for s, d in zip(source, destination, strict=True):
        order[d] = s
    rest = iter(d for d in range(n) if d not in source)
    return self.permute([next(rest) if d < 0 else d for d in order])


def _holds(condition: Any) -> bool:
    """Whether a condition holds; one on numbers of which a trace has no example does from now on."""
    return condition is True or (condition is not False and condition.expect())


def _check_range(start: int, length: int, size: int) -> None:
    if length < 0:
        fail(
            RuntimeError,
            "narrow",
            "narrow(): length must be non-negative.",
            length,
            hint="x[start:end] takes an end instead of a length",
        )
    if not (_holds(-size <= start) and _holds(start <= size)):
        fail(
            IndexError,
            "narrow",
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})",
            start,
            hint="a negative start counts from the end of the dimension",
        )


@composite(
    "narrow(Tensor self, int dim, any start, int length) -> Tensor",
    copied=("", "Tensor."),
    quantizers={"fx": "shared"},
)
def narrow(self, dim, start, length):
    """`length` slices from `start` along a dimension."""
    if self.dim() == 0:
        fail(
            RuntimeError,
            "narrow",
            "narrow() cannot be applied to a 0-dim tensor.",
            hint="x.reshape(1) has a dimension",
        )
    d = wrap_dim("narrow", dim, self.dim())
    if isinstance(start, Tensor) and (start.dim() or start.dtype.kind != 1):
        fail(
            RuntimeError,
            "narrow",
            "start must be an 0-dim integral Tensor.",
            f"{start.dim()} dimensions of {start.dtype}",
            hint="give start as a Python int",
        )
    if not hasattr(start, "__index__"):
        required = "an int was required: argument 'start' must be int"
        fail(TypeError, "narrow", required, type(start).__name__, "int(start) drops a fraction")
    start, size = start.__index__(), self.shape[d]
    _check_range(start, length, size)
    start = start + size if start < 0 else start
    if not _holds(start + length <= size):
        fail(
            RuntimeError,
            "narrow",
            f"start ({start}) + length ({length}) exceeds dimension size ({size}).",
            hint=f"from {start} on, length can be at most {size - start}",
        )
    return F.slice(self, d, start, start + length, 1)


@view("unfold(Tensor self, int dimension, int size, int step) -> Tensor", names=("Tensor.unfold",))
class unfold:
    """Windows of `size` every `step` along a dimension, as a new last dimension.

    Example:
        >>> facula.arange(5).unfold(0, 3, 2)
        tensor([[0, 1, 2],
                [2, 3, 4]])
    """

    def geometry(self, dimension, size, step):
        d = wrap_dim("unfold", dimension, self.dim())
        n = self.shape[d] if self.dim() else 1
        if size < 0:
            fail(
                RuntimeError,
                "unfold",
                f"size is {size} but must be >= 0",
                hint=f"use a size from 0 to {n}",
            )
        if size > n:
            fail(
                RuntimeError,
                "unfold",
                f"maximum size for tensor at dimension {d} is {n} but size is {size}",
                hint=f"use a size from 0 to {n}, or pad dimension {d} first",
            )
        if step <= 0:
            fail(
                RuntimeError,
                "unfold",
                f"step is {step} but must be > 0",
                step,
                hint="step=1 gives every window",
            )
        if self.dim() == 0:
            return core.make_view(self, (size,), (1,))
        shape, stride = list(self.shape), list(self.stride())
        window = stride[d]
        shape[d], stride[d] = (n - size) // step + 1, stride[d] * step
        return core.make_view(self, [*shape, size], [*stride, window])

    def backward(grad, self_meta, dimension, size, step):
        index = F.arange(self_meta.numel()).reshape(self_meta.shape).unfold(dimension, size, step)
        flat = F.zeros((self_meta.numel(),), dtype=grad.dtype, device=grad.device)
        return flat.index_add(0, index.reshape(-1), grad.reshape(-1)).reshape(self_meta.shape)

    def samples(S):
        yield (S(7, 2), 0, 3, 2), {}


@view("diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor")
class diagonal:
    """The diagonals of the matrices in two dimensions, as the last dimension."""

    geometry = "diagonal"

    def backward(grad, self_meta, offset, dim1, dim2):
        return _placed(grad, self_meta, lambda z: z.diagonal(offset, dim1, dim2))

    def samples(S):
        yield (S(3, 4), 1), {}
        yield (S(2, 3, 4), -1, 1, 2), {}


@composite(
    "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    names=("linalg.diagonal",),
    out=False,
)
def linalg_diagonal(A, offset, dim1, dim2):
    """`diagonal` with the last two dimensions as default."""
    return A.diagonal(offset, dim1, dim2)


@composite("adjoint(Tensor self) -> Tensor", names=("adjoint", "Tensor.adjoint", "Tensor.mH"))
def adjoint(self):
    """The conjugate transpose of the last two dimensions."""
    if self.dim() == 1:
        fail(
            RuntimeError,
            "adjoint",
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D "
            "tensor.",
            hint="x.conj() conjugates a vector, x[:, None].mH makes a row of it",
        )
    transposed = self.transpose(-2, -1) if self.dim() else self
    return transposed.conj() if self.is_complex() else transposed


@composite("sum_to_size(Tensor self, int[]... size) -> Tensor", names=("Tensor.sum_to_size",))
def sum_to_size(self, size):
    """Sum dimensions until the shape is `size`, to which this one must be a broadcast."""
    if not size:
        return self.sum()  # to one element always by a sum, which widens integers
    shift = self.dim() - len(size)
    if shift < 0 or any(s != 1 and s != n for s, n in zip(size, self.shape[shift:], strict=False)):
        fail(
            RuntimeError,
            "sum_to_size",
            f"size {list(size)} is not expandable to size {list(self.shape)}.",
            hint="compared from the last dimension on, every size is 1 or the tensor's own",
        )
    dims = [
        *range(shift),
        *(i + shift for i, s in enumerate(size) if s == 1 and self.shape[i + shift] != 1),
    ]
    total = self.sum(dims, keepdim=True) if dims else self
    return total.view(size) if shift else total


@composite("resolve_conj(Tensor self) -> Tensor", elementwise=True)
def resolve_conj(self):
    """The tensor: facula conjugates at once."""
    return self


@composite("resolve_neg(Tensor self) -> Tensor", elementwise=True)
def resolve_neg(self):
    """The tensor: facula negates at once."""
    return self


@composite("alias(Tensor self) -> Tensor", names=(), copied=("",))
def alias(self):
    """A view of everything."""
    return (
        self.view(self.shape)
        if self.is_contiguous()
        else self.as_strided(self.shape, self.stride(), self.storage_offset())
    )
