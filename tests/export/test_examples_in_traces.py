"""Programs that are exported with the elements of their example, and choices between sizes."""

import pytest

import facula
import facula._functorch.config as settings
from facula import export, library, nn


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def tried(function, *args):
    with settings.patch(fake_tensor_propagate_real_tensors=True):
        return export.export(Calls(function), args)


@library.custom_op("examples::overwrites", mutates_args=())
def overwrites(x: facula.Tensor, y: facula.Tensor) -> facula.Tensor:
    y.add_(1)
    return x.clone()


@overwrites.register_fake
def _(x, y):
    return x.clone()


@library.custom_op("examples::same", mutates_args=())
def same(x: facula.Tensor) -> facula.Tensor:
    return x


@same.register_fake
def _(x):
    return x.clone()


@library.custom_op("examples::untold", mutates_args=())
def untold(x: facula.Tensor) -> facula.Tensor:
    return (x * 2).t().contiguous()


@library.custom_op("examples::shifted", mutates_args=())
def shifted(x: facula.Tensor) -> facula.Tensor:
    return (x * 2)[1]


def test_an_operator_that_writes_unsaid_is_refused():
    with pytest.raises(RuntimeError, match="for argument 'y'"):
        tried(overwrites, facula.ones(3), facula.ones(3))


def test_an_operator_that_gives_its_input_is_refused():
    with pytest.raises(RuntimeError, match="may not alias"):
        tried(same, facula.ones(3))


def test_an_operator_without_a_function_for_fake_tensors_gets_one():
    program = tried(untold, facula.ones(2, 3))
    x = facula.arange(6.0).reshape(2, 3)
    assert program.module()(x).tolist() == [[0, 6], [2, 8], [4, 10]]


def test_a_layout_that_cannot_be_told_is_refused():
    with pytest.raises(RuntimeError, match="non-zero storage offset"):
        tried(shifted, facula.ones(2, 3))


@pytest.mark.parametrize("x", [facula.tensor(3), facula.tensor(3.0), facula.tensor(True)])
def test_what_the_example_decides_is_checked(x):
    program = tried(lambda x: facula.is_nonzero(x), x)
    assert program.module()(x) is True
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(x * 0 if x.dtype is not facula.bool else ~x)


def test_a_truth_that_was_read_is_compared():
    program = export.export(Calls(lambda x: x.item() != 0), (facula.tensor(True),))
    assert program.module()(facula.tensor(False)) is False
    assert program.module()(facula.tensor(True)) is True


def test_the_larger_of_two_sizes_is_an_expression():
    program = export.export(
        Calls(lambda x, n: (facula.ones(max(n.item(), 4)), facula.ones(min(x.shape[0], 3)))),
        (facula.ones(5), facula.tensor(7)),
        dynamic_shapes=(({0: export.Dim("n", min=2)}, None),),
    )
    found = program.module()(facula.ones(2), facula.tensor(1))
    assert [t.shape[0] for t in found] == [4, 2]
    with pytest.raises(ValueError):
        max([])  # Python's own again
