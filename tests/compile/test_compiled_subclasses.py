"""Tensor subclasses with `__torch_function__`: compiled functions do what their classes say."""

from __future__ import annotations

import pytest

import facula
from facula.nn import functional as F

HANDLED = {}


class Changed(facula.Tensor):
    """Adds where it is multiplied, and gives ten times a difference."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is facula.Tensor.mul:
            return super().__torch_function__(facula.Tensor.add, types, args, kwargs)
        result = super().__torch_function__(func, types, args, kwargs)
        return result * 10 if func is facula.Tensor.sub else result

    def twice(self):
        return self + self


class Plain(facula.Tensor):
    """Runs functions on plain tensors, but for those that somebody has put into a table."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED:
            return HANDLED[func](*args, **(kwargs or {}))
        with facula.overrides.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result.as_subclass(Plain) if isinstance(result, facula.Tensor) else result


HANDLED[facula.Tensor.sum] = lambda x, *args, **kwargs: 42

PROGRAMS = [
    (Changed, lambda x: x * 3 - 1),
    (Changed, lambda x: (x + 1).twice()),
    (Changed, lambda x: facula.cat([x, x * 2])[0]),
    (Changed, lambda x: F.relu(x - 5) + F.softmax(x, -1)),
    (Changed, lambda x: (x.view(6), x.T.contiguous(), x.split(1))),
    (Changed, lambda x: x.add_(1)),
    (Changed, lambda x: (isinstance(x, Changed), type(x + 1) is Changed, x.shape[0])),
    (Changed, lambda x: x.as_subclass(facula.Tensor) * 2),
    (Changed, lambda x: x.as_subclass(Plain) + 1),
    (Changed, lambda x: facula.where(x > 0, x, 0.0) + facula.ones(2)),
    (Plain, lambda x: (x + 1).sum()),
    (Plain, lambda x: x.sin() @ x.T),
]


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, (tuple, list)):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, facula.Tensor):
        assert a.as_subclass(facula.Tensor).allclose(b.as_subclass(facula.Tensor))
    else:
        assert a == b


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number, backend):
    kind, program = PROGRAMS[number]
    data = facula.randn(3, 2)
    expected = program(data.clone().as_subclass(kind))
    call = facula.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        x = data.clone().as_subclass(kind)
        same(expected, call(x))


def test_gradients():
    def program(x):
        return (x.as_subclass(Changed) * 3).sin().sum()

    first = facula.randn(3, requires_grad=True)
    second = first.detach().clone().requires_grad_()
    program(first).backward()
    facula.compile(program, backend="aot_eager", fullgraph=True)(second).backward()
    assert first.grad.allclose(second.grad)


def test_a_changed_class_is_heard(monkeypatch):
    x = facula.ones(2).as_subclass(Changed)
    call = facula.compile(lambda x: x * 3, backend="eager")
    assert call(x).tolist() == [4.0, 4.0]

    def other(cls, func, types, args=(), kwargs=None):
        return facula.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs)

    monkeypatch.setattr(Changed, "__torch_function__", classmethod(other))
    assert call(x).tolist() == [3.0, 3.0]


class Doubling(facula.Tensor):
    """A wrapper with both overrides, whose linear layer has twice its weight."""

    @staticmethod
    def __new__(cls, inner):
        return facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            return F.linear(args[0], 2 * args[1].inner, *args[2:])
        with facula._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if "detach" in str(func):
            return cls(args[0].inner.detach())
        return func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {}))


@pytest.mark.breaks("tensor-subclass", "no-graph-argument")
def test_weights_of_a_class_with_both_overrides_break_the_graph():
    model = facula.nn.Sequential(facula.nn.Linear(4, 3), facula.nn.GELU(), facula.nn.Linear(3, 2))
    for layer in (model[0], model[2]):
        weight = Doubling(layer.weight.detach())
        layer.weight = facula.nn.Parameter(weight, requires_grad=False)
    x = facula.randn(2, 4)
    with facula.no_grad():
        assert facula.allclose(facula.compile(model)(x), model(x), atol=1e-6)
