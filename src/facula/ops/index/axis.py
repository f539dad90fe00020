"""Operators: one-dimensional indices along a dimension (`index_select`, `index_add`, `index_copy`,
`index_fill`,
`index_reduce`).

Takes an int64 or int32 index of at most one dimension; gives whole slices. Keeps true:
`index_select` is the adjoint of
`index_add`; sums are taken in index order.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.index import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, operator


def _vector(op: str, index: core.Tensor) -> int:
    """Check the index and give its length."""
    launch.check_index_dtype(op, index)
    if index.dim() > 1:
        fail(
            IndexError,
            op,
            f"{op}(): Index is supposed to be a vector",
            f"{index.dim()} dimensions",
            hint="index.reshape(-1) is a vector",
        )
    return index.numel()


def _as_vector(x: core.Tensor) -> Any:
    return x.reshape((1,)) if x.dim() == 0 else x


def _scatter_slices(
    kind: str, out: core.Tensor, dim: int, index: core.Tensor, source: core.Tensor
) -> None:
    out, source = _as_vector(out), _as_vector(source)
    index = index.to(core.int64).reshape(-1)
    strides = launch.axis_strides(dim, out.dim(), index.stride(0))
    shape = list(out.shape)
    shape[dim] = index.numel()
    source = source.expand(shape)
    extent = out.shape[dim]
    launch.scatter(
        kind, out, source, index, dim, shape, strides, out.stride(), source.stride(), extent
    )


def _fitting(own: list[int], dim: int, count: int) -> str:
    return f"a source of shape {[count if d == dim else n for d, n in enumerate(own)]} would fit"


def _check_source(op: str, self: core.Tensor, dim: int, count: int, source: core.Tensor) -> None:
    own, other = list(self.shape) or [1], list(source.shape) or [1]
    if len(own) != len(other) and not (len(other) == 1 and count == 1 and self.dim() <= 1):
        fail(
            IndexError if op == "index_copy" else RuntimeError,
            op,
            "source must have as many dimensions as self (source tensor shape must match self tensor "
            "shape, excluding the specified dimension)",
            f"{len(other)}",
            hint=_fitting(own, dim, count),
        )
    if other[dim] != count:
        exception = IndexError if op in ("index_copy", "index_reduce") else RuntimeError
        fail(
            exception,
            op,
            f"{op}(): Number of indices ({count}) should be equal to source.size(dim)",
            other[dim],
            hint=_fitting(own, dim, count),
        )
    own[dim] = other[dim]
    if own != other:
        fail(
            RuntimeError if op != "index_reduce" else IndexError,
            op,
            "source must match self in every dimension but dim (source tensor shape must match self "
            "tensor shape, excluding the specified dimension)",
            f"{list(source.shape)} for self of shape {list(self.shape)}, dim {dim}",
            hint=_fitting(own, dim, count),
        )


def _same_dtype(op: str, self: core.Tensor, source: core.Tensor) -> None:
    if self.dtype is not source.dtype:
        fail(
            RuntimeError,
            op,
            f"{op}(): self and source expected to have the same dtype",
            f"(self) {self.dtype} and (source) {source.dtype}",
            hint=cast_hint("source", self.dtype),
        )


@operator(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor", quantized="moves", apart=True
)
class index_select:
    """Slices of `self` along `dim`, in the order of `index` (which does not wrap)."""

    rearranges = True

    vmap = "along"
    jvp = "linear"

    def meta(self, dim, index):
        dim = wrap_dim("index_select", dim, self.dim())
        wanted = "index_select(): Expected dtype int32 or int64 for index"
        launch.check_index_dtype("index_select", index, wanted=wanted)
        count = _vector("index_select", index)
        shape = list(self.shape)
        if not shape:
            if count != 1:
                fail(
                    RuntimeError,
                    "index_select",
                    "index_select(): an index of one value was required",
                    f"Index to scalar can have only 1 value, got {count} value(s)",
                    hint="x.reshape(1) takes any number of indices, all 0",
                )
            return core.empty((), dtype=self.dtype, device=self.device)
        if count and not shape[dim] and len(shape) > 1:
            fail(
                RuntimeError,
                "index_select",
                "index_select(): self indexing axis dim should be positive",
                f"the shape {tuple(shape)} at dim={dim}",
                hint="no index fits an empty dimension: look at x.numel() first",
            )
        shape[dim] = count
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index):
        dim = wrap_dim("index_select", dim, self.dim())
        index = index.to(core.int64)
        if self.dim() and self.is_contiguous() and index.is_contiguous():
            # PyTorch tells an index of the first dimension from one of another
            kind = RuntimeError if dim else IndexError
            launch.take_rows("index_select", out, self, index, dim, False, kind)
            return
        self, result = _as_vector(self), _as_vector(out)
        index = index.reshape(-1)
        launch.check_bounds("index_select", index, self.shape[dim], dim, IndexError, negative=False)
        strides = launch.axis_strides(dim, self.dim(), index.stride(0))
        extent = self.shape[dim]
        launch.gather(
            result, self, index, dim, result.shape, strides, self.stride(), result.stride(), extent
        )

    def backward(grad, self_meta, dim, index):
        zero = F.zeros(self_meta.shape, dtype=grad.dtype, device=grad.device)
        return F.index_add(zero, dim, index, grad), None

    def samples(S):
        yield (S(4, 5), 1, S.index(5, (3,))), {}
        yield (S(4, 5, 2), -3, S.index(4, (6,))), {}

    def errors(S):
        yield (
            (S(3), 0, S.full((1,), 3)),
            {},
            IndexError,
            "index 3 is out of bounds for dimension 0 with size 3",
        )


@operator(
    "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Number alpha=1) -> Tensor",
    inplace=True,
)
class index_add:
    """A copy of `self` with `alpha * source` added, slice by slice, at `index` along `dim`."""

    apart = True

    vmap = "along"
    jvp = "linear"

    def meta(self, dim, index, source, alpha):
        dim = wrap_dim("index_add", dim, self.dim())
        count = _vector("index_add", index)
        _same_dtype("index_add", self, source)
        core.check_number("index_add", "alpha", alpha, self.dtype)
        _check_source("index_add", self, dim, count, source)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, source, alpha):
        work = launch.accumulation_dtype(self.dtype)
        target = out if work is self.dtype else core.empty(self.shape, dtype=work)
        target.copy_(self)
        index_add_into(target, dim, index, source.to(work), alpha)
        if target is not out:
            out.copy_(target)

    def cpu_inplace(self, dim, index, source, alpha):
        if launch.accumulation_dtype(self.dtype) is not self.dtype:
            return False
        index_add_into(
            self, dim, index, source.clone() if core.overlapping(self, source) else source, alpha
        )
        return True

    def backward(grad, dim, index, source_meta, alpha, needs):
        grad_source = None
        if needs[-1]:
            grad_source = F.index_select(grad, dim, index).expand(source_meta.shape)
            grad_source = grad_source if alpha == 1 else grad_source * alpha
        return grad, None, grad_source

    def samples(S):
        yield (S(4, 5), 1, S.index(5, (3,)), S(4, 3)), {"alpha": 2}


def index_add_into(
    target: core.Tensor, dim: int, index: Any, source: core.Tensor, alpha: Any = 1
) -> None:
    """Add `alpha * source` into `target` (any strides) at `index` along `dim`."""
    dim = wrap_dim("index_add", dim, target.dim())
    size = target.shape[dim] if target.dim() else 1
    launch.check_bounds("index_add", index, size, dim, RuntimeError, negative=False)
    if source.dtype is core.bool_:
        source, alpha = source & bool(alpha), 1
    elif not (source.is_floating_point() or source.is_complex()):
        alpha = int(alpha)
    _scatter_slices("add", target, dim, index, source if alpha == 1 else source * alpha)


@operator(
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    inplace=True,
    autocast="cpu widest",
)
class index_copy:
    """A copy of `self` with the slices of `source` written at `index` along `dim`."""

    apart = True

    vmap = "along"
    jvp = "linear"

    def meta(self, dim, index, source):
        dim = wrap_dim("index_copy", dim, self.dim())
        count = _vector("index_copy", index)
        _same_dtype("index_copy", self, source)
        if source.dim():
            _check_source("index_copy", self, dim, count, source)
        elif count != 1:
            fail(
                IndexError,
                "index_copy",
                "When source is scalar, index should have one element",
                count,
                hint="give one index, or a source with an element for each index",
            )
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, source):
        out.copy_(self)
        index_copy.definition.body.cpu_inplace(out, dim, index, source)

    def cpu_inplace(self, dim, index, source):
        dim = wrap_dim("index_copy", dim, self.dim())
        launch.check_bounds(
            "index_copy",
            index,
            self.shape[dim] if self.dim() else 1,
            dim,
            IndexError,
            negative=False,
        )
        _scatter_slices(
            "set", self, dim, index, source.clone() if core.overlapping(self, source) else source
        )
        return True

    def backward(grad, dim, index, source_meta, needs):
        grad_source = None
        if needs[-1]:
            grad_source = F.index_select(grad, dim, index).expand(source_meta.shape)
        return F.index_fill(grad, dim, index, 0), None, grad_source

    def samples(S):
        yield (S(4, 5), 1, S.index(5, (3,), unique=True), S(4, 3)), {}


@operator(
    "index_fill(Tensor self, int dim, Tensor index, Operand value) -> Tensor",
    inplace=True,
    overload="value:Tensor=int_Tensor, int_Scalar",
)
class index_fill:
    """A copy of `self` with the slices at `index` along `dim` set to `value` (a number or a 0-d
    tensor).
    """

    apart = True
    expanded = True

    vmap = "along"

    def meta(self, dim, index, value):
        wrap_dim("index_fill", dim, self.dim())
        if index.dtype is not core.int64 and index.dtype is not core.int32:
            fail(
                IndexError,
                "index_fill",
                "index_fill_(): Expected dtype int64 for index",
                index.dtype,
                hint=cast_hint("index", core.int64),
            )
        _vector("index_fill", index)
        if isinstance(value, core.Tensor) and value.dim():
            fail(
                RuntimeError,
                "index_fill",
                "index_fill_ only supports a 0-dimensional value tensor",
                f"{value.dim()} dimension(s)",
                hint="give a number; index_copy writes a whole tensor",
            )
        if isinstance(value, complex) and not self.dtype.is_complex:
            fail(
                RuntimeError,
                "index_fill",
                "a real value was required: self is real",
                value,
                hint="give value.real, or convert self with .to(facula.complex64)",
            )
        if not isinstance(value, core.Tensor):
            core.check_number("index_fill", "value", value, self.dtype)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, value):
        out.copy_(self)
        index_fill.definition.body.cpu_inplace(out, dim, index, value)

    def cpu_inplace(self, dim, index, value):
        dim = wrap_dim("index_fill", dim, self.dim())
        launch.check_bounds("index_fill", index, self.shape[dim] if self.dim() else 1, dim)
        source = core.empty((1,) * self.dim(), dtype=self.dtype)
        source.fill_(value)
        _scatter_slices("set", self, dim, index, source)
        return True

    def backward(grad, dim, index, value, needs):
        grad_value = None
        if isinstance(value, core.Tensor) and needs[-1]:
            grad_value = F.index_select(grad, dim, F.unique(index)).sum()
        return F.index_fill(grad, dim, index, 0), None, grad_value

    def samples(S):
        yield (S(4, 5), 1, S.index(5, (2,)), 2.5), {}


REDUCE_KINDS = {"prod": "mul", "mean": "add", "amax": "max", "amin": "min", "sum": "add"}


def identity_of(reduce: str, dtype: core.dtype) -> Any:
    """The value that a reduction starts from when the old elements do not count."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    if dtype is core.bool_:
        return reduce == "amin"
    low, high = launch.int_limits(dtype)
    return low if reduce == "amax" else high


