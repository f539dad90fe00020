"""Products of bytes with many results: sums as bytes, limits, saturation, and others added.

Oracle: NumPy, the documented steps in float32 one after the other.
"""

import numpy as np
import pytest

import facula
from facula import core
from facula.quantization import products


def case(kind, results, inner, scale):
    rng = np.random.default_rng(results + inner)
    x = rng.integers(0, 256, (13, inner)).astype(np.uint8)
    w = rng.integers(-128, 128, (results, inner)).astype(np.int8)
    scales = (rng.uniform(0.5, 2, results) * scale).astype(np.float32)
    bias = (rng.normal(size=results) * 3).astype(np.float32)
    weights = products.Weights(
        facula.from_numpy(w),
        facula.from_numpy(scales),
        facula.zeros(results, dtype=core.int32),
        facula.from_numpy(bias),
    )
    sums = (x.astype(np.int64) - 7) @ w.T.astype(np.int64)
    return rng, x, sums, scales, bias, weights


def rounded(sums, scales, bias, x_scale, y_scale):
    """round((sum + bias / (x_scale * w_scale)) * (x_scale * w_scale / y_scale)), each step in float32."""
    both = scales * np.float32(x_scale)
    shifted = sums.astype(np.float32) + bias / both
    return np.rint(shifted * (both / np.float32(y_scale)))


@pytest.mark.parametrize("kind", [facula.quint8, facula.qint8])
@pytest.mark.parametrize("scale", [1e-4, 0.3, 1e6], ids=["within", "beyond", "far beyond"])
@pytest.mark.parametrize(("results", "inner"), [(64, 9), (128, 64), (101, 30)])
def test_sums_become_bytes(kind, scale, results, inner):
    _, x, sums, scales, bias, weights = case(kind, results, inner, scale)
    low = -128 if kind is facula.qint8 else 0
    for least in (None, low + 21):
        quantizer = products.checked_output("test", 0.05, low + 21, kind)
        made = weights.integers(
            facula.from_numpy(x), (13, results), (), (0.02, 7), quantizer, kind, least
        )
        right = rounded(sums, scales, bias, 0.02, 0.05) + (low + 21)
        right = np.clip(right, low if least is None else least, low + 255)
        assert np.array_equal(made.numpy().astype(np.int64), right)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("zero", [0, 65])
@pytest.mark.parametrize(("scale", "more"), [(1e-4, 0.07), (0.3, 0.07), (1e-4, 1e12)])
def test_others_are_added_to_bytes(relu, zero, scale, more):
    rng, x, sums, scales, bias, weights = case(facula.quint8, 128, 24, scale)
    others = rng.integers(0, 256, (13, 128)).astype(np.uint8)
    own, last, f = (0.03, 40), (0.04, 11), np.float32
    multiplier, shift = weights._scaled(0.02, own[0])
    least = 0.0 if relu else float("-inf")
    limits = (
        float(own[1]),
        0.0,
        255.0,
        own[0],
        more,
        float(zero),
        *map(float, last),
        0.0,
        255.0,
        least,
        1.0,
    )
    made = products.product(
        facula.from_numpy(x), weights.packed, weights._base(7), multiplier, shift, None, facula.from_numpy(others),
        (13, 128), (1, 7), limits, core.uint8,
    )  # fmt: skip
    product = np.clip(rounded(sums, scales, bias, 0.02, own[0]) + own[1], 0, 255)
    first = (product - own[1]).astype(f) * f(own[0])
    total = first + (others.astype(f) - f(zero)) * f(more)
    total = np.maximum(total, f(0)) if relu else total
    right = np.clip(np.rint(total * (f(1) / f(last[0])) + f(last[1])), 0, 255)
    assert np.array_equal(made.numpy().astype(np.int64), right)


RANGES = [
    (-1.0, 2.0), (0.0, 0.0), (0.5, 3.0), (-3.0, -0.5), (0.0, 1e-7), (-1e-7, 0.0), (-1e-6, 2e-6),
    (0.0, 1e-44), (-3e38, 1e38), (-0.7, 0.7), (-2.0, 253.0),
]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("most", [127, 255])
def test_ranges_in_kernels_are_those_of_observers_of_our_own(low, high, most):
    from facula.quantization.create import _parameters, choose_qparams

    low, high = float(np.float32(low)), float(np.float32(high))
    pair = _parameters(facula.tensor(low), facula.tensor(high), 0, most)
    scale, zero = choose_qparams(low, high, 0, most)
    assert pair.tolist() == [float(np.float32(scale)), float(zero)]


def test_numbers_without_a_range_are_refused_each_time():
    layer = facula.ao.quantization.quantize_dynamic(facula.nn.Sequential(facula.nn.Linear(4, 3)))
    x = facula.randn(2, 4)
    for _ in range(3):
        layer(x)
        for bad in (float("nan"), float("inf")):
            with pytest.raises(RuntimeError, match="finite"):
                layer(facula.full((2, 4), bad))
