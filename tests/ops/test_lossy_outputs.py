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
