"""Writes in place to views that came together from one call, or from a custom function.

Autograd cannot attribute a write to one of several results, and a write to the view that a custom
function returned would go around its `backward`. Both are refused, as PyTorch refuses them; what
PyTorch allows gives the gradient that is worked out by hand.
"""

import pytest

import facula
from facula.autograd import Function

SEVERAL = "is a view and is being modified inplace. This view is the output of a function that returns multiple"
CUSTOM = "would override the custom backward"

CALLS = {
    "unbind": lambda x: x.unbind(0),
    "split": lambda x: x.split(2),
    "sizes": lambda x: x.split([1, 3]),
    "chunk": lambda x: x.chunk(2),
    "one chunk": lambda x: x.chunk(1),
    "iteration": lambda x: tuple(x),
}

WRITES = {
    "add": lambda x: x.add_(1),
    "copy": lambda x: x.copy_(facula.zeros_like(x)),
    "zero": lambda x: x.zero_(),
    "fill": lambda x: x.fill_(2.0),
    "unary": lambda x: x.relu_(),
    "subscript": lambda x: x.__setitem__(0, 5.0),
    "view of it": lambda x: x[0:1].mul_(2),
    "geometry": lambda x: x.unsqueeze_(0),
    "random": lambda x: x.normal_(),
}


def recorded():
    return facula.arange(8.0).reshape(4, 2).requires_grad_() * 1


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("call", CALLS)
def test_pieces_are_not_written_to(call, write):
    x = recorded()
    piece = CALLS[call](x)[0]
    with pytest.raises(RuntimeError) as caught:
        WRITES[write](piece)
    assert SEVERAL in str(caught.value)
    assert x.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]


@pytest.mark.parametrize("call", CALLS)
def test_pieces_without_history_are_written_to(call):
    x = facula.zeros(4, 2)
    CALLS[call](x)[0].add_(1)
    assert x[0].tolist() == [1.0, 1.0]
    y = facula.zeros(4, 2, requires_grad=True)
    with facula.no_grad():
        CALLS[call](y)[0].add_(1)
    CALLS[call](y * 1)[0].detach().add_(1)
    assert y[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: facula.tensor_split(x, 2),
        lambda x: facula.vsplit(x, 2),
        lambda x: facula.unsafe_split(x, 2),
        lambda x: facula.unsafe_chunk(x, 2),
        lambda x: (x[:2],),
        lambda x: (x.narrow(0, 0, 2),),
    ],
)
def test_other_views_are_written_to(call):
    x = facula.arange(8.0).reshape(4, 2).requires_grad_()
    first = call(x * 1)[0]
    first.mul_(3)
    (first * facula.tensor([1.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [[3.0, 6.0], [3.0, 6.0], [0.0, 0.0], [0.0, 0.0]]


class TenTimes(Function):
    """A view whose gradient is not the view's own."""

    @staticmethod
    def forward(ctx, x, same):
        return x if same else x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.reshape(4, 2) * 10, None


@pytest.mark.parametrize("same", [True, False])
def test_views_of_custom_functions_are_not_written_to(same):
    """The write went around `backward`: the gradient of `y` was 2 where 20 is right."""
    y = TenTimes.apply(recorded(), same)
    with pytest.raises(RuntimeError, match=CUSTOM):
        y.mul_(2)
    x = facula.ones(4, 2, requires_grad=True)
    (TenTimes.apply(x * 1, same).clone().mul_(2)).sum().backward()
    assert x.grad.tolist() == [[20.0, 20.0]] * 4


def test_jacobians_of_wrapper_classes_are_of_the_class():
    class Wrapper(facula.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def bare(x):
                return x.inner if isinstance(x, cls) else x

            from facula.utils._pytree import tree_map

            found = func(*tree_map(bare, args), **tree_map(bare, kwargs or {}))
            return tree_map(lambda x: cls(x) if isinstance(x, facula.Tensor) else x, found)

    x = Wrapper(facula.tensor([1.0, 2.0, 3.0]))
    rows = facula.autograd.functional.jacobian(lambda v: 4 * v.narrow(0, 0, 2), x, vectorize=True)
    assert type(rows) is Wrapper
    assert rows.inner.tolist() == [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a: a.detach().sum(), "Output 0 of the user-provided function does not require"),
        (lambda a: (3 * a).sum(), "with respect to input 0 is independent"),
        (
            lambda a: a.detach().clone().requires_grad_().clone().sum(),
            "with respect to input 0 is independent",
        ),
    ],
)
def test_strict_hessians_say_what_does_not_depend_on_the_input(function, words):
    x = facula.rand(3)
    with pytest.raises(RuntimeError, match=words):
        facula.autograd.functional.hessian(function, x, strict=True)
    assert not facula.autograd.functional.hessian(function, x).any()
