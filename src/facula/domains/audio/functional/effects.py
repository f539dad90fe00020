"""Effects on samples: echoes that wander, noise, speed, pitch, the curves of records.

Takes: samples `[..., time]`. Gives: samples; all but rounding have gradients.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

from .filters import biquad, lfilter
from .spectra import phase_vocoder, resample

__all__ = [
    "add_noise", "deemph_biquad", "dither", "filtfilt", "flanger", "phaser", "pitch_shift",
    "riaa_biquad", "speed",
]  # fmt: skip


def filtfilt(waveform: Any, a_coeffs: Any, b_coeffs: Any, clamp: bool = True) -> Any:
    """A filter run forward, then backward: nothing is later than it was.

    Args:
        waveform: samples.
        a_coeffs: weights of earlier results, as for `lfilter`.
        b_coeffs: weights of samples.
        clamp: the result is held in [-1, 1].

    Example:
        >>> import facula
        >>> a, b = facula.tensor([1.0, 0.0]), facula.tensor([0.5, 0.5])
        >>> facula.audio.functional.filtfilt(facula.tensor([0.0, 1.0, 0.0]), a, b).tolist()
        [0.25, 0.5, 0.25]
    """
    forward = lfilter(waveform, a_coeffs, b_coeffs, clamp=False, batching=True)
    return lfilter(forward.flip(-1), a_coeffs, b_coeffs, clamp=clamp, batching=True).flip(-1)


#: rate -> frequency, slope and decibels of the shelf that undoes the emphasis of compact discs
_EMPHASIS = {44100: (5283, 0.4845, -9.477), 48000: (5356, 0.479, -9.62)}


def _of_rate(op: str, table: dict[int, Any], rate: int) -> Any:
    if rate not in table:
        required = f"a rate out of {', '.join(map(str, table))} was required"
        fail(ValueError, op, required, rate, hint="resample() changes the rate")
    return table[rate]


def deemph_biquad(waveform: Any, sample_rate: int) -> Any:
    """The emphasis of compact discs (IEC 60908) undone: a shelf of treble.

    Args:
        waveform: samples.
        sample_rate: 44100 or 48000.

    Raises:
        ValueError: another rate.

    Example:
        >>> import facula
        >>> facula.audio.functional.deemph_biquad(facula.zeros(4), 44100).tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    frequency, slope, decibels = _of_rate("deemph_biquad", _EMPHASIS, sample_rate)
    angle = 2 * math.pi * frequency / sample_rate
    root = 10 ** (decibels / 40)
    alpha = math.sin(angle) / 2 * math.sqrt((root + 1 / root) * (1 / slope - 1) + 2)
    wide, c, up, down = 2 * math.sqrt(root) * alpha, math.cos(angle), root + 1, root - 1
    b = (root * (up + down * c + wide), -2 * root * (down + up * c), root * (up + down * c - wide))
    a = (up - down * c + wide, 2 * (down - up * c), up - down * c - wide)
    return biquad(waveform, *b, *a)


#: rate -> two zeros and two poles of the curve of records
_RECORDS = {
    44100: ((-0.2014898, 0.9233820), (0.7083149, 0.9924091)),
    48000: ((-0.1766069, 0.9321590), (0.7396325, 0.9931330)),
    88200: ((-0.1168735, 0.9648312), (0.8590646, 0.9964002)),
    96000: ((-0.1141486, 0.9676817), (0.8699137, 0.9966946)),
}


def riaa_biquad(waveform: Any, sample_rate: int) -> Any:
    """The curve of records (RIAA) undone; a tone of 1 kHz stays as loud as it is.

    Args:
        waveform: samples.
        sample_rate: 44100, 48000, 88200 or 96000.

    Raises:
        ValueError: another rate.

    Example:
        >>> import facula
        >>> facula.audio.functional.riaa_biquad(facula.zeros(4), 48000).tolist()
        [0.0, 0.0, 0.0, 0.0]
    """
    zeros, poles = _of_rate("riaa_biquad", _RECORDS, sample_rate)
    (b1, b2), (a1, a2) = ((-(p + q), p * q) for p, q in (zeros, poles))
    turn = complex(
        math.cos(2 * math.pi * 1000 / sample_rate), -math.sin(2 * math.pi * 1000 / sample_rate)
    )
    heard = abs((1 + b1 * turn + b2 * turn**2) / (1 + a1 * turn + a2 * turn**2))
    return biquad(waveform, 1 / heard, b1 / heard, b2 / heard, 1.0, a1, a2)


