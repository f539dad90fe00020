"""How structured operators act on a batch: the functions that definitions name in `vmap`.

Takes `batch` (what `vmap` is doing: its size, and where arguments have the batch) and the arguments
in schema order.  Gives results with the batch in front.
Keeps true: the batch joins a dimension that the operator treats alike for all of its entries (rows,
the N of a convolution, groups, offsets of indices), so one call does the work of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from facula import core
from facula.core.errors import fail
from facula.ops.index.addressing import Addressing
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F


class Batch(Protocol):
    """What `vmap` is doing: how many entries there are, and where a tensor has them."""

    size: int

    def has(self, x: object) -> bool:
        """Whether an argument differs from entry to entry."""

    def front(self, x: object) -> Any:
        """A tensor with the batch as its first dimension; one that is the same for all as it is."""

    def full(self, x: object) -> Any:
        """The same, repeated where it is the same for all."""

    def aligned(self, x: object, rank: int) -> Any:
        """As `front`, with dimensions of size 1 so that entries have `rank` dimensions."""


class Same:
    """Marks a result that is the same for all entries."""

    def __init__(self, value: Any) -> None:
        self.value = value


def innermost(x: core.Tensor) -> Any:
    """The entries of all batches at work together: for checks of values."""
    while core.is_wrapper(x):
        x = x.value
    return x


def anywhere(mask: core.Tensor) -> bool:
    """Whether a bool tensor holds True, in any entry of the batches at work."""
    mask = innermost(mask)
    if core.is_dispatching(mask):
        return False  # a trace, or no elements at all: nothing can be asked
    return mask.numel() != 0 and bool(mask.any().item())


def joined(batch: Batch, x: object) -> Any:
    """The batch and the first dimension as one."""
    return None if x is None else batch.full(x).flatten(0, 1)


def parted(batch: Batch, x: core.Tensor) -> Any:
    """`joined` undone."""
    return x.reshape((batch.size, x.shape[0] // max(batch.size, 1), *x.shape[1:]))


# ------------------------------------------------------------------ products


def _entries_of_rank(name: str, rank: int, *tensors: Any) -> None:
    """Raise unless every entry has this many dimensions: `matmul` would take more."""
    for x in tensors:
        if x.dim() != rank:
            fail(
                RuntimeError,
                name,
                f"Shape mismatch: under vmap, entries of {rank} dimensions were required",
                [list(x.shape) for x in tensors],
                hint="the dimension of the batch does not count; matmul() takes any number of dimensions",
            )


def product(name: str, rank: int) -> Callable[..., Any]:
    """`mm`, `bmm`: `matmul` takes any number of leading dimensions."""

    def rule(batch: Batch, self: object, other: object) -> Any:
        _entries_of_rank(name, rank, self, other)
        return F.matmul(batch.front(self), batch.front(other))

    return rule


def dot(batch: Batch, self: object, tensor: core.Tensor) -> Any:
    """A row of products."""
    _entries_of_rank("dot", 1, self, tensor)
    a, b = batch.front(self), batch.front(tensor)
    if not batch.has(self):
        a, b = b, a
    if not (batch.has(self) and batch.has(tensor)):
        return F.matmul(a, b)
    return F.matmul(a.unsqueeze(1), b.unsqueeze(2)).reshape((batch.size,))


def added_product(name: str, rank: int) -> Callable[..., Any]:
    """`addmm`, `baddbmm`: a product, and what is added to it."""

    def rule(batch: Batch, self: object, a: object, b: object, beta: object, alpha: object) -> Any:
        _entries_of_rank(name, rank, a, b)
        return _added_product(batch, self, a, b, beta, alpha)

    return rule


def _added_product(batch: Batch, self: object, a: Any, b: object, beta: Any, alpha: Any) -> Any:
    total = F.matmul(batch.front(a), batch.front(b))
    rank = a.dim()
    if not (batch.has(a) or batch.has(b)):
        total = total.expand((batch.size, *total.shape))
    total = total if alpha == 1 else total * alpha
    if beta == 0:
        return total
    bias = batch.aligned(self, rank)
    return total + (bias if beta == 1 else bias * beta)


def linear(batch: Batch, input: core.Tensor, weight: core.Tensor, bias: core.Tensor | None) -> Any:
    """A shared weight takes the batch as rows, a shared input takes it as columns; where both
    differ, it is a batch of products."""
    if not batch.has(weight):
        if not batch.has(bias):
            return F.linear(batch.front(input), weight, bias)
        out = F.linear(batch.full(input), weight)
        return out + batch.aligned(bias, input.dim())
    if weight.dim() == 1:
        w = batch.front(weight).reshape((batch.size, *[1] * (input.dim() - 1), -1))
        out = (batch.full(input) * w).sum(-1)
        return out if bias is None else out + batch.aligned(bias, input.dim() - 1)
    if not batch.has(input):
        spread = None if bias is None else batch.full(bias).flatten()
        out = F.linear(input, batch.front(weight).flatten(0, 1), spread)
        rank = input.dim()
        out = out.view((*input.shape[:-1], batch.size, weight.shape[0]))
        return out.permute((rank - 1, *range(rank - 1), rank))
    rows, w = batch.front(input), batch.front(weight).transpose(1, 2)
    if input.dim() != 2:
        rows = rows.reshape((batch.size, -1, input.shape[-1]))
    if bias is None:
        out = F.bmm(rows, w)
    else:
        out = F.baddbmm(batch.full(bias).unsqueeze(1), rows, w)
    return out if input.dim() == 2 else out.reshape((batch.size, *input.shape[:-1], -1))


# ------------------------------------------------------------------ convolutions


def _channels(batch: Batch, x: core.Tensor) -> Any:
    """[N, C, ...] of each entry as [N, batch * C, ...]."""
    return batch.full(x).movedim(0, 1).flatten(1, 2)


def _unchannelled(batch: Batch, x: core.Tensor) -> Any:
    return x.unflatten(1, (batch.size, x.shape[1] // batch.size)).movedim(1, 0)


def _with_offsets(
    batch: Batch,
    mapped: Callable[..., Any],
    one: Callable[..., Any],
    plain: tuple[Any, ...],
    bias: object,
) -> Any:
    """A convolution of these arguments, mapped where one of them is, plus the offsets of each entry."""
    several = batch.has(plain[0]) or batch.has(plain[1])
    found = mapped(batch, *plain) if several else one(*plain).unsqueeze(0)
    return found + batch.front(bias).reshape((batch.size, 1, -1, *[1] * len(plain[-1])))


def conv(
    batch: Batch,
    input: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    output_size: int | Sequence[int],
) -> Any:
    """The batch joins N, or where weights differ the groups."""
    settings = (stride, padding, dilation)
    if batch.has(bias):
        plain = (input, weight, None, *settings, groups, output_size)
        return _with_offsets(batch, conv, F._conv, plain, bias)
    if not batch.has(weight):
        x = joined(batch, input)
        return parted(batch, F._conv(x, weight, bias, *settings, groups, output_size))
    kernels = joined(batch, weight)
    offsets = None if bias is None else joined(batch, bias)
    if not batch.has(input) and groups == 1:
        out = F._conv(input, kernels, offsets, *settings, 1, output_size)
    else:
        x = _channels(batch, input)
        out = F._conv(x, kernels, offsets, *settings, groups * batch.size, output_size)
    return _unchannelled(batch, out)


def conv_input(
    batch: Batch,
    grad_output: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    input_size: object,
) -> Any:
    """As `conv`."""
    settings = (stride, padding, dilation)
    if batch.has(bias):
        plain = (grad_output, weight, None, *settings, groups, input_size)
        return _with_offsets(batch, conv_input, F._conv_input, plain, bias)
    if not batch.has(weight):
        y = joined(batch, grad_output)
        return parted(batch, F._conv_input(y, weight, bias, *settings, groups, input_size))
    y, kernels = _channels(batch, grad_output), joined(batch, weight)
    offsets = None if bias is None else joined(batch, bias)
    out = F._conv_input(y, kernels, offsets, *settings, groups * batch.size, input_size)
    return _unchannelled(batch, out)


def _conv_weights(
    function: Callable[..., Any],
    batch: Batch,
    grad_output: core.Tensor,
    input: core.Tensor,
    *settings: Any,
) -> Any:
    stride, padding, dilation, groups, kernel_size = settings
    y = _channels(batch, grad_output)
    if not batch.has(input) and groups == 1:
        return function(y, input, stride, padding, dilation, 1, kernel_size)
    x = _channels(batch, input)
    return function(y, x, stride, padding, dilation, groups * batch.size, kernel_size)


def conv_weight(
    batch: Batch, grad_output: core.Tensor, input: core.Tensor, *settings: object
) -> Any:
    """The gradients of the weight of each entry, as groups."""
    return parted(batch, _conv_weights(F._conv_weight, batch, grad_output, input, *settings))


def conv_weight_bias(
    batch: Batch, grad_output: core.Tensor, input: core.Tensor, *settings: object
) -> Any:
    """As `conv_weight`, with the gradients of the bias."""
    found = _conv_weights(F._conv_weight_bias, batch, grad_output, input, *settings)
    return tuple(parted(batch, x) for x in found)


# ------------------------------------------------------------------ indices


def _offsets(batch: Batch, indices: core.Tensor, rows: int) -> Any:
    """Indices into the rows of one entry as indices into those of all."""
    first = F.arange(batch.size) * rows
    return batch.full(indices) + first.reshape((batch.size, *[1] * indices.dim()))


def embedding(
    batch: Batch,
    weight: core.Tensor,
    indices: core.Tensor,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Any:
    """Tables of their own stand below each other."""
    if not batch.has(weight):
        places = batch.front(indices)
        return F.embedding(weight, places, padding_idx, scale_grad_by_freq, sparse)
    if padding_idx >= 0 or sparse:
        return NotImplemented
    places = _offsets(batch, indices, weight.shape[0])
    return F.embedding(joined(batch, weight), places, -1, scale_grad_by_freq)


def embedding_dense_backward(
    batch: Batch,
    grad_output: core.Tensor,
    indices: core.Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    """Tables of their own stand below each other."""
    if padding_idx >= 0:
        return NotImplemented
    places, rows = _offsets(batch, indices, num_weights), num_weights * batch.size
    found = F.embedding_dense_backward(
        batch.full(grad_output), places, rows, -1, scale_grad_by_freq
    )
    return parted(batch, found)


def gather(batch: Batch, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    """The dimension behind the batch; an entry of no dimensions is one of one element."""
    along = wrap_dim("gather", dim, self.dim()) + 1
    x, places = (
        x if x.dim() > 1 else x.unsqueeze(1) for x in (batch.full(self), batch.full(index))
    )
    found = F.gather(x, along, places, sparse_grad=sparse_grad)
    return found.reshape((batch.size, *index.shape))


def _place(self: Any, indices: Any) -> tuple[int, int, Any]:
    """(dimensions before the indexed ones, dimensions of the indices, the result's shape)."""
    place = Addressing("index", self.shape, indices)
    return len(place.before), len(place.block), place.shape


def _entries(batch: Batch, indices: Any, rank: int) -> list[Any]:
    """An index for the batch, and the others with the batch in front."""
    own = F.arange(batch.size).reshape((batch.size, *[1] * rank))
    return [own, *(None if i is None else batch.aligned(i, rank) for i in indices)]


def index(batch: Batch, self: object, indices: core.Tensor) -> Any:
    """The batch is one more indexed dimension."""
    before, rank, _ = _place(self, indices)
    if not any(batch.has(i) for i in indices):
        found = F._index(batch.front(self), (None, *indices))
        given = [d for d, i in enumerate(indices) if i is not None]
        apart = given and given[-1] - given[0] + 1 != len(given)
        return found.movedim(rank, 0) if apart else found
    if not batch.has(self):
        found = F._index(self, _entries(batch, indices, rank)[1:])
        return found.movedim(before, 0)
    found = F._index(batch.front(self), _entries(batch, indices, rank))
    moved = range(1, 1 + rank)
    return found.movedim(tuple(moved), tuple(d + before for d in moved)) if before else found


def index_put(
    batch: Batch, self: object, indices: core.Tensor, values: object, accumulate: bool
) -> Any:
    """The batch is one more indexed dimension."""
    before, rank, shape = _place(self, indices)
    spread = batch.aligned(values, len(shape)).expand((batch.size, *shape))
    if before:
        moved = range(1, 1 + rank)
        spread = spread.movedim(tuple(d + before for d in moved), tuple(moved))
    places = _entries(batch, indices, rank)
    return F._index_put(batch.full(self), places, spread, accumulate)


def take(batch: Batch, self: object, index: Any) -> Any:
    """The batch as rows."""
    if not batch.has(self):
        return F.take(self, batch.front(index))
    rows, places = batch.front(self).reshape((batch.size, -1)), batch.full(index)
    places = F.where(places < 0, places + rows.shape[1], places)
    found = rows.gather(1, places.reshape((batch.size, -1)))
    return found.reshape((batch.size, *index.shape))


def stack(batch: Batch, tensors: Any, dim: int) -> Any:
    """The new dimension counts from the end."""
    count = tensors[0].dim() + 1
    if not -count <= dim < count:
        core.errors.fail(
            IndexError, "stack", f"a dimension in [{-count}, {count - 1}] was required", dim
        )
    return F.stack([batch.full(t) for t in tensors], dim - count if dim >= 0 else dim)


def cat(batch: Batch, tensors: Any, dim: int) -> Any:
    """Dimensions count from the end; empty vectors beside tensors of more dimensions are left out."""
    rank = max(t.dim() for t in tensors)
    kept = [t for t in tensors if t.dim() == rank or t.shape != (0,)]
    if not -rank <= dim < rank:
        core.errors.fail(
            IndexError, "cat", f"a dimension in [{-rank}, {rank - 1}] was required", dim
        )
    return F.cat([batch.full(t) for t in kept], dim - rank if dim >= 0 else dim)


def unbind(batch: Batch, self: Any, dim: int) -> Any:
    """Slices of every entry; entries of one number have none."""
    if self.dim() == 0:
        required = "Dimension specified as 0 but tensor has no dimensions"
        fail(IndexError, "unbind", required, dim, "x.reshape(1) has a dimension to unbind")
    return F.unbind(batch.front(self), wrap_dim("unbind", dim, self.dim()) + 1)


def roll(batch: Batch, self: Any, shifts: Any, dims: Any) -> Any:
    """Without dimensions each entry rolls as one row."""
    x, rank = batch.front(self), self.dim()
    if not dims:
        flat = x.reshape((batch.size, -1))
        return F.roll(flat, shifts, (1,) * len(shifts)).reshape(x.shape)
    if rank == 0:
        required = f"Dimension specified as {dims[0]} but tensor has no dimensions"
        fail(IndexError, "roll", required, list(dims), "leave dims out, or x.reshape(1)")
    return F.roll(x, shifts, tuple(wrap_dim("roll", d, rank) + 1 for d in dims))


# ------------------------------------------------------------------ normalisation


def _affine(
    batch: Batch,
    x: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    shape: Sequence[int],
) -> Any:
    """x * weight + bias, the parameters with the batch in front in the given shape."""
    dtype = x.dtype
    for parameter, combine in ((weight, F.mul), (bias, F.add)):
        if parameter is not None:
            x = combine(x, batch.full(parameter).reshape((batch.size, *shape)))
    return x.to(dtype)


def layer_norm(
    batch: Batch, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """Rows of all entries; parameters of their own are applied afterwards."""
    if not (batch.has(weight) or batch.has(bias)):
        return F.native_layer_norm(batch.front(input), normalized_shape, weight, bias, eps)
    found = F.native_layer_norm(batch.full(input), normalized_shape, None, None, eps)
    ones = [1] * (input.dim() - len(normalized_shape))
    out = _affine(batch, found[0], weight, bias, (*ones, *normalized_shape))
    return (out, *found[1:])


def rms_norm(batch: Batch, input: Any, normalized_shape: Any, weight: Any, eps: float) -> Any:
    """As `layer_norm`."""
    if not batch.has(weight):
        return F.fused_rms_norm(batch.front(input), normalized_shape, weight, eps)
    found = F.fused_rms_norm(batch.full(input), normalized_shape, None, eps)
    ones = [1] * (input.dim() - len(normalized_shape))
    return (_affine(batch, found[0], weight, None, (*ones, *normalized_shape)), found[1])


def group_norm(
    batch: Batch,
    input: core.Tensor,
    groups: int,
    weight: core.Tensor,
    bias: core.Tensor | None,
    eps: float,
) -> Any:
    """The batch joins N; parameters of their own are applied afterwards."""
    x = joined(batch, input)
    if not (batch.has(weight) or batch.has(bias)):
        found = F.native_group_norm(x, groups, weight, bias, eps)
        return tuple(parted(batch, r) for r in found)
    found = [parted(batch, r) for r in F.native_group_norm(x, groups, None, None, eps)]
    shape = (1, input.shape[1], *[1] * (input.dim() - 2))
    return (_affine(batch, found[0], weight, bias, shape), *found[1:])


def batch_norm_train(
    batch: Batch,
    input: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor,
    mean: object,
    variance: object,
    momentum: float,
    eps: float,
) -> Any:
    """The batch joins the channels."""
    parameters = [joined(batch, p) for p in (weight, bias, mean, variance)]
    out, *rest = F.batch_norm_train(_channels(batch, input), *parameters, momentum, eps)
    kept = input.shape[1] == 0
    # without running statistics their new values are empty
    rest = [parted(batch, r) if r.numel() or kept else Same(r) for r in rest]
    return (_unchannelled(batch, out), *rest)


def batch_norm_eval(
    batch: Batch,
    input: core.Tensor,
    mean: core.Tensor,
    variance: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor,
    eps: float,
) -> Any:
    """The batch joins N, or where parameters differ the channels."""
    parameters = (mean, variance, weight, bias)
    if not any(batch.has(p) for p in parameters):
        return parted(batch, F.batch_norm_eval(joined(batch, input), *parameters, eps))
    spread = [joined(batch, p) for p in parameters]
    return _unchannelled(batch, F.batch_norm_eval(_channels(batch, input), *spread, eps))


# ------------------------------------------------------------------ losses and order


def _total(batch: Batch, values: core.Tensor, mean: bool) -> Any:
    flat = values.flatten(1) if values.dim() > 1 else values.unsqueeze(1)
    return flat.mean(1) if mean else flat.sum(1)


def mse_total(batch: Batch, input: core.Tensor, target: core.Tensor, mean: bool) -> Any:
    """A total for each entry."""
    difference = batch.full(input) - batch.full(target)
    return _total(batch, difference * difference, mean)


def l1_total(batch: Batch, input: core.Tensor, target: core.Tensor, mean: bool) -> Any:
    """A total for each entry."""
    return _total(batch, (batch.full(input) - batch.full(target)).abs(), mean)


def bce_logits_total(batch: Batch, input: core.Tensor, target: core.Tensor, mean: bool) -> Any:
    """A total for each entry."""
    x, y = batch.full(input), batch.full(target)
    return _total(batch, (1 - y) * x - F.logsigmoid(x), mean)


def cross_entropy_rows(
    batch: Batch,
    input: core.Tensor,
    target: core.Tensor,
    weight: core.Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> Any:
    """Rows of all entries."""
    if batch.has(weight):
        return NotImplemented
    if input.dim() == 1:
        rows = (batch.full(input), batch.full(target))
        return F.cross_entropy_rows(*rows, weight, ignore_index, label_smoothing)
    found = F.cross_entropy_rows(
        joined(batch, input), joined(batch, target), weight, ignore_index, label_smoothing
    )
    return tuple(parted(batch, r) for r in found)


def median_all(batch: Batch, self: object) -> Any:
    """A median a row."""
    return F._median_dim(batch.front(self).reshape((batch.size, -1)), 1)[0]


def nanmedian_all(batch: Batch, self: object) -> Any:
    """A median a row."""
    return F._nanmedian_dim(batch.front(self).reshape((batch.size, -1)), 1)[0]


# ------------------------------------------------------------------ padding


def pad_index_backward(
    batch: Batch, grad_output: core.Tensor, shape: Sequence[int], pad: object, mode: str
) -> Any:
    """The batch joins the first dimension."""
    whole = (batch.size * shape[0], *shape[1:])
    found = F._pad_index_backward(joined(batch, grad_output), whole, pad, mode)
    return found.unflatten(0, (batch.size, shape[0]))
