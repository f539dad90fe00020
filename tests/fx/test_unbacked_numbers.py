"""Numbers that a program reads from elements, in traces and exported programs: they have no example."""

import io

import numpy as np
import pytest

import facula
from facula import nn
from facula.fx.experimental.proxy_tensor import make_fx
from facula.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv


class Held(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def _exported(function, *args):
    return facula.export.export(Held(function), args)


def _symbolic(function, *args):
    return make_fx(function, tracing_mode="symbolic")(*args)


def test_a_number_that_is_read_becomes_a_size_of_the_result():
    traced = _symbolic(lambda n: facula.zeros(n.item(), 2), facula.tensor(3))
    for count in (0, 1, 5):
        assert traced(facula.tensor(count)).shape == (count, 2)


def test_lists_of_numbers_are_read_one_by_one():
    traced = _symbolic(lambda n: facula.ones(n.tolist()), facula.tensor([2, 3]))
    assert traced(facula.tensor([4, 1])).shape == (4, 1)


@pytest.mark.parametrize(
    ("function", "oracle"),
    [
        (lambda x: x.nonzero() * 2, lambda a: np.argwhere(a) * 2),
        (lambda x: x[x > 1] + 1, lambda a: a[a > 1] + 1),
        (lambda x: facula.bincount(x.reshape(-1)), lambda a: np.bincount(a.reshape(-1))),
    ],
)
def test_sizes_that_depend_on_elements_are_numbers_of_the_trace(function, oracle):
    traced = _symbolic(function, facula.tensor([[3, 0, 2], [1, 0, 7]]))
    for data in ([[3, 0, 2], [1, 0, 7]], [[0, 0, 0], [0, 0, 0]], [[1, 2, 2], [9, 9, 9]]):
        found = traced(facula.tensor(data))
        assert np.array_equal(found.numpy(), oracle(np.array(data)))


def test_a_check_becomes_one_of_the_exported_program():
    def first(count, values):
        n = count.item()
        facula._check(n <= 5)
        facula._check(n >= 0)
        return values[:n] * 2

    program = _exported(first, facula.tensor(3), facula.arange(8))
    run = program.module()
    for n in (0, 1, 5):
        assert run(facula.tensor(n), facula.arange(8)).tolist() == [2 * i for i in range(n)]
    with pytest.raises(RuntimeError, match="u0 <= 5"):
        run(facula.tensor(6), facula.arange(8))
    assert list(map(str, program.range_constraints.values())) == ["VR[0, 5]"]


def test_checks_survive_decompositions_and_files():
    def scaled(x):
        factor = x.sum().item()
        facula._check(factor > 0)
        return nn.functional.gelu(x) * factor

    program = _exported(scaled, facula.ones(3))
    file = io.BytesIO()
    facula.export.save(program, file)
    file.seek(0)
    for made in (program.run_decompositions(), facula.export.load(file)):
        facula.testing.assert_close(made.module()(facula.ones(3)), scaled(facula.ones(3)))
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            made.module()(-facula.ones(3))


def test_a_size_is_checked_not_to_be_negative():
    program = _exported(lambda n: facula.ones(n.item() - 1), facula.tensor(3))
    assert program.module()(facula.tensor(1)).shape == (0,)
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(facula.tensor(0))


def test_what_an_operator_asks_of_its_arguments_is_checked_where_the_program_runs():
    def part(x, n):
        length = n.item()
        facula._check(length < 4)
        return x.narrow(0, 1, length)

    program = _exported(part, facula.arange(8), facula.tensor(2))
    assert program.module()(facula.arange(8), facula.tensor(3)).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(facula.arange(8), facula.tensor(-1))


def test_a_branch_on_such_a_number_names_the_condition_and_the_remedy():
    def branch(x):
        return x + 1 if x.item() > 3 else x

    with pytest.raises(
        GuardOnDataDependentSymNode, match="data-dependent expression u0 > 3"
    ) as error:
        _symbolic(branch, facula.tensor(3))
    assert "torch._check(u0 > 3)" in str(error.value)
    assert error.value.cond == "u0 > 3"
    with pytest.raises(GuardOnDataDependentSymNode, match="extract specialized integer"):
        _symbolic(lambda x: x * len("a" * int(x.item())), facula.tensor(3))


def test_a_shape_that_holds_for_large_numbers_only_is_not_taken_for_all():
    # for 8 and more the slice has 8 elements: its length is a number of its own
    program = _exported(lambda n, x: x[: n.item()], facula.tensor(3), facula.arange(8))
    for n in (0, 3, 8, 12, -2):
        found = program.module()(facula.tensor(n), facula.arange(8))
        assert found.tolist() == list(range(8))[:n]


def test_conditions_that_follow_from_checks_are_decided():
    env = ShapeEnv()
    u, v = env.create_unbacked_symint(), env.create_unbacked_symint()
    facula._check(u >= 3)
    facula._check(v + u <= 10)
    assert (u > 2) is True
    assert (u == 2) is False
    assert (v <= 7) is True
    assert (2 * u + 1 >= 7) is True
    assert (v + u < 11) is True
    with pytest.raises(GuardOnDataDependentSymNode):
        bool(v == 2)
    facula._check(v == u)
    assert (v >= 3) is True
    with pytest.raises(RuntimeError):
        facula._check(u < 3)


def test_joined_conditions_are_checked_as_a_whole():
    def either(n):
        count = n.item()
        facula._check((count == 2) | (count == 4))
        facula._check(count >= 0)
        return facula.zeros(count)

    run = _exported(either, facula.tensor(2)).module()
    assert [run(facula.tensor(n)).shape[0] for n in (2, 4)] == [2, 4]
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        run(facula.tensor(3))


def test_a_number_is_read_once_until_its_tensor_is_written():
    def twice(x):
        a, b = x.item(), x.item()
        x.add_(1)
        return facula.zeros(a + b), facula.zeros(x.item())

    traced = _symbolic(twice, facula.tensor(3))
    found = traced(facula.tensor(2))
    assert [t.shape[0] for t in found] == [4, 3]


def test_scalar_outputs_can_be_refused():
    from facula.fx.fake_tensor import DataDependentOutputException, FakeTensorMode

    with FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=False)):
        with pytest.raises(DataDependentOutputException):
            facula.ones(()).sum().item()
