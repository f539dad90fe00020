"""Graphs become few kernels, and their results are eager's."""

from __future__ import annotations

import re

import pytest

import facula
from facula.compiler import metrics, pipeline
from facula.nn import functional as F
from tests.inductor.support import DEBUG, check, compiled, flat


@pytest.fixture(autouse=True)
def _seed() -> None:
    facula.manual_seed(1)


def randn(*shape: int) -> facula.Tensor:
    return facula.randn(*shape)


def test_a_pointwise_chain_is_one_kernel() -> None:
    def chain(x, y):
        a = (x * y + x.sigmoid()).tanh()
        b = (a * 2 - y.abs()).clamp(-1, 1)
        return (b.exp() + a.cos()) / (1 + b * b)

    check(chain, randn(4096), randn(4096), tolerance=1e-6, kernels=1, calls=0)


def test_functions_of_large_arguments_take_the_full_form() -> None:
    x = facula.tensor([0.5, 1e9, -3e12, 7.0] * 700)
    check(lambda x: (x.sin() + 1).exp().cos(), x, tolerance=1e-6, kernels=1)


def test_views_cost_nothing() -> None:
    def views(v):
        return v.t().reshape(-1)[5:].add(1).mul(v.flatten()[5:])

    check(views, randn(32, 48), kernels=1, calls=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_with_its_producers_is_one_kernel(dim: int) -> None:
    check(lambda x: (x * 2 + 1).softmax(dim) * 3, randn(40, 70), tolerance=1e-6, kernels=1)


def test_layer_norm_and_what_follows_is_one_kernel() -> None:
    def norm(x, w):
        return F.layer_norm(x * 2, (128,), w, w).relu() + x

    check(norm, randn(64, 128), randn(128), tolerance=2e-6, kernels=1, calls=0)


def test_reductions_over_rows_share_a_kernel() -> None:
    def both(x):
        return x.sum(1), x.exp().amax(1), x.var(1)

    check(both, randn(64, 200), tolerance=1e-5, kernels=1)


def test_a_long_reduction_is_cut_into_parts_by_its_size_alone() -> None:
    x = randn(300_000)
    program = compiled(lambda x: (x * x).sum(), x)
    one = flat(program.call([x]))[0]
    threads = facula.get_num_threads()
    facula.set_num_threads(1)
    try:
        assert flat(program.call([x]))[0].item() == one.item()
    finally:
        facula.set_num_threads(threads)
    assert abs(one.item() - (x * x).sum().item()) <= 1e-6 * one.item()


@pytest.mark.parametrize("shape", [(300, 700), (2000, 3), (3, 5, 7, 9)])
def test_sums_over_any_dimensions(shape: tuple[int, ...]) -> None:
    def sums(x):
        return x.sum(0), x.sum(-1), x.sum(), x.amax((0, -1)), (x * 2).mean((0,), True)

    check(sums, randn(*shape), tolerance=1e-4)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 4), (0, 0, 4)])
@pytest.mark.parametrize("dim", [0, 1])
def test_sizes_of_zero(shape: tuple[int, ...], dim: int) -> None:
    def reductions(x):
        y = x * 2
        return y.sum(dim), (y * x).prod(dim), y.softmax(dim) + 1, x.sin().logsumexp(dim), y.sum()

    check(reductions, randn(*shape))


def test_parts_of_a_join_are_computed_in_place() -> None:
    parts = [randn(16, 8 + k) for k in range(5)]

    def join(*xs):
        return facula.cat([x.sin() * (k + 1) for k, x in enumerate(xs)], 1) + 1

    check(join, *parts, tolerance=1e-6, calls=0)
    assert metrics.generated_kernel_count <= 6


def test_what_is_no_loop_is_called() -> None:
    check(lambda a, b: (a @ b).relu() + 1, randn(30, 40), randn(40, 50), kernels=1, calls=1)


