"""Reductions: sums, products, counts, truth, variances, log-sum-exp.

Takes tensors of any layout; gives results without the reduced dimensions (or with ones there).
Keeps true: f32 sums are carried in f64 between blocks, half precision is computed in f32, results
do not depend on the number of threads; gradients are formulas over operators. Extremes stand in
`reduce_extreme`, norms in `reduce_norm`.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail, told
from facula.ops.reduce import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite, operator

_DIM = "int[1]? dim=None, bool keepdim=False"


def _total_dtype(self: core.Tensor, dtype: core.dtype | None) -> Any:
    if dtype is not None:
        return dtype
    return self.dtype if self.dtype.is_floating_point or self.dtype.is_complex else core.int64


def _summed_in(self: core.Tensor, dtype: core.dtype) -> Any:
    """The elements as `dtype`, which is what is added up; integers are read as they are for int64."""
    exact = self.dtype.is_floating_point or self.dtype.is_complex or dtype is not core.int64
    return self.to(dtype) if exact else self


def run_sum(kernel: str, out: object, x: core.Tensor, dims: tuple[int, ...]) -> None:
    """A sum-like reduction; the parts of complex numbers are one more kept dimension."""
    if x.dtype.is_complex:
        out, x = F.view_as_real(out), F.view_as_real(x)
    launch.run_reduction(kernel, (out,), x, dims)


@operator(
    f"sum(Tensor self, {_DIM}, *, dtype? dtype=None) -> Tensor",
    autocast="accelerator float32",
    overload="dim=dim_IntList",
    out_cast=True,
    node=lambda call: "SumBackward0" if not call.saved["dim"] else "SumBackward1",
)
class Sum:
    """The sum of the elements, over all or over some dimensions. Integers and bools add up in
    int64."""

    shards = "reduction sum"

    vmap = "dims"
    jvp = "linear"

    fast = "reduce"

    def meta(self, dim, keepdim, dtype):
        dims = launch.wrap_dims("sum", dim, self.dim())
        shape = launch.reduced_shape(self.shape, dims, keepdim)
        return core.empty(shape, dtype=_total_dtype(self, dtype), device=self.device)

    def cpu(out, self, dim, keepdim, dtype):
        self = _summed_in(self, out.dtype)
        run_sum("sum", out, self, launch.wrap_dims("sum", dim, self.dim()))

    def backward(grad, self_meta, dim, keepdim):
        dims = launch.wrap_dims("sum", dim, self_meta.dim())
        return launch.spread(grad, self_meta.shape, dims, keepdim).to(self_meta.dtype)

    def samples(S):
        yield (S(3, 4),), {}
        yield (S(3, 4, 5), 1), {}
        yield (S(3, 4, 5), (0, 2), True), {}

    def errors(S):
        yield (S(3), 2), {}, IndexError, "Dimension out of range"


@operator(
    f"nansum(Tensor self, {_DIM}, *, dtype? dtype=None) -> Tensor",
    out_cast=True,
    out_kind=True,
    overload="default",
)
class NanSum:
    """The sum of the elements that are not NaN."""

    shards = "reduction sum"

    vmap = "dims"

    def meta(self, dim, keepdim, dtype):
        if self.dtype.is_complex:
            fail(
                RuntimeError,
                "nansum",
                "nansum does not support complex inputs",
                self.dtype,
                hint="x[~x.isnan()].sum() leaves nan out",
            )
        dims = launch.wrap_dims("nansum", dim, self.dim())
        shape = launch.reduced_shape(self.shape, dims, keepdim)
        return core.empty(shape, dtype=_total_dtype(self, dtype), device=self.device)

    def cpu(out, self, dim, keepdim, dtype):
        if out.dtype is not self.dtype:
            if self.dtype.is_floating_point and not out.dtype.is_floating_point:
                self = self.nan_to_num(0.0, float("inf"), float("-inf"))  # no integer is NaN
            self = self.to(out.dtype)
        kernel = "nansum" if self.dtype.is_floating_point else "sum"
        run_sum(kernel, out, self, launch.wrap_dims("nansum", dim, self.dim()))

    def backward(grad, self, dim, keepdim):
        dims = launch.wrap_dims("nansum", dim, self.dim())
        return launch.spread(grad, self.shape, dims, keepdim).to(self.dtype) * F.logical_not(
            F.isnan(self)
        )

    def samples(S):
        yield (S(3, 4), 1), {}


def _mean_dtype(op: str, self: core.Tensor, dtype: core.dtype) -> Any:
    kind = dtype if dtype is not None else self.dtype
    if not (kind.is_floating_point or kind.is_complex):
        which = "Input" if dtype is None else "Optional"
        fail(
            NotImplementedError if op == "nanmean" else RuntimeError,
            op,
            f"{op}(): could not infer output dtype. {which} dtype must be either a floating "
            f"point or complex dtype. Got: {kind.type_word}",
            kind,
            f"convert first: x.float().{op}()",
        )
    return kind


@operator(
    f"mean(Tensor self, {_DIM}, *, dtype? dtype=None) -> Tensor",
    out_cast=True,
    out_kind=True,
    quantized="averages",
    quantizers={"fx": "shared", "xnnpack": "shared"},
    node=lambda call: "MeanBackward0" if not call.saved["dim"] else "MeanBackward1",
)
class Mean:
    """The mean of the elements, over all or over some dimensions."""

    shards = "reduction avg"

    vmap = "dims"
    jvp = "linear"

    fast = "reduce"

    def meta(self, dim, keepdim, dtype):
        kind = _mean_dtype("mean", self, dtype)
        dims = launch.wrap_dims("mean", dim, self.dim())
        return core.empty(
            launch.reduced_shape(self.shape, dims, keepdim), dtype=kind, device=self.device
        )

    def cpu(out, self, dim, keepdim, dtype):
        if out.dtype is not self.dtype and out.dtype in (core.float16, core.bfloat16):
            # elements that 16 bits do not hold may have a mean that they hold
            out.copy_(F.mean(self.to(core.float32), dim, keepdim))
            return
        if out.dtype is not self.dtype:
            self = self.to(out.dtype)
        run_sum("mean", out, self, launch.wrap_dims("mean", dim, self.dim()))

    def backward(grad, self_meta, dim, keepdim):
        dims = launch.wrap_dims("mean", dim, self_meta.dim())
        grad = grad / launch.count(self_meta.shape, dims) if self_meta.numel() else grad
        return launch.spread(grad, self_meta.shape, dims, keepdim).to(self_meta.dtype)

    def samples(S):
        yield (S(3, 4),), {}
        yield (S(3, 4, 5), (0, 2), True), {}

    def errors(S):
        yield (S(3, dtype=core.int64),), {}, RuntimeError, "could not infer output dtype"


@composite(
    f"nanmean(Tensor self, {_DIM}, *, dtype? dtype=None) -> Tensor",
    out_cast=True,
    quantized="averages",
)
def nanmean(self, dim, keepdim, dtype):
    """The mean of the elements that are not NaN."""
    _mean_dtype("nanmean", self, dtype)
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        fail(
            RuntimeError,
            "nanmean",
            "nanmean(): expected input to have floating point or complex dtype",
            self.dtype,
            "integers hold no NaN: mean() of the converted tensor is the same",
        )
    present = F.logical_not(F.isnan(self)).sum(dim, keepdim)
    return F.nansum(self, dim, keepdim, dtype=dtype) / present


def _exclusive_product(x: core.Tensor, dim: int) -> Any:
    """For each place the product of what stands before it."""
    length = x.shape[dim]
    one = F.ones_like(x.narrow(dim, 0, 1))
    return F.cat([one, x.narrow(dim, 0, length - 1)], dim).cumprod(dim)


def _product_gradient(grad: core.Tensor, x: core.Tensor, dim: int) -> Any:
    """Each element's share is the product of all others, also where there are zeros."""
    if x.shape[dim] == 0:
        return F.zeros_like(x)
    before = _exclusive_product(x, dim)
    after = _exclusive_product(x.flip(dim), dim).flip(dim)
    return grad * (before * after).conj()


