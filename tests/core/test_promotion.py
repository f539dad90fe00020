"""Dtypes of results: PyTorch's documented categories, and NumPy's table where both agree."""

import itertools

import numpy as np
import pytest

import facula

CATEGORY = {
    facula.bool: 0, facula.uint8: 1, facula.int8: 1, facula.int16: 1, facula.int32: 1, facula.int64: 1,
    facula.float16: 2, facula.bfloat16: 2, facula.float32: 2, facula.float64: 2,
    facula.complex64: 3, facula.complex128: 3,
}  # fmt: skip
DTYPES = list(CATEGORY)
NUMPY = {d: np.dtype(str(d).rpartition(".")[2]) for d in DTYPES if d is not facula.bfloat16}


def documented(a, b):
    """The common dtype of two tensors with dimensions.

    Within a category NumPy's rule; a higher category keeps its own width, but a complex number has
    at least the precision of a float beside it; half and bfloat16 meet in float32.
    """
    if a is b:
        return a
    low, high = sorted((a, b), key=CATEGORY.get)
    if {a, b} == {facula.float16, facula.bfloat16}:
        return facula.float32
    if CATEGORY[low] == CATEGORY[high]:
        if facula.bfloat16 in (a, b):
            return a if b is facula.bfloat16 else b
        wide = np.promote_types(NUMPY[a], NUMPY[b])
        return next(d for d in NUMPY if NUMPY[d] == wide)
    if CATEGORY[high] == 3 and low is facula.float64:
        return facula.complex128
    return high


@pytest.mark.parametrize("a, b", list(itertools.combinations_with_replacement(DTYPES, 2)))
def test_table(a, b):
    expected = documented(a, b)
    assert facula.promote_types(a, b) is expected and facula.promote_types(b, a) is expected
    x, y = facula.ones(2, dtype=a), facula.ones(2, dtype=b)
    assert (x + y).dtype is expected and (y * x).dtype is expected
    assert facula.result_type(x, y) is expected
    assert facula.where(facula.tensor([True, False]), x, y).dtype is expected
    assert facula.cat([x, y]).dtype is expected
    assert (x == y).dtype is facula.bool


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_only_change_the_category(dtype):
    x = facula.ones(2, dtype=dtype)
    for number in (True, 2, 2.0, 2j):
        result = (x * number).dtype
        if CATEGORY[dtype] >= {bool: 0, int: 1, float: 2, complex: 3}[type(number)]:
            assert result is dtype
        elif type(number) is int:
            assert result is facula.int64
        elif type(number) is float:
            assert result is facula.float32
        else:
            wide = facula.complex128 if dtype is facula.float64 else facula.complex64
            assert result is wide or (dtype is facula.float16 and result is facula.complex32)


def test_0d_tensors_only_change_the_category():
    x = facula.ones(2, dtype=facula.float32)
    assert (x * facula.tensor(2.0, dtype=facula.float64)).dtype is facula.float32
    assert (x.int() * facula.tensor(2.0, dtype=facula.float64)).dtype is facula.float64
    assert (x.to(facula.int8) * facula.tensor(3)).dtype is facula.int8
    assert (facula.tensor(1, dtype=facula.int8) * facula.tensor(3)).dtype is facula.int64
    assert facula.result_type(facula.tensor(1), 2.0) is facula.float32
    assert facula.result_type(x.half(), 2.0) is facula.float16


def test_default_dtype_decides():
    assert (facula.ones(2, dtype=facula.int64) / 2).dtype is facula.float32
    assert (
        facula.tensor(1.5).dtype is facula.float32 and facula.tensor(1j).dtype is facula.complex64
    )
    facula.set_default_dtype(facula.float64)
    try:
        assert (facula.ones(2, dtype=facula.int64) / 2).dtype is facula.float64
        assert facula.ones(2).dtype is facula.tensor(1.5).dtype is facula.float64
        assert facula.tensor(1j).dtype is facula.complex128
        assert facula.ones(2, dtype=facula.int32).sqrt().dtype is facula.float64
    finally:
        facula.set_default_dtype(facula.float32)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if CATEGORY[d] < 2])
def test_integers(dtype):
    x = facula.tensor([1, 0], dtype=dtype)
    assert x.sum().dtype is facula.int64 and x.prod().dtype is facula.int64
    assert x.cumsum(0).dtype is facula.int64
    assert x.sin().dtype is facula.float32 and (x / 1).dtype is facula.float32
    assert x.max().dtype is dtype and x.sort().indices.dtype is facula.int64
    with pytest.raises(RuntimeError, match="mean|dtype"):
        x.mean()


def test_in_place_keeps_the_dtype():
    x = facula.ones(2, dtype=facula.float32)
    x.add_(facula.ones(2, dtype=facula.float64))
    assert x.dtype is facula.float32
    y = facula.ones(2, dtype=facula.int32)
    y.mul_(facula.tensor([2, 3], dtype=facula.int64))
    assert y.dtype is facula.int32 and y.tolist() == [2, 3]
    for action in (lambda: y.add_(1.5), lambda: y.div_(2), lambda: y.mul_(facula.ones(2))):
        with pytest.raises(RuntimeError, match="can't be cast"):
            action()
    assert y.tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="can't be cast"):
        facula.ones(2, dtype=facula.bool).add_(1)


@pytest.mark.parametrize("a, b", list(itertools.product(DTYPES, DTYPES)))
def test_can_cast(a, b):
    assert facula.can_cast(a, b) is (CATEGORY[a] <= CATEGORY[b])


@pytest.mark.parametrize("a, b", list(itertools.product(NUMPY, NUMPY)))
def test_conversion_of_elements(a, b):
    values = np.array([0, 1, 2, 3, 100]).astype(NUMPY[a])
    with np.errstate(all="ignore"):
        real = values.real if CATEGORY[b] < 3 else values
        expected = real.astype(NUMPY[b])
    np.testing.assert_array_equal(facula.tensor(values).to(b).numpy(), expected)


def test_integer_conversions_wrap():
    x = facula.tensor([300, -1, 2**40 + 5])
    assert x.to(facula.uint8).tolist() == [44, 255, 5]
    assert x.to(facula.int32).tolist() == [300, -1, 5]
    assert x.to(facula.int8).tolist() == [44, -1, 5]
    assert facula.tensor([2.9, -2.9]).to(facula.int64).tolist() == [2, -2]
    assert facula.tensor([0.0, 0.1, float("nan")]).to(facula.bool).tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
def test_rounding_to_16_bits(dtype):
    """To nearest, ties to even, with infinities, NaN and subnormal numbers."""
    bits = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
    x = facula.from_numpy(bits.view(np.float32).copy())
    actual = x.to(dtype).view(facula.int16).numpy().view(np.uint16)
    if dtype is facula.float16:
        with np.errstate(all="ignore"):
            expected = bits.view(np.float32).astype(np.float16).view(np.uint16)
    else:
        wide = bits.astype(np.uint64)
        expected = ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)
    number = ~np.isnan(bits.view(np.float32))
    np.testing.assert_array_equal(actual[number], expected[number])
    back = x.to(dtype).to(facula.float32).numpy()
    assert np.isnan(back[~number]).all()
