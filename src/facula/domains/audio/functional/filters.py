"""Recursive filters, effects, convolutions.

Takes: samples `[..., time]`. Gives: samples; gradients reach the weights of filters.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.namespaces import fft
from facula.ops.table.registry import TABLE, F

from .. import definitions as _definitions

assert _definitions is not None


def lfilter(
    waveform: core.Tensor,
    a_coeffs: core.Tensor,
    b_coeffs: core.Tensor,
    clamp: bool = True,
    batching: bool = True,
) -> Any:
    """`sum(a[k] * y[t - k]) = sum(b[k] * x[t - k])`; coefficients `[order + 1]`, or for several filters
    `[filters, order + 1]`, which the channels have each (`batching`) or all of them."""
    if a_coeffs.shape != b_coeffs.shape or a_coeffs.dim() not in (1, 2):
        required = "coefficients of one shape, [order + 1] or [filters, order + 1], were required"
        got = f"{list(a_coeffs.shape)} and {list(b_coeffs.shape)}"
        fail(ValueError, "lfilter", required, got, hint="pad the shorter one with zeros")
    single = a_coeffs.dim() == 1
    a, b = (c.reshape((-1, c.shape[-1])) for c in (a_coeffs, b_coeffs))
    if single:
        x = waveform.reshape((-1, 1, waveform.shape[-1]))
    elif batching:
        if waveform.dim() < 2 or waveform.shape[-2] != a.shape[0]:
            required = f"{a.shape[0]} channels, one a filter, were required"
            fail(
                ValueError,
                "lfilter",
                required,
                list(waveform.shape),
                hint="batching=False applies all",
            )
        x = waveform.reshape((-1, *waveform.shape[-2:]))
    else:
        x = waveform.unsqueeze(-2).expand((*waveform.shape[:-1], a.shape[0], waveform.shape[-1]))
        x = x.reshape((-1, *x.shape[-2:]))
    shape = (
        waveform.shape
        if single or batching
        else (*waveform.shape[:-1], a.shape[0], waveform.shape[-1])
    )
    a, b = a / a[:, :1], b / a[:, :1]
    taps, channels = b.shape[1], x.shape[1]
    padded = nn.functional.pad(x, [taps - 1, 0])
    driven = nn.functional.conv1d(padded, b.flip(1).unsqueeze(1).to(x.dtype), groups=channels)
    out = TABLE["audio::recursion"](driven, a.to(x.dtype)).reshape(shape)
    return out.clamp(-1.0, 1.0) if clamp else out


def biquad(
    waveform: core.Tensor, b0: object, b1: object, b2: object, a0: object, a1: object, a2: object
) -> Any:
    """A filter of the second order."""
    a, b = (_row(waveform, values) for values in ((a0, a1, a2), (b0, b1, b2)))
    return lfilter(waveform, a, b)


def _row(waveform: core.Tensor, values: tuple[Any, ...]) -> Any:
    parts = [core.as_tensor(v, dtype=waveform.dtype).reshape((1,)) for v in values]
    return F.cat(parts)


def _angles(rate: float, frequency: float, Q: float) -> tuple[Any, Any, Any]:
    """Cosine and half-width of a frequency, and the whole angle; tensors stay such, for gradients."""
    angle = 2 * math.pi * core.as_tensor(frequency, dtype=core.float64) / rate
    alpha = F.sin(angle) / 2 / core.as_tensor(Q, dtype=core.float64)
    return F.cos(angle), alpha, angle


def lowpass_biquad(
    waveform: core.Tensor, sample_rate: int, cutoff_freq: Any, Q: Any = 0.707
) -> Any:
    """What is below a frequency."""
    c, alpha, _ = _angles(sample_rate, cutoff_freq, Q)
    return biquad(waveform, (1 - c) / 2, 1 - c, (1 - c) / 2, 1 + alpha, -2 * c, 1 - alpha)


def highpass_biquad(
    waveform: core.Tensor, sample_rate: int, cutoff_freq: Any, Q: Any = 0.707
) -> Any:
    """What is above a frequency."""
    c, alpha, _ = _angles(sample_rate, cutoff_freq, Q)
    return biquad(waveform, (1 + c) / 2, -1 - c, (1 + c) / 2, 1 + alpha, -2 * c, 1 - alpha)


def bandpass_biquad(
    waveform: core.Tensor,
    sample_rate: int,
    central_freq: Any,
    Q: Any = 0.707,
    const_skirt_gain: bool = False,
) -> Any:
    """What is near a frequency."""
    c, alpha, angle = _angles(sample_rate, central_freq, Q)
    top = F.sin(angle) / 2 if const_skirt_gain else alpha
    return biquad(waveform, top, 0.0, -top, 1 + alpha, -2 * c, 1 - alpha)


def bandreject_biquad(
    waveform: core.Tensor, sample_rate: int, central_freq: Any, Q: Any = 0.707
) -> Any:
    """What is not near a frequency."""
    c, alpha, _ = _angles(sample_rate, central_freq, Q)
    return biquad(waveform, 1.0, -2 * c, 1.0, 1 + alpha, -2 * c, 1 - alpha)


def allpass_biquad(
    waveform: core.Tensor, sample_rate: int, central_freq: Any, Q: Any = 0.707
) -> Any:
    """Everything, later by what depends on the frequency."""
    c, alpha, _ = _angles(sample_rate, central_freq, Q)
    return biquad(waveform, 1 - alpha, -2 * c, 1 + alpha, 1 + alpha, -2 * c, 1 - alpha)


def equalizer_biquad(
    waveform: core.Tensor, sample_rate: int, center_freq: Any, gain: object, Q: Any = 0.707
) -> Any:
    """What is near a frequency made louder by so many decibels."""
    c, alpha, _ = _angles(sample_rate, center_freq, Q)
    root = 10 ** (core.as_tensor(gain, dtype=core.float64) / 40)
    up, down = alpha * root, alpha / root
    return biquad(waveform, 1 + up, -2 * c, 1 - up, 1 + down, -2 * c, 1 - down)


def band_biquad(
    waveform: core.Tensor, sample_rate: int, central_freq: Any, Q: Any = 0.707, noise: bool = False
) -> Any:
    """What is near a frequency, falling off slowly; `noise` for sound without pitch."""
    angle = 2 * math.pi * float(central_freq) / sample_rate
    width = float(central_freq) / float(Q) / sample_rate * 2 * math.pi
    a2 = math.exp(-width)
    a1 = -4 * a2 / (1 + a2) * math.cos(angle)
    b0 = math.sqrt(1 - a1 * a1 / (4 * a2)) * (1 - a2)
    if noise:
        scale = math.sqrt(((1 + a2) ** 2 - a1 * a1) * (1 - a2) / (1 + a2)) / b0
        b0 *= scale
    return biquad(waveform, b0, 0.0, 0.0, 1.0, a1, a2)


def _shelf(
    waveform: core.Tensor, rate: int, gain: float, frequency: int, Q: float, high: int
) -> Any:
    """What is below (high = 1) or above (-1) a frequency made louder."""
    c, alpha, _ = _angles(rate, frequency, Q)
    root = 10 ** (core.as_tensor(gain, dtype=core.float64) / 40)
    sum_, less, wide = root + 1, (root - 1) * high, 2 * root**0.5 * alpha
    b0, b2 = sum_ - less * c * 1.0 + wide, sum_ - less * c - wide
    b1 = 2 * high * (root - 1 - (root + 1) * c * high)
    a0, a2 = sum_ + less * c + wide, sum_ + less * c - wide
    a1 = -2 * high * (root - 1 + (root + 1) * c * high)
    return biquad(waveform, root * b0, root * b1, root * b2, a0, a1, a2)


def bass_biquad(
    waveform: core.Tensor, sample_rate: int, gain: Any, central_freq: Any = 100, Q: Any = 0.707
) -> Any:
    """What is low made louder by so many decibels."""
    return _shelf(waveform, sample_rate, gain, central_freq, Q, 1)


def treble_biquad(
    waveform: core.Tensor, sample_rate: int, gain: Any, central_freq: Any = 3000, Q: Any = 0.707
) -> Any:
    """What is high made louder by so many decibels."""
    return _shelf(waveform, sample_rate, gain, central_freq, Q, -1)


def preemphasis(waveform: core.Tensor, coeff: float = 0.97) -> Any:
    """Each sample less a share of the one before."""
    return F.cat([waveform[..., :1], waveform[..., 1:] - coeff * waveform[..., :-1]], -1)


def deemphasis(waveform: core.Tensor, coeff: float = 0.97) -> Any:
    """`preemphasis` undone, in [-1, 1]."""
    a, b = _row(waveform, (1.0, -coeff)), _row(waveform, (1.0, 0.0))
    return lfilter(waveform, a, b)


def gain(waveform: core.Tensor, gain_db: float = 1.0) -> Any:
    """Louder by so many decibels."""
    return waveform if gain_db == 0 else waveform * 10 ** (gain_db / 20)


def contrast(waveform: core.Tensor, enhancement_amount: float = 75.0) -> Any:
    """What is quiet made louder."""
    if not 0 <= enhancement_amount <= 100:
        required, hint = "an amount from 0 to 100 was required", "75 is the default"
        fail(ValueError, "contrast", required, enhancement_amount, hint=hint)
    turn = waveform * (math.pi / 2)
    return F.sin(turn + enhancement_amount / 750.0 * F.sin(turn * 4))


def dcshift(waveform: core.Tensor, shift: float, limiter_gain: float | None = None) -> Any:
    """Moved up or down, in [-1, 1]; with a limiter peaks stay below it."""
    if limiter_gain is None or shift == 0:
        return (waveform + shift).clamp(-1, 1)
    limit = 1.0 - (abs(shift) - limiter_gain)
    sign = 1 if shift > 0 else -1
    over = waveform * sign > limit
    squeezed = (waveform * sign - limit) * limiter_gain / (1 - limit)
    held = (squeezed + limit + abs(shift)).clamp(max=limit)
    return F.where(over, sign * held, (waveform + shift).clamp(-1, 1))


def overdrive(waveform: core.Tensor, gain: float = 20, colour: float = 20) -> Any:
    """Distorted as by an amplifier that has too little room."""
    rows = waveform.reshape((-1, waveform.shape[-1]))
    pushed = rows * 10 ** (gain / 20) + colour / 200
    bent = F.where(pushed < -1, -2.0 / 3, F.where(pushed > 1, 2.0 / 3, pushed - pushed**3 / 3))
    still = F.zeros((rows.shape[0],), dtype=rows.dtype, device=rows.device)
    found = TABLE["audio::overdrive"](rows, bent.to(rows.dtype), still, still)[0]
    return found.clamp(-1, 1).reshape(waveform.shape)


def _part(op: str, out: Any, x: object, y: Any, mode: str) -> Any:
    if mode not in ("full", "valid", "same"):
        required, hint = "the mode 'full', 'valid' or 'same' was required", "'full' is the default"
        fail(ValueError, op, required, repr(mode), hint=hint)
    if mode == "full":
        return out
    wanted = max(x, y) - min(x, y) + 1 if mode == "valid" else x
    begin = (out.shape[-1] - wanted) // 2
    return out[..., begin : begin + wanted]


def fftconvolve(x: Any, y: Any, mode: str = "full") -> Any:
    """The convolution along the last dimension, by Fourier transforms."""
    size = x.shape[-1] + y.shape[-1] - 1
    found = fft.irfft(fft.rfft(x, n=size) * fft.rfft(y, n=size), n=size)
    return _part("fftconvolve", found, x.shape[-1], y.shape[-1], mode)


def convolve(x: Any, y: Any, mode: str = "full") -> Any:
    """The convolution along the last dimension, sum by sum."""
    shape = F.broadcast_tensors(x[..., :1], y[..., :1])[0].shape[:-1]
    rows = x.expand((*shape, x.shape[-1])).reshape((1, -1, x.shape[-1]))
    weights = y.expand((*shape, y.shape[-1])).reshape((-1, 1, y.shape[-1])).flip(-1)
    found = nn.functional.conv1d(rows, weights, groups=rows.shape[1], padding=y.shape[-1] - 1)
    found = found.reshape((*shape, found.shape[-1]))
    return _part("convolve", found, x.shape[-1], y.shape[-1], mode)
