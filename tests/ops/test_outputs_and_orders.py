"""`out=` of other dtypes where it is taken, the order in memory that `flip` keeps, sizes of what has no dimensions."""

from __future__ import annotations

import numpy
import pytest

import facula


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("given", ["float32", "uint8", "bool", "int64"])
@pytest.mark.parametrize("taken", ["bool", "uint8"])
def test_truths_as_bools_and_bytes(name: str, given: str, taken: str) -> None:
    data = numpy.array([[1, 0, 3], [0, 0, 0]]).astype(given)
    out = facula.zeros(2, dtype=getattr(facula, taken))
    got = getattr(facula, name)(facula.tensor(data), 1, out=out)
    assert got is out
    numpy.testing.assert_array_equal(out.numpy(), getattr(numpy, name)(data, 1).astype(taken))


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("taken", ["float32", "int64", "int8"])
def test_truths_as_other_numbers_are_refused(name: str, taken: str) -> None:
    with pytest.raises(RuntimeError, match="out="):
        getattr(facula, name)(facula.ones(3), 0, out=facula.zeros((), dtype=getattr(facula, taken)))


@pytest.mark.parametrize("taken", ["float16", "float64", "complex64"])
def test_ldexp_of_integers_into_floats(taken: str) -> None:
    x = numpy.array([1, 2, 3])
    out = facula.zeros(3, dtype=getattr(facula, taken))
    facula.ldexp(facula.tensor(x), facula.tensor(x), out=out)
    numpy.testing.assert_array_equal(out.numpy(), (x * 2.0**x).astype(taken))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_in_the_dtype_of_their_out(name: str) -> None:
    want = getattr(numpy.fft, name)(7, 0.3)
    out = facula.zeros(len(want), dtype=facula.float64)
    getattr(facula.fft, name)(7, 0.3, out=out)
    numpy.testing.assert_allclose(out.numpy(), want, rtol=1e-15)
    for dtype in (facula.int64, facula.uint8, facula.bool):
        with pytest.raises(RuntimeError, match="requires a floating point or complex dtype"):
            getattr(facula.fft, name)(4, dtype=dtype)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1)])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("step", [1, 2])
def test_flip_keeps_the_order_in_memory(
    order: tuple[int, ...], dims: tuple[int, ...], step: int
) -> None:
    data = numpy.arange(24.0).reshape(2, 3, 4)
    x = facula.tensor(data).permute(order)[..., ::step]
    plain = numpy.transpose(data, order)[..., ::step]
    got = facula.flip(x, dims)
    numpy.testing.assert_array_equal(got.numpy(), numpy.flip(plain, dims))
    assert got.stride() == facula.empty_like(x).stride()
    assert got.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", ["size", "stride"])
def test_a_tensor_without_dimensions_has_no_sizes(name: str, dim: int) -> None:
    for x in (facula.tensor(1.0), facula.ones(3)[0], facula.empty((), device="meta")):
        with pytest.raises(IndexError, match="tensor has no dimensions"):
            getattr(x, name)(dim)
        assert tuple(getattr(x, name)()) == ()


def test_pieces_that_may_be_written_to_stay_so_in_every_call() -> None:
    for _ in range(4):
        y = facula.ones(2, 3, requires_grad=True) * 1
        y.unsafe_split(1, 0)[1].fill_(4.0)
        y.unsafe_chunk(2)[0].fill_(5.0)
        assert y.tolist() == [[5.0] * 3, [4.0] * 3]