@operator(
    "prod(Tensor self, int? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
    overload="dim=dim_int",
    autocast="float32",
    out_cast=True,
    node=lambda call: "ProdBackward0" if not call.saved["dim"] else "ProdBackward1",
)
class Prod:
    """The product of the elements, over all or along one dimension. Integers and bools multiply in
    int64."""

    shards = "reduction -"

    vmap = "dims"

    def meta(self, dim, keepdim, dtype):
        dims = launch.wrap_dims("prod", dim, self.dim())
        shape = launch.reduced_shape(self.shape, dims, keepdim)
        return core.empty(shape, dtype=_total_dtype(self, dtype), device=self.device)

    def cpu(out, self, dim, keepdim, dtype):
        self = _summed_in(self, out.dtype)
        dims = launch.wrap_dims("prod", dim, self.dim())
        if self.dtype.is_complex:
            _complex_product(out, self, dims)
        else:
            run_sum("prod", out, self, dims)

    def backward(grad, self, dim, keepdim):
        factors = _summed_in(self, grad.dtype)
        if dim is None or self.dim() == 0:
            gradient = _product_gradient(grad.reshape(-1), factors.reshape(-1), 0)
            gradient = gradient.reshape(self.shape)
        else:
            d = wrap_dim("prod", dim, self.dim())
            gradient = _product_gradient(launch.restore(grad, (d,), keepdim), factors, d)
        return gradient.to(self.dtype)

    def samples(S):
        yield (S(3, 4),), {}
        yield (S(3, 4), 1, True), {}


