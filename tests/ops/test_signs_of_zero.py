"""The sign of a zero outlives what bounds numbers, in every dtype and length; ends of trigamma; isclose of uint64.

Expected values are written out: an element that is not below a bound is passed on as it is.
"""

import math

import numpy as np
import pytest

import facula
from facula.nn import functional as F

BOUNDS = {
    "relu": facula.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, 0.0, 1.0),
    "clamp min": lambda x: x.clamp(min=0.0),
    "clamp max": lambda x: x.clamp(max=0.0),
    "clamp": lambda x: x.clamp(0.0, 0.0),
    "maximum": lambda x: facula.maximum(x, facula.zeros_like(x)),
    "minimum": lambda x: facula.minimum(x, facula.zeros_like(x)),
    "softshrink": lambda x: F.softshrink(x, 0.5),
    "softshrink 0": lambda x: F.softshrink(x, 0.0),
}


@pytest.mark.parametrize("length", [1, 3, 37])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.float16, facula.bfloat16])
@pytest.mark.parametrize("name", BOUNDS)
def test_zeros_keep_their_signs(name, dtype, length):
    zeros = np.where(np.arange(length) % 3 == 0, -0.0, 0.0)
    result = BOUNDS[name](facula.tensor(zeros, dtype=dtype)).double().numpy()
    assert (result == 0).all()
    assert np.signbit(result).tolist() == np.signbit(zeros).tolist()


def test_nan_still_passes():
    x = facula.tensor([math.nan, 1.0, -1.0] * 11)
    for name, bound in BOUNDS.items():
        assert bound(x).isnan().tolist() == [True, False, False] * 11, name
    y = facula.tensor([1.0, math.nan, 2.0] * 11)
    for extreme in (facula.maximum, facula.minimum):
        assert extreme(x, y).isnan().tolist() == [True, True, False] * 11


def test_trigamma_at_its_ends():
    """1 / x**2 near zero from both sides, 1/x far out, pi**2 / 2 at a half; -inf is no limit."""
    x = facula.tensor([-1e-40, 1e-40, math.inf, 0.5, -0.5, -1.0], dtype=facula.float64)
    got = facula.polygamma(1, x).tolist()
    half = math.pi**2 / 2
    wanted = [1e80, 1e80, 0.0, half, half + 4, math.inf]
    assert all(math.isclose(a, b, rel_tol=1e-14) for a, b in zip(got, wanted, strict=True)), got
    assert facula.polygamma(1, facula.tensor(-math.inf)).isnan()
    assert facula.special.zeta(facula.tensor(2.0), facula.tensor(math.inf)).item() == 0


def test_isclose_of_uint64():
    values = [2**63 + 1, 2, 2**63, 2**64 - 1, 2**53 + 1]
    others = [2**63 + 1, 3, 2**63 + 2**60, 0, 2**53]
    x, y = facula.tensor(values, dtype=facula.uint64), facula.tensor(others, dtype=facula.uint64)
    near = [abs(a - b) <= 1e-8 + 1e-5 * b for a, b in zip(values, others, strict=True)]
    assert facula.isclose(x, y).tolist() == near
    equal = [a == b for a, b in zip(values, others, strict=True)]
    assert facula.isclose(x, y, rtol=0.0, atol=0.0).tolist() == equal


def test_steps_of_float64_are_not_rounded_to_float32():
    x = facula.tensor([1.0, 2.96, 100.0], dtype=facula.float64)
    got = facula.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255).tolist()
    assert np.allclose(got, [1.0, 3.0, 25.5], rtol=1e-15, atol=0)


def test_an_ellipsis_at_the_end_behind_another_stands_for_nothing():
    x, n = facula.arange(60.0).reshape(3, 4, 5), np.arange(60.0).reshape(3, 4, 5)
    assert x[..., 1, ...].tolist() == n[..., 1].tolist()
    assert x[..., ...].tolist() == n.tolist()
    assert x[0, ..., facula.tensor([0, 2]), ...].tolist() == n[0][..., [0, 2]].tolist()
    x[..., 0, ...] = -1.0
    n[..., 0] = -1.0
    assert x.tolist() == n.tolist()
    with pytest.raises(IndexError, match="single ellipsis"):
        x[..., 0, ..., 0]
