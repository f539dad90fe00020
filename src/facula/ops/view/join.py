"""Operators that join tensors: cat and stack, their relatives, block_diag, meshgrid and products of
sets.

Takes lists of tensors; gives one tensor of their common dtype, contiguous, or channels last where
all that `cat` joins are. Keeps true: inputs are copied straight into their place; the gradient of an
input is its slice of the result's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail, told
from facula.ops.index import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order
from facula.ops.view.create import common_dtype
from facula.ops.view.memory_order import channels_last

#: how many inputs one launch takes
GROUP = 56


def _fill_joined(out: core.Tensor, tensors: list[Any], outer: int, row: int) -> None:
    """Copy contiguous parts (in the result's dtype) next to each other in each of `outer` rows of
    `row` bytes.
    """
    place, item = 0, out.dtype.itemsize
    for first in range(0, len(tensors), GROUP):
        group = tensors[first : first + GROUP]
        sizes = [x.numel() * item // outer for x in group]
        core.kernel("cat")((out, *group), (len(group), outer, row, place, *sizes), ())
        place += sum(sizes)


def _ready(tensor: core.Tensor, dtype: core.dtype) -> Any:
    if tensor.dtype is dtype and tensor.is_contiguous():
        return tensor
    return tensor.to(dtype).contiguous()


def _like_input(grad: core.Tensor, meta: core.TensorMeta) -> Any:
    """A slice of the gradient in the dtype of its input."""
    if grad.dtype is meta.dtype:
        return grad
    if grad.dtype.is_complex and not meta.dtype.is_complex:
        grad = F.real(grad)
    return grad.to(meta.dtype)


def _skipped(shape: Sequence[int]) -> bool:
    """An empty vector joins anything; the rule is as old as NumPy's concatenate."""
    return len(shape) == 1 and shape[0] == 0


@operator(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    apart=True,
    names=("cat", "concat", "concatenate"),
    out_cast=True,
    keyword_aliases={"axis": "dim"},
    autocast="widest",
    quantizers={"fx": "shared", "xnnpack": "joined"},
)
class cat:
    """The tensors one after the other along `dim`; all other sizes are equal, dtypes are
    promoted.
    """

    rearranges = True

    shards = "joined"

    vmap = batch_forms.cat
    jvp = "linear"

    def meta(tensors, dim):
        if not tensors:
            fail(
                ValueError,
                "cat",
                "expected a non-empty list of Tensors",
                "an empty one",
                hint="give at least one tensor; facula.empty(0) adds nothing",
            )
        shapes = [tuple(t.shape) for t in tensors]
        if len({len(shape) for shape in shapes}) > 1 or not shapes[0]:
            shapes = _joinable(tensors)
        first = shapes[0] if shapes else (0,)
        dim = wrap_dim("cat", dim, len(first))
        rest, size = first[:dim] + first[dim + 1 :], 0
        for shape in shapes:
            size += shape[dim] if dim < len(shape) else 0
            if shape[:dim] + shape[dim + 1 :] != rest:
                shapes = _joinable(tensors)
                _check_fits(shapes, dim)
                size = sum(s[dim] for s in shapes)
                first = shapes[0] if shapes else first
                break
        device = tensors[0].device
        for tensor in tensors:
            if tensor.device != device:
                fail(
                    RuntimeError,
                    "cat",
                    "Expected all tensors to be on the same device",
                    f"{device} and {tensor.device}",
                    hint=f"move it with .to('{device}')",
                )
        shape = (*first[:dim], size, *first[dim + 1 :])
        last = channels_last(tensors[0]) and all(map(channels_last, tensors))
        return memory_order.empty(shape, tensors[0], last, _dtype_of(tensors))

    def cpu(out, tensors, dim):
        if out.numel() == 0:
            return
        dim = wrap_dim("cat", dim, out.dim())
        parts = [t for t in tensors if t.numel()]
        if not out.is_contiguous():
            dim = memory_order.row_dimension(dim, out.dim())
            out, parts = memory_order.rows(out), [memory_order.rows(t) for t in parts]
        parts = [_ready(t, out.dtype) for t in parts]
        outer = launch.product(tuple(out.shape)[:dim])
        _fill_joined(out, parts, outer, out.numel() // outer * out.dtype.itemsize)

    def backward(grad, tensors_meta, dim, needs):
        dim = wrap_dim("cat", dim, grad.dim())
        start, grads = 0, []
        for meta, wanted in zip(tensors_meta, needs, strict=True):
            if _skipped(meta.shape):
                grads.append(
                    F.zeros(meta.shape, dtype=meta.dtype, device=grad.device) if wanted else None
                )
                continue
            size = meta.shape[dim]
            grads.append(_like_input(grad.narrow(dim, start, size), meta) if wanted else None)
            start += size
        return (grads,)

    def samples(S):
        yield ([S(2, 3), S(4, 3), S(1, 3)],), {}
        yield ([S(2, 3, 2), S(2, 1, 2)], -2), {}

    def errors(S):
        yield (
            ([S(2, 3), S(2, 2)],),
            {},
            RuntimeError,
            "Sizes of tensors must match except in dimension 0",
        )


def _joinable(tensors: tuple[Any, ...]) -> list[Any]:
    """The shapes of all but empty vectors; none may be 0-d."""
    for position, tensor in enumerate(tensors):
        if tensor.dim() == 0:
            fail(
                RuntimeError,
                "cat",
                f"zero-dimensional tensor (at position {position}) cannot be concatenated",
                None,
                "stack joins 0-d tensors",
            )
    return [t.shape for t in tensors if not _skipped(t.shape)]


def _check_fits(shapes: list[Any], dim: int) -> None:
    """Raise unless all shapes agree apart from `dim`."""
    for position, shape in enumerate(shapes):
        if len(shape) != len(shapes[0]):
            fail(
                RuntimeError,
                "cat",
                "Tensors must have same number of dimensions",
                f"{len(shapes[0])} and {len(shape)}",
                hint="unsqueeze() adds a dimension; stack() joins along a new one",
            )
        for d, size in enumerate(shape):
            if d != dim and size != shapes[0][d]:
                fail(
                    RuntimeError,
                    "cat",
                    f"Sizes of tensors must match except in dimension {dim}. Expected size "
                    f"{shapes[0][d]} but got size {size} for tensor number {position} in the list",
                    hint=f"cut or pad dimension {d} of tensor number {position} to {shapes[0][d]}",
                )


def _dtype_of(tensors: tuple[Any, ...]) -> Any:
    """The common dtype; all the same is the usual case."""
    dtype = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype is not dtype:
            return common_dtype(tensors)
    return dtype


@operator(
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    names=("stack",),
    out_cast=True,
    autocast="widest",
    quantizers={"fx": "shared"},
)
class stack:
    """The tensors, all of one shape, along a new dimension `dim`.

    Example:
        >>> facula.stack([facula.tensor([1, 2]), facula.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """

    rearranges = True

    shards = "stacked"

    vmap = batch_forms.stack
    jvp = "linear"

    def meta(tensors, dim):
        if not tensors:
            fail(
                RuntimeError,
                "stack",
                "stack expects a non-empty TensorList",
                "an empty one",
                hint="give at least one tensor",
            )
        first = tensors[0]
        for position, tensor in enumerate(tensors):
            if tuple(tensor.shape) != tuple(first.shape):
                fail(
                    RuntimeError,
                    "stack",
                    "stack expects each tensor to be equal size",
                    f"{list(first.shape)} at entry 0 and {list(tensor.shape)} at entry {position}",
                    hint="pad() or expand() makes sizes equal; cat() takes different sizes in its "
                    "dimension",
                )
        shape = list(first.shape)
        shape.insert(wrap_dim("stack", dim, first.dim() + 1), len(tensors))
        return core.empty(shape, dtype=_dtype_of(tensors), device=first.device)

    def cpu(out, tensors, dim):
        if out.numel() == 0:
            return
        dim = wrap_dim("stack", dim, out.dim())
        outer = launch.product(out.shape[:dim])
        parts = [_ready(t, out.dtype) for t in tensors]
        _fill_joined(out, parts, outer, out.numel() // outer * out.dtype.itemsize)

    def backward(grad, tensors_meta, dim, needs):
        dim = wrap_dim("stack", dim, grad.dim())
        return (
            [
                _like_input(grad.select(dim, k), meta) if wanted else None
                for k, (meta, wanted) in enumerate(zip(tensors_meta, needs, strict=True))
            ],
        )

    def samples(S):
        yield ([S(2, 3), S(2, 3)],), {}
        yield ([S(2, 3), S(2, 3), S(2, 3)], -1), {}

    def errors(S):
        yield ([S(2), S(3)],), {}, RuntimeError, "stack expects each tensor to be equal size"


def _nonempty(op: str, tensors: tuple[Any, ...]) -> None:
    if not tensors:
        fail(
            RuntimeError,
            op,
            f"{op} expects a non-empty TensorList",
            "an empty one",
            hint="give at least one tensor",
        )


@composite("hstack(Tensor[] tensors) -> Tensor", names=("hstack",), out_cast=True)
def hstack(tensors: tuple[Any, ...]) -> Any:
    """Join along columns: dimension 1, or 0 for vectors."""
    _nonempty("hstack", tensors)
    tensors = F.atleast_1d(tensors)
    return F.cat(tensors, 0 if tensors[0].dim() == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", names=("vstack", "row_stack"), out_cast=True)
def vstack(tensors: tuple[Any, ...]) -> Any:
    """Join along rows; vectors count as one row."""
    _nonempty("vstack", tensors)
    return F.cat(F.atleast_2d(tensors), 0)


@composite("dstack(Tensor[] tensors) -> Tensor", names=("dstack",), out_cast=True)
def dstack(tensors: tuple[Any, ...]) -> Any:
    """Join along the third dimension."""
    _nonempty("dstack", tensors)
    return F.cat(F.atleast_3d(tensors), 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", names=("column_stack",), out_cast=True)
def column_stack(tensors: tuple[Any, ...]) -> Any:
    """Join along columns; vectors and numbers count as one column."""
    _nonempty("column_stack", tensors)
    return F.hstack([t.reshape((t.numel(), 1)) if t.dim() <= 1 else t for t in tensors])


@composite(
    "block_diag(Tensor[]... tensors=()) -> Tensor",
    names=("block_diag",),
    home="functional.block_diag",
    out=False,
    node="BlockDiagBackward0",
)
def block_diag(tensors: tuple[Any, ...]) -> Any:
    """A matrix with the given matrices (vectors are rows, numbers 1 by 1) along its diagonal, zero
    elsewhere.
    """
    if not tensors:
        return core.empty((1, 0))
    blocks = []
    for position, tensor in enumerate(tensors):
        if tensor.dim() > 2:
            fail(
                RuntimeError,
                "block_diag",
                "Input tensors must have 2 or fewer dimensions",
                f"{tensor.dim()} dimensions at position {position}",
                hint="x.flatten(0, -2) makes a matrix of it",
            )
        blocks.append(F.atleast_2d((tensor,))[0])
    width, left, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        rows.append(F.constant_pad_nd(block, [left, width - left - block.shape[1]]))
        left += block.shape[1]
    return F.cat(rows, 0)


def _check_grids(tensors: tuple[Any, ...], indexing: str | None) -> None:
    if not tensors:
        fail(
            RuntimeError,
            "meshgrid",
            "meshgrid expects a non-empty TensorList",
            "an empty one",
            hint="give at least one tensor",
        )
    if indexing not in (None, "ij", "xy"):
        fail(
            RuntimeError,
            "meshgrid",
            'indexing must be one of "xy" or "ij"',
            indexing,
            hint="'ij' gives matrices with a row for each element of the first tensor, 'xy' with a "
            "column",
        )
    for given in tensors:
        if given.dim() > 1:
            fail(
                RuntimeError,
                "meshgrid",
                "Expected 0D or 1D tensor in the tensor list",
                f"{given.dim()} dimensions",
                hint="x.reshape(-1) is 1D",
            )
        if given.dtype is not tensors[0].dtype:
            fail(
                RuntimeError,
                "meshgrid",
                "meshgrid expects all tensors to have the same dtype",
                given.dtype,
                hint=f"convert it with .to({tensors[0].dtype})",
            )


@composite(
    "meshgrid(Tensor[]... tensors, *, str? indexing=None) -> Tensor[]",
    overload="indexing=indexing",
    names=("meshgrid",),
    home="functional.meshgrid",
    out=False,
)
def meshgrid(tensors: tuple[Any, ...], indexing: str | None) -> Any:
    """Coordinate grids of vectors: matrix order ("ij", the default) or first two dimensions swapped
    ("xy").
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    _check_grids(tensors, indexing)
    if indexing is None:
        told(
            "meshgrid",
            "facula.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            "indexing='ij' is what is done now",
        )
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = [t.numel() for t in tensors]
    grids = []
    for d, tensor in enumerate(tensors):
        grids.append(tensor.reshape([-1 if k == d else 1 for k in range(len(shape))]).expand(shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@composite(
    "cartesian_prod(Tensor[]... tensors) -> Tensor",
    names=("cartesian_prod",),
    out=False,
    home="functional.cartesian_prod",
)
def cartesian_prod(tensors: tuple[Any, ...]) -> Any:
    """All tuples with one element of each vector, as rows."""
    if not tensors:
        fail(
            RuntimeError,
            "cartesian_prod",
            "a non-empty list of vectors was required",
            "an empty one",
            hint="give at least one vector",
        )
    for tensor in tensors:
        if tensor.dim() != 1:
            fail(
                RuntimeError,
                "cartesian_prod",
                "Expect a 1D vector",
                f"shape {list(tensor.shape)}",
                hint="x.reshape(-1) is 1D",
            )
    if len(tensors) == 1:
        return tensors[0]
    return F.stack([g.reshape(-1) for g in F.meshgrid(list(tensors), indexing="ij")], 1)


@composite(
    "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
    names=("combinations",),
    out=False,
)
def combinations(self, r, with_replacement):
    """All `r`-element subsets of a vector in lexicographic order of position, as rows."""
    if self.dim() != 1:
        fail(
            RuntimeError,
            "combinations",
            "Expect a 1D vector",
            f"shape {list(self.shape)}",
            hint="x.reshape(-1) is 1D",
        )
    if r < 0:
        fail(
            RuntimeError, "combinations", "Expect a non-negative number", r, hint="r=2 gives pairs"
        )
    if r == 0:
        return self.narrow(0, 0, 0)
    places = _chosen_places(self.numel(), r, with_replacement, self.device)
    return F.index_select(self, 0, places.reshape(-1)).reshape(places.shape)


def _chosen_places(count: int, r: int, with_replacement: bool, device: core.device | None) -> Any:
    """The positions of all choices as rows, in lexicographic order: every row is followed by each
    position that may come next.
    """
    rows = math.comb(count + r - 1 if with_replacement else count, r) if count else 0
    made = core.empty((rows, r), dtype=core.int64, device=device)  # says when there is no memory
    if made.is_meta or not rows:
        return made
    last, columns = F.arange(count, device=device), [F.arange(count, device=device)]
    for known in range(1, r):
        after = (count - last) if with_replacement else (count - 1 - last)
        total = math.comb(count + known if with_replacement else count, known + 1)
        columns = [F.repeat_interleave(column, after, output_size=total) for column in columns]
        ends = F.cumsum(after, 0)
        first = F.repeat_interleave(ends - after, after, output_size=total)
        step = F.arange(total, device=device) - first
        last = columns[-1] + step + (0 if with_replacement else 1)
        columns.append(last)
    return F.stack(columns, 1, out=made)
