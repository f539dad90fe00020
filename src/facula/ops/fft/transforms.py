"""Discrete Fourier transforms: the three primitives, and the one-dimensional family.

Takes real or complex tensors of any strides; gives contiguous spectra. The sums are kernels of our
own (`fft_launch.py`, `fft_plan.py`); half precision is computed in float32 and rounded once. Keeps
true: a transform is linear and its gradient is another transform, so derivatives of any order
follow; `norm` says where the factor 1/n goes, and a pair of transforms has it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.fft import launch as fft_launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite, operator

#: how a primitive scales: not, by 1 / sqrt(n), by 1 / n
NONE, ROOT, WHOLE = 0, 1, 2
_FORWARD = {None: NONE, "backward": NONE, "ortho": ROOT, "forward": WHOLE}
_INVERSE = {None: WHOLE, "backward": WHOLE, "ortho": ROOT, "forward": NONE}


def scaling(norm: str | None, forward: bool) -> int:
    """The scaling of a transform in PyTorch's `norm`."""
    table = _FORWARD if forward else _INVERSE
    if norm not in table:
        fail(
            RuntimeError,
            "fft",
            f'Invalid normalization mode: "{norm}"',
            repr(norm),
            "use 'forward', 'backward' or 'ortho'",
        )
    return table[norm]


def _computed(write: Callable[..., Any], out: core.Tensor, x: core.Tensor, *arguments: Any) -> None:
    """`write(out, x, ...)`, by way of float32 where numbers have 16 bits."""
    if x.dtype.code not in ("f16", "c32"):
        write(out, x, *arguments)
        return
    wide = core.complex64 if out.dtype.is_complex else core.float32
    result = core.empty(out.shape, dtype=wide, device=out.device)
    write(result, x.to(core.complex64 if x.dtype.is_complex else core.float32), *arguments)
    out.copy_(result)


def _flops(self: Any, dim: Any) -> int:
    size = prod(self.shape[d] for d in dim)
    return int(5 * self.numel() * log2(max(size, 2)))


@operator(
    "_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor",
    names=("_fft_c2c",),
)
class _fft_c2c:
    """The transform of complex numbers along dimensions."""

    vmap = "dims"
    jvp = "linear"

    def flops(self, dim, normalization, forward):
        return _flops(self, dim)

    def meta(self, dim, normalization, forward):
        if not self.dtype.is_complex:
            fail(
                RuntimeError,
                "_fft_c2c",
                "a complex tensor was required",
                self.dtype,
                hint="facula.fft.fft() takes real and complex tensors",
            )
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim, normalization, forward):
        if not self.numel() or not dim:
            out.copy_(self)
            return
        scale = fft_launch.scale_of(normalization, [self.shape[d] for d in dim])
        _computed(fft_launch.complex_to_complex, out, self, dim, scale, forward)

    def backward(grad, dim, normalization, forward):
        return F._fft_c2c(grad, dim, normalization, not forward)


@operator(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    names=("_fft_r2c",),
)
class _fft_r2c:
    """The transform of real numbers along dimensions; one-sided, the last of them keeps n // 2 + 1
    places.
    """

    takes_16_bits = "float16"
    vmap = "dims"
    jvp = "linear"

    def flops(self, dim, normalization, onesided):
        return _flops(self, dim) // 2

    def meta(self, dim, normalization, onesided):
        if not self.dtype.is_floating_point:
            fail(
                RuntimeError,
                "_fft_r2c",
                "a floating-point tensor was required",
                self.dtype,
                hint="convert it with .float(); facula.fft.fft() takes complex tensors",
            )
        if self.dtype.code not in ("f32", "f64", "f16"):
            fail(
                NotImplementedError,
                "_fft_r2c",
                "float16, float32 or float64 was required",
                self.dtype,
                "use x.float()",
            )
        shape = list(self.shape)
        if onesided and dim:
            shape[dim[-1]] = shape[dim[-1]] // 2 + 1
        return core.empty(shape, dtype=self.dtype.to_complex(), device=self.device)

    def cpu(out, self, dim, normalization, onesided):
        if not out.numel():
            return
        if not dim:
            out.copy_(self)
            return
        scale = fft_launch.scale_of(normalization, [self.shape[d] for d in dim])
        _computed(fft_launch.real_to_complex, out, self, dim, scale)

    def backward(grad, self_meta, dim, normalization, onesided):
        if onesided and dim:
            missing = self_meta.shape[dim[-1]] - grad.shape[dim[-1]]
            grad = _padded(grad, dim[-1], missing)
        return F.real(F._fft_c2c(grad, dim, normalization, False))

    def samples(S):
        yield (S(3, 4), (1,), 0, True), {}
        yield (S(3, 5), (0, 1), 2, True), {}
        yield (S(3, 5), (0, 1), 1, False), {}


