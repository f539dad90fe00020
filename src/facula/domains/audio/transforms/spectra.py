"""Spectra, scales and coding as modules.

Takes: settings. Gives: modules whose windows and weights are buffers.
Keeps true: random numbers come from facula's generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F as _F

from .. import functional as F

__all__ = [
    "AmplitudeToDB", "ComputeDeltas", "Fade", "FrequencyMasking", "GriffinLim", "InverseSpectrogram",
    "MFCC", "MelScale", "MelSpectrogram", "MuLawDecoding", "MuLawEncoding", "Resample", "Spectrogram",
    "TimeMasking", "TimeStretch", "Vol",
]  # fmt: skip


class Spectrogram(nn.Module):
    """See `functional.spectrogram`."""

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Any] = _F.hann_window,
        power: float | None = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        super().__init__()
        self.n_fft, self.win_length = n_fft, win_length or n_fft
        self.hop_length = hop_length or self.win_length // 2
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.power, self.normalized = pad, power, normalized
        self.center, self.pad_mode, self.onesided = center, pad_mode, onesided

    def forward(self, waveform: core.Tensor) -> Any:
        sizes = (self.n_fft, self.hop_length, self.win_length)
        frames = (self.center, self.pad_mode, self.onesided)
        window = self.window.to(waveform.dtype)
        return F.spectrogram(
            waveform, self.pad, window, *sizes, self.power, self.normalized, *frames
        )


class InverseSpectrogram(Spectrogram):
    """See `functional.inverse_spectrogram`."""

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Any] = _F.hann_window,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        frames = (center, pad_mode, onesided)
        super().__init__(
            n_fft, win_length, hop_length, pad, window_fn, None, normalized, wkwargs, *frames
        )

    def forward(self, spectrogram: core.Tensor, length: int | None = None) -> Any:
        sizes = (self.n_fft, self.hop_length, self.win_length)
        frames = (self.center, self.pad_mode, self.onesided)
        return F.inverse_spectrogram(
            spectrogram, length, self.pad, self.window, *sizes, self.normalized, *frames
        )


class GriffinLim(Spectrogram):
    """See `functional.griffinlim`."""

    def __init__(
        self,
        n_fft: int = 400,
        n_iter: int = 32,
        win_length: int | None = None,
        hop_length: int | None = None,
        window_fn: Callable[..., Any] = _F.hann_window,
        power: float = 2.0,
        wkwargs: dict[str, Any] | None = None,
        momentum: float = 0.99,
        length: int | None = None,
        rand_init: bool = True,
    ) -> None:
        settings: dict[str, Any] = {"window_fn": window_fn, "power": power, "wkwargs": wkwargs}
        super().__init__(n_fft, win_length, hop_length, **settings)
        self.n_iter, self.momentum, self.length, self.rand_init = (
            n_iter,
            momentum,
            length,
            rand_init,
        )

    def forward(self, specgram: core.Tensor) -> Any:
        window, power = self.window.to(specgram.dtype), self.power or 1.0
        return F.griffinlim(
            specgram,
            window,
            self.n_fft,
            self.hop_length,
            self.win_length,
            power,
            self.n_iter,
            self.momentum,
            self.length,
            self.rand_init,
        )


class MelScale(nn.Module):
    """Frequencies joined into bands for the ear."""

    def __init__(
        self,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_stft: int = 201,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.n_mels, self.sample_rate, self.f_min = n_mels, sample_rate, f_min
        self.f_max = float(sample_rate // 2) if f_max is None else f_max
        if f_min > self.f_max:
            required, hint = (
                f"f_min of at most f_max, {self.f_max}, was required",
                "0 is the default",
            )
            fail(ValueError, "MelScale", required, f_min, hint=hint)
        weights = F.melscale_fbanks(n_stft, f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", weights)

    def forward(self, specgram: core.Tensor) -> Any:
        return (specgram.transpose(-1, -2) @ self.fb.to(specgram.dtype)).transpose(-1, -2)


class MelSpectrogram(nn.Module):
    """A spectrum, its frequencies joined into bands for the ear."""

    def __init__(
        self,
        sample_rate: int = 16000,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        pad: int = 0,
        n_mels: int = 128,
        window_fn: Callable[..., Any] = _F.hann_window,
        power: float = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool | None = None,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.spectrogram = Spectrogram(
            n_fft,
            win_length,
            hop_length,
            pad,
            window_fn,
            power,
            normalized,
            wkwargs,
            center,
            pad_mode,
        )
        bands = n_fft // 2 + 1
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, bands, norm, mel_scale)

    def forward(self, waveform: core.Tensor) -> Any:
        return self.mel_scale(self.spectrogram(waveform))


class AmplitudeToDB(nn.Module):
    """See `functional.amplitude_to_DB`; `stype` is "power" or "magnitude"."""

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__()
        if stype not in ("power", "magnitude"):
            required, hint = "stype 'power' or 'magnitude' was required", "'power' is the default"
            fail(ValueError, "AmplitudeToDB", required, repr(stype), hint=hint)
        if top_db is not None and top_db < 0:
            fail(
                ValueError,
                "AmplitudeToDB",
                "top_db must be positive value",
                top_db,
                hint="80 is usual",
            )
        self.stype, self.top_db = stype, top_db
        self.multiplier = 10.0 if stype == "power" else 20.0

    def forward(self, x: core.Tensor) -> Any:
        return F.amplitude_to_DB(x, self.multiplier, 1e-10, 0.0, self.top_db)


class MFCC(nn.Module):
    """Cosine transforms of logarithms of bands for the ear."""

    def __init__(
        self,
        sample_rate: int = 16000,
        n_mfcc: int = 40,
        dct_type: int = 2,
        norm: str = "ortho",
        log_mels: bool = False,
        melkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dct_type != 2:
            fail(
                ValueError,
                "MFCC",
                "the transform of type 2 was required (DCT type not supported)",
                dct_type,
                hint="2",
            )
        self.MelSpectrogram = MelSpectrogram(sample_rate, **(melkwargs or {}))
        bands = self.MelSpectrogram.mel_scale.n_mels
        if n_mfcc > bands:
            required, hint = f"at most {bands} coefficients were required", "one a band"
            fail(ValueError, "MFCC", required, n_mfcc, hint=hint)
        self.register_buffer("dct_mat", F.create_dct(n_mfcc, bands, norm))
        self.amplitude_to_DB = AmplitudeToDB("power", 80.0)
        self.log_mels = log_mels

    def forward(self, waveform: core.Tensor) -> Any:
        bands = self.MelSpectrogram(waveform)
        bands = _F.log(bands + 1e-6) if self.log_mels else self.amplitude_to_DB(bands)
        return (bands.transpose(-1, -2) @ self.dct_mat.to(bands.dtype)).transpose(-1, -2)


class MuLawEncoding(nn.Module):
    """See `functional.mu_law_encoding`."""

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x: core.Tensor) -> Any:
        return F.mu_law_encoding(x, self.quantization_channels)


class MuLawDecoding(MuLawEncoding):
    """See `functional.mu_law_decoding`."""

    def forward(self, x_mu: Any) -> Any:
        return F.mu_law_decoding(x_mu, self.quantization_channels)


class Resample(nn.Module):
    """See `functional.resample`; `dtype` is that of torchaudio's kernel: here it is always float64, then rounded."""

    def __init__(
        self,
        orig_freq: int = 16000,
        new_freq: int = 16000,
        resampling_method: str = "sinc_interp_hann",
        lowpass_filter_width: int = 6,
        rolloff: float = 0.99,
        beta: float | None = None,
        *,
        dtype: core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.orig_freq, self.new_freq, self.dtype = orig_freq, new_freq, dtype
        self.settings = (lowpass_filter_width, rolloff, resampling_method, beta)

    def forward(self, waveform: core.Tensor) -> Any:
        return F.resample(waveform, self.orig_freq, self.new_freq, *self.settings)


class _Masking(nn.Module):
    axis = -1

    def __init__(self, mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        super().__init__()
        self.mask_param, self.iid_masks, self.p = mask_param, iid_masks, p

    def forward(self, specgram: core.Tensor, mask_value: Any = 0.0) -> Any:
        if self.iid_masks:
            return F.mask_along_axis_iid(specgram, self.mask_param, mask_value, self.axis, self.p)
        return F.mask_along_axis(specgram, self.mask_param, float(mask_value), self.axis, self.p)


class FrequencyMasking(_Masking):
    """A run of frequencies overwritten."""

    axis = -2

    def __init__(self, freq_mask_param: int, iid_masks: bool = False) -> None:
        super().__init__(freq_mask_param, iid_masks)


class TimeMasking(_Masking):
    """A run of frames overwritten."""

    def __init__(self, time_mask_param: int, iid_masks: bool = False, p: float = 1.0) -> None:
        super().__init__(time_mask_param, iid_masks, p)


class TimeStretch(nn.Module):
    """See `functional.phase_vocoder`."""

    def __init__(
        self, hop_length: int | None = None, n_freq: int = 201, fixed_rate: float | None = None
    ) -> None:
        super().__init__()
        hop = (n_freq - 1) if hop_length is None else hop_length
        self.fixed_rate = fixed_rate
        self.register_buffer("phase_advance", _F.linspace(0, math.pi * hop, n_freq)[..., None])

    def forward(self, complex_specgrams: core.Tensor, overriding_rate: float | None = None) -> Any:
        rate = self.fixed_rate if overriding_rate is None else overriding_rate
        if rate is None:
            required, hint = "a rate was required", "fixed_rate=1.2 in the constructor"
            fail(ValueError, "TimeStretch", required, "none", hint=hint)
        return F.phase_vocoder(complex_specgrams, rate, self.phase_advance)


class ComputeDeltas(nn.Module):
    """See `functional.compute_deltas`."""

    def __init__(self, win_length: int = 5, mode: str = "replicate") -> None:
        super().__init__()
        self.win_length, self.mode = win_length, mode

    def forward(self, specgram: core.Tensor) -> Any:
        return F.compute_deltas(specgram, self.win_length, self.mode)


class Vol(nn.Module):
    """Louder or quieter: by a factor ("amplitude"), a power, or decibels ("db")."""

    def __init__(self, gain: float, gain_type: str = "amplitude") -> None:
        super().__init__()
        if gain_type not in ("amplitude", "power", "db") or (gain_type != "db" and gain < 0):
            required = "a gain of type 'amplitude', 'power' (at least 0) or 'db' was required"
            fail(ValueError, "Vol", required, f"{gain} of {gain_type!r}", hint="Vol(0.5)")
        self.gain, self.gain_type = gain, gain_type

    def forward(self, waveform: core.Tensor) -> Any:
        if self.gain_type == "amplitude":
            waveform = waveform * self.gain
        else:
            waveform = F.gain(
                waveform, self.gain if self.gain_type == "db" else 10 * math.log10(self.gain)
            )
        return waveform.clamp(-1, 1)


class Fade(nn.Module):
    """Louder at the start and quieter at the end, in so many samples."""

    def __init__(
        self, fade_in_len: int = 0, fade_out_len: int = 0, fade_shape: str = "linear"
    ) -> None:
        super().__init__()
        shapes = ("linear", "quarter_sine", "half_sine")
        if fade_shape not in shapes:
            required, hint = f"a shape out of {', '.join(shapes)} was required", "'linear'"
            fail(ValueError, "Fade", required, repr(fade_shape), hint=hint)
        self.fade_in_len, self.fade_out_len, self.fade_shape = fade_in_len, fade_out_len, fade_shape

    def _curve(self, count: int) -> Any:
        x = _F.linspace(0, 1, count)
        if self.fade_shape == "linear":
            return x
        if self.fade_shape == "quarter_sine":
            return _F.sin(x * math.pi / 2)
        return _F.sin(x * math.pi - math.pi / 2) / 2 + 0.5

    def forward(self, waveform: core.Tensor) -> Any:
        ones = waveform.new_ones((waveform.shape[-1],))
        begin, end = ones.clone(), ones
        begin[: self.fade_in_len] = self._curve(self.fade_in_len)
        if self.fade_out_len:
            end[-self.fade_out_len :] = self._curve(self.fade_out_len).flip(0)
        return waveform * begin * end
