"""Custom functions, switches, hooks on saved tensors, checkpoints."""

import pytest

import facula
from facula import nn
from facula.autograd import Function, gradcheck, gradgradcheck, graph
from facula.autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from facula.autograd.function import once_differentiable


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, k):
        y = x.exp() * k
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        _, y = ctx.saved_tensors
        return grad * y, None


class Two(Function):
    @staticmethod
    def forward(x, y=2.0):
        return x * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.y = inputs[1]

    @staticmethod
    def backward(ctx, first, second):
        return first * ctx.y + second, None


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.fixture(autouse=True)
def recording():
    """One test's switches are not the next one's."""
    yield
    facula.core.set_grad_enabled(True)


def leaf(*shape):
    return facula.randn(*shape, dtype=facula.float64).requires_grad_()


def test_gradients_and_second_gradients():
    x = leaf(3)
    assert gradcheck(lambda x: Scaled.apply(x, 2.0), (x,))
    assert gradgradcheck(lambda x: Scaled.apply(x, 2.0), (x,))
    assert gradcheck(Two.apply, (x,)) and gradgradcheck(Two.apply, (x,))


def test_node():
    y = Scaled.apply(leaf(2), 2.0)
    assert y.grad_fn.name() == "ScaledBackward" and len(y.grad_fn.next_functions) == 1
    assert y.grad_fn.needs_input_grad == (True, False)
    assert y.grad_fn.saved_tensors[1].grad_fn is y.grad_fn


def test_saved_tensors_are_freed_and_checked():
    x = leaf(2)
    y = Scaled.apply(x, 2.0)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    a = leaf(2) * 1
    z = Scaled.apply(a, 1.0)
    a.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        z.sum().backward()


def test_in_place_function():
    x = leaf(3)
    y = x * 3
    z = Doubled.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0, 6.0]
    with pytest.raises(RuntimeError, match="leaf"):
        Doubled.apply(leaf(2))


def test_undefined_gradients():
    seen = []

    class Pair(Function):
        materialize = True

        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(Pair.materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b)
            return a

    for Pair.materialize in (True, False):
        Pair.apply(leaf(2))[0].sum().backward()
    assert seen[0].tolist() == [0.0, 0.0] and seen[1] is None


def test_non_differentiable_and_returned_inputs():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            index = x.argmax()
            kept = x > 0
            ctx.mark_non_differentiable(index)
            return x, index, kept

        @staticmethod
        def backward(ctx, grad, *_):
            return grad * 5

    x = leaf(3)
    same, index, kept = Split.apply(x)
    assert same is not x and not index.requires_grad and not kept.requires_grad
    same.sum().backward()
    assert x.grad.tolist() == [5.0] * 3


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (lambda g: (g, g), RuntimeError, "incorrect number of gradients"),
        (lambda g: 3, TypeError, "expected Variable or None"),
        (lambda g: g.new_ones(7), RuntimeError, "invalid gradient at index 0"),
    ],
)
def test_wrong_results_of_backward(result, error, message):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return result(grad)

    with pytest.raises(error, match=message):
        Wrong.apply(leaf(2)).sum().backward()


def test_placeholder_for_an_input_without_gradient_has_any_shape():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, times):
            return x * times[0]

        @staticmethod
        def backward(ctx, grad):
            return grad * 3, grad.new_zeros(7)

    x = leaf(2)
    Scaled.apply(x, facula.full((5,), 3.0)).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="invalid gradient at index 1"):
        Scaled.apply(x, facula.full((5,), 3.0, requires_grad=True)).sum().backward()