@operator(
    "_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor",
    names=("_fft_c2r",),
)
class _fft_c2r:
    """The inverse transform of half a Hermitian spectrum, of which the last dimension gets a given
    size.
    """

    vmap = "dims"
    jvp = "linear"

    def flops(self, dim, normalization, last_dim_size):
        return _flops(self, dim) // 2

    def meta(self, dim, normalization, last_dim_size):
        if not self.dtype.is_complex:
            fail(
                RuntimeError,
                "_fft_c2r",
                "a complex tensor was required",
                self.dtype,
                hint="x.to(facula.complex64) makes a complex tensor of a real one",
            )
        shape = list(self.shape)
        shape[dim[-1]] = last_dim_size
        return core.empty(shape, dtype=self.dtype.to_real(), device=self.device)

    def cpu(out, self, dim, normalization, last_dim_size):
        if not out.numel():
            return
        sizes = [self.shape[d] for d in dim[:-1]] + [last_dim_size]
        scale = fft_launch.scale_of(normalization, sizes)
        missing = last_dim_size // 2 + 1 - self.shape[dim[-1]]
        x = _padded(self, dim[-1], missing) if missing > 0 else self
        _computed(fft_launch.half_to_real, out, x, dim, scale)

    def backward(grad, dim, normalization):
        half = F._fft_r2c(grad, dim, normalization, True)
        twice = grad.shape[dim[-1]] - half.shape[dim[-1]]
        if twice <= 0:
            return half
        last = half.shape[dim[-1]]
        weight = F.ones(last, dtype=grad.dtype, device=grad.device)
        weight = F.cat([weight[:1], weight[1 : twice + 1] * 2, weight[twice + 1 :]])
        shape = [1] * half.dim()
        shape[dim[-1]] = last
        return half * weight.reshape(shape)


def _padded(x: core.Tensor, dim: int, count: int) -> Any:
    """Zeros behind the elements of a dimension, or the first elements where `count` is negative."""
    if count < 0:
        return x.narrow(dim, 0, x.shape[dim] + count)
    if count == 0:
        return x
    behind = x.dim() - 1 - dim % max(x.dim(), 1)
    return F.pad(x, [0, 0] * behind + [0, count])


# ------------------------------------------------------------------ arguments


def promoted(op: str, x: core.Tensor, complex_: bool) -> Any:
    """Integers as floats, and real numbers as complex ones where a transform wants them."""
    dtype = x.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = core.get_default_dtype()
    # as in PyTorch, processors have no transforms of numbers of 16 bits; the primitives do
    narrow = () if x.device.type == "cpu" else ("f16", "c32")
    if dtype.code not in ("f32", "f64", "c64", "c128", *narrow):
        hint = "use x.to(facula.complex64)" if dtype.is_complex else "use x.float()"
        fail(RuntimeError, op, f"Unsupported dtype {dtype.type_word}", dtype, hint)
    return x.to(dtype.to_complex() if complex_ and not dtype.is_complex else dtype)


def real_only(op: str, x: core.Tensor) -> None:
    """Raise for complex tensors."""
    if x.dtype.is_complex:
        fail(
            RuntimeError,
            op,
            f"{op} expects a {'real-valued' if op[-1] in 'n2' else 'real'} input tensor, but got "
            f"{x.dtype.type_word}",
            hint="facula.fft.fft() takes complex tensors",
        )


