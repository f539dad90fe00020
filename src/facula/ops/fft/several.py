"""Fourier transforms along several dimensions, frequencies, and shifts of the zero frequency.

Takes tensors and dimensions; calls the primitives of `fft`. Keeps true: the last dimension named is
the one that real transforms halve.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.fft.transforms import check_count, fitted, promoted, real_only, scaling, wrapped
from facula.ops.table.registry import F, composite
from facula.ops.view.create import OPTIONS


def _dims_and_sizes(op: str, x: core.Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """Which dimensions are transformed, and to which sizes they are cut or filled up."""
    if dim is None:
        count = x.dim() if s is None else len(s)
        if count > x.dim():
            fail(
                RuntimeError,
                op,
                f"Got shape with {count} values but input tensor only has {x.dim()} dimensions.",
                hint="unsqueeze() adds dimensions, or give fewer sizes",
            )
        dims = tuple(range(x.dim() - count, x.dim()))
    else:
        dims = tuple(wrapped(op, d, x) for d in dim)
    if len(set(dims)) != len(dims):
        fail(
            RuntimeError,
            op,
            "FFT dims must be unique",
            dim,
            hint="name each dimension once; -1 is the last one",
        )
    if s is not None and len(s) != len(dims):
        fail(
            RuntimeError,
            op,
            "When given, dim and shape arguments must have the same length",
            f"{len(dims)} and {len(s)}",
            hint="give one size for each dimension, -1 to keep it",
        )
    sizes = [x.shape[d] for d in dims] if s is None else list(s)
    sizes = [x.shape[d] if size == -1 else size for d, size in zip(dims, sizes, strict=True)]
    return dims, sizes


def _complex_nd(
    op: str, x: core.Tensor, s: object, dim: object, norm: str | None, forward: bool
) -> Any:
    dims, sizes = _dims_and_sizes(op, x, s, dim)
    kind = scaling(norm, forward)
    x = fitted(op, promoted(op, x, True), dims, sizes)
    return F._fft_c2c(x, dims, kind, forward)


def _some_dims_and_sizes(
    op: str, x: core.Tensor, s: object, dim: object
) -> tuple[tuple[int, ...], list[int]]:
    """As `_dims_and_sizes`, where one of the dimensions is halved: so there is one."""
    dims, sizes = _dims_and_sizes(op, x, s, dim)
    if not dims:
        fail(
            RuntimeError,
            op,
            f"{op} must transform at least one axis",
            hint="name a dimension in dim; x.reshape(1) has one",
        )
    return dims, sizes


def _half_nd(
    op: str, x: core.Tensor, s: object, dim: object, norm: str | None, forward: bool
) -> Any:
    real_only(op, x)
    dims, sizes = _some_dims_and_sizes(op, x, s, dim)
    kind = scaling(norm, forward)
    half = F._fft_r2c(fitted(op, promoted(op, x, False), dims, sizes), dims, kind, True)
    return half if forward else half.conj()


def _real_nd(op: str, x: core.Tensor, s: Any, dim: object, norm: str | None, forward: bool) -> Any:
    dims, sizes = _some_dims_and_sizes(op, x, s, dim)
    kind = scaling(norm, forward)
    if s is None or s[-1] == -1:
        sizes[-1] = 2 * (x.shape[dims[-1]] - 1)
    size = sizes[-1]
    check_count(op, size)
    x = fitted(op, promoted(op, x, True), dims, [*sizes[:-1], size // 2 + 1])
    return F._fft_c2r(x.conj() if forward else x, dims, kind, size)


_ND = "(Tensor self, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
_2D = "(Tensor self, int[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"


@composite(f"fft_fftn{_ND}", names=("fft.fftn",), out_cast=True)
def fft_fftn(self, s, dim, norm):
    """The transform along several dimensions (all by default), cut or filled up to sizes `s`."""
    return _complex_nd("fftn", self, s, dim, norm, True)


@composite(f"fft_ifftn{_ND}", names=("fft.ifftn",))
def fft_ifftn(self, s, dim, norm):
    """The inverse of `fftn`."""
    return _complex_nd("ifftn", self, s, dim, norm, False)


@composite(f"fft_fft2{_2D}", names=("fft.fft2",))
def fft_fft2(self, s, dim, norm):
    """The transform along two dimensions."""
    return _complex_nd("fft2", self, s, dim, norm, True)


@composite(f"fft_ifft2{_2D}", names=("fft.ifft2",))
def fft_ifft2(self, s, dim, norm):
    """The inverse of `fft2`."""
    return _complex_nd("ifft2", self, s, dim, norm, False)


@composite(f"fft_rfftn{_ND}", names=("fft.rfftn",), out_cast=True)
def fft_rfftn(self, s, dim, norm):
    """As `fftn` for real numbers, with half of the last dimension."""
    return _half_nd("rfftn", self, s, dim, norm, True)


@composite(f"fft_rfft2{_2D}", names=("fft.rfft2",))
def fft_rfft2(self, s, dim, norm):
    """As `fft2` for real numbers, with half of the last dimension."""
    return _half_nd("rfft2", self, s, dim, norm, True)


@composite(f"fft_irfftn{_ND}", names=("fft.irfftn",), out_cast=True)
def fft_irfftn(self, s, dim, norm):
    """The inverse of `rfftn`."""
    return _real_nd("irfftn", self, s, dim, norm, False)


@composite(f"fft_irfft2{_2D}", names=("fft.irfft2",))
def fft_irfft2(self, s, dim, norm):
    """The inverse of `rfft2`."""
    return _real_nd("irfft2", self, s, dim, norm, False)


@composite(f"fft_hfftn{_ND}", names=("fft.hfftn",))
def fft_hfftn(self, s, dim, norm):
    """The real transform of half a Hermitian signal along several dimensions."""
    return _real_nd("hfftn", self, s, dim, norm, True)


@composite(f"fft_hfft2{_2D}", names=("fft.hfft2",))
def fft_hfft2(self, s, dim, norm):
    """The real transform of half a Hermitian signal along two dimensions."""
    return _real_nd("hfft2", self, s, dim, norm, True)


@composite(f"fft_ihfftn{_ND}", names=("fft.ihfftn",))
def fft_ihfftn(self, s, dim, norm):
    """The inverse of `hfftn`."""
    return _half_nd("ihfftn", self, s, dim, norm, False)


@composite(f"fft_ihfft2{_2D}", names=("fft.ihfft2",))
def fft_ihfft2(self, s, dim, norm):
    """The inverse of `hfft2`."""
    return _half_nd("ihfft2", self, s, dim, norm, False)


# ------------------------------------------------------------------ frequencies and shifts


def _step(n: int, d: float) -> float:
    """The distance of two frequencies; points at no distance have an infinite one."""
    return 1.0 / (n * d) if d else math.copysign(math.inf, d)


def _frequency_dtype(op: str, dtype: core.dtype | None) -> core.dtype:
    kind = dtype or core.get_default_dtype()
    if not (kind.is_floating_point or kind.is_complex):
        fail(
            RuntimeError,
            op,
            f"a dtype with fractions was required: {op} requires a floating point or complex dtype",
            kind,
            hint="leave dtype= out, or give facula.float32",
        )
    return kind


@composite(
    f"fft_fftfreq(int n, float d=1.0, *, {OPTIONS}) -> Tensor",
    names=("fft.fftfreq",),
    out_cast=True,
)
def fft_fftfreq(n, d, dtype, layout, device, pin_memory, requires_grad):
    """The frequencies of `fft` of `n` points that are `d` apart, in cycles: positive ones first."""
    kind = _frequency_dtype("fftfreq", dtype)
    whole = F.arange(n, dtype=kind, device=device)
    whole = F.where(whole >= (n + 1) // 2, whole - n, whole)
    result = whole * _step(n, d) if n else whole
    return result.requires_grad_() if requires_grad else result


@composite(
    f"fft_rfftfreq(int n, float d=1.0, *, {OPTIONS}) -> Tensor",
    names=("fft.rfftfreq",),
    out_cast=True,
)
def fft_rfftfreq(n, d, dtype, layout, device, pin_memory, requires_grad):
    """The frequencies of `rfft` of `n` points that are `d` apart, in cycles."""
    kind = _frequency_dtype("rfftfreq", dtype)
    whole = F.arange(n // 2 + 1, dtype=kind, device=device)
    result = whole * _step(n, d) if n else whole
    return result.requires_grad_() if requires_grad else result


def _shifted(op: str, x: core.Tensor, dim: Any, back: bool) -> Any:
    dims = tuple(range(x.dim())) if dim is None else tuple(wrapped(op, d, x) for d in dim)
    if not dims:
        return x.clone()
    return x.roll([(x.shape[d] + back) // 2 for d in dims], dims)


@composite(
    "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", names=("fft.fftshift",), out=False
)
def fft_fftshift(self, dim):
    """Move the zero frequency to the middle."""
    return _shifted("fftshift", self, dim, False)


@composite(
    "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", names=("fft.ifftshift",), out=False
)
def fft_ifftshift(self, dim):
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", self, dim, True)