def test_gradient_is_summed_to_the_input():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x):
            return x.expand(4, 2) * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(2)
    Wide.apply(x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = leaf(2)
    weight = leaf(2)
    (grad,) = facula.autograd.grad((Square.apply(x) * weight).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_modes():
    @facula.no_grad()
    def plain():
        return facula.is_grad_enabled()

    @facula.no_grad
    def bare():
        return facula.is_grad_enabled()

    @facula.no_grad()
    def generator():
        yield facula.is_grad_enabled()
        yield facula.is_grad_enabled()

    assert not plain() and not bare() and facula.is_grad_enabled()
    assert [(inside, facula.is_grad_enabled()) for inside in generator()] == [(False, True)] * 2
    with facula.no_grad(), facula.enable_grad():
        assert facula.is_grad_enabled()
    facula.set_grad_enabled(False)
    assert not facula.is_grad_enabled()
    facula.set_grad_enabled(True)
    decorated = facula.set_grad_enabled(False)(facula.is_grad_enabled)
    assert facula.is_grad_enabled() and not decorated()


def test_inference_mode():
    with facula.inference_mode():
        x = facula.ones(2) * 2
        assert x.is_inference() and not facula.is_grad_enabled()
        with facula.inference_mode(False):
            assert facula.is_grad_enabled()
    assert facula.is_grad_enabled() and not facula.is_inference_mode_enabled()
    with pytest.raises(RuntimeError):
        x.requires_grad_()


def test_backward_and_grad_arguments():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        facula.autograd.backward(x * 2)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        facula.autograd.backward(x * 2, facula.ones(2, dtype=facula.float64))
    with pytest.raises(RuntimeError, match="cannot be empty"):
        facula.autograd.backward((x * 2).sum(), inputs=[])
    unused = leaf(2)
    with pytest.raises(RuntimeError, match="not have been used"):
        facula.autograd.grad((x * 2).sum(), [x, unused])
    _, none = facula.autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)
    assert none is None
    _, zeros = facula.autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)
    assert zeros.tolist() == [0.0, 0.0]
    y = x**2
    (rows,) = facula.autograd.grad(y, x, facula.eye(3, dtype=x.dtype), is_grads_batched=True)
    assert float((rows - facula.diag(2 * x.detach())).abs().max()) < 1e-12


def test_multi_grad_hooks():
    a, b, c = leaf(2), leaf(2), leaf(2)
    seen = []
    handle = graph.register_multi_grad_hook((a, b, c), seen.append)
    (a * b).sum().backward()
    assert len(seen) == 1 and seen[0][2] is None and seen[0][0] is not None
    handle.remove()
    (a * b).sum().backward()
    assert len(seen) == 1
    first = []
    graph.register_multi_grad_hook((a, b), first.append, mode="any")
    (a * b).sum().backward()
    assert len(first) == 1


def test_saved_tensor_hooks():
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor.detach() * 1

    with graph.saved_tensors_hooks(pack, lambda t: t):
        x = leaf(3)
        y = (x * x * x).sum()
    assert packed
    y.backward()
    assert float((x.grad - 3 * x.detach() ** 2).abs().max()) < 1e-12
    with graph.save_on_cpu():
        z = (x * x).sum()
    z.backward()
    with graph.disable_saved_tensors_hooks("not now"), pytest.raises(RuntimeError, match="not now"):
        with graph.saved_tensors_hooks(pack, lambda t: t):
            (x * x).sum()


def test_mutation_of_saved_tensors():
    x = leaf(2)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y**2).sum()
        y.sin_()
        z.backward()
    assert float((x.grad - 2 * x.detach()).abs().max()) < 1e-12


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_changes_nothing(reentrant):
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))
    x = facula.randn(4, 3).requires_grad_()

    def run(forward):
        facula.manual_seed(3)
        model.zero_grad()
        x.grad = None
        out = forward(x)
        out.sum().backward()
        return [out.detach(), x.grad, *[p.grad for p in model.parameters()]]

    expected = run(model)
    once = run(lambda x: checkpoint(model, x, use_reentrant=reentrant))
    parts = run(lambda x: checkpoint_sequential(model, 2, x, use_reentrant=reentrant))
    for got in (once, parts):
        assert all(float((a - b).abs().max()) < 1e-6 for a, b in zip(expected, got, strict=True))


def test_checkpoint_keeps_nothing():
    calls = []

    def f(x):
        calls.append(1)
        return (x.exp() * x).sin()

    x = leaf(4)
    saved = []
    with graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        pass
    y = checkpoint(f, x, use_reentrant=False)
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2


def test_checkpoint_finds_a_different_second_run():
    runs = []

    def f(x):
        runs.append(1)
        return x.exp().sin() if len(runs) == 1 else x.exp()

    y = checkpoint(f, leaf(3), use_reentrant=False)
    with pytest.raises(CheckpointError, match="number of saved tensors"):
        y.sum().backward()


def test_checkpoint_with_keywords_and_nesting():
    def inner(x, *, scale):
        return (x * scale).sin()

    def outer(x):
        return checkpoint(inner, x, scale=2.0, use_reentrant=False).cos()

    x = leaf(3)
    checkpoint(outer, x, use_reentrant=False).sum().backward()
    expected = -(x.detach() * 2).sin().sin() * (x.detach() * 2).cos() * 2
    assert float((x.grad - expected).abs().max()) < 1e-12


def test_anomaly_mode():
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        mode = facula.autograd.detect_anomaly()
    with (
        mode,
        pytest.warns(UserWarning, match="forward"),
        pytest.raises(RuntimeError, match="nan"),
    ):
        x = facula.zeros(1, requires_grad=True)
        (x.sqrt() * 0).sum().backward()
