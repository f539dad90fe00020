"""A convolution whose result is one number: the sum of products, in each number of dimensions, dtype and layout."""

import numpy as np
import pytest

import facula

CALLS = {1: facula.conv1d, 2: facula.conv2d, 3: facula.conv3d}


@pytest.mark.parametrize("space", CALLS)
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.complex64])
@pytest.mark.parametrize("turned", [False, True])
def test_the_sum_of_products(space, dtype, turned):
    random = np.random.default_rng(space)
    shape = (1, 3, *range(2, 2 + space))
    x, w = (random.standard_normal(shape) for _ in range(2))
    image, weight = facula.tensor(x, dtype=dtype), facula.tensor(w, dtype=dtype)
    if turned:
        image = image.mT.contiguous().mT
    result = CALLS[space](image, weight)
    assert result.shape == (1, 1, *[1] * space)
    assert abs(result.item() - float((x * w).sum())) < 1e-4
