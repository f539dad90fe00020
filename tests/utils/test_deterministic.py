"""Memory that nobody set is filled in deterministic mode, where the program wants that."""

import pytest

import facula
from facula.utils import deterministic


@pytest.fixture
def deterministic_mode():
    facula.use_deterministic_algorithms(True)
    yield
    facula.use_deterministic_algorithms(False)
    deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("deterministic_mode")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int16", "uint8", "bool"])
def test_what_is_unset_is_filled(dtype):
    dtype = getattr(facula, dtype)
    for made in (
        facula.empty(3, dtype=dtype),
        facula.empty_like(facula.zeros(3, dtype=dtype)),
        facula.empty_strided((2, 2), (1, 3), dtype=dtype),
        facula.empty_permuted((2, 3), (1, 0), dtype=dtype),
        facula.zeros(2, dtype=dtype).resize_(5)[2:],
        facula.zeros(2, dtype=dtype).new_empty(3),
        facula.zeros(2, dtype=dtype).new_empty_strided((2, 2), (1, 3)),
    ):
        if dtype.is_floating_point or dtype.is_complex:
            assert made.isnan().all()
        else:
            largest = True if dtype is facula.bool else facula.iinfo(dtype).max
            assert (made == largest).all()


def test_the_setting_is_read_and_written():
    assert deterministic.fill_uninitialized_memory is True
    facula.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False
    assert deterministic.fill_uninitialized_memory is False
    deterministic.fill_uninitialized_memory = True
    assert facula.empty(2).isnan().all()
    facula.use_deterministic_algorithms(False)
    kept = facula.zeros(2).resize_(1).resize_(2)
    assert kept.tolist() == [0, 0]
