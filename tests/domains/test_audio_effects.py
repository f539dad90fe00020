"""Effects, voices, features: beside plain loops, SciPy, and what the standards say of them."""

import itertools
import math
import warnings

import numpy
import pytest
import scipy.fft
import scipy.linalg
import scipy.signal

import facula
from facula.audio import functional as F
from facula.audio import transforms as T

RNG = numpy.random.default_rng(31)
SOUND = RNG.standard_normal((2, 3, 400)) * 0.3


def tensor(values, dtype="float64"):
    return facula.tensor(numpy.asarray(values, dtype=dtype))


def close(found, wanted, tolerance=1e-9):
    numpy.testing.assert_allclose(numpy.asarray(found), wanted, rtol=tolerance, atol=tolerance)


def wave(sinusoidal, size, least, most, phase):
    """One period, point by point."""
    begin, found = int(phase / math.pi / 2 * size + 0.5), []
    for i in range(size):
        share = (i + begin) % size / size
        if sinusoidal:
            level = (math.sin(2 * math.pi * share) + 1) / 2
        else:
            level = numpy.interp(share, [0, 0.25, 0.75, 1], [0.5, 1, 0, 0.5])
        found.append(least + level * (most - least))
    return found


@pytest.mark.parametrize("sinusoidal", [True, False])
@pytest.mark.parametrize(
    ("delay", "speed", "decay"), [(3.0, 0.5, 0.4), (1.0, 40.0, -0.9), (0.125, 2.0, 0.5)]
)
def test_phaser_is_a_loop_over_samples(sinusoidal, delay, speed, decay):
    rate, x = 8000, SOUND[0, 0]
    longest = int(delay * 0.001 * rate + 0.5)
    table = wave(sinusoidal, int(rate / speed + 0.5), 1.0, longest, math.pi / 2)
    heard = []
    for t in range(len(x)):
        before = t - (longest + 1 - int(table[t % len(table)] + 0.5))
        heard.append(0.4 * x[t] + (decay * heard[before] if before >= 0 else 0.0))
    found = F.phaser(tensor(SOUND), rate, 0.4, 0.74, delay, decay, speed, sinusoidal)
    close(found[0, 0], numpy.clip(numpy.array(heard) * 0.74, -1, 1))
    assert found.shape == SOUND.shape
    with pytest.raises(ValueError, match="at least one sample"):
        F.phaser(tensor(SOUND), rate, delay_ms=0.01)


@pytest.mark.parametrize("modulation", ["sinusoidal", "triangular"])
@pytest.mark.parametrize("interpolation", ["linear", "quadratic"])
@pytest.mark.parametrize(
    ("delay", "depth", "regen"), [(0.0, 2.0, 0.0), (1.0, 1.0, 60.0), (0.0, 0.5, -80.0)]
)
def test_flanger_is_a_loop_over_samples(modulation, interpolation, delay, depth, regen):
    rate, speed, x = 8000, 20.0, SOUND[1, 1]
    length = int((delay + depth) / 1000 * rate + 0.5) + 2
    least = math.floor(delay / 1000 * rate + 0.5)
    period = int(rate / speed)
    table = wave(modulation == "sinusoidal", period, least, length - 2, 1.5 * math.pi)
    first = int(period * 0.25 + 0.5)
    written, last, wanted = [], 0.0, []
    mix, feedback = 0.71, regen / 100
    for t in range(len(x)):
        lag = float(numpy.float32(table[(t + first) % period]))
        written.append(x[t] + feedback * last)
        points = [
            written[t - d] if t - d >= 0 else 0.0
            for d in ((int(lag) + k) % length for k in range(3))
        ]
        share = lag - int(lag)
        if interpolation == "linear":
            last = (1 - share) * points[0] + share * points[1]
        else:
            last = sum(
                p * math.prod((share - j) / (k - j) for j in range(3) if j != k)
                for k, p in enumerate(points)
            )
        wanted.append((x[t] + last * mix * (1 - abs(feedback))) / (1 + mix))
    found = F.flanger(
        tensor(SOUND),
        rate,
        delay,
        depth,
        regen,
        speed=speed,
        modulation=modulation,
        interpolation=interpolation,
    )
    # the table is kept in float32: sines of two libraries differ in its last place
    close(found[1, 1], numpy.clip(wanted, -1, 1), 1e-5)


