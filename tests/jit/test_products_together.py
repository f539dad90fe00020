"""Passes that put products of matrices, layers and tasks together: numbers stay, what is written to is left alone."""

import types

import numpy as np
import pytest

import facula
from facula import Tensor


def run_pass(name, graph):
    getattr(facula._C, f"_jit_pass_{name}")(graph)
    graph.lint()
    return str(graph)


def four(a: Tensor, b: Tensor, c: Tensor, d: Tensor):
    return facula.mm(a, b) + facula.mm(c, d) + facula.mm(a, d) + facula.mm(c, b)


def four_written(a: Tensor, b: Tensor, c: Tensor, d: Tensor):
    first = facula.mm(a, b)
    first.add_(1)
    return first + facula.mm(c, d) + facula.mm(a, d) + facula.mm(c, b)


def eight(a: Tensor, b: Tensor, c: Tensor, d: Tensor):
    x, y, z = facula.mm(a, b), facula.mm(a, d), facula.mm(a, b * 3)
    u, v, w = facula.mm(a, b * 2), facula.mm(a, d * 2), facula.mm(a, b + d)
    return [x, y, z, u, v, w, facula.mm(a, b - d), facula.mm(a, d - b), facula.mm(a, b * d)]


def eight_at_once(a: Tensor, b: Tensor, c: Tensor, d: Tensor):
    e, f, g, h = b * 2, d * 2, b + d, b - d
    x, y, z, u = facula.mm(a, b), facula.mm(a, d), facula.mm(a, e), facula.mm(a, f)
    return [x, y, z, u, facula.mm(a, g), facula.mm(a, h), facula.mm(a, b), facula.mm(a, d)]


def eight_on_the_left(a: Tensor, b: Tensor, c: Tensor, d: Tensor):
    e, f, g, h = a * 2, c * 2, a + c, a - c
    x, y, z, u = facula.mm(a, b), facula.mm(c, b), facula.mm(e, b), facula.mm(f, b)
    return [x, y, z, u, facula.mm(g, b), facula.mm(h, b), facula.mm(a, b), facula.mm(c, b)]


def matrices(dtype):
    facula.manual_seed(0)
    pairs = [(facula.randn(3, 5), facula.randn(5, 3)) for _ in range(2)]
    return [x.mul(4).to(dtype) for pair in pairs for x in pair]


def by_float64(function, given):
    """The same program, computed by NumPy."""
    arrays = [x.double().numpy() for x in given]
    scope = {**function.__globals__, "facula": type("n", (), {"mm": staticmethod(np.matmul)})}
    return types.FunctionType(function.__code__, scope)(*arrays)


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.int64])
@pytest.mark.parametrize(
    ("function", "kind", "left"),
    [
        (four, "prim::MMTreeReduce", 0),
        (eight_at_once, "prim::MMBatchSide", 0),
        (eight_on_the_left, "prim::MMBatchSide", 0),
    ],
)
def test_products_become_one(function, kind, left, dtype):
    scripted = facula.jit.script(function)
    text = run_pass("batch_mm", scripted.graph)
    assert text.count(kind) == 1
    assert text.count("aten::mm(") == left
    given = matrices(dtype)
    result, expected = scripted(*given), by_float64(function, given)
    if not isinstance(result, list):
        result, expected = [result], [expected]
    for have, want in zip(result, expected, strict=True):
        assert have.dtype is dtype
        assert abs(have.double().numpy() - want).max() < 1e-4


@pytest.mark.parametrize("function", [four_written, eight])
def test_what_is_written_to_or_comes_later_is_left(function):
    scripted = facula.jit.script(function)
    text = run_pass("batch_mm", scripted.graph)
    assert "prim::MM" not in text


def test_shapes_that_are_no_parts_of_one_matrix_are_computed_one_by_one():
    scripted = facula.jit.script(four)
    run_pass("batch_mm", scripted.graph)
    x, row = facula.ones(2, 2), facula.ones(2, 1)
    with pytest.raises(RuntimeError):
        scripted(x, row.t(), x, x)
    a, b = facula.arange(4.0).view(2, 2), facula.ones(2, 2)
    assert scripted(a, b, a, b).tolist() == (4 * (a @ b)).tolist()


def test_a_task_is_written_out():
    def task(x):
        return x + 1

    @facula.jit.script
    def program(x):
        started = facula.jit.fork(task, x)
        return facula.jit.wait(started) * 2

    text = run_pass("inline_fork_wait", program.graph)
    assert "fork" not in text
    assert "wait" not in text
    assert program(facula.ones(2)).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("bias", [False, True])
def test_a_product_with_a_turned_weight_is_a_linear_layer(bias):
    weight, row = facula.randn(4, 3), facula.randn(4)

    def program(x):
        y = facula.matmul(x, weight.t())
        return y + row if bias else y

    traced = facula.jit.trace(program, (facula.randn(2, 3),))
    text = run_pass("fuse_linear", traced.graph)
    assert "aten::linear" in text
    assert "aten::matmul" not in text
    assert "aten::add" not in text
    x = facula.randn(5, 3)
    wanted = x.double().numpy() @ weight.double().numpy().T + (row.double().numpy() if bias else 0)
    assert abs(traced(x).double().numpy() - wanted).max() < 1e-5


def test_a_bias_with_a_factor_is_no_linear_layer():
    weight, row = facula.randn(4, 3), facula.randn(4)
    traced = facula.jit.trace(
        lambda x: facula.add(x.matmul(weight.t()), row, alpha=2), (facula.randn(2, 3),)
    )
    text = run_pass("fuse_linear", traced.graph)
    assert "aten::add" in text
