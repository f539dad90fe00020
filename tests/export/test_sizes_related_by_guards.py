"""Sizes that programs relate: slices up to another input's size, sums of products of sizes; all of them may change."""

from __future__ import annotations

import pytest

import facula
from facula import export, nn
from facula.export import Dim


def exported(function, args, shapes):  # type: ignore[no-untyped-def]
    class Program(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Buffer(facula.zeros(10))

        def forward(self, *given):  # type: ignore[no-untyped-def]
            return function(self, *given)

    return export.export(Program(), args, dynamic_shapes={"given": shapes}).module()


def test_a_part_of_one_input_is_written_by_another():
    def writes(_, whole, part):  # type: ignore[no-untyped-def]
        whole = whole.clone()
        whole[:, : part.shape[-1]] = part
        return whole

    shapes = ({1: Dim("whole")}, {1: Dim("part")})
    program = exported(writes, (facula.zeros(2, 4), facula.ones(2, 3)), shapes)
    for whole, part in ((4, 3), (9, 5), (6, 6)):
        found = program(facula.zeros(2, whole), facula.ones(2, part))
        assert found.sum(0).tolist() == [2] * part + [0] * (whole - part)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(facula.zeros(2, 4), facula.ones(2, 5))


@pytest.mark.parametrize("example", [4, 9, 10])
def test_the_front_of_a_buffer_is_written_whatever_the_example(example: int):
    def writes(self, x):  # type: ignore[no-untyped-def]
        self.rows[0 : x.shape[0]] = x
        return self.rows.clone(), self.rows[: x.shape[0]].sum()

    program = exported(writes, (facula.ones(example),), ({0: Dim("n", min=1, max=10)},))
    for n in (10, 7, 2):
        rows, total = program(facula.full((n,), float(n)))
        assert rows[:n].tolist() == [n] * n and total.item() == n * n
    with pytest.raises(AssertionError, match="Guard failed"):
        program(facula.ones(11))


def test_products_of_sizes_may_be_equal():
    def flat(_, x, y, z):  # type: ignore[no-untyped-def]
        return (x.reshape([-1]) + y.reshape([-1]) + z) * 2

    shapes = ({0: Dim("a"), 1: Dim("b")}, {0: Dim("c"), 1: Dim("d")}, {0: Dim("e")})
    program = exported(flat, (facula.ones(6, 8), facula.ones(3, 16), facula.ones(48)), shapes)
    for a, b, c, d in ((48, 2, 4, 24), (5, 8, 4, 10)):
        found = program(facula.ones(a, b), facula.ones(c, d), facula.ones(a * b))
        assert found.tolist() == [6] * (a * b)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(facula.ones(5, 8), facula.ones(4, 9), facula.ones(40))