def _complex_product(out: core.Tensor, x: core.Tensor, dims: tuple[int, ...]) -> None:
    """Multiply halves together until one is left: as accurate as in sequence, and a few large
    steps."""
    x = x.movedim(dims[0], 0) if len(dims) == 1 else x.reshape(-1)
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        rest = x.narrow(0, 2 * half, x.shape[0] - 2 * half)
        x = F.cat([x.narrow(0, 0, half) * x.narrow(0, half, half), rest], 0)
    if x.shape[0] == 1:
        out.copy_(x.reshape(out.shape))
    else:
        out.fill_(1)


@operator(
    "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
    out=False,
    overload="dim:int=default, dim=dim_IntList, default",
)
class CountNonzero:
    """How many elements differ from zero."""

    reduces = True
    vmap = "dims"

    def meta(self, dim):
        dims = launch.wrap_dims("count_nonzero", dim, self.dim())
        shape = launch.reduced_shape(self.shape, dims, False)
        return core.empty(shape, dtype=core.int64, device=self.device)

    def cpu(out, self, dim):
        dims = launch.wrap_dims("count_nonzero", dim, self.dim())
        x = self if core.has_kernel(f"count_nonzero:{self.dtype.code}") else self != 0
        launch.run_reduction("count_nonzero", (out,), x, dims)

    def samples(S):
        yield (S(3, 4), 1), {}


def _truth_dims(op: str, self: core.Tensor, dim: tuple[Any, ...] | None) -> tuple[int, ...]:
    """Unlike a sum, the truth of no dimension is each element's own."""
    return () if isinstance(dim, tuple) and not dim else launch.wrap_dims(op, dim, self.dim())


def _truth(op: str, self: core.Tensor, dim: tuple[Any, ...] | None, keepdim: bool) -> Any:
    dims = _truth_dims(op, self, dim)
    dtype = core.uint8 if self.dtype is core.uint8 else core.bool_
    return core.empty(
        launch.reduced_shape(self.shape, dims, keepdim), dtype=dtype, device=self.device
    )


def _run_truth(op: str, out: core.Tensor, self: core.Tensor, dim: tuple[Any, ...] | None) -> None:
    dims = _truth_dims(op, self, dim)
    if not dims and self.dim():
        out.copy_(self != 0)
        return
    x = self if core.has_kernel(f"{op}:{self.dtype.code}") else self != 0
    launch.run_reduction(op, (out,), x, dims)


