"""The range whose levels lie closest to weights, by a walk in NumPy; weights that 16-bit floats have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import facula

BINS = 40


def missed(x: Any, low: float, high: float, bits: int) -> float:
    """What levels miss of numbers, by looking for the nearest of all levels."""
    low = float(np.float16(low))
    step = float(np.float16((high - low) / (2**bits - 1))) or 1.0
    levels = low + step * np.arange(2**bits)
    return float(np.sqrt((np.abs(x[:, None] - levels).min(1) ** 2).sum()))


def weights(seed: int) -> Any:
    made = np.random.default_rng(seed).normal(size=60).astype("f4")
    made[:2] = 5.5, -7.0  # numbers that lie apart are worth less than the others' levels
    return made


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_range_of_a_walk(bits: int, seed: int):
    x = weights(seed)
    low, high = float(x.min()), float(x.max())
    step = (high - low) / BINS
    trail = [(0, 0)]  # steps from below and from above
    while sum(trail[-1]) < BINS - int(BINS * 0.5):
        a, b = trail[-1]
        further = [(a + 1, b), (a, b + 1)]
        trail.append(
            min(
                further,
                key=lambda s: (missed(x, low + s[0] * step, high - s[1] * step, bits), -s[1]),
            )
        )
    costs = [missed(x, low + a * step, high - b * step, bits) for a, b in trail]
    a, b = trail[int(np.argmin(costs[:-1]))]
    most, least = facula.choose_qparams_optimized(facula.tensor(x), 60, BINS, 0.5, bits)
    np.testing.assert_allclose(most.numpy(), [high - b * step], atol=1e-4)
    np.testing.assert_allclose(least.numpy(), [low + a * step], atol=1e-4)
    assert missed(x, float(least), float(most), bits) < costs[0]


def test_only_so_many_numbers_count_and_equal_ones_stay():
    x = facula.tensor([1.0, 1.0, 50.0])
    most, least = facula.choose_qparams_optimized(x, 2, 200, 0.16, 8)
    assert most.tolist() == least.tolist() == [1.0]
    with pytest.raises(ValueError, match="numel=4"):
        facula.choose_qparams_optimized(x, 4, 200, 0.16, 8)
    with pytest.raises(RuntimeError, match="expected scalar type Float"):
        facula.choose_qparams_optimized(x.double(), 3, 200, 0.16, 8)


def test_weights_become_what_halves_have():
    inf = float("inf")
    given = [[1e6, -7e4, 3.0], [inf, -inf, 65504.0]]
    weight = facula.nn.Parameter(facula.tensor(given))
    with pytest.warns(UserWarning, match="FOUND weight out of range"):
        found = facula._saturate_weight_to_fp16(weight)
    assert found is weight
    wanted = np.clip(np.array(given), -65504, 65504)
    assert found.tolist() == wanted.tolist() == found.detach().half().tolist()
    with pytest.raises(IndexError, match="a matrix was required"):
        facula._saturate_weight_to_fp16(facula.ones(3))
