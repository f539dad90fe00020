"""Operators of order: sort, argsort, topk, kthvalue, medians, mode, quantiles.

Takes tensors of any real dtype; gives values and int64 positions along one dimension. Keeps true:
NaN is the largest
value; sorting is stable in both directions (equal values stay in order); gradients go back to the
positions chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.index import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator, return_type_of
from facula.ops.view import memory_order

# Unsigned integers without kernels of their own: the sign bit is flipped, so that the signed order
# is theirs.
UNSIGNED = {"u16": core.int16, "u32": core.int32, "u64": core.int64}


def check_ordered(op: str, self: core.Tensor) -> None:
    """Raise for complex tensors, which have no order."""
    if self.dtype.is_complex:
        fail(
            RuntimeError,
            op,
            f"{op} does not support complex dtypes on CPU",
            self.dtype,
            hint="x.abs() and x.real are ordered",
        )


def sortable(self: core.Tensor) -> tuple[str, Any]:
    """Give the kernel's dtype code and a tensor in which the kernel sees the order of `self`."""
    code = self.dtype.code
    if code in UNSIGNED:
        signed = UNSIGNED[code]
        return signed.code, self.view(signed) ^ launch.int_limits(signed)[0]
    if code.startswith("f8"):
        return "f32", self.to(core.float32)
    return code, self


def along_rows(
    self: core.Tensor,
    dim: int,
    length: int,
    outs: tuple[Any, Any],
    run: Callable[[str, Any, Any, Any, int], None],
) -> None:
    """Call `run(code, rows, values, positions, count)` on [count, n] rows along `dim`; store into
    the results.

    `length` is the results' size along `dim`."""
    code, source = sortable(self)
    if source.dim() == 0:
        source = source.reshape((1,))
    moved = source.movedim(dim, -1) if dim != source.dim() - 1 else source
    moved = moved.contiguous()
    count = moved.numel() // moved.shape[-1] if moved.shape[-1] else 0
    shape = (*moved.shape[:-1], length)
    direct = moved.dim() - 1 == dim and source is self and outs[0].is_contiguous()
    values = outs[0] if direct else core.empty(shape, dtype=moved.dtype)
    positions = outs[1] if direct else core.empty(shape, dtype=core.int64)
    if count and length:
        run(code, moved, values, positions, count)
    if direct:
        return
    if self.dtype.code in UNSIGNED:
        values = (values ^ launch.int_limits(values.dtype)[0]).view(self.dtype)
    outs[0].copy_(values.movedim(-1, dim).reshape(outs[0].shape))
    outs[1].copy_(positions.movedim(-1, dim).reshape(outs[1].shape))


def _select_gradient(
    grad: core.Tensor, self_meta: Any, dim: int, positions: core.Tensor, keepdim: bool = True
) -> Any:
    """Send gradients back to the positions that were chosen along `dim`."""
    if not self_meta.dim():
        return grad.reshape(())
    if not keepdim:
        grad, positions = grad.unsqueeze(dim), positions.unsqueeze(dim)
    zero = F.zeros(self_meta.shape, dtype=grad.dtype, device=grad.device)
    return F.scatter(zero, dim, positions, grad)


def _pair(shape: Sequence[int], self: core.Tensor, last: bool = False) -> tuple[Any, Any]:
    if last:
        values = memory_order.empty(shape, self, last)
        return values, memory_order.empty(shape, self, last, core.int64)
    return (
        core.empty(shape, dtype=self.dtype, device=self.device),
        core.empty(shape, dtype=core.int64, device=self.device),
    )


@operator(
    "sort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> (Tensor "
    "values, Tensor indices)",
    overload="stable=stable",
    file_arguments={"stable.dim": "*dim", "stable.descending": "*descending"},
    quantized="moves",
    quantizers={"script": "shared"},
)
class sort:
    """Values in order along `dim`, and where they stood. The order is always stable."""

    vmap = "dims"
    alone = {0: "_sort_values"}

    def meta(self, dim, descending, stable):
        check_ordered("sort", self)
        wrap_dim("sort", dim, self.dim())
        return _pair(self.shape, self, memory_order.channels_last(self))

    def cpu(out, self, dim, descending, stable):
        dim = wrap_dim("sort", dim, self.dim())

        def run(code, rows, values, positions, count):
            core.kernel(f"sort:{code}")(
                (values, positions, rows), (count, rows.shape[-1], int(descending)), ()
            )

        along_rows(self, dim, self.shape[dim] if self.dim() else 1, out, run)

    def backward(grads, self_meta, dim, result_1):
        return _select_gradient(grads[0], self_meta, dim, result_1)

    def samples(S):
        yield (S(4, 5),), {}
        yield (S(4, 5), 0, True), {}

    def errors(S):
        yield (S(3), 2), {}, IndexError, "Dimension out of range"


