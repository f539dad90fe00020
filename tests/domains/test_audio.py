"""Sound: filters and spectra against SciPy, losses against all paths, files of every width, broken files."""

import importlib.util
import io
import itertools
import math
import struct

import numpy
import pytest
import scipy.io.wavfile
import scipy.signal

import facula
from facula import audio
from facula.audio import functional as F
from facula.audio import transforms as T

RNG = numpy.random.default_rng(9)
SOUND = RNG.standard_normal((2, 3, 300)) * 0.3


def tensor(values, dtype="float64"):
    return facula.tensor(numpy.asarray(values, dtype=dtype))


def close(found, wanted, tolerance=1e-6):
    numpy.testing.assert_allclose(numpy.asarray(found), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_lfilter_is_scipys(order):
    b, a = scipy.signal.butter(order, 0.2)
    found = F.lfilter(tensor(SOUND), tensor(a), tensor(b), clamp=False)
    close(found, scipy.signal.lfilter(b, a, SOUND), 1e-10)
    several = [scipy.signal.butter(order, w) for w in (0.1, 0.3, 0.5)]
    a, b = (tensor([pair[i] for pair in several]) for i in (1, 0))
    found = F.lfilter(tensor(SOUND), a, b, clamp=False).numpy()
    for i, (bb, aa) in enumerate(several):
        close(found[:, i], scipy.signal.lfilter(bb, aa, SOUND[:, i]), 1e-10)
    assert F.lfilter(tensor(SOUND[0, 0]), a, b, batching=False).shape == (3, 300)


def test_gradients_of_filters_are_differences():
    x, a, b = (
        tensor(v).requires_grad_()
        for v in (
            SOUND[..., :9],
            [[1.1, 0.3, -0.2], [0.9, 0.1, 0.2], [1, 0, 0.3]],
            RNG.standard_normal((3, 3)),
        )
    )
    assert facula.autograd.gradcheck(lambda *v: F.lfilter(*v, clamp=False), (x, a, b))
    assert facula.autograd.gradgradcheck(
        lambda v: facula.ops.audio.recursion(v, a.detach()) ** 2, (x,)
    )


@pytest.mark.parametrize(
    ("name", "settings", "at", "gain"),
    [
        ("lowpass_biquad", (600.0,), 100, 0.0),
        ("lowpass_biquad", (600.0,), 6000, -40.0),
        ("highpass_biquad", (600.0,), 6000, 0.0),
        ("bandreject_biquad", (1000.0,), 1000, -60.0),
        ("bandpass_biquad", (1000.0,), 1000, 0.0),
        ("equalizer_biquad", (1000.0, 6.0), 1000, 6.0),
        ("bass_biquad", (6.0,), 1, 6.0),
        ("treble_biquad", (6.0,), 7999, 6.0),
        ("allpass_biquad", (1000.0,), 3000, 0.0),
    ],
)
def test_filters_change_a_tone_by_what_they_promise(name, settings, at, gain):
    impulse = numpy.zeros(16000)
    impulse[0] = 0.2
    found = getattr(F, name)(tensor(impulse), 16000, *settings).numpy()
    heard = 20 * math.log10(max(abs(numpy.fft.rfft(found)[at]) / 0.2, 1e-5))
    assert heard == pytest.approx(gain, abs=0.2) if gain > -30 else heard < gain + 2


def test_convolutions_and_emphasis():
    x, y = SOUND[0], SOUND[1][:, :40]
    for mode in ("full", "same", "valid"):
        wanted = [scipy.signal.convolve(a, b, mode) for a, b in zip(x, y, strict=True)]
        close(F.fftconvolve(tensor(x), tensor(y), mode), wanted)
        close(F.convolve(tensor(x), tensor(y), mode), wanted)
    small = x / numpy.abs(x).max()
    close(F.deemphasis(F.preemphasis(tensor(small))), small)
    loud = numpy.clip(scipy.signal.lfilter([1.0], [1.0, -0.9], x * 3), -1, 1)
    close(F.deemphasis(tensor(x * 3), 0.9), loud)
    assert F.overdrive(tensor(x)).abs().max() <= 1


@pytest.mark.parametrize("shift", [0.1, -0.1])
def test_a_limiter_keeps_peaks_below_it(shift):
    limit, wanted = 1 - (abs(shift) - 0.02), []
    x = numpy.linspace(-1.2, 1.2, 200)
    for value in x:
        peak = value if shift > 0 else -value
        if peak > limit:
            squeezed = (peak - limit) * 0.02 / (1 - limit) + limit + abs(shift)
            wanted.append(math.copysign(min(squeezed, limit), shift))
        else:
            wanted.append(max(-1.0, min(1.0, value + shift)))
    close(F.dcshift(tensor(x), shift, 0.02), wanted)


def test_spectra_are_scipys():
    x = SOUND[0]
    found = T.Spectrogram(64, hop_length=16, power=None)(tensor(x))
    padded = numpy.pad(x, ((0, 0), (32, 32)), mode="reflect")
    window = scipy.signal.get_window("hann", 64)
    frames = numpy.lib.stride_tricks.sliding_window_view(padded, 64, axis=-1)[:, ::16] * window
    close(found.numpy(), numpy.fft.rfft(frames).transpose(0, 2, 1))
    back = T.InverseSpectrogram(64, hop_length=16)(found.to(facula.complex64), 300)
    close(back, x, 1e-4)


def test_resampling_keeps_tones_below_both_limits():
    time = numpy.arange(3200) / 16000
    low, high = numpy.sin(2 * numpy.pi * 200 * time), numpy.sin(2 * numpy.pi * 7000 * time)
    found = F.resample(tensor(low + high), 16000, 8000).numpy()
    assert found.shape == (1600,)
    close(found[50:-50], low[::2][50:-50], 2e-2)
    assert F.resample(tensor(low), 16000, 44100).shape == (8820,)


def test_coding_and_decibels():
    x = numpy.clip(SOUND[0], -1, 1)
    codes = F.mu_law_encoding(tensor(x), 256)
    close(F.mu_law_decoding(codes, 256), x, 3e-2)
    size = numpy.abs(SOUND) + 1e-4
    close(F.DB_to_amplitude(F.amplitude_to_DB(tensor(size), 20, 1e-10, 0), 1, 0.5), size)
    assert (
        F.amplitude_to_DB(tensor(size), 10, 1e-10, 0, 20).min()
        >= 10 * math.log10(size.max()) - 20 - 13
    )


def transducer_paths(log_probs, target, blank):
    """The sum over all ways to say the target: waits (blank) and labels, in any order, ended by a blank."""
    frames, rows = len(log_probs), len(target) + 1
    total = -math.inf
    for says in itertools.combinations(range(frames - 1 + rows - 1), rows - 1):
        t = u = 0
        score = 0.0
        for step in range(frames - 1 + rows - 1):
            if step in says:
                score += log_probs[t, u, target[u]]
                u += 1
            else:
                score += log_probs[t, u, blank]
                t += 1
        total = numpy.logaddexp(total, score + log_probs[t, u, blank])
    return -total


def test_transducer_losses_are_sums_over_all_paths():
    logits = RNG.standard_normal((2, 4, 4, 5))
    targets, frames, labels = [[1, 3, 2], [4, 1, 0]], [4, 3], [3, 2]
    given = [facula.tensor(v, dtype=facula.int32) for v in (targets, frames, labels)]
    found = F.rnnt_loss(tensor(logits), *given, blank=0, reduction="none").numpy()
    log_probs = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
    for i in range(2):
        part = log_probs[i, : frames[i], : labels[i] + 1]
        close(found[i], transducer_paths(part, targets[i][: labels[i]], 0))
    x = tensor(logits).requires_grad_()
    assert facula.autograd.gradcheck(lambda v: F.rnnt_loss(v, *given, blank=0), (x,))


def test_alignments_are_the_best_of_all_paths():
    log_probs = numpy.log(RNG.dirichlet(numpy.ones(4), 6))
    target = [2, 2, 1]
    best, score = None, -math.inf
    for path in itertools.product(range(4), repeat=6):
        said = [k for k, _ in itertools.groupby(path) if k]
        value = sum(log_probs[t, k] for t, k in enumerate(path))
        if said == target and value > score:
            best, score = path, value
    paths, scores = F.forced_align(tensor(log_probs[None]), facula.tensor([target]))
    assert tuple(paths[0].tolist()) == best
    close(scores.sum(), score)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: F.lfilter(tensor(SOUND), tensor([1, 2]), tensor([1])),
            "coefficients of one shape",
        ),
        (lambda: F.resample(tensor(SOUND), 16000.5, 8000), "whole positive rates"),
        (lambda: T.MFCC(n_mfcc=200), "at most 128"),
        (lambda: T.MelScale(f_min=9000), "f_min of at most"),
        (
            lambda: F.forced_align(tensor(SOUND[:1]), facula.tensor([[1, 1, 1, 1]])),
            "targets length is too long",
        ),
        (lambda: F.forced_align(tensor(SOUND[:1]), facula.tensor([[0]])), "other than the blank"),
        (
            lambda: F.rnnt_loss(
                tensor(numpy.zeros((1, 2, 2, 3))),
                *(facula.tensor(v).int() for v in ([[7]], [2], [1])),
                blank=0,
            ),
            "targets from 0 to 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        call()


@pytest.mark.parametrize(
    ("bits", "encoding", "tolerance"),
    [
        (8, "PCM_U", 1e-2),
        (16, "PCM_S", 1e-4),
        (24, "PCM_S", 1e-6),
        (32, "PCM_S", 1e-6),
        (32, "PCM_F", 1e-7),
        (64, "PCM_F", 1e-7),
    ],
)
def test_wav_files_of_every_width(tmp_path, bits, encoding, tolerance):
    path, sound = tmp_path / "a.wav", tensor(SOUND[0] * 0.5, "float32")
    audio.save(path, sound, 8000, encoding=encoding, bits_per_sample=bits)
    found, rate = audio.load(path)
    assert rate == 8000
    numpy.testing.assert_allclose(found.numpy(), sound.numpy(), rtol=0, atol=tolerance)
    assert audio.info(path) == (8000, 300, 3, bits, "PCM_F" if encoding == "PCM_F" else encoding)
    part, _ = audio.load(path, frame_offset=10, num_frames=5)
    assert part.equal(found[:, 10:15])
    assert scipy.io.wavfile.read(path)[1].shape == (300, 3)
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]


