"""`tensor` of nested lists has the dtype that holds all items: tensors, NumPy's numbers and Python's."""

import itertools

import numpy as np
import pytest

import facula
from facula import float16, float32, float64, int8, int16, int32, int64, uint8

number = facula.tensor


@pytest.mark.parametrize(
    ("items", "dtype"),
    [
        ((number(20), 2.5), float32),
        ((number(20, dtype=int32), 3), int64),
        ((number(1, dtype=int32), True), int32),
        ((number(True), 2), int64),
        ((number(1.0, dtype=float16), 3), float16),
        ((number(1.0, dtype=float16), 2.5), float32),
        ((number(1, dtype=uint8), number(-1, dtype=int8)), int16),
        ((number(3), 1j), facula.complex64),
        ((number(3), np.float32(2.5)), float32),
        ((np.int64(3), 2.5), float32),
        ((np.float64(3), 2), float64),
        ((3, np.float32(2.5)), float32),
        ((number(1.5), number(2.5, dtype=float64)), float64),
    ],
)
def test_the_order_of_the_items_does_not_matter(items, dtype):
    for order in itertools.permutations(items):
        made = number(list(order))
        assert made.dtype is dtype
        assert made.tolist() == [complex(x) if dtype.is_complex else float(x) for x in order]
        nested = number([[x] for x in order])
        assert nested.dtype is dtype and nested.reshape(-1).tolist() == made.tolist()


def test_arrays_among_lists():
    with pytest.warns(UserWarning, match="list of numpy.ndarrays"):
        number([np.zeros(2), np.zeros(2)])
    made = number([np.array([1, 2]), np.array([1.5, 2.0])])
    assert made.dtype is float64 and made.tolist() == [[1, 2], [1.5, 2]]
    mixed = number([np.array([1, 2]), [1.5, 2]])
    assert mixed.dtype is float32 and mixed.tolist() == [[1, 2], [1.5, 2]]


def test_the_default_dtype_is_that_of_pythons_floats():
    facula.set_default_dtype(float64)
    try:
        assert number([number(1), 2.5]).dtype is float64
        assert number([number(1.0, dtype=float32), 2.5]).dtype is float64
    finally:
        facula.set_default_dtype(float32)