@operator(
    f"any(Tensor self, {_DIM}) -> Tensor",
    overload="dim:int=dim, dim=dims, default",
    out_cast="bool uint8",
)
class Any_:
    """Whether any element differs from zero. bool, and uint8 for uint8."""

    shards = "reduction -"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _truth("any", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        _run_truth("any", out, self, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


@operator(
    f"all(Tensor self, {_DIM}) -> Tensor",
    overload="dim:int=dim, dim=dims, default",
    out_cast="bool uint8",
)
class All:
    """Whether every element differs from zero. bool, and uint8 for uint8."""

    shards = "reduction -"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _truth("all", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        _run_truth("all", out, self, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


# --- variance and standard deviation: the operators take the correction; `unbiased=` is read by the
# composites
_SPREAD = "Tensor self, int[1]? dim, float correction, bool keepdim"
_SPREAD_IN_FILES = {"correction": "*correction", "keepdim": "*keepdim", "dim": "dim[]"}


def _spread_shape(
    op: str, self: core.Tensor, dim: tuple[Any, ...] | None, keepdim: bool
) -> tuple[int, ...]:
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        fail(
            RuntimeError,
            op,
            f"{op}: {op} only support floating point and complex dtypes",
            self.dtype,
            f"convert first: x.float().{op}()",
        )
    return launch.reduced_shape(self.shape, launch.wrap_dims(op, dim, self.dim()), keepdim)


def _real_spread(
    kernel: str,
    outs: tuple[Any, ...],
    self: core.Tensor,
    dim: tuple[Any, ...] | None,
    correction: float,
) -> None:
    dims = launch.wrap_dims(kernel, dim, self.dim())
    if outs[0].numel() and self.numel() // outs[0].numel() <= correction:
        told(
            kernel,
            f"{kernel}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            "correction=0 divides by the number of elements",
        )
    launch.run_reduction(kernel, outs, self, dims, (float(correction),))
    if not _squares_fit(outs[0], self, kernel.startswith("std"), correction):
        wide = tuple(core.empty(out.shape, dtype=core.float64) for out in outs)
        launch.run_reduction(kernel, wide, self.to(core.float64), dims, (float(correction),))
        for out, result in zip(outs, wide, strict=True):
            out.copy_(result)


def _squares_fit(out: core.Tensor, x: core.Tensor, root: bool, correction: float) -> bool:
    """Whether no spread in `out` says that squared deviations left the range of float32, in which
    they are added up; those of float16 never do, those of float64 have no wider one."""
    count = x.numel() // max(out.numel(), 1)
    if x.dtype not in (core.float32, core.bfloat16) or count <= correction or out.numel() == 0:
        return True
    limits = core.finfo(core.float32)
    least = count * limits.tiny / (count - correction)  # below, the sum has lost digits
    return launch.inside(out, math.sqrt(least) if root else least, limits.max)


def _variance_gradient(
    grad: core.Tensor, self: Any, dim: tuple[Any, ...], correction: float, keepdim: bool
) -> Any:
    dims = launch.wrap_dims("var", dim, self.dim())
    # a size that stands for many stays one: no float is computed from it
    whole = math.isfinite(correction) and correction == int(correction)
    freedom = launch.count(self.shape, dims) - (int(correction) if whole else correction)
    grad = launch.restore(grad, dims, keepdim)
    centred = self - self.mean(dims, True) if dims else self - self
    scaled = grad * 2 / freedom if freedom > 0 else grad * float("inf")
    return scaled * centred


def _deviation_gradient(
    grad: core.Tensor,
    result: core.Tensor,
    self: Any,
    dim: tuple[Any, ...],
    correction: float,
    keepdim: bool,
) -> Any:
    half = (grad / (result * 2)).masked_fill(result == 0, 0)
    return _variance_gradient(half, self, dim, correction, keepdim)


def _spread_samples(S: Any) -> Any:
    yield (S(3, 4), (1,), 1.0, False), {}


#: what the definitions of the family share
_SPREAD_SAYS: dict[str, Any] = {
    "names": (), "out": False, "vmap": "dims", "file_arguments": _SPREAD_IN_FILES,
}  # fmt: skip


@operator(
    f"var_correction({_SPREAD}) -> Tensor",
    node="VarBackward0",
    file_name="var.correction",
    **_SPREAD_SAYS,
)
class Variance:
    """The variance with `count - correction` degrees of freedom."""

    shards = "spread"

    def meta(self, dim, correction, keepdim):
        shape = _spread_shape("var", self, dim, keepdim)
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, correction, keepdim):
        _real_spread("var", (out,), self, dim, correction)

    def backward(grad, self, dim, correction, keepdim):
        return _variance_gradient(grad, self, dim, correction, keepdim)

    samples = _spread_samples


@operator(
    f"std_correction({_SPREAD}) -> Tensor",
    quantized="same range",
    node="StdBackward0",
    file_name="std.correction",
    **_SPREAD_SAYS,
)
class Deviation:
    """The square root of the variance."""

    shards = "spread"

    def meta(self, dim, correction, keepdim):
        shape = _spread_shape("std", self, dim, keepdim)
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, correction, keepdim):
        _real_spread("std", (out,), self, dim, correction)

    def backward(grad, result, self, dim, correction, keepdim):
        return _deviation_gradient(grad, result, self, dim, correction, keepdim)

    samples = _spread_samples


def _pair(op: str, self: Any, dim: tuple[Any, ...], keepdim: bool) -> tuple[Any, Any]:
    shape = _spread_shape(op, self, dim, keepdim)
    return (
        core.empty(shape, dtype=self.dtype, device=self.device),
        core.empty(shape, dtype=self.dtype, device=self.device),
    )


def _add_mean_gradient(gradient: Any, grad: core.Tensor, self: Any, dim: Any, keepdim: bool) -> Any:
    dims = launch.wrap_dims("mean", dim, self.dim())
    part = launch.spread(grad / launch.count(self.shape, dims), self.shape, dims, keepdim)
    return part if gradient is None else gradient + part


@operator(
    f"var_mean_correction({_SPREAD}) -> (Tensor, Tensor)",
    node="VarMeanBackward0",
    file_name="var_mean.correction",
    **_SPREAD_SAYS,
)
class VarianceMean:
    """Variance and mean from one pass over memory."""

    shards = "spread 2"

    def meta(self, dim, correction, keepdim):
        return _pair("var_mean", self, dim, keepdim)

    def cpu(out, self, dim, correction, keepdim):
        _real_spread("var_mean", out, self, dim, correction)

    def backward(grads, self, dim, correction, keepdim):
        gradient = None
        if grads[0] is not None:
            gradient = _variance_gradient(grads[0], self, dim, correction, keepdim)
        if grads[1] is not None:
            gradient = _add_mean_gradient(gradient, grads[1], self, dim, keepdim)
        return gradient

    samples = _spread_samples


@operator(
    f"std_mean_correction({_SPREAD}) -> (Tensor, Tensor)",
    node="StdMeanBackward0",
    file_name="std_mean.correction",
    **_SPREAD_SAYS,
)
class DeviationMean:
    """Standard deviation and mean from one pass over memory."""

    shards = "spread 2"

    def meta(self, dim, correction, keepdim):
        return _pair("std_mean", self, dim, keepdim)

    def cpu(out, self, dim, correction, keepdim):
        _real_spread("std_mean", out, self, dim, correction)

    def backward(grads, result_0, self, dim, correction, keepdim):
        gradient = None
        if grads[0] is not None:
            gradient = _deviation_gradient(grads[0], result_0, self, dim, correction, keepdim)
        if grads[1] is not None:
            gradient = _add_mean_gradient(gradient, grads[1], self, dim, keepdim)
        return gradient

    samples = _spread_samples


def _read_spread(
    op: str, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> tuple[Any, float, bool]:
    """`var(unbiased)`, `var(dim, unbiased, keepdim)` and `var(dim, correction=, keepdim=)` in one
    form."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        fail(
            TypeError,
            op,
            "one of unbiased= and correction=",
            "both",
            hint="correction=1 is the same as unbiased=True",
        )
    if correction is None:
        correction = 1.0 if unbiased is None or unbiased else 0.0
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None and not isinstance(dim, (tuple, list)):
        required = "an int or a tuple of ints was required: argument 'dim' must be tuple of ints"
        hint = f"{op}(x, 0) is along the first dimension, {op}(x) over all elements"
        fail(TypeError, op, required, type(dim).__name__, hint)
    return (None if dim is None else tuple(dim)), float(correction), keepdim


_SPREAD_RULE = "correction=correction, dim:bool=default, dim=dim"
_SPREAD_NAMES = {"default.dim": "unbiased", "dim": "dim[]"}
_READ = "any dim=None, any unbiased=None, bool keepdim=False, *, Number? correction=None"


def _complex_variance(self: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    parts = (F.real(self), F.imag(self))
    return F.var_correction(parts[0], dim, correction, keepdim) + F.var_correction(
        parts[1], dim, correction, keepdim
    )


def _root(variance: Any) -> Any:
    """The square root; equal numbers, whose variance is 0, get no gradient."""
    none = variance == 0
    return F._where(none, variance.detach(), F._where(none, 1.0, variance).sqrt())


@composite(
    f"var(Tensor self, {_READ}) -> Tensor",
    overload=_SPREAD_RULE,
    file_arguments=_SPREAD_NAMES,
    out_cast=True,
)
def var(self, dim, unbiased, keepdim, correction):
    """The variance, over all or over some dimensions, with `count - correction` degrees of freedom
    (1 by default)."""
    dim, correction, keepdim = _read_spread("var", dim, unbiased, keepdim, correction)
    if self.dtype.is_complex:
        return _complex_variance(self, dim, correction, keepdim)
    return F.var_correction(self, dim, correction, keepdim)


@composite(
    f"std(Tensor self, {_READ}) -> Tensor",
    overload=_SPREAD_RULE,
    file_arguments=_SPREAD_NAMES,
    out_cast=True,
)
def std(self, dim, unbiased, keepdim, correction):
    """The standard deviation, over all or over some dimensions; arguments as in `var`."""
    dim, correction, keepdim = _read_spread("std", dim, unbiased, keepdim, correction)
    if self.dtype.is_complex:
        return _root(_complex_variance(self, dim, correction, keepdim))
    return F.std_correction(self, dim, correction, keepdim)


@composite(
    f"var_mean(Tensor self, {_READ}) -> (Tensor, Tensor)",
    overload=_SPREAD_RULE,
    file_arguments=_SPREAD_NAMES,
    names=("var_mean",),
    out=False,
)
def var_mean(self, dim, unbiased, keepdim, correction):
    """Variance and mean; arguments as in `var`."""
    dim, correction, keepdim = _read_spread("var_mean", dim, unbiased, keepdim, correction)
    if self.dtype.is_complex:
        return _complex_variance(self, dim, correction, keepdim), self.mean(dim, keepdim)
    return tuple(F.var_mean_correction(self, dim, correction, keepdim))


@composite(
    f"std_mean(Tensor self, {_READ}) -> (Tensor, Tensor)",
    overload=_SPREAD_RULE,
    file_arguments=_SPREAD_NAMES,
    names=("std_mean",),
    out=False,
)
def std_mean(self, dim, unbiased, keepdim, correction):
    """Standard deviation and mean; arguments as in `var`."""
    dim, correction, keepdim = _read_spread("std_mean", dim, unbiased, keepdim, correction)
    if self.dtype.is_complex:
        variance = _complex_variance(self, dim, correction, keepdim)
        return _root(variance), self.mean(dim, keepdim)
    return tuple(F.std_mean_correction(self, dim, correction, keepdim))


# --- log-sum-exp


def _exponential_shares(
    x: core.Tensor, result: core.Tensor, dims: tuple[int, ...], keepdim: bool, anew: bool = False
) -> Any:
    """Each element's exponential as a share of their sum, whose logarithm `result` is: that of large elements has lost
    what the sum still tells, which is taken `anew`."""
    if not (x.is_complex() or anew):
        return (x - launch.restore(result, dims, keepdim)).exp()
    # the angle of a large logarithm is coarse: the sum is taken again
    top = F.real(x).amax(dims, True)
    share = (x - F.where(top.isfinite(), top, 0.0)).exp()
    return share / share.sum(dims, True)


@operator(
    "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    names=("logsumexp", "Tensor.logsumexp", "special.logsumexp"),
    out_cast=True,
    autocast="accelerator float32",
)
class LogSumExp:
    """log of the sum of exponentials, shifted so that nothing overflows."""

    vmap = "dims"

    def meta(self, dim, keepdim):
        dims = launch.wrap_dims("logsumexp", dim, self.dim())
        inexact = self.dtype.is_floating_point or self.dtype.is_complex
        dtype = self.dtype if inexact else core.get_default_dtype()
        shape = launch.reduced_shape(self.shape, dims, keepdim)
        return core.empty(shape, dtype=dtype, device=self.device)

    def cpu(out, self, dim, keepdim):
        dims = launch.wrap_dims("logsumexp", dim, self.dim())
        if self.dtype.is_complex:
            top = F.real(self).amax(dims, True)
            top = F.where(top.isfinite(), top, 0.0)
            total = (self - top).exp().sum(dims, True).log() + top
            out.copy_(total.reshape(out.shape))
            return
        x = self if self.dtype.is_floating_point else self.to(out.dtype)
        x = launch.stored(x, "logsumexp")
        wide = out if x.dtype is out.dtype else core.empty(out.shape, dtype=x.dtype)
        launch.run_reduction("logsumexp", (wide,), x, dims)
        if wide is not out:
            out.copy_(wide)

    def backward(grad, self, result, dim, keepdim):
        dims = launch.wrap_dims("logsumexp", dim, self.dim())
        share = _exponential_shares(self, result, dims, keepdim)
        return launch.restore(grad, dims, keepdim) * share.conj()

    def jvp(tangents, result, self, dim, keepdim):
        dims = launch.wrap_dims("logsumexp", dim, self.dim())
        share = _exponential_shares(self, result, dims, keepdim, True)
        return (share * tangents[0]).sum(dims, keepdim)

    def samples(S):
        yield (S(3, 4), 1), {}
        yield (S(3, 4), (0, 1), True), {}
