"""Shapes of sparse tensors: transposes, parts, joins, and tensors like a sparse one.

Takes: sparse tensors and dimensions. Gives: sparse tensors with places moved, dropped or joined.
Keeps true: values are only selected or joined, so that gradients follow; compressed layouts go by
way of COO where their structure changes.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.reduce.launch import wrap_dim
from facula.ops.sparse_layouts.arithmetic import like_first
from facula.ops.sparse_layouts.convert import coalesced, to_coo
from facula.ops.sparse_layouts.rules import rule, unsupported
from facula.ops.sparse_layouts.tensor import (
    BLOCKED,
    BSC,
    BSR,
    BY_ROWS,
    COO,
    CSC,
    CSR,
    SparseTensor,
    compose,
    layout_word,
    nothing,
    shell,
    values_of,
)
from facula.ops.table.registry import TABLE, F, composite

_TURNED = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}


# ------------------------------------------------------------------ transposes


@rule("transpose")
def transpose(self: SparseTensor, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    rank = self.dim()
    a, b = wrap_dim("transpose", dim0, rank), wrap_dim("transpose", dim1, rank)
    if a == b:
        return self
    order = list(range(rank))
    order[a], order[b] = b, a
    if self._form is not COO:
        return _turned(self, {a, b})
    if (a < self.sparse_dim()) != (b < self.sparse_dim()):
        fail(
            RuntimeError,
            "transpose",
            "transpose of dimensions that are both sparse or both dense was required",
            f"dim0={a}, dim1={b}",
            hint="use to_dense() first",
        )
    return _permuted(self, order)


def _turned(sparse: SparseTensor, dims: set[int]) -> Any:
    """The matrices of a compressed layout the other way: the same parts in the layout's twin."""
    batch = sparse._places[0].dim() - 1
    if dims != {batch, batch + 1}:
        fail(
            RuntimeError,
            "transpose",
            "the two dimensions of the matrices were required for compressed layouts",
            sorted(dims),
            hint="use to_dense() first",
        )
    values = values_of(sparse)
    if sparse._form in BLOCKED:
        values = values.transpose(batch + 1, batch + 2)
    size = list(sparse.shape)
    size[batch], size[batch + 1] = size[batch + 1], size[batch]
    return compose(sparse._places, values, size, _TURNED[sparse._form], True)


def _permuted(sparse: SparseTensor, order: list[int]) -> Any:
    count, index, values = sparse.sparse_dim(), sparse._places[0], values_of(sparse)
    rows = order[:count]
    inner = [0, *(d - count + 1 for d in order[count:])]
    size = [sparse.shape[d] for d in order]
    kept = rows == list(range(count))
    moved = index if kept else F.stack([index[d] for d in rows])
    turned = values if inner == sorted(inner) else values.permute(inner)
    return compose((moved,), turned, size, COO, sparse._unique and kept)


@rule("t")
def t(self: Any) -> Any:
    """The transpose of a matrix."""
    if self.dim() > 2:
        fail(
            RuntimeError,
            "t",
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions",
            self.dim(),
            hint="transpose(-2, -1) exchanges the last two dimensions",
        )
    return self if self.dim() < 2 else transpose(self, 0, 1)


@rule("permute")
def permute(self: Any, dims: Any) -> Any:
    """The dimensions in another order; sparse and dense ones stay apart."""
    order = [wrap_dim("permute", d, self.dim()) for d in dims]
    if sorted(order) != list(range(self.dim())):
        fail(
            RuntimeError,
            "permute",
            f"a permutation of {self.dim()} dimensions",
            list(dims),
            hint=f"for example {tuple(range(self.dim()))[::-1]}",
        )
    if self._form is not COO:
        moved = {d for d, k in enumerate(order) if d != k}
        return self if not moved else _turned(self, moved)
    count = self.sparse_dim()
    if any(d >= count for d in order[:count]):
        fail(
            RuntimeError,
            "permute",
            "sparse and dense dimensions that stay apart",
            list(dims),
            hint="use to_dense() first",
        )
    return _permuted(self, order)


# ------------------------------------------------------------------ parts