def wrapped(op: str, dim: int, x: core.Tensor) -> int:
    """A dimension of a tensor that has one."""
    if x.dim() == 0:
        fail(
            IndexError,
            op,
            f"Dimension specified as {dim} but tensor has no dimensions",
            hint="x.reshape(1) has a dimension",
        )
    return wrap_dim(op, dim, x.dim())


def check_count(op: str, count: int) -> None:
    """Raise for transforms of no points."""
    if count < 1:
        fail(
            RuntimeError,
            op,
            f"Invalid number of data points ({count}) specified",
            count,
            hint="the input is cut, or filled up with zeros, to n: give n of 1 or more",
        )


def _count(op: str, x: core.Tensor, dim: int, n: int | None) -> int:
    """The number of points of a transform along one dimension; -1 says nothing here."""
    if n is None:
        return x.shape[dim]
    check_count(op, n)
    return n


def fitted(op: str, x: core.Tensor, dims: Any, sizes: Sequence[int]) -> Any:
    """`x` cut or filled up with zeros to `sizes` along `dims`; -1 leaves a dimension as it is."""
    for d, size in zip(dims, sizes, strict=True):
        count = x.shape[d] if size == -1 else size
        check_count(op, count)
        x = _padded(x, d, count - x.shape[d])
    return x


# ------------------------------------------------------------------ one dimension


def _complex_1d(
    op: str, x: core.Tensor, n: int | None, dim: int, norm: str | None, forward: bool
) -> Any:
    d, kind = wrapped(op, dim, x), scaling(norm, forward)
    x = fitted(op, promoted(op, x, False), (d,), (_count(op, x, d, n),))
    if forward and not x.dtype.is_complex:
        return F._fft_r2c(x, (d,), kind, False)
    return F._fft_c2c(promoted(op, x, True), (d,), kind, forward)


def _half_1d(
    op: str, x: core.Tensor, n: int | None, dim: int, norm: str | None, forward: bool
) -> Any:
    real_only(op, x)
    d, kind = wrapped(op, dim, x), scaling(norm, forward)
    x = fitted(op, promoted(op, x, False), (d,), (_count(op, x, d, n),))
    half = F._fft_r2c(x, (d,), kind, True)
    return half if forward else half.conj()


def _real_1d(
    op: str, x: core.Tensor, n: int | None, dim: int, norm: str | None, forward: bool
) -> Any:
    d, kind = wrapped(op, dim, x), scaling(norm, forward)
    size = 2 * (x.shape[d] - 1) if n is None else n
    check_count(op, size)
    x = fitted(op, promoted(op, x, True), (d,), (size // 2 + 1,))
    return F._fft_c2r(x.conj() if forward else x, (d,), kind, size)


_1D = "(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor"


@composite(f"fft_fft{_1D}", names=("fft.fft",), out_cast=True)
def fft_fft(self, n, dim, norm):
    """The Fourier transform along a dimension, cut or filled up to `n` points."""
    return _complex_1d("fft", self, n, dim, norm, True)


@composite(f"fft_ifft{_1D}", names=("fft.ifft",))
def fft_ifft(self, n, dim, norm):
    """The inverse of `fft`."""
    return _complex_1d("ifft", self, n, dim, norm, False)


@composite(f"fft_rfft{_1D}", names=("fft.rfft",), out_cast=True)
def fft_rfft(self, n, dim, norm):
    """The first n // 2 + 1 places of the transform of real numbers: the others are their
    conjugates.
    """
    return _half_1d("rfft", self, n, dim, norm, True)


@composite(f"fft_irfft{_1D}", names=("fft.irfft",), out_cast=True)
def fft_irfft(self, n, dim, norm):
    """The inverse of `rfft`: `n` real numbers, 2 * (size - 1) of them by default."""
    return _real_1d("irfft", self, n, dim, norm, False)


@composite(f"fft_hfft{_1D}", names=("fft.hfft",), out_cast=True)
def fft_hfft(self, n, dim, norm):
    """The transform, which is real, of numbers of which the second half are conjugates of the
    first.
    """
    return _real_1d("hfft", self, n, dim, norm, True)


@composite(f"fft_ihfft{_1D}", names=("fft.ihfft",))
def fft_ihfft(self, n, dim, norm):
    """The inverse of `hfft`."""
    return _half_1d("ihfft", self, n, dim, norm, False)
