"""`make_tensor`: the upper bound is excluded in every dtype, bounds that are equal, bounds between whole numbers."""

import pytest

import facula
from facula.testing import make_tensor

FLOATS = [facula.float64, facula.float32, facula.float16, facula.bfloat16, facula.complex64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("low, high", [(-9, 9), (0.5, 1), (-1, 0), (-3.0, -2.0)])
def test_the_upper_bound_is_excluded(dtype, low, high):
    found = make_tensor(5000, dtype=dtype, low=low, high=high)
    parts = (facula.view_as_real(found) if dtype.is_complex else found).double()
    assert parts.min().item() >= low and parts.max().item() < high


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_equal_bounds_are_one_number(dtype):
    with pytest.warns(FutureWarning, match="`low==high`"):
        found = make_tensor(10, dtype=dtype, low=2, high=2)
    value = complex(2, 2) if dtype.is_complex else 2
    assert facula.equal(found, facula.full((10,), value, dtype=dtype))
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(10, dtype=dtype, low=2, high=1)


def test_bounds_between_whole_numbers():
    for dtype in (facula.bool, facula.uint8, facula.int8, facula.int64):
        assert not make_tensor(100, dtype=dtype, low=-0.9999, high=0.9999).any()
        assert make_tensor(100, dtype=dtype, low=0.5, high=1.5).all()
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(10, dtype=facula.int64, low=2, high=2)