def test_whole_numbers_are_written_as_they_are(tmp_path):
    path = tmp_path / "a.wav"
    given = facula.tensor([[0, 1, -32768, 32767]], dtype=facula.int16)
    audio.save(path, given, 16000)
    assert audio.load(path, normalize=False)[0].equal(given)
    assert scipy.io.wavfile.read(path)[1].tolist() == [0, 1, -32768, 32767]


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "a.wav"
    audio.save(path, tensor(SOUND[0], "float32"), 8000)
    whole = path.read_bytes()
    for content in (whole[:100], whole[:30], whole[:20] + struct.pack("<H", 77) + whole[22:]):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match=r"a whole WAV file was required: got .*a\.wav"):
            audio.load(path)
        with pytest.raises(RuntimeError, match=r"^\[audio.info\] a whole WAV file"):
            audio.info(path)
    with pytest.raises(FileNotFoundError, match=r"no\.wav"):
        audio.load(tmp_path / "no.wav")
    with pytest.raises(ValueError, match=r"^\[audio.load\] a file that can be read.*a.x00b"):
        audio.load("a\0b")
    for wrong in (5, None):
        with pytest.raises(TypeError, match=r"^\[audio.load\] a path or a binary stream"):
            audio.load(wrong)
    with pytest.raises(TypeError, match=r"^\[audio.load\] a stream of bytes"):
        audio.load(io.StringIO("text"))
    with pytest.raises(ValueError, match="PCM_S of 16"):
        audio.save(path, tensor(SOUND[0]), 8000, bits_per_sample=12)


