"""Compiled functions do what Python does in its corners, and notice what their answers rest on."""

import functools
import itertools

import pytest

import facula


def compiled(function, **options):
    return facula.compile(function, backend="eager", **options)


def zeros():
    return facula.zeros(1)


def test_a_tensor_that_gets_an_attribute_is_asked_again():
    def function(x):
        return x + 2 if hasattr(x, "mark") else x + 1

    run, marked = compiled(function), zeros()
    assert run(zeros()).item() == 1
    marked.mark = None
    assert run(marked).item() == 2
    del marked.mark
    assert run(marked).item() == 1


def test_inference_tensors_are_told_from_others():
    def function(x):
        return x + 1 if x.is_inference() else x + 2

    run = compiled(function)
    with facula.inference_mode():
        inference = zeros()
    assert [run(x).item() for x in (zeros(), inference, zeros())] == [2, 1, 2]


def test_shared_tensors_are_told_from_others():
    def function(x):
        return x + 1 if x.is_shared() else x + 2

    run = compiled(function)
    assert [run(x).item() for x in (zeros(), zeros().share_memory_(), zeros())] == [2, 1, 2]


def test_the_number_of_the_device():
    run = compiled(lambda x: (x.get_device(), (x + 1).get_device()), fullgraph=True)
    assert run(zeros()) == (-1, -1)


def test_complex_takes_its_keywords():
    def function(x):
        numbers = (0j, complex(imag=2), complex(real=1), complex(1, imag=3), complex("1+2j"))
        return [x + z for z in numbers]

    found = [y.item() for y in compiled(function)(zeros())]
    assert found == [0j, 2j, 1 + 0j, 1 + 3j, 1 + 2j]


def test_a_generator_that_raises_stop_iteration():
    def numbers():
        yield 1
        raise StopIteration("early")

    def function(x):
        made = numbers()
        next(made)
        try:
            next(made)
        except RuntimeError as error:
            return x + 1, str(error)
        except StopIteration:
            return x + 2, ""

    result, text = compiled(function)(zeros())
    assert result.item() == 1 and text == "generator raised StopIteration"


def test_a_generator_that_ends_still_stops():
    def function(x):
        made = (n for n in (1, 2))
        return x + sum(made), next(made, 7)

    result, end = compiled(function)(zeros())
    assert result.item() == 3 and end == 7


def test_wrapped_functions_keep_their_texts():
    def function(x):
        def inner(y):
            """Doubles."""
            return y * 2

        @functools.wraps(inner)
        def outer(*args):
            return inner(*args)

        return x, outer.__doc__, outer.__name__, outer.__wrapped__ is inner, outer, inner

    _, doc, name, same, outer, inner = compiled(function)(zeros())
    assert (doc, name, same) == ("Doubles.", "inner", True)
    assert outer.__doc__ == inner.__doc__ == "Doubles." and outer.__wrapped__ is inner
    assert outer.__qualname__ == inner.__qualname__ and outer(4) == 8


def test_functions_without_a_docstring_have_none():
    def function(x):
        def bare():
            return "no docstring"

        return x, bare.__doc__

    assert compiled(function)(zeros())[1] is None


def test_a_truth_that_is_no_bool():
    class Odd:
        def __bool__(self):
            return 1.2

    run = compiled(lambda x, odd: x + 1 if odd else x)
    with pytest.raises(TypeError, match="__bool__ should return bool, returned float"):
        run(zeros(), Odd())


def test_a_local_function_that_names_itself():
    @compiled
    def run(x):
        def again():
            return again

        def down(n):
            return n if n == 0 else down(n - 1)

        return x + 1, again, down

    result, again, down = run(zeros())
    assert result.item() == 1 and again() is again and down(5) == 0


def test_two_local_functions_that_name_each_other():
    @compiled
    def run(x):
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n != 0 and even(n - 1)

        return x, even, odd

    _, even, odd = run(zeros())
    assert even(4) and odd(3) and not odd(4)


@pytest.mark.parametrize("made_inside", [False, True])
def test_partial_functions_can_be_called(made_inside):
    outside = functools.partial(lambda a, b: a + b, 1)

    def function(x):
        part = functools.partial(lambda a, b: a + b, 1) if made_inside else outside
        return x + part.__call__(2), hasattr(part, "__call__"), callable(part)  # noqa: B004

    result, has, can = compiled(function)(zeros())
    assert result.item() == 3 and has and can


@pytest.mark.breaks("unsupported-value")
def test_a_list_of_endless_numbers_is_left_to_python():
    """A program whose iterator may have no end: capturing it ends."""

    def function(x, count):
        return x + sum(list(itertools.islice(itertools.count(1), count)))

    with facula._dynamo.config.patch(iteration_limit=50):
        assert compiled(function)(zeros(), 3).item() == 6
        assert compiled(function)(zeros(), 60).item() == 60 * 61 / 2
        with pytest.raises(facula._dynamo.exc.Unsupported, match="50 values of an iterator"):
            compiled(lambda x: x + len(list(itertools.count())), fullgraph=True)(zeros())


def test_the_start_of_an_endless_iterator_is_unpacked():
    def plain():
        numbers = itertools.count(1)
        try:
            first, second = numbers
        except ValueError:
            return next(numbers)

    def captured(x):
        return x + plain()

    assert compiled(captured)(zeros()).item() == plain() == 4


def test_typed_constructors_are_captured():
    run = compiled(lambda x: x + facula.LongTensor([1, 2]), fullgraph=True)
    assert run(facula.ones(2)).tolist() == [2.0, 3.0]
