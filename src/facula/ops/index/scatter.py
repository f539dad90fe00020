"""Operators: `gather` and the scatter family, whose index has one entry an element.

Takes an int64 or int32 index that is no larger than `self` (and `src`) except along `dim`; gives
the elements found, or
a copy of `self` with elements written or combined. Keeps true: `gather` is the adjoint of
`scatter_add`; an index that is
expanded over the last dimension moves whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.index import launch
from facula.ops.index.axis import REDUCE_KINDS, identity_of
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, operator


def _check_index_sizes(op: str, self: Any, dim: int, index: core.Tensor, src: core.Tensor) -> None:
    for d, size in enumerate(index.shape):
        if d != dim and self.dim() and size > self.shape[d]:
            fail(
                RuntimeError,
                op,
                f"Size does not match at dimension {d}: expected index {list(index.shape)} to be "
                "no larger than self "
                f"{list(self.shape)} apart from dimension {dim}",
                hint=f"index.narrow({d}, 0, {self.shape[d]}) fits there",
            )
        if src is not None and src.dim() and size > src.shape[d]:
            fail(
                RuntimeError,
                op,
                f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}",
                hint=f"index.narrow({d}, 0, {src.shape[d]}) fits there, or give a larger src",
            )


def _check_dtype(self: core.Tensor, src: core.Tensor) -> None:
    if self.dtype is not src.dtype:
        fail(
            RuntimeError,
            "scatter",
            "scatter(): Expected self.dtype to be equal to src.dtype",
            src.dtype,
            hint=cast_hint("src", self.dtype),
        )


def _check(op: str, self: Any, dim: int, index: Any, src: Any = None) -> int:
    """Check dtypes and shapes; give `dim` in [0, ndim)."""
    dim = wrap_dim(op, dim, self.dim())
    if index.dtype not in (core.int64, core.int32, core.uint8):
        fail(
            RuntimeError,
            op,
            f"{op}(): Expected dtype int32/int64 for index",
            index.dtype,
            hint=cast_hint("index", core.int64),
        )
    if index.numel() == 0:
        return dim
    tensors = (
        [("input", self, op == "gather")]
        if src is None
        else [("self", self, False), ("src", src, True)]
    )
    if op != "gather" and src is None:
        tensors = [("self", self, False)]
    for name, tensor, _ in tensors:
        if max(tensor.dim(), 1) != max(index.dim(), 1):
            fail(
                RuntimeError,
                op,
                f"Index tensor must have the same number of dimensions as {name} tensor",
                f"{index.dim()} and {tensor.dim()}",
                hint="unsqueeze() or expand() adds the dimensions that one of them lacks",
            )
    _check_index_sizes(op, self, dim, index, src)
    return dim


def _vector(x: core.Tensor) -> Any:
    return x.reshape((1,)) if x.dim() == 0 else x


def _run_scatter(
    op: str, kind: str, out: core.Tensor, dim: int, index: core.Tensor, src: core.Tensor
) -> None:
    """Combine `src` into `out` (any strides) at `index`."""
    if index.numel() == 0:
        return
    out, index, src = _vector(out), _vector(index), _vector(src)
    dim = wrap_dim(op, dim, out.dim())
    launch.check_bounds(op, index, out.shape[dim], dim, RuntimeError, negative=False)
    index = index.to(core.int64)
    extent = out.shape[dim]
    launch.scatter(
        kind, out, src, index, dim, index.shape, index.stride(), out.stride(), src.stride(), extent
    )


def _fit(grad: core.Tensor, shape: Sequence[int]) -> Any:
    """Zero-pad a gradient of the index's shape to the shape of a larger source."""
    if tuple(grad.shape) == tuple(shape):
        return grad
    if not shape:  # a source without dimensions, of which no element was taken
        return grad.new_zeros(())
    padding: list[int] = []
    for have, want in zip(reversed(grad.shape), reversed(shape), strict=True):
        padding += [0, want - have]
    return F.constant_pad_nd(grad, padding)