def test_masks_and_stretches():
    facula.manual_seed(0)
    size = tensor(numpy.abs(SOUND[..., :40]) + 1, "float32")
    masked = T.FrequencyMasking(2)(size)
    assert ((masked == 0).all(-1) | (masked == size).all(-1)).all()
    spectrum = T.Spectrogram(64, hop_length=16, power=None)(tensor(SOUND[0], "float32"))
    assert T.TimeStretch(16, 33, 1.5)(spectrum).shape == (
        3,
        33,
        math.ceil(spectrum.shape[-1] / 1.5),
    )
    assert T.Fade(10, 10)(facula.ones(2, 50))[:, [0, 25, 49]].tolist() == [[0, 1, 0]] * 2
    assert F.edit_distance("kitten", "sitting") == 3


@pytest.mark.parametrize(
    ("samples", "rate", "bits", "message"),
    [
        ([0.5], 0, None, "a whole number of samples a second"),
        ([0.5], -8000, None, "a whole number of samples a second"),
        ([0.5], 8000.5, None, "a whole number of samples a second"),
        ([0.5], 2**32, None, "a whole number of samples a second"),
        ([math.nan], 8000, 16, "samples that are numbers"),
        ([math.inf], 8000, 8, "samples that are numbers"),
    ],
)
def test_what_no_file_holds_is_refused(samples, rate, bits, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        audio.save(tmp_path / "a.wav", tensor(samples), rate, bits_per_sample=bits)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="a tensor was required"):
        audio.save(tmp_path / "a.wav", "abc", 8000)


