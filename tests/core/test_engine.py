"""The backward pass: what is freed, what is kept, what `grad` gives, threads, very long graphs."""

import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import facula
from facula.autograd import grad


def leaf(*values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


def test_accumulation():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6, 12]
    held = x.grad
    (x * x).sum().backward()
    assert x.grad is held and held.tolist() == [8, 16]


def test_graph_is_freed_after_use():
    x = leaf(1.0)
    y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    z = x + 1  # keeps nothing, so that a second pass is possible
    z.backward()
    z.backward()


def test_retain_graph():
    x = leaf(2.0)
    y = x**3
    for _ in range(3):
        y.backward(retain_graph=True)
    assert x.grad.item() == 36
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_freed_graphs_free_memory():
    x = facula.ones(10, requires_grad=True)
    y = (x * 2).exp()
    kept = weakref.ref(y)
    z = y.sin().sum()
    del y
    assert kept() is None or z.grad_fn is not None
    z.backward()
    assert kept() is None


def test_double_and_triple_backward():
    x = leaf(0.3, 1.2)
    y = x.sin().sum()
    (first,) = grad(y, x, create_graph=True)
    (second,) = grad(first.sum(), x, create_graph=True)
    (third,) = grad(second.sum(), x, create_graph=True)
    (fourth,) = grad(third.sum(), x)
    for derivative, expected in zip(
        (first, second, third, fourth), (x.cos(), -x.sin(), -x.cos(), x.sin()), strict=True
    ):
        assert facula.allclose(derivative, expected)
    assert not fourth.requires_grad


def test_create_graph_in_backward():
    x = leaf(3.0)
    with pytest.warns(UserWarning, match="reference cycle"):
        (x**3).backward(create_graph=True)
    assert x.grad.requires_grad and x.grad.item() == 27
    gradient = x.grad
    x.grad = None
    gradient.backward()
    assert x.grad.item() == 18


def test_gradient_penalty():
    w = leaf(0.5, -1.0)
    x = leaf(1.0, 2.0)
    out = (w * x).tanh().sum()
    (g,) = grad(out, x, create_graph=True)
    penalty = (g.norm() - 1) ** 2
    penalty.backward()
    assert facula.autograd.gradcheck(
        lambda w: (grad((w * x).tanh().sum(), x, create_graph=True)[0].norm() - 1) ** 2,
        (w.detach().requires_grad_(),),
    )
    assert w.grad is not None


def test_grad_options():
    x, y, unused = leaf(2.0), leaf(3.0), leaf(1.0)
    out = x * y
    assert [g.item() for g in grad(out, (x, y), retain_graph=True)] == [3, 2]
    assert x.grad is None and y.grad is None
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(out, (x, unused), retain_graph=True)
    assert grad(out, (x, unused), retain_graph=True, allow_unused=True)[1] is None
    zeros = grad(out, (x, unused), retain_graph=True, materialize_grads=True)[1]
    assert zeros.item() == 0
    with pytest.raises(ValueError):
        grad(out, (x,), allow_unused=False, materialize_grads=True)
    several = grad([out, x * 2], [x], [facula.tensor([10.0], dtype=facula.float64)] * 2)
    assert several[0].item() == 50


def test_grad_of_an_intermediate():
    x = leaf(2.0)
    y = x * x
    z = y * 3
    (gy,) = grad(z, y, retain_graph=True)
    gy2, gx = grad(z, (y, x))
    assert gy.item() == gy2.item() == 3 and gx.item() == 12


def test_grad_does_not_touch_other_leaves():
    x, w = leaf(2.0), leaf(5.0)
    grad(x * w, x)
    assert w.grad is None


def test_backward_inputs():
    x, w = leaf(2.0), leaf(5.0)
    (x * w).backward(inputs=[x])
    assert x.grad.item() == 5 and w.grad is None
    y = x * w
    with pytest.raises(RuntimeError):
        y.backward(inputs=[])