@operator(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    apart=True,
    quantized="moves",
)
class gather:
    """result[i][j][k] = self[index[i][j][k]][j][k] for dim 0, and so on; the result has the shape
    of `index`.
    """

    rearranges = True

    vmap = batch_forms.gather
    jvp = "linear"

    def meta(self, dim, index, sparse_grad):
        _check("gather", self, dim, index)
        return core.empty(index.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, sparse_grad):
        if index.numel() == 0:
            return
        result, self, index = _vector(out), _vector(self), _vector(index)
        dim = wrap_dim("gather", dim, self.dim())
        launch.check_bounds("gather", index, self.shape[dim], dim, RuntimeError, negative=False)
        index = index.to(core.int64)
        extent = self.shape[dim]
        launch.gather(
            result,
            self,
            index,
            dim,
            index.shape,
            index.stride(),
            self.stride(),
            result.stride(),
            extent,
        )

    def backward(grad, self_meta, dim, index):
        zero = F.zeros(self_meta.shape, dtype=grad.dtype, device=grad.device)
        return F.scatter_add(zero, dim, index, grad), None

    def samples(S):
        yield (S(4, 5), 1, S.index(5, (4, 7))), {}
        yield (S(4, 5), 0, S.index(4, (2, 3))), {}

    def errors(S):
        yield (
            (S(3), 0, S.full((1,), 3)),
            {},
            RuntimeError,
            "index 3 is out of bounds for dimension 0 with size 3",
        )


@operator(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    inplace=True,
    autocast="accelerator widest",
)
class scatter_add:
    """A copy of `self` with self[index[i][j]][j] += src[i][j] for dim 0, and so on."""

    apart = True

    vmap = "dims"
    jvp = "linear"

    def meta(self, dim, index, src):
        _check("scatter_add", self, dim, index, src)
        _check_dtype(self, src)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, src):
        work = launch.accumulation_dtype(self.dtype)
        target = out if work is self.dtype else core.empty(self.shape, dtype=work)
        target.copy_(self)
        _run_scatter("scatter_add", "add", target, dim, index, src.to(work))
        if target is not out:
            out.copy_(target)

    def cpu_inplace(self, dim, index, src):
        if launch.accumulation_dtype(self.dtype) is not self.dtype:
            return False
        _run_scatter(
            "scatter_add",
            "add",
            self,
            dim,
            index,
            src.clone() if core.overlapping(self, src) else src,
        )
        return True

    def backward(grad, dim, index, src_meta, needs):
        return grad, None, _fit(F.gather(grad, dim, index), src_meta.shape) if needs[-1] else None

    def samples(S):
        yield (S(4, 5), 0, S.index(4, (3, 5)), S(3, 5)), {}


@operator(
    "scatter(Tensor self, int dim, Tensor index, Operand? src=None, *, Operand? value=None, str? "
    "reduce=None) -> Tensor",
    inplace=True,
    overload="src:Tensor+reduce=reduce, reduce=value_reduce, src:Tensor=src, value",
    file_arguments={"value.src": "value", "value_reduce.src": "value"},
)
class scatter:
    """A copy of `self` with self[index[i][j]][j] = src[i][j] for dim 0; `value` writes one number
    everywhere.

    `reduce` "add" or "multiply" combines instead (prefer `scatter_reduce`, which is
    differentiable)."""

    apart = True

    vmap = "dims"

    def meta(self, dim, index, src, value, reduce):
        if (src is None) == (value is None):
            fail(
                TypeError,
                "scatter",
                "one of src and value was required",
                "both" if value is not None else "none",
                hint="scatter(x, dim, index, src) writes a tensor, scatter(x, dim, index, "
                "value=0.0) a number",
            )
        tensor = src if isinstance(src, core.Tensor) else None
        _check("scatter", self, dim, index, tensor)
        if tensor is not None:
            _check_dtype(self, tensor)
        else:
            core.check_number("scatter", "value", src if value is None else value, self.dtype)
        if reduce not in (None, "add", "multiply"):
            fail(
                RuntimeError,
                "scatter",
                "reduce argument must be either add or multiply.",
                reduce,
                hint="scatter_reduce() also has mean, amax and amin; leave reduce out to overwrite",
            )
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, src, value, reduce):
        work = launch.accumulation_dtype(self.dtype) if reduce else self.dtype
        target = out if work is self.dtype else core.empty(self.shape, dtype=work)
        target.copy_(self)
        kind = {None: "set", "add": "add", "multiply": "mul"}[reduce]
        _run_scatter("scatter", kind, target, dim, index, _source(src, value, index, work))
        if target is not out:
            out.copy_(target)

    def cpu_inplace(self, dim, index, src, value, reduce):
        if reduce:
            return False
        source = _source(src, value, index, self.dtype)
        _run_scatter(
            "scatter",
            "set",
            self,
            dim,
            index,
            source.clone() if core.overlapping(self, source) else source,
        )
        return True

    def backward(grad, dim, index, src, reduce, needs):
        if reduce is not None:
            fail(
                NotImplementedError,
                "scatter",
                "a scatter without reduce was required for a gradient",
                reduce,
                "scatter_reduce has one",
            )
        grad_src = None
        if isinstance(src, core.Tensor):
            grad_src = _fit(F.gather(grad, dim, index), src.shape)
        return F.scatter(grad, dim, index, 0), None, grad_src, None

    def samples(S):
        yield (S(4, 5), 0, S.index(4, (3, 5), unique=True), S(3, 5)), {}
        yield (S(4, 5), 1, S.index(5, (4, 2))), {"value": 1.5}


