"""Passes that let one call do what several did: results, gradients and errors stay."""

from __future__ import annotations

import pytest

import facula
from facula.fx.proxy_tensor import make_fx
from facula.lower.passes import alone, gathered_rows, norms
from facula.lower.verify import verify
from facula.nn import functional as F


def _after(run, function, *inputs):
    """The names of the calls after a pass, and the module."""
    module = make_fx(function, tracing_mode="fake")(*inputs)
    changed = run(module.graph)
    module.graph.eliminate_dead_code()
    module.recompile()
    verify(module)
    calls = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
    names = [name.split(".")[1] for name in calls if name.startswith("aten.")]
    return changed, names, module


@pytest.fixture(autouse=True)
def _seed() -> None:
    facula.manual_seed(1)


@pytest.mark.parametrize("descending", [False, True])
def test_values_in_order_need_no_positions(descending) -> None:
    x = facula.randn(3, 70)

    def run(x):
        return facula.sort(x, 1, descending)[0] + 1

    changed, names, module = _after(alone.leave_unread_results_out, run, x)
    assert changed == 1 and names == ["_sort_values", "add"]
    assert facula.equal(module(x), run(x))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("code", ["float32", "float64", "float16", "int64", "uint8"])
def test_the_largest_need_no_positions(code, largest) -> None:
    x = (facula.randn(3, 900) * 9).to(getattr(facula, code))
    x[0] = 0
    if code == "float32":
        x[0, ::2], x[1, 7] = -0.0, float("nan")

    def run(x):
        return facula.topk(x, 33, 1, largest)[0]

    changed, names, module = _after(alone.leave_unread_results_out, run, x)
    assert changed == 1 and names == ["_topk_values"]
    assert repr(module(x).tolist()) == repr(run(x).tolist())


def test_positions_that_are_read_stay() -> None:
    changed, names, _ = _after(
        alone.leave_unread_results_out, lambda x: facula.sort(x)[1], facula.randn(5)
    )
    assert changed == 0 and "sort" in names


@pytest.mark.parametrize("code", ["float32", "float64", "bfloat16", "int64", "int8", "bool"])
@pytest.mark.parametrize("length", [1, 31, 33, 1600])
def test_values_are_those_of_sort(code, length) -> None:
    x = (facula.randn(4, length) * 20).to(getattr(facula, code))
    for descending in (False, True):
        got = facula.ops.F._sort_values(x, 1, descending)
        assert facula.equal(got, facula.sort(x, 1, descending)[0])


def test_the_sign_of_zero_and_nan_keep_their_places() -> None:
    x = facula.tensor([[0.0, -0.0, 2.0, 0.0, -0.0] * 10, [float("nan"), 1.0, -3.0, 0.5, 2.0] * 10])
    got, want = facula.ops.F._sort_values(x), facula.sort(x)[0]
    assert facula.equal(got.view(facula.int32), want.view(facula.int32))


def _messages(reduce, include_self):
    def run(start, x, source, target):
        rows = x.index_select(0, source)
        index = target.unsqueeze(1).expand_as(rows)
        return start.scatter_reduce(0, index, rows, reduce, include_self=include_self)

    return run


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [False, True])
def test_gathered_rows_are_reduced_from_where_they_are(reduce, include_self) -> None:
    run = _messages(reduce, include_self)
    inputs = (facula.randn(9, 33), facula.randn(12, 33), facula.randint(0, 12, (50,)),
              facula.randint(0, 9, (50,)))  # fmt: skip
    changed, names, module = _after(gathered_rows.join_gathers_with_scatters, run, *inputs)
    assert changed == 1 and "_gather_scatter" in names and "index_select" not in names
    assert facula.equal(module(*inputs), run(*inputs))


def test_rows_that_are_read_elsewhere_stay() -> None:
    def run(start, x, source, target):
        rows = x.index_select(0, source)
        return start.index_add(0, target, rows), rows

    inputs = (facula.randn(4, 5), facula.randn(6, 5), facula.randint(0, 6, (7,)),
              facula.randint(0, 4, (7,)))  # fmt: skip
    changed, _, _ = _after(gathered_rows.join_gathers_with_scatters, run, *inputs)
    assert changed == 0


@pytest.mark.parametrize("which", [2, 3])
def test_bad_rows_raise_what_eager_raises(which) -> None:
    run = _messages("sum", True)
    inputs = [facula.randn(4, 5), facula.randn(6, 5), facula.zeros(7, dtype=facula.int64),
              facula.zeros(7, dtype=facula.int64)]  # fmt: skip
    inputs[which] = inputs[which] + 50
    with pytest.raises((IndexError, RuntimeError)) as eager:
        run(*inputs)
    with pytest.raises(type(eager.value)) as compiled:
        facula.compile(run)(*inputs)
    assert str(compiled.value).splitlines()[0] == str(eager.value).splitlines()[0]


def test_a_norm_that_is_only_fused_is_not_kept_for_backward() -> None:
    def run(x, w, b):
        return F.layer_norm(x, (40,), w, b).square().mean()

    inputs = [facula.randn(30, 40), facula.randn(40), facula.randn(40)]
    eager, compiled = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
    run(*eager).backward()
    facula.compile(run)(*compiled).backward()
    for x, y in zip(eager, compiled, strict=True):
        assert facula.allclose(x.grad, y.grad, rtol=1e-5, atol=1e-7)

    def both(x, w, b):  # a gradient's statistics beside the norm
        return run(x, w, b), x - x.mean((1,), True)

    changed, names, module = _after(norms.write_norms_as_formulas, both, *inputs)
    assert changed == 1 and "native_layer_norm" not in names
    for got, want in zip(module(*inputs), both(*inputs), strict=True):
        assert facula.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_norm_alone_stays() -> None:
    changed, _, _ = _after(
        norms.write_norms_as_formulas, lambda x: F.layer_norm(x, (40,)) + 1, facula.randn(3, 40)
    )
    assert changed == 0
