"""`__torch_dispatch__`: modes, and subclasses that wrap other tensors."""

import pytest

import facula
from facula import Tensor
from facula.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from facula.utils._pytree import tree_flatten, tree_map, tree_unflatten

aten = facula.ops.aten


class Recorder(TorchDispatchMode):
    """Writes down the operators that run."""

    def __init__(self):
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def test_mode_hears_of_operators_below_composites():
    x = facula.randn(3, 3)
    with Recorder() as recorder:
        facula.nn.functional.linear(x, x).relu()
        facula.zeros(2).add_(1)
        x.t()
        x.clone()
    found = recorder.calls
    for operator in (aten.relu.default, aten.zeros.default, aten.add_.Tensor, aten.t.default):
        assert operator in found
    assert Tensor.clone in found and aten.clone.default in found
    before = len(found)
    facula.ones(2) + 1
    assert len(found) == before


def test_mode_hears_of_the_backward_pass():
    x = facula.randn(3, requires_grad=True)
    y = (x * x).sum()
    with Recorder() as recorder:
        y.backward()
    assert aten.mul.Tensor in recorder.calls and facula.allclose(x.grad, 2 * x)


def test_modes_nest_and_can_be_left():
    with Recorder() as outer, Recorder() as inner:
        facula.ones(2) + 1
        with _disable_current_modes():
            facula.ones(2) * 2
    assert inner.calls == outer.calls and aten.mul.Tensor not in inner.calls


class Pair(Tensor):
    """Two tensors of one shape that are computed with side by side."""

    @staticmethod
    def __new__(cls, a, b):
        return Tensor._make_wrapper_subclass(
            cls, a.size(), strides=a.stride(), dtype=a.dtype, device=a.device
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    __torch_function__ = facula._C._disabled_torch_function_impl

    def __repr__(self):
        return f"Pair({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Pair(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        both = []
        for name in ("a", "b"):
            part = tree_map(
                lambda t, name=name: getattr(t, name) if isinstance(t, Pair) else t,
                (args, kwargs or {}),
            )
            both.append(tree_flatten(func(*part[0], **part[1])))
        (first, spec), (second, _) = both
        leaves = [
            Pair(p, q) if isinstance(p, Tensor) else p for p, q in zip(first, second, strict=True)
        ]
        return return_and_correct_aliasing(func, args, kwargs, tree_unflatten(leaves, spec))


def pair(*shape, requires_grad=False):
    return Pair(facula.randn(*shape), facula.randn(*shape)).requires_grad_(requires_grad)


def test_wrapper_shows_shape_dtype_and_device():
    x = pair(2, 3)
    assert x.shape == (2, 3) and x.dtype is facula.float32 and x.device.type == "cpu"
    assert not x.is_meta and x.data_ptr() == 0
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(x.a)


def test_operators_reach_the_wrapper():
    x, y = pair(2, 3), pair(3, 2)
    assert facula.equal((x @ y).a, x.a @ y.a) and facula.equal((x + 1).b, x.b + 1)
    assert facula.equal(facula.cat([x, x]).a, facula.cat([x.a, x.a]))
    assert [type(part) for part in x.split(1)] == [Pair, Pair]
    found = facula.sort(x)
    assert type(found.values) is Pair and found.indices.shape == (2, 3)
    for view in (x.t(), x[0], x.view(6), x[:, 1:]):
        assert type(view) is Pair
    assert x.to(facula.float64).a.dtype is facula.float64 and x.clone().shape == x.shape


def test_writing_to_a_wrapper():
    x = pair(2, 2)
    before = x.a.clone()
    assert x.add_(1) is x and facula.equal(x.a, before + 1) and x._version >= 1
    x.zero_()
    assert x.a.abs().sum() == 0
    y = pair(2, 2)
    x.copy_(y)
    assert facula.equal(x.b, y.b)
    x[0] = 7
    assert x.a[0].tolist() == [7, 7]
    x.fill_(2)
    assert x.b.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.detach(), lambda x: x.view(4), lambda x: x.t(), lambda x: x[0], lambda x: x.split(1)[1],
        lambda x: x.detach().view(4)[1:],
    ],
)  # fmt: skip
def test_writes_to_a_view_of_a_wrapper_are_counted_with_it(view):
    """Views had counts of their own: a gradient was computed with what was written through them, silently."""
    x = pair(2, 2, requires_grad=True)
    y = x * x
    with facula.no_grad():
        shown = view(x)
        shown.add_(1)
        assert x._version == shown._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_writes_to_the_data_of_a_wrapper_are_not_counted():
    x = pair(2, 2, requires_grad=True)
    y = x * x
    x.data.add_(1)
    x.data[0].mul_(2)
    assert x._version == 0
    y.sum().backward()
    assert facula.equal(x.grad.a, 2 * x.a)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * x).sum(),
        lambda x: x.exp().sum(),
        lambda x: (facula.softmax(x, -1).log() * x).sum(),
        lambda x: (x @ x.t()).tanh().mean(),
        lambda x: x[0].sigmoid().sum() + x.view(6)[1],
        lambda x: (x * 1).mul_(x).exp_().sum(),
        lambda x: facula.nn.functional.layer_norm(x, (3,)).pow(3).sum(),
    ],
)
def test_gradients_of_wrappers(function):
    x = pair(2, 3, requires_grad=True)
    function(x).backward()
    assert type(x.grad) is Pair
    for inner, gradient in ((x.a, x.grad.a), (x.b, x.grad.b)):
        leaf = inner.detach().clone().requires_grad_()
        function(leaf).backward()
        facula.testing.assert_close(gradient, leaf.grad)


def test_second_derivatives_and_accumulation():
    x = pair(4, requires_grad=True)
    (gradient,) = facula.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = facula.autograd.grad(gradient.sum(), x)
    facula.testing.assert_close(second.a, 6 * x.a)
    for _ in range(2):
        (x * 2).sum().backward()
    assert x.grad.a.tolist() == [4, 4, 4, 4]


def test_transform_subclass():
    x = pair(2, 3)
    doubled = transform_subclass(x, lambda name, t: t * 2)
    assert facula.equal(doubled.a, x.a * 2)
    with pytest.raises(RuntimeError, match="shape"):
        transform_subclass(x, lambda name, t: t[0])


class Mute(Tensor):
    """A wrapper that handles nothing."""

    @staticmethod
    def __new__(cls):
        return Tensor._make_wrapper_subclass(cls, (2,))

    __torch_function__ = facula._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1, lambda x: x.clone(), lambda x: x.sum(), lambda x: x[0], lambda x: x.view(2),
        lambda x: x.to(facula.float64), lambda x: x.fill_(1), lambda x: facula.ones(2).copy_(x),
        lambda x: facula.sort(x), lambda x: x.add_(1), lambda x: facula.ones(2).add_(x),
    ],
)  # fmt: skip
def test_unhandled_operator_is_an_error(call):
    with pytest.raises(TypeError, match="__torch_dispatch__"):
        call(Mute())


@pytest.mark.parametrize("call", [lambda x: x.numpy(), lambda x: x.tolist()])
def test_a_wrapper_has_no_elements_of_its_own(call):
    with pytest.raises((TypeError, NotImplementedError), match="required"):
        call(pair(2))


def test_a_wrapper_needs_torch_dispatch():
    with pytest.raises(RuntimeError, match="__torch_dispatch__"):
        Tensor._make_wrapper_subclass(Tensor, (2,))