def _source(src: Any, value: object, index: core.Tensor, dtype: core.dtype) -> Any:
    """The source tensor; a number is one element that every place reads."""
    if isinstance(src, core.Tensor):
        return src.to(dtype)
    one = core.empty((1,) * max(index.dim(), 1), dtype=dtype)
    one.fill_(value if src is None else src)
    return one.expand(index.shape if index.dim() else (1,))


@operator(
    "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
    "include_self=True) -> Tensor",
    inplace=True,
    overload="two",
)
class scatter_reduce:
    """A copy of `self` into which `src` is reduced at `index` along `dim`: sum, prod, mean, amax or
    amin.

    Without `include_self`, places that receive something forget their old value."""

    vmap = "dims"

    def meta(self, dim, index, src, reduce, include_self):
        if reduce not in REDUCE_KINDS:
            fail(
                RuntimeError,
                "scatter_reduce",
                "reduce argument must be either sum, prod, mean, amax or amin",
                reduce,
                hint="scatter() without reduce overwrites",
            )
        _check("scatter_reduce", self, dim, index, src)
        _check_dtype(self, src)
        if reduce == "mean":
            core.refuse_unsigned("scatter_reduce", self)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, src, reduce, include_self):
        def combine(target: core.Tensor, kind: str) -> None:
            _run_scatter("scatter_reduce", kind, target, dim, index, src.to(target.dtype))

        reduce_into(out, self, dim, index, reduce, include_self, combine)

    def backward(grad, self, dim, index, src, reduce, include_self, result):
        dtype = grad.dtype
        if reduce == "sum":
            grad_self, grad_src = grad, F.gather(grad, dim, index)
        elif reduce == "mean":
            share = grad / scatter_counts(self, dim, index, include_self).to(grad.dtype)
            grad_self, grad_src = share, F.gather(share, dim, index)
        elif reduce == "prod":
            work = launch.accumulation_dtype(self.dtype)
            if work is not self.dtype:  # quotients of rounded products lose digits
                grad, self, src = grad.to(work), self.to(work), src.to(work)
                result = F.scatter_reduce(self, dim, index, src, "prod", include_self=include_self)
            grad_self, grad_src = _product_gradient(
                grad, self, dim, index, src, include_self, result
            )
            grad_self, grad_src = grad_self.to(dtype), grad_src.to(dtype)
        else:
            grad_self, grad_src = _extreme_gradient(grad, self, dim, index, src, result)
        if not include_self:
            grad_self = F.scatter(grad_self, dim, index, 0)
        return grad_self, None, _fit(grad_src, src.shape)

    def samples(S):
        for reduce in REDUCE_KINDS:
            yield (
                (S(4, 5), 0, S.index(4, (3, 5)), S(3, 5), reduce),
                {"include_self": reduce != "mean"},
            )


def reduce_into(
    out: core.Tensor,
    self: core.Tensor,
    dim: int,
    index: core.Tensor,
    reduce: str,
    include_self: bool,
    combine: Callable[[Any, str], None],
) -> None:
    """`scatter_reduce` into `out`; `combine(target, operation)` brings the values."""
    work = launch.accumulation_dtype(self.dtype)
    target = out if work is self.dtype else core.empty(self.shape, dtype=work)
    target.copy_(self)
    if not include_self:
        _forget(target, dim, index, identity_of(reduce, work))
    combine(target, REDUCE_KINDS[reduce])
    if reduce == "mean":
        counts = scatter_counts(target, dim, index, include_self)
        if work.is_floating_point or work.is_complex:
            target = target / counts.to(work)
        else:
            target = F.div(target, counts.to(work), rounding_mode="floor")
    if target is not out:
        out.copy_(target)