def test_seed_gradients():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(facula.ones(3, dtype=facula.float64))
    (x * 2).backward(facula.tensor([1.0, 10.0], dtype=facula.float64))
    assert x.grad.tolist() == [2, 20]
    with pytest.raises(RuntimeError, match="does not require grad"):
        facula.ones(1).backward()


def test_requires_grad_rules():
    x = facula.ones(2)
    assert x.is_leaf and not x.requires_grad and x.grad_fn is None
    w = facula.ones(2, requires_grad=True)
    y = x * w
    assert y.requires_grad and not y.is_leaf and y.grad_fn is not None
    assert not y.detach().requires_grad and y.detach().is_leaf
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="floating point"):
        facula.ones(2, dtype=facula.int64).requires_grad_()
    assert not (x * 2).requires_grad
    assert not (w > 0).requires_grad and not w.argmax().requires_grad
    assert not w.to(facula.int64).requires_grad
    assert (w.to(facula.float64)).requires_grad


def test_grad_attribute_is_checked():
    x = facula.ones(2, requires_grad=True)
    x.grad = facula.zeros(2)
    with pytest.raises(RuntimeError):
        x.grad = facula.zeros(3)
    with pytest.raises(RuntimeError):
        x.grad = facula.zeros(2, dtype=facula.float64)
    with pytest.raises(TypeError):
        x.grad = 3
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert (x * 2).grad is None


def test_no_grad_forms():
    x = facula.ones(2, requires_grad=True)

    @facula.no_grad()
    def plain():
        return x * 2

    assert not plain().requires_grad
    with facula.no_grad():
        assert not facula.is_grad_enabled()
        with facula.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    with facula.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert facula.is_grad_enabled()

    @facula.no_grad()
    def generator():
        yield x * 2
        yield x * 3

    for value in generator():
        assert not value.requires_grad and facula.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), facula.no_grad():
        _ = 1 / 0
    assert facula.is_grad_enabled()


def test_inference_mode():
    x = facula.ones(2, requires_grad=True)
    with facula.inference_mode():
        y = x * 2
        assert y.is_inference() and not y.requires_grad
        y.add_(1)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        (x * y).sum().backward()
    assert (y.clone() * x).requires_grad and not y.clone().is_inference()


def test_branches_and_sharing():
    x = leaf(2.0)
    y = x * x
    z = y + y * x + y.exp() * 0
    z.backward()
    assert x.grad.item() == pytest.approx(2 * 2 + 3 * 4)


def test_undefined_gradients_are_zero():
    x = leaf(1.0, 2.0, 3.0)
    a, b = x.split((1, 2))
    a.sum().backward()
    assert x.grad.tolist() == [1, 0, 0]
    values, indices = x.detach().requires_grad_().sort()
    assert not indices.requires_grad


def test_broadcast_gradients_have_the_shape_of_the_argument():
    x = facula.ones(3, 1, requires_grad=True)
    y = facula.ones(4, requires_grad=True)
    s = facula.tensor(2.0, requires_grad=True)
    (x * y * s).sum().backward()
    assert x.grad.shape == (3, 1) and x.grad.tolist() == [[8], [8], [8]]
    assert y.grad.tolist() == [6] * 4 and s.grad.shape == () and s.grad.item() == 12