def add_noise(waveform: Any, noise: Any, snr: Any, lengths: Any = None) -> Any:
    """Noise added, scaled so that speech is louder by so many decibels.

    Args:
        waveform: samples `[..., time]`.
        noise: as many samples.
        snr: decibels between the powers of both, `[...]`.
        lengths: how many samples of each row count for the powers, `[...]`.

    Raises:
        ValueError: dimensions or lengths do not fit.

    Example:
        >>> import facula
        >>> speech, noise = facula.ones(1, 4), facula.full((1, 4), 2.0)
        >>> facula.audio.functional.add_noise(speech, noise, facula.tensor([20.0]))
        tensor([[1.1000, 1.1000, 1.1000, 1.1000]])
    """
    dims = {waveform.dim() - 1, noise.dim() - 1, snr.dim()}
    if len(dims | ({lengths.dim()} if lengths is not None else set())) != 1:
        required = (
            "samples [..., time], and snr and lengths [...], were required (leading dimensions)"
        )
        got = f"{list(waveform.shape)}, {list(noise.shape)}, {list(snr.shape)}"
        fail(ValueError, "add_noise", required, got, hint="snr[None] adds a dimension")
    if waveform.shape[-1] != noise.shape[-1]:
        required = f"{waveform.shape[-1]} samples of noise were required"
        fail(ValueError, "add_noise", required, noise.shape[-1], hint="cut it, or repeat it")
    speech, other = waveform, noise
    if lengths is not None:
        places = F.arange(waveform.shape[-1], device=lengths.device)
        counts = places < lengths[..., None]
        speech, other = waveform * counts, noise * counts
    powers = [10 * F.log10((x * x).sum(-1)) for x in (speech, other)]
    scale = 10 ** ((powers[0] - powers[1] - snr) / 20)
    return waveform + scale[..., None] * noise


def speed(waveform: Any, orig_freq: int, factor: float, lengths: Any = None) -> tuple[Any, Any]:
    """Samples so much faster, and with them higher.

    Args:
        waveform: samples.
        orig_freq: their rate.
        factor: above 1 for faster.
        lengths: how many samples of each row count.

    Returns:
        The samples, and the lengths after it (None without).

    Example:
        >>> import facula
        >>> facula.audio.functional.speed(facula.zeros(100), 16000, 2.0)[0].shape
        facula.Size([50])
    """
    before, after = int(factor * orig_freq), int(orig_freq)
    common = math.gcd(before, after)
    before, after = before // common, after // common
    if lengths is not None:
        lengths = F.ceil(lengths * after / before).to(lengths.dtype)
    return resample(waveform, before, after), lengths


def stretched(
    waveform: Any, rate: float, n_fft: int, win_length: int, hop_length: int, window: Any
) -> Any:
    """Rows of samples slower by a rate, at the same pitch."""
    rows = waveform.reshape((-1, waveform.shape[-1]))
    sizes = (n_fft, hop_length, win_length, window)
    spectrum = F.stft(rows, *sizes, center=True, pad_mode="reflect", return_complex=True)
    advance = F.linspace(0, math.pi * hop_length, spectrum.shape[-2])[:, None].to(rows.dtype)
    slower = phase_vocoder(spectrum, rate, advance)
    return F.istft(slower, *sizes, length=int(round(rows.shape[-1] / rate)))


