"""Compiled programs refuse what eager execution refuses: results that lie partly over what is still to be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest

import facula

BEFORE = numpy.arange(8, dtype="float32")


def add_in_place(x: facula.Tensor, y: facula.Tensor) -> facula.Tensor:
    x.add_(y)
    return x * 1


def add_into(x: facula.Tensor, y: facula.Tensor) -> facula.Tensor:
    return facula.add(x, y, out=x) * 1


def cumsum_into(x: facula.Tensor, y: facula.Tensor) -> facula.Tensor:
    return facula.cumsum(y, 0, out=x) * 1


@pytest.mark.breaks("fake-error")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", [add_in_place, add_into, cumsum_into])
@pytest.mark.parametrize("apart_first", [False, True])
def test_a_shifted_block(program: Callable, apart_first: bool, dynamic: bool) -> None:
    compiled = facula.compile(program, dynamic=dynamic)
    if apart_first:
        held = facula.tensor(BEFORE)
        compiled(held[:3], held[3:6])
    held = facula.tensor(BEFORE)
    with pytest.raises(RuntimeError, match="apart from the result in memory"):
        compiled(held[:3], held[1:4])
    numpy.testing.assert_array_equal(held.numpy(), BEFORE)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_same_block_and_separate_ones(dynamic: bool) -> None:
    compiled = facula.compile(add_in_place, dynamic=dynamic)
    for first, second in ((slice(0, 3), slice(0, 3)), (slice(0, 3), slice(3, 6))):
        held, want = facula.tensor(BEFORE), BEFORE.copy()
        want[first] = want[first] + want[second]
        got = compiled(held[first], held[second])
        numpy.testing.assert_array_equal(got.numpy(), want[first])
        numpy.testing.assert_array_equal(held.numpy(), want)


@pytest.mark.breaks("fake-error")
def test_the_refusal_is_caught_where_the_program_catches_it() -> None:
    def caught(x: facula.Tensor, y: facula.Tensor) -> facula.Tensor:
        try:
            x.add_(y)
        except RuntimeError:
            y.add_(100)
        return x * 1

    held, want = facula.tensor(BEFORE), BEFORE.copy()
    want[1:4] += 100
    got = facula.compile(caught)(held[:3], held[1:4])
    numpy.testing.assert_array_equal(held.numpy(), want)
    numpy.testing.assert_array_equal(got.numpy(), want[:3])


def test_tensors_without_elements_refuse_it_too() -> None:
    held = facula.empty(6, device="meta")
    with pytest.raises(RuntimeError, match="apart from the result in memory"):
        held[:3].lerp_(held[1:4], 0.5)
    with pytest.raises(RuntimeError, match="apart from the result in memory"):
        facula.add(held[:3], held[1:4], out=held[2:5])
    assert held[:3].add_(held[:3]).shape == (3,)


def test_a_program_that_is_refused_leaves_recording_on() -> None:
    def write(x: facula.Tensor) -> facula.Tensor:
        with facula.no_grad():
            x.as_strided((9,), (1,)).add_(1)
        return x

    with pytest.raises(RuntimeError, match="as_strided"):
        facula.compile(write)(facula.ones(3))
    assert facula.is_grad_enabled()


@pytest.mark.parametrize("dim", [0, -1])
def test_softmax_of_a_number(dim: int) -> None:
    got = facula.compile(lambda x: facula.softmax(x, dim) * 2)(facula.tensor(3.0))
    assert got.item() == 2.0
