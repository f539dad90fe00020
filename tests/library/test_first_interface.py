"""PyTorch's first interface of operators (`_custom_ops`): one registration at a time, gradients by the names
of arguments."""

from collections.abc import Sequence

import pytest

import facula
from facula import Tensor, _custom_ops
from facula._custom_op.impl import CustomOp, get_op


@pytest.fixture
def name():
    yield "first_interface::scaled"
    _custom_ops._destroy("first_interface::scaled")


def define(name):
    @_custom_ops.custom_op(name)
    def scaled(x: Tensor, factor: float) -> Tensor:
        raise NotImplementedError

    @_custom_ops.impl(name, device_types="cpu")
    def run(x, factor):
        return x * factor

    return scaled


def test_an_operator_with_a_gradient_by_names(name):
    define(name)
    seen = []

    @_custom_ops.impl_save_for_backward(name)
    def save(inputs, output):
        seen.append(tuple(inputs._asdict()))
        return inputs.factor

    @_custom_ops.impl_backward(name)
    def backward(ctx, saved, grad):
        return {"x": grad * saved}

    x = facula.tensor([1.0, 2.0], requires_grad=True)
    y = get_op(name)(x, 3.0)
    assert y.tolist() == [3, 6]
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert seen == [("x", "factor")]


def test_a_function_for_tensors_without_data(name):
    define(name)
    _custom_ops.impl_abstract(name, func=lambda x, factor: facula.empty_like(x))
    assert get_op(name)(facula.empty(3, device="meta"), 2.0).shape == (3,)


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda g: g, "dict"),
        (lambda g: {"x": g, "y": g}, "have keys"),
        (lambda g: {"x": g, "factor": g}, "non-Tensor-like"),
        (lambda g: {}, "have keys"),
        (lambda g: {"x": (g,)}, "either None or a Tensor"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(name, given, message):
    define(name)
    _custom_ops.impl_save_for_backward(name)(lambda inputs, output: None)
    _custom_ops.impl_backward(name)(lambda ctx, saved, grad: given(grad))
    y = get_op(name)(facula.ones(2, requires_grad=True), 2.0)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_lists_of_tensors_get_lists_of_gradients(name):
    @_custom_ops.custom_op(name)
    def scaled(xs: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    _custom_ops.impl(name)(lambda xs: xs[0] + xs[1])
    _custom_ops.impl_save_for_backward(name)(lambda inputs, output: None)
    _custom_ops.impl_backward(name)(lambda ctx, saved, grad: {"xs": [grad, 2 * grad]})
    a, b = facula.ones(2, requires_grad=True), facula.ones(2, requires_grad=True)
    get_op(name)([a, b]).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([1, 1], [2, 2])


def test_what_is_no_operator_of_this_kind_is_refused(name):
    define(name)
    with pytest.raises(RuntimeError, match="multiple times"):
        define(name)
    with pytest.raises(ValueError, match="reserved"):
        _custom_ops.custom_op("aten::scaled", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="overload"):
        _custom_ops.custom_op("first_interface::other.form", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="functional"):
        _custom_ops.custom_op("first_interface::other", "(Tensor(a!) x) -> ()")
    with pytest.raises(ValueError, match="device_type"):
        _custom_ops.impl(name, device_types="xla")
    with pytest.raises(RuntimeError, match="could not|Could not"):
        get_op("first_interface::nothing")
    with pytest.raises(RuntimeError, match="private"):
        CustomOp(None, None, None, None, None)


def test_the_context_of_a_fake_implementation():
    from facula._subclasses import DynamicOutputShapeException, FakeTensorMode

    with pytest.raises(RuntimeError, match="fake implementation"):
        facula.library.get_ctx()

    @facula.library.custom_op("first_interface::chosen", mutates_args=())
    def chosen(x: Tensor) -> Tensor:
        return x[x > 0]

    @chosen.register_fake
    def _(x):
        return x.new_empty(facula.library.get_ctx().new_dynamic_size())

    assert chosen(facula.tensor([1.0, -1.0])).tolist() == [1]
    with FakeTensorMode(), pytest.raises(DynamicOutputShapeException):
        chosen(facula.ones(2))
