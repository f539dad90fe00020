"""Tangents of the logarithm of a sum of exponentials far from zero, by NumPy's float64."""

import numpy as np
import pytest

import facula


@pytest.mark.parametrize("far", [0.0, 2000.0, -3000.0])
def test_the_tangent_has_all_digits_far_from_zero(far):
    random = np.random.default_rng(3)
    x = (random.uniform(-3, 3, (5, 7)) + far).astype(np.float32)
    t = random.standard_normal((5, 7)).astype(np.float32)
    _, found = facula.func.jvp(
        lambda a: facula.logsumexp(a, 1), (facula.tensor(x),), (facula.tensor(t),)
    )
    share = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    np.testing.assert_allclose(found.numpy(), (share * t).sum(1), rtol=2e-6, atol=2e-6)
