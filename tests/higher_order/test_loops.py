"""map, scan, associative_scan and while_loop against loops in Python, with gradients."""

import pytest

import facula
from facula._higher_order_ops import associative_scan, scan, while_loop
from facula._higher_order_ops import map as map_rows


def test_map_stacks_the_results_of_rows():
    xs, y = facula.randn(3, 2, requires_grad=True), facula.randn(2)
    found = map_rows(lambda x, y: {"a": x * y, "b": x.sum()}, xs, y)
    assert facula.allclose(found["a"], xs * y)
    assert facula.allclose(found["b"], xs.sum(1))
    found["a"].sum().backward()
    assert facula.allclose(xs.grad, y.expand(3, 2))
    with pytest.raises(RuntimeError, match="map"):
        map_rows(lambda x: x, facula.tensor(1.0))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scan_carries_a_state(reverse, dim):
    xs = facula.randn(3, 4)
    carry, ys = scan(
        lambda c, x: (c + x, c * x), facula.zeros(12 // xs.shape[dim]), xs, dim=dim, reverse=reverse
    )
    state, wanted = facula.zeros(12 // xs.shape[dim]), []
    rows = xs.unbind(dim)
    for x in rows[::-1] if reverse else rows:
        wanted.append(state * x)
        state = state + x
    assert facula.allclose(carry, state)
    assert facula.allclose(ys, facula.stack(wanted[::-1] if reverse else wanted))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_associative_scan_of_additions_and_products(reverse, dim):
    x = facula.randn(3, 4, dtype=facula.float64)
    flip = (lambda t: t.flip(dim)) if reverse else (lambda t: t)
    found = associative_scan(lambda a, b: a + b, x, dim, reverse=reverse)
    assert facula.allclose(found, flip(flip(x).cumsum(dim)))
    found = associative_scan(lambda a, b: (a[0] * b[0], a[1] + b[1]), (x, x), dim, reverse=reverse)
    assert facula.allclose(found[0], flip(flip(x).cumprod(dim)))


def test_while_loop_runs_until_its_condition_fails():
    it, x = while_loop(
        lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (facula.tensor(0), facula.ones(2))
    )
    assert it.item() == 4
    assert x.tolist() == [16, 16]
    with pytest.raises(RuntimeError, match="body_fn"):
        while_loop(lambda x: x.sum() < 4, lambda x: x + 1, (facula.ones(2),))
    with pytest.raises(RuntimeError, match="cond_fn"):
        while_loop(lambda x: x, lambda x: (x,), (facula.ones(2),))


def test_what_does_not_fit_is_refused():
    x = facula.ones(2, 2)
    with pytest.raises(RuntimeError, match="init"):
        scan(lambda c, x: (c, x), [], x)
    with pytest.raises(RuntimeError, match="shapes and dtypes"):
        scan(lambda c, x: (c.double(), x), facula.ones(2), x)
    with pytest.raises(ValueError, match="callable"):
        associative_scan(None, x, 0)
    with pytest.raises(RuntimeError, match="one size"):
        scan(lambda c, x: (c, c), facula.ones(2), (x, facula.ones(3, 2)))
    with pytest.raises(RuntimeError, match="state"):
        scan(lambda c, x: c, facula.ones(2), x)


def test_compiled_loops_give_the_same():
    xs = facula.randn(4, 3)

    def run(xs):
        return scan(lambda c, x: (c + x, c * x), xs[0] * 0, xs)

    for found, wanted in zip(facula.compile(run, fullgraph=True)(xs), run(xs), strict=True):
        assert facula.allclose(found, wanted, atol=1e-6)


def test_cond_in_a_trace_chooses_when_the_trace_runs():
    from facula.fx.experimental.proxy_tensor import make_fx

    def f(pred, x):
        return facula.cond(
            pred,
            lambda t: {"y": (t * 2).sum(), "z": t + 0},
            lambda t: {"y": t.prod(), "z": -t},
            (x,),
        )

    x = facula.tensor([3.0, 4.0])
    traced = make_fx(f)(facula.tensor(True), x)
    for pred in (True, False):
        found, wanted = traced(facula.tensor(pred), x), f(facula.tensor(pred), x)
        assert found["y"] == wanted["y"]
        assert (found["z"] == wanted["z"]).all()

    def gradient(pred, x):
        y = facula.cond(pred, lambda t: t.sqrt(), lambda t: t * t, (x,))
        return facula.autograd.grad(y.sum(), x)[0]

    x = facula.tensor([0.0, 4.0], requires_grad=True)
    traced = make_fx(gradient)(facula.tensor(True), x)
    assert traced(facula.tensor(False), x).tolist() == [0, 8]
    with pytest.raises(RuntimeError, match="both functions"):
        make_fx(lambda p, x: facula.cond(p, lambda t: t + 1, lambda t: t[:1] + 1, (x,)))(
            facula.tensor(True), x
        )
