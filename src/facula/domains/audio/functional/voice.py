"""What is heard in samples: loudness, pitch, where speech begins.

Takes: samples `[..., time]`. Gives: decibels, frequencies, samples.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.namespaces import fft
from facula.ops.table.registry import F

from .filters import highpass_biquad, treble_biquad

__all__ = ["detect_pitch_frequency", "loudness", "vad"]

#: decibels that a level of energy is moved by, and the gate below which a block is silence (ITU-R BS.1770)
_LEVEL, _SILENCE = -0.691, -70.0
#: how much the channels count: left, right, middle, and both behind
_CHANNELS = (1.0, 1.0, 1.0, 1.41, 1.41)


def loudness(waveform: Any, sample_rate: int) -> Any:
    """How loud a recording is for people, in decibels (LKFS). [ITU-R BS.1770-4]

    Args:
        waveform: samples `[..., channels, time]`, at most five channels.
        sample_rate: their rate.

    Raises:
        ValueError: more than five channels.

    Example:
        >>> import facula
        >>> tone = facula.sin(facula.arange(16000) * (2 * 3.14159265 * 997 / 16000))
        >>> round(facula.audio.functional.loudness(tone[None], 16000).item(), 1)
        -3.1
    """
    if waveform.dim() < 2 or waveform.shape[-2] > len(_CHANNELS):
        required, hint = (
            "samples [..., channels, time] of at most 5 channels were required",
            "x[None]",
        )
        fail(ValueError, "loudness", required, list(waveform.shape), hint=hint)
    block = int(round(0.4 * sample_rate))
    heard = treble_biquad(waveform, sample_rate, 4.0, 1500.0, 1 / math.sqrt(2))
    heard = highpass_biquad(heard, sample_rate, 38.0, 0.5)
    energy = (heard * heard).unfold(-1, block, int(round(block * 0.25))).mean(-1)
    weights = core.tensor(
        _CHANNELS[: energy.shape[-2]], dtype=waveform.dtype, device=waveform.device
    )

    def decibels(levels: Any) -> Any:
        return _LEVEL + 10 * F.log10((levels * weights).sum(-1))

    def over(kept: Any) -> Any:
        return decibels((energy * kept[..., None, :]).sum(-1) / kept.sum(-1)[..., None])

    blocks = decibels(energy.transpose(-1, -2))
    loud = blocks > _SILENCE
    return over(loud & (blocks > (over(loud) - 10)[..., None]))


def detect_pitch_frequency(
    waveform: Any,
    sample_rate: int,
    frame_time: float = 0.01,
    win_length: int = 30,
    freq_low: int = 85,
    freq_high: int = 3400,
) -> Any:
    """The pitch of each frame: the lag at which samples are most like themselves, by the median of frames.

    Args:
        waveform: samples.
        sample_rate: their rate.
        frame_time: seconds of a frame.
        win_length: how many frames a median is of.
        freq_low: lowest frequency.
        freq_high: highest frequency.

    Raises:
        RuntimeError: there are fewer frames than a median needs.
        ValueError: the lags of both frequencies leave nothing to choose from.

    Example:
        >>> import facula
        >>> tone = facula.sin(facula.arange(8000) * (2 * 3.14159265 * 200 / 8000))
        >>> facula.audio.functional.detect_pitch_frequency(tone, 8000)[0].item()
        200.0
    """
    op = "detect_pitch_frequency"
    lags, size = math.ceil(sample_rate / freq_low), math.ceil(sample_rate * frame_time)
    least, half = math.ceil(sample_rate / freq_high), lags // 2
    if half <= least:
        required = "freq_high of more than twice freq_low was required at this rate"
        fail(ValueError, op, required, f"{freq_low} and {freq_high}", hint="leave both out")
    rows = waveform.reshape((-1, waveform.shape[-1]))
    frames = math.ceil(rows.shape[-1] / size)
    before = (win_length - 1) // 2
    if frames + before < win_length:
        required = f"samples for at least {win_length - before} frames were required"
        fail(RuntimeError, op, required, frames, hint=f"win_length={max(1, 2 * frames - 1)}")
    rows = nn.functional.pad(rows, [0, lags + frames * size - rows.shape[-1]])
    pieces = rows.unfold(-1, size + lags, size)[:, :frames].unfold(-1, size, 1)
    here, there = pieces[..., :1, :], pieces[..., 1:, :]
    norms = pieces.square().sum(-1).sqrt() + 1e-9
    alike = (here * there).sum(-1) / norms[..., :1] ** 2 / norms[..., 1:] ** 2
    anywhere, short = alike[..., least:].max(-1), alike[..., least:half].max(-1)
    nearer = short[0] > 0.99 * anywhere[0]
    best = F.where(nearer, short[1], anywhere[1]) + (least + 1)
    best = F.cat([best[:, :1].expand((len(best), before)), best], -1)
    median = best.unfold(-1, win_length, 1).median(-1)[0]
    found = sample_rate / (median.to(core.float32) + 1e-9)
    return found.reshape((*waveform.shape[:-1], found.shape[-1]))


@dataclasses.dataclass
class _Ear:
    """Measures how much like speech a piece is: the height of its cepstrum above that of the noise so far."""

    window: Any
    cepstral_window: Any
    bins: tuple[int, int]
    quefrencies: tuple[int, int]
    size: int
    smoothing: float
    rising: float
    falling: float
    reduction: float
    spectrum: Any
    noise: Any

    def measure(self, pieces: Any, booting: int) -> Any:
        """One number for each channel; `booting` counts the first pieces, of which noise is learnt, else -1."""
        kept = booting / (1.0 + booting) if booting >= 0 else self.smoothing
        first, last = self.bins
        heard = fft.rfft(pieces * self.window, n=self.size)[:, first:last].abs()
        self.spectrum = self.spectrum * kept + heard * (1 - kept)
        power = self.spectrum**2
        if booting >= 0:
            self.noise = power
        else:
            share = F.where(power > self.noise, self.rising, self.falling)
            self.noise = self.noise * share + power * (1 - share)
        level = (power - self.reduction * self.noise).clamp(min=0).sqrt() * self.cepstral_window
        level = nn.functional.pad(level, [first, self.size // 2 - last])
        first, last = self.quefrencies
        energy = fft.rfft(level)[:, first:last].abs().square().sum(-1) / (last - first)
        return (21 + F.log(energy)).clamp(min=0)


def _hann(size: int, device: Any) -> Any:
    return F.hann_window(size, dtype=core.float64, device=device) * (2.0 / math.sqrt(size))


def _ear(rows: Any, rate: int, settings: dict[str, Any]) -> _Ear:
    piece = int(rate * settings["measure_duration"] + 0.5)
    size = max(16, 1 << max(piece - 1, 0).bit_length())
    first = max(int(settings["hp_filter_freq"] / rate * size + 0.5), 1)
    last = min(int(settings["lp_filter_freq"] / rate * size + 0.5), size // 2)
    low = math.ceil(rate * 0.5 / settings["lp_lifter_freq"])
    high = min(math.floor(rate * 0.5 / settings["hp_lifter_freq"]), size // 4)
    if high <= low or last <= first or piece < 1:
        required = (
            "bounds of frequencies that leave something between them were required "
            "(cepstrum_start to be smaller than cepstrum_end)"
        )
        got = f"{first} to {last} and {low} to {high}"
        fail(ValueError, "vad", required, got, hint="leave the bounds out, or take a higher rate")
    often = settings["measure_freq"]
    rising, falling, smoothing = (
        math.exp(-1.0 / (settings[name] * often))
        for name in ("noise_up_time", "noise_down_time", "measure_smooth_time")
    )
    still = F.zeros((rows.shape[0], last - first), dtype=core.float64, device=rows.device)
    return _Ear(
        _hann(piece, rows.device), _hann(last - first, rows.device), (first, last), (low, high), size,
        smoothing, rising, falling, settings["noise_reduction_amount"], still, still,
    )  # fmt: skip


def vad(
    waveform: Any,
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
) -> Any:
    """Samples from where speech begins; none where there is none.

    Args:
        waveform: samples `[time]` or `[channels, time]`.
        sample_rate: their rate.
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

    Raises:
        ValueError: nothing lies between bounds of frequencies, or there are more than two dimensions.

    Example:
        >>> import facula
        >>> facula.audio.functional.vad(facula.zeros(16000), 16000).shape
        facula.Size([0])
    """
    settings = dict(locals())
    if waveform.dim() not in (1, 2):
        required, hint = (
            "samples [time] or [channels, time] were required",
            "one recording at a time",
        )
        fail(ValueError, "vad", required, list(waveform.shape), hint=hint)
    if measure_duration is None:
        settings["measure_duration"] = 2.0 / measure_freq
    rows = waveform.reshape((-1, waveform.shape[-1]))
    ear = _ear(rows, sample_rate, settings)
    piece, period = len(ear.window), int(sample_rate / measure_freq + 0.5)
    count = math.ceil(search_time * measure_freq)
    before = int(pre_trigger_time * sample_rate + 0.5)
    gap = int(allowed_gap * measure_freq + 0.5)
    found = _trigger(rows, ear, settings, count, period, gap)
    if found is None:
        return waveform[..., :before]
    begin = found[0] - (before + count * period + piece) + found[1]
    return waveform[..., max(begin, 0) :]


def _trigger(
    rows: Any, ear: _Ear, settings: dict[str, Any], count: int, period: int, gap: int
) -> tuple[int, int] | None:
    """The end of the piece that reaches the level, and the samples to leave out of those kept before it."""
    kept = math.exp(-1.0 / (settings["trigger_time"] * settings["measure_freq"]))
    boots = int(settings["boot_time"] * settings["measure_freq"] - 0.5)
    level, piece, booting, at = settings["trigger_level"], len(ear.window), 0, 0
    means, measures = [0.0] * len(rows), [[0.0] * count for _ in rows]
    for place in range(piece, rows.shape[-1], period):
        heard = ear.measure(rows[:, place - piece : place].to(core.float64), booting).tolist()
        flushed, triggered = 0, False
        for i, measure in enumerate(heard):
            measures[i][at] = measure
            means[i] = means[i] * kept + measure * (1 - kept)
            triggered = triggered or means[i] >= level
            if triggered:
                back = [measures[i][(at - k) % count] for k in range(count)]
                flushed = max(flushed, _speech_before(back, level, gap))
        if triggered:
            return place, (count - min(flushed, count)) * period
        at = (at + 1) % count
        if booting >= 0:
            booting = -1 if booting == boots else booting + 1
    return None


def _speech_before(back: list[float], level: float, gap: int) -> int:
    """How many of the measures, the newest first, belong to speech: up to the silence before it."""
    last = silent = len(back)
    for k, measure in enumerate(back):
        if measure >= level and k <= last + gap:
            last = silent = k
        elif measure == 0 and last >= silent:
            silent = k
    return min(len(back) - 1, silent)