@pytest.mark.parametrize("layout", ["transposed", "expanded", "sliced", "empty", "scalar"])
def test_inputs_of_any_layout(layout: str) -> None:
    made = {
        "transposed": lambda: randn(6, 5).t(),
        "expanded": lambda: randn(5, 1).expand(5, 6),
        "sliced": lambda: randn(10, 12)[::2, 1::2],
        "empty": lambda: randn(0, 6),
        "scalar": lambda: randn(6),
    }[layout]()
    scalar = facula.tensor(1.5)
    check(lambda x, s: ((x * s + 1).exp(), (x + s).sum(0)), made, scalar, tolerance=1e-6)


def test_batch_norm_and_channels_last() -> None:
    x, w = randn(4, 8, 6, 6), randn(8)

    def norm(x, w):
        return F.batch_norm(x, None, None, w, w, True).relu()

    check(norm, x, w, tolerance=2e-6, calls=0)
    check(norm, x.to(memory_format=facula.channels_last), w, tolerance=2e-6, calls=0)


def test_dropout_equals_eager_without_a_stored_mask() -> None:
    x = randn(40, 33)

    def drop(x):
        return F.dropout(x * 2, 0.3)

    program = compiled(drop, x)
    facula.manual_seed(5)
    got = flat(program.call([x]))[0]
    facula.manual_seed(5)
    assert facula.equal(got, drop(x))
    assert "fk_philox_word" in program.c_source


def test_an_input_in_another_layout_is_copied_and_another_shape_refused() -> None:
    x = randn(6, 5)
    program = compiled(lambda x: x + 1, x)
    assert facula.equal(flat(program.call([randn(5, 6).t().copy_(x)]))[0], x + 1)
    with pytest.raises(RuntimeError, match="was required as input 0"):
        program.call([randn(5, 6)])


def test_sixteen_bit_floats_are_rounded_once_or_after_each_operator() -> None:
    x = randn(1000).bfloat16()

    def chain(x):
        return (x * 3 + 1) * x - 2

    check(chain, x, tolerance=4e-2)
    check(chain, x, options={"equal_rounding": True}, kernels=1)


def test_new_elements_of_an_input_are_written_into_it() -> None:
    from facula.lower.aot.api import aot_function

    programs = []

    def remember(module, examples):
        programs.append(pipeline.compile_graph(module, DEBUG))
        return programs[-1].boxed

    def step(x, y, g):
        y.mul_(0.9).add_(g)
        x.sub_(y * 0.1)

    run = aot_function(step, remember)
    mine, theirs = ([randn(50, 40), randn(50, 40), randn(50, 40)] for _ in range(2))
    for a, b in zip(mine, theirs, strict=True):
        a.copy_(b)
    place, version = mine[0].data_ptr(), mine[0]._version
    run(*mine)
    step(*theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert facula.allclose(a, b, rtol=1e-6, atol=1e-7)
    assert mine[0].data_ptr() == place and mine[0]._version > version
    assert "empty_strided" not in programs[0].source


def test_cotangents_of_any_strides():
    program = lambda x: x.exp().transpose(0, 1) * 2  # noqa: E731
    for shape in ((3, 4), (1, 4), (3, 1)):
        x = facula.randn(*shape, requires_grad=True)
        compiled = facula.compile(program)
        rows, columns = shape
        wide = facula.randn(2 * columns, 3 * rows)
        for cotangent in (
            facula.randn(columns, rows),
            facula.randn(rows, columns).t(),
            wide[::2, ::3],
            facula.randn(rows).expand(columns, rows),
            facula.randn(()).expand(columns, rows),
            facula.randn(columns, rows).double().float(),
        ):
            (found,) = facula.autograd.grad(compiled(x), x, cotangent)
            assert facula.allclose(found, 2 * x.exp() * cotangent.t(), rtol=1e-5)


def test_a_fused_kernel_says_which_dtype_lies_where() -> None:
    """The core holds every launch to this text: dtype and least extent of each operand."""
    x, y = facula.ones(5), facula.ones(2, 5, dtype=facula.float64)
    source = compiled(lambda x, y: (x.exp() + y, x.to(facula.int16)), x, y).c_source
    for operand in ("tensor0 f32 5", "tensor1 f64 10", "f64 10", "i16 5"):
        assert re.search(rf'"0;0;[^"]*\b{operand}\b', source), operand
