"""What is sampled at no place, divided by nothing, or infinite in no direction."""

import cmath
import math

import numpy as np
import pytest

import facula
from facula.nn import functional as F

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_sampled_at_no_place(mode, padding, dtype):
    image = facula.arange(9, dtype=dtype).reshape(1, 1, 3, 3)
    places = facula.tensor([[NAN, 0.0], [0.0, NAN], [-INF, 0.0], [0.0, 0.0]], dtype=dtype)
    found = F.grid_sample(image, places.reshape(1, 1, 4, 2), mode, padding, False).flatten()
    assert found[3] == 4  # the middle
    undefined = mode == "bicubic" or (mode == "bilinear" and padding == "zeros")
    if undefined:
        assert found[:3].isnan().all()
    elif padding == "zeros":
        assert found[:3].tolist() == [0, 0, 0]
    else:  # no number is folded to the border
        assert found[:3].tolist() == [3, 1, 3]


def test_many_channels_and_gradients_at_no_place():
    image = facula.rand(1, 20, 3, 3, requires_grad=True)
    places = facula.zeros(1, 1, 70, 2)
    places[0, 0, 65] = NAN
    found = F.grid_sample(image, places, align_corners=False)
    assert found[0, :, 0, 65].isnan().all()
    assert found.isnan().sum() == 20
    found.nansum().backward()
    assert np.allclose(image.grad[0, :, 1, 1].numpy(), 69)


def test_condition_of_nothing():
    zeros = facula.zeros(2, 2)
    for p in (None, 2, -2):
        assert facula.linalg.cond(zeros, p).isnan()
    for p in (1, -1, INF, -INF, "fro"):
        assert facula.linalg.cond(zeros, p) == INF
    assert facula.linalg.cond(facula.tensor([[1.0, 0.0], [0.0, 0.0]])) == INF


@pytest.mark.parametrize(
    "z",
    [complex(INF, INF), complex(INF, NAN), complex(-INF, INF), complex(INF, 0), complex(-INF, 2)],
)
@pytest.mark.parametrize("repeats", [1, 19])
def test_exponential_at_infinity(z, repeats):
    found = facula.tensor([z] * repeats, dtype=facula.complex128).exp()
    try:
        wanted = cmath.exp(z)
    except (ValueError, OverflowError):
        wanted = complex(INF, NAN)
    for value in found.tolist():
        assert value.real == wanted.real
        assert value.imag == wanted.imag or math.isnan(value.imag) == math.isnan(wanted.imag)


@pytest.mark.parametrize(("size", "channels"), [(3, 6), (5, 7), (3, 2), (1, 4), (7, 3)])
def test_normalization_across_channels_counts_the_first_one(size, channels):
    """By loops, with the sum carried along as PyTorch's module carries it."""
    x = np.random.default_rng(0).standard_normal((2, channels, 2, 2))
    reach = (size - 1) // 2 + 1
    sums = np.zeros_like(x)
    sums[:, 0] = (x[:, :reach] ** 2).sum(1)
    for c in range(1, channels):
        sums[:, c] = sums[:, c - 1]
        if c < channels - reach + 1:
            sums[:, c] += x[:, c + reach - 1] ** 2
        if c > reach:
            sums[:, c] -= x[:, c - reach] ** 2
    wanted = x * (2.0 + 0.3 / size * sums) ** -0.75
    found = facula.nn.CrossMapLRN2d(size, alpha=0.3, k=2.0)(facula.from_numpy(x))
    assert np.allclose(found.numpy(), wanted)


@pytest.mark.parametrize("width", [5, 7, 13, 28, 57, 113])
def test_on_which_side_of_a_sample_a_place_lies(width):
    """At a sample the last bit of a place decides its gradient: (x + 1) width / 2 - 1/2 is rounded once over images."""
    middles = ((2 * np.arange(width) + 1) / width - 1).astype(np.float32)
    places = np.concatenate([middles, np.nextafter(middles, 2, dtype=np.float32)])
    grid = facula.zeros(1, 1, len(places), 2)
    grid[0, 0, :, 0] = facula.from_numpy(places)
    grid.requires_grad_()
    squares = facula.arange(float(width)) ** 2
    F.grid_sample(squares.view(1, 1, 1, width), grid, align_corners=False).sum().backward()
    shifted = (places + np.float32(1)).astype(np.float64)
    left = np.floor((shifted * (width / 2) - 0.5).astype(np.float32)).astype(int)
    values = np.concatenate([[0.0], np.arange(width) ** 2.0, [0.0]])
    expected = (values[left + 2] - values[left + 1]) * width / 2
    np.testing.assert_allclose(grid.grad[0, 0, :, 0].numpy(), expected, rtol=1e-4)
