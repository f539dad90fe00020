"""Spectra, scales, coding, resampling.

Takes: samples `[..., time]`, spectra `[..., frequencies, frames]`. Gives: tensors with gradients.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F


def _framed(waveform: core.Tensor, pad: int) -> Any:
    x = nn.functional.pad(waveform, [pad, pad]) if pad else waveform
    return x.reshape((-1, x.shape[-1]))


def _window_norm(spectrum: Any, window: Any, normalized: Any) -> Any:
    return spectrum / (window**2).sum().sqrt() if normalized in (True, "window") else spectrum


def spectrogram(
    waveform: core.Tensor,
    pad: int,
    window: object,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float | None,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
    return_complex: bool | None = None,
) -> Any:
    """Fourier transforms of pieces; their magnitudes to a power, or complex numbers where power is None."""
    rows = _framed(waveform, pad)
    found = F.stft(
        rows,
        n_fft,
        hop_length,
        win_length,
        window,
        center=center,
        pad_mode=pad_mode,
        normalized=normalized == "frame_length",
        onesided=onesided,
        return_complex=True,
    )
    found = _window_norm(
        found.reshape((*waveform.shape[:-1], *found.shape[-2:])), window, normalized
    )
    if power is None:
        return found
    return found.abs() if power == 1.0 else found.abs().pow(power)


def inverse_spectrogram(
    spectrogram: core.Tensor,
    length: int | None,
    pad: int,
    window: core.Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Any:
    """Samples, out of complex spectra."""
    if not spectrogram.is_complex():
        required, hint = "a complex spectrum was required", "spectrogram(..., power=None) gives one"
        fail(ValueError, "inverse_spectrogram", required, spectrogram.dtype, hint=hint)
    if normalized in (True, "window"):
        spectrogram = spectrogram * (window**2).sum().sqrt()
    rows = spectrogram.reshape((-1, *spectrogram.shape[-2:]))
    found = F.istft(
        rows,
        n_fft,
        hop_length,
        win_length,
        window,
        center=center,
        normalized=normalized == "frame_length",
        onesided=onesided,
        length=length + 2 * pad if length is not None else None,
    )
    if length is not None and pad:
        found = found[:, pad:-pad]
    return found.reshape((*spectrogram.shape[:-2], found.shape[-1]))


def griffinlim(
    specgram: Any,
    window: object,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float,
    n_iter: int,
    momentum: float,
    length: int | None,
    rand_init: bool,
) -> Any:
    """Samples whose spectrum has these magnitudes, the phases being found step by step.

    [Griffin & Lim 1984, Perraudin et al. 2013]
    """
    if not 0 <= momentum < 1:
        required, hint = "a momentum in [0, 1) was required", "0.99 is the default"
        fail(ValueError, "griffinlim", required, momentum, hint=hint)
    size = specgram.reshape((-1, *specgram.shape[-2:])).pow(1 / power)
    settings = (n_fft, hop_length, win_length, window)
    dtype = core.complex128 if size.dtype is core.float64 else core.complex64
    start = F.rand(size.shape, dtype=dtype) if rand_init else F.ones(size.shape, dtype=dtype)
    angles, last = start, F.zeros_like(start)
    for _ in range(n_iter):
        sound = F.istft(size * angles, *settings, length=length)
        rebuilt = F.stft(sound, *settings, center=True, pad_mode="reflect", return_complex=True)
        angles = rebuilt - last * (momentum / (1 + momentum))
        angles = angles / (angles.abs() + 1e-16)
        last = rebuilt
    found = F.istft(size * angles, *settings, length=length)
    return found.reshape((*specgram.shape[:-2], found.shape[-1]))


# ------------------------------------------------------------------ scales


def _to_mel(frequency: float, scale: str) -> float:
    if scale == "htk":
        return 2595.0 * math.log10(1.0 + frequency / 700.0)
    if frequency < 1000:
        return frequency * 3 / 200
    return 15.0 + math.log(frequency / 1000) / (math.log(6.4) / 27)


def _from_mel(mels: core.Tensor, scale: str) -> Any:
    if scale == "htk":
        return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    above = 1000 * F.exp((math.log(6.4) / 27) * (mels - 15.0))
    return F.where(mels < 15.0, mels * 200 / 3, above)


def _triangles(frequencies: core.Tensor, points: core.Tensor) -> Any:
    widths = points[1:] - points[:-1]
    slopes = points[None] - frequencies[:, None]
    down, up = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    return F.minimum(down, up).clamp(min=0)


def melscale_fbanks(
    n_freqs: int,
    f_min: float,
    f_max: float,
    n_mels: int,
    sample_rate: int,
    norm: str | None = None,
    mel_scale: str = "htk",
) -> Any:
    """Weights `[n_freqs, n_mels]` of triangles that are equally wide for the ear."""
    if norm not in (None, "slaney") or mel_scale not in ("htk", "slaney"):
        required = "norm None or 'slaney', and mel_scale 'htk' or 'slaney', were required"
        got = f"{norm!r} and {mel_scale!r}"
        fail(ValueError, "melscale_fbanks", required, got, hint="'htk' is the default")
    frequencies = F.linspace(0, sample_rate // 2, n_freqs, dtype=core.float64)
    ends = _to_mel(f_min, mel_scale), _to_mel(f_max, mel_scale)
    points = _from_mel(F.linspace(*ends, n_mels + 2, dtype=core.float64), mel_scale)
    weights = _triangles(frequencies, points)
    if norm == "slaney":
        weights = weights * (2.0 / (points[2:] - points[:-2]))
    return weights.to(core.get_default_dtype())


def linear_fbanks(n_freqs: int, f_min: float, f_max: float, n_filter: int, sample_rate: int) -> Any:
    """Weights `[n_freqs, n_filter]` of triangles that are equally wide."""
    frequencies = F.linspace(0, sample_rate // 2, n_freqs)
    return _triangles(frequencies, F.linspace(f_min, f_max, n_filter + 2))


def amplitude_to_DB(
    x: core.Tensor,
    multiplier: float,
    amin: float,
    db_multiplier: float,
    top_db: float | None = None,
) -> Any:
    """Decibels; with `top_db` none is further below the loudest of its recording."""
    found = multiplier * F.log10(x.clamp(min=amin)) - multiplier * db_multiplier
    if top_db is None:
        return found
    packed = found.reshape((-1, *found.shape[-3:])) if found.dim() > 2 else found[None, None]
    packed = packed if packed.dim() == 4 else packed[:, None]
    loudest = packed.amax((-3, -2, -1), keepdim=True)
    return F.maximum(packed, loudest - top_db).reshape(found.shape)


def DB_to_amplitude(x: core.Tensor, ref: float, power: float) -> Any:
    """Decibels undone."""
    return ref * (10.0 ** (0.1 * x)) ** power


def create_dct(n_mfcc: int, n_mels: int, norm: str | None) -> Any:
    """Weights `[n_mels, n_mfcc]` of a discrete cosine transform."""
    if norm not in (None, "ortho"):
        fail(
            ValueError,
            "create_dct",
            "norm None or 'ortho' was required",
            repr(norm),
            hint="'ortho' keeps lengths",
        )
    n, k = F.arange(n_mels, dtype=core.float64), F.arange(n_mfcc, dtype=core.float64)[:, None]
    weights = F.cos(math.pi / n_mels * (n + 0.5) * k)
    if norm is None:
        weights = weights * 2.0
    else:
        weights[0] *= 1.0 / math.sqrt(2.0)
        weights = weights * math.sqrt(2.0 / n_mels)
    return weights.t().contiguous().to(core.get_default_dtype())


def mu_law_encoding(x: core.Tensor, quantization_channels: int) -> Any:
    """Samples in [-1, 1] as so many steps, finer near 0."""
    most = quantization_channels - 1.0
    x = x if x.is_floating_point() else x.to(core.get_default_dtype())
    bent = F.sign(x) * F.log1p(most * x.abs()) / math.log1p(most)
    return ((bent + 1) / 2 * most + 0.5).to(core.int64)


def mu_law_decoding(x_mu: core.Tensor, quantization_channels: int) -> Any:
    """`mu_law_encoding` undone."""
    most = quantization_channels - 1.0
    x = x_mu if x_mu.is_floating_point() else x_mu.to(core.get_default_dtype())
    x = x / most * 2 - 1
    return F.sign(x) * (F.exp(x.abs() * math.log1p(most)) - 1.0) / most


def compute_deltas(specgram: Any, win_length: int = 5, mode: str = "replicate") -> Any:
    """Slopes along time, fitted over a window."""
    if win_length < 3:
        fail(
            ValueError,
            "compute_deltas",
            "a window of at least 3 was required",
            win_length,
            hint="5 is the default",
        )
    n = (win_length - 1) // 2
    rows = specgram.reshape((1, -1, specgram.shape[-1]))
    padded = nn.functional.pad(rows, [n, n], mode=mode)
    weights = (
        F.arange(-n, n + 1, dtype=specgram.dtype).reshape((1, 1, -1)).repeat(rows.shape[1], 1, 1)
    )
    found = nn.functional.conv1d(padded, weights, groups=rows.shape[1])
    return (found / (n * (n + 1) * (2 * n + 1) / 3)).reshape(specgram.shape)


def mask_along_axis(
    specgram: core.Tensor, mask_param: int, mask_value: float, axis: int, p: float = 1.0
) -> Any:
    """A run of frequencies or frames, of random length and place, overwritten. [Park et al. 2019]"""
    if axis not in (specgram.dim() - 2, specgram.dim() - 1, -2, -1) or not 0 <= p <= 1:
        required = "one of the last two dimensions, and a share p in [0, 1], were required"
        got = f"axis={axis}, p={p}"
        fail(ValueError, "mask_along_axis", required, got, hint="-2 are frequencies, -1 is time")
    most = min(mask_param, int(specgram.shape[axis] * p)) if p < 1 else mask_param
    if most < 1:
        return specgram
    length = F.rand((1,)) * most
    begin = int((F.rand((1,)) * (specgram.shape[axis] - length)).item())
    stop = begin + int(length.item())
    places = F.arange(specgram.shape[axis], device=specgram.device)
    places = places[:, None] if axis in (-2, specgram.dim() - 2) else places
    return specgram.masked_fill(F.logical_and(places >= begin, places < stop), mask_value)


def phase_vocoder(complex_specgrams: core.Tensor, rate: float, phase_advance: core.Tensor) -> Any:
    """Complex spectra faster or slower, at the same pitch."""
    if rate == 1.0:
        return complex_specgrams
    frames = complex_specgrams.shape[-1]
    x = complex_specgrams.reshape((-1, *complex_specgrams.shape[-2:]))
    steps = F.arange(0, frames, rate, dtype=core.float64)
    share = (steps % 1.0).to(x.real.dtype)
    at = steps.to(core.int64)
    padded = F.cat([x, F.zeros((*x.shape[:-1], 2), dtype=x.dtype)], -1)
    left, right = padded.index_select(-1, at), padded.index_select(-1, at + 1)
    turn = right.angle() - left.angle() - phase_advance
    turn = turn - 2 * math.pi * F.round(turn / (2 * math.pi)) + phase_advance
    phase = F.cat([x[..., :1].angle(), turn[..., :-1]], -1).cumsum(-1)
    size = share * right.abs() + (1 - share) * left.abs()
    return F.polar(size, phase).reshape((*complex_specgrams.shape[:-1], len(steps)))


# ------------------------------------------------------------------ resampling


@functools.lru_cache(maxsize=32)
def _sinc_kernel(
    before: int, after: int, width: int, rolloff: float, method: str, beta: float, dtype: str
) -> tuple[Any, int]:
    """Windowed sines over their argument, one row for each phase of the output."""
    base = min(before, after) * rolloff
    reach = math.ceil(width * before / base)
    places = F.arange(-reach, reach + before, dtype=core.float64)[None, None] / before
    t = F.arange(0, -after, -1, dtype=core.float64)[:, None, None] / after + places
    t = (t * base).clamp(-width, width)
    if method == "sinc_interp_kaiser":
        level = core.tensor(float(beta), dtype=core.float64)
        window = F.i0(level * F.sqrt(1 - (t / width) ** 2)) / F.i0(level)
    else:
        window = F.cos(t * math.pi / width / 2) ** 2
    t = t * math.pi
    kernel = F.where(t == 0, F.ones_like(t), F.sin(t) / F.where(t == 0, F.ones_like(t), t))
    return (kernel * window * (base / before)).to(getattr(core, dtype)), reach


def resample(
    waveform: core.Tensor,
    orig_freq: int,
    new_freq: int,
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    resampling_method: str = "sinc_interp_hann",
    beta: float | None = None,
) -> Any:
    """Samples at another rate; what lies above half of either rate is left out."""
    if orig_freq <= 0 or new_freq <= 0 or int(orig_freq) != orig_freq or int(new_freq) != new_freq:
        required = "whole positive rates were required (Original frequency and desired frequecy)"
        got = f"{orig_freq} and {new_freq}"
        fail(ValueError, "resample", required, got, hint="multiply both by what makes them whole")
    if (
        resampling_method not in ("sinc_interp_hann", "sinc_interp_kaiser")
        or lowpass_filter_width < 1
    ):
        required = "'sinc_interp_hann' or 'sinc_interp_kaiser', and a width above 0, were required"
        got = f"{resampling_method!r}, {lowpass_filter_width}"
        fail(ValueError, "resample", required, got, hint="'sinc_interp_hann' is the default")
    if orig_freq == new_freq:
        return waveform
    common = math.gcd(int(orig_freq), int(new_freq))
    before, after = int(orig_freq) // common, int(new_freq) // common
    level = 14.769656459379492 if beta is None else beta
    half = waveform.dtype in (core.float16, core.bfloat16)
    x = waveform.to(core.float32) if half else waveform
    name = "float64" if x.dtype is core.float64 else "float32"
    kernel, reach = _sinc_kernel(
        before, after, lowpass_filter_width, rolloff, resampling_method, level, name
    )
    rows = x.reshape((-1, x.shape[-1]))
    padded = nn.functional.pad(rows, [reach, reach + before])
    found = nn.functional.conv1d(padded[:, None], kernel, stride=before)
    found = found.transpose(1, 2).reshape((rows.shape[0], -1))
    length = math.ceil(after * x.shape[-1] / before)
    return found[..., :length].reshape((*waveform.shape[:-1], length)).to(waveform.dtype)