def _narrow_repeats(shape: list[int], dim: int, index: core.Tensor) -> tuple[list[int], Any]:
    """Where the index only repeats along a dimension (stride 0), one slice of it says all."""
    shape = list(shape)
    for d, step in enumerate(index.stride()):
        if d != dim and step == 0 and index.shape[d] == shape[d]:
            index, shape[d] = index.narrow(d, 0, min(1, shape[d])), min(1, shape[d])
    return shape, index


def _forget(target: Any, dim: int, index: Any, start: float) -> None:
    """Set the places that the index names to the value that a reduction starts from."""
    index, target = _vector(index), _vector(target)
    if index.numel() == 0:
        return
    dim = wrap_dim("scatter_reduce", dim, target.dim())
    shape, index = _narrow_repeats(target.shape, dim, index)
    named = core.empty(shape, dtype=core.bool_).zero_()
    _run_scatter("scatter_reduce", "set", named, dim, index, _source(None, True, index, core.bool_))
    target.masked_fill_(named, start)


def scatter_counts(self: core.Tensor, dim: int, index: core.Tensor, include_self: bool) -> Any:
    """How many values meet at each place of `self`, at least 1 (int64).

    Where the index repeats along a dimension (stride 0), so do the counts: they are taken once and
    expanded."""
    dim = wrap_dim("scatter_reduce", dim, self.dim())
    expanded = list(_vector(self).shape)
    shape, index = _narrow_repeats(expanded, dim, _vector(index))
    counts = F.full(tuple(shape), int(include_self), dtype=core.int64, device=self.device)
    ones = F.ones((), dtype=core.int64, device=self.device).expand(index.shape)
    counts = F.scatter_add(counts, dim, index, ones)
    if not include_self:
        counts = counts.clamp(min=1)
    return counts.expand(expanded) if self.dim() else counts.reshape(())


def _narrowed(src: core.Tensor, index: core.Tensor) -> Any:
    """The part of the source that the index reads."""
    for d, size in enumerate(index.shape):
        if src.shape[d] != size:
            src = src.narrow(d, 0, size)
    return src


def _extreme_gradient(
    grad: core.Tensor, self: Any, dim: int, index: core.Tensor, src: core.Tensor, result: object
) -> tuple[Any, Any]:
    """d amax, d amin: shared evenly among all that equal the result."""
    own = (self == result).to(grad.dtype)
    theirs = (_narrowed(src, index) == F.gather(result, dim, index)).to(grad.dtype)
    share = grad / F.scatter_add(own, dim, index, theirs)
    return own * share, theirs * F.gather(share, dim, index)


def _product_gradient(
    grad: core.Tensor,
    self: Any,
    dim: int,
    index: core.Tensor,
    src: core.Tensor,
    include_self: bool,
    result: object,
) -> tuple[Any, Any]:
    """d prod: the product of the others, which needs care where a factor is zero."""
    src = _narrowed(src, index)
    own = self.masked_fill(self == 0, 1)
    grad_self = (
        grad * F.scatter_reduce(own, dim, index, src, "prod", include_self=include_self) / own
    )
    zero = src == 0
    zeros = F.gather(F.scatter_add(F.zeros_like(self), dim, index, zero.to(self.dtype)), dim, index)
    single = zero & (zeros == 1)
    filled = src.masked_fill(single, 1)
    without = F.scatter_reduce(self, dim, index, filled, "prod", include_self=include_self)
    plain = F.gather(grad * result, dim, index) / src.masked_fill(zero, 1)
    if core.is_grad_enabled() or core.interpreters():  # differentiated again, two zeros count
        pair = zero & (zeros == 2)
        chosen = F.where(pair, src, 0)
        other = F.gather(F.scatter_add(F.zeros_like(self), dim, index, chosen), dim, index) - chosen
        rest = F.scatter_reduce(
            self, dim, index, src.masked_fill(zero, 1), "prod", include_self=include_self
        )
        plain = F.where(pair, F.gather(grad * rest, dim, index) * other, plain)
    return grad_self, F.where(single, F.gather(grad * without, dim, index), plain)
