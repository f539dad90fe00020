"""`normal` with a size: its mean and deviation are numbers, also as tensors without dimensions."""

import numpy as np
import pytest

import facula


@pytest.mark.parametrize("mean", [2.0, facula.tensor(2.0)])
@pytest.mark.parametrize("std", [0.5, facula.tensor(0.5)])
def test_tensors_without_dimensions_are_numbers_next_to_a_size(mean, std):
    """The size was dropped without a word, and one number came back."""
    facula.manual_seed(0)
    drawn = facula.normal(mean, std, (4000,))
    assert drawn.shape == (4000,)
    numbers = drawn.numpy().astype(np.float64)
    assert abs(numbers.mean() - 2.0) < 0.05 and abs(numbers.std() - 0.5) < 0.05
    facula.manual_seed(0)
    assert facula.equal(drawn, facula.normal(mean=2.0, std=0.5, size=(4000,)))


@pytest.mark.parametrize(
    "mean", [facula.zeros(1), facula.zeros(3), facula.tensor(0.0, requires_grad=True)]
)
def test_other_tensors_and_a_size_exclude_each_other(mean):
    with pytest.raises(TypeError, match="a number as mean was required next to a size"):
        facula.normal(mean, 1.0, (4,))
    with pytest.raises(TypeError, match="a number as std was required next to a size"):
        facula.normal(0.0, mean, (4,))
