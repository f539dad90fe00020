"""What conversions of modules do to parameters: new data, new parameters, or an exchange, as a program asks."""

import weakref

import pytest

import facula
from facula import nn

switches = facula.__future__


@pytest.fixture
def swapping():
    switches.set_swap_module_params_on_conversion(True)
    yield
    switches.set_swap_module_params_on_conversion(False)


@pytest.fixture
def overwriting():
    switches.set_overwrite_module_params_on_conversion(True)
    yield
    switches.set_overwrite_module_params_on_conversion(False)


def layer():
    made = nn.Linear(2, 2)
    made(facula.ones(1, 2)).sum().backward()
    return made, made.weight, made.weight.grad


def test_both_are_off():
    assert not switches.get_swap_module_params_on_conversion()
    assert not switches.get_overwrite_module_params_on_conversion()
    made, weight, _ = layer()
    made.double()
    assert made.weight is weight and weight.dtype is facula.float64


def test_exchanged_parameters_and_gradients_stay_the_same_objects(swapping):
    made, weight, grad = layer()
    before = weight.tolist()
    made.double()
    assert made.weight is weight and weight.grad is grad
    assert weight.dtype is grad.dtype is facula.float64 and weight.requires_grad and weight.is_leaf
    assert weight.tolist() == before and grad.tolist() == [[1.0, 1.0]] * 2
    made(facula.ones(1, 2, dtype=facula.float64)).sum().backward()
    assert grad.tolist() == [[2.0, 2.0]] * 2


@pytest.mark.parametrize("assign", [False, True])
def test_loading_exchanges_parameters_too(swapping, assign):
    made, weight, _ = layer()
    made.load_state_dict(
        {"weight": facula.full((2, 2), 3.0), "bias": facula.zeros(2)}, assign=assign
    )
    assert made.weight is weight and weight.tolist() == [[3.0, 3.0]] * 2 and weight.requires_grad
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        made.load_state_dict({"weight": facula.ones(3, 3), "bias": facula.ones(2)}, assign=assign)


def test_a_class_says_what_a_parameter_becomes(swapping):
    class Scaled(facula.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is facula.Tensor.module_load:
                return args[1] * 10
            return super().__torch_function__(func, types, args, kwargs or {})

    made = nn.Linear(1, 1, bias=False)
    made.weight = nn.Parameter(facula.ones(1, 1).as_subclass(Scaled))
    weight = made.weight
    made.load_state_dict({"weight": facula.full((1, 1), 2.0)})
    assert made.weight is weight and weight.item() == 20.0


def test_what_cannot_be_exchanged_is_named_and_keeps_its_gradient(swapping):
    made, weight, grad = layer()
    watched = weakref.ref(weight)
    with pytest.raises(RuntimeError, match=r"_apply\(\): Couldn't swap Linear.weight"):
        made.double()
    assert watched() is weight and weight.grad is grad and weight.dtype is facula.float32


def test_a_gradient_that_cannot_be_exchanged_leaves_both_as_they_were(swapping):
    made, weight, grad = layer()
    watched, before = weakref.ref(grad), weight.tolist()
    with pytest.raises(RuntimeError, match=r"Couldn't swap Linear.weight"):
        made.double()
    assert watched() is weight.grad is grad and weight.dtype is grad.dtype is facula.float32
    assert made.weight is weight and weight.tolist() == before and grad.tolist() == [[1.0, 1.0]] * 2


def test_overwritten_parameters_are_new(overwriting):
    made, weight, grad = layer()
    made.double()
    assert made.weight is not weight and weight.dtype is facula.float32 and weight.grad is grad
    assert made.weight.dtype is made.weight.grad.dtype is facula.float64
    assert made.weight.grad.tolist() == grad.tolist() and made.weight.requires_grad
