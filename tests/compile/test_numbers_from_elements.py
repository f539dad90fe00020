"""Compiled programs that read numbers from elements: one graph, right for every number."""

import numpy as np
import pytest

import facula
from facula._dynamo import config
from facula._dynamo.exc import Unsupported

BACKENDS = ("eager", "aot_eager", "inductor")


def _graphs(function, **options):
    """The function compiled, and a list of its captured graphs."""
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    return facula.compile(function, backend=backend, **options), seen


@pytest.fixture(params=BACKENDS)
def compiled(request):
    facula._dynamo.reset()
    return lambda f: facula.compile(f, backend=request.param, fullgraph=True)


def test_a_number_as_a_size(compiled):
    f = compiled(lambda n: facula.ones(n.item(), 2) * 3)
    for n in (3, 5, 1, 0):
        assert f(facula.tensor(n)).tolist() == [[3.0, 3.0]] * n


def test_a_number_as_the_end_of_a_slice(compiled):
    f = compiled(lambda n, x: (x * 2)[: n.item()].sum() + 1)
    x = np.arange(8)
    for n in (3, 5, 20, -2):
        assert f(facula.tensor(n), facula.from_numpy(x)).item() == 2 * x[:n].sum() + 1


def test_a_float_scales_and_has_a_gradient(compiled):
    f = compiled(lambda x: (x * x.detach().sum().item()).sum())
    for values in ([1.0, 2.0], [3.0, 4.0]):
        x = facula.tensor(values, requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == [sum(values)] * 2


def test_elements_that_a_mask_chooses(compiled):
    f = compiled(lambda x: x[x > 0].cumsum(0) * 2)
    for a in (np.array([1.0, -1.0, 2.0]), np.array([-1.0]), np.arange(6.0)):
        assert np.array_equal(f(facula.from_numpy(a)).numpy(), a[a > 0].cumsum() * 2)


def test_lists_and_truths_of_elements(compiled):
    f = compiled(lambda x: ([n * 2 for n in x.tolist()], bool(x.sum()), float(x.max())))
    for a in ([1, 2], [0, 0], [-3, 5]):
        assert f(facula.tensor(a)) == ([2 * n for n in a], sum(a) != 0, float(max(a)))


def test_checks_decide_branches_and_hold_where_the_program_runs(compiled):
    def first(n, x):
        count = n.item()
        facula._check(count <= 3, lambda: "at most three")
        facula._check(count >= 0)
        if count > 4:
            return x
        return x[:count] + facula.ones(count)

    f = compiled(first)
    for n in (3, 2, 0):
        assert f(facula.tensor(n), facula.arange(5.0)).tolist() == [i + 1.0 for i in range(n)]
    with pytest.raises(RuntimeError, match="at most three"):
        f(facula.tensor(4), facula.arange(5.0))


def test_a_check_behind_a_write_to_an_input_holds(compiled):
    def f(x, n):
        x += 1
        facula._check(n.item() < 4)
        return x * 2

    run = compiled(f)
    assert run(facula.ones(2), facula.tensor(3)).tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError):
        run(facula.ones(2), facula.tensor(5))


def test_sizes_of_inputs_and_numbers_change_together(compiled):
    f = compiled(lambda x, n: x.sum(0) + x.shape[0] * n.item() + facula.zeros(n.item()).shape[0])
    for rows, n in ((2, 3), (3, 4), (5, 2), (7, 9)):
        found = f(facula.ones(rows, 2), facula.tensor(n))
        assert found.tolist() == [rows + rows * n + n] * 2


def test_a_program_of_one_graph_is_one_graph():
    facula._dynamo.reset()
    f, seen = _graphs(
        lambda x, n: (x + 1) * n.item() + facula.zeros(n.item() % 2 + 2)[0], fullgraph=True
    )
    for n in (3, 4, 6):
        assert f(facula.ones(2), facula.tensor(n)).tolist() == [2.0 * n] * 2
    assert len(seen) == 1


@pytest.mark.breaks
def test_a_branch_on_a_number_is_refused_or_breaks():
    def branch(n):
        return n + 1 if n.item() > 3 else n - 1

    facula._dynamo.reset()
    with pytest.raises(Unsupported, match="data-dependent"):
        facula.compile(branch, fullgraph=True)(facula.tensor(3))
    f = facula.compile(branch)
    assert [f(facula.tensor(n)).item() for n in (3, 5)] == [2, 6]


@pytest.mark.breaks
def test_without_one_graph_the_setting_says_whether_numbers_are_read():
    facula._dynamo.reset()
    f, seen = _graphs(lambda x: x * x.sum().item() + 1)
    f(facula.ones(2))
    assert len(seen) == 2
    facula._dynamo.reset()
    f, seen = _graphs(lambda x: x * x.sum().item() + 1)
    with config.patch(capture_scalar_outputs=True):
        assert f(facula.ones(2)).tolist() == [3.0, 3.0]
    assert len(seen) == 1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
def test_a_float_that_was_read_is_a_number_beside_tensors(
    shape: tuple[int, ...], dtype: facula.dtype
) -> None:
    def program(x: facula.Tensor, y: facula.Tensor) -> tuple[facula.Tensor, ...]:
        number = y.item()
        y.detach().add_(1)
        return x * number, number - x, x / (number + 1)

    x = facula.arange(1.0, 4)
    for value in (0.3, 0.7):
        y = facula.full(shape, value, dtype=dtype, requires_grad=True)
        number = y.item()
        got = facula.compile(program, fullgraph=True)(x, y)
        want = (x.numpy() * number, number - x.numpy(), x.numpy() / (number + 1))
        for mine, other in zip(got, want, strict=True):
            assert mine.dtype == facula.float32 and mine.shape == (3,)
            assert not mine.requires_grad  # numbers have no history
            np.testing.assert_allclose(mine.numpy(), other, rtol=1e-6)
        assert y.item() == pytest.approx(number + 1)
