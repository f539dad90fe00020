"""`ldexp` beside NumPy's, bit for bit; `nextafter` of mixed dtypes; products of integers whose sizes are 1."""

import numpy
import pytest

import facula


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
@pytest.mark.parametrize("exponents", ["int64", "int32", "int16", "int8"])
def test_ldexp_rounds_once(kind, exponents):
    """Powers of two went through float32: doubles times 2 ** 200 were infinite."""
    numbers = numpy.random.default_rng(3)
    reach = min(1100 if kind == "float64" else 170, numpy.iinfo(exponents).max)
    x = numbers.standard_normal(500).astype(kind)
    x[:3] = 0.0, numpy.inf, -0.0
    e = numbers.integers(-reach, reach, 500).astype(exponents)
    with numpy.errstate(all="ignore"):
        expected = numpy.ldexp(x.astype(numpy.float64), e).astype(kind)
    found = facula.ldexp(facula.tensor(x), facula.tensor(e))
    assert str(found.dtype).endswith(kind)
    numpy.testing.assert_array_equal(found.numpy(), expected)


def test_far_exponents():
    x = facula.tensor([0.0, 1.0, -2.0], dtype=facula.float64)
    for dtype in (facula.float64, facula.float32):
        far = facula.ldexp(x.to(dtype), facula.tensor(2**62))
        assert far.tolist() == [0.0, float("inf"), -float("inf")]
        assert facula.ldexp(x.to(dtype), facula.tensor(-(2**62))).tolist() == [0.0, 0.0, -0.0]


def test_ldexp_of_what_is_not_whole_or_not_floating():
    assert facula.ldexp(facula.tensor([3]), facula.tensor([2])).tolist() == [12.0]
    assert facula.ldexp(facula.tensor([1.0]), facula.tensor([0.5])).item() == pytest.approx(2**0.5)
    x = facula.tensor([1.0, 2.0], dtype=facula.float64, requires_grad=True)
    (grad,) = facula.autograd.grad(facula.ldexp(x, facula.tensor([3, -1])).sum(), x)
    assert grad.tolist() == [8.0, 0.5]


@pytest.mark.parametrize("half, step", [(facula.float16, 2.0**-10), (facula.bfloat16, 2.0**-7)])
@pytest.mark.parametrize("other", [facula.int64, facula.uint8, None])
def test_steps_of_halves_beside_other_dtypes(half, step, other):
    """They were steps of float32, which the result has no room for: nothing moved."""
    x = facula.tensor([1.0], dtype=half)
    y = facula.tensor(5.0) if other is None else facula.tensor([5], dtype=other)
    found = facula.nextafter(x, y)
    assert found.dtype is half and found.item() == 1.0 + step


def test_a_contraction_over_a_size_of_one_keeps_integers():
    a, b = facula.ones(3, 1, dtype=facula.int32), facula.full((4, 2), 2, dtype=facula.int32)
    for found in (facula.tensordot(a, b, 1), facula.tensordot(b.t(), a.t(), 1)):
        assert found.dtype is facula.int32 and set(found.flatten().tolist()) == {8}
