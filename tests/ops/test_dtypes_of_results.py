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


def test_sources_of_bools_are_added_as_bools_whatever_their_factor():
    x = facula.tensor([True, False, False])
    source = facula.tensor([False, True, True])
    index = facula.tensor([0, 2, 1])
    assert x.index_add(0, index, source, alpha=True).tolist() == [True, True, True]
    assert x.index_add(0, index, source, alpha=False).tolist() == [True, False, False]
    for factor in (2, 0.5):
        assert x.clone().index_add_(0, index, source, alpha=factor).tolist() == [True, True, True]


@pytest.mark.parametrize("spacing", [2, 0.5])
def test_integrals_of_narrow_integers_are_summed_before_the_spacing(spacing):
    values = [1, 2, 3, 5, 100, 7]
    y = facula.tensor(values, dtype=facula.int8)
    wanted = numpy.trapezoid if hasattr(numpy, "trapezoid") else numpy.trapz
    assert facula.trapezoid(y, dx=spacing).item() == wanted(values, dx=spacing)
    running = [wanted(values[: n + 1], dx=spacing) for n in range(1, len(values))]
    assert facula.cumulative_trapezoid(y, dx=spacing).tolist() == running
    assert facula.trapezoid(y, dx=spacing).dtype is facula.float32


def test_factors_choose_no_dtype_of_an_outer_product_added():
    truths = facula.tensor([True, False])
    bytes_ = facula.tensor([1, 2], dtype=facula.uint8)
    half = facula.tensor([1.5, 2.5], dtype=facula.float16)
    mixed = facula.addr(truths, bytes_, truths)
    assert mixed.dtype is facula.uint8 and mixed.tolist() == [[2, 0], [3, 0]]
    mixed = facula.addr(bytes_, bytes_, half, beta=0.5, alpha=2)
    assert mixed.dtype is facula.float16 and mixed.tolist() == [[3.5, 6.0], [6.5, 11.0]]
    assert facula.addr(bytes_, half, half, beta=0).dtype is facula.float16


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "fftn", "rfftn", "irfftn"])
def test_transforms_write_into_tensors_of_another_precision(name):
    x = facula.tensor([1.0, 2.0, 4.0, 7.0])
    result = getattr(facula.fft, name)(x)
    wide = facula.complex128 if result.is_complex() else facula.float64
    out = facula.zeros(0, dtype=wide)
    assert getattr(facula.fft, name)(x, out=out) is out
    oracle = getattr(numpy.fft, name)(numpy.array([1.0, 2.0, 4.0, 7.0]))
    assert out.dtype is wide and numpy.allclose(out.numpy(), oracle, rtol=1e-6, atol=1e-6)
    with pytest.raises(RuntimeError, match="can't be cast"):
        getattr(facula.fft, name)(x, out=facula.zeros(0, dtype=facula.int64))


def test_neighbours_of_numbers_are_those_of_their_dtype_whatever_holds_them():
    x, up = facula.tensor([1.0]), facula.tensor([2.0])
    out = facula.nextafter(x, up, out=facula.zeros(1, dtype=facula.float64))
    assert out.item() == float(numpy.nextafter(numpy.float32(1), numpy.float32(2)))
