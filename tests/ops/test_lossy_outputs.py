"""What a dtype does not hold is refused: results with `out=`, bounds of random integers, norms in a lesser dtype.

What would be lost is plain: fractions in integers, imaginary parts in real numbers, integers beyond a
dtype's limits, which would come back as others.
"""

import numpy
import pytest

import facula

X = facula.tensor([1.5, 2.5, float("nan")])
C = facula.tensor([1 + 2j, 3 - 1j])


def out(dtype, *shape):
    return facula.ones(shape, dtype=dtype)


REFUSED = {
    "nansum to int32": lambda: facula.nansum(X, 0, out=out(facula.int32)),
    "nansum to bool": lambda: facula.nansum(X, 0, out=out(facula.bool)),
    "nanmean to int32": lambda: facula.nanmean(X, 0, out=out(facula.int32)),
    "mean of complex numbers to float32": lambda: facula.mean(C, out=out(facula.float32)),
    "normal to int32": lambda: facula.normal(X[:2], 1.0, out=out(facula.int32, 2)),
    "bitwise_not to int32": lambda: facula.bitwise_not(
        facula.tensor([2**40]), out=out(facula.int32, 1)
    ),
    "lerp to float64": lambda: facula.lerp(X, X, 0.5, out=out(facula.float64, 3)),
    "norm of complex numbers in float32": lambda: facula.linalg.vector_norm(
        C, dtype=facula.float32
    ),
    "norm of real numbers in complex64": lambda: facula.linalg.vector_norm(
        X, dtype=facula.complex64
    ),
    "norm in float16": lambda: facula.linalg.vector_norm(X, dtype=facula.float16),
    "randint beyond uint8": lambda: facula.randint(300, (3,), dtype=facula.uint8),
    "randint below uint8": lambda: facula.randint(-1, 3, (3,), dtype=facula.uint8),
    "randint beyond bool": lambda: facula.randint(5, (3,), dtype=facula.bool),
    "randint to bool": lambda: facula.randint(5, (3,), out=out(facula.bool, 3)),
    "randint_like beyond int8": lambda: facula.randint_like(out(facula.int8, 3), 200),
    "random_ beyond bool": lambda: out(facula.bool, 3).random_(5),
    "randint beyond float16": lambda: facula.randint(70_000, (3,), dtype=facula.float16),
    "randperm beyond uint8": lambda: facula.randperm(257, dtype=facula.uint8),
    "randperm beyond float16": lambda: facula.randperm(3000, dtype=facula.float16),
    "randperm to uint8": lambda: facula.randperm(257, out=out(facula.uint8, 257)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_lost_is_refused(name):
    with pytest.raises((RuntimeError, NotImplementedError)) as caught:
        REFUSED[name]()
    assert "hint:" in str(caught.value)


def test_what_fits_is_written():
    assert facula.nansum(X, 0, out=out(facula.float64)).item() == 4.0
    assert facula.nansum(facula.tensor([1, 2]), 0, out=out(facula.float32)).item() == 3.0
    assert facula.mean(C, 0, out=out(facula.complex128)).item() == 2 + 0.5j
    numpy.testing.assert_array_equal(
        facula.cumsum(facula.tensor([True, True]), 0, out=out(facula.int8, 2)).numpy(), [1, 2]
    )
    assert facula.normal(X[:2], 1.0, out=out(facula.float64, 2)).dtype is facula.float64
    assert facula.linalg.vector_norm(X[:2], dtype=facula.float64).dtype is facula.float64


@pytest.mark.parametrize(
    ("dtype", "most"), [("uint8", 256), ("int8", 128), ("bool", 2), ("float16", 2049)]
)
def test_all_that_fits_is_drawn(dtype, most):
    dtype = getattr(facula, dtype)
    drawn = facula.randperm(most, dtype=dtype).double().numpy()
    numpy.testing.assert_array_equal(numpy.sort(drawn), numpy.arange(most))
    many = facula.randint(0, most, (20_000,), dtype=dtype).double()
    assert many.min().item() == 0 and many.max().item() == most - 1


JOINED = {
    "cat": (facula.cat, lambda a, b: numpy.concatenate([a, b])),
    "stack": (facula.stack, lambda a, b: numpy.stack([a, b])),
    "hstack": (facula.hstack, lambda a, b: numpy.hstack([a, b])),
    "vstack": (facula.vstack, lambda a, b: numpy.vstack([a, b])),
    "dstack": (facula.dstack, lambda a, b: numpy.dstack([a, b])),
    "column_stack": (facula.column_stack, lambda a, b: numpy.column_stack([a, b])),
    "outer": (lambda ab, **kw: facula.outer(*ab, **kw), numpy.outer),
    "kron": (lambda ab, **kw: facula.kron(*ab, **kw), numpy.kron),
    "diff": (lambda ab, **kw: facula.diff(ab[0], **kw), lambda a, b: numpy.diff(a)),
    "addr": (
        lambda ab, **kw: facula.addr(facula.ones(2, 2, dtype=ab[0].dtype), *ab, **kw),
        lambda a, b: 1 + numpy.outer(a, b),
    ),
}


@pytest.mark.parametrize("kind", ["int16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("name", JOINED)
def test_joined_and_multiplied_vectors_are_written_to_dtypes_that_hold_them(name, kind):
    ours, wanted = JOINED[name]
    a, b = numpy.array([3, 5], "int32"), numpy.array([-2, 7], "int32")
    received = facula.empty(0, dtype=getattr(facula, kind))
    given = ours([facula.from_numpy(a), facula.from_numpy(b)], out=received)
    assert given is received
    numpy.testing.assert_array_equal(received.numpy(), wanted(a, b).astype(kind))


@pytest.mark.parametrize("name", JOINED)
def test_joined_and_multiplied_vectors_are_refused_by_dtypes_that_do_not_hold_them(name):
    halves = [facula.tensor([0.5, 1.5]), facula.tensor([2.5, 3.0])]
    with pytest.raises(RuntimeError, match="hint:"):
        JOINED[name][0](halves, out=facula.empty(0, dtype=facula.int64))


@pytest.mark.parametrize("kind", [facula.int64, facula.float32, facula.float64])
@pytest.mark.parametrize("half", [facula.float16, facula.bfloat16])
def test_means_in_16_bits_of_numbers_beyond_them(half, kind):
    x = facula.tensor([[70_000, -70_000, 3], [100_000, 4, -100_001]], dtype=kind)
    assert x.mean(1, dtype=half).tolist() == [1.0, 1.0]
    assert facula.mean(x, 1, dtype=half, out=facula.empty(0, dtype=half)).tolist() == [1.0, 1.0]
    assert facula.compile(lambda y: y.mean(1, dtype=half))(x).tolist() == [1.0, 1.0]
    narrow = facula.tensor([1.0, 2.0, 4.5], dtype=kind).requires_grad_(kind.is_floating_point)
    mean = narrow.mean(dtype=half)
    if kind.is_floating_point:
        mean.backward()
        assert narrow.grad.dtype is kind
        numpy.testing.assert_allclose(narrow.grad.numpy(), 1 / 3, rtol=2**-7)
