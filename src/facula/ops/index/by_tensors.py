"""Operators: indexing by tensors, `take` and `put`.

Takes tensors of int64 (or int32) indices, or boolean masks; gives the elements they address, or
copies of a tensor with
those elements set or added to. Keeps true: all indices are checked before memory is touched;
negative ones count from
the end; where one place is written twice the later value stays, and sums are taken in index order.

`x[...]` with tensors in it arrives here as `index` and `index_put`, whose `indices` holds one entry
a dimension, None for
a full slice.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail, message
from facula.ops.index import launch
from facula.ops.index.addressing import Addressing
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator


def _check_mask(op: str, self: core.Tensor, mask: core.Tensor, first: int) -> None:
    for d in range(mask.dim()):
        if first + d >= self.dim() or mask.shape[d] != self.shape[first + d]:
            fail(
                IndexError,
                op,
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape "
                f"of the indexed tensor {list(self.shape)} at index {first + d}",
                hint=f"a mask of shape {list(self.shape[first : first + mask.dim()])} would fit "
                "here",
            )


def _warn_of_bytes(op: str) -> None:
    text = "indexing with dtype facula.uint8 is now deprecated, please use a dtype facula.bool"
    warnings.warn(message(op, text, hint="mask.bool() converts it"), UserWarning, stacklevel=5)


def expand_masks(op: str, self: core.Tensor, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace each boolean mask by the coordinates of its true values; check dtypes and the number
    of dimensions.
    """
    result: list[Any] = []
    for index in indices:
        if index is None:
            result.append(None)
        elif index.dtype is core.bool_ or index.dtype is core.uint8:
            if index.dtype is core.uint8:
                _warn_of_bytes(op)
            first = len(result)
            _check_mask(op, self, index, first)
            places = F.nonzero(index)
            result += (
                [places.select(1, d) for d in range(index.dim())]
                if index.dim()
                else [places.sum(1)]
            )
        elif index.dtype is core.int64 or index.dtype is core.int32:
            result.append(index)
        else:
            fail(
                IndexError,
                op,
                "tensors used as indices must be long, int, byte or bool tensors",
                index.dtype,
                hint="index.long() converts it; index != 0 makes a mask of it",
            )
    if len(result) > self.dim():
        fail(
            IndexError,
            op,
            f"too many indices for tensor of dimension {self.dim()}",
            len(result),
            hint=f"give at most {self.dim()}; a mask counts once for each of its dimensions",
        )
    return tuple(result)


@composite(
    "index(Tensor self, Tensor?[] indices) -> Tensor",
    names=(),
    quantized="moves",
    overload="Tensor",
)
def index(self, indices):
    """The elements that broadcast index tensors and masks address, one entry a dimension, None for
    a full slice.

    Indexed dimensions that stand together are replaced in place by the shape of the indices;
    otherwise that shape comes
    first."""
    if not indices:
        hint = "an index is a tensor of positions or a mask, or None for a whole dimension"
        fail(IndexError, "index", "at least one index must be provided", "none", hint)
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is core.bool_:
        if indices[0].shape == self.shape:
            return F.masked_select(self, indices[0])
    return F._index(self, expand_masks("index", self, indices))


@operator(
    "_index(Tensor self, Tensor?[] indices) -> Tensor",
    names=(),
    out=False,
    quantized="moves",
    file_name="index.Tensor",
)
class _index:
    """Advanced indexing by integer tensors."""

    rearranges = True

    vmap = batch_forms.index
    jvp = "linear"

    def meta(self, indices):
        place = Addressing("index", self.shape, indices)
        return core.empty(place.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, indices):
        place = Addressing("index", self.shape, indices)
        if not place.dims:
            out.copy_(self)
            return
        if len(place.dims) == 1 and self.is_contiguous():
            index = launch.index64("index", place.indices[0]).contiguous()
            launch.take_rows("index", out, self, index, place.dims[0], True)
            return
        source, dim, geometry, extent = place.geometry(self.stride(), out.stride())
        launch.gather(out, self, source, dim, *geometry, extent)

    def backward(grad, self_meta, indices):
        zero = F.zeros(self_meta.shape, dtype=grad.dtype, device=grad.device)
        return F._index_put(zero, indices, grad, True), None

    def samples(S):
        yield (S(4, 5), (S.index(4, (3,)),)), {}
        yield (S(4, 5, 3), (None, S.index(5, (2, 2)), S.index(3, (2,)))), {}
        yield (S(4, 5, 3), (S.index(4, (2,)), None, S.index(3, (2,)))), {}

    def errors(S):
        yield (
            (S(3), (S.full((1,), 7),)),
            {},
            IndexError,
            "index 7 is out of bounds for dimension 0 with size 3",
        )


