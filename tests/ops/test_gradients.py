"""Gradients against finite differences in float64, once and twice."""

import pytest
from operator_cases import DEFINITIONS, EVERY, POINTWISE, TABLE, Samples, admits, calls, tensors_in

import facula
from facula.autograd import gradcheck, gradgradcheck

#: tried in turn until the function is finite everywhere
BOUNDS = (None, (0.2, 1.9), (0.1, 0.9))


def differentiable(name):
    definition = DEFINITIONS[name]
    if definition.kind == "pointwise":
        return definition.differentiable and definition.result != "bool" and admits(name, "float")
    return definition.backward is not None


def finite(result):
    return all(bool(facula.isfinite(x).all()) for x in tensors_in(result) if x.is_floating_point())


def float64_calls(name):
    if name not in POINTWISE:
        return calls(name, Samples(facula.float64))
    for bounds in BOUNDS:
        settings = {} if bounds is None else {"bounds": bounds}
        found = calls(name, Samples(facula.float64, seed=3), shape=(2, 3), **settings)
        if all(finite(TABLE[name](*args, **kwargs)) for args, kwargs in found):
            return found
    raise AssertionError("no bounds make the function finite")


def as_function(name, args, kwargs):
    """The operator as a function of its floating point tensors, and these tensors."""
    places, leaves = [], []

    def strip(value):
        if isinstance(value, facula.Tensor):
            if value.is_floating_point() or value.is_complex():
                leaves.append(value.detach().clone().requires_grad_())
                return ("leaf", len(leaves) - 1)
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(strip(v) for v in value)
        return value

    def fill(value, tensors):
        if isinstance(value, tuple) and len(value) == 2 and value[0] == "leaf":
            return tensors[value[1]]
        if isinstance(value, (list, tuple)):
            return type(value)(fill(v, tensors) for v in value)
        return value

    places = [strip(a) for a in args]
    keywords = {k: strip(v) for k, v in kwargs.items()}
    hidden = DEFINITIONS[name].nondifferentiable

    def function(*tensors):
        result = TABLE[name](
            *[fill(p, tensors) for p in places], **{k: fill(v, tensors) for k, v in keywords.items()}
        )
        if isinstance(result, (tuple, list)):
            return tuple(r for i, r in enumerate(result) if i not in hidden and r.requires_grad)
        return result

    return function, leaves


GRADIENTS = [name for name in EVERY if differentiable(name)]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    for args, kwargs in float64_calls(name):
        function, leaves = as_function(name, args, kwargs)
        assert gradcheck(function, tuple(leaves))


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_of_the_gradient(name):
    for args, kwargs in float64_calls(name):
        function, leaves = as_function(name, args, kwargs)
        elements = sum(x.numel() for x in leaves)
        assert gradgradcheck(function, tuple(leaves), fast_mode=elements > 24)


@pytest.mark.parametrize("name", [n for n in EVERY if n not in GRADIENTS])
def test_no_gradient_is_recorded_or_it_is_refused(name):
    """What is not differentiable gives results without history."""
    dtype = facula.float64 if admits(name, "float") else facula.int64
    for args, kwargs in calls(name, Samples(dtype)):
        function, leaves = as_function(name, args, kwargs)
        result = function(*leaves)
        for tensor in tensors_in(result):
            assert not tensor.requires_grad
