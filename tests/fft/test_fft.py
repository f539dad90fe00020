"""Transforms are NumPy's in every norm and size; their gradients are transforms; `istft` undoes `stft`."""

import itertools

import numpy as np
import pytest

import facula
from facula import fft
from facula.autograd import gradcheck, gradgradcheck

NORMS = (None, "backward", "ortho", "forward")
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


@pytest.fixture(autouse=True)
def seeded():
    facula.manual_seed(5)


def signal(name, *shape, dtype=facula.float64):
    takes_real = name.startswith(("rfft", "ihfft"))
    return facula.randn(*shape, dtype=dtype if takes_real else dtype.to_complex())


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("norm", NORMS)
def test_one_dimension(name, norm):
    x = signal(name, 3, 9, 2)
    for n, dim in itertools.product((None, 1, 4, 7, 12), (1, -1)):
        found = getattr(fft, name)(x, n, dim, norm)
        assert np.allclose(found.numpy(), getattr(np.fft, name)(x.numpy(), n, dim, norm))


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("norm", NORMS)
def test_several_dimensions(name, norm):
    x = signal(name, 3, 4, 6)
    for s, dim in ((None, (-2, -1)), ((5, 7), (0, 2)), ((2, 3), (1, 2))):
        found = getattr(fft, name)(x, s, dim, norm)
        assert np.allclose(found.numpy(), getattr(np.fft, name)(x.numpy(), s, dim, norm))


def test_dtypes():
    assert fft.fft(facula.ones(4)).dtype is facula.complex64
    assert fft.fft(facula.ones(4).long()).dtype is facula.complex64
    assert fft.irfft(facula.ones(4, dtype=facula.complex128)).dtype is facula.float64
    with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
        fft.fft(facula.ones(4).bfloat16())


@pytest.mark.parametrize("name", [*ONE, "fftn", "rfftn", "irfftn", "hfftn", "ihfftn"])
def test_derivatives(name):
    x = signal(name, 3, 5).requires_grad_()
    function = getattr(fft, name)
    assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


def test_mapped():
    x = facula.randn(4, 3, 5)
    assert facula.allclose(facula.vmap(fft.rfft, 1, 1)(x), fft.rfft(x))
    assert facula.allclose(facula.func.jvp(fft.fft, (x,), (2 * x,))[1], 2 * fft.fft(x))


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        assert np.allclose(fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        assert np.allclose(fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5))
    x = facula.randn(4, 5)
    for dim in (None, 0, (0, 1)):
        assert np.allclose(fft.fftshift(x, dim).numpy(), np.fft.fftshift(x.numpy(), dim))
        assert facula.equal(fft.ifftshift(fft.fftshift(x, dim), dim), x)


def test_frequencies_of_points_at_no_distance_are_infinite():
    """0 / 0, 1 / 0, -2 / 0, -1 / 0 as IEEE 754 has them; it was a ZeroDivisionError."""
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(fft.fftfreq(4, 0.0).numpy(), [nan, inf, -inf, -inf])
    np.testing.assert_array_equal(fft.rfftfreq(4, -0.0).numpy(), [nan, -inf, -inf])


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
def test_short_time(center, normalized, onesided):
    x = facula.randn(2, 64, dtype=facula.float64)
    window = facula.hamming_window(16, dtype=facula.float64)
    settings = {"hop_length": 4, "window": window, "center": center, "normalized": normalized}
    spectra = facula.stft(x, 16, onesided=onesided, return_complex=True, **settings)
    assert spectra.shape[1] == (9 if onesided else 16)
    back = facula.istft(spectra, 16, onesided=onesided, length=64, **settings)
    assert facula.allclose(back, x)
    assert gradcheck(
        lambda v: facula.stft(v, 16, return_complex=True, **settings), x.requires_grad_()
    )


BAD = [
    (lambda: fft.fft(facula.ones(4), 0), RuntimeError, r"Invalid number of data points \(0\)"),
    (lambda: fft.fft(facula.ones(4), -1), RuntimeError, r"Invalid number of data points \(-1\)"),
    (lambda: fft.rfft(facula.ones(4), n=-1), RuntimeError, r"Invalid number of data points \(-1\)"),
    (lambda: fft.fft(facula.ones(4), norm="all"), RuntimeError, "Invalid normalization mode"),
    (lambda: fft.rfft(facula.ones(4) + 0j), RuntimeError, "expects a real input"),
    (lambda: fft.fft(facula.tensor(1.0)), IndexError, "no dimensions"),
    (lambda: fft.fftn(facula.ones(2, 2), dim=(0, 0)), RuntimeError, "dims must be unique"),
    (lambda: fft.fftn(facula.ones(2), s=(1, 2)), RuntimeError, "only has 1 dimensions"),
    (lambda: facula.stft(facula.ones(8), 4), RuntimeError, "return_complex"),
    (lambda: facula.istft(facula.ones(3, 4), 4), RuntimeError, "complex-valued input"),
]


@pytest.mark.parametrize("case", BAD)
def test_errors(case):
    call, kind, text = case
    with pytest.raises(kind, match=r"(?s)^\[.*" + text):
        call()
