"""Views: operators whose result shares the memory of their argument.

Takes: a tensor and index arithmetic. Gives: shape, strides and offset of the result; the hot geometries stand in the core
and are named here. Keeps true: no element is read or written; gradients are formulas over operators.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.registry import F, composite, operator, view

Tensor = core.Tensor


def wrap(op: str, dim: int, ndim: int) -> int:
    """A dimension in [0, ndim) from one in [-ndim, ndim); a 0-d tensor counts as 1-d."""
    n = max(ndim, 1)
    if not -n <= dim < n:
        fail(
            IndexError,
            op,
            f"a dimension in [{-n}, {n - 1}] was required (Dimension out of range)",
            dim,
        )
    return dim % n


@view("view(Tensor self, any... size) -> Tensor", names=("Tensor.view",))
class view_:
    """The same elements in another shape (one size may be -1), or as another dtype."""

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
    names=(
        "transpose",
        "Tensor.transpose",
        "swapdims",
        "Tensor.swapdims",
    ),
    inplace=True,
)
class transpose:
    """Exchange two dimensions."""

    geometry = "transpose"

    def backward(grad, dim0, dim1):
        return grad.transpose(dim0, dim1)

    def samples(S):
        yield (S(3, 4), 0, 1), {}
        yield (S(2, 3, 4), -1, 0), {}

    def errors(S):
        yield (S(3), 0, 2), {}, IndexError, "a dimension in"


@view("swapaxes(Tensor self, int axis0, int axis1) -> Tensor", inplace=True)
class swapaxes:
    """Exchange two dimensions."""

    geometry = "transpose"

    def backward(grad, axis0, axis1):
        return grad.transpose(axis0, axis1)

    def samples(S):
        yield (S(3, 4), 0, 1), {}
        yield (S(2, 3, 4), -1, 0), {}


@view("t(Tensor self) -> Tensor", inplace=True)
class t:
    """The transpose of a matrix; tensors of fewer dimensions as they are."""

    geometry = "t"

    def vmap(batch, self):
        x = batch.front(self)
        if self.dim() > 2:
            fail(RuntimeError, "t", "t() expects a tensor with <= 2 dimensions", self.dim())
        return x.transpose(1, 2) if self.dim() == 2 else x

    def backward(grad):
        return grad.t()

    def samples(S):
        yield (S(3, 4),), {}


@view("permute(Tensor self, int[]... dims) -> Tensor")
class permute:
    """The dimensions in another order."""

    geometry = "permute"

    def vmap(batch, self, dims):
        rank = self.dim()
        if len(dims) != rank:
            fail(RuntimeError, "permute", f"as many dims as dimensions ({rank})", list(dims))
        return batch.front(self).permute((0, *(wrap("permute", d, rank) + 1 for d in dims)))

    def backward(grad, dims):
        inverse = [0] * len(dims)
        for position, dim in enumerate(dims):
            inverse[dim % len(dims)] = position
        return grad.permute(inverse)

    def samples(S):
        yield (S(2, 3, 4), (2, 0, 1)), {}


@view(
    "expand(Tensor self, int[]... size, *, bool implicit=False) -> Tensor", names=("Tensor.expand",)
)
class expand:
    """Repeat along dimensions of size 1, and new leading ones, without copying."""

    geometry = "expand"

    def vmap(batch, self, size, implicit):
        x = batch.aligned(self, len(size))
        return x.expand((x.shape[0], *size))

    def backward(grad, self_shape):
        return F.sum_to_size(grad, self_shape)

    def samples(S):
        yield (S(3, 1), (2, 3, 4)), {}


@view("select(Tensor self, int dim, int index) -> Tensor")
class select:
    """One slice along a dimension."""

    geometry = "select"

    def backward(grad, self_meta, dim, index):
        return _placed(grad, self_meta, lambda z: z.select(dim, index))

    def samples(S):
        yield (S(3, 4), 1, 2), {}


@view(
    "slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", names=()
)
class slice_:
    """A range along a dimension."""

    geometry = "slice"

    def backward(grad, self_meta, dim, start, end, step):
        return _placed(grad, self_meta, lambda z: F.slice(z, dim, start, end, step))

    def samples(S):
        yield (S(5, 4), 0, 1, 4, 2), {}


@view("unsqueeze(Tensor self, int dim) -> Tensor", inplace=True)
class unsqueeze:
    """A new dimension of size 1."""

    geometry = "unsqueeze"

    def backward(grad, dim, self_meta):
        return grad.squeeze(dim)

    def samples(S):
        yield (S(3, 4), 1), {}


@view("squeeze(Tensor self, any dim=None) -> Tensor", inplace=True)
class squeeze:
    """Without dimensions of size 1: all, or the given ones."""

    geometry = "squeeze"

    def vmap(batch, self, dim):
        x, rank = batch.front(self), self.dim()
        dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        return x.squeeze(tuple(wrap("squeeze", d, rank) + 1 for d in dims)) if rank else x

    def backward(grad, self_shape):
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
        x = batch.front(self)
        offset = x.storage_offset() + (storage_offset or 0)
        return x.as_strided((x.shape[0], *size), (x.stride(0), *stride), offset)

    def backward(grad, self_meta, size, stride, storage_offset, result_meta):
        offset = 0 if storage_offset is None else storage_offset - self_meta.storage_offset
        return strided_scatter(grad, self_meta, size, stride, offset)

    def samples(S):
        yield (S(12), (3, 2), (4, 1), 1), {}


def _placed(grad: Tensor, meta: Any, part: Any) -> Tensor:
    """Zeros of the argument's shape with the gradient where the view was."""
    z = grad.new_zeros(meta.shape)
    part(z).copy_(grad)
    return z


