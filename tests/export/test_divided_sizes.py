"""Sizes that are quotients of other sizes: the program asks that nothing remains."""

from __future__ import annotations

import pytest

import facula
from facula.export import Dim, export


class Folds(facula.nn.Module):
    def forward(self, x):
        return x.view(x.shape[0] - 1, -1)


@pytest.mark.parametrize("dims", [(Dim.DYNAMIC, Dim.DYNAMIC), (Dim("rows"), Dim("columns"))])
def test_a_view_with_an_open_size_serves_sizes_that_divide(dims):
    run = export(Folds(), (facula.arange(12.0).view(3, 4),), dynamic_shapes={"x": dims}).module()
    for rows, columns in ((3, 4), (5, 8), (7, 6), (4, 3)):
        x = facula.arange(float(rows * columns)).view(rows, columns)
        found = run(x)
        assert found.shape == (rows - 1, rows * columns // (rows - 1))
        assert found.flatten().tolist() == [float(i) for i in range(rows * columns)]
    with pytest.raises(AssertionError, match="Guard failed.*% .*== 0"):
        run(facula.zeros(4, 2))


class Splits(facula.nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0] - 1, 4, -1)


def test_quotients_by_a_product_and_through_decompositions():
    made = export(Splits(), (facula.rand(10, 72),), dynamic_shapes={"x": (Dim.AUTO, Dim.AUTO)})
    for program in (made, made.run_decompositions()):
        run = program.module()
        assert run(facula.rand(13, 48)).shape == (12, 4, 13)
        with pytest.raises(AssertionError, match="Guard failed"):
            run(facula.rand(8, 8))


def test_a_size_that_is_read_within_a_sum_is_named_as_one_value():
    class Strided(facula.nn.Module):
        def forward(self, z, y):
            return z[1:] + y[1::2]

    size = Dim("size", min=3, max=6)
    program = export(
        Strided(),
        (facula.ones(6), facula.ones(11)),
        dynamic_shapes=({0: size + 1}, {0: 2 * size + 1}),
    )
    message = r"Guard failed: -1 \+ 2 \* z\.size\(\)\[0\] == y\.size\(\)\[0\]"
    with pytest.raises(AssertionError, match=message):
        program.module()(facula.ones(6), facula.ones(9))
