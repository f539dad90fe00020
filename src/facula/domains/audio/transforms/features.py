"""Features of spectra and samples as modules, and runs overwritten by chance.

Takes: settings. Gives: modules whose windows and weights are buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.namespaces import linalg
from facula.ops.table.registry import F as _F

from .. import functional as F
from .spectra import AmplitudeToDB, Spectrogram

__all__ = ["InverseMelScale", "LFCC", "SlidingWindowCmn", "SpecAugment", "SpectralCentroid"]

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class InverseMelScale(nn.Module):
    """Frequencies out of bands for the ear: the least squares, none below 0.

    Args:
        n_stft: how many frequencies.
        n_mels: how many bands.
        sample_rate: the rate of the samples.
        f_min: lowest frequency.
        f_max: highest frequency, half of the rate by default.
        norm: None or "slaney", as for the bands.
        mel_scale: "htk" or "slaney", as for the bands.
        driver: how the least squares are computed.

    Raises:
        ValueError: `f_min` above `f_max`, another driver, or other bands than were said.

    Example:
        >>> import facula
        >>> facula.audio.transforms.InverseMelScale(21, 8)(facula.ones(8, 3)).shape
        facula.Size([21, 3])
    """

    def __init__(
        self,
        n_stft: int,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        norm: str | None = None,
        mel_scale: str = "htk",
        driver: str = "gels",
    ) -> None:
        super().__init__()
        self.n_mels, self.driver = n_mels, driver
        self.f_min, self.f_max = f_min, f_max or float(sample_rate // 2)
        if f_min > self.f_max or driver not in _DRIVERS:
            required = (
                f"f_min of at most f_max, and a driver out of {', '.join(_DRIVERS)}, were required"
            )
            got = f"{f_min}, {self.f_max} and {driver!r}"
            fail(ValueError, "InverseMelScale", required, got, hint="'gels' is the default")
        weights = F.melscale_fbanks(n_stft, f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", weights)

    def forward(self, melspec: Any) -> Any:
        """Spectra `[..., frequencies, frames]` of bands `[..., bands, frames]`."""
        if melspec.shape[-2] != self.n_mels:
            required = f"{self.n_mels} bands were required"
            fail(ValueError, "InverseMelScale", required, melspec.shape[-2], hint="n_mels=")
        rows = melspec.reshape((-1, *melspec.shape[-2:]))
        weights = self.fb.t()[None].to(rows.dtype)
        found = linalg.lstsq(weights, rows, driver=self.driver).solution.clamp(min=0)
        return found.reshape((*melspec.shape[:-2], *found.shape[-2:]))


class LFCC(nn.Module):
    """Cosine transforms of logarithms of bands that are equally wide.

    Args:
        sample_rate: the rate of the samples.
        n_filter: how many bands.
        f_min: lowest frequency.
        f_max: highest frequency, half of the rate by default.
        n_lfcc: how many coefficients.
        dct_type: 2.
        norm: "ortho" or None.
        log_lf: natural logarithms, else decibels.
        speckwargs: arguments of the `Spectrogram` within.

    Raises:
        ValueError: another transform, or more coefficients than frequencies.

    Example:
        >>> import facula
        >>> facula.audio.transforms.LFCC(8000, n_lfcc=13)(facula.rand(2000)).shape
        facula.Size([13, 11])
    """

    def __init__(
        self,
        sample_rate: int = 16000,
        n_filter: int = 128,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_lfcc: int = 40,
        dct_type: int = 2,
        norm: str | None = "ortho",
        log_lf: bool = False,
        speckwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if dct_type != 2:
            required = "the transform of type 2 was required (DCT type not supported)"
            fail(ValueError, "LFCC", required, dct_type, hint="leave dct_type out")
        self.Spectrogram = Spectrogram(**(speckwargs or {}))
        size = self.Spectrogram.n_fft
        if n_lfcc > size:
            required, hint = f"at most {size} coefficients were required", "n_fft in speckwargs"
            fail(ValueError, "LFCC", required, n_lfcc, hint=hint)
        self.log_lf, self.amplitude_to_DB = log_lf, AmplitudeToDB("power", 80.0)
        high = float(sample_rate // 2) if f_max is None else f_max
        weights = F.linear_fbanks(size // 2 + 1, f_min, high, n_filter, sample_rate)
        self.register_buffer("filter_mat", weights)
        self.register_buffer("dct_mat", F.create_dct(n_lfcc, n_filter, norm))

    def forward(self, waveform: Any) -> Any:
        """Coefficients `[..., coefficients, frames]` of samples."""
        spectrum = self.Spectrogram(waveform).transpose(-1, -2)
        bands = (spectrum @ self.filter_mat.to(spectrum.dtype)).transpose(-1, -2)
        bands = _F.log(bands + 1e-6) if self.log_lf else self.amplitude_to_DB(bands)
        return (bands.transpose(-1, -2) @ self.dct_mat.to(bands.dtype)).transpose(-1, -2)


class SlidingWindowCmn(nn.Module):
    """See `functional.sliding_window_cmn`.

    Args:
        cmn_window: how many frames a mean is of.
        min_cmn_window: how many at the beginning, where fewer lie before.
        center: the frames lie around the one in question, else before it.
        norm_vars: features are divided by their deviation too.

    Example:
        >>> import facula
        >>> facula.audio.transforms.SlidingWindowCmn(center=True)(facula.tensor([[1.0], [3.0]])).tolist()
        [[-1.0], [1.0]]
    """

    def __init__(
        self,
        cmn_window: int = 600,
        min_cmn_window: int = 100,
        center: bool = False,
        norm_vars: bool = False,
    ) -> None:
        super().__init__()
        self.cmn_window, self.min_cmn_window = cmn_window, min_cmn_window
        self.center, self.norm_vars = center, norm_vars

    def forward(self, specgram: Any) -> Any:
        """Features `[..., frames, features]` less their mean over frames."""
        settings = (self.cmn_window, self.min_cmn_window, self.center, self.norm_vars)
        return F.sliding_window_cmn(specgram, *settings)


class SpectralCentroid(Spectrogram):
    """See `functional.spectral_centroid`.

    Args:
        sample_rate: the rate of the samples.
        n_fft: length of the Fourier transform.
        win_length: length of the window, `n_fft` by default.
        hop_length: samples from one frame to the next, half of the window by default.
        pad: zeros before and behind.
        window_fn: makes the window.
        wkwargs: more arguments of `window_fn`.

    Example:
        >>> import facula
        >>> facula.audio.transforms.SpectralCentroid(8000)(facula.rand(2000)).shape
        facula.Size([11])
    """

    def __init__(
        self,
        sample_rate: int,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: Callable[..., Any] = _F.hann_window,
        wkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(n_fft, win_length, hop_length, pad, window_fn, 1.0, False, wkwargs)
        self.sample_rate = sample_rate

    def forward(self, waveform: Any) -> Any:
        """The mean frequency of each frame."""
        sizes = (self.n_fft, self.hop_length, self.win_length)
        window = self.window.to(waveform.dtype)
        return F.spectral_centroid(waveform, self.sample_rate, self.pad, window, *sizes)


class SpecAugment(nn.Module):
    """Runs of frames and of frequencies overwritten by chance. [Park et al. 2019]

    Args:
        n_time_masks: how many runs of frames.
        time_mask_param: how long each may be.
        n_freq_masks: how many runs of frequencies.
        freq_mask_param: how long each may be.
        iid_masks: each spectrum has runs of its own.
        p: which share of the frames a run may take.
        zero_masking: zeros are written, else the mean.

    Example:
        >>> import facula
        >>> facula.audio.transforms.SpecAugment(1, 3, 1, 3)(facula.rand(2, 20, 30)).shape
        facula.Size([2, 20, 30])
    """

    def __init__(
        self,
        n_time_masks: int,
        time_mask_param: int,
        n_freq_masks: int,
        freq_mask_param: int,
        iid_masks: bool = True,
        p: float = 1.0,
        zero_masking: bool = False,
    ) -> None:
        super().__init__()
        self.n_time_masks, self.time_mask_param = n_time_masks, time_mask_param
        self.n_freq_masks, self.freq_mask_param = n_freq_masks, freq_mask_param
        self.iid_masks, self.p, self.zero_masking = iid_masks, p, zero_masking

    def forward(self, specgram: Any) -> Any:
        """Spectra `[..., frequencies, frames]` with runs overwritten."""
        value = 0.0 if self.zero_masking else specgram.mean()
        each = self.iid_masks and specgram.dim() > 2
        mask = F.mask_along_axis_iid if each else F.mask_along_axis
        if not each:
            value = float(value)
        last = specgram.dim() - 1
        runs = [(self.time_mask_param, last)] * self.n_time_masks
        runs += [(self.freq_mask_param, last - 1)] * self.n_freq_masks
        for longest, axis in runs:
            specgram = mask(specgram, longest, value, axis, self.p)
        return specgram
