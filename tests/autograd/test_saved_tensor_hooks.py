"""What saved-tensor hooks are shown: the tensors themselves, in the order of the arguments' names."""

import gc
import weakref

import pytest

import facula
from facula.autograd.graph import saved_tensors_hooks


def packed_by(function, *tensors):
    """What hooks are given to pack while a function runs."""
    seen = []

    def pack(t):
        seen.append(t)
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        result = function(*tensors)
    return seen, result


def leaves(count, *shape):
    return [facula.rand(*(shape or (2, 3))).requires_grad_() for _ in range(count)]


@pytest.mark.parametrize(
    "function, count, order",
    [
        (lambda a, b: a * b, 2, "ba"),  # other, self
        (lambda a, b: a / b, 2, "ba"),
        (lambda a, b, c: facula.lerp(a, b, c), 3, "bac"),  # end, self, weight
        (lambda a, b, c: facula.addcmul(a, b, c), 3, "bc"),
        (lambda a, b: facula.atan2(a, b), 2, "ba"),
    ],
)
def test_arguments_are_packed_in_the_order_of_their_names(function, count, order):
    tensors = leaves(count)
    seen, _ = packed_by(function, *tensors)
    assert ["abc"[[t is s for t in tensors].index(True)] for s in seen] == list(order)


def test_a_product_of_matrices_packs_its_second_factor_first():
    a, b = leaves(1, 2, 3) + leaves(1, 3, 2)
    seen, _ = packed_by(facula.mm, a, b)
    assert seen[0] is b and seen[1] is a


def test_hooks_see_the_history_and_compute_without_one():
    (a,) = leaves(1)
    recorded = []

    def pack(t):
        recorded.append((t.grad_fn, t.requires_grad, facula.is_grad_enabled()))
        return t * 2

    doubled = a + a
    with saved_tensors_hooks(pack, lambda t: t / 2):
        y = doubled.exp() * doubled
    names = [type(node).__name__ for node, _, _ in recorded]
    assert names == ["ExpBackward0", "AddBackward0", "ExpBackward0"]
    assert all(asks and not enabled for _, asks, enabled in recorded)
    y.sum().backward()
    x = 2 * a.detach()
    assert facula.allclose(a.grad, 2 * x.exp() * (1 + x))


def test_a_hook_that_writes_to_what_it_packs_is_refused():
    (a,) = leaves(1)
    with (
        saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t),
        pytest.raises(RuntimeError, match="pack hook is modifying its input in place"),
    ):
        a.clone() * 2 * a


def test_a_leaf_that_hooks_unpack_has_no_node():
    (a,) = leaves(1)
    b = a * 2
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        c = a * b
    kept = c.grad_fn._saved_self
    assert kept.grad_fn is None and kept.is_leaf and kept.requires_grad
    assert type(c.grad_fn._saved_other.grad_fn).__name__ == "MulBackward0"


def test_second_derivatives_go_through_what_hooks_give_back():
    (a,) = leaves(1)
    with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = (a.exp() * a**3).sum()
        (first,) = facula.autograd.grad(y, a, create_graph=True)
    (second,) = facula.autograd.grad(first.sum(), a)
    x = a.detach()
    assert facula.allclose(second, x.exp() * (x**3 + 6 * x**2 + 6 * x), rtol=1e-4)


def test_what_identity_hooks_keep_is_freed_with_its_graph():
    (a,) = leaves(1)
    _, y = packed_by(lambda a: a.exp().sigmoid(), a)
    gone = weakref.ref(y)
    del y, _
    gc.collect()
    assert gone() is None


POINTWISE = {
    "a quotient whose divisor is a sum": lambda a: a / (a.sum() + 1),
    "a power of itself": lambda a: a**a,
    "an angle": lambda a: facula.atan2(a, a.sum()),
    "a length": lambda a: facula.hypot(a, a.mean()),
    "a mixture": lambda a: facula.lerp(a, a.sum(), a),
    "normalized": lambda a: facula.nn.functional.normalize(a, dim=0),
    "written over": lambda a: (a * 2).exp_(),
    "written over, then read": lambda a: (a * 2).sigmoid_().sin(),
}


def checkpointed(function, x):
    return facula.utils.checkpoint.checkpoint(function, x, use_reentrant=False)


def with_copies(function, x):
    with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        return function(x)


@pytest.mark.parametrize("run", [checkpointed, with_copies])
@pytest.mark.parametrize("name", POINTWISE)
def test_slopes_under_hooks_are_finite_differences(name, run) -> None:
    function = POINTWISE[name]
    x = facula.tensor([0.3, 0.7, 1.1], dtype=facula.float64, requires_grad=True)
    run(function, x).sum().backward()
    for i in range(3):
        step = facula.zeros(3, dtype=facula.float64)
        step[i] = 1e-6
        with facula.no_grad():
            difference = (function(x + step).sum() - function(x - step).sum()) / 2e-6
        assert x.grad[i].item() == pytest.approx(difference.item(), rel=1e-6)


def test_a_recomputed_tensor_that_is_written_over_is_an_error_as_it_is_without_checkpoints() -> (
    None
):
    x = facula.tensor([0.3, 0.7], requires_grad=True)
    for run in (lambda f, x: f(x), checkpointed):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(lambda a: (a * 2).sigmoid_().sqrt_(), x).sum().backward()


def test_what_hooks_give_back_is_a_tensor() -> None:
    x = facula.ones(2, requires_grad=True)
    with saved_tensors_hooks(lambda t: None, lambda t: t):
        y = (x * x).sin()
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y.sum().backward()
