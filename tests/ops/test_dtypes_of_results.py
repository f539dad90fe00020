"""Dtypes that PyTorch gives or refuses: Python's types, 8-bit floats, and `out=` of another dtype.

Takes: Python's types, dtypes and tensors. Gives: nothing. Keeps true: the rules are PyTorch 2.13's; a
result that goes to an `out=` of another dtype is the result, converted.
"""

import numpy
import pytest

import facula


def test_types_of_python_are_double_precision():
    assert facula.zeros(1, dtype=float).dtype is facula.float64
    assert facula.zeros(1, dtype=complex).dtype is facula.complex128
    assert facula.zeros(1).to(float).dtype is facula.float64
    assert facula.zeros(1, dtype=int).dtype is facula.int64


def test_a_float_start_makes_a_float_range():
    assert facula.arange(0.0, 3).dtype is facula.float32
    assert facula.arange(0.0, 3).tolist() == [0.0, 1.0, 2.0]
    assert facula.arange(0, 3).dtype is facula.int64


@pytest.mark.parametrize("other", ["float32", "bool", "int64", "float8_e4m3fn"])
def test_floats_of_8_bits_promote_with_themselves_only(other):
    small = facula.float8_e5m2
    assert facula.promote_types(small, small) is small
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        facula.promote_types(small, getattr(facula, other))


@pytest.mark.parametrize("name", ["neg", "abs", "floor", "ceil", "trunc", "round", "frac", "sign"])
def test_out_of_another_dtype_is_refused(name):
    x = facula.tensor([1.5, -2.5])
    with pytest.raises(RuntimeError, match="Found dtype"):
        getattr(facula, name)(x, out=facula.zeros(2, dtype=facula.float64))


def test_results_are_rounded_before_they_are_converted():
    x = facula.tensor(33000, dtype=facula.float16)
    assert facula.add(x, x, out=facula.zeros((), dtype=facula.float64)).item() == float("inf")
    a, b = facula.tensor(1.5, dtype=facula.float16), facula.tensor(0.666, dtype=facula.float16)
    wanted = numpy.float16(1.5) / numpy.float16(0.666)
    assert facula.div(a, b, out=facula.zeros((), dtype=facula.float64)).item() == wanted
    a, b = facula.tensor(5, dtype=facula.uint8), facula.tensor(8, dtype=facula.uint8)
    assert facula.sub(a, b, out=facula.zeros((), dtype=facula.float64)).item() == 253


def test_a_factor_of_integers_is_whole():
    x = facula.zeros(3, dtype=facula.uint8)
    source = facula.ones(1, dtype=facula.uint8)
    assert x.index_add(0, facula.tensor([0]), source, alpha=2.0).tolist() == [2, 0, 0]
