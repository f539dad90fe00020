"""`cond`, `while_loop`, `scan`, `map` and `associative_scan` in compiled programs: one graph, the numbers of NumPy."""

import numpy as np
import pytest

import facula
from facula._dynamo.exc import UncapturedHigherOrderOpError
from facula._higher_order_ops import associative_scan, scan, while_loop
from facula._higher_order_ops import map as map_rows

BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.fixture(autouse=True)
def _fresh():
    facula._dynamo.reset()


def numbers(*shape, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def whole(function, backend):
    return facula.compile(function, backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond(backend):
    weight = numbers(3, seed=1)

    def f(x):
        y = facula.cond(
            x.sum() > 0,
            lambda t: {"a": (t["x"] * weight).sin(), "b": (t["x"].sum(),)},
            lambda t: {"a": t["x"] - weight, "b": (t["x"].prod(),)},
            ({"x": x},),
        )
        return y["a"] * 2, y["b"][0]

    run = whole(f, backend)
    for sign in (1, -1, 1):
        x = numbers(3).abs() * sign
        a, w = x.numpy(), weight.numpy()
        found = run(x)
        assert np.allclose(found[0].numpy(), 2 * (np.sin(a * w) if sign > 0 else a - w))
        assert np.allclose(found[1].numpy(), a.sum() if sign > 0 else a.prod())


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_the_chosen_function_runs(backend):
    def f(p, x):
        return facula.cond(p, lambda x: x.log(), lambda x: x * 0 + 1, (x,))

    x = facula.zeros(3, dtype=facula.float64, requires_grad=True)
    whole(f, backend)(facula.tensor(False), x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]  # not the nan of 0 * inf


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop(backend):
    step = numbers(2, seed=1)

    def f(i, x):
        i, state = while_loop(
            lambda i, s: i < 6, lambda i, s: (i + 2, {"x": s["x"].sin() + step}), (i, {"x": x})
        )
        return i, state["x"]

    run = whole(f, backend)
    for first in (0, 3, 9):
        a = numbers(2).numpy().copy()
        count, found = run(facula.tensor(first), numbers(2))
        at = first
        while at < 6:
            at, a = at + 2, np.sin(a) + step.numpy()
        assert count.item() == at
        assert np.allclose(found.numpy(), a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_in_loops(backend):
    def f(n, m, x):
        def body(i, j, x):
            j, x = while_loop(lambda j, x: j > 0, lambda j, x: (j - 1, x + 3), (j, x))
            return i - 1, j + m, x * 2

        return while_loop(lambda i, j, x: i > 0, body, (n, m, x))[2]

    found = whole(f, backend)(facula.tensor(3), facula.tensor(2), facula.ones(2))
    x = 1
    for _ in range(3):
        x = (x + 6) * 2
    assert found.tolist() == [x, x]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, True)])
def test_scan_and_its_gradient(backend, dim, reverse):
    weight = numbers(1, seed=1).requires_grad_()

    def f(xs):
        return scan(
            lambda c, x: (c * 0.5 + x, {"y": c * x * weight}), xs.select(dim, 0) * 0, xs,
            dim=dim, reverse=reverse,
        )  # fmt: skip

    xs = numbers(3, 4).requires_grad_()
    carry, ys = whole(f, backend)(xs)
    rows = np.moveaxis(xs.detach().numpy(), dim, 0)
    rows = rows[::-1] if reverse else rows
    state, wanted = 0 * rows[0], []
    for row in rows:
        wanted.append(state * row * weight.item())
        state = state * 0.5 + row
    assert np.allclose(carry.detach().numpy(), state)
    assert np.allclose(ys["y"].detach().numpy(), np.stack(wanted[::-1] if reverse else wanted))
    ys["y"].sum().backward()
    assert np.isclose(weight.grad.item(), np.stack(wanted).sum() / weight.item())
    carry = f(xs)[1]["y"].sum()
    (eager,) = facula.autograd.grad(carry, xs)
    assert np.allclose(xs.grad.numpy(), eager.numpy())


@pytest.mark.parametrize("backend", BACKENDS)
def test_map_and_associative_scan(backend):
    def f(xs, y):
        return map_rows(lambda x, y: (x * y, x.sum()), xs, y), associative_scan(
            lambda a, b: (a[0] * b[0], a[1] + b[1]), (xs, xs), 1
        )

    xs, y = numbers(3, 4), numbers(4, seed=1)
    (products, sums), (first, second) = whole(f, backend)(xs, y)
    a = xs.numpy()
    assert np.allclose(products.numpy(), a * y.numpy())
    assert np.allclose(sums.numpy(), a.sum(1))
    assert np.allclose(first.numpy(), a.cumprod(1))
    assert np.allclose(second.numpy(), a.cumsum(1))


def test_other_sizes_are_compiled_again():
    def f(x):
        return facula.cond(x.sum() > 0, lambda x: x * x.shape[0], lambda x: -x, (x,))

    run = facula.compile(f, fullgraph=True)
    for rows in (2, 3, 5, 7, 4):
        x = numbers(rows, 2).abs()
        assert np.allclose(run(x).numpy(), x.numpy() * rows)
        assert np.allclose(run(-x).numpy(), x.numpy())


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_that_lie_otherwise_are_laid_out_alike(backend):
    def f(p, x):
        return facula.cond(p, lambda x: x.t() * 2, lambda x: x.t().contiguous() * 3, (x,)).sin()

    x = numbers(3, 4)
    run = whole(f, backend)
    for pred, factor in ((True, 2), (False, 3)):
        found = run(facula.tensor(pred), x)
        assert np.allclose(found.numpy(), np.sin(x.numpy().T * factor))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: x.view(-1),
        lambda x: x.add_(1).sin(),
        lambda x: [x + 1, x + 2],
        lambda x: (x + 1).int(),
        lambda x: facula.tensor(x.tolist()),
    ],
)
def test_functions_that_can_be_no_graphs_are_refused(function):
    def f(x):
        return facula.cond(x.sum() > 0, function, lambda x: x + 1, (x,))

    with pytest.raises(UncapturedHigherOrderOpError, match="torch.cond"):
        facula.compile(f, backend="eager")(numbers(3))


def test_draws_in_functions_are_drawn_where_the_function_is_chosen():
    def f(p, x):
        return facula.cond(p, lambda x: facula.rand_like(x), lambda x: x + 1, (x,))

    run = whole(f, "inductor")
    x = facula.zeros(8)
    first, second = (run(facula.tensor(True), x) for _ in range(2))
    assert not np.array_equal(first.numpy(), second.numpy())
    assert run(facula.tensor(False), x).tolist() == [1] * 8
