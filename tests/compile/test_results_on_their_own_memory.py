"""What a compiled function returns shares memory with inputs and other results where the function itself does.

The oracle is the function itself, run by Python.
"""

import pytest

import facula

tensor = facula.tensor


def _copied(x):
    made = facula.zeros(3)
    made.copy_(x)
    return made


def _assigned(x):
    made = facula.empty(3)
    made[...] = x
    return made, x


def _copied_twice(x):
    y = x * 2
    first, second = facula.zeros(3), facula.zeros(3)
    first.copy_(y)
    second.copy_(y)
    return first, second, y


def _copied_and_viewed(x):
    y = x * 2
    made = facula.zeros(3)
    made.copy_(y)
    return made, y, y.view(-1), made[:2]


def _copied_of_a_view(x):
    made = facula.zeros(2, 1)
    made.copy_(x[1:].unsqueeze(1))
    return made, x[1:]


def _copied_before_a_write(x):
    made = facula.zeros(3)
    made.copy_(x)
    with facula.no_grad():
        x.mul_(5)
    return made


def _called(function, x, needs):
    x = x.clone().requires_grad_(needs)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    places = [t.untyped_storage().data_ptr() for t in (x, *results)]
    return (
        [places.index(p) for p in places],
        [t is x for t in results],
        [t.tolist() for t in (x, *results)],
    )


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        _copied,
        _assigned,
        _copied_twice,
        _copied_and_viewed,
        _copied_of_a_view,
        _copied_before_a_write,
    ],
)
def test_elements_copied_into_new_memory_are_no_other_tensors(function, needs):
    x = tensor([1.0, 2.0, 3.0])
    compiled = facula.compile(function, backend="inductor")
    assert _called(compiled, x, needs) == _called(function, x, needs)


def test_a_result_may_be_written_without_the_input_changing():
    x = tensor([1.0, 2.0, 3.0])
    found = facula.compile(_copied)(x)
    found.zero_()
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_an_index_of_everything_is_a_tensor_of_its_own():
    def function(x):
        view = x[...]
        view.unsqueeze_(0)
        return x, view

    x = tensor([1.0, 2.0])
    found, view = facula.compile(function)(x)
    assert found is x and found.shape == (2,) and view.shape == (1, 2)


@pytest.mark.breaks
def test_an_output_that_is_an_index_of_everything_keeps_the_shape_of_its_source():
    def function(a, b, x):
        facula.maximum(a, b, out=x[...])
        return x

    arguments = [tensor([1.0, 1.0, 1.0]), tensor([0.0, 1.0, 2.0]), tensor([0.0])]
    with pytest.warns(UserWarning, match="resized"):
        found = facula.compile(function)(*arguments)
    assert found is arguments[2] and found.tolist() == [1.0]


@pytest.mark.breaks
def test_gradients_and_out_exclude_each_other():
    def function(a, b):
        try:
            facula.add(a, b, out=a)
        except RuntimeError:
            return a * 3
        return a

    a, b = tensor([1.0, 2.0]), tensor([1.0, 1.0]).requires_grad_()
    assert facula.compile(function)(a, b).tolist() == [3.0, 6.0]


def test_tensors_without_elements_overlap_nothing():
    def function(x):
        return x.neg_()

    x = facula.ones(0).expand(2, 0)
    assert facula.compile(function)(x) is x
    b = facula.ones(0, 3)
    out = b[None]
    assert facula.sub(b[:-1], b[:-1], out=out).shape == (0, 3)
