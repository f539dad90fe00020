"""`cond`, `while_loop`, `scan`, `map` and `associative_scan` as nodes of traces: the numbers of NumPy."""

import numpy as np
import pytest

import facula
from facula._dynamo.exc import UncapturedHigherOrderOpError
from facula._higher_order_ops import associative_scan, scan, while_loop
from facula._higher_order_ops import map as map_rows
from facula.fx import GraphModule
from facula.fx.experimental.proxy_tensor import make_fx

MODES = ("real", "fake", "symbolic")


def traced(function, *args, mode="real"):
    return make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)


def nodes_of(module, name):
    target = getattr(facula.ops.higher_order, name)
    return [n for n in module.graph.nodes if n.target is target]


def plain(tensors):
    return [x.detach().numpy() for x in tensors]


def numbers(*shape, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize("mode", MODES)
def test_cond_is_a_node_with_two_graphs_that_read_what_the_functions_read(mode):
    weight = numbers(3, seed=1)
    module = traced(
        lambda p, x: facula.cond(p, lambda x: x * weight, lambda x: x - weight, (x,)),
        facula.tensor(True), numbers(2, 3), mode=mode,
    )  # fmt: skip
    (node,) = nodes_of(module, "cond")
    assert all(isinstance(getattr(module, n.target), GraphModule) for n in node.args[1:3])
    assert len(node.args[3]) == 2
    x = numbers(2, 3, seed=2)
    for pred, wanted in ((True, x.numpy() * weight.numpy()), (False, x.numpy() - weight.numpy())):
        assert np.array_equal(module(facula.tensor(pred), x).numpy(), wanted)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_cond_are_a_cond(mode):
    weight = numbers(3, seed=1).requires_grad_()

    def gradient(pred, x):
        y = facula.cond(pred, lambda x: (x * weight).sin(), lambda x: x * x * weight, (x,))
        return (y, *facula.autograd.grad(y.sum(), (x, weight)))

    x = numbers(3, seed=2).requires_grad_()
    module = traced(gradient, facula.tensor(True), x, mode=mode)
    assert len(nodes_of(module, "cond")) == 2
    a, w = x.detach().numpy(), weight.detach().numpy()
    found = plain(module(facula.tensor(True), x))
    assert np.allclose(found[0], np.sin(a * w))
    assert np.allclose(found[1], w * np.cos(a * w))
    assert np.allclose(found[2], a * np.cos(a * w))
    found = plain(module(facula.tensor(False), x))
    assert np.allclose(found[1], 2 * a * w)
    assert np.allclose(found[2], a * a)


def test_a_predicate_of_sizes_is_decided_where_the_graph_runs():
    module = traced(
        lambda x: facula.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,)),
        numbers(3, 2), mode="symbolic",
    )  # fmt: skip
    for rows, step in ((3, -1), (4, -1), (5, 1), (9, 1)):
        x = numbers(rows, 2)
        assert np.array_equal(module(x).numpy(), x.numpy() + step)


@pytest.mark.parametrize("mode", MODES)
def test_while_loop_is_a_node_and_runs_as_long_as_the_numbers_say(mode):
    step = numbers(2, seed=3)
    module = traced(
        lambda i, x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x + step), (i, x)),
        facula.tensor(0), numbers(2), mode=mode,
    )  # fmt: skip
    assert len(nodes_of(module, "while_loop")) == 1
    for first in (-2, 3, 5, 7):
        x = numbers(2, seed=4)
        count, found = module(facula.tensor(first), x)
        rounds = max(0, 5 - first)
        assert count.item() == first + rounds
        assert np.allclose(found.numpy(), x.numpy() + rounds * step.numpy())


