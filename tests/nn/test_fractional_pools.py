"""Fractional max pooling against a loop over its windows (`tests/oracles/fractional_pools.py`)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import facula
from facula.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracles"))

from fractional_pools import pooled  # noqa: E402

CASES = [
    ((9, 8), (2, 3), (4, 3)),
    ((9, 8), (2, 2), (1, 5)),
    ((7, 6, 8), (2, 3, 2), (3, 2, 5)),
    ((7, 6, 8), (3, 2, 2), (4, 1, 3)),
]


@pytest.mark.parametrize(("sizes", "kernel", "out"), CASES)
@pytest.mark.parametrize("dtype", [facula.float64, facula.float32])
def test_windows(sizes, kernel, out, dtype):
    random = np.random.default_rng(4)
    n = len(sizes)
    x = facula.tensor(random.standard_normal((2, 3, *sizes))).to(dtype)
    samples = facula.tensor(random.random((2, 3, n))).to(dtype)
    pool = F.fractional_max_pool2d if n == 2 else F.fractional_max_pool3d
    values, places = pool(x, kernel, out, return_indices=True, _random_samples=samples)
    wanted = pooled(x.numpy(), kernel, out, samples.double().numpy())
    np.testing.assert_array_equal(values.numpy(), wanted[0].astype(values.numpy().dtype))
    np.testing.assert_array_equal(places.numpy(), wanted[1])


def test_ratio_says_the_size():
    x = facula.randn(1, 2, 9, 8)
    assert F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.4)).shape == (1, 2, 4, 3)
