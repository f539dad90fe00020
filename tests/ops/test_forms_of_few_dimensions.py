"""Losses and products whose operands have other numbers of dimensions than the usual two, by plain loops."""

import math

import numpy as np
import pytest

import facula
from facula.nn import functional as F


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_margins_of_several_labels_are_means_over_the_last_dimension(shape):
    chance = np.random.default_rng(0)
    x, target = chance.standard_normal(shape), (chance.random(shape) > 0.5).astype(float)
    weight = chance.random(shape[-1])

    def loss(x, t):
        parts = (
            -w * (b * -math.log1p(math.exp(-a)) + (1 - b) * -math.log1p(math.exp(a)))
            for a, b, w in zip(x, t, weight, strict=True)
        )
        return sum(parts) / len(x)

    rows = zip(x.reshape(-1, shape[-1]), target.reshape(-1, shape[-1]), strict=True)
    wanted = [loss(*row) for row in rows]
    given = map(facula.tensor, (x, target, weight))
    found = F.multilabel_soft_margin_loss(*given, reduction="none")
    assert found.shape == shape[:-1]
    assert found.flatten().tolist() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("bias_shape", [(), (3,)])
def test_linear_with_a_bias_of_no_dimensions(bias_shape):
    chance = np.random.default_rng(0)
    x, weight = chance.standard_normal((2, 4, 5)), chance.standard_normal((3, 5))
    bias = chance.standard_normal(bias_shape)
    given = list(map(facula.tensor, (x, weight, bias)))
    wanted = np.einsum("...i,oi->...o", x, weight) + bias
    for call in (F.linear, facula.compile(F.linear, dynamic=False)):
        assert call(*given).numpy() == pytest.approx(wanted, rel=1e-12, abs=1e-12)