def test_flanger_says_what_it_takes():
    with pytest.raises(ValueError, match="'sinusoidal' or 'triangular'"):
        F.flanger(tensor(SOUND), 8000, modulation="square")
    with pytest.raises(ValueError, match="at most 4 channels"):
        F.flanger(facula.zeros(5, 9), 8000)


@pytest.mark.parametrize("density", ["TPDF", "RPDF", "GPDF"])
def test_dithered_samples_are_of_16_bits(density):
    x = tensor(SOUND[0])
    facula.manual_seed(3)
    found = F.dither(x, density).numpy()
    steps = found * 2**15
    close(steps, numpy.round(steps), 0)
    added = steps - SOUND[0] * (2**15 - 2)
    if density == "TPDF":
        close(steps, numpy.round(SOUND[0] * (2**15 - 2) + numpy.bartlett(401)[:-1]), 0)
    else:
        assert numpy.ptp(added) <= 1 + 1e-6
    facula.manual_seed(3)
    shaped = F.dither(x, density, noise_shaping=True).numpy()
    error = found - SOUND[0]
    close(shaped[:, 0], found[:, 0])
    close(shaped[:, 1:], found[:, 1:] + error[:, :-1])
    with pytest.raises(ValueError, match="'TPDF', 'RPDF' or 'GPDF'"):
        F.dither(x, "UPDF")


def response(name, rate, frequency):
    impulse = numpy.zeros(rate)
    impulse[0] = 0.05
    heard = numpy.fft.rfft(getattr(F, name)(tensor(impulse), rate).numpy())[frequency] / 0.05
    return 20 * math.log10(abs(heard))


@pytest.mark.parametrize("rate", [44100, 48000, 88200, 96000])
def test_the_curve_of_records_is_that_of_the_standard(rate):
    def wanted(frequency):
        s = 2j * math.pi * frequency
        return 20 * math.log10(abs((1 + s * 318e-6) / ((1 + s * 3180e-6) * (1 + s * 75e-6))))

    # two zeros and two poles reach it within half a decibel
    for frequency in (20, 100, 1000, 5000, 10000):
        assert response("riaa_biquad", rate, frequency) == pytest.approx(
            wanted(frequency) - wanted(1000), abs=0.5
        )


@pytest.mark.parametrize("rate", [44100, 48000])
def test_the_emphasis_of_discs_is_undone(rate):
    for frequency in (100, 1000, 5000, 10000):
        angle = 2 * math.pi * frequency
        wanted = 10 * math.log10((1 + (angle * 15e-6) ** 2) / (1 + (angle * 50e-6) ** 2))
        assert response("deemph_biquad", rate, frequency) == pytest.approx(wanted, abs=0.15)
    for name in ("deemph_biquad", "riaa_biquad"):
        with pytest.raises(ValueError, match="44100, 48000"):
            getattr(F, name)(facula.zeros(4), 8000)


def test_filtfilt_is_scipys_filter_twice():
    b, a = scipy.signal.butter(3, 0.3)
    wanted = scipy.signal.lfilter(b, a, scipy.signal.lfilter(b, a, SOUND)[..., ::-1])[..., ::-1]
    close(F.filtfilt(tensor(SOUND), tensor(a), tensor(b), clamp=False), wanted)
    close(F.filtfilt(tensor(SOUND * 9), tensor(a), tensor(b)), numpy.clip(wanted * 9, -1, 1))


def test_noise_is_as_loud_as_was_asked():
    noise, levels = RNG.standard_normal(SOUND.shape), RNG.uniform(-5, 20, (2, 3))
    lengths = numpy.array([[400, 100, 7], [30, 200, 400]])
    found = F.add_noise(
        tensor(SOUND), tensor(noise), tensor(levels), tensor(lengths, "int64")
    ).numpy()
    for at in numpy.ndindex(2, 3):
        added, count = (found - SOUND)[at], lengths[at]
        ratio = (SOUND[at][:count] ** 2).sum() / (added[:count] ** 2).sum()
        assert 10 * math.log10(ratio) == pytest.approx(levels[at])
        close(added / added[0], noise[at] / noise[at][0])
    module = T.AddNoise()
    close(
        module(tensor(SOUND), tensor(noise), tensor(levels)),
        F.add_noise(*map(tensor, (SOUND, noise, levels))),
    )
    with pytest.raises(ValueError, match="leading dimensions"):
        F.add_noise(tensor(SOUND), tensor(noise), tensor(levels[0]))
    with pytest.raises(ValueError, match="400 samples of noise were required"):
        F.add_noise(tensor(SOUND), tensor(noise[..., :9]), tensor(levels))


