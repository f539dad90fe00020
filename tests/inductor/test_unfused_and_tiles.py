"""Single operators stay calls; transposed reads go through tiles; indices are checked and fused."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import facula
from facula.nn import functional as F
from tests.inductor.support import check, compiled, flat


@pytest.fixture(autouse=True)
def _seed() -> None:
    facula.manual_seed(2)


LARGE = (300, 400)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1),
        lambda x: x.t().contiguous(),
        lambda x: x + x,
        lambda x: x.sum(),
        lambda x: x.view(-1, 100).var(1),
    ],
)
def test_a_large_operator_alone_is_the_eager_one(function: Any) -> None:
    check(function, facula.randn(*LARGE), kernels=0, calls=1)


def test_small_or_fused_operators_are_kernels() -> None:
    check(lambda x: x.softmax(-1), facula.randn(4, 30), tolerance=1e-6, kernels=1, calls=0)
    x = facula.randn(*LARGE)
    check(lambda x: (x + 1).softmax(-1), x, tolerance=1e-6, kernels=1, calls=0)
    # the indices of the maxima are not wanted, and not computed
    check(lambda x: x.max(1).values, x, kernels=1, calls=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "complex64"])
def test_reads_across_memory_go_through_tiles(dtype: str) -> None:
    x, y = (facula.randn(*s).mul(9).to(getattr(facula, dtype)) for s in ((131, 270), (270, 131)))
    program = check(lambda x, y: x.t() + y * 2, x, y, kernels=1, calls=0)
    assert "column_end" in program.c_source
    program = check(lambda x, y: x * 2 - y.t(), x, y, kernels=1, calls=0)
    assert "column_end" in program.c_source


def test_tiles_of_functions_with_a_fast_form_and_chains() -> None:
    x, y = facula.randn(131, 270) * 1e4, facula.randn(270, 131)
    check(lambda x, y: x.t().sin() + y.cos(), x, y, tolerance=2e-7, kernels=1)
    check(lambda x, y: (x.t().sin() + y).cos().exp(), x, y, tolerance=2e-6, kernels=1)
    z = facula.randn(3, 40, 5, 60)
    check(lambda z: z.permute(3, 0, 2, 1).mul(2).contiguous().add(1), z, kernels=1)


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_across_memory_are_copied_once(dim: int) -> None:
    x = facula.randn(300, 200)
    check(lambda x: (x.t() * 2).softmax(dim), x, tolerance=1e-6, calls=0)
    check(lambda x: (x.t() * 2).sum(dim), x, tolerance=1e-4, calls=0)


TABLE, ROWS = (100, 64), (8, 16)


def indexed() -> list[tuple[Any, list[Any]]]:
    """Functions that read by index, and their arguments."""
    w, p = facula.randn(*TABLE), facula.randn(16, 64)
    i, j = facula.randint(0, 100, ROWS), facula.randint(-100, 100, (30,))
    k = facula.randint(0, 64, (100, 5))
    return [
        (lambda w, i, p: (F.embedding(i, w) + p).relu(), [w, i, p]),
        (lambda w, i, p: F.layer_norm(F.embedding(i, w) + p, (64,)), [w, i, p]),
        (lambda w, i: w.index_select(0, i[0]).sin() * 2, [w, i]),
        (lambda w, i: w.index_select(1, i[0] % 64).t() * 2, [w, i]),
        (lambda w, j: w[j] * 3, [w, j]),
        (lambda w, j: w[:, j % 64].sum(1), [w, j]),
        (lambda w, j: w[j, j.abs() % 64] + 1, [w, j]),
        (lambda w, j: w[None][:, j[:, None], j[:4] % 64] + 1, [w, j]),
        (lambda w, k: w.gather(1, k).exp(), [w, k]),
        (lambda w, k: w.gather(1, k.to(facula.int64)[:50]).to(facula.bfloat16) + 1, [w, k]),
    ]


@pytest.mark.parametrize("case", range(10))
def test_reads_by_index_are_part_of_kernels(case: int) -> None:
    function, args = indexed()[case]
    program = check(function, *args, tolerance=2e-6)
    assert "check_within" in program.source and "aten" not in program.source


@pytest.mark.parametrize("case", [0, 2, 4, 8])
@pytest.mark.parametrize("shift", [-150, 150])
def test_an_index_out_of_range_raises_what_eager_raises(case: int, shift: int) -> None:
    function, (w, i, *rest) = indexed()[case]
    program = compiled(function, w, i, *rest)
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        function(w, i + shift, *rest)
    with pytest.raises(type(wanted.value)) as got:
        program.call([w, i + shift, *rest])
    assert str(got.value) == str(wanted.value)


def test_a_gather_alone_is_the_eager_one() -> None:
    w, i = facula.randn(*TABLE), facula.randint(0, 100, ROWS)
    program = check(lambda w, i: F.embedding(i, w), w, i, kernels=0, calls=1)
    assert "check_within" not in program.source


def test_products_are_rounded_before_the_next_operator_where_asked() -> None:
    x, y, z = (facula.randn(5000) for _ in range(3))
    options = {"equal_rounding": True}
    check(lambda x, y, z: x * y + z, x, y, z, options=options, kernels=1)
    check(lambda x, y, z: (x * y).addcmul(y, z).lerp(x * z, 0.3), x, y, z, options=options)
    rows = [t.view(50, 100) for t in (x, y, z)]
    check(lambda x, y, z: F.layer_norm(x * y, (100,)) * z + x, *rows, options=options)


def test_cross_entropy_keeps_its_fused_backward() -> None:
    x = facula.randn(12, 50).requires_grad_()
    y = facula.randint(0, 50, (12,))
    step = facula.compile(lambda x, y: F.cross_entropy(x, y))
    step(x, y).backward()
    got, x.grad = x.grad, None
    F.cross_entropy(x, y).backward()
    assert got is not None and (got - x.grad).abs().max().item() <= 1e-7
    with pytest.raises(IndexError, match="out of bounds"):
        step(x, y + 50)


def test_rows_of_a_loss_are_read_by_the_kernel_that_adds_them():
    """Kernels: the targets that count and the sum of the rows; the one call is the check of targets."""
    scores, target = facula.randn(64, 10), facula.randint(0, 10, (64,))
    target[::7] = -100
    check(lambda x, y: F.nll_loss(x, y, reduction="sum"), scores, target, kernels=1, calls=1)
    rows = -scores.numpy().astype("f8")[numpy.arange(64), target.clamp(min=0).numpy()]
    program = compiled(lambda x, y: F.nll_loss(x, y, reduction="none"), scores, target)
    found = flat(program.call([scores, target]))[0].numpy()
    numpy.testing.assert_allclose(found, numpy.where(target.numpy() == -100, 0, rows), rtol=1e-6)
