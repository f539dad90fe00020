"""Compiled programs that reach, by `as_strided`, elements which no input shows: NumPy's numbers, wherever these lie."""

from __future__ import annotations

import numpy
import pytest

import facula

#: inputs on a memory of eight elements, by how they lie there
LYING = {
    "gaps": slice(0, 8, 2),
    "middle": slice(2, 5),
    "start": slice(0, 3),
    "all": slice(0, 8),
}


def memory(dtype: str = "float32") -> numpy.ndarray:
    return numpy.arange(8, dtype=dtype) + 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lying", LYING)
def test_a_write_beside_the_input(lying: str, dynamic: bool) -> None:
    where = LYING[lying]

    def write(x: facula.Tensor) -> facula.Tensor:
        x.as_strided((3,), (1,)).mul_(5)
        return x * 1

    want = memory()
    want[where.start : where.start + 3] *= 5
    held = facula.tensor(memory())
    got = facula.compile(write, dynamic=dynamic)(held[where])
    numpy.testing.assert_array_equal(held.numpy(), want)
    numpy.testing.assert_array_equal(got.numpy(), want[where])


@pytest.mark.parametrize("lying", LYING)
def test_a_view_beside_the_input_shows_writes_to_it(lying: str) -> None:
    where = LYING[lying]

    def write(x: facula.Tensor) -> tuple[facula.Tensor, facula.Tensor]:
        beside = x.as_strided((4,), (1,))
        x.add_(10)
        return beside, beside * 2

    want = memory()
    want[where] += 10
    held = facula.tensor(memory())
    view, twice = facula.compile(write)(held[where])
    numpy.testing.assert_array_equal(view.numpy(), want[where.start : where.start + 4])
    numpy.testing.assert_array_equal(twice.numpy(), 2 * want[where.start : where.start + 4])
    assert view.data_ptr() == held[where].data_ptr()


def test_a_result_that_shows_more_than_the_input() -> None:
    held = facula.tensor(memory())
    got = facula.compile(lambda x: x.as_strided((5,), (1,)))(held[2:5])
    numpy.testing.assert_array_equal(got.numpy(), memory()[2:7])
    held[6] = -1
    assert got[4].item() == -1


@pytest.mark.parametrize("dynamic", [False, True])
def test_places_are_counted_from_the_beginning_of_each_memory(dynamic: bool) -> None:
    def third(x: facula.Tensor) -> facula.Tensor:
        return x.as_strided((2,), (1,), 2) * 1

    compiled = facula.compile(third, dynamic=dynamic)
    held = facula.tensor(memory())
    for where in (slice(1, 4), slice(2, 5), slice(0, 3), slice(5, 8), slice(1, 7, 2)):
        numpy.testing.assert_array_equal(compiled(held[where]).numpy(), memory()[2:4])


def test_a_memory_that_is_shorter_than_the_first_one() -> None:
    compiled = facula.compile(lambda x: x.as_strided((6,), (1,)) * 2)
    numpy.testing.assert_array_equal(
        compiled(facula.tensor(memory())[:3]).numpy(), memory()[:6] * 2
    )
    with pytest.raises(RuntimeError, match="inside the storage|out of bounds"):
        compiled(facula.tensor(memory()[:5])[:3])


@pytest.mark.parametrize("length", [8, 20, 9])
def test_writes_on_memories_of_several_lengths(length: int) -> None:
    def write(x: facula.Tensor) -> facula.Tensor:
        x.as_strided((4,), (1,)).zero_()
        return x + 1

    compiled = facula.compile(write)
    compiled(facula.ones(8)[::2][:3])
    held = facula.ones(length)
    got = compiled(held[::2][:3])
    numpy.testing.assert_array_equal(held.numpy(), numpy.r_[numpy.zeros(4), numpy.ones(length - 4)])
    numpy.testing.assert_array_equal(got.numpy(), [1, 1, 2])


@pytest.mark.parametrize("lying", LYING)
def test_gradients_reach_what_was_written_beside_the_input(lying: str) -> None:
    where = LYING[lying]

    def write(x: facula.Tensor) -> tuple[facula.Tensor, facula.Tensor]:
        beside = x.as_strided((4,), (1,))
        beside.mul_(3)
        return x * 1, beside

    leaf = facula.tensor(memory("float64"), requires_grad=True)
    whole = leaf * 1
    inside, beside = facula.compile(write)(whole[where])
    (inside.sum() + 10 * beside.sum()).backward()
    want = numpy.zeros(8)
    want[where] += 1
    want[where.start : where.start + 4] = 3 * (want[where.start : where.start + 4] + 10)
    numpy.testing.assert_array_equal(leaf.grad.numpy(), want)


@pytest.mark.parametrize("part", ["[::2]", "[2:4]", "[1:]"])
def test_a_write_beside_a_view_of_a_tensor_of_the_program(part: str) -> None:
    where = eval(f"numpy.s_{part}")

    def write(x: facula.Tensor) -> tuple[facula.Tensor, facula.Tensor]:
        y = x * 2
        y[where].as_strided((3,), (1,)).mul_(3)
        return y, y[where] * 1

    leaf = facula.tensor(memory("float64"), requires_grad=True)
    got, seen = facula.compile(write)(leaf)
    (got.sum() + seen.sum()).backward()
    factor = numpy.full(8, 2.0)
    factor[where.start or 0 : (where.start or 0) + 3] = 6
    numpy.testing.assert_array_equal(got.detach().numpy(), memory() * factor)
    twice = numpy.ones(8)
    twice[where] += 1
    numpy.testing.assert_array_equal(leaf.grad.numpy(), factor * twice)


def test_functionalize_refuses_to_lose_what_is_written_beside_a_tensor() -> None:
    def write(x: facula.Tensor) -> facula.Tensor:
        x.as_strided((3,), (1,)).add_(1)
        return x

    x = facula.ones(8).detach()[::2]
    x = facula.empty_strided((4,), (2,)).fill_(1) if x._base is not None else x
    with pytest.raises(NotImplementedError, match="inside of the tensor"):
        facula.func.functionalize(write)(x)


def test_a_view_with_a_gradient_of_its_own_on_a_written_memory_is_refused() -> None:
    def scaled(x: facula.Tensor, whole: facula.Tensor) -> facula.Tensor:
        whole.mul_(3)
        return x * 2

    held = facula.tensor(memory())
    leaf = held[::2].requires_grad_()
    with pytest.raises(Exception, match="views of one tensor were required"):
        facula.compile(scaled)(leaf, held[:3])


@pytest.mark.parametrize("again", range(3))
def test_copies_of_places_do_not_depend_on_where_the_last_tensor_began(again: int) -> None:
    held = facula.tensor(memory())
    for start in (1, 2, 4, 0):
        x = held[start : start + 3]
        got = facula.as_strided_copy(x, (2,), (1,), 2)
        numpy.testing.assert_array_equal(got.numpy(), memory()[2:4])
        put = facula.as_strided_scatter(x, facula.zeros(1), (1,), (1,), start + 1)
        want = memory()[start : start + 3] * [1, 0, 1]
        numpy.testing.assert_array_equal(put.numpy(), want)


def test_a_copy_of_places_behind_a_tensor_reads_no_shorter_memory() -> None:
    for _ in range(3):
        got = facula.as_strided_copy(facula.tensor(memory())[:3], (6,), (1,))
        numpy.testing.assert_array_equal(got.numpy(), memory()[:6])
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        facula.as_strided_copy(facula.tensor(memory()[:4])[:3], (6,), (1,))