def loudest(x, rate):
    return numpy.argmax(abs(numpy.fft.rfft(x * numpy.hanning(len(x))))) * rate / len(x)


def test_speed_and_pitch_move_a_tone():
    rate, frequency = 8000, 440.0
    tone = numpy.sin(2 * math.pi * frequency * numpy.arange(rate) / rate)
    x = tensor(numpy.stack([tone, tone]))
    faster, lengths = F.speed(x, rate, 1.25, facula.tensor([8000, 11]))
    assert faster.shape == (2, 6400) and lengths.tolist() == [6400, 9]
    assert loudest(faster[0].numpy(), rate) == pytest.approx(550, abs=2)
    assert T.Speed(rate, 1.25)(x)[1] is None
    for steps in (12, -12):
        for found in (F.pitch_shift(x, rate, steps), T.PitchShift(rate, steps)(x)):
            assert found.shape == x.shape
            wanted = frequency * 2 ** (steps / 12)
            assert loudest(found[1].numpy(), rate) == pytest.approx(wanted, rel=0.01)
    module = T.SpeedPerturbation(rate, [0.5, 1.0, 2.0])
    assert {module(x[..., :100])[0].shape[-1] for _ in range(60)} == {200, 100, 50}


def test_loudness_is_that_of_the_standard():
    rate = 48000
    tone = numpy.sin(2 * math.pi * 997 * numpy.arange(2 * rate) / rate)
    # BS.1770: a tone of full scale is -3.01 LKFS in one channel; the filters are within 0.3 dB of the standard's
    alone = F.loudness(tensor([tone]), rate).item()
    assert alone == pytest.approx(-3.01, abs=0.3)
    assert F.loudness(tensor([tone, tone]), rate).item() == pytest.approx(
        alone + 10 * math.log10(2)
    )
    behind = numpy.stack([tone * 0] * 3 + [tone])
    wanted = alone + 10 * math.log10(1.41)
    assert F.loudness(tensor(behind), rate).item() == pytest.approx(wanted)
    # silence, and what is quieter by more than 10 dB, are left out but for the blocks that hold both
    quiet = tensor([numpy.concatenate([tone, tone * 0, tone * 0.01])])
    assert alone - 0.5 < T.Loudness(rate)(quiet).item() < alone
    with pytest.raises(ValueError, match="at most 5 channels"):
        F.loudness(facula.zeros(6, 4000), 8000)


@pytest.mark.parametrize("frequency", [100.0, 160.0, 320.0])
def test_pitch_of_a_voice(frequency):
    rate = 16000
    turns = numpy.arange(rate) * frequency / rate * 2 * math.pi
    voice = sum(numpy.sin(k * turns) / k for k in range(1, 6)) + RNG.standard_normal(rate) * 0.05
    found = F.detect_pitch_frequency(tensor([voice]), rate).numpy()
    assert found.shape[0] == 1
    close(found[0, 2:-2], frequency, 0.03)
    with pytest.raises(RuntimeError, match="at least 16 frames"):
        F.detect_pitch_frequency(tensor(voice[:800]), rate)
    with pytest.raises(ValueError, match="more than twice"):
        F.detect_pitch_frequency(tensor(voice), rate, freq_low=100, freq_high=150)


@pytest.mark.parametrize("channels", [0, 2])
def test_speech_begins_where_the_voice_does(channels):
    rate, begin = 16000, 20000
    noise = RNG.standard_normal(48000) * 0.001
    voice = scipy.signal.sawtooth(2 * math.pi * 150 * numpy.arange(48000) / rate) * 0.4
    x = noise + voice * (numpy.arange(48000) >= begin)
    x = numpy.stack([x] * channels) if channels else x
    found = F.vad(tensor(x), rate)
    start = x.shape[-1] - found.shape[-1]
    assert abs(start - begin) <= 0.2 * rate
    close(found, x[..., start:], 0)
    kept = T.Vad(rate, pre_trigger_time=0.5)(tensor(x))
    assert kept.shape[-1] - found.shape[-1] == rate // 2
    assert F.vad(tensor(noise), rate).shape == (0,)
    assert F.vad(tensor(noise), rate, pre_trigger_time=0.1).shape == (1600,)


