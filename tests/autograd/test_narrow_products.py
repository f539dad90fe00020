"""Second derivatives of products that are gathered by index, in 16-bit floats, against loops in doubles."""

import numpy as np
import pytest

import facula

PLACES = [0, 1, 0, 2, 1, 0, 2, 2]


def derivative_of_squares(start, factors):
    """The derivatives of the sum of all squared first derivatives of the products, which are taken
    one factor away at a time."""
    to_start, to_factors = np.zeros(len(start)), np.zeros(len(factors))
    for place in range(len(start)):
        members = [k for k, p in enumerate(PLACES) if p == place]
        values = [start[place], *(factors[k] for k in members)]
        for away in range(len(values)):
            rest = np.prod([v for i, v in enumerate(values) if i != away])
            for by in range(len(values)):
                if by == away:
                    continue
                others = np.prod([v for i, v in enumerate(values) if i not in (away, by)])
                if by == 0:
                    to_start[place] += 2 * rest * others
                else:
                    to_factors[members[by - 1]] += 2 * rest * others
    return to_start, to_factors


@pytest.mark.parametrize(
    ("dtype", "unit"), [(facula.float16, 2.0**-11), (facula.bfloat16, 2.0**-8)], ids=str
)
def test_products_are_not_divided_by_rounded_ones(dtype, unit):
    numbers = np.random.default_rng(5)
    for _ in range(20):
        start = facula.tensor(numbers.normal(size=3)).to(dtype).requires_grad_()
        factors = facula.tensor(numbers.normal(size=8)).to(dtype).requires_grad_()
        total = start.scatter_reduce(0, facula.tensor(PLACES), factors, "prod").sum()
        first = facula.autograd.grad(total, (start, factors), create_graph=True)
        found = facula.autograd.grad(sum((g * g).sum() for g in first), (start, factors))
        expected = derivative_of_squares(start.tolist(), factors.tolist())
        for g, e in zip(found, expected, strict=True):
            assert g.dtype is dtype
            np.testing.assert_allclose(g.double().numpy(), e, rtol=0, atol=4 * unit * abs(e).max())
