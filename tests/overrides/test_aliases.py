"""Further names of operators are objects of their own: overrides hear by which name they were called."""

import copy
import inspect
import pickle

import pytest

import facula
from facula.overrides import TorchFunctionMode, is_tensor_method_or_property, resolve_name


class Heard(facula.Tensor):
    """Notes what it is asked about, and answers as any tensor."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func, args))
        return super().__torch_function__(func, types, args, kwargs or {})


def heard(call, value=(1.0, 2.0)):
    """What the first call in a function of a noting tensor was."""
    x = facula.tensor(value).as_subclass(Heard)
    Heard.calls = []
    result = call(x)
    return Heard.calls[0], x, result


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: x.abs(), facula.Tensor.abs),
        (lambda x: facula.abs(x), facula.abs),
        (lambda x: facula.absolute(x), facula.absolute),
        (lambda x: x.absolute(), facula.Tensor.absolute),
        (lambda x: facula.special.expit(x), facula.special.expit),
        (lambda x: facula.sigmoid(x), facula.sigmoid),
        (lambda x: x.abs_(), facula.Tensor.abs_),
        (lambda x: facula.abs_(x), facula.abs_),
        (lambda x: facula.concat([x, x]), facula.concat),
        (lambda x: x + 1, facula.Tensor.add),
        (lambda x: 1 + x, facula.Tensor.add),
        (lambda x: 1 - x, facula.Tensor.__rsub__),
        (lambda x: 2**x, facula.Tensor.__rpow__),
        (lambda x: x**2, facula.Tensor.__pow__),
        (lambda x: -x, facula.Tensor.neg),
        (lambda x: +x, facula.Tensor.positive),
        (lambda x: abs(x), facula.Tensor.abs),
        (lambda x: x @ x, facula.Tensor.matmul),
        (lambda x: x.size(), facula.Tensor.size),
        (lambda x: x.dim(), facula.Tensor.dim),
        (lambda x: x.double(), facula.Tensor.double),
        (lambda x: x.tolist(), facula.Tensor.tolist),
        (lambda x: len(x), facula.Tensor.__len__),
        (lambda x: 1.0 in x, facula.Tensor.__contains__),
        (lambda x: copy.deepcopy(x), facula.Tensor.__deepcopy__),
    ],
)
def test_overrides_hear_the_name_that_was_called(call, wanted):
    (function, args), x, result = heard(call)
    assert function is wanted
    given = args[0][0] if isinstance(args[0], list) else args[0]
    assert given is x, "the tensor comes first, also where it stood on the right"
    plain = call(x.as_subclass(facula.Tensor).clone())
    if isinstance(plain, facula.Tensor) and not wanted.__name__.endswith("abs_"):
        assert result.tolist() == plain.tolist()
    elif not isinstance(plain, facula.Tensor):
        assert result == plain


def test_reflected_operators_compute_in_order():
    x = facula.tensor([2.0, 4.0]).as_subclass(Heard)
    assert (
        (1 - x).tolist() == [-1, -3] and (8 / x).tolist() == [4, 2] and (2**x).tolist() == [4, 16]
    )
    assert (9 // x).tolist() == [4, 2] and (9 % x).tolist() == [1, 1]


def test_a_mode_hears_the_names_too():
    class Names(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.found = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.found.append(func)
            return func(*args, **(kwargs or {}))

    x = facula.ones(2)
    with Names() as names:
        x.mul(x), facula.multiply(x, x), facula.special.round(x), x**2
    assert names.found == [
        facula.Tensor.mul, facula.multiply, facula.special.round, facula.Tensor.__pow__
    ]  # fmt: skip


def test_each_name_says_what_it_is():
    method, function, plain = facula.Tensor.absolute, facula.absolute, facula.abs
    assert len({method, function, plain, facula.Tensor.abs}) == 4
    assert (method.__name__, method.__qualname__) == ("absolute", "Tensor.absolute")
    assert method.__objclass__ is facula.Tensor and function.__qualname__ == "absolute"
    assert repr(method) == "<method 'absolute' of 'facula.Tensor' objects>"
    assert not hasattr(function, "__objclass__") and inspect.ismethoddescriptor(method)
    assert is_tensor_method_or_property(method) and not is_tensor_method_or_property(function)
    assert resolve_name(method) == "facula.Tensor.absolute"
    assert resolve_name(facula.special.expit) == "facula.special.expit"
    assert resolve_name(facula.linalg.det) == "facula.linalg.det"
    assert inspect.signature(function) == inspect.signature(plain)
    for each in (method, function, plain, facula.special.expit, facula.Tensor.add_):
        assert pickle.loads(pickle.dumps(each)) is each and copy.deepcopy(each) is each


def test_names_that_are_one_object_in_pytorch_are_one_here():
    assert facula.nn.functional.conv2d is facula.conv2d
    assert facula.nn.functional.hardshrink is facula.hardshrink


def test_compiled_code_and_graphs_take_every_name():
    def f(x):
        same = facula.abs is facula.absolute or facula.abs is facula.Tensor.abs
        return facula.special.expit(facula.absolute(x)) + facula.Tensor.add(x, 1), same

    x = facula.tensor([-1.0, 2.0])
    eager, same = f(x)
    compiled, compiled_same = facula.compile(f, fullgraph=True)(x)
    facula.testing.assert_close(compiled, eager)
    assert same is compiled_same is False

    def g(x):
        return facula.Tensor.add(facula.special.expit(x), 1)

    traced = facula.fx.symbolic_trace(g)
    nodes = [(n.op, n.target) for n in traced.graph.nodes][1:-1]
    assert nodes == [("call_function", facula.special.expit), ("call_method", "add")]
    facula.testing.assert_close(traced(x), g(x))
    assert "special.expit(" in traced.code
    exported = facula.export.export(facula.fx.symbolic_trace(g), (x,))
    facula.testing.assert_close(exported.module()(x), g(x))


def test_transforms_and_overloads_see_the_operator():
    x = facula.randn(3, 2)
    facula.testing.assert_close(facula.vmap(facula.special.expit)(x), x.sigmoid())
    found = facula.func.grad(lambda x: facula.absolute(x).sum())(x)
    facula.testing.assert_close(found, x.sign())
    seen = []

    class Below(facula.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Below():
        facula.absolute(x), x.abs()
    assert seen == [facula.ops.aten.abs.default] * 2


def test_a_class_keeps_its_own_methods():
    class Own(facula.Tensor):
        def size(self):
            return "own"

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is facula.Tensor.stride:
                return "handled"
            return super().__torch_function__(func, types, args, kwargs or {})

    x = facula.ones(2, 3).as_subclass(Own)
    assert x.size() == "own" and x.stride() == "handled" and x.numel() == 6
    assert Own.stride is facula.Tensor.stride and facula.ones(2).stride() == (1,)


def test_in_place_forms_and_any_arguments_are_offered():
    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    assert (
        facula.abs_(Other()) is facula.abs_ and facula.Tensor.add_(Other(), 1) is facula.Tensor.add_
    )
    quantize = facula.quantize_per_tensor
    assert quantize(Other(), 0.1, 0, facula.quint8) is quantize
    with pytest.raises(TypeError, match="a tensor was required"):
        facula.abs_(3)


def test_the_package_hears_of_tensors_on_the_right():
    x = facula.tensor([2.0, 4.0])
    traced = facula.jit.trace(lambda x: (1 - x, 2**x, 9 // x, 8 / x, 9 % x), (x,))
    for got, wanted in zip(traced(x + 1), (1 - (x + 1), 2 ** (x + 1), 9 // (x + 1), 8 / (x + 1), 9 % (x + 1)),
                           strict=True):  # fmt: skip
        facula.testing.assert_close(got, wanted)
    batch = facula.nested.nested_tensor([x, x[:1]])
    for call in (lambda t: 1 - t, lambda t: 2**t, lambda t: 8 / t, lambda t: t**2):
        for got, row in zip(call(batch).unbind(), (x, x[:1]), strict=True):
            facula.testing.assert_close(got, call(row))
    masked = facula.masked.masked_tensor(x, facula.tensor([True, False]))
    assert (1 - masked).to_tensor(0.0).tolist() == [-1.0, 0.0]
    with pytest.raises(ValueError, match="uninitialized"):
        1 - facula.nn.parameter.UninitializedParameter()
