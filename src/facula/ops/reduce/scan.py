"""Running sums, products, extremes and log-sum-exps along one dimension.

Takes tensors of any layout; gives results of the same shape. Keeps true: f32 sums and products are
carried in f64; integers and bools add up and multiply in int64; the running extreme names the last
of equal values, and NaN stays.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, operator


def _run(kernel: str, outs: tuple[Any, ...], x: core.Tensor, dim: int) -> None:
    """Scan contiguous memory; complex parts are one more dimension behind."""
    d = wrap_dim(kernel, dim, x.dim())
    x = x.contiguous()
    if x.dtype.is_complex:
        x, outs = F.view_as_real(x), tuple(F.view_as_real(out) for out in outs)
        sizes = launch.along(x, d) if x.dim() > 1 else (1, 1, 2)
    else:
        sizes = launch.along(x, d)
    core.kernel(f"{kernel}:{x.dtype.code}")((*outs, x), sizes)


def _dtype(self: core.Tensor, dtype: core.dtype | None) -> Any:
    if dtype is not None:
        return dtype
    return self.dtype if self.dtype.is_floating_point or self.dtype.is_complex else core.int64


def _like(op: str, self: core.Tensor, dim: int, dtype: core.dtype) -> Any:
    wrap_dim(op, dim, self.dim())
    return core.empty(self.shape, dtype=dtype, device=self.device)


def _native(dtype: core.dtype) -> bool:
    return dtype.code in launch.FLOATING or dtype is core.int64 or dtype.is_complex


def _run_wide(kernel: str, out: core.Tensor, self: core.Tensor, dim: int) -> None:
    """Sums and products: in the dtype of the result, or in int64 where that has no kernel."""
    if _native(out.dtype):
        _run(kernel, (out,), self.to(out.dtype), dim)
        return
    wide = core.float32 if out.dtype.is_floating_point else core.int64
    result = core.empty(self.shape, dtype=wide)
    _run(kernel, (result,), self.to(out.dtype).to(wide), dim)
    out.copy_(result)


def reversed_cumsum(x: core.Tensor, dim: int) -> Any:
    """The sum of each element and all after it."""
    if x.dim() == 0:
        return x
    return x.flip(dim).cumsum(dim).flip(dim)


@operator(
    "cumsum(Tensor self, int dim, *, dtype? dtype=None) -> Tensor",
    out_cast=True,
    inplace=True,
    autocast="accelerator float32",
)
class Cumsum:
    """The running sum along `dim`."""

    vmap = "dims"
    jvp = "linear"

    def meta(self, dim, dtype):
        return _like("cumsum", self, dim, _dtype(self, dtype))

    def cpu(out, self, dim, dtype):
        _run_wide("cumsum", out, self, dim)

    def backward(grad, self_meta, dim):
        return reversed_cumsum(grad, dim).to(self_meta.dtype)

    def samples(S):
        yield (S(3, 4), 1), {}
        yield (S(3, 4, 5), 1), {}

    def errors(S):
        yield (S(3), 1), {}, IndexError, "Dimension out of range"


@operator(
    "cumprod(Tensor self, int dim, *, dtype? dtype=None) -> Tensor",
    out_cast=True,
    inplace=True,
    autocast="accelerator float32",
)
class Cumprod:
    """The running product along `dim`."""

    vmap = "dims"

    def meta(self, dim, dtype):
        return _like("cumprod", self, dim, _dtype(self, dtype))

    def cpu(out, self, dim, dtype):
        if out.dtype.is_complex:
            _complex_cumprod(out, self.to(out.dtype), wrap_dim("cumprod", dim, self.dim()))
        else:
            _run_wide("cumprod", out, self, dim)

    def backward(grad, self, result, dim):
        return _cumprod_gradient(grad, self, result, dim).to(self.dtype)

    def samples(S):
        yield (S(3, 4), 1), {}


def _complex_cumprod(out: core.Tensor, x: core.Tensor, dim: int) -> None:
    """Doubling: after step k each place holds the product of the 2**k elements up to it."""
    out.copy_(x)
    length, step = (x.shape[dim] if x.dim() else 1), 1
    while step < length:
        later, earlier = out.narrow(dim, step, length - step), out.narrow(dim, 0, length - step)
        later.copy_(later * earlier)
        step *= 2


def _cumprod_gradient(grad: core.Tensor, x: core.Tensor, result: core.Tensor, dim: int) -> Any:
    """Element i has a share in every product from i on."""
    # Away from zeros the share is (sum of grad * result from i on) / x. Behind the first zero all
    # products vanish; at the first zero itself the products are those of the same elements with a one
    # in its place.
    if x.dim() == 0:
        return grad
    zero = x == 0
    if core.is_grad_enabled() and not x.is_meta and batch_forms.anywhere(zero):
        return _cumprod_gradient_by_element(grad, x, dim)
    first = F.logical_and(zero, zero.cumsum(dim) == 1)
    one, nothing = launch.full(x, (), 1), launch.full(x, (), 0)
    regular = reversed_cumsum(grad * result.conj(), dim) / F.where(zero, one, x).conj()
    bridged = F.where(first, one, x).cumprod(dim)
    at_first = reversed_cumsum(grad * bridged.conj(), dim)
    return F.where(first, at_first, F.where(zero, nothing, regular))


def _cumprod_gradient_by_element(grad: core.Tensor, x: core.Tensor, dim: int) -> Any:
    """The same without a division or a choice: right to any order of derivative, in quadratic time."""
    parts = []
    length = x.shape[dim]
    for k in range(length):
        one = F.ones_like(x.narrow(dim, 0, 1))
        before = F.cat([one, x.narrow(dim, 0, k)], dim).prod(dim, True)
        after = F.cat([one, x.narrow(dim, k + 1, length - k - 1)], dim).cumprod(dim)
        product = (before * after).conj()
        parts.append((grad.narrow(dim, k, length - k) * product).sum(dim, True))
    return F.cat(parts, dim)


def _running(op: str, self: core.Tensor, dim: int) -> tuple[Any, Any]:
    core.refuse_unsigned(op, self)
    if self.dim() == 0 and dim not in (0, -1):
        fail(
            IndexError,
            op,
            f"Expected reduction dim -1 or 0 for scalar but got {dim}",
            hint="a tensor without dimensions has dim=0 and dim=-1 only",
        )
    return _like(op, self, dim, self.dtype), _like(op, self, dim, core.int64)


def _run_extreme(op: str, out: tuple[Any, Any], self: core.Tensor, dim: int) -> None:
    if _native(self.dtype):
        _run(op, out, self, dim)
        return
    wide = core.float32 if self.dtype.is_floating_point else core.int64
    values = core.empty(self.shape, dtype=wide)
    _run(op, (values, out[1]), self.to(wide), dim)
    out[0].copy_(values)


def _to_positions(grad: core.Tensor, self_meta: Any, positions: object, dim: int) -> Any:
    if self_meta.dim() == 0:
        return grad
    return F.scatter_add(launch.full(self_meta, self_meta.shape, 0), dim, positions, grad)


@operator("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)")
class Cummax:
    """The largest element so far, and where it stands (the last of equal ones)."""

    vmap = "dims"

    def meta(self, dim):
        return _running("cummax", self, dim)

    def cpu(out, self, dim):
        _run_extreme("cummax", out, self, dim)

    def backward(grads, self_meta, result_1, dim):
        return _to_positions(grads[0], self_meta, result_1, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


@operator("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)")
class Cummin:
    """The smallest element so far, and where it stands (the last of equal ones)."""

    vmap = "dims"

    def meta(self, dim):
        return _running("cummin", self, dim)

    def cpu(out, self, dim):
        _run_extreme("cummin", out, self, dim)

    def backward(grads, self_meta, result_1, dim):
        return _to_positions(grads[0], self_meta, result_1, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


def _complex_logcumsumexp(x: core.Tensor, dim: int) -> Any:
    """Sums over twice as many elements in each step, until they reach the start."""
    length, step = (x.shape[dim], 1) if x.dim() else (1, 1)
    while step < length:
        rest = length - step
        joined = F.logaddexp(x.narrow(dim, step, rest), x.narrow(dim, 0, rest))
        x, step = F.cat([x.narrow(dim, 0, step), joined], dim), 2 * step
    return x


def _logarithmic_sum(factors: core.Tensor, x: core.Tensor, result: object, dim: int) -> Any:
    """The running sums of ``factors * exp(x)``, divided by ``exp(result)``, by way of logarithms."""
    lowest = launch.full(x, (), core.finfo(x.dtype).min)  # finite: differences of two are numbers
    size = F.where(factors == 0, 1.0, factors if x.is_complex() else factors.abs()).log() + x

    def share(chosen: core.Tensor) -> Any:
        return (F.where(chosen, size, lowest).logcumsumexp(dim) - result).exp()

    return share(factors != 0) if x.is_complex() else share(factors > 0) - share(factors < 0)


@operator("logcumsumexp(Tensor self, int dim) -> Tensor")
class Logcumsumexp:
    """log of the running sum of exponentials."""

    vmap = "dims"

    def jvp(tangents, result, self, dim):
        tangent = tangents[0]
        if self.dim() == 0:
            return tangent
        if self.is_complex():
            return _logarithmic_sum(tangent, self, result, dim)
        share = (self - self.amax(dim, True)).exp()
        total = share.cumsum(dim)
        # what stands far below a later maximum vanishes beside it: its sums are taken of logarithms
        near = total > core.finfo(total.dtype).tiny ** 0.5
        direct = (share * tangent).cumsum(dim) / F.where(near, total, 1.0)
        far = _logarithmic_sum(tangent, self, result, dim)
        return F.where(near, direct, far)

    def meta(self, dim):
        inexact = self.dtype.is_floating_point or self.dtype.is_complex
        dtype = self.dtype if inexact else core.get_default_dtype()
        return _like("logcumsumexp", self, dim, dtype)

    def cpu(out, self, dim):
        if self.dtype.is_complex:
            out.copy_(_complex_logcumsumexp(self, dim))
            return
        _run("logcumsumexp", (out,), self.to(out.dtype), dim)

    def backward(grad, self, result, dim):
        if self.dim() == 0:
            return grad
        if self.dtype.is_complex:
            lowest = launch.full(grad, (), core.finfo(grad.dtype).min)
            part = F.where(grad == 0, lowest, grad.conj().log()) - result
            return (part.flip(dim).logcumsumexp(dim).flip(dim) + self).exp().conj()
        # finite, so that a difference of two of them is a number
        lowest = launch.full(grad, (), core.finfo(grad.dtype).min)
        size = grad.abs().log()

        def share(chosen: core.Tensor) -> Any:
            part = F.where(chosen, size, lowest) - result
            return (part.flip(dim).logcumsumexp(dim).flip(dim) + self).exp()

        return share(grad > 0) - share(grad < 0)

    def samples(S):
        yield (S(3, 4), 1), {}