@operator(
    "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
    "include_self=True) -> Tensor",
    inplace=True,
)
class index_reduce:
    """A copy of `self` with the slices of `source` reduced into it at `index` along `dim`: prod,
    mean, amax or amin.
    """

    vmap = "along"

    def meta(self, dim, index, source, reduce, include_self):
        dim = wrap_dim("index_reduce", dim, self.dim())
        if reduce not in ("prod", "mean", "amax", "amin"):
            fail(
                RuntimeError,
                "index_reduce",
                "reduce must be prod, mean, amax or amin",
                reduce,
                hint="index_add sums, index_copy overwrites",
            )
        if reduce == "mean":
            core.refuse_unsigned("index_reduce", self)
        count = _vector("index_reduce", index)
        _same_dtype("index_reduce", self, source)
        _check_source("index_reduce", self, dim, count, source)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, index, source, reduce, include_self):
        dim = wrap_dim("index_reduce", dim, self.dim())
        size = self.shape[dim] if self.dim() else 1
        launch.check_bounds("index_reduce", index, size, dim, IndexError, negative=False)
        work = launch.accumulation_dtype(self.dtype)
        target = core.empty(self.shape, dtype=work)
        target.copy_(self)
        if not include_self:
            start = core.empty((1,) * self.dim(), dtype=work)
            start.fill_(identity_of(reduce, work))
            _scatter_slices("set", target, dim, index, start)
        _scatter_slices(REDUCE_KINDS[reduce], target, dim, index, source.to(work))
        if reduce == "mean":
            counts = index_counts(self, dim, index, include_self, work)
            if work.is_floating_point or work.is_complex:
                target = target / counts
            else:
                target = F.div(target, counts, rounding_mode="floor")
        out.copy_(target)

    def backward(grad, self, dim, index, source, reduce, include_self, result):
        if reduce == "mean":
            counts = index_counts(self, dim, index, include_self, grad.dtype)
            grad_self, grad_source = grad / counts, F.index_select(grad / counts, dim, index)
        elif reduce == "prod":
            grad_self, grad_source = _product_gradient(
                grad, self, dim, index, source, include_self, result
            )
        else:
            value = F.index_select(result, dim, index)
            own, theirs = (self == result).to(grad.dtype), (source == value).to(grad.dtype)
            share = grad / F.index_add(own, dim, index, theirs)
            grad_self, grad_source = own * share, theirs * F.index_select(share, dim, index)
        if not include_self:
            grad_self = F.index_fill(grad_self, dim, index, 0)
        return grad_self, None, grad_source

    def samples(S):
        for reduce in ("prod", "mean", "amax", "amin"):
            yield (
                (S(4, 5), 0, S.index(4, (3,)), S(3, 5), reduce),
                {"include_self": reduce != "mean"},
            )