def pitch_shift(
    waveform: Any,
    sample_rate: int,
    n_steps: int,
    bins_per_octave: int = 12,
    n_fft: int = 512,
    win_length: int | None = None,
    hop_length: int | None = None,
    window: Any = None,
) -> Any:
    """Samples higher or lower by steps, as long as before.

    Args:
        waveform: samples.
        sample_rate: their rate.
        n_steps: how many steps higher.
        bins_per_octave: steps of an octave.
        n_fft: length of the Fourier transforms between.
        win_length: length of the window, `n_fft` by default.
        hop_length: samples from one window to the next, a quarter of `n_fft` by default.
        window: its weights, those of Hann by default.

    Example:
        >>> import facula
        >>> facula.audio.functional.pitch_shift(facula.zeros(1, 2000), 8000, 4).shape
        facula.Size([1, 2000])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if window is None:
        window = F.hann_window(width, dtype=waveform.dtype, device=waveform.device)
    rate = 2.0 ** (-float(n_steps) / bins_per_octave)
    slower = stretched(waveform, rate, n_fft, width, hop, window)
    found = resample(slower, int(sample_rate / rate), sample_rate)[..., : waveform.shape[-1]]
    found = nn.functional.pad(found, [0, waveform.shape[-1] - found.shape[-1]])
    return found.reshape(waveform.shape)


def dither(waveform: Any, density_function: str = "TPDF", noise_shaping: bool = False) -> Any:
    """Samples rounded to 16 bits after something was added, so that the rounding is not heard as a tone.

    Args:
        waveform: samples in [-1, 1], `[channels, time]`.
        density_function: "TPDF" adds a triangle over time, "RPDF" a sample taken by chance less a half,
            "GPDF" the sum of seven samples taken by chance.
        noise_shaping: the error of each sample is added to the next.

    Raises:
        ValueError: another density.

    Example:
        >>> import facula
        >>> facula.audio.functional.dither(facula.zeros(1, 3)).tolist()
        [[0.0, 3.0517578125e-05, 0.0]]
    """
    if density_function not in ("TPDF", "RPDF", "GPDF"):
        required, hint = "'TPDF', 'RPDF' or 'GPDF' was required", "'TPDF' is the default"
        fail(ValueError, "dither", required, repr(density_function), hint=hint)
    rows = waveform.reshape((-1, waveform.shape[-1]))
    chosen = _sample_by_chance(rows) if rows.numel() else rows.new_zeros(())
    if density_function == "TPDF":
        added = F.bartlett_window(rows.shape[-1], dtype=rows.dtype, device=rows.device)
    elif density_function == "RPDF":
        added = chosen - 0.5
    else:
        added = chosen + sum(_sample_by_chance(rows) for _ in range(6)) if rows.numel() else chosen
    rounded = F.round(rows * (2**15 - 2) + added) / 2**15
    if noise_shaping:
        rounded = rounded + nn.functional.pad(rounded - rows, [1, 0])[..., :-1]
    return rounded.reshape(waveform.shape)


def _sample_by_chance(rows: Any) -> Any:
    channel, time = (int(F.randint(n - 1, (1,)).item()) if n > 1 else 0 for n in rows.shape)
    return rows[channel, time]


def _wave(op: str, sinusoidal: bool, size: int, least: float, most: float, phase: float) -> Any:
    """One period of a sine or a triangle between two numbers, in float64."""
    if size < 1:
        required, hint = "a period of at least one sample was required", "modulate more slowly"
        fail(ValueError, op, required, size, hint=hint)
    place = (F.arange(size) + int(phase / math.pi / 2 * size + 0.5)) % size
    share = place.to(core.float64) / size
    if sinusoidal:
        level = (F.sin(share * 2 * math.pi) + 1) / 2
    else:
        # up from a half, down through it, and up again
        level = F.where(
            share < 0.25, 2 * share + 0.5, F.where(share < 0.75, 1.5 - 2 * share, 2 * share - 1.5)
        )
    return level * (most - least) + least


def phaser(
    waveform: Any,
    sample_rate: int,
    gain_in: float = 0.4,
    gain_out: float = 0.74,
    delay_ms: float = 3.0,
    decay: float = 0.4,
    mod_speed: float = 0.5,
    sinusoidal: bool = True,
) -> Any:
    """An echo of itself added, whose delay wanders.

    Args:
        waveform: samples.
        sample_rate: their rate.
        gain_in: factor of what comes in.
        gain_out: factor of what goes out.
        delay_ms: longest delay, in milliseconds.
        decay: factor of the echo.
        mod_speed: how many times in a second the delay wanders there and back.
        sinusoidal: the delay follows a sine, else a triangle.

    Raises:
        ValueError: the delay is shorter than a sample.

    Example:
        >>> import facula
        >>> facula.audio.functional.phaser(facula.tensor([0.5, 0.0, 0.0]), 8000)[0].item()
        0.14800000190734863
    """
    longest = int(delay_ms * 0.001 * sample_rate + 0.5)
    if longest < 1:
        required, hint = "a delay of at least one sample was required", "delay_ms=3.0"
        fail(ValueError, "phaser", required, f"{delay_ms} ms", hint=hint)
    wave = _wave(
        "phaser", sinusoidal, int(sample_rate / mod_speed + 0.5), 1.0, longest, math.pi / 2
    )
    rows = waveform.reshape((-1, waveform.shape[-1])) * gain_in
    time = F.arange(rows.shape[-1])
    delays = longest + 1 - (wave + 0.5).to(core.int64)[time % len(wave)]
    # y[t] = x[t] + decay * y[t - delays[t]]: each round doubles how many echoes are summed; place 0 is silence
    source = nn.functional.pad((time + 1 - delays).clamp(min=0), [1, 0])
    heard, factor = nn.functional.pad(rows, [1, 0]), decay
    while bool((source > 0).any()):
        heard = heard + factor * heard[:, source]
        source, factor = source[source], factor * factor
    return (heard[:, 1:] * gain_out).clamp(-1, 1).reshape(waveform.shape)


def flanger(
    waveform: Any,
    sample_rate: int,
    delay: float = 0.0,
    depth: float = 2.0,
    regen: float = 0.0,
    width: float = 71.0,
    speed: float = 0.5,
    phase: float = 25.0,
    modulation: str = "sinusoidal",
    interpolation: str = "linear",
) -> Any:
    """A copy of itself added, whose short delay wanders between samples.

    Args:
        waveform: samples `[..., channels, time]`, at most four channels.
        sample_rate: their rate.
        delay: least delay, in milliseconds.
        depth: how far the delay wanders, in milliseconds.
        regen: percentage of the copy that is heard again by it.
        width: percentage of the copy in the result.
        speed: how many times in a second the delay wanders there and back.
        phase: percentage of a period by which the next channel is ahead.
        modulation: "sinusoidal" or "triangular".
        interpolation: "linear" or "quadratic", between samples.

    Raises:
        ValueError: another modulation or interpolation, or more than four channels.

    Example:
        >>> import facula
        >>> facula.audio.functional.flanger(facula.zeros(1, 5), 8000).tolist()
        [[0.0, 0.0, 0.0, 0.0, 0.0]]
    """
    if modulation not in ("sinusoidal", "triangular") or interpolation not in (
        "linear",
        "quadratic",
    ):
        required = "modulation 'sinusoidal' or 'triangular', interpolation 'linear' or 'quadratic' were required"
        got = f"{modulation!r} and {interpolation!r}"
        fail(ValueError, "flanger", required, got, hint="leave both out")
    if waveform.dim() < 2 or waveform.shape[-2] > 4:
        required, hint = (
            "samples [..., channels, time] of at most 4 channels were required",
            "x[None]",
        )
        fail(ValueError, "flanger", required, list(waveform.shape), hint=hint)
    feedback, mix = regen / 100, width / 100
    length = int((delay + depth) / 1000 * sample_rate + 0.5) + 2
    least = math.floor(delay / 1000 * sample_rate + 0.5)
    period = int(sample_rate / speed)
    wave = _wave("flanger", modulation == "sinusoidal", period, least, length - 2.0, 1.5 * math.pi)
    wave = wave.to(core.float32)
    rows = waveform.reshape((-1, *waveform.shape[-2:]))
    ahead = [int(c * period * phase / 100 + 0.5) for c in range(rows.shape[1])]
    time = F.arange(rows.shape[-1])
    lags = F.stack([wave[(time + first) % period] for first in ahead])
    whole = lags.to(core.int64)
    share = (lags - whole).to(rows.dtype)
    echo = _Echo(whole, share, length, interpolation == "quadratic")
    late = echo.of(rows) if feedback == 0 else echo.fed_back(rows, feedback)
    out = (rows + late * mix * (1 - abs(feedback))) / (1 + mix)
    return out.clamp(-1, 1).reshape(waveform.shape)


class _Echo:
    """Samples `[rows, channels, time]` later by lags `[channels, time]`: whole ones, and shares of one."""

    def __init__(self, whole: Any, share: Any, length: int, quadratic: bool) -> None:
        self.share, self.quadratic, self.length = share, quadratic, length
        self.taps = [(whole + k) % length for k in range(3 if quadratic else 2)]

    def of(self, heard: Any) -> Any:
        """The echo at every place; before the first there is silence."""
        padded = nn.functional.pad(heard, [self.length, 0])
        return self._between(padded, F.arange(heard.shape[-1]) + self.length, slice(None))

    def _between(self, known: Any, places: Any, columns: Any) -> Any:
        points = []
        for tap in self.taps:
            source = places - tap[:, columns]
            points.append(known.gather(-1, source.expand((known.shape[0], *source.shape))))
        share = self.share[:, columns]
        if not self.quadratic:
            return points[0] + (points[1] - points[0]) * share
        near, far = points[1] - points[0], points[2] - points[0]
        return points[0] + ((far / 2 - near) * share + near * 2 - far / 2) * share

    def fed_back(self, rows: Any, feedback: float) -> Any:
        """The echo of samples to which it is added itself, one sample later."""
        total = rows.shape[-1]
        # what a block hears of the echo lies before it: no lag is shorter than the block less one
        block = int(min(tap.min().item() for tap in self.taps)) + 1 if total else 1
        past, pieces = rows.new_zeros((*rows.shape[:2], self.length)), []
        for begin in range(0, total, block):
            places = F.arange(min(block, total - begin)) - 1
            columns = (places + begin).clamp(min=0)
            echo = self._between(past, places + self.length, columns)
            pieces.append(rows[..., begin : begin + block] + feedback * echo)
            past = F.cat([past, pieces[-1]], -1)[..., -self.length :]
        return self.of(F.cat(pieces, -1)) if pieces else rows
