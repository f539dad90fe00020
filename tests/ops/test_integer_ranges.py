"""Ranges of whole numbers from ends and steps that are none, against NumPy and written values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import facula

NARROW = [facula.int8, facula.uint8, facula.int16, facula.int32]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(0.1, 50, 0.3), (0.5, 7.5, 1.5), (0, 3, 0.75), (5, 0, -0.5), (1.9, 5.1, 1), (0, 0, 0.5)],
)
def test_narrow_integers_are_counted_before_the_ends_are_rounded(start, end, step, dtype):
    got = facula.arange(start, end, step, dtype=dtype)
    count = math.ceil((end - start) / step)
    np.testing.assert_array_equal(got.numpy(), int(start) + int(step) * np.arange(count))
    assert got.dtype is dtype


def test_the_step_of_int64_must_not_round_to_zero():
    with pytest.raises(ValueError, match="step must be nonzero"):
        facula.arange(0.1, 50, 0.3, dtype=facula.int64)
    assert facula.arange(0.5, 7.5, 1.5, dtype=facula.int64).tolist() == list(range(7))


@pytest.mark.parametrize("dtype", [facula.int64, facula.int32, facula.uint8])
def test_one_power_keeps_the_fraction_of_its_exponent(dtype):
    assert facula.logspace(1.7, 3, 1, dtype=dtype).tolist() == [int(10**1.7)]
    assert facula.logspace(1.7, 3, 1, base=2.5, dtype=dtype).tolist() == [int(2.5**1.7)]
    assert facula.logspace(1.7, 2.2, 2, dtype=dtype).tolist() == [10, 100]


def test_statistics_of_group_norm_have_the_dtype_of_the_parameters():
    x = facula.arange(24.0).reshape(2, 3, 4).bfloat16()
    rows = x.float().reshape(2, 12).numpy()
    out, mean, scale = facula.native_group_norm(x, facula.ones(3), facula.ones(3), 2, 3, 4, 1, 1e-5)
    assert (out.dtype, mean.dtype, scale.dtype) == (facula.bfloat16, facula.float32, facula.float32)
    np.testing.assert_allclose(mean.numpy()[:, 0], rows.mean(1), rtol=1e-6)
    np.testing.assert_allclose(scale.numpy()[:, 0], rows.std(1) ** -1.0, rtol=1e-5)
    assert facula.native_group_norm(x, None, None, 2, 3, 4, 1, 1e-5)[1].dtype is facula.bfloat16
