"""Gradients against finite differences in float64, once and twice."""

import pytest
from operator_cases import DEFINITIONS, EVERY, POINTWISE, TABLE, Samples, admits, calls, tensors_in

import facula
from facula.autograd import gradcheck, gradgradcheck
from facula.ops.expr import scalar

#: tried in turn until the function is finite everywhere
BOUNDS = (None, (0.2, 1.9), (0.1, 0.9), (1.2, 2.9))


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


def refused(name, args, kwargs):
    """The tensor arguments whose derivative the definition does not know."""
    definition = DEFINITIONS[name]
    if definition.kind != "pointwise" or not admits(name, "float"):
        return set()
    given = dict(zip((p.name for p in definition.schema.parameters), args, strict=False)) | kwargs
    tensors = definition.schema.tensor_parameters
    fixed = definition.compute or {}
    dtypes = [fixed.get(p.name, "f64") if given.get(p.name) is not None else None for p in tensors]
    attributes = {
        p.name: given.get(p.name, p.default if p.has_default else None)
        for p in definition.schema.attributes
    }
    traced = scalar.trace(definition.body, dtypes, attributes)
    unknown = set()
    for wrt, parameter in enumerate(tensors):
        try:
            scalar.gradient(traced, wrt, definition.explicit_backward)
        except NotImplementedError:
            unknown.add(parameter.name)
    return unknown


def as_function(name, args, kwargs):
    """The operator as a function of its floating point tensors, and these tensors."""
    leaves = []
    names = [p.name for p in DEFINITIONS[name].schema.parameters]
    unknown = refused(name, args, kwargs)

    def strip(value, argument):
        if isinstance(value, facula.Tensor) and argument not in unknown:
            if value.is_floating_point() or value.is_complex():
                leaves.append(value.detach().clone().requires_grad_())
                return ("leaf", len(leaves) - 1)
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(strip(v, argument) for v in value)
        return value

    def fill(value, tensors):
        if isinstance(value, tuple) and len(value) == 2 and value[0] == "leaf":
            return tensors[value[1]]
        if isinstance(value, (list, tuple)):
            return type(value)(fill(v, tensors) for v in value)
        return value

    places = [strip(a, n) for a, n in zip(args, names, strict=False)]
    keywords = {k: strip(v, k) for k, v in kwargs.items()}
    hidden = DEFINITIONS[name].nondifferentiable

    def function(*tensors):
        result = TABLE[name](
            *[fill(p, tensors) for p in places],
            **{k: fill(v, tensors) for k, v in keywords.items()},
        )
        if isinstance(result, (tuple, list)):
            return tuple(r for i, r in enumerate(result) if i not in hidden and r.requires_grad)
        return result

    return function, leaves


GRADIENTS = [name for name in EVERY if differentiable(name)]
DERIVATIVES = [name for name in GRADIENTS if not DEFINITIONS[name].convention]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_gradient(name):
    for args, kwargs in float64_calls(name):
        function, leaves = as_function(name, args, kwargs)
        if leaves:
            assert gradcheck(function, tuple(leaves))
        refuse_unknown(name, args, kwargs)


COMPLEX = [name for name in DERIVATIVES if name in POINTWISE and admits(name, "complex")]


@pytest.mark.parametrize("name", COMPLEX)
def test_gradient_of_complex_numbers(name):
    """In the four quadrants, away from cuts and poles."""
    refuses = getattr(DEFINITIONS[name], "unsupported", None)
    for args, kwargs in calls(name, Samples(facula.complex128, seed=2), shape=(2, 3)):
        if refuses is None or not refuses("c128", kwargs):
            function, leaves = as_function(name, args, kwargs)
            assert gradcheck(function, tuple(leaves))


def refuse_unknown(name, args, kwargs):
    """An unknown derivative is an error that names the operator, never a zero."""
    names = [p.name for p in DEFINITIONS[name].schema.parameters]
    given = dict(zip(names, args, strict=False)) | kwargs
    for argument in refused(name, args, kwargs):
        leaf = given[argument].detach().clone().requires_grad_()
        result = TABLE[name](**(given | {argument: leaf}))
        with pytest.raises(NotImplementedError, match=r"^\["):
            result.sum().backward()


@pytest.mark.parametrize("name", DERIVATIVES)
def test_gradient_of_the_gradient(name):
    for args, kwargs in float64_calls(name):
        function, leaves = as_function(name, args, kwargs)
        if not leaves:
            continue
        elements = sum(x.numel() for x in leaves)
        try:
            assert gradgradcheck(function, tuple(leaves), fast_mode=elements > 24)
        except RuntimeError as error:
            # a second derivative that is refused is refused by name, and only where it is asked for
            if "is not implemented" not in str(error):
                raise
            assert str(error).startswith("[")
            rest = [x.detach() for x in leaves[1:]]
            assert gradgradcheck(lambda x, f=function, r=rest: f(x, *r), leaves[0], fast_mode=True)


@pytest.mark.parametrize("name", [name for name in GRADIENTS if name not in DERIVATIVES])
def test_gradient_by_convention(name):
    """Where the gradient is not the derivative it is still linear, finite and of the right shape."""
    for args, kwargs in float64_calls(name):
        function, leaves = as_function(name, args, kwargs)
        results = [r for r in tensors_in(function(*leaves)) if r.is_floating_point()]
        ones = [facula.ones_like(r) for r in results]
        unused = {"allow_unused": True, "materialize_grads": True}
        once = facula.autograd.grad(results, leaves, ones, retain_graph=True, **unused)
        twice = facula.autograd.grad(results, leaves, [2 * g for g in ones], **unused)
        for leaf, a, b in zip(leaves, once, twice, strict=True):
            assert a.shape == leaf.shape and finite(a)
            assert facula.equal(2 * a, b)


def test_the_mode_passes_its_gradient_to_the_chosen_element():
    x = facula.tensor([[1.0, 2.0, 2.0, 3.0], [5.0, 4.0, 5.0, 4.0]], requires_grad=True)
    values, indices = x.mode(1)
    values.backward(facula.tensor([10.0, 20.0]))
    expected = facula.zeros(2, 4).scatter(1, indices[:, None], facula.tensor([[10.0], [20.0]]))
    assert values.tolist() == [2.0, 4.0] and facula.equal(x.grad, expected)


def test_the_padding_row_takes_no_gradient():
    weight = facula.ones(4, 2, requires_grad=True)
    facula.nn.functional.embedding(
        facula.tensor([1, 2, 1, 3]), weight, padding_idx=1
    ).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("name", [n for n in EVERY if n not in GRADIENTS])
def test_no_gradient_is_recorded_or_it_is_refused(name):
    """What is not differentiable gives results without history."""
    dtype = facula.float64 if admits(name, "float") else facula.int64
    for args, kwargs in calls(name, Samples(dtype)):
        function, leaves = as_function(name, args, kwargs)
        result = function(*leaves)
        for tensor in tensors_in(result):
            assert not tensor.requires_grad
