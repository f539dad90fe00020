"""Calls that programs make beside their operators are part of one graph, with the result and the effect of eager."""

from __future__ import annotations

import enum
import warnings

import numpy as np
import pytest

import facula


def compiled(function, *args):
    facula._dynamo.reset()
    return facula.compile(function, backend="eager", fullgraph=True)(*args)


class Colour(enum.Enum):
    RED = 1
    BLUE = 4


def test_filters_of_warnings_are_put_back():
    def function(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x.sin()

    before, shown = warnings.filters, list(warnings.filters)
    x = facula.ones(2)
    assert facula.equal(compiled(function, x), x.sin())
    assert warnings.filters is before and warnings.filters == shown


def test_a_filter_that_a_function_adds_stays():
    def function(x):
        warnings.filterwarnings("error", "told of once")
        return x + 1

    with warnings.catch_warnings():
        compiled(function, facula.ones(1))
        with pytest.raises(UserWarning, match="told of once"):
            warnings.warn("told of once", UserWarning, stacklevel=1)


@pytest.mark.breaks
def test_a_warning_under_changed_filters_is_left_to_python():
    def function(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("nobody hears this", UserWarning, stacklevel=1)
        return x + 1

    facula._dynamo.reset()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert facula.compile(function, backend="eager")(facula.ones(1)).tolist() == [2.0]
    assert not heard


def test_members_of_an_enumeration():
    def function(x):
        members = Colour.__members__
        return x * len(members) + sum(m.value for m in members.values()) + ("RED" in members)

    assert compiled(function, facula.ones(2)).tolist() == [8.0, 8.0]


def test_questions_about_devices():
    def function(x):
        here = facula.accelerator.is_available(), facula.xpu.is_available()
        return x + sum(here), here

    x = facula.ones(2)
    assert compiled(function, x)[1] == function(x)[1]


def test_lists_of_arrays():
    found = compiled(lambda x: x.tolist(), np.arange(6).reshape(2, 3))
    assert found == [[0, 1, 2], [3, 4, 5]] and type(found[0][0]) is int
    found = compiled(lambda x: x.numpy().tolist(), facula.tensor([0.5, 1.5]))
    assert found == [0.5, 1.5]


def test_the_overload_that_takes_the_arguments_is_called():
    with facula.library._scoped_library("compiled_calls", "FRAGMENT") as library:
        library.define("chosen.tensor(Tensor x) -> Tensor")
        library.define("chosen.int(Tensor x, int dim) -> Tensor")
        library.impl("chosen.tensor", facula.sin, "CompositeImplicitAutograd")
        library.impl("chosen.int", facula.sum, "CompositeImplicitAutograd")
        x = facula.arange(6.0).reshape(2, 3)
        operator = facula.ops.compiled_calls.chosen
        assert facula.equal(compiled(lambda x: operator(x), x), x.sin())
        assert facula.equal(compiled(lambda x: operator(x, 1), x), x.sum(1))


def test_an_operator_whose_own_argument_is_called_out():
    with facula.library._scoped_library("compiled_calls", "FRAGMENT") as library:
        library.define("fill(Tensor x, *, Tensor(a!) out) -> ()")
        library.impl("fill", lambda x, out: (out.copy_(x * 2), None)[1], "CPU")
        library.impl("fill", lambda x, out: None, "Meta")

        def function(x):
            out = facula.zeros(3)
            facula.ops.compiled_calls.fill(x, out=out)
            return out + 1

        assert compiled(function, facula.ones(3)).tolist() == [3.0, 3.0, 3.0]


def test_an_operator_that_raises_is_a_runtime_error_of_the_program():
    error = facula._dynamo.exc.TorchRuntimeError
    with pytest.raises(error, match="cannot be multiplied"):
        compiled(lambda x: x @ facula.ones(5, 2), facula.ones(3))


def accumulated(x, v):
    return x.clone().index_put_((x > 0,), v, accumulate=True)


def assigned(x, v):
    x = x.clone()
    x[x > 0] = v
    return x


def assigned_in_columns(x, v):
    x = x.clone()
    x[:, x[0] > 0] = v
    return x


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(
    "function", [assigned, accumulated, lambda x, v: facula.index_put(x, (x > 0,), v)]
)
def test_a_value_for_each_element_of_a_mask(function, backend):
    facula._dynamo.reset()
    compiled = facula.compile(function, fullgraph=True, backend=backend)
    x = facula.tensor([[1.0, -1.0, 2.0], [-3.0, -4.0, -5.0]])
    v = facula.tensor([5.0, 6.0], requires_grad=True)
    found = compiled(x, v)
    assert found.tolist() == function(x, v).tolist()
    (found * facula.arange(6.0).reshape(2, 3)).sum().backward()
    assert v.grad.tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        compiled(-x, v)  # there are four places


def test_columns_of_a_mask():
    x, v = facula.tensor([[1.0, -1.0, 2.0], [-3.0, -4.0, -5.0]]), facula.arange(4.0).reshape(2, 2)
    facula._dynamo.reset()
    compiled = facula.compile(assigned_in_columns, fullgraph=True)
    assert compiled(x, v).tolist() == [[0.0, -1.0, 1.0], [2.0, -4.0, 3.0]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_choice_that_decides_a_size(backend):
    def function(p, x):
        return facula.cond(p, lambda t: t + 1, lambda t: (t * 2)[:2], (x,)).sum(0) * 2

    facula._dynamo.reset()
    compiled = facula.compile(function, fullgraph=True, backend=backend)
    x = facula.arange(12.0).reshape(3, 4)
    for choice in (True, False, True):
        p = facula.tensor(choice)
        assert facula.equal(compiled(p, x), function(p, x))
