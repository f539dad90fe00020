"""What float32 products may lose: nothing, whatever is set, and a program hears of it once."""

import numpy
import pytest

import facula
from facula import switches


@pytest.fixture(autouse=True)
def unsaid(monkeypatch):
    """A process in which nothing was set or said."""
    monkeypatch.setitem(switches._SWITCHES, "matmul_precision", "highest")
    monkeypatch.setitem(switches._SWITCHES, "matmul_said", False)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_less_precision_is_kept_without_effect_and_said_once(precision):
    with pytest.warns(UserWarning, match="has no effect\nhint: x.bfloat16") as said:
        facula.set_float32_matmul_precision(precision)
        facula.set_float32_matmul_precision(precision)
    assert len(said) == 1 and said[0].filename == __file__
    assert facula.get_float32_matmul_precision() == precision
    assert facula.backends.cuda.matmul.allow_tf32
    a, b = facula.rand(64, 300), facula.rand(300, 48)
    exact = a.numpy().astype(numpy.float64) @ b.numpy().astype(numpy.float64)
    error = numpy.abs((a @ b).numpy() - exact).max()
    assert error < 300 * 2.0**-24 * exact.max()  # one rounding of bfloat16 alone is 2^-9


def test_the_switch_of_cuda_is_the_same_switch():
    with pytest.warns(UserWarning, match="'high' has no effect"):
        facula.backends.cuda.matmul.allow_tf32 = True
    assert facula.get_float32_matmul_precision() == "high"
    facula.backends.cuda.matmul.allow_tf32 = False
    assert facula.get_float32_matmul_precision() == "highest"


def test_full_precision_is_silent(recwarn):
    facula.set_float32_matmul_precision("highest")
    assert not recwarn.list


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="hint: 'highest' is the default"):
        facula.set_float32_matmul_precision("low")