def test_gradient_dtype_is_that_of_the_argument():
    x = facula.ones(2, dtype=facula.bfloat16, requires_grad=True)
    y = facula.ones(2, dtype=facula.float64, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype == facula.bfloat16 and y.grad.dtype == facula.float64


LONG = """
import facula
x = facula.ones(1, requires_grad=True)
y = x
for _ in range(1_000_000):
    y = y + 1
y.backward()
assert x.grad.item() == 1
y = x
for _ in range(200_000):
    y = y * 1.0
del y
print("done")
"""


def test_chain_of_a_million_nodes():
    run = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and run.stdout.strip() == "done", run.stderr[-500:]


def run_threads(work, count):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_threads_over_graphs_of_their_own():
    results = [None] * 6

    def work(number):
        for _ in range(30):
            x = leaf(float(number), 1.0)
            y = x
            for _ in range(20):
                y = y * 1.01
            (y * y).sum().backward()
        results[number] = x.grad.tolist()

    run_threads(work, 6)
    for number, (a, b) in enumerate(results):
        assert b == pytest.approx(2 * 1.01**40) and a == pytest.approx(2 * number * 1.01**40)


def test_threads_accumulate_into_shared_leaves():
    w = facula.zeros(1000, dtype=facula.float64, requires_grad=True)

    def work(number):
        for _ in range(50):
            (w * (number + 1)).sum().backward()

    run_threads(work, 4)
    assert facula.equal(w.grad, facula.full((1000,), 50.0 * 10, dtype=facula.float64))


def test_threads_over_one_retained_graph():
    x = leaf(2.0)
    y = (x * x).exp().log()

    def work(number):
        for _ in range(20):
            (g,) = grad(y, x, retain_graph=True)
            assert g.item() == pytest.approx(4)

    run_threads(work, 4)


def test_grad_mode_belongs_to_the_thread():
    seen = []
    with facula.no_grad():
        run_threads(lambda n: seen.append(facula.is_grad_enabled()), 1)
    assert seen == [True]


def test_backward_inside_backward():
    """A Function whose backward runs a backward of its own."""

    class Inner(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with facula.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x.exp()
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            ctx.y.backward(g)
            return ctx.x.grad

    x = leaf(0.5)
    Inner.apply(x * 2).backward()
    assert x.grad.item() == pytest.approx(2 * facula.tensor(1.0).exp().item())


def test_deep_reentrance():
    """Backward within backward, forty levels deep."""

    class Nested(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            with facula.enable_grad():
                y = facula.ones(1, requires_grad=True)
                if ctx.depth:
                    Nested.apply(y, ctx.depth - 1).backward()
            return g, None

    x = facula.ones(1, requires_grad=True)
    Nested.apply(x, 40).backward()
    assert x.grad.item() == 1


def test_gradients_of_inner_tensors_and_leaves_of_a_graph_with_many_ways():
    """Only what leads to the tensors asked for runs; numbers by hand."""
    a = facula.tensor([1.0, 2.0], requires_grad=True)
    b = facula.tensor([3.0, 5.0], requires_grad=True)
    ran = []
    inner = a * b
    shared = inner + a
    aside = (b * b).exp()
    aside.register_hook(lambda g: ran.append("aside"))
    total = (shared * shared).sum() + aside.sum()
    by_inner, by_a = facula.autograd.grad(total, [inner, a], retain_graph=True)
    wanted = 2 * np.array([1 * 3 + 1.0, 2 * 5 + 2.0])
    assert by_inner.tolist() == wanted.tolist()
    assert by_a.tolist() == (wanted * (np.array([3.0, 5.0]) + 1)).tolist()
    assert ran == [] and a.grad is None and b.grad is None
    total.backward(inputs=[a], retain_graph=True)
    assert a.grad.tolist() == by_a.tolist() and b.grad is None and ran == []
    (by_b,) = facula.autograd.grad(total, b)
    assert ran == ["aside"]
    expected = wanted * np.array([1.0, 2.0]) + 2 * np.array([3.0, 5.0]) * np.exp([9.0, 25.0])
    assert np.allclose(by_b.numpy(), expected, rtol=1e-6)


def test_many_gradients_through_one_node_and_inputs_that_do_not_matter():
    x, unused = facula.ones(3, requires_grad=True), facula.ones(1, requires_grad=True)
    parts = (x * 2).unbind(0)
    total = parts[0] + parts[2] * 3
    grad_of = facula.autograd.grad
    (by_x,) = grad_of(total, x, retain_graph=True)
    assert by_x.tolist() == [2.0, 0.0, 6.0]
    found = grad_of(total, [unused, parts[2]], allow_unused=True, retain_graph=True)
    assert found[0] is None and found[1].item() == 3
    with pytest.raises(RuntimeError, match="not have been used"):
        facula.autograd.grad(total, [unused])
