"""What backward adds to, the dtype of what it is given, and which tensors saved-tensor hooks see."""

import pickle

import pytest

import facula
from facula.autograd.graph import saved_tensors_hooks


def test_backward_adds_to_results_that_are_inputs():
    x = facula.ones(3, requires_grad=True)
    y = x * 3
    (y**2).sum().backward(inputs=[y])
    assert y.grad.tolist() == [6.0] * 3 and x.grad is None
    z = y * 2
    z.sum().backward(inputs=[y, x])
    assert y.grad.tolist() == [8.0] * 3 and x.grad.tolist() == [6.0] * 3


def test_a_given_gradient_takes_the_dtype_of_the_output():
    a = facula.ones(3, 3, dtype=facula.float64, requires_grad=True)
    (gradient,) = facula.autograd.grad(a.diagonal(), a, facula.ones(3))
    assert gradient.dtype is facula.float64
    a.diagonal().backward(facula.full((3,), 2, dtype=facula.float16))
    assert a.grad.dtype is facula.float64 and a.grad.trace().item() == 6


def test_gradients_made_for_unused_inputs_can_be_differentiated_again():
    x, a = (facula.tensor(v, requires_grad=True) for v in (0.5, 1.0))
    first = facula.autograd.grad(x * a, x, create_graph=True)  # `a`: x has no part in it
    second = facula.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    third = facula.autograd.grad(second, x, materialize_grads=True)
    assert second[0].item() == 0 and third[0].item() == 0 and not third[0].requires_grad


def test_hooks_hear_that_their_result_had_no_gradient():
    x = facula.ones(3, requires_grad=True)
    parts, heard = x.unbind(), []
    parts[0].register_hook(heard.append)
    parts[0].retain_grad()
    parts[1].backward()
    assert heard == [None] and x.grad.tolist() == [0.0, 1.0, 0.0]


def saved_by(function):
    seen = []

    def pack(tensor):
        seen.append(tuple(tensor.shape))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function()
    return seen, result


def test_numbers_are_no_saved_tensors():
    x = facula.full((2,), 3.0, requires_grad=True)
    seen, y = saved_by(lambda: x**3)
    assert seen == [(2,)]
    y.sum().backward()
    assert x.grad.tolist() == [27.0, 27.0]


def test_only_what_the_wanted_gradients_need_is_saved():
    x, y = facula.ones(4, requires_grad=True), facula.ones(1, 4)
    assert saved_by(lambda: x * y)[0] == [(1, 4)]
    assert saved_by(lambda: y * x)[0] == [(1, 4)]
    assert saved_by(lambda: x * x)[0] == [(4,), (4,)]
    assert saved_by(lambda: x + y)[0] == []


def test_what_hooks_gave_back_is_differentiated_again():
    """At 2a = 2: the gradient of a**3 is 3 (2a)**2, its derivative by what was saved 6 (2a)."""
    with saved_tensors_hooks(lambda tensor: 2 * tensor, lambda tensor: tensor):
        a = facula.ones(2, requires_grad=True)
        total = (a**3).sum()
    (gradient,) = facula.autograd.grad(total, a, create_graph=True)
    assert gradient.tolist() == [12.0, 12.0]
    gradient.sum().backward()
    assert a.grad.tolist() == [12.0, 12.0]


@pytest.mark.filterwarnings("ignore:`weight_norm` is deprecated")
def test_pickles_hold_values_without_their_history():
    x = facula.full((2,), 3.0, requires_grad=True)
    loaded = pickle.loads(pickle.dumps(x * 2))
    assert loaded.tolist() == [6.0, 6.0] and loaded.requires_grad and loaded.is_leaf
    module = facula.nn.utils.weight_norm(facula.nn.Linear(2, 2))
    module(facula.ones(1, 2))
    copied = pickle.loads(pickle.dumps(module))
    assert facula.equal(copied(facula.ones(1, 2)), module(facula.ones(1, 2)))


def test_what_can_be_gone_through_once_names_inputs_and_outputs():
    layer = facula.nn.Linear(3, 2)
    x = facula.arange(6.0).reshape(2, 3)
    expected = [x.sum(0).expand(2, 3), facula.full((2,), 2.0)]
    loss = layer(x).sum()
    for inputs in (
        layer.parameters(),
        iter(list(layer.parameters())),
        (p for p in layer.parameters()),
    ):
        found = facula.autograd.grad(loss, inputs, retain_graph=True)
        assert len(found) == 2
        assert all(facula.equal(g, e) for g, e in zip(found, expected, strict=True))
    found = facula.autograd.grad(iter([loss]), layer.parameters(), iter([facula.tensor(3.0)]))
    assert all(facula.equal(g, 3 * e) for g, e in zip(found, expected, strict=True))


def _shown_slope(function, at):
    """The gradient of a function of one number, and the slope between two neighbours."""
    x = facula.tensor(at, dtype=facula.float64, requires_grad=True)
    (found,) = facula.autograd.grad(function(x), x)
    step = 1e-6
    with facula.no_grad():
        return found.item(), ((function(x + step) - function(x - step)) / (2 * step)).item()


def test_settings_that_are_learned_get_gradients():
    functional = facula.nn.functional
    x = facula.arange(24, dtype=facula.float64).reshape(2, 4, 3) / 10 + 0.1

    def sampled(tau):
        facula.manual_seed(3)
        return (functional.gumbel_softmax(x, tau) * x).sum()

    for function, at in (
        (sampled, 1.5),
        (lambda k: functional.local_response_norm(x, 3, k, 0.5, 2.0).sum(), 0.2),
        (lambda k: functional.local_response_norm(x, 3, 0.2, k, 2.0).sum(), 0.5),
        (lambda k: functional.local_response_norm(x, 3, 0.2, 0.5, k).sum(), 2.0),
        (lambda eps: functional.normalize(x[0], eps=eps).sum(), 5.0),
        (lambda m: functional.triplet_margin_with_distance_loss(x, x, x + 1, margin=m), 3.0),
    ):
        found, slope = _shown_slope(function, at)
        assert found == pytest.approx(slope, rel=1e-5) and found != 0


def test_a_float_that_would_lose_its_gradient_is_refused():
    p = facula.tensor(0.1, requires_grad=True)
    with pytest.raises(TypeError, match="must be float, not Tensor"):
        facula.nn.functional.dropout(facula.ones(3), p)
    with pytest.raises(TypeError, match="argument 'atol'"):
        facula.isclose(facula.ones(2), facula.ones(2), 0.1, p)
    with facula.no_grad():
        assert facula.isclose(facula.ones(2), facula.ones(2), 0.1, p).all()
