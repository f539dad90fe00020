"""Convolutions whose sums have no terms: what is left is the bias, in the shape of the result."""

import pytest

import facula
from facula.nn import functional as F


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_sum_over_no_channels_is_the_bias(batch, dimensions):
    bias = [5.0, -2.0, 3.0, 7.0]
    image = facula.ones(batch, 0, *[4] * dimensions)
    weight = facula.ones(4, 0, *[3] * dimensions)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[dimensions - 1]
    got = convolve(image, weight, facula.tensor(bias), padding=1)
    assert got.shape == (batch, 4, *[4] * dimensions)
    for sample in got:
        for channel, value in zip(sample, bias, strict=True):
            assert channel.unique().tolist() == [value]
    assert not convolve(image, weight, padding=1).any()