def test_gradients_of_while_loop_go_back_through_its_rounds():
    def gradient(i, x):
        _, y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (i, x))
        return facula.autograd.grad(y.sum(), x)[0]

    x = facula.tensor([1.5, -0.5], dtype=facula.float64, requires_grad=True)
    module = traced(gradient, facula.tensor(0), x, mode="symbolic")
    for rounds in (3, 2, 1, 0):  # x to the power of 2 ** rounds
        power = 2**rounds
        wanted = power * x.detach().numpy() ** (power - 1)
        assert np.allclose(module(facula.tensor(3 - rounds), x).detach().numpy(), wanted)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_and_its_gradients_are_nodes(mode, reverse):
    weight = numbers(3, seed=1).requires_grad_()

    def loss(xs):
        carry, ys = scan(
            lambda c, x: (c * weight + x, c * x), weight.detach() * 0, xs, reverse=reverse
        )
        return facula.autograd.grad(carry.sum() + (ys * ys).sum(), (xs, weight))

    xs = numbers(4, 3, seed=2).requires_grad_()
    module = traced(loss, xs, mode=mode)
    assert len(nodes_of(module, "scan")) == 2

    def value(a, w):
        c, total = 0 * w, 0.0
        for row in a[::-1] if reverse else a:
            total += ((c * row) ** 2).sum()
            c = c * w + row
        return total + c.sum()

    a, w, e = xs.detach().numpy(), weight.detach().numpy(), 1e-6
    found = plain(module(xs))
    for place in np.ndindex(4, 3):
        step = np.zeros((4, 3))
        step[place] = e
        assert np.isclose(
            found[0][place], (value(a + step, w) - value(a - step, w)) / (2 * e), atol=1e-5
        )
    for place in range(3):
        step = np.eye(3)[place] * e
        assert np.isclose(
            found[1][place], (value(a, w + step) - value(a, w - step)) / (2 * e), atol=1e-5
        )


def test_map_and_its_gradients_are_nodes():
    def gradient(xs, y):
        found = map_rows(lambda x, y: (x * y).sin(), xs, y)
        return (found, *facula.autograd.grad(found.sum(), (xs, y)))

    xs, y = numbers(4, 3).requires_grad_(), numbers(3, seed=1).requires_grad_()
    module = traced(gradient, xs, y)
    assert len(nodes_of(module, "map_impl")) == 2
    a, b = xs.detach().numpy(), y.detach().numpy()
    found = plain(module(xs, y))
    assert np.allclose(found[1], b * np.cos(a * b))
    assert np.allclose(found[2], (a * np.cos(a * b)).sum(0))


def test_associative_scan_is_a_node():
    def product(x):
        return associative_scan(lambda a, b: a * b, x, 1, reverse=True)

    x = numbers(3, 4)
    module = traced(product, x)
    assert len(nodes_of(module, "associative_scan")) == 1
    assert np.allclose(module(x).numpy(), np.cumprod(x.numpy()[:, ::-1], 1)[:, ::-1])

    def gradient(x):
        return facula.autograd.grad(product(x).sum(), x)[0]

    x.requires_grad_()
    found, wanted = plain([traced(gradient, x)(x), gradient(x)])
    assert np.allclose(found, wanted)


def test_inner_calls_are_nodes_of_inner_graphs():
    def f(p, q, x):
        inner = lambda x: facula.cond(q, lambda x: x * 2, lambda x: x * 3, (x,))  # noqa: E731
        return facula.cond(p, lambda x: inner(x) + 1, lambda x: inner(x) - 1, (x,))

    module = traced(f, facula.tensor(True), facula.tensor(True), numbers(2))
    assert len(nodes_of(module, "cond")) == 1
    assert len(nodes_of(module.true_graph_0, "cond")) == 1
    x = numbers(2)
    for p in (True, False):
        for q in (True, False):
            wanted = x.numpy() * (2 if q else 3) + (1 if p else -1)
            found = module(facula.tensor(p), facula.tensor(q), x)
            assert np.allclose(found.numpy(), wanted)


def test_one_tensor_given_twice_is_two_values_in_a_loop():
    def f(x):
        return while_loop(
            lambda a, b, c: b.sum() < 10, lambda a, b, c: (a.clone(), b + c, c + 1), (x, x, x)
        )

    found = traced(facula.func.functionalize(f), facula.zeros(1))(facula.zeros(1))
    assert [x.item() for x in found] == [0, 10, 5]


