"""Compiled programs read the elements that NumPy's do, wherever their inputs lie in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest

import facula


def elements(*shape: int) -> numpy.ndarray:
    return numpy.random.RandomState(3).uniform(-2, 2, shape)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(5, 5), (3, 4), (2, 3, 4), (7, 2)])
def test_a_flip_of_flattened_transposed_elements(shape: tuple[int, ...], dynamic: bool) -> None:
    data = elements(*shape)
    x = facula.tensor(data).permute(*reversed(range(len(shape))))

    def flipped(x: facula.Tensor) -> facula.Tensor:
        return x.reshape(-1).flip(0).reshape(x.shape)

    got = facula.compile(flipped, dynamic=dynamic)(x)
    want = data.T.reshape(-1)[::-1].reshape(data.T.shape)
    numpy.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("start", [1, 3, 8])
@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_a_copy_of_an_input_that_begins_inside_its_storage(
    start: int, dynamic: bool
) -> None:
    data = elements(16 + start)
    x = facula.tensor(data)[start:].view(4, 4)

    def shifted(x: facula.Tensor) -> tuple[facula.Tensor, facula.Tensor]:
        copy = x.clone()
        copy[1:].add_(copy[:-1].clone())
        return copy, x.clone()[2:, 1:] * 2

    got = facula.compile(shifted, dynamic=dynamic)(x)
    plain = data[start:].reshape(4, 4)
    want = plain.copy()
    want[1:] += plain[:-1]
    numpy.testing.assert_array_equal(got[0].numpy(), want)
    numpy.testing.assert_array_equal(got[1].numpy(), plain[2:, 1:] * 2)


def test_a_view_of_equal_shape_at_another_place() -> None:
    data = elements(9)

    def second(x: facula.Tensor) -> facula.Tensor:
        return x[:-1].as_strided((8,), (1,), 1) * 2 + x[:-1]

    got = facula.compile(second)(facula.tensor(data))
    numpy.testing.assert_array_equal(got.numpy(), data[1:] * 2 + data[:-1])


@pytest.mark.parametrize(
    ("find", "oracle"),
    [
        (lambda v: v.argmax(-1), lambda v: v.argmax(-1)),
        (lambda v: v.min(-1).indices, lambda v: v.argmin(-1)),
    ],
)
def test_places_of_extremes_of_functions_with_a_fast_form(
    find: Callable[[facula.Tensor], facula.Tensor], oracle: Callable[[numpy.ndarray], object]
) -> None:
    data = elements(6, 40)
    data[2, 7] = 1e20  # where the fast form of fmod does not hold

    def places(x: facula.Tensor) -> tuple[facula.Tensor, facula.Tensor]:
        rest = facula.fmod(x, 0.75)
        return rest, find(rest)

    rest, found = facula.compile(places)(facula.tensor(data))
    want = numpy.fmod(data, 0.75)
    numpy.testing.assert_array_equal(rest.numpy(), want)
    numpy.testing.assert_array_equal(found.numpy(), oracle(want))
