"""Powers of complex numbers whose exponents need no logarithm: products, roots and quotients of parts."""

import cmath
import math

import pytest

import facula

NUMBERS = [1 + 2j, -1 + 0j, 1e-3 + 1j, -3 - 4j, 0j, 1e12 - 1e12j, 2 + 0j]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [facula.complex64, facula.complex128])
def test_small_whole_powers_have_both_parts_exact(dtype, compiled):
    one, two, inverse = (lambda z, e=e: z**e for e in (1, 2, -1))
    if compiled:
        one, two, inverse = (facula.compile(f, dynamic=False) for f in (one, two, inverse))
    z = facula.tensor(NUMBERS, dtype=dtype)
    numbers = z.tolist()
    eps = 4 * facula.finfo(dtype).eps
    assert one(z).tolist() == numbers
    for got, n in zip(two(z).tolist(), numbers, strict=True):
        # each part on its own: of exp(2 log z) the small one has few digits
        square = n.real * n.real - n.imag * n.imag  # may be all rounding, of its terms
        assert got.real == pytest.approx(square, rel=eps, abs=eps * abs(n) ** 2)
        assert got.imag == pytest.approx(2 * n.real * n.imag, rel=eps, abs=0)
    for got, n in zip(inverse(z).tolist(), numbers, strict=True):
        if n:
            size = n.real * n.real + n.imag * n.imag
            assert got.real == pytest.approx(n.real / size, rel=eps, abs=0)
            assert got.imag == pytest.approx(-n.imag / size, rel=eps, abs=0)


def test_roots_and_infinities():
    z = facula.tensor(NUMBERS, dtype=facula.complex128)
    for got, n in zip((z**0.5).tolist(), NUMBERS, strict=True):
        assert got.real == pytest.approx(cmath.sqrt(n).real, rel=1e-14, abs=0)
        assert got.imag == pytest.approx(cmath.sqrt(n).imag, rel=1e-14, abs=0)
    far = facula.tensor([complex(math.inf, 0), complex(-math.inf, 0)])
    assert (far**1).tolist() == [complex(math.inf, 0), complex(-math.inf, 0)]


def test_exponents_that_are_tensors_keep_their_gradient():
    """d z**w / dw = z**w log z, where w is one of the short ones, too."""
    z = facula.tensor([1 + 2j, -3 - 4j], dtype=facula.complex128)
    for exponent in (1, 2, 0.5, -1):
        w = facula.full((2,), exponent, dtype=facula.complex128).requires_grad_()
        power = facula.pow(z, w)
        gradient = facula.autograd.grad(power.real.sum(), w)[0].tolist()
        for got, n in zip(gradient, z.tolist(), strict=True):
            wanted = (n**exponent * cmath.log(n)).conjugate()
            assert abs(got - wanted) < 1e-12 * abs(wanted)
