"""L-BFGS on losses made of straight lines, where two points of a search have one slope."""

import pytest

import facula
from facula import nn


@pytest.mark.parametrize("start", [0.5, 1.0, 2.0, 3.0, 10.0])
@pytest.mark.parametrize(
    ("loss", "best"),
    [
        (lambda p: p.abs().sum(), 0.0),
        (lambda p: 2 * p.relu().sum() + (1 - p).relu().sum(), 0.0),
        (lambda p: (p - 4).abs().sum(), 4.0),
    ],
)
def test_the_least_of_straight_lines_is_found(loss, best, start):
    p = nn.Parameter(facula.full((2,), start))
    optimizer = facula.optim.LBFGS([p], lr=1, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = loss(p)
        value.backward()
        return value

    optimizer.step(closure)
    facula.testing.assert_close(p.detach(), facula.full((2,), best), atol=1e-5, rtol=0)


def test_what_groups_lack_is_said():
    p, q = nn.Parameter(facula.ones(1)), nn.Parameter(facula.ones(1))
    with pytest.raises(TypeError, match="params argument given to the optimizer"):
        facula.optim.SGD(p, lr=0.1)
    optimizer = facula.optim.SGD([("p", p)], lr=0.1)
    with pytest.raises(ValueError, match="cannot add param group without names"):
        optimizer.add_param_group({"params": [q]})
