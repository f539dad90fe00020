"""`__torch_function__`, subclasses, function modes, `__torch_dispatch__` and its modes."""

import copy

import pytest

import facula


class Tagged(facula.Tensor):
    """A tensor that remembers what was called on it."""

    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


def tagged(data):
    Tagged.calls = []
    return facula.tensor(data).as_subclass(Tagged)


def test_results_have_the_subclass():
    x = tagged([1.0, 2.0])
    for result in (
        x + 1,
        1 - x,
        x * facula.ones(2),
        facula.ones(2) * x,
        x.exp(),
        facula.sin(x),
        x[0],
        x.sum(),
        x.view(2, 1),
        facula.stack([x, x]),
        x.clone(),
        x.to(facula.float64),
    ):
        assert type(result) is Tagged
    assert "add" in Tagged.calls and "exp" in Tagged.calls and "stack" in Tagged.calls
    assert type(x.tolist()) is list and type(x.shape) is facula.Size
    assert type(copy.deepcopy(x)) is Tagged
    x += 1
    assert type(x) is Tagged and x.tolist() == [2, 3]


def test_gradients_through_a_subclass():
    w = facula.ones(2, requires_grad=True)
    x = tagged([1.0, 2.0])
    (x * w).sum().backward()
    assert w.grad.tolist() == [1, 2]


def test_an_object_that_is_no_tensor():
    class Diagonal:
        def __init__(self, n, value):
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is facula.mean:
                return args[0].value / args[0].n
            return NotImplemented

    assert facula.mean(Diagonal(5, 10)) == 2
    with pytest.raises(TypeError, match="Diagonal"):
        facula.add(Diagonal(5, 10), facula.ones(2))


def test_the_more_derived_class_decides():
    order = []

    class Base(facula.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(cls)
            return NotImplemented if cls is Derived else "base"

    class Derived(Base):
        pass

    a, b = facula.ones(1).as_subclass(Base), facula.ones(1).as_subclass(Derived)
    assert facula.add(a, b) == "base" and order == [Derived, Base]


def test_disabled_torch_function():
    x = tagged([1.0])
    with facula._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is facula.Tensor
    assert type(x + 1) is Tagged


def test_function_modes():
    from facula.overrides import TorchFunctionMode

    class Names(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    class Double(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is facula.ones else result

    with Names() as outer, Double():
        assert facula.ones(2).tolist() == [2, 2]
        (facula.zeros(2) + 1).sin()
    assert {"ones", "zeros", "sin"} <= set(outer.names)
    assert facula.ones(2).tolist() == [1, 1]
    with pytest.raises(ZeroDivisionError), Names():
        _ = 1 / 0
    assert facula.ones(2).tolist() == [1, 1]


def test_dispatch_modes_see_what_lies_below_autograd():
    from facula.utils._python_dispatch import TorchDispatchMode

    class Record(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = facula.ones(2, requires_grad=True)
    with Record() as record:
        y = (x * 2).sin().sum()
        forward = len(record.names)
        y.backward()
    assert any("mul" in n for n in record.names) and any("sin" in n for n in record.names)
    assert len(record.names) > forward
    assert facula.allclose(x.grad, 2 * (x.detach() * 2).cos())


def test_dispatch_mode_may_replace_results():
    from facula.utils._python_dispatch import TorchDispatchMode

    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return facula.zeros_like(result) if "exp" in str(func) else result

    with Zeros():
        assert facula.ones(2).exp().tolist() == [0, 0]
    assert facula.zeros(2).exp().tolist() == [1, 1]


def test_attributes_and_methods_of_subclasses():
    class Named(facula.Tensor):
        def shout(self):
            return self.label.upper()

    x = facula.ones(2).as_subclass(Named)
    x.label = "a"
    assert x.shout() == "A" and isinstance(x, facula.Tensor)
    assert type(facula.nn.Parameter(facula.ones(1))) is facula.nn.Parameter


def test_attributes_of_plain_tensors():
    x = facula.ones(2)
    x.note = [1]
    assert x.note == [1] and x.__dict__ == {"note": [1]}
    del x.note
    with pytest.raises(AttributeError):
        _ = x.note