@rule("select")
def select(self: SparseTensor, dim: int, index: int) -> Any:
    """One entry of a dimension, which is dropped."""
    dim = wrap_dim("select", dim, self.dim())
    size = self.shape[dim]
    if not -size <= index < size:
        fail(
            IndexError,
            "select",
            f"an index in range for dimension {dim} with size {size}",
            index,
            hint="a negative index counts from the end",
        )
    index %= size
    coo = to_coo(self)
    count = coo.sparse_dim()
    places, values = coo._places[0], values_of(coo)
    rest = [n for d, n in enumerate(coo.shape) if d != dim]
    if dim >= count:
        return compose((places,), values.select(dim - count + 1, index), rest, COO, coo._unique)
    kept = (places[dim] == index).nonzero().reshape(-1)
    picked = values.index_select(0, kept)
    if count == 1:
        return picked.any(0) if picked.dtype is core.bool else picked.sum(0, dtype=picked.dtype)
    rows = [d for d in range(count) if d != dim]
    left = F.stack([places[d] for d in rows]).index_select(1, kept)
    return compose((left,), picked, rest, COO, coo._unique)


@rule("slice")
def slice_(self: SparseTensor, dim: int, start: object, end: object, step: int) -> Any:
    """A range of a dimension."""
    dim = wrap_dim("slice", dim, self.dim())
    first, last, step = slice(start, end, step).indices(self.shape[dim])
    length = max(0, -(-(last - first) // step))
    coo = to_coo(self)
    count, size = coo.sparse_dim(), list(coo.shape)
    if length == size[dim]:
        return self
    size[dim] = length
    places, values = coo._places[0], values_of(coo)
    if dim >= count:
        cut = F.slice(values, dim - count + 1, first, last, step)
        return like_first(self, compose((places,), cut, size, COO, coo._unique))
    row = places[dim]
    inside = (row >= first) & (row < last) & ((row - first) % step == 0)
    kept = inside.nonzero().reshape(-1)
    moved = (places[dim] - first).div(step, rounding_mode="floor")
    rows = [moved if d == dim else places[d] for d in range(count)]
    left = F.stack(rows).index_select(1, kept)
    made = compose((left,), values.index_select(0, kept), size, COO, coo._unique)
    return like_first(self, made)


@rule("narrow", "narrow_copy")
def narrow(self: SparseTensor, dim: int, start: Any, length: int) -> Any:
    """`length` entries of a dimension from `start` on."""
    size = self.shape[wrap_dim("narrow", dim, self.dim())]
    begin = int(start) + size if int(start) < 0 else int(start)
    if begin < 0 or length < 0 or begin + length > size:
        fail(
            RuntimeError,
            "narrow",
            f"start ({start}) + length ({length}) exceeds dimension size ({size})",
            hint=f"dimension {dim} has {size} element(s), the first at 0",
        )
    return slice_(self, dim, begin, begin + length, 1)


@rule("index_select")
def index_select(self: SparseTensor, dim: int, index: core.Tensor) -> Any:
    """Entries of a dimension by their numbers; negative ones count from the end."""
    dim = wrap_dim("index_select", dim, self.dim())
    size = list(self.shape)
    index = F.where(index < 0, index + size[dim], index)
    if index.numel() and not bool(((index >= 0) & (index < size[dim])).all()):
        fail(
            IndexError,
            "index_select",
            f"indices in [-{size[dim]}, {size[dim]}) were required",
            "others",
            hint="indices count from 0, negative ones from the end",
        )
    coo = coalesced(to_coo(self))
    count = coo.sparse_dim()
    places, values = coo._places[0], values_of(coo)
    size[dim] = index.numel()
    if dim >= count:
        picked = values.index_select(dim - count + 1, index)
        return like_first(self, compose((places,), picked, size, COO, True))
    order = F.argsort(places[dim], stable=True)
    line = places[dim].index_select(0, order)
    wanted = index.reshape(-1).to(core.int64)
    first = F.searchsorted(line, wanted)
    lengths = F.searchsorted(line, wanted, right=True) - first
    total = int(lengths.sum()) if lengths.numel() else 0
    which = F.repeat_interleave(F.arange(wanted.shape[0]), lengths, output_size=total)
    before = lengths.cumsum(0) - lengths
    position = F.arange(total) + (first - before).index_select(0, which)
    entry = order.index_select(0, position)
    rows = [which if d == dim else places[d].index_select(0, entry) for d in range(count)]
    made = compose((F.stack(rows),), values.index_select(0, entry), size, COO, False)
    return like_first(self, made)


@rule("unbind")
def unbind(self: Any, dim: int) -> Any:
    """All entries of a dimension."""
    return tuple(
        select(self, dim, i) for i in range(self.shape[wrap_dim("unbind", dim, self.dim())])
    )


@rule("unsqueeze")
def unsqueeze(self: SparseTensor, dim: int) -> Any:
    """A new dimension of size 1."""
    dim = wrap_dim("unsqueeze", dim, self.dim() + 1)
    coo = to_coo(self)
    count, index, values = coo.sparse_dim(), coo._places[0], values_of(coo)
    size = [*coo.shape[:dim], 1, *coo.shape[dim:]]
    if dim > count:
        return compose((index,), values.unsqueeze(dim - count + 1), size, COO, coo._unique)
    rows = [*index.unbind(0)]
    rows.insert(dim, index.new_zeros((index.shape[1],)))
    return compose((F.stack(rows),), values, size, COO, coo._unique)


@rule("squeeze")
def squeeze(self: Any, dim: Any) -> Any:
    """Dimensions of size 1 dropped."""
    rank = self.dim()
    wanted = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = sorted({wrap_dim("squeeze", d, rank) for d in wanted}, reverse=True)
    for d in dims:
        if self.shape[d] == 1 and isinstance(self, SparseTensor):
            self = select(self, d, 0)
    return self


@rule("real")
def real(self: Any) -> Any:
    """The real part."""
    return (
        compose(self._places, F.real(values_of(self)), self.shape, self._form, self._unique)
        if (self.is_complex())
        else self
    )


@rule("reshape", "flatten", "expand")
def reshape(self: Any, *_: object) -> Any:
    """Raises: the places of sparse tensors are not laid out."""
    fail(
        RuntimeError,
        "reshape",
        "reshape is not implemented for sparse tensors",
        self.layout if isinstance(self, SparseTensor) else "",
        "use to_dense() first",
    )


# ------------------------------------------------------------------ joins


def _check_joined(parts: list[Any], dim: int) -> None:
    first = parts[0]
    for x in parts:
        same = x.sparse_dim() == first.sparse_dim() and x.dim() == first.dim()
        if not same or any(
            a != b for d, (a, b) in enumerate(zip(first.shape, x.shape, strict=True)) if d != dim
        ):
            fail(
                RuntimeError,
                "cat",
                "All tensors must have the same shape except in the dimension, and the same number "
                "of sparse dimensions",
                f"{list(first.shape)} and {list(x.shape)}",
                hint="make the sizes equal first; to_dense().to_sparse(n) sets the number of "
                "sparse dimensions",
            )


@rule("cat")
def cat(tensors: Any, dim: int) -> Any:
    """Sparse tensors one after another."""
    if not all(isinstance(x, SparseTensor) for x in tensors):
        fail(
            RuntimeError,
            "cat",
            "Concatenating sparse tensors, but a dense tensor was found",
            hint="use to_sparse() on the dense ones",
        )
    parts = [to_coo(x) for x in tensors]
    dim = wrap_dim("cat", dim, parts[0].dim())
    _check_joined(parts, dim)
    count, size = parts[0].sparse_dim(), list(parts[0].shape)
    size[dim] = sum(x.shape[dim] for x in parts)
    places, values, before = [], [], 0
    for x in parts:
        index, own = x._places[0], values_of(x)
        if dim < count:
            shift = F.zeros((count, 1), dtype=core.int64)
            shift[dim] = before
            index = index + shift
        else:
            inner = list(own.shape)
            inner[dim - count + 1] = size[dim]
            d, n = dim - count + 1, own.shape[dim - count + 1]
            own = F.slice_scatter(own.new_zeros(inner), own, d, before, before + n, 1)
        places.append(index)
        values.append(own)
        before += x.shape[dim]
    made = compose((F.cat(places, 1),), F.cat(values, 0), size)
    return like_first(tensors[0], made)


@rule("stack")
def stack(tensors: Any, dim: int) -> Any:
    """Sparse tensors along a new dimension."""
    return F.cat([F.unsqueeze(x, dim) for x in tensors], dim)


# ------------------------------------------------------------------ tensors like a sparse one


@rule("zeros_like")
def zeros_like(
    self: Any,
    dtype: core.dtype,
    layout: core.layout | None,
    device: core.device | None,
    pin: object,
    requires_grad: object,
    memory: object,
) -> Any:
    """A tensor of the same shape and layout without specified elements."""
    layout = self._form if layout is None else layout
    dtype, device = dtype or self.dtype, device or self.device
    if layout is core.strided:
        made = F.zeros(tuple(self.shape), dtype=dtype, device=device)
    elif COO not in (layout, self._form) and (layout in BLOCKED) == (self._form in BLOCKED):
        rank = self._places[0].dim()
        batch, inner = self._places[1].shape[:-1], self._stored.shape[rank:]
        side = 0 if layout in BY_ROWS else 1
        lines = self.shape[rank - 1 + side]
        lines = lines // max(inner[side], 1) if layout in BLOCKED else lines
        starts = F.zeros((*batch, lines + 1), dtype=self._places[0].dtype, device=device)
        places = starts, self._places[1].new_empty((*batch, 0))
        values = core.empty((*batch, 0, *inner), dtype=dtype, device=device)
        made = shell(places, values, self.shape, layout, True)
    else:
        batch = 0 if self._form is COO else self._places[0].dim() - 1
        sparse = self.sparse_dim() + batch if layout is COO or self._form is COO else 2
        made = nothing(self.shape, dtype, device, layout, sparse)
    return made.requires_grad_() if requires_grad else made


@rule("empty_like")
def empty_like(self: Any, *options: object) -> Any:
    """Nothing specified in COO; other layouts keep their places, with unset values."""
    if options[-1] is not None:
        fail(
            RuntimeError,
            "empty_like",
            "memory format option is only supported by strided tensors",
            options[-1],
            hint="leave memory_format out",
        )
    if self._form is COO or options[1] not in (None, self._form):
        return zeros_like(self, *options)
    return _like("empty_like", self, (), options)


def _like(
    name: str, sparse: SparseTensor, numbers: tuple[Any, ...], options: tuple[Any, ...]
) -> Any:
    """A tensor at the places of a compressed one whose values are made like its values."""
    if sparse._form is COO:
        return unsupported(TABLE[name], (sparse,))
    dtype, _, device, _, requires_grad, _ = options
    values = TABLE[name](sparse._stored, *numbers, dtype=dtype, device=device)
    made = shell(sparse._places, values, sparse.shape, sparse._form, True)
    return made.requires_grad_() if requires_grad else made


def _value_like(name: str, count: int) -> None:
    """The rule of an operator that makes a tensor like another, after `count` numbers."""

    def made(self: SparseTensor, *rest: object) -> Any:
        numbers = [n for n in rest[: len(rest) - 6] if not isinstance(n, core.Generator)]
        return _like(name, self, tuple(n for n in numbers[:count]), rest[-6:])

    made.__doc__ = f"`{name}` at the places of a compressed tensor."
    rule(name)(made)


for _name, _count in (
    ("ones_like", 0),
    ("full_like", 1),
    ("rand_like", 0),
    ("randn_like", 0),
    ("randint_like", 2),
):
    _value_like(_name, _count)


def _check_offsets(diagonals: core.Tensor, offsets: core.Tensor, op: str) -> None:
    if offsets.dtype is not core.int64:
        fail(
            RuntimeError,
            op,
            f"Offset Tensor must have dtype Long but got {offsets.dtype.type_word}",
            hint=cast_hint("offsets", core.int64),
        )
    if offsets.shape[0] != diagonals.shape[0]:
        fail(
            RuntimeError,
            op,
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
            f"({offsets.shape[0]})",
            hint="every diagonal has one offset",
        )
    if len(set(offsets.tolist())) != offsets.shape[0]:
        fail(
            RuntimeError,
            op,
            "Offset tensor contains duplicate values",
            offsets.tolist(),
            hint="add diagonals of the same offset up first",
        )


@composite(
    "sparse_spdiags(Tensor diagonals, Tensor offsets, int[] shape, layout? layout=None) -> Tensor",
    names=("sparse.spdiags",),
    out=False,
)
def sparse_spdiags(diagonals, offsets, shape, layout):
    """A sparse matrix with the rows of `diagonals` on its diagonals `offsets`."""
    op = "sparse.spdiags"
    diagonals = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    if diagonals.dim() != 2:
        fail(
            RuntimeError,
            op,
            "Diagonals must be vector or matrix",
            list(diagonals.shape),
            hint="diagonals is [number, length]",
        )
    if len(shape) != 2:
        fail(RuntimeError, op, "Output shape must be 2d", list(shape), hint="for example (3, 3)")
    if layout not in (None, COO, CSR, CSC):
        fail(
            RuntimeError,
            op,
            "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{layout_word(layout)}",
            hint="convert the result with to_sparse_bsr(blocksize)",
        )
    if offsets.dim() > 1:
        fail(
            RuntimeError,
            op,
            "Offsets must be scalar or vector",
            list(offsets.shape),
            hint="one offset for each diagonal: offsets.reshape(-1)",
        )
    offsets = offsets.reshape(-1)
    _check_offsets(diagonals, offsets, op)
    column = F.arange(diagonals.shape[1]).expand(diagonals.shape)
    row = column - offsets.unsqueeze(1)
    inside = (row >= 0) & (row < shape[0]) & (column < shape[1])
    index = F.stack([row[inside], column[inside]])
    made = coalesced(compose((index,), diagonals[inside], shape))
    return made if layout is None or layout is COO else F.to_sparse(made, None, layout=layout)