def index_counts(self: Any, dim: int, index: Any, include_self: bool, dtype: core.dtype) -> Any:
    """How many values meet at each place along `dim`, at least 1, shaped to broadcast against
    `self`.
    """
    size = self.shape[dim] if self.dim() else 1
    counts = F.full((size,), int(include_self), dtype=core.int64, device=self.device)
    ones = F.ones((), dtype=core.int64, device=self.device).expand((index.numel(),))
    counts = F.index_add(counts, 0, index.reshape(-1), ones)
    if not include_self:
        counts = counts.clamp(min=1)
    shape = [1] * self.dim()
    if shape:
        shape[dim] = size
    return counts.to(dtype).reshape(shape)


def _product_gradient(
    grad: core.Tensor,
    self: Any,
    dim: int,
    index: core.Tensor,
    source: core.Tensor,
    include_self: bool,
    result: core.Tensor,
) -> tuple[Any, Any]:
    """d prod: the product of the others, which needs care where a factor is zero."""
    own = self.masked_fill(self == 0, 1)
    grad_self = (
        grad * F.index_reduce(own, dim, index, source, "prod", include_self=include_self) / own
    )
    zero = source == 0
    zeros = F.index_add(F.zeros_like(self), dim, index, zero.to(self.dtype))
    single = zero & (F.index_select(zeros, dim, index) == 1)
    filled = source.masked_fill(single, 1)
    without = F.index_reduce(self, dim, index, filled, "prod", include_self=include_self)
    plain = F.index_select(grad * result, dim, index) / source.masked_fill(zero, 1)
    if core.is_grad_enabled() or core.interpreters():  # differentiated again, two zeros count
        pair = zero & (F.index_select(zeros, dim, index) == 2)
        chosen = F.where(pair, source, 0)
        sums = F.index_add(F.zeros_like(self), dim, index, chosen)
        rest = F.index_reduce(
            self, dim, index, source.masked_fill(zero, 1), "prod", include_self=include_self
        )
        paired = F.index_select(grad * rest, dim, index)
        plain = F.where(pair, paired * (F.index_select(sums, dim, index) - chosen), plain)
    return grad_self, F.where(single, F.index_select(grad * without, dim, index), plain)
