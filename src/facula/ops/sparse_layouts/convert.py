"""Conversions between layouts: dense, COO and the compressed ones, by way of element coordinates.

Takes: tensors of any layout. Gives: tensors of another, part of the history; `at_places`, the
elements of any tensor at the places of a sparse one.
Keeps true: everything is a composition of dense operators over values and of the two primitives that
carry history between a sparse tensor and its values, so gradients follow; what is made here is
sorted, and says that it is where that means anything (COO).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail
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
    rebuilt,
    same_places,
    shell,
    values_of,
)
from facula.ops.table.registry import F, composite, operator

LAYOUTS = (COO, CSR, CSC, BSR, BSC)


class Pattern(NamedTuple):
    """Where the values of a sparse tensor stand."""

    places: tuple[Any, ...]
    values_shape: Any
    size: Any
    layout: Any


def pattern_of(sparse: SparseTensor) -> Pattern:
    """The places of a sparse tensor."""
    return Pattern(sparse._places, sparse._stored.shape, sparse.shape, sparse._form)


# ------------------------------------------------------------------ coordinates


def expand_pointers(pointers: core.Tensor, count: int) -> Any:
    """The line of each of `count` entries from where the lines start: [n + 1] to [count]."""
    lengths = pointers[1:] - pointers[:-1]
    lines = F.arange(lengths.shape[0], device=pointers.device)
    return F.repeat_interleave(lines, lengths.to(core.int64), output_size=count)


def compress(lines: core.Tensor, count: int) -> Any:
    """Where each of `count` lines starts, from the sorted lines of the entries."""
    bounds = F.arange(count + 1, dtype=lines.dtype, device=lines.device)
    return F.searchsorted(lines.contiguous(), bounds)


def _matrix_coordinates(pattern: Pattern, batch: int) -> tuple[Any, Any, Any]:
    """Batch entry, row and column of each entry of a compressed tensor; of its blocks, if any."""
    pointers, plain = pattern.places
    count = plain.shape[-1]
    entries = math.prod(plain.shape[:-1])
    pointers = pointers.reshape(entries, pointers.shape[-1])
    lines = [expand_pointers(pointers[i], count) for i in range(entries)]
    line = F.cat(lines) if lines else F.zeros((0,), dtype=core.int64)
    cross = plain.reshape(-1).to(core.int64)
    which = F.arange(entries, device=line.device).repeat_interleave(count)
    return (which, line, cross) if pattern.layout in BY_ROWS else (which, cross, line)


def element_index(pattern: Pattern) -> Any:
    """The sparse coordinates of every value: [sparse and batch dimensions, values]."""
    if pattern.layout is COO:
        return pattern.places[0]
    batch = pattern.places[0].dim() - 1
    which, row, column = _matrix_coordinates(pattern, batch)
    if pattern.layout in BLOCKED:
        height, width = pattern.values_shape[batch + 1 : batch + 3]
        inner = F.arange(height * width, device=row.device)
        row = (row.unsqueeze(1) * height + inner // width).reshape(-1)
        column = (column.unsqueeze(1) * width + inner % width).reshape(-1)
        which = which.repeat_interleave(height * width)
    leading = coordinates(which, pattern.size[:batch]) if batch else []
    return F.stack([*leading, row, column])


def coordinates(flat: core.Tensor, sizes: Sequence[int]) -> list[Any]:
    """The coordinates of flat positions in an array of these sizes."""
    found = []
    for size in reversed(sizes):
        found.append(flat % size if size else flat)
        flat = flat.div(max(size, 1), rounding_mode="floor")
    return found[::-1]


def flatten(index: core.Tensor, sizes: Sequence[int]) -> Any:
    """The flat positions of coordinates [dimensions, count] in an array of these sizes."""
    if not len(sizes):
        return F.zeros((index.shape[1],), dtype=core.int64, device=index.device)
    flat = index[0]
    for d in range(1, len(sizes)):
        flat = flat * sizes[d] + index[d]
    return flat


def dense_shape(pattern: Pattern, index: core.Tensor) -> tuple[int, ...]:
    """The shape of one value."""
    return tuple(pattern.size[index.shape[0] :])


def elements(sparse: SparseTensor) -> tuple[Any, Any]:
    """Coordinates and values of every specified element, in the order in which they are stored."""
    pattern = pattern_of(sparse)
    index = element_index(pattern)
    return index, values_of(sparse).reshape([index.shape[1], *dense_shape(pattern, index)])


# ------------------------------------------------------------------ COO


def coalesced(sparse: SparseTensor) -> Any:
    """A COO tensor with sorted places of which each stands once; values at one place are added."""
    if sparse._unique:
        return sparse
    index, values = sparse._places[0], values_of(sparse)
    if index.shape[1] < 2:
        return compose((index,), values, sparse.shape, COO, True)
    sizes = sparse.shape[: index.shape[0]]
    places, group = F.unique(flatten(index, sizes), sorted=True, return_inverse=True)
    count = places.shape[0]
    added = sum_groups(values, group, count)
    stacked = F.stack(coordinates(places, sizes)) if len(sizes) else index[:, :count]
    return compose((stacked,), added, sparse.shape, COO, True)


def sum_groups(values: Any, group: core.Tensor, count: int) -> Any:
    """The sums of values by the number of their group."""
    if values.dtype is core.bool:
        return sum_groups(values.to(core.int32), group, count).to(core.bool)
    start = values.new_zeros((count, *values.shape[1:]))
    return start.index_add(0, group, values)


def once(sparse: SparseTensor) -> Any:
    """A gradient of values at repeated places as a sparse tensor: each place counts once."""
    if sparse._form is not COO or sparse._unique or sparse._nnz() < 2:
        return sparse
    index, values = sparse._places[0], values_of(sparse)
    sizes = sparse.shape[: index.shape[0]]
    places, group = F.unique(flatten(index, sizes), sorted=True, return_inverse=True)
    if places.shape[0] == index.shape[1]:
        return sparse
    order = F.arange(group.shape[0], device=group.device)
    first = order.new_zeros(places.shape).index_copy(0, group, order)
    made = F.stack(coordinates(places, sizes))
    return compose((made,), values.index_select(0, first), sparse.shape, COO, True)


def to_coo(sparse: SparseTensor) -> Any:
    """A sparse tensor in the COO layout, coalesced where it comes from a compressed one."""
    if sparse._form is COO:
        return sparse
    index, values = elements(sparse)
    made = compose((index,), values, sparse.shape, COO, False)
    sorted_already = sparse._form is CSR and _sorted_lines(index, sparse.shape)
    return made._coalesced_(True) if sorted_already else coalesced(made)


def _sorted_lines(index: core.Tensor, size: core.Size) -> bool:
    flat = flatten(index, size[: index.shape[0]])
    return flat.shape[0] < 2 or bool((flat[1:] > flat[:-1]).all())


def dense_to_coo(dense: core.Tensor, sparse_dim: int) -> Any:
    """The elements of a dense tensor that are not zero, by its first `sparse_dim` dimensions."""
    rest = tuple(range(sparse_dim, dense.dim()))
    nonzero = dense != 0
    if rest:
        nonzero = nonzero.flatten(sparse_dim).any(-1)
    index = nonzero.nonzero().t().contiguous()
    return compose((index,), gather(dense, index), dense.shape, COO, True)


def gather(dense: core.Tensor, index: core.Tensor) -> Any:
    """The elements of a dense tensor at coordinates [dimensions, count]."""
    count = index.shape[0]
    flat = dense.reshape([math.prod(dense.shape[:count]), *dense.shape[count:]])
    return flat.index_select(0, flatten(index, dense.shape[:count]))


def scatter(index: core.Tensor, values: object, size: Sequence[int]) -> Any:
    """A dense tensor with values added at coordinates."""
    count = index.shape[0]
    total = math.prod(size[:count])
    return sum_groups(values, flatten(index, size[:count]), total).reshape(tuple(size))


def dense_of(sparse: SparseTensor) -> Any:
    """A sparse tensor with all of its elements."""
    index, values = elements(sparse)
    return scatter(index, values, sparse.shape)


# ------------------------------------------------------------------ compressed layouts


def compressed(sparse: SparseTensor, layout: Any, block: Sequence[int] | None = None) -> Any:
    """A tensor of any layout in a compressed one."""
    if sparse._form is layout and (block is None or tuple(_block(sparse)) == tuple(block)):
        return sparse
    kind = core.int64 if sparse._form is COO else sparse._places[0].dtype
    made = _compressed(sparse, layout, block)
    if made._places[0].dtype is kind:
        return made
    places = tuple(place.to(kind) for place in made._places)
    return compose(places, values_of(made), made.shape, layout, True)


def _compressed(sparse: Any, layout: core.layout | None, block: Sequence[int] | None) -> Any:
    coo = coalesced(to_coo(sparse))
    index, values = coo._places[0], values_of(coo)
    if index.shape[0] > 2:
        return _compressed_batch(coo, layout, block)
    row, column = index[0], index[1]
    if layout in BLOCKED:
        return _blocked(row, column, values, coo.shape, layout, block)
    rows, columns = coo.shape[:2]
    if layout is CSR:
        return compose((compress(row, rows), column), values, coo.shape, CSR, True)
    order = F.argsort(column * max(rows, 1) + row)
    places = (compress(column[order], columns), row[order])
    return compose(places, values.index_select(0, order), coo.shape, CSC, True)


def _block(sparse: SparseTensor) -> Any:
    batch = sparse._places[0].dim() - 1
    return sparse._stored.shape[batch + 1 : batch + 3]


def _blocked(row: Any, column: Any, values: Any, size: Any, layout: Any, block: Any) -> Any:
    """Elements gathered into the blocks in which they lie."""
    height, width = block
    if height < 1 or width < 1:
        fail(
            RuntimeError,
            "to_sparse",
            "a blocksize of positive numbers was required",
            tuple(block),
            hint="blocksize=(1, 1) has one element in each block",
        )
    if size[0] % height or size[1] % width:
        fail(
            RuntimeError,
            "to_sparse",
            f"Tensor size {tuple(size[:2])} needs to be divisible by blocksize",
            tuple(block),
            hint="pad the tensor, or take another blocksize",
        )
    across, down = size[1] // width, size[0] // height
    line, cross = row.div(height, rounding_mode="floor"), column.div(width, rounding_mode="floor")
    key = line * across + cross if layout is BSR else cross * down + line
    found, group = F.unique(key, sorted=True, return_inverse=True)
    inner = (row % height) * width + column % width
    target = group * (height * width) + inner
    count = found.shape[0]
    rest = tuple(values.shape[1:])
    made = sum_groups(values, target, count * height * width)
    made = made.reshape([count, height, width, *rest])
    lines = across if layout is BSR else down
    starts = compress(
        found.div(max(lines, 1), rounding_mode="floor"), down if layout is BSR else across
    )
    return compose((starts, found % max(lines, 1)), made, size, layout, True)


def _compressed_batch(coo: SparseTensor, layout: Any, block: Any) -> Any:
    """A batch of matrices, which must have as many entries each."""
    batch, size = coo.sparse_dim() - 2, coo.shape
    total = math.prod(size[:batch])
    index, values = coo._places[0], values_of(coo)
    which = flatten(index, size[:batch])
    bounds = compress(which, total).tolist()
    parts = []
    for i in range(total):
        first, last = bounds[i], bounds[i + 1]
        piece = compose((index[batch:, first:last],), values[first:last], size[batch:], COO, True)
        parts.append(compressed(piece, layout, block))
    if len({part._nnz() for part in parts}) > 1:
        fail(
            RuntimeError,
            "to_sparse",
            "Expect the same number of specified elements per batch",
            [part._nnz() for part in parts],
            hint="the COO layout takes different numbers in a batch",
        )
    places = [F.stack([p._places[k] for p in parts]).reshape([*size[:batch], -1]) for k in range(2)]
    stacked = F.stack([values_of(p) for p in parts])
    stacked = stacked.reshape([*size[:batch], *stacked.shape[1:]])
    return compose(tuple(places), stacked, size, layout, True)


# ------------------------------------------------------------------ elements at places


def at_places(tensor: core.Tensor, pattern: Pattern) -> Any:
    """The elements of any tensor at the places of a pattern, in the shape of its values."""
    index = element_index(pattern)
    if not isinstance(tensor, SparseTensor):
        return gather(tensor, index).reshape(pattern.values_shape)
    like = tensor._form is pattern.layout and len(tensor._places) == len(pattern.places)
    if like and all(
        x is y or (x.shape == y.shape and core.address_of(x) == core.address_of(y))
        for x, y in zip(tensor._places, pattern.places, strict=True)
    ):
        return values_of(tensor)
    return _searched(coalesced(to_coo(tensor)), index).reshape(pattern.values_shape)


def _searched(coo: SparseTensor, index: core.Tensor) -> Any:
    """The elements of a coalesced tensor at coordinates; zeros where it has none."""
    held, values = coo._places[0], values_of(coo)
    if held.shape[0] != index.shape[0]:
        return gather(dense_of(coo), index)
    if not held.shape[1]:
        return values.new_zeros((index.shape[1], *values.shape[1:]))
    sizes = coo.shape[: index.shape[0]]
    keys, wanted = flatten(held, sizes), flatten(index, sizes)
    position = F.searchsorted(keys, wanted).clamp(max=keys.shape[0] - 1)
    found = keys.index_select(0, position) == wanted
    picked = values.index_select(0, position)
    return picked.masked_fill(~found.reshape([-1] + [1] * (values.dim() - 1)), 0)


# ------------------------------------------------------------------ history


@operator(
    "_sparse_compose(Tensor values, Tensor[] places, int[] size, any layout, bool unique) -> Tensor",
    names=(),
    out=False,
)
class SparseCompose:
    """A sparse tensor of its parts; the gradient of its values is the gradient at its places."""

    def meta(values, places, size, layout, unique):
        return shell(places, values.detach(), size, layout, unique)

    def cpu(out, values, places, size, layout, unique):
        pass

    def backward(grad, values_meta, places, size, layout, unique):
        return at_places(grad, Pattern(places, values_meta.shape, size, layout)), None


@operator("_sparse_values(Tensor self) -> Tensor", names=(), out=False)
class SparseValues:
    """The values of a sparse tensor; the gradient is sparse, with the same places."""

    def meta(self):
        return self._stored.detach()

    def cpu(out, self):
        pass

    def backward(grad, self):
        return once(rebuilt(self, grad))


# ------------------------------------------------------------------ public


@composite(
    "to_dense(Tensor self, dtype? dtype=None, *, bool? masked_grad=None) -> Tensor",
    names=("Tensor.to_dense",),
    out=False,
)
def to_dense(self, dtype, masked_grad):
    """The tensor with all of its elements in memory."""
    made = dense_of(self) if isinstance(self, SparseTensor) else self
    return made if dtype is None else made.to(dtype)


@composite("coalesce(Tensor self) -> Tensor", names=("Tensor.coalesce",), out=False)
def coalesce(self):
    """A COO tensor with sorted indices of which each stands once.

    Example:
        >>> a = facula.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
        >>> a.coalesce().values()
        tensor([3.])
    """
    if not isinstance(self, SparseTensor) or self._form is not COO:
        fail(
            RuntimeError,
            "coalesce",
            "coalesce expected sparse coordinate tensor layout but got " + layout_word(self.layout),
            hint="to_sparse() converts to the coordinate layout",
        )
    return coalesced(self)


def _checked_block(name: str, layout: core.layout | None, blocksize: Sequence[int] | None) -> Any:
    if layout in BLOCKED:
        if blocksize is None or len(blocksize) != 2:
            fail(
                RuntimeError,
                name,
                f"conversion to {layout_word(layout)} requires blocksize specified as two integers",
                blocksize,
                hint="for example blocksize=(2, 2)",
            )
        return tuple(blocksize)
    if blocksize is not None:
        fail(
            RuntimeError,
            name,
            "blocksize is taken by blocked layouts only",
            blocksize,
            "use layout=sparse_bsr or sparse_bsc",
        )
    return None


def _from_dense(
    name: str, dense: core.Tensor, layout: Any, dense_dim: int, block: tuple[Any, ...] | None
) -> Any:
    batch = dense.dim() - 2 - dense_dim
    if batch < 0:
        fail(
            RuntimeError,
            name,
            f"a tensor with at least {2 + dense_dim} dimensions was required",
            dense.dim(),
            hint="unsqueeze() adds dimensions",
        )
    sparse = dense_to_coo(dense, batch + 2)
    return compressed(sparse, layout, block)


@composite(
    "to_sparse(Tensor self, int? sparse_dim=None, *, layout? layout=None, int[2]? blocksize=None, "
    "int? dense_dim=None) -> Tensor",
    names=("Tensor.to_sparse",),
    out=False,
)
def to_sparse(self, sparse_dim, layout, blocksize, dense_dim):
    """The tensor in a sparse layout: COO with `sparse_dim` dimensions, or `layout`."""
    layout = COO if layout is None else layout
    if layout is core.strided:
        return F.to_dense(self, None, masked_grad=None)
    block = _checked_block("to_sparse", layout, blocksize)
    if isinstance(self, SparseTensor):
        if layout is not COO:
            _check_matrix(self, layout)
            return compressed(self, layout, block)
        if sparse_dim is not None and sparse_dim != self.sparse_dim():
            fail(
                RuntimeError,
                "to_sparse",
                f"conversion from {layout_word(self._form)} to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported",
                sparse_dim,
                hint="leave sparse_dim out, or use to_dense() first",
            )
        return to_coo(self)
    if layout is not COO:
        return _from_dense("to_sparse", self, layout, dense_dim or 0, block)
    count = self.dim() if sparse_dim is None else sparse_dim
    if not 0 <= count <= self.dim() or (count == 0 and self.dim()):
        fail(
            RuntimeError,
            "to_sparse",
            f"sparse_dim argument must be in [{min(1, self.dim())},{self.dim()}] range",
            sparse_dim,
            hint="leave sparse_dim out to make all dimensions sparse",
        )
    return dense_to_coo(self, count)


def _check_matrix(sparse: SparseTensor, layout: core.layout) -> None:
    """Raise for sparse tensors that are no matrices, as PyTorch does."""
    refused = None
    if sparse._form is COO and sparse.sparse_dim() != 2:
        refused = "input tensors with sparse_dim()!=2"
    elif sparse._form in (CSR, CSC) and layout in BLOCKED and sparse._places[0].dim() > 1:
        refused = "batched inputs"
    if refused is not None:
        fail(
            RuntimeError,
            "to_sparse",
            f"conversion from {layout_word(sparse._form)} to {layout_word(layout)} for {refused} "
            "is not supported",
            f"sparse_dim() {sparse.sparse_dim()} of shape {list(sparse.shape)}",
            hint="x.to_dense() first: dense tensors with batches take compressed layouts",
        )


def _conversion(word: str, layout: core.layout, block: bool) -> Any:
    name = f"to_sparse_{word}"
    sizes = "int[2] blocksize, " if block else ""

    def body(self: core.Tensor, *rest: object) -> Any:
        return F.to_sparse(
            self, None, layout=layout, blocksize=rest[0] if block else None, dense_dim=rest[-1]
        )

    body.__name__ = name
    body.__doc__ = f"The tensor in the {word.upper()} layout."
    schema = f"{name}(Tensor self, {sizes}int? dense_dim=None) -> Tensor"
    return composite(schema, names=(f"Tensor.{name}",), out=False)(body)


for _word, _layout in (("csr", CSR), ("csc", CSC), ("bsr", BSR), ("bsc", BSC)):
    _conversion(_word, _layout, _layout in BLOCKED)


@composite("to_sparse_coo(Tensor self) -> Tensor", names=("Tensor.to_sparse_coo",), out=False)
def to_sparse_coo(self):
    """The tensor in the COO layout."""
    return F.to_sparse(self, None)


@composite("sparse_mask(Tensor self, Tensor mask) -> Tensor", names=("Tensor.sparse_mask",))
def sparse_mask(self, mask):
    """The elements of a tensor at the places of a sparse one.

    Example:
        >>> mask = facula.tensor([1.0, 0.0]).to_sparse()
        >>> facula.tensor([5.0, 6.0]).sparse_mask(mask).to_dense()
        tensor([5., 0.])
    """
    if not isinstance(mask, SparseTensor):
        fail(
            NotImplementedError,
            "sparse_mask",
            "a sparse mask was required",
            mask.layout,
            "use mask.to_sparse()",
        )
    if self.shape != mask.shape:
        fail(
            RuntimeError,
            "sparse_mask",
            "operands have incompatible sizes: self and mask need the same shape",
            f"{list(self.shape)} and {list(mask.shape)}",
            hint="expand() or slice self first: a mask does not broadcast",
        )
    if isinstance(self, SparseTensor) and same_places(self, mask):
        return self
    values = at_places(self, pattern_of(mask))
    return rebuilt(mask, values)
