"""`__torch_function__`: on other classes, on subclasses of Tensor, and in modes."""

import pytest

import facula
from facula import Tensor
from facula.overrides import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    get_overridable_functions,
    get_testing_overrides,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)


class Diagonal:
    """A multiple of the identity, which knows a few functions."""

    handled: dict = {}

    def __init__(self, size, value):
        self.size, self.value = size, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        known = all(issubclass(kind, (Tensor, Diagonal)) for kind in types)
        if func not in cls.handled or not known:
            return NotImplemented
        return cls.handled[func](*args, **(kwargs or {}))


def handles(function):
    def decorate(implementation):
        Diagonal.handled[function] = implementation
        return implementation

    return decorate


@handles(facula.mean)
def _(input):
    return input.value / input.size


@handles(facula.add)
def _(input, other):
    return ("sum", type(input).__name__, type(other).__name__)


@handles(facula.cat)
def _(tensors, dim=0):
    return ("cat", len(tensors), dim)


@handles(facula.Tensor.subtract)
def _(input, other, *, alpha=1):
    return "difference"


def test_other_class_handles_functions():
    d = Diagonal(5, 2)
    assert facula.mean(d) == pytest.approx(0.4)
    assert facula.add(facula.ones(2), d) == ("sum", "Tensor", "Diagonal")
    assert facula.ones(2).subtract(d) == "difference"
    assert facula.cat([facula.ones(2), d], dim=1) == ("cat", 2, 1)


@pytest.mark.parametrize("call", [facula.mul, facula.sub])
def test_unhandled_function_names_the_types(call):
    with pytest.raises(TypeError, match="no implementation found .*Diagonal"):
        call(Diagonal(2, 1), 3)


