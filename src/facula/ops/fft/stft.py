"""The short-time Fourier transform and its inverse.

Takes signals [time] or [batch, time], and spectra [batch, frequencies, frames]. Gives compositions
of windows, padding and transforms, so gradients and devices follow. Keeps true: `istft` divides by
the overlapped windows, and refuses windows that leave a gap.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.fft.transforms import NONE, ROOT, WHOLE
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite


def _check_sizes(op: str, n_fft: int, hop: int, length: int, window: core.Tensor) -> None:
    """Raise for steps and windows that make no sense together."""
    if hop <= 0:
        fail(
            RuntimeError,
            op,
            "expected hop_length > 0",
            f"hop_length={hop}",
            hint="leave hop_length out for n_fft // 4",
        )
    if not 0 < length <= n_fft:
        fail(
            RuntimeError,
            op,
            "expected 0 < win_length <= n_fft",
            f"win_length={length}",
            hint="leave win_length out for n_fft",
        )
    if window is not None and (window.dim() != 1 or window.shape[0] != length):
        fail(
            RuntimeError,
            op,
            "expected a 1D window tensor of size equal to win_length",
            f"win_length={length} and window of size {list(window.shape)}",
            hint=f"facula.hann_window({length}) is one",
        )


def _window(op: str, window: core.Tensor, length: int, n_fft: int, like: core.Tensor) -> Any:
    """The window in the middle of `n_fft` places."""
    if window is None:
        core.unkept()  # each call warns
        warnings.warn(
            f"A window was not provided. A rectangular window will be applied by {op}: it leaks into other frequencies",
            UserWarning,
            stacklevel=3,
        )
        real = like.dtype.to_real() if like.is_complex() else like.dtype
        window = F.ones(length, dtype=real, device=like.device)
    before = (n_fft - length) // 2
    return F.pad(window, (before, n_fft - length - before)) if length < n_fft else window


def _spectrum_of(frames: core.Tensor, kind: int, half: bool) -> Any:
    if frames.is_complex():
        if half:
            fail(
                RuntimeError,
                "stft",
                "Cannot have onesided output if window or input is complex",
                hint="pass onesided=False",
            )
        spectrum = F._fft_c2c(frames, (2,), kind, True)
    else:
        spectrum = F._fft_r2c(frames, (2,), kind, half)
    return spectrum


@composite(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? "
    "return_complex=None, bool? align_to_window=None) -> Tensor",
    out=False,
    overload="center",
    home="functional.stft",
)
def stft(  # noqa: PLR0913
    self,
    n_fft,
    hop_length,
    win_length,
    window,
    center,
    pad_mode,
    normalized,
    onesided,
    return_complex,
    align_to_window,
):
    """Spectra of overlapping windows of a signal: [batch, frequencies, frames], complex.

    center: the signal is padded so that frame t is centred at t * hop_length. onesided: only the
    first n_fft // 2 + 1 frequencies (the default for real signals). Without `return_complex` a last
    dimension holds real and imaginary parts.

    Example:
        >>> facula.stft(facula.ones(8), 4, window=facula.ones(4), return_complex=True).shape
        facula.Size([3, 9])
    """
    length = n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop_length is None else hop_length
    _check_signal(self, window, return_complex, align_to_window, center)
    x = self if self.dim() == 2 else self.unsqueeze(0)
    before = n_fft // 2 if center else (n_fft - length) // 2 if align_to_window else 0
    if before:
        x = F.pad(
            x.unsqueeze(1), (before, before), mode=pad_mode if center else "constant"
        ).squeeze(1)
    if not 0 < n_fft <= x.shape[1]:
        fail(
            RuntimeError,
            "stft",
            f"expected 0 < n_fft <= {x.shape[1]}",
            f"n_fft={n_fft}",
            hint="take a smaller n_fft, or pad the signal",
        )
    _check_sizes("stft", n_fft, hop, length, window)
    weights = _window("stft", window, length, n_fft, x)
    frames = x.unfold(-1, n_fft, hop) * weights
    kind = ROOT if normalized else NONE
    half = not frames.is_complex() if onesided is None else onesided
    spectrum = _spectrum_of(frames, kind, half)
    spectrum = spectrum.transpose(1, 2)
    if self.dim() == 1:
        spectrum = spectrum.squeeze(0)
    return spectrum if return_complex or return_complex is None else F.view_as_real(spectrum)


def _check_signal(
    x: core.Tensor,
    window: core.Tensor,
    return_complex: bool | None,
    align: bool | None,
    center: bool,
) -> None:
    if not (x.is_floating_point() or x.is_complex()):
        fail(
            RuntimeError,
            "stft",
            "expected a tensor of floating point or complex values",
            x.dtype,
            hint="convert it with .float()",
        )
    if not 1 <= x.dim() <= 2:
        fail(
            RuntimeError,
            "stft",
            "expected a 1D or 2D tensor",
            f"{x.dim()}D",
            hint="x.flatten(0, -2) merges leading dimensions",
        )
    if center and align is not None:
        fail(
            RuntimeError,
            "stft",
            "stft align_to_window should only be set when center = false.",
            hint="leave align_to_window out, or pass center=False",
        )
    complex_ = x.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not complex_:
        fail(
            RuntimeError,
            "stft",
            "stft requires the return_complex parameter be given for real inputs",
            hint="pass return_complex=True",
        )


def _overlapped(frames: core.Tensor, hop: int) -> Any:
    """The sums of frames [batch, count, size] that start `hop` apart."""
    batch, count, size = frames.shape
    total = size + hop * (count - 1)
    places = F.arange(count, device=frames.device).unsqueeze(1) * hop
    places = (places + F.arange(size, device=frames.device)).reshape(-1)
    return frames.new_zeros((batch, total)).index_add(1, places, frames.reshape((batch, -1)))


def _frames_of(
    x: core.Tensor, n_fft: int, normalized: bool, half: bool, return_complex: bool
) -> Any:
    """Signals of every frame out of spectra [batch, frequencies, frames]."""
    kind, spectra = ROOT if normalized else WHOLE, x.transpose(1, 2)
    if return_complex:
        if half:
            fail(
                RuntimeError,
                "istft",
                "Cannot have onesided output if window or input is complex",
                hint="pass onesided=False",
            )
        return F._fft_c2c(spectra, (2,), kind, False)
    if not half:
        spectra = spectra.narrow(2, 0, n_fft // 2 + 1)
    return F._fft_c2r(spectra, (2,), kind, n_fft)


@composite(
    "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool "
    "return_complex=False) -> Tensor",
    out=False,
)
def istft(  # noqa: PLR0913
    self,
    n_fft,
    hop_length,
    win_length,
    window,
    center,
    normalized,
    onesided,
    length,
    return_complex,
):
    """The signal whose `stft` with the same settings is nearest to these spectra. [Griffin & Lim
    1984]

    Example:
        >>> window = facula.hann_window(4)
        >>> spectra = facula.stft(facula.ones(8), 4, window=window, return_complex=True)
        >>> facula.istft(spectra, 4, window=window)
        tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    _check_spectrum(self, n_fft, onesided)
    _check_sizes("istft", n_fft, hop, size, window)
    x = self if self.dim() == 3 else self.unsqueeze(0)
    weights = _window("istft", window, size, n_fft, x)
    half = x.shape[1] != n_fft if onesided is None else onesided
    frames = _frames_of(x, n_fft, normalized, half, return_complex)
    count = x.shape[2]
    signal = _overlapped(frames * weights, hop)
    envelope = _overlapped((weights * weights).expand((1, count, n_fft)), hop)
    total = n_fft + hop * (count - 1)
    begin = n_fft // 2 if center else 0
    end = begin + length if length is not None else total - begin
    signal, envelope = signal[:, begin : min(end, total)], envelope[:, begin : min(end, total)]
    if not envelope.is_meta and batch_forms.anywhere(envelope.abs() < 1e-11):
        fail(
            RuntimeError,
            "istft",
            "window overlap add min: 1",
            hint="the windows must overlap so that their squares never sum to zero",
        )
    signal = signal / envelope
    if end > total:
        core.unkept()  # each call warns
        warnings.warn(
            "[istft] the length is beyond the frames: it is filled with zeros", stacklevel=2
        )
        signal = F.pad(signal, (0, end - total))
    return signal if self.dim() == 3 else signal.squeeze(0)


def _check_spectrum(x: core.Tensor, n_fft: int, onesided: bool | None) -> None:
    if not x.is_complex():
        fail(
            RuntimeError,
            "istft",
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True.",
            x.dtype,
            hint="facula.view_as_complex(x) joins pairs of real numbers",
        )
    if x.dim() not in (2, 3):
        fail(
            RuntimeError,
            "istft",
            "expected a tensor with 2 or 3 dimensions",
            x.dim(),
            hint="the shape is [frequencies, frames] or [batch, frequencies, frames]",
        )
    if x.numel() == 0:
        fail(
            RuntimeError,
            "istft",
            "input tensor cannot be empty.",
            hint="a signal has at least one frame",
        )
    half = x.shape[-2] != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if half else n_fft
    if x.shape[-2] != wanted:
        fail(
            RuntimeError,
            "istft",
            "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 "
            f"+ 1 when onesided=True, n_fft else: {wanted}",
            x.shape[-2],
            hint="pass the n_fft and onesided that stft() had",
        )