def strided_scatter(grad: Tensor, meta: Any, shape: Any, stride: Any, offset: int) -> Tensor:
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
    return flat.as_strided(meta.shape, meta.strides, before)


def _strided_gather(grad: Tensor, meta: Any, shape: Any, stride: Any, offset: int) -> Tensor:
    whole = grad.new_empty_strided(meta.shape, meta.strides)
    return whole.copy_(grad).as_strided(shape, stride, offset).clone()


def _strided_replace(
    grad: Tensor, meta: Any, shape: Any, stride: Any, offset: int, part: Tensor | None
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


@view("basic_index(Tensor self, any index) -> Tensor", names=(), copied=())
class basic_index:
    """The view that an index of ints, slices, None and Ellipsis gives."""

    def geometry(self, index):
        return core.basic_index(self, index)

    def vmap(batch, self, index):
        core.basic_index(self, index)  # raises for an index that no entry takes
        items = index if isinstance(index, tuple) else (index,)
        return F.basic_index(batch.front(self), (slice(None), *items))

    def backward(grad, self_meta, index):
        return _placed(grad, self_meta, lambda z: z[index])


core.INDEXING[0] = F.basic_index


@composite("reshape(Tensor self, int[]... shape) -> Tensor", fast="reshape")
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


@composite("broadcast_to(Tensor self, int[] size) -> Tensor", keyword_aliases={"shape": "size"})
def broadcast_to(self, size):
    """Expand to a shape."""
    return self.expand(size)


@composite(
    "flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
    names=("flatten", "Tensor.flatten"),
)
def flatten(self, start_dim, end_dim):
    """Merge the dimensions from `start_dim` to `end_dim` into one."""
    if self.dim() == 0:
        return self.reshape(1)
    start, end = wrap("flatten", start_dim, self.dim()), wrap("flatten", end_dim, self.dim())
    if start > end:
        fail(
            RuntimeError,
            "flatten",
            "flatten() has invalid args: start_dim cannot come after end_dim",
            (start_dim, end_dim),
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
    """One dimension."""
    return self.reshape(-1)


@composite(
    "unflatten(Tensor self, int dim, int[] sizes) -> Tensor",
    names=("unflatten", "Tensor.unflatten"),
)
def unflatten(self, dim, sizes):
    """Split one dimension into several; one size may be -1."""
    dim = wrap("unflatten", dim, self.dim())
    if not sizes:
        fail(RuntimeError, "unflatten", "unflatten: sizes must be non-empty")
    known = 1
    for size in sizes:
        known *= size
    if (known != self.shape[dim] and -1 not in sizes) or list(sizes).count(-1) > 1:
        fail(
            RuntimeError,
            "unflatten",
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({self.shape[dim]}) in the input tensor",
        )
    shape = list(self.shape)
    return self.reshape([*shape[:dim], *sizes, *shape[dim + 1 :]])


@composite(
    "movedim(Tensor self, int[] source, int[] destination) -> Tensor",
    names=("movedim", "Tensor.movedim", "moveaxis", "Tensor.moveaxis"),
)
def movedim(self, source, destination):
    """Move dimensions to other positions, the others in order."""
    n = self.dim()
    if len(source) != len(destination):
        fail(
            RuntimeError,
            "movedim",
            "Invalid source or destination dims: as many sources as destinations were required",
            (source, destination),
        )
    source = [wrap("movedim", d, n) for d in source]
    destination = [wrap("movedim", d, n) for d in destination]
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        fail(
            RuntimeError,
            "movedim",
            "movedim: repeated dim in `source` or `destination`",
            (source, destination),
        )
    order: list[int] = [-1] * n
    for s, d in zip(source, destination, strict=True):
        order[d] = s
    rest = iter(d for d in range(n) if d not in source)
    return self.permute([next(rest) if d < 0 else d for d in order])


@composite("narrow(Tensor self, int dim, any start, int length) -> Tensor", copied=("", "Tensor."))
def narrow(self, dim, start, length):
    """`length` slices from `start` along a dimension."""
    if self.dim() == 0:
        fail(RuntimeError, "narrow", "narrow() cannot be applied to a 0-dim tensor.")
    d = wrap("narrow", dim, self.dim())
    if isinstance(start, Tensor) and (start.dim() or start.dtype.kind != 1):
        fail(
            RuntimeError,
            "narrow",
            "start must be an 0-dim integral Tensor.",
            f"{start.dim()} dimensions of {start.dtype}",
        )
    start, size = int(start), self.shape[d]
    if length < 0:
        fail(RuntimeError, "narrow", "narrow(): length must be non-negative.", length)
    if not -size <= start <= size:
        fail(
            IndexError,
            "narrow",
            f"start out of range (expected to be in range of [{-size}, {size}])",
            start,
        )
    start = start + size if start < 0 else start
    if start + length > size:
        fail(
            RuntimeError,
            "narrow",
            f"start ({start}) + length ({length}) exceeds dimension size ({size}).",
        )
    return F.slice(self, d, start, start + length, 1)


@operator("unbind(Tensor self, int dim=0) -> Tensor[]", out=False, copied=("",))
class unbind:
    """All slices along a dimension, as a tuple of views."""

    def meta(self, dim):
        if self.dim() == 0:
            fail(IndexError, "unbind", "Dimension specified as 0 but tensor has no dimensions")
        d = wrap("unbind", dim, self.dim())
        shape = [*self.shape[:d], *self.shape[d + 1 :]]
        stride = self.stride()
        rest = [*stride[:d], *stride[d + 1 :]]
        return tuple(core.make_view(self, shape, rest, i * stride[d]) for i in range(self.shape[d]))

    def cpu(out, self, dim):
        """Nothing: the views are the result."""

    def backward(grads, self_meta, dim):
        shape = [*self_meta.shape]
        del shape[dim]
        filled = [
            g if g is not None else F.zeros(shape, dtype=self_meta.dtype, device=self_meta.device)
            for g in grads
        ]
        return F.stack(filled, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


def _split_points(self: Tensor, sizes: Any, d: int, op: str) -> list[int]:
    if any(s < 0 for s in sizes) or sum(sizes) != self.shape[d]:
        fail(
            RuntimeError,
            op,
            f"split_with_sizes expects split_sizes to sum exactly to {self.shape[d]} (input tensor's size at dimension {d})",
            f"split_sizes={list(sizes)}",
        )
    return list(sizes)


@operator("split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", out=False, copied=("",))
class split_with_sizes:
    """Pieces of given sizes along a dimension, as a tuple of views."""

    def meta(self, split_sizes, dim):
        if self.dim() == 0:
            fail(RuntimeError, "split", "split expects at least a 1-dimensional tensor")
        d = wrap("split", dim, self.dim())
        shape, stride, start, pieces = list(self.shape), self.stride(), 0, []
        for size in _split_points(self, split_sizes, d, "split"):
            shape[d] = size
            pieces.append(core.make_view(self, shape, stride, start * stride[d]))
            start += size
        return tuple(pieces)

    def cpu(out, self, split_sizes, dim):
        """Nothing: the views are the result."""

    def backward(grads, self_meta, split_sizes, dim):
        d = dim % len(self_meta.shape)
        shape, filled = list(self_meta.shape), []
        for g, size in zip(grads, split_sizes, strict=True):
            shape[d] = size
            filled.append(
                g
                if g is not None
                else F.zeros(shape, dtype=self_meta.dtype, device=self_meta.device)
            )
        return F.cat(filled, d)

    def samples(S):
        yield (S(5, 4), (2, 3), 0), {}


def _even(self: Tensor, size: int, d: int) -> list[int]:
    n = self.shape[d]
    if size == 0:
        return [0]
    return [min(size, n - start) for start in range(0, n, size)] or [0]


@composite(
    "split(Tensor self, any split_size, int dim=0) -> Tensor[]",
    names=("split", "Tensor.split"),
    out=False,
    keyword_aliases={"tensor": "self", "split_size_or_sections": "split_size"},
    copied=("",),
)
def split(self, split_size, dim):
    """Pieces of `split_size` (the last may be smaller), or of a list of sizes, along a dimension."""
    if self.dim() == 0:
        fail(RuntimeError, "split", "split expects at least a 1-dimensional tensor")
    d = wrap("split", dim, self.dim())
    if isinstance(split_size, (list, tuple)):
        return F.split_with_sizes(self, split_size, d)
    split_size = int(split_size)
    if split_size < 0 or (split_size == 0 and self.shape[d] != 0):
        fail(
            RuntimeError,
            "split",
            "split expects split_size be non-negative (and positive unless the size is 0)",
            split_size,
        )
    return F.split_with_sizes(self, _even(self, split_size, d), d)


@composite("chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", out=False)
def chunk(self, chunks, dim):
    """At most `chunks` pieces of equal size along a dimension."""
    if self.dim() == 0:
        fail(RuntimeError, "chunk", "chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        fail(RuntimeError, "chunk", "chunk expects `chunks` to be greater than 0", chunks)
    d = wrap("chunk", dim, self.dim())
    size = (self.shape[d] + chunks - 1) // chunks
    if size == 0:
        return F.split_with_sizes(self, [0] * chunks, d)
    return F.split_with_sizes(self, _even(self, size, d), d)


def _check_sections(op: str, value: Any) -> None:
    """Raise for what is neither an int nor a list of ints."""
    if not (hasattr(value, "__index__") or isinstance(value, (list, tuple))):
        fail(
            TypeError,
            op,
            "an int or a list of ints was required (received an invalid combination of arguments)",
            type(value).__name__,
        )


@composite("tensor_split(Tensor self, any indices_or_sections, int dim=0) -> Tensor[]", out=False)
def tensor_split(self, indices_or_sections, dim):
    """Pieces between given indices, or a number of nearly equal pieces."""
    if self.dim() == 0:
        fail(
            RuntimeError,
            "tensor_split",
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        )
    d = wrap("tensor_split", dim, self.dim())
    n = self.shape[d]
    if isinstance(indices_or_sections, Tensor):
        if (
            indices_or_sections.dtype != core.int64
            or indices_or_sections.dim() > 1
            or indices_or_sections.device.type != "cpu"
        ):
            fail(
                RuntimeError,
                "tensor_split",
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional int64 tensor on the cpu",
            )
        indices_or_sections = indices_or_sections.tolist()
    _check_sections("tensor_split", indices_or_sections)
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            fail(
                RuntimeError,
                "tensor_split",
                "number of sections must be larger than 0",
                indices_or_sections,
            )
        base, extra = divmod(n, indices_or_sections)
        return F.split_with_sizes(self, [base + (i < extra) for i in range(indices_or_sections)], d)
    bounds = [0, *indices_or_sections, n]
    return tuple(F.slice(self, d, a, b, 1) for a, b in zip(bounds, bounds[1:], strict=False))


def _axis_split(name: str, self: Tensor, indices_or_sections: Any, least: int, d: int) -> Any:
    if self.dim() < least:
        fail(
            RuntimeError,
            name,
            f"torch.{name} requires a tensor with at least {least} dimension{'s' if least > 1 else ''}, but got a tensor with {self.dim()} dimensions!",
        )
    _check_sections(name, indices_or_sections)
    if isinstance(indices_or_sections, int) and (
        indices_or_sections <= 0 or self.shape[d] % indices_or_sections
    ):
        fail(
            RuntimeError,
            name,
            f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {self.shape[d]} is not divisible by the split_size {indices_or_sections}!",
        )
    return F.tensor_split(self, indices_or_sections, d)


@composite("hsplit(Tensor self, any indices_or_sections) -> Tensor[]", out=False)
def hsplit(self, indices_or_sections):
    """Split along columns (the only dimension of a 1-d tensor)."""
    return _axis_split("hsplit", self, indices_or_sections, 1, 0 if self.dim() == 1 else 1)


@composite("vsplit(Tensor self, any indices_or_sections) -> Tensor[]", out=False)
def vsplit(self, indices_or_sections):
    """Split along rows."""
    return _axis_split("vsplit", self, indices_or_sections, 2, 0)


@composite("dsplit(Tensor self, any indices_or_sections) -> Tensor[]", out=False)
def dsplit(self, indices_or_sections):
    """Split along the third dimension."""
    return _axis_split("dsplit", self, indices_or_sections, 3, 2)


@view("unfold(Tensor self, int dimension, int size, int step) -> Tensor", names=("Tensor.unfold",))
class unfold:
    """Windows of `size` every `step` along a dimension, as a new last dimension."""

    def geometry(self, dimension, size, step):
        d = wrap("unfold", dimension, self.dim())
        n = self.shape[d] if self.dim() else 1
        if size < 0 or size > n:
            fail(
                RuntimeError,
                "unfold",
                f"maximum size for tensor at dimension {d} is {n} but size is {size}",
            )
        if step <= 0:
            fail(RuntimeError, "unfold", "step is required to be positive", step)
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

    def geometry(self, offset, dim1, dim2):
        a, b = wrap("diagonal", dim1, self.dim()), wrap("diagonal", dim2, self.dim())
        if a == b:
            fail(
                RuntimeError, "diagonal", f"diagonal dimensions cannot be identical {dim1}, {dim2}"
            )
        shape, stride = list(self.shape), list(self.stride())
        n = max(
            min(shape[a], shape[b] - offset) if offset >= 0 else min(shape[a] + offset, shape[b]), 0
        )
        start = (offset * stride[b] if offset >= 0 else -offset * stride[a]) if n else 0
        rest = [d for d in range(self.dim()) if d not in (a, b)]
        return core.make_view(
            self,
            [*(shape[d] for d in rest), n],
            [*(stride[d] for d in rest), stride[a] + stride[b]],
            start,
        )

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


@view("view_as_dtype(Tensor self, dtype dtype) -> Tensor", names=(), copied=())
class view_as_dtype:
    """The same bytes as elements of another dtype; the last dimension grows or shrinks with the element size."""

    def geometry(self, dtype):
        old, new = self.dtype.itemsize, dtype.itemsize
        shape, stride = list(self.shape), list(self.stride())
        if old == new:
            return core.view_dtype(self, dtype, shape, stride)
        if not shape:
            fail(
                RuntimeError,
                "view",
                "self.dim() cannot be 0 to view a tensor as another dtype of different element size",
            )
        if stride[-1] != 1:
            fail(
                RuntimeError,
                "view",
                "self.stride(-1) must be 1 to view a tensor as another dtype of different element size",
                stride[-1],
            )
        if old > new:
            factor = old // new
            stride = [s * factor for s in stride[:-1]] + [1]
            shape[-1] *= factor
            return core.view_dtype(self, dtype, shape, stride)
        factor = new // old
        if (
            shape[-1] % factor
            or self.storage_offset() % factor
            or any(s % factor for s in stride[:-1])
        ):
            fail(
                RuntimeError,
                "view",
                f"self.size(-1), the storage offset and the strides must be divisible by {factor} to view as {dtype} (different element sizes)",
                (shape, stride),
            )
        stride = [s // factor for s in stride[:-1]] + [1]
        shape[-1] //= factor
        return core.view_dtype(self, dtype, shape, stride)

    def backward(grad, self_meta):
        fail(
            RuntimeError,
            "view",
            "a differentiable view was required: view as another dtype has no gradient",
        )


core.VIEW_AS_DTYPE[0] = F.view_as_dtype


@view("view_as_real(Tensor self) -> Tensor", names=("view_as_real",))
class view_as_real:
    """A complex tensor as real and imaginary parts in a new last dimension of size 2."""

    def geometry(self):
        if not self.is_complex():
            fail(
                RuntimeError,
                "view_as_real",
                "view_as_real is only supported for complex tensors",
                self.dtype,
            )
        return core.view_dtype(
            self, self.dtype.to_real(), [*self.shape, 2], [*(2 * s for s in self.stride()), 1]
        )

    def backward(grad):
        return F.view_as_complex(grad.contiguous())

    def samples(S):
        yield (S.complex(3, 4),), {}


@view("view_as_complex(Tensor self) -> Tensor", names=("view_as_complex",), autocast="cpu float32")
class view_as_complex:
    """Pairs in the last dimension as complex numbers."""

    def geometry(self):
        if not self.is_floating_point() or self.dtype.name not in ("float32", "float64", "float16"):
            fail(
                RuntimeError,
                "view_as_complex",
                "view_as_complex is only supported for floating point tensors",
                self.dtype,
            )
        if self.dim() == 0 or self.shape[-1] != 2:
            fail(
                RuntimeError,
                "view_as_complex",
                "Tensor must have a last dimension of size 2",
                list(self.shape),
            )
        stride = self.stride()
        if stride[-1] != 1:
            fail(
                RuntimeError,
                "view_as_complex",
                "Tensor must have a last dimension with stride 1",
                stride,
            )
        if any(s % 2 for s in stride[:-1]) or self.storage_offset() % 2:
            fail(
                RuntimeError,
                "view_as_complex",
                "Tensor must have a stride divisible by 2 for all but last dimension (and storage_offset divisible by 2)",
                stride,
            )
        return core.view_dtype(
            self, self.dtype.to_complex(), self.shape[:-1], [s // 2 for s in stride[:-1]]
        )

    def backward(grad):
        return F.view_as_real(grad.resolve_conj())

    def samples(S):
        yield (S(3, 2),), {}


@view("real(Tensor self) -> Tensor", names=("real", "Tensor.real"), copied=())
class real:
    """The real part, a view; a real tensor as it is."""

    def geometry(self):
        if not self.is_complex():
            return core.make_view(self, self.shape, self.stride())
        return core.view_dtype(
            self, self.dtype.to_real(), self.shape, [2 * s for s in self.stride()]
        )

    def backward(grad, self_meta):
        return F.complex(grad, F.zeros_like(grad)) if self_meta.dtype.is_complex else grad

    def samples(S):
        yield (S.complex(3),), {}


@view("imag(Tensor self) -> Tensor", names=("imag", "Tensor.imag"), copied=())
class imag:
    """The imaginary part, a view."""

    def geometry(self):
        if not self.is_complex():
            fail(
                RuntimeError,
                "imag",
                "imag is not implemented for tensors with non-complex dtypes.",
                self.dtype,
            )
        part = self.dtype.to_real()
        return core.view_dtype(
            self, part, self.shape, [2 * s for s in self.stride()], part.itemsize
        )

    def backward(grad):
        return F.complex(F.zeros_like(grad), grad)

    def samples(S):
        yield (S.complex(3),), {}


core.REAL_PART[0] = F.real


@composite("adjoint(Tensor self) -> Tensor", names=("adjoint", "Tensor.adjoint", "Tensor.mH"))
def adjoint(self):
    """The conjugate transpose of the last two dimensions."""
    if self.dim() == 1:
        fail(
            RuntimeError,
            "adjoint",
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.",
        )
    transposed = self.transpose(-2, -1) if self.dim() else self
    return transposed.conj() if self.is_complex() else transposed


@composite("sum_to_size(Tensor self, int[]... size) -> Tensor", names=("Tensor.sum_to_size",))
def sum_to_size(self, size):
    """Sum dimensions until the shape is `size`, to which this one must be a broadcast."""
    if not size and not self.is_floating_point():
        return self.sum()  # to one element always by a sum, which widens integers
    shift = self.dim() - len(size)
    if shift < 0 or any(s != 1 and s != n for s, n in zip(size, self.shape[shift:], strict=False)):
        fail(
            RuntimeError,
            "sum_to_size",
            f"size {list(size)} is not expandable to size {list(self.shape)}.",
        )
    dims = [
        *range(shift),
        *(i + shift for i, s in enumerate(size) if s == 1 and self.shape[i + shift] != 1),
    ]
    total = self.sum(dims, keepdim=True) if dims else self
    return total.view(size) if shift else total


@composite("resolve_conj(Tensor self) -> Tensor")
def resolve_conj(self):
    """The tensor: facula conjugates at once."""
    return self


@composite("resolve_neg(Tensor self) -> Tensor")
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