@operator(
    "_sort_values(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> Tensor",
    names=(),
    out=False,
)
class _sort_values:
    """Values in order along `dim`: what a graph calls that does not read where they stood."""

    vmap = "dims"

    def meta(self, dim, descending, stable):
        check_ordered("sort", self)
        wrap_dim("sort", dim, self.dim())
        return memory_order.empty(self.shape, self, memory_order.channels_last(self))

    def cpu(out, self, dim, descending, stable):
        dim = wrap_dim("sort", dim, self.dim())
        code, source = sortable(self)
        if (
            source is not self or source.dim() - 1 != dim or not out.is_contiguous()
        ):  # dtypes and places of few programs
            out.copy_(F.sort(self, dim, descending, stable=stable)[0])
        elif source.numel():
            rows = source.contiguous()
            numbers = (rows.numel() // rows.shape[-1], rows.shape[-1], int(descending))
            core.kernel(f"sort_values:{code}")((out, rows), numbers, ())

    def backward(grad, self, dim, descending, stable):
        positions = F.sort(self, dim, descending, stable=stable)[1]
        return _select_gradient(grad, self, dim, positions)

    def samples(S):
        yield (S(4, 5),), {}
        yield (S(4, 50), 0, True), {}

    def errors(S):
        yield (S(3), 2), {}, IndexError, "Dimension out of range"


@composite(
    "argsort(Tensor self, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor",
    overload="stable=stable",
    file_arguments={"stable.dim": "*dim", "stable.descending": "*descending"},
)
def argsort(self, dim, descending, stable):
    """The positions that sort the tensor along `dim`."""
    return F.sort(self.detach(), dim, descending, stable=stable)[1]


@composite("msort(Tensor self) -> Tensor", quantized="moves")
def msort(self):
    """The tensor sorted along its first dimension."""
    return F.sort(self, 0)[0]


def _check_k(self: core.Tensor, k: int, dim: int) -> None:
    """Raise for more elements than there are along a dimension."""
    size = self.shape[dim] if self.dim() else 1
    if not 0 <= k <= size:
        fail(
            RuntimeError,
            "topk",
            "selected index k out of range",
            f"k={k} for a dimension of size {size}",
            hint=f"k={size} gives all of them",
        )


@operator(
    "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
    "Tensor indices)",
    quantized="moves",
)
class topk:
    """The `k` largest (or smallest) elements along `dim`, best first; among equals the earlier
    one.
    """

    vmap = "dims"
    alone = {0: "_topk_values"}

    def meta(self, k, dim, largest, sorted):
        if self.dtype.is_complex or self.dtype is core.bool_:
            fail(
                RuntimeError,
                "topk",
                f"topk does not support {self.dtype} dtypes on CPU",
                self.dtype,
                hint="x.int() makes numbers of bools, x.abs() orders complex numbers",
            )
        dim = wrap_dim("topk", dim, self.dim())
        _check_k(self, k, dim)
        shape = list(self.shape)
        if shape:
            shape[dim] = k
        elif k == 0:
            fail(
                RuntimeError,
                "topk",
                "k = 1 was required of a 0-d tensor",
                k,
                hint="x.reshape(1) takes k=0",
            )
        return _pair(shape, self)

    def cpu(out, self, k, dim, largest, sorted):
        dim = wrap_dim("topk", dim, self.dim())

        def run(code, rows, values, positions, count):
            core.kernel(f"topk:{code}")(
                (values, positions, rows), (count, rows.shape[-1], k, int(largest)), ()
            )

        along_rows(self, dim, k, out, run)

    def backward(grads, self_meta, dim, result_1):
        return _select_gradient(grads[0], self_meta, dim, result_1)

    def samples(S):
        yield (S(4, 5), 2), {}
        yield (S(4, 5), 3, 0, False), {}

    def errors(S):
        yield (S(3), 4), {}, RuntimeError, "selected index k out of range"


@operator(
    "_topk_values(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> Tensor",
    names=(),
    out=False,
)
class _topk_values:
    """The `k` largest (or smallest) elements: what a graph calls that does not read where."""

    vmap = "dims"

    def meta(self, k, dim, largest, sorted):
        check_ordered("topk", self)
        dim = wrap_dim("topk", dim, self.dim())
        _check_k(self, k, dim)
        shape = list(self.shape)
        shape[dim : dim + 1] = [k] if shape else []
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, k, dim, largest, sorted):
        dim = wrap_dim("topk", dim, self.dim())
        code, source = sortable(self)
        if source is not self or source.dim() - 1 != dim:  # dtypes and places of few programs
            out.copy_(F.topk(self, k, dim, largest, sorted)[0])
        elif out.numel():
            rows = source.contiguous()
            numbers = (rows.numel() // rows.shape[-1], rows.shape[-1], k, int(largest))
            core.kernel(f"topk_values:{code}")((out, rows), numbers, ())

    def backward(grad, self, k, dim, largest, sorted):
        positions = F.topk(self, k, dim, largest, sorted)[1]
        return _select_gradient(grad, self, dim, positions)

    def samples(S):
        yield (S(4, 5), 2), {}
        yield (S(4, 90), 3, 0, False), {}


def _reduced(self: core.Tensor, dim: int, keepdim: bool) -> list[int]:
    shape = list(self.shape)
    if not shape:
        return shape
    if keepdim:
        shape[dim] = 1
    else:
        del shape[dim]
    return shape


def _check_nonempty(op: str, self: core.Tensor, dim: int) -> None:
    if self.dim() and self.shape[dim] == 0:
        fail(
            IndexError,
            op,
            f"{op}(): Expected reduction dim {dim} to have non-zero size",
            list(self.shape),
            hint="there is no element to choose from: look at x.numel() first",
        )


def _place(self: Any, dim: int, keepdim: bool, k: int, mode: int, out: tuple[Any, Any]) -> None:
    """Run the kernel that finds the element at place k: `mode` 0 k, 1 median, 2 median without
    NaN.
    """
    shape = _reduced(self, dim, True)
    outs = tuple(o.reshape(shape or (1,)) for o in out)

    def run(code, rows, values, positions, count):
        core.kernel(f"kth:{code}")((values, positions, rows), (count, rows.shape[-1], k, mode), ())

    along_rows(self, dim, 1, outs, run)


def _not_bool(op: str, self: core.Tensor) -> None:
    check_ordered(op, self)
    if self.dtype is core.bool_:
        fail(
            NotImplementedError,
            op,
            "a number dtype was required",
            self.dtype,
            hint="convert it with .int()",
        )


@operator(
    "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
    "indices)",
    quantized="moves",
    apart=True,
)
class kthvalue:
    """The k-th smallest element (from 1) along `dim`, and its position."""

    vmap = "dims"

    def meta(self, k, dim, keepdim):
        _not_bool("kthvalue", self)
        dim = wrap_dim("kthvalue", dim, self.dim())
        _check_nonempty("kthvalue", self, dim)
        size = self.shape[dim] if self.dim() else 1
        if not 1 <= k <= size:
            fail(
                RuntimeError,
                "kthvalue",
                f"selected number k out of range for dimension {dim}",
                k,
                hint=f"k counts from 1, the smallest, to {size}, the largest",
            )
        return _pair(_reduced(self, dim, keepdim), self)

    def cpu(out, self, k, dim, keepdim):
        _place(self, wrap_dim("kthvalue", dim, self.dim()), keepdim, k - 1, 0, out)

    def backward(grads, self_meta, dim, keepdim, result_1):
        return _select_gradient(grads[0], self_meta, dim, result_1, keepdim)

    def samples(S):
        yield (S(4, 5), 2), {}
        yield (S(4, 5), 3, 0, True), {}

    def errors(S):
        yield (S(3), 5), {}, RuntimeError, "selected number k out of range"


def _define_median_along(name: str, mode: int) -> None:
    """The median along a dimension, and where it stands."""

    @operator(
        f"_{name}_dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        names=(),
        file_name=f"{name}.dim",
        node=f"{name.title()}Backward1",
    )
    class along:
        vmap = "dims"

        def meta(self, dim, keepdim):
            _not_bool(name, self)
            dim = wrap_dim(name, dim, self.dim())
            _check_nonempty(name, self, dim)
            return _pair(_reduced(self, dim, keepdim), self)

        def cpu(out, self, dim, keepdim):
            dim = wrap_dim(name, dim, self.dim())
            size = self.shape[dim] if self.dim() else 1
            _place(self, dim, keepdim, (size - 1) // 2, mode, out)

        def backward(grads, self_meta, dim, keepdim, result_1):
            return _select_gradient(grads[0], self_meta, dim, result_1, keepdim)


def _define_median_of_all(name: str, mode: int) -> None:
    """The median of all elements; its gradient is spread over the elements that equal it."""

    @operator(
        f"_{name}_all(Tensor self) -> Tensor", names=(), file_name=f"{name}.default",
        node=f"{name.title()}Backward0",
    )  # fmt: skip
    class whole:
        vmap = getattr(batch_forms, f"{name}_all")

        def meta(self):
            _not_bool(name, self)
            return core.empty((), dtype=self.dtype, device=self.device)

        def cpu(out, self):
            if self.numel() == 0:
                out.fill_(
                    float("nan")
                    if self.dtype.is_floating_point
                    else launch.int_limits(self.dtype)[0]
                )
                return
            position = core.empty((), dtype=core.int64)
            _place(self.reshape(-1), 0, False, (self.numel() - 1) // 2, mode, (out, position))

        def backward(grad, self, result):
            hit = (self == result) | ((self != self) & (result != result))
            return hit.to(grad.dtype) * (grad / hit.sum().to(grad.dtype))


def _define_median(name: str, mode: int, text: str) -> None:
    _define_median_along(name, mode)
    _define_median_of_all(name, mode)

    def either(self: Any, dim: int | None, keepdim: bool) -> Any:
        if dim is None:
            return getattr(F, f"_{name}_all")(self)
        values, positions = getattr(F, f"_{name}_dim")(self, dim, keepdim)
        return return_type_of(name, ("values", "indices"))(values, positions)

    either.__doc__ = text
    composite(
        f"{name}(Tensor self, int? dim=None, bool keepdim=False) -> (Tensor values, Tensor indices)",
        inlined=True,
    )(either)


_define_median(
    "median",
    1,
    "The lower median along `dim` with its position, or of all elements; NaN where there is any.",
)
_define_median(
    "nanmedian",
    2,
    "The lower median, NaN left out, along `dim` with its position, or of all elements.",
)


@operator(
    "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    quantized="moves",
)
class mode:
    """The value that occurs most often along `dim` (the smallest of several), and its last
    position.
    """

    vmap = "dims"

    convention = "the gradient goes to one of the equal elements"

    def meta(self, dim, keepdim):
        check_ordered("mode", self)
        dim = wrap_dim("mode", dim, self.dim())
        _check_nonempty("mode", self, dim)
        return _pair(_reduced(self, dim, keepdim), self)

    def cpu(out, self, dim, keepdim):
        dim = wrap_dim("mode", dim, self.dim())
        outs = tuple(o.reshape(_reduced(self, dim, True) or (1,)) for o in out)

        def run(code, rows, values, positions, count):
            length = rows.shape[-1]
            ordered, places = core.empty_like(rows), core.empty(rows.shape, dtype=core.int64)
            core.kernel(f"sort:{code}")((ordered, places, rows), (count, length, 0), ())
            core.kernel(f"mode:{code}")(
                (values, positions, ordered, places),
                (length,),
                (),
                total=count,
                grain=max(1, 8192 // length),
            )

        along_rows(self, dim, 1, outs, run)

    def backward(grads, self_meta, dim, keepdim, result_1):
        return _select_gradient(grads[0], self_meta, dim, result_1, keepdim)

    def samples(S):
        yield (S(4, 5).round(),), {}


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    op: str, self: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Any:
    """Sort, then interpolate between the two elements around place q * (n - 1)."""
    q = _check_quantile(op, self, q, interpolation)
    shape = [1] * self.dim() if dim is None else list(self.shape)
    if dim is None:
        rows = self.reshape(-1)
    else:
        dim = wrap_dim(op, dim, self.dim())
        if shape:
            shape[dim] = 1
        rows = self.movedim(dim, -1) if self.dim() else self.reshape((1,))
    ordered = F.sort(rows, -1)[0]
    missing = ordered.isnan()
    length = rows.shape[-1]
    if op == "quantile":
        last = (length - 1) * F.ones((*rows.shape[:-1], 1), dtype=self.dtype, device=self.device)
        place = q * last
        place = F.where(missing.any(-1, keepdim=True), last, place)
    else:
        place = (q * (length - missing.sum(-1, keepdim=True) - 1).to(self.dtype)).clamp(min=0)
    result = _interpolate(ordered, place, interpolation)
    if not keepdim:
        shape = list(rows.shape[:-1])
    elif dim is not None and self.dim():
        return _place_q(result, q, dim, self.dim())
    if q.dim() == 0:
        return result.reshape(shape)
    return result.movedim(-1, 0).reshape((q.numel(), *shape))


def _place_q(result: Any, q: Any, dim: int, ndim: int) -> Any:
    """From [..., q] to [q, ..., 1 at dim, ...]."""
    result = result.movedim(-1, 0)
    result = result.unsqueeze(dim + 1)
    return result.squeeze(0) if q.dim() == 0 else result


def _interpolate(ordered: Any, place: Any, interpolation: str) -> Any:
    if interpolation == "lower":
        place = place.floor()
    elif interpolation == "higher":
        place = place.ceil()
    elif interpolation == "nearest":
        place = place.round()
    below = place.to(core.int64)
    low = F.gather(ordered, -1, below)
    if interpolation not in ("linear", "midpoint"):
        return low
    weight = place - below.to(place.dtype)
    if interpolation == "midpoint":
        weight = F.where(weight > 0, F.full_like(weight, 0.5), weight)
    high = F.gather(ordered, -1, place.ceil().to(core.int64))
    return F.lerp(low, high, weight)


def _check_places(op: str, self: Any, q: Any) -> None:
    if q.dim() > 1:
        fail(
            RuntimeError,
            op,
            f"{op}() q must be a scalar or 1D tensor",
            f"{q.dim()} dimensions",
            hint="q.reshape(-1) is 1D",
        )
    if q.dtype is not self.dtype:
        fail(
            RuntimeError,
            op,
            f"{op}() q tensor must be same dtype as the input tensor",
            q.dtype,
            hint=cast_hint("q", self.dtype),
        )
    if q.device.type == "cpu" and q.numel() and batch_forms.anywhere(~((q >= 0) & (q <= 1))):
        fail(
            RuntimeError,
            op,
            f"{op}() q values must be in the range [0, 1]",
            hint="divide percentages by 100; q.isnan() finds nan",
        )


def _check_quantile(op: str, self: Any, q: Any, interpolation: str) -> Any:
    """Check everything and give q as a tensor of the dtype of `self`."""
    if interpolation not in INTERPOLATIONS:
        fail(
            RuntimeError,
            op,
            f"interpolation must be one of {', '.join(INTERPOLATIONS)}",
            interpolation,
            hint="leave it out for 'linear'",
        )
    if self.numel() == 0:
        fail(
            RuntimeError,
            op,
            f"{op}() input tensor must be non-empty",
            list(self.shape),
            hint="there is no element to choose from: look at x.numel() first",
        )
    if self.dtype is not core.float32 and self.dtype is not core.float64:
        fail(
            RuntimeError,
            op,
            f"{op}() input tensor must be either float or double dtype",
            self.dtype,
            hint="convert it with .float()",
        )
    if not isinstance(q, core.Tensor):
        if not 0 <= q <= 1:
            fail(
                RuntimeError,
                op,
                f"{op}() q must be in the range [0, 1]",
                q,
                hint="q=0.5 is the median; divide percentages by 100",
            )
        return F.full((), q, dtype=self.dtype, device=self.device)
    _check_places(op, self, q)
    return q


@composite(
    "quantile(Tensor self, Operand q, int? dim=None, bool keepdim=False, *, str "
    "interpolation='linear') -> Tensor",
    overload="q:Tensor=default, scalar",
    autocast="cpu float32",
)
def quantile(self, q, dim, keepdim, interpolation):
    """The q-quantiles along `dim` (of all elements when None); NaN where there is any. q: number or
    vector.
    """
    return _quantile("quantile", self, q, dim, keepdim, interpolation)


@composite(
    "nanquantile(Tensor self, Operand q, int? dim=None, bool keepdim=False, *, str "
    "interpolation='linear') -> Tensor",
    overload="q:Tensor=default, scalar",
    autocast="cpu float32",
)
def nanquantile(self, q, dim, keepdim, interpolation):
    """The q-quantiles along `dim`, NaN left out."""
    return _quantile("nanquantile", self, q, dim, keepdim, interpolation)
