"""Effects, losses and measures of samples as modules.

Takes: settings. Gives: modules.
Keeps true: random numbers come from facula's generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F as _F

from .. import functional as F

__all__ = [
    "AddNoise", "Convolve", "Deemphasis", "FFTConvolve", "Loudness", "PitchShift", "Preemphasis",
    "RNNTLoss", "Speed", "SpeedPerturbation", "Vad",
]  # fmt: skip


class AddNoise(nn.Module):
    """See `functional.add_noise`.

    Example:
        >>> import facula
        >>> one = facula.ones(1, 2)
        >>> facula.audio.transforms.AddNoise()(one, one, facula.tensor([0.0])).tolist()
        [[2.0, 2.0]]
    """

    def forward(self, waveform: Any, noise: Any, snr: Any, lengths: Any = None) -> Any:
        """Samples with noise that is so many decibels quieter."""
        return F.add_noise(waveform, noise, snr, lengths)


class _Convolving(nn.Module):
    def __init__(self, mode: str = "full") -> None:
        super().__init__()
        if mode not in ("full", "valid", "same"):
            required = "the mode 'full', 'valid' or 'same' was required"
            hint = "'full' is the default"
            fail(ValueError, type(self).__name__, required, repr(mode), hint=hint)
        self.mode = mode


class Convolve(_Convolving):
    """See `functional.convolve`.

    Args:
        mode: "full", "valid" or "same".

    Raises:
        ValueError: another mode.

    Example:
        >>> import facula
        >>> facula.audio.transforms.Convolve("same")(facula.ones(3), facula.ones(3)).tolist()
        [2.0, 3.0, 2.0]
    """

    def forward(self, x: Any, y: Any) -> Any:
        """The convolution of two rows."""
        return F.convolve(x, y, self.mode)


class FFTConvolve(_Convolving):
    """See `functional.fftconvolve`.

    Args:
        mode: "full", "valid" or "same".

    Raises:
        ValueError: another mode.

    Example:
        >>> import facula
        >>> facula.audio.transforms.FFTConvolve("valid")(facula.ones(3), facula.ones(2)).shape
        facula.Size([2])
    """

    def forward(self, x: Any, y: Any) -> Any:
        """The convolution of two rows."""
        return F.fftconvolve(x, y, self.mode)


class Preemphasis(nn.Module):
    """See `functional.preemphasis`.

    Args:
        coeff: the share of the sample before.

    Example:
        >>> import facula
        >>> facula.audio.transforms.Preemphasis(0.5)(facula.ones(3)).tolist()
        [1.0, 0.5, 0.5]
    """

    def __init__(self, coeff: float = 0.97) -> None:
        super().__init__()
        self.coeff = coeff

    def forward(self, waveform: Any) -> Any:
        """Each sample less a share of the one before."""
        return F.preemphasis(waveform, self.coeff)


class Deemphasis(Preemphasis):
    """See `functional.deemphasis`.

    Args:
        coeff: the share of the sample before.

    Example:
        >>> import facula
        >>> facula.audio.transforms.Deemphasis(0.5)(facula.tensor([0.5, 0.25])).tolist()
        [0.5, 0.5]
    """

    def forward(self, waveform: Any) -> Any:
        """Pre-emphasis undone."""
        return F.deemphasis(waveform, self.coeff)


class Loudness(nn.Module):
    """See `functional.loudness`.

    Args:
        sample_rate: the rate of the samples.

    Example:
        >>> import facula
        >>> facula.audio.transforms.Loudness(8000)(facula.rand(2, 8000)).shape
        facula.Size([])
    """

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self.sample_rate = sample_rate

    def forward(self, waveform: Any) -> Any:
        """Decibels of a recording `[..., channels, time]`."""
        return F.loudness(waveform, self.sample_rate)


class PitchShift(nn.Module):
    """See `functional.pitch_shift`.

    Args:
        sample_rate: the rate of the samples.
        n_steps: how many steps higher.
        bins_per_octave: steps of an octave.
        n_fft: length of the Fourier transforms between.
        win_length: length of the window, `n_fft` by default.
        hop_length: samples from one window to the next, a quarter of the window by default.
        window_fn: makes the window.
        wkwargs: more arguments of `window_fn`.

    Example:
        >>> import facula
        >>> facula.audio.transforms.PitchShift(8000, 4)(facula.zeros(1, 2000)).shape
        facula.Size([1, 2000])
    """

    def __init__(
        self,
        sample_rate: int,
        n_steps: int,
        bins_per_octave: int = 12,
        n_fft: int = 512,
        win_length: int | None = None,
        hop_length: int | None = None,
        window_fn: Callable[..., Any] = _F.hann_window,
        wkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.sample_rate, self.n_steps, self.bins_per_octave = sample_rate, n_steps, bins_per_octave
        self.n_fft, self.win_length = n_fft, n_fft if win_length is None else win_length
        self.hop_length = self.win_length // 4 if hop_length is None else hop_length
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))

    def forward(self, waveform: Any) -> Any:
        """Samples higher or lower, as long as before."""
        sizes = (self.n_fft, self.win_length, self.hop_length, self.window.to(waveform.dtype))
        steps = (self.n_steps, self.bins_per_octave)
        return F.pitch_shift(waveform, self.sample_rate, *steps, *sizes)


class RNNTLoss(nn.Module):
    """See `functional.rnnt_loss`.

    Args:
        blank: the label of nothing.
        clamp: bound of the gradients, none below 0.
        reduction: "none", "mean" or "sum".
        fused_log_softmax: logits come in, else logarithms of probabilities.

    Example:
        >>> import facula
        >>> one = facula.ones(1, dtype=facula.int32)
        >>> loss = facula.audio.transforms.RNNTLoss(blank=0)
        >>> round(loss(facula.zeros(1, 1, 2, 2), one[None], one, one).item(), 4)
        1.3863
    """

    def __init__(
        self,
        blank: int = -1,
        clamp: float = -1.0,
        reduction: str = "mean",
        fused_log_softmax: bool = True,
    ) -> None:
        super().__init__()
        self.blank, self.clamp = blank, clamp
        self.reduction, self.fused_log_softmax = reduction, fused_log_softmax

    def forward(
        self,
        logits: core.Tensor,
        targets: core.Tensor,
        logit_lengths: core.Tensor,
        target_lengths: core.Tensor,
    ) -> Any:
        """The loss of logits `[batch, steps, labels + 1, classes]` beside targets `[batch, labels]`."""
        settings = (self.blank, self.clamp, self.reduction, self.fused_log_softmax)
        return F.rnnt_loss(logits, targets, logit_lengths, target_lengths, *settings)


class Speed(nn.Module):
    """See `functional.speed`.

    Args:
        orig_freq: the rate of the samples.
        factor: above 1 for faster.

    Example:
        >>> import facula
        >>> facula.audio.transforms.Speed(16000, 2.0)(facula.zeros(100))[0].shape
        facula.Size([50])
    """

    def __init__(self, orig_freq: int, factor: float) -> None:
        super().__init__()
        self.orig_freq, self.factor = orig_freq, factor

    def forward(self, waveform: Any, lengths: Any = None) -> tuple[Any, Any]:
        """Samples so much faster, and lengths after it."""
        return F.speed(waveform, self.orig_freq, self.factor, lengths)


class SpeedPerturbation(nn.Module):
    """One of several speeds, chosen by chance at each call. [Ko et al. 2015]

    Args:
        orig_freq: the rate of the samples.
        factors: the speeds.

    Example:
        >>> import facula
        >>> module = facula.audio.transforms.SpeedPerturbation(16000, [0.5, 2.0])
        >>> len(module(facula.zeros(100))[0]) in (50, 200)
        True
    """

    def __init__(self, orig_freq: int, factors: Sequence[float]) -> None:
        super().__init__()
        self.speeders = nn.ModuleList([Speed(orig_freq, factor) for factor in factors])

    def forward(self, waveform: Any, lengths: Any = None) -> tuple[Any, Any]:
        """Samples faster or slower, and lengths after it."""
        return self.speeders[int(_F.randint(len(self.speeders), ()))](waveform, lengths)


class Vad(nn.Module):
    """See `functional.vad`, whose settings it takes.

    Args:
        sample_rate: the rate of the samples.
        trigger_level: what the measure of speech must reach.
        trigger_time: seconds over which the measure is smoothed.
        search_time: seconds before the trigger in which the beginning is looked for.
        allowed_gap: seconds of silence that may lie within the beginning.
        pre_trigger_time: seconds kept before the beginning.
        boot_time: seconds of noise that are learnt first.
        noise_up_time: seconds in which the noise follows upwards.
        noise_down_time: seconds in which it follows downwards.
        noise_reduction_amount: how much of the noise is taken off.
        measure_freq: measures in a second.
        measure_duration: seconds of a measure, two periods by default.
        measure_smooth_time: seconds over which spectra are smoothed.
        hp_filter_freq: lowest frequency looked at.
        lp_filter_freq: highest frequency looked at.
        hp_lifter_freq: lowest pitch of a voice.
        lp_lifter_freq: highest pitch of a voice.

    Example:
        >>> import facula
        >>> facula.audio.transforms.Vad(16000)(facula.zeros(16000)).shape
        facula.Size([0])
    """

    def __init__(
        self,
        sample_rate: int,
        trigger_level: float = 7.0,
        trigger_time: float = 0.25,
        search_time: float = 1.0,
        allowed_gap: float = 0.25,
        pre_trigger_time: float = 0.0,
        boot_time: float = 0.35,
        noise_up_time: float = 0.1,
        noise_down_time: float = 0.01,
        noise_reduction_amount: float = 1.35,
        measure_freq: float = 20.0,
        measure_duration: float | None = None,
        measure_smooth_time: float = 0.4,
        hp_filter_freq: float = 50.0,
        lp_filter_freq: float = 6000.0,
        hp_lifter_freq: float = 150.0,
        lp_lifter_freq: float = 2000.0,
    ) -> None:
        given = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self.settings: dict[str, Any] = given

    def forward(self, waveform: Any) -> Any:
        """Samples from where speech begins."""
        return F.vad(waveform, **self.settings)