def test_vmap_of_cond_with_one_predicate_is_one_node():
    def f(p, xs):
        return facula.vmap(
            lambda x: facula.cond(p, lambda x: x.sum() * x, lambda x: x - x.max(), (x,))
        )(xs)

    xs = numbers(4, 3)
    module = traced(f, facula.tensor(True), xs)
    assert len(nodes_of(module, "cond")) == 1
    a = xs.numpy()
    assert np.allclose(module(facula.tensor(True), xs).numpy(), a.sum(1, keepdims=True) * a)
    assert np.allclose(module(facula.tensor(False), xs).numpy(), a - a.max(1, keepdims=True))


def test_a_graph_prints_as_python_with_its_functions():
    module = traced(
        lambda p, x: facula.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)),
        facula.tensor(True), numbers(2),
    )  # fmt: skip
    text = module.print_readable(print_output=False)
    assert "ops.higher_order.cond(p_1, true_graph_0, false_graph_0, (x_1,))" in text
    assert "class true_graph_0(" in text
    assert "class false_graph_0(" in text


def _pair(function, other=lambda x: x + 1):
    return lambda p, x: facula.cond(p, function, other, (x,))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, "aliasing the input"),
        (lambda x: x.view(-1), "aliasing the input"),
        (lambda x: x.add_(1) * 2, "modifying the input"),
        (lambda x: (x + 1, x + 2), "output spec"),
        (lambda x: (x + 1).int(), "same metadata"),
        (lambda x: x.sum(), "same metadata"),
        (lambda x: "text", "tensors and ints"),
    ],
)
def test_functions_that_can_be_no_graphs_are_refused(function, message):
    with pytest.raises(UncapturedHigherOrderOpError, match=message):
        traced(_pair(function), facula.tensor(True), numbers(3))


def test_functional_traces_refuse_writes_to_inputs_too():
    def f(xs):
        return scan(lambda c, x: (c + x.add_(1), c * 1), xs[0] * 0, xs)

    with pytest.raises(UncapturedHigherOrderOpError, match="modifying the input"):
        traced(facula.func.functionalize(f), numbers(3, 2))


def test_functional_programs_refuse_what_functional_traces_refuse():
    xs = numbers(3, 2)
    for step in (lambda c, x: (c + x.add_(1), c * 1), lambda c, x: (c, x * 1)):
        with pytest.raises(UncapturedHigherOrderOpError, match="scan"):
            facula.func.functionalize(lambda xs, step=step: scan(step, xs[0] * 0, xs))(xs)
    carry, _ = facula.func.functionalize(
        lambda xs: scan(lambda c, x: (c + x.clone().mul_(2), c * 1), xs[0] * 0, xs)
    )(xs)
    assert np.allclose(carry.numpy(), 2 * xs.numpy().sum(0))


def test_numbers_that_differ_are_known_where_the_graph_runs():
    def f(x):
        number = facula.cond(x.sum() > 0, lambda: 0, lambda: 2, ())
        return x.select(0, number) * 1

    module = traced(f, numbers(3, 2), mode="symbolic")
    x = numbers(3, 2).abs()
    assert np.array_equal(module(x).numpy(), x.numpy()[0])
    assert np.array_equal(module(-x).numpy(), -x.numpy()[2])


def test_functional_traces_have_functional_functions():
    def f(p, x):
        def chosen(x):
            y = x.clone()
            y.add_(4)
            y[0] = 0
            return y

        return facula.cond(p, chosen, lambda x: x.cos(), (x,))

    x = numbers(3)
    module = traced(facula.func.functionalize(f), facula.tensor(True), x)
    for node in module.true_graph_0.graph.nodes:
        assert not getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    wanted = x.numpy() + 4
    wanted[0] = 0
    assert np.array_equal(module(facula.tensor(True), x).numpy(), wanted)


def test_an_operator_of_the_user_that_takes_functions():
    from facula._ops import HigherOrderOperator

    class Twice(HigherOrderOperator):
        def __call__(self, function, x):
            return function(function(x))

    twice = Twice("traced_tests_twice")
    assert twice(lambda x: x * 3, 2) == 18
    assert facula.ops.higher_order.traced_tests_twice is twice

    class Wrong(HigherOrderOperator):
        pass

    with pytest.raises(TypeError, match="Wrong"):
        Wrong("traced_tests_wrong")