def put(
    op: str, out: core.Tensor, indices: tuple[Any, ...], values: core.Tensor, accumulate: bool
) -> None:
    """Write or add `values` into `out` (any strides) at the places that `indices` address."""
    place = Addressing(op, out.shape, indices)
    values = values.expand(place.shape)
    if not place.block_joins(values.stride()):
        values = values.contiguous()
    if not place.dims:
        out.copy_(out + values if accumulate else values)
        return
    source, dim, geometry, extent = place.geometry(out.stride(), values.stride())
    launch.scatter("add" if accumulate else "set", out, values, source, dim, *geometry, extent)


@composite(
    "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    names=("index_put", "Tensor.index_put"),
    out=False,
    autocast="accelerator widest",
)
def index_put(self, indices, values, accumulate):
    """A copy of `self` with `values` (broadcast) written, or added, at the places of `indices`.

    Example:
        >>> input = facula.zeros(2, 2)
        >>> facula.index_put(input, (facula.tensor([0, 1]), facula.tensor([1, 0])), facula.tensor([5.0, 6.0]))
        tensor([[0., 5.],
                [6., 0.]])
    """
    if _is_fill(self, indices, values, accumulate):
        return F.where(indices[0], values.reshape(()), self)
    if self.is_meta and _has_mask(indices):
        return core.empty_like(self)
    return F._index_put(self, expand_masks("index_put", self, indices), values, accumulate)


@composite(
    "index_put_(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    names=("index_put_", "Tensor.index_put_"),
    out=False,
)
def index_put_(self, indices, values, accumulate):
    """Write `values` (broadcast), or add them, at the places of `indices`; gives `self`."""
    if _is_fill(self, indices, values, accumulate):
        return self.masked_fill_(indices[0], values.reshape(()))
    if self.is_meta and _has_mask(indices):
        return self
    places = expand_masks("index_put_", self, indices)
    return F._index_put.inplace(self, places, values, accumulate)


def _is_fill(self: Any, indices: tuple[Any, ...], values: core.Tensor, accumulate: bool) -> bool:
    """Whether one value goes to the true places of a mask over the whole tensor."""
    if len(indices) != 1 or indices[0] is None or indices[0].dtype is not core.bool_:
        return False
    same = indices[0].shape == self.shape and values.dtype is self.dtype
    return same and values.numel() == 1 and not accumulate


def _has_mask(indices: tuple[Any, ...]) -> bool:
    return any(i is not None and i.dtype is core.bool_ for i in indices)


@operator(
    "_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    names=(),
    inplace=True,
    out=False,
    file_form="index_put",
)
class _index_put:
    """Advanced assignment by integer tensors."""

    expanded = True
    apart = True

    vmap = batch_forms.index_put
    jvp = "linear"

    def meta(self, indices, values, accumulate):
        place = Addressing("index_put", self.shape, indices)
        extra = len(values.shape) - len(place.shape)
        sizes = tuple(values.shape)[max(extra, 0) :]
        if any(n != 1 for n in tuple(values.shape)[: max(extra, 0)]) or any(
            n not in (1, m) for n, m in zip(sizes[::-1], place.shape[::-1], strict=False)
        ):
            fail(
                RuntimeError,
                "index_put",
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast "
                "to indexing result of "
                f"shape {list(place.shape)}",
                hint="a number goes to all places; sizes of values are 1 or those of the places, "
                "from the last on",
            )
        if values.dtype is not self.dtype:
            fail(
                RuntimeError,
                "index_put",
                "Index put requires the source and destination dtypes match",
                f"{self.dtype} for the destination and {values.dtype} for the source",
                hint=cast_hint("values", self.dtype),
            )
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, indices, values, accumulate):
        work = launch.accumulation_dtype(self.dtype) if accumulate else self.dtype
        target = out if work is self.dtype else core.empty(self.shape, dtype=work)
        target.copy_(self)
        put("index_put", target, indices, _trim(values.to(work), target, indices), accumulate)
        if target is not out:
            out.copy_(target)

    def cpu_inplace(self, indices, values, accumulate):
        if accumulate and launch.accumulation_dtype(self.dtype) is not self.dtype:
            return False
        if core.overlapping(self, values):
            values = values.clone()
        put("index_put", self, indices, _trim(values, self, indices), accumulate)
        return True

    def backward(grad, indices, values_meta, accumulate, needs):
        grad_self = grad_values = None
        if needs[0]:
            zero = F.zeros((), dtype=grad.dtype, device=grad.device)
            grad_self = grad if accumulate else F._index_put(grad, indices, zero)
        if needs[-1]:
            grad_values = F.sum_to_size(F._index(grad, indices), values_meta.shape)
        return grad_self, None, grad_values

    def samples(S):
        yield (S(4, 5), (S.index(4, (3,)),), S(3, 5)), {"accumulate": True}
        yield (S(4, 5), (None, S.index(5, (2,), unique=True)), S(2)), {}


def _trim(values: core.Tensor, target: core.Tensor, indices: tuple[Any, ...]) -> Any:
    """Drop leading dimensions of size 1 that the indexed result does not have."""
    ndim = len(Addressing("index_put", target.shape, indices).shape)
    return (
        values.reshape(tuple(values.shape)[-ndim:] if ndim else ())
        if values.dim() > ndim
        else values
    )


