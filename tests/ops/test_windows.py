"""Window functions: SciPy's values, both symmetries, and what they refuse."""

import numpy
import pytest
from scipy.signal import windows as oracle

import facula
from facula.signal import windows

CASES = [
    ("bartlett", {}, {}),
    ("blackman", {}, {}),
    ("cosine", {}, {}),
    ("exponential", {"tau": 2.0}, {"tau": 2.0}),
    ("gaussian", {"std": 1.5}, {"std": 1.5}),
    ("general_cosine", {"a": [0.5, 0.3, 0.2]}, {"a": [0.5, 0.3, 0.2]}),
    ("general_hamming", {"alpha": 0.6}, {"alpha": 0.6}),
    ("hamming", {}, {}),
    ("hann", {}, {}),
    ("kaiser", {"beta": 5.0}, {"beta": 5.0}),
    ("nuttall", {}, {}),
]


@pytest.mark.parametrize(("name", "ours", "theirs"), CASES)
@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("sym", [True, False])
def test_values(name, ours, theirs, length, sym):
    window = getattr(windows, name)(length, sym=sym, dtype=facula.float64, **ours)
    expected = getattr(oracle, name)(length, sym=sym, **theirs)
    assert numpy.allclose(window.numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
@pytest.mark.parametrize("periodic", [True, False])
def test_top_level(name, periodic):
    window = getattr(facula, f"{name}_window")(9, periodic)
    options = {"beta": 12.0} if name == "kaiser" else {}
    expected = getattr(oracle, name)(9, sym=not periodic, **options)
    assert window.dtype is facula.float32
    assert numpy.allclose(window.numpy(), expected, atol=1e-6)


def test_options_and_errors():
    assert facula.hann_window(0).shape == (0,)
    window = facula.hann_window(4, requires_grad=True, dtype=facula.float64)
    assert window.requires_grad and window.dtype is facula.float64
    with pytest.raises(RuntimeError, match="expects floating point dtypes"):
        facula.hann_window(4, dtype=facula.int64)
    with pytest.raises(RuntimeError, match="non-negative window_length"):
        facula.blackman_window(-1)
    with pytest.raises(ValueError, match="Tau must be positive, got: 0 instead"):
        windows.exponential(4, tau=0.0)
