"""Numbers that a program reads: what it checks of them, and slices of such lengths."""

import re

import pytest

import facula
from facula import export, nn


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def checked(x, n):
    n = n.item()
    facula._check(n >= 3)
    facula._check(n <= 9)
    facula._check(-n >= -7)
    facula._check(n >= 2)
    return x[:n]


def test_only_the_tightest_bounds_are_checked():
    program = export.export(Calls(checked), (facula.ones(10), facula.tensor(5)))
    calls = [n for n in program.graph.nodes if "_assert_scalar" in str(n.target)]
    assert len(calls) == 2
    ran = program.module()
    assert ran(facula.ones(10), facula.tensor(7)).shape == (7,)
    for wrong in (2, 8):
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            ran(facula.ones(10), facula.tensor(wrong))


def test_a_narrowed_length_is_read():
    program = export.export(
        Calls(lambda x, n: x.narrow(1, 2, n.item())), (facula.ones(3, 7), facula.tensor(5))
    )
    assert program.module()(facula.ones(3, 7), facula.tensor(4)).shape == (3, 4)
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(facula.ones(3, 7), facula.tensor(6))


def test_relations_are_written_as_python():
    size = export.Dim("size", min=3, max=9)
    program = export.export(
        Calls(lambda x, y: x + y[1:]), (facula.ones(5), facula.ones(6)),
        dynamic_shapes=(({0: size}, {0: size + 1}),),
    )  # fmt: skip
    message = re.escape("args_0.size()[0] == -1 + args_1.size()[0]")
    with pytest.raises(AssertionError, match=message):
        program.module()(facula.ones(4), facula.ones(6))
    product = export.export(
        Calls(lambda x: x.view(x.shape[0] - 1, -1)), (facula.ones(3, 4),),
        dynamic_shapes=(({0: export.Dim.AUTO, 1: export.Dim.AUTO},),),
    )  # fmt: skip
    size = r"args\.size\(\)"
    with pytest.raises(
        AssertionError,
        match=rf"{size}\[\d\] \* {size}\[\d\] % \(-1 \+ {size}\[0\]\) == 0",
    ):
        product.module()(facula.ones(4, 2))


def test_sizes_beside_each_other_are_equal_and_no_others_are_fixed():
    rows, columns = export.Dim.AUTO, export.Dim.AUTO
    program = export.export(
        Calls(lambda x, y, z: x + y + z), tuple(facula.ones(6, 3) for _ in range(3)),
        dynamic_shapes=(({0: rows, 1: columns}, {0: rows, 1: columns}, {0: rows}),),
    )  # fmt: skip
    ran = program.module()
    assert ran(*[facula.ones(4, 3)] * 3).shape == (4, 3)
    with pytest.raises(AssertionError, match="Guard failed"):
        ran(*[facula.ones(4, 2)] * 3)


def test_a_truth_of_elements_is_an_operator():
    assert facula.ops.aten.is_nonzero(facula.tensor([2.0])) is True
    assert facula.ops.aten.is_nonzero(facula.tensor(False)) is False
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value"):
        export.export(Calls(lambda x: facula.ops.aten.is_nonzero(x)), (facula.ones(4),))