def test_vad_says_what_it_takes():
    with pytest.raises(ValueError, match="bounds of frequencies"):
        F.vad(facula.zeros(9000), 8000, hp_lifter_freq=3000.0)
    with pytest.raises(ValueError, match=r"\[time\] or \[channels, time\]"):
        F.vad(facula.zeros(2, 2, 9000), 8000)


@pytest.mark.parametrize(("width", "least"), [(600, 100), (5, 2), (8, 3), (7, 30)])
@pytest.mark.parametrize("deviation", [False, True])
def test_means_of_windows_are_taken_off(width, least, deviation):
    x = SOUND[:, :, :40].transpose(0, 2, 1) + 5.0
    frames = x.shape[-2]
    for center in (False, True):
        wanted = numpy.empty_like(x)
        for t in range(frames):
            if center:
                begin, end = max(t - width // 2, 0), max(t - width // 2, 0) + width
            else:
                begin, end = max(t - width, 0), t + 1
                # at the beginning at least `least` frames
                end = max(end, least)
            over = max(end - frames, 0)
            begin, end = max(begin - over, 0), end - over
            piece = x[:, begin:end]
            wanted[:, t] = x[:, t] - piece.mean(1)
            if deviation:
                spread = piece.std(1)
                wanted[:, t] = wanted[:, t] / spread if end - begin > 1 else 0.0
        close(F.sliding_window_cmn(tensor(x), width, least, center, deviation), wanted, 1e-7)
        module = T.SlidingWindowCmn(width, least, center, deviation)
        close(module(tensor(x[0])), wanted[0], 1e-7)


def test_centroid_is_the_mean_of_scipys_spectrum():
    rate, size, hop = 8000, 64, 16
    window = numpy.hamming(size)
    frames = numpy.lib.stride_tricks.sliding_window_view(
        numpy.pad(SOUND[0], [(0, 0), (32, 32)], "reflect"), size, -1
    )
    spectrum = abs(scipy.fft.rfft(frames[:, ::hop] * window))
    wanted = (spectrum * numpy.arange(33) * rate / size).sum(-1) / spectrum.sum(-1)
    close(F.spectral_centroid(tensor(SOUND[0]), rate, 0, tensor(window), size, hop, size), wanted)
    module = T.SpectralCentroid(
        rate, size, hop_length=hop, window_fn=facula.hamming_window, wkwargs={"periodic": False}
    )
    close(module(tensor(SOUND[0])), wanted, 1e-5)


@pytest.mark.parametrize("axis", [-1, -2])
def test_each_spectrum_has_a_run_of_its_own(axis):
    facula.manual_seed(5)
    found = F.mask_along_axis_iid(facula.ones(40, 3, 20, 30), 8, 7.0, axis).numpy()
    rows = (found == 7.0).all(axis=-2 if axis == -1 else -1).reshape(120, -1)
    assert (found == 7.0).sum() == rows.sum() * (20 if axis == -1 else 30)
    runs = [[(k, len(list(g))) for k, g in itertools.groupby(row) if k] for row in rows]
    assert all(len(r) <= 1 for r in runs)
    lengths = [r[0][1] if r else 0 for r in runs]
    assert (
        max(lengths) < 8 and set(range(8)) == set(lengths) and len({r.tobytes() for r in rows}) > 40
    )
    value = F.mask_along_axis_iid(facula.ones(4, 3, 9), 8, facula.tensor(2.5), axis)
    assert set(value.unique().tolist()) <= {1.0, 2.5}
    assert (F.mask_along_axis_iid(facula.ones(9, 3, 10), 8, 0.0, 2, p=0.2) == 0).any(1).sum(
        -1
    ).max() < 2
    with pytest.raises(ValueError, match="at least 3 dimensions"):
        F.mask_along_axis_iid(facula.ones(3, 4), 2, 0.0, -1)
    module = T.SpecAugment(1, 6, 1, 4, iid_masks=False, zero_masking=True)
    masked = module(facula.ones(5, 20, 30)) == 0
    assert bool((masked == masked[:1]).all())


def test_distance_of_normal_distributions():
    a, b = (m @ m.T for m in RNG.standard_normal((2, 4, 6)))
    means = RNG.standard_normal((2, 4))
    root = scipy.linalg.sqrtm(a @ b).real
    wanted = ((means[0] - means[1]) ** 2).sum() + numpy.trace(a + b - 2 * root)
    close(F.frechet_distance(*map(tensor, (means[0], a, means[1], b))), wanted, 1e-6)
    with pytest.raises(ValueError, match=r"means \[size\]"):
        F.frechet_distance(tensor(a), tensor(a), tensor(b), tensor(b))


def test_runs_of_labels_are_merged():
    labels = RNG.integers(0, 3, 60)
    scores = RNG.uniform(size=60)
    wanted, at = [], 0
    for label, group in itertools.groupby(labels):
        count = len(list(group))
        if label != 1:
            wanted.append((label, at, at + count, scores[at : at + count].mean()))
        at += count
    found = F.merge_tokens(tensor(labels, "int64"), tensor(scores), blank=1)
    assert [(s.token, s.start, s.end) for s in found] == [w[:3] for w in wanted]
    close([s.score for s in found], [w[3] for w in wanted])
    assert len(found[0]) == found[0].end - found[0].start
    assert F.merge_tokens(facula.zeros(0, dtype=facula.int64), facula.zeros(0)) == []
    with pytest.raises(ValueError, match="of one dimension and one length"):
        F.merge_tokens(facula.zeros(2, 3), facula.zeros(2, 3))


def test_bands_come_back_by_least_squares():
    module = T.InverseMelScale(33, 12, 8000)
    bands = RNG.uniform(size=(2, 12, 5))
    weights = module.fb.numpy().T
    wanted = [numpy.clip(numpy.linalg.lstsq(weights, b, rcond=None)[0], 0, None) for b in bands]
    close(module(tensor(bands)), wanted, 1e-4)
    with pytest.raises(ValueError, match="12 bands were required"):
        module(tensor(bands[:, :5]))
    with pytest.raises(ValueError, match="a driver out of gels"):
        T.InverseMelScale(33, driver="qr")


def test_linear_coefficients_are_scipys():
    module = T.LFCC(8000, 20, n_lfcc=9, log_lf=True, speckwargs={"n_fft": 64, "hop_length": 32})
    spectrum = (
        T.Spectrogram(64, hop_length=32)(tensor(SOUND[0], "float32")).numpy().astype("float64")
    )
    bands = numpy.log(F.linear_fbanks(33, 0, 4000, 20, 8000).numpy().T @ spectrum + 1e-6)
    wanted = scipy.fft.dct(bands, axis=-2, norm="ortho")[:, :9]
    close(module(tensor(SOUND[0], "float32")), wanted, 1e-4)
    with pytest.raises(ValueError, match="at most 400 coefficients"):
        T.LFCC(n_lfcc=401)
    with pytest.raises(ValueError, match="DCT type not supported"):
        T.LFCC(dct_type=3)


def test_modules_are_their_functions():
    x, y = tensor(SOUND), tensor(SOUND[..., :9])
    for mode in ("full", "same", "valid"):
        wanted = scipy.signal.fftconvolve(SOUND, SOUND[..., :9], "full", axes=-1)
        length = {"full": 408, "same": 400, "valid": 392}[mode]
        begin = (408 - length) // 2
        close(T.Convolve(mode)(x, y), wanted[..., begin : begin + length])
        close(T.FFTConvolve(mode)(x, y), wanted[..., begin : begin + length])
    with pytest.raises(ValueError, match=r"\[FFTConvolve\] the mode"):
        T.FFTConvolve("half")
    close(T.Preemphasis(0.9)(x), scipy.signal.lfilter([1, -0.9], [1], SOUND))
    close(
        T.Deemphasis(0.9)(x / 9), numpy.clip(scipy.signal.lfilter([1], [1, -0.9], SOUND / 9), -1, 1)
    )
    spectrum = T.Spectrogram(64, power=None)(x)
    back = T.InverseSpectrogram(64)(spectrum.to(facula.complex64), 400)
    close(back, SOUND, 1e-5)
    lengths = [facula.tensor([n], dtype=facula.int32) for n in (4, 2)]
    logits, targets = facula.randn(1, 4, 3, 5), facula.tensor([[1, 2]], dtype=facula.int32)
    loss = T.RNNTLoss(blank=0, reduction="sum")(logits, targets, *lengths)
    close(loss, F.rnnt_loss(logits, targets, *lengths, 0, reduction="sum"), 0)


# ------------------------------------------------------------------ beamforming


def complex_numbers(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


SPECTRUM, HEARD = complex_numbers(2, 4, 5, 30), complex_numbers(2, 5, 4)
NOISE = numpy.einsum("...ij,...kj->...ik", *[complex_numbers(2, 5, 4, 9)] * 2)
NOISE = numpy.einsum("...ij,...kj->...ik", NOISE, NOISE.conj())
#: a source that each channel hears in one way only
SOURCE = numpy.einsum("...i,...j->...ij", HEARD, HEARD.conj()) * 3.0


def test_densities_are_sums_over_time():
    mask = RNG.uniform(size=(2, 5, 30))
    found = F.psd(facula.tensor(SPECTRUM)).numpy()
    close(found, numpy.einsum("bcft,bdft->bfcd", SPECTRUM, SPECTRUM.conj()))
    weights = mask / mask.sum(-1, keepdims=True)
    wanted = numpy.einsum("bcft,bdft,bft->bfcd", SPECTRUM, SPECTRUM.conj(), weights)
    close(F.psd(facula.tensor(SPECTRUM), facula.tensor(mask)), wanted)
    several = facula.tensor(mask)[:, None] * facula.tensor([0.5, 1.5, 1.0, 1.0])[:, None, None]
    close(T.PSD(multi_mask=True)(facula.tensor(SPECTRUM), several), wanted)
    with pytest.raises(ValueError, match="it has no dimension for channels"):
        F.psd(facula.tensor(SPECTRUM), several)


def test_weights_keep_the_source_and_let_least_noise_through():
    noise, heard, source = (facula.tensor(v) for v in (NOISE, HEARD, SOURCE))
    weights = F.mvdr_weights_rtf(heard, noise, diagonal_loading=False, eps=0.0).numpy()
    close(numpy.einsum("...c,...c->...", weights.conj(), HEARD), numpy.ones((2, 5)))

    def power(w):
        return numpy.einsum("...i,...ij,...j->...", w.conj(), NOISE, w).real

    for _ in range(20):
        other = weights + complex_numbers(2, 5, 4) * 0.3
        other = other / numpy.einsum("...c,...c->...", other.conj(), HEARD).conj()[..., None]
        close(numpy.einsum("...c,...c->...", other.conj(), HEARD), numpy.ones((2, 5)))
        assert (power(other) >= power(weights)).all()
    # of a single source, all ways agree, as the channel of reference hears it
    wanted = weights * HEARD[..., 2:3].conj()
    settings = {"diagonal_loading": False, "eps": 0.0}
    close(F.mvdr_weights_souden(source, noise, 2, **settings), wanted, 1e-7)
    one = facula.tensor([[0.0, 0, 1, 0]] * 2)
    close(F.mvdr_weights_souden(source, noise, one, **settings), wanted, 1e-7)
    for found in (
        F.rtf_evd(source),
        F.rtf_power(source, noise, 0),
        F.rtf_power(source, noise, one, 1),
    ):
        close(F.mvdr_weights_rtf(found, noise, 2, **settings), wanted, 1e-6)
    out = F.apply_beamforming(facula.tensor(wanted), facula.tensor(SPECTRUM))
    close(out, numpy.einsum("bfc,bcft->bft", wanted.conj(), SPECTRUM))
    close(T.SoudenMVDR()(facula.tensor(SPECTRUM), source, noise, 2, **settings), out, 1e-6)
    close(T.RTFMVDR()(facula.tensor(SPECTRUM), heard, noise, 2, **settings), out, 1e-6)


@pytest.mark.parametrize("solution", ["ref_channel", "stv_evd", "stv_power"])
def test_mvdr_goes_on_with_what_came_before(solution):
    mask = facula.tensor(RNG.uniform(0.1, 0.9, (2, 5, 30)))
    whole = T.MVDR(1, solution)
    spectrum = facula.tensor(SPECTRUM)
    online = T.MVDR(1, solution, online=True)
    parts = [slice(0, 12), slice(12, 30)]
    pieces = [(spectrum[..., part], mask[..., part], 1 - mask[..., part]) for part in parts]
    first, second = (online(*piece) for piece in pieces)
    close(first, whole(*pieces[0]), 1e-9)
    # what came before counts by the sum of its mask, a new piece as one frame beside
    densities = []
    for masks in ([p[1].numpy() for p in pieces], [p[2].numpy() for p in pieces]):
        sums = [m.sum(-1)[..., None, None] for m in masks]
        means = [
            numpy.einsum("bcft,bdft,bft->bfcd", p[0].numpy(), p[0].numpy().conj(), m) / total
            for p, m, total in zip(pieces, masks, sums, strict=True)
        ]
        densities.append(facula.tensor((means[0] * sums[0] + means[1]) / (sums[0] + sums[1])))
    if solution == "ref_channel":
        weights = F.mvdr_weights_souden(*densities, 1)
    else:
        heard = F.rtf_evd(densities[0]) if solution == "stv_evd" else F.rtf_power(*densities, 1)
        weights = F.mvdr_weights_rtf(heard, densities[1], 1)
    close(second, F.apply_beamforming(weights, pieces[1][0]), 1e-9)
    both = whole(spectrum, mask, 1 - mask)
    assert whole(spectrum.to(facula.complex64), mask, 1 - mask).dtype is facula.complex64
    with pytest.warns(UserWarning, match="1 - mask_s is taken"):
        close(whole(spectrum, mask), both, 1e-12)


def test_beamforming_says_what_it_takes():
    noise, heard, source = (facula.tensor(v) for v in (NOISE, HEARD, SOURCE))
    with pytest.raises(TypeError, match="complex numbers were required of psd_s"):
        F.mvdr_weights_souden(source.real, noise, 0)
    with pytest.raises(ValueError, match="densities of one shape"):
        F.mvdr_weights_souden(source[:1], noise, 0)
    with pytest.raises(ValueError, match="psd_n \\[..., frequencies, channels, channels\\]"):
        F.rtf_power(source, noise[..., :2], 0)
    with pytest.raises(TypeError, match="the number of a channel"):
        F.mvdr_weights_rtf(heard, noise, 0.5)
    with pytest.raises(ValueError, match="a dimension more of channels"):
        F.mvdr_weights_rtf(heard[0], noise)
    with pytest.raises(ValueError, match="at least 1 iteration"):
        F.rtf_power(source, noise, 0, n_iter=0)
    with pytest.raises(ValueError, match="of the spectrum's sizes"):
        F.apply_beamforming(heard[0], facula.tensor(SPECTRUM))
    with pytest.raises(TypeError, match="complex numbers were required of psd_s"):
        F.rtf_evd(source.real)
    with pytest.raises(ValueError, match="a solution out of ref_channel"):
        T.MVDR(solution="best")
    with pytest.raises(ValueError, match="a complex spectrum"):
        T.MVDR()(facula.ones(2, 3, 4), facula.ones(3, 4))


def test_gradients_are_differences():
    x = tensor(SOUND[0, :2, :24]).requires_grad_()
    noise = tensor(SOUND[1, :2, :24]).requires_grad_()
    check = facula.autograd.gradcheck
    assert check(lambda v: F.phaser(v, 8000, delay_ms=1.0, mod_speed=400.0), (x,))
    assert check(lambda v: F.flanger(v, 8000, 0.2, 0.5, 70.0, speed=900.0), (x,))
    assert check(
        lambda v, n: F.add_noise(v, n, facula.tensor([3.0, 5.0], dtype=facula.float64)), (x, noise)
    )
    assert check(lambda v: F.sliding_window_cmn(v, 3, 2, True, True), (x,))
    small = facula.tensor(SPECTRUM[0, :2, :2, :3]).requires_grad_()
    other = facula.tensor(NOISE[0, :2, :2, :2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(lambda v: F.mvdr_weights_souden(F.psd(v), other, 0).abs(), (small,))