@operator("take(Tensor self, Tensor index) -> Tensor", quantized="moves", apart=True)
class take:
    """The elements of the flattened tensor at `index`; the result has the shape of `index`."""

    rearranges = True

    vmap = batch_forms.take
    jvp = "linear"

    def meta(self, index):
        if index.dtype is not core.int64:
            fail(
                RuntimeError,
                "take",
                "Expected a long tensor for index",
                index.dtype,
                hint=cast_hint("index", core.int64),
            )
        return core.empty(index.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, index):
        _check_flat("take", self.numel(), index)
        if out.numel():
            n, flat = out.numel(), index.contiguous()
            launch.gather(out, self.contiguous(), flat, 0, (n,), (1,), (1,), (1,), self.numel())

    def backward(grad, self_meta, index):
        zero = F.zeros(self_meta.shape, dtype=grad.dtype, device=grad.device)
        return F.put(zero, index, grad, True), None

    def samples(S):
        yield (S(3, 4), S.index(12, (2, 3))), {}

    def errors(S):
        yield (S(3), S.full((1,), 5)), {}, IndexError, "index 5 is out of bounds"


def _check_flat(op: str, size: int, index: core.Tensor) -> None:
    if size == 0 and index.numel():
        fail(
            IndexError,
            op,
            "tried to take from an empty tensor",
            hint="only an empty index fits an empty tensor",
        )
    launch.check_bounds(op, index, size, 0)


@operator(
    "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    inplace=True,
    out=False,
)
class put_flat:
    """A copy of `self` with `source` written, or added, at the places `index` of the flattened
    tensor.
    """

    apart = True

    def meta(self, index, source, accumulate):
        if index.dtype is not core.int64:
            fail(
                RuntimeError,
                "put",
                "put_(): Expected a long tensor for index",
                index.dtype,
                hint=cast_hint("index", core.int64),
            )
        if source.dtype is not self.dtype:
            fail(
                RuntimeError,
                "put",
                "put_(): self and source expected to have the same dtype",
                source.dtype,
                hint=cast_hint("source", self.dtype),
            )
        if source.numel() != index.numel():
            fail(
                RuntimeError,
                "put",
                "put_(): Expected source and index to have the same number of elements",
                f"{source.numel()} and {index.numel()}",
                hint="source.expand(index.shape) repeats a single element",
            )
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, index, source, accumulate):
        _check_flat("put", self.numel(), index)
        work = launch.accumulation_dtype(self.dtype) if accumulate else self.dtype
        target = out if work is self.dtype else core.empty(self.shape, dtype=work)
        target.copy_(self)
        n, kind = index.numel(), "add" if accumulate else "set"
        flat, values = index.contiguous(), source.to(work).contiguous()
        launch.scatter(kind, target, values, flat, 0, (n,), (1,), (1,), (1,), self.numel())
        if target is not out:
            out.copy_(target)

    def backward(grad, index, source_meta, accumulate):
        zero = F.zeros(source_meta.shape, dtype=grad.dtype, device=grad.device)
        grad_self = grad if accumulate else F.put(grad, index, zero)
        return grad_self, None, F.take(grad, index).reshape(source_meta.shape)

    def samples(S):
        yield (S(3, 4), S.index(12, (2, 2)), S(2, 2)), {"accumulate": True}


@composite(
    "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", quantized="moves"
)
def take_along_dim(self, indices, dim):
    """The elements at `indices` along `dim`, both broadcast in the other dimensions; flattened when
    `dim` is None.
    """
    if indices.dtype is not core.int64:
        fail(
            RuntimeError,
            "take_along_dim",
            "int64 positions were required: dtype of indices should be Long but got "
            f"{indices.dtype}",
            hint=cast_hint("indices", core.int64),
        )
    if dim is None:
        return F.gather(self.reshape(-1), 0, _from_start(indices.reshape(-1), self.numel()))
    if self.dim() != indices.dim():
        fail(
            RuntimeError,
            "take_along_dim",
            "torch.take_along_dim(): input and indices should have the same number of dimensions",
            f"{self.dim()} and {indices.dim()}",
            hint="unsqueeze indices, or leave out dim to index the flattened tensor",
        )
    dim = wrap_dim("take_along_dim", dim, self.dim())
    shape = launch.broadcast_shapes(
        "take_along_dim",
        [1 if d == dim else n for d, n in enumerate(self.shape)],
        [1 if d == dim else n for d, n in enumerate(indices.shape)],
    )
    own, other = list(shape), list(shape)
    own[dim], other[dim] = self.shape[dim], indices.shape[dim]
    return F.gather(self.expand(own), dim, _from_start(indices, self.shape[dim]).expand(other))


def _from_start(indices: core.Tensor, size: int) -> Any:
    """Negative indices counted from the start."""
    return F.where(indices < 0, indices + size, indices)