class Logged(Tensor):
    """A subclass that writes down what is called."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture
def logged():
    Logged.calls.clear()
    return facula.tensor([1.0, 2.0]).as_subclass(Logged)


def test_results_are_of_the_subclass(logged):
    plain = facula.ones(2)
    for result in (logged + 1, plain * logged, logged.sum(), logged[0], logged.view(2, 1)):
        assert type(result) is Logged
    assert type(facula.stack([plain, logged])) is Logged
    assert [type(part) for part in logged.split(1)] == [Logged, Logged]
    found = facula.sort(logged)
    assert type(found.values) is Logged and found.indices.tolist() == [0, 1]


def test_functions_are_told(logged):
    logged.clone()
    logged[0]
    logged[0] = 5.0
    logged.add_(1)
    assert logged.sum().item() == 9
    assert Logged.calls == [
        Tensor.clone, Tensor.__getitem__, Tensor.__setitem__, Tensor.add_, Tensor.sum, Tensor.item,
    ]  # fmt: skip


def test_in_place_keeps_identity_and_history(logged):
    same = logged.add_(1)
    assert same is logged and logged.tolist() == [2, 3]
    leaf = facula.ones(3, requires_grad=True)
    middle = (leaf * 2).as_subclass(Logged)
    middle.mul_(3)
    middle.sum().backward()
    assert leaf.grad.tolist() == [6, 6, 6]


def test_writing_to_a_view_of_a_subclass(logged):
    view = logged[:1]
    view.mul_(0)
    assert logged.tolist() == [0, 2]


def test_gradients_through_a_subclass():
    w = facula.tensor([1.0, 2.0, 3.0]).as_subclass(Logged).requires_grad_()
    (w * w).sum().backward()
    assert w.grad.tolist() == [2, 4, 6]


class First(Tensor):
    pass


class Second(First):
    pass


class Stranger(Tensor):
    pass


def test_subclasses_come_before_their_bases():
    a, b = facula.ones(2).as_subclass(First), facula.ones(2).as_subclass(Second)
    assert type(a + b) is Second and type(b + a) is Second and type(a + 1) is First


def test_unrelated_subclasses_do_not_mix():
    with pytest.raises(TypeError, match="no implementation found"):
        facula.ones(2).as_subclass(First) + facula.ones(2).as_subclass(Stranger)


def test_disabled_overrides(logged):
    class Plain(Tensor):
        __torch_function__ = facula._C._disabled_torch_function_impl

    plain = facula.ones(2).as_subclass(Plain)
    assert type(plain * 2) is Tensor and not has_torch_function_unary(plain)
    with DisableTorchFunctionSubclass():
        assert type(logged * 2) is Tensor
    assert type(logged * 2) is Logged
    with BaseTorchFunctionMode(), DisableTorchFunction():
        assert not facula.core.FUNCTION_MODES
        assert type(logged * 2) is Tensor


class Names(TorchFunctionMode):
    """Writes down what is called, by public names."""

    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_modes_hear_of_every_function():
    with Names() as outer, Names() as inner:
        x = facula.randn(2)
        x + x
        x.clone()
        x.sum().item()
        facula.zeros(2)
        facula.tensor([1.0])
    wanted = "randn Tensor.add Tensor.clone Tensor.sum Tensor.item zeros tensor".split()
    assert inner.names == outer.names == [f"facula.{name}" for name in wanted]
    facula.ones(2)
    assert len(inner.names) == len(wanted)


def test_mode_may_change_arguments():
    class OnMeta(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func in (facula.zeros, facula.tensor):
                kwargs.setdefault("device", "meta")
            return func(*args, **kwargs)

    with OnMeta():
        assert facula.zeros(2).is_meta and facula.tensor([1.0]).is_meta
        assert not facula.ones(2).is_meta
    assert not facula.zeros(2).is_meta


def test_mode_is_left_after_an_error():
    with pytest.raises(ZeroDivisionError), BaseTorchFunctionMode():
        raise ZeroDivisionError
    assert not facula.core.FUNCTION_MODES


class Watched(Tensor):
    """Notes what it is asked for."""

    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_properties_are_offered_to_subclasses():
    x = facula.ones(2, 3).as_subclass(Watched)
    Watched.seen.clear()
    assert x.shape == (2, 3) and x.dtype is facula.float32 and type(x.T) is Watched
    x.requires_grad = True
    wanted = [Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.T.__get__]
    assert Watched.seen == [*wanted, Tensor.requires_grad.__set__]
    with DisableTorchFunctionSubclass():
        assert x.ndim == 2
    assert len(Watched.seen) == 4 and Watched.shape is Tensor.shape
    (x * x).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_a_property_of_its_own_is_left_to_the_subclass():
    class Named(Watched):
        @property
        def shape(self):
            return "own"

    assert facula.ones(2).as_subclass(Named).shape == "own"


def test_questions():
    d = Diagonal(1, 1)
    assert has_torch_function((1, d)) and has_torch_function_variadic(1, d)
    assert not has_torch_function((facula.ones(1), 2))
    assert is_tensor_like(d) and is_tensor_like(facula.ones(1)) and not is_tensor_like(3)
    assert is_tensor_method_or_property(Tensor.add)
    assert is_tensor_method_or_property(Tensor.shape.__get__)
    assert resolve_name(facula.relu) == "facula.relu"
    assert resolve_name(Tensor.shape.__get__) == "facula.Tensor.shape.__get__"


def test_overridable_functions_are_the_table():
    found = get_overridable_functions()
    assert facula.add in found[facula] and Tensor.clone in found[Tensor]
    assert facula.nn.functional.relu in found[facula.nn.functional]
    overrides = get_testing_overrides()
    assert overrides[facula.add](1, 2) == -1 and len(overrides) > 700


def test_wrapping_a_function_of_ones_own():
    @wrap_torch_function(lambda a, b: (a, b))
    def distance(a, b):
        return abs(a - b)

    Diagonal.handled[distance] = lambda a, b: "handled"
    assert distance(1, 3) == 2 and distance(Diagonal(1, 1), 3) == "handled"


def test_grad_of_a_class_that_leaves_it_to_its_base():
    calls = []

    class Passing(facula.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = facula.tensor([1.0, 2.0]).as_subclass(Passing).requires_grad_()
    (found,) = facula.autograd.grad((x * x).sum(), x)
    assert found.tolist() == [2, 4] and calls.count("grad") == 1
