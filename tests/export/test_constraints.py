"""Sizes that may change in the words of PyTorch 2.1 and 2.2: `dynamic_dim` and its comparisons."""

import importlib

import numpy as np
import pytest

import facula
from facula import nn
from facula.export import constrain_as_size, constrain_as_value, dynamic_dim, export


class Sum(nn.Module):
    def forward(self, x, y, *, scale=None):
        return x + y if scale is None else (x + y) * scale


def test_bounds_hold_together() -> None:
    x = facula.ones(4, 3)
    program = export(
        nn.Linear(3, 2),
        (x,),
        constraints=[dynamic_dim(x, 0) <= 8, 2 <= dynamic_dim(x, 0), dynamic_dim(x, 0) < 8],
    )
    run = program.module()
    for rows in (2, 7):
        assert run(facula.ones(rows, 3)).shape == (rows, 2)
    for rows in (1, 8):
        with pytest.raises(Exception, match=r"(<=|>=|<|>) "):
            run(facula.ones(rows, 3))


def test_equal_dimensions_are_one() -> None:
    x, y, scale = facula.ones(4, 3), facula.ones(4, 3), facula.ones(4, 1)
    program = export(
        Sum(), (x, y), {"scale": scale},
        constraints=[dynamic_dim(x, 0) == dynamic_dim(y, 0), dynamic_dim(y, 0) == dynamic_dim(scale, 0)],
    )  # fmt: skip
    run = program.module()
    np.testing.assert_array_equal(
        run(facula.ones(6, 3), facula.ones(6, 3), scale=facula.full((6, 1), 3.0)),
        np.full((6, 3), 6.0),
    )
    assert len({str(n) for n in program.range_constraints}) == 1


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda x: dynamic_dim(3, 0), TypeError, "Expected tensor as input to dynamic_dim"),
        (lambda x: dynamic_dim(x, 2), ValueError, "range \\[0:1\\]"),
        (lambda x: 2 <= dynamic_dim(x, 0) <= 4, TypeError, "one comparison at a time"),
        (lambda x: dynamic_dim(x, 0) == 4, TypeError, "another dynamic_dim was required"),
        (lambda x: dynamic_dim(x, 0) <= 4.5, TypeError, "a whole number as a bound"),
        (
            lambda x: export(nn.Identity(), (x.clone(),), constraints=[dynamic_dim(x, 0)]),
            ValueError,
            "constraints of tensors among the example arguments",
        ),
    ],
)
def test_what_is_wrong_is_said(make, kind, said) -> None:
    with pytest.raises(kind, match=said):
        make(facula.ones(2, 3))


def test_numbers_that_come_out_of_tensors_are_checked() -> None:
    assert constrain_as_value(3, 1, 5) == 3 and constrain_as_size(4, max=9) == 4
    with pytest.raises(RuntimeError, match="Invalid value range"):
        constrain_as_value(7, max=5)
    with pytest.raises(RuntimeError, match="Invalid value range"):
        constrain_as_size(-1)


def test_the_graph_for_quantization_trains_and_has_the_modules_numbers() -> None:
    capture = importlib.import_module("facula._export").capture_pre_autograd_graph
    layer, x = nn.Linear(3, 2), facula.ones(4, 3)
    graph = capture(layer, (x,), constraints=[dynamic_dim(x, 0) <= 100])
    y = graph(facula.full((5, 3), 2.0))
    expected = 2 * layer.weight.detach().numpy().sum(1) + layer.bias.detach().numpy()
    np.testing.assert_allclose(y.detach(), np.tile(expected, (5, 1)), rtol=1e-5)
    y.sum().backward()
    assert any(p.grad is not None for p in graph.parameters())
