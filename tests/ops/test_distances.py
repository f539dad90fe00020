"""Distances of rows: against SciPy's definition in plain loops, and where elements are not finite."""

import math

import numpy
import pytest

import facula


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_pairs_are_those_of_all_distances(p):
    rows = numpy.random.default_rng(0).integers(0, 3, (5, 4)).astype(float)
    wanted = []
    for i in range(5):
        for j in range(i + 1, 5):
            parts = [abs(a - b) for a, b in zip(rows[i], rows[j], strict=True)]
            if p == 0:
                wanted.append(sum(part != 0 for part in parts))
            else:
                wanted.append(max(parts) if p == math.inf else sum(x**p for x in parts) ** (1 / p))
    x = facula.tensor(rows, requires_grad=True)
    found = facula.pdist(x, p)
    numpy.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-12)
    square = facula.cdist(x, x, p)
    first, second = numpy.triu_indices(5, 1)
    numpy.testing.assert_allclose(square.detach().numpy()[first, second], wanted, rtol=1e-12)
    found.sum().backward()
    assert x.grad.isfinite().all() and (p > 0 or not x.grad.any())


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_no_distance_between_what_is_not_finite(p, value):
    x = facula.full((2, 2), value)
    assert facula.pdist(x, p).isnan().all()
    assert facula.cdist(x, x, p).isnan().all()