if importlib.util.find_spec("soundfile"):
    import soundfile

    def test_bits_and_encodings_of_other_formats(tmp_path):
        x = tensor(SOUND[0] * 0.5, "float32")
        for bits, step in ((16, 2.0**-15), (24, 2.0**-23)):
            audio.save(tmp_path / "a.flac", x, 8000, bits_per_sample=bits)
            assert soundfile.info(str(tmp_path / "a.flac")).subtype == f"PCM_{bits}"
            found, rate = audio.load(tmp_path / "a.flac")
            assert rate == 8000 and (found - x).abs().max() <= step
        audio.save(tmp_path / "a.aiff", x, 8000, encoding="PCM_F", bits_per_sample=32)
        assert audio.load(tmp_path / "a.aiff")[0].equal(x)

    def test_levels_of_compression(tmp_path):
        x = tensor(numpy.sin(numpy.arange(20000) / 9)[None] * 0.5, "float32")
        sizes = []
        for level in (0.0, 1.0):
            audio.save(tmp_path / "a.flac", x, 8000, compression=level)
            sizes.append((tmp_path / "a.flac").stat().st_size)
            assert (audio.load(tmp_path / "a.flac")[0] - x).abs().max() <= 2.0**-15
        assert sizes[1] < sizes[0]
        with pytest.raises(ValueError, match=r"^\[audio.save\]"):
            audio.save(tmp_path / "b.flac", x, 8000, compression=7)
        assert not (tmp_path / "b.flac").exists()

    @pytest.mark.parametrize(
        ("name", "shape", "options"),
        [
            ("a.xyz", (1, 5), {}),
            ("a.flac", (1, 0), {}),
            ("a.flac", (9, 5), {}),
            ("a.flac", (1, 5), {"encoding": "PCM_F"}),
            ("a.flac", (1, 5), {"bits_per_sample": 12}),
        ],
    )
    def test_settings_that_a_format_lacks_are_refused(name, shape, options, tmp_path):
        with pytest.raises(ValueError, match=r"^\[audio.save\]"):
            audio.save(tmp_path / name, facula.zeros(shape), 8000, **options)
        assert not list(tmp_path.iterdir())

    def test_damaged_files_of_other_formats_are_named(tmp_path, capfd):
        path = tmp_path / "a.flac"
        soundfile.write(path, SOUND[0].T, 8000)
        whole, draw = path.read_bytes(), numpy.random.default_rng(3)
        for _ in range(60):
            content = bytearray(whole)
            for place in draw.integers(4, len(whole), 6):
                content[place] = draw.integers(256)
            path.write_bytes(content[: draw.integers(20, len(whole) + 1)])
            for read in (audio.load, audio.info):
                try:
                    read(path)
                except RuntimeError as error:
                    assert str(error).startswith("[audio.") and str(path) in str(error)
        assert capfd.readouterr().err == ""

    @pytest.mark.parametrize("kind, subtype", [("WAV", "ULAW"), ("WAV", "ALAW"), ("WAV", "IMA_ADPCM"),
                                               ("WAV", "GSM610"), ("W64", "GSM610"), ("WAVEX", "ULAW")])  # fmt: skip
    def test_compressed_samples_in_wav_files(kind, subtype, tmp_path):
        path, sound = tmp_path / "a.wav", numpy.sin(numpy.arange(3200) / 9) / 2
        soundfile.write(path, sound, 8000, format=kind, subtype=subtype)
        samples, rate = audio.load(path)
        assert rate == 8000 and audio.info(path).sample_rate == 8000
        expected = soundfile.SoundFile(path)
        whole = expected.read(expected.frames, dtype="float32")
        expected.close()
        numpy.testing.assert_array_equal(samples[0].numpy(), whole)
        part = audio.load(path, frame_offset=40, num_frames=100)[0]
        numpy.testing.assert_array_equal(part[0].numpy(), whole[40:140])
