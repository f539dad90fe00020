"""In-place forms whose gradient reads what they overwrite keep a copy: their gradients are those of the other form."""

import pytest

import facula
from facula.utils.checkpoint import checkpoint

PLACES = facula.tensor([[0, 1, 2], [1, 0, 2]])
CALLS = {
    "cumprod": (1,),
    "renorm": (2, 0, 1.0),
    "scatter_reduce": (0, PLACES % 2, facula.full((2, 3), 0.7), "prod"),
    "index_reduce": (0, facula.tensor([1, 0]), facula.full((2, 3), 0.7), "prod"),
}


def gradient(function, x, way):
    x = x.detach().clone().requires_grad_()
    if way == "checkpoint":
        total = checkpoint(lambda z: function(z).pow(2).sum(), x, use_reentrant=False)
    else:
        total = function(x).pow(2).sum()
    (first,) = facula.autograd.grad(total, x, create_graph=way == "second")
    return facula.autograd.grad(first.pow(2).sum(), x)[0] if way == "second" else first


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("way", ["plain", "checkpoint", "second"])
def test_gradients_are_those_of_the_other_form(name, way):
    x = facula.linspace(-1, 1.4, 6, dtype=facula.float64).reshape(2, 3)
    args = tuple(
        a.double() if isinstance(a, facula.Tensor) and a.is_floating_point() else a
        for a in CALLS[name]
    )
    results = [
        gradient(lambda z, n=n: getattr(z * 1, n)(*args), x, way) for n in (name, name + "_")
    ]
    assert facula.allclose(*results) and results[0].abs().sum() > 0


def test_a_view_of_what_was_written_to_has_its_new_history():
    x = facula.tensor([[1.5, 2.0], [3.0, 0.5]], requires_grad=True)
    y = x * 1
    row = y[0]
    y.mul_(2)
    row.cumprod_(0)
    (slope,) = facula.autograd.grad(y.sum(), x)
    # y = [[2a, 4ab], [2c, 2d]]
    assert slope.tolist() == [[2 + 4 * 2.0, 4 * 1.5], [2.0, 2.0]]
