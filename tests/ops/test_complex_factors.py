"""Complex factors: of complex tensors; real ones refuse them."""

import pytest

import facula

Z = facula.tensor([1 + 2j, -3j], dtype=facula.complex64)
X = facula.tensor([2.0, 5.0])


def test_values():
    assert facula.equal(facula.addcmul(Z, X, X, value=2j), Z + 2j * X * X)
    assert facula.equal(facula.addcdiv(X + 0j, Z, X, value=1 - 1j), X + (1 - 1j) * (Z / X))
    assert facula.equal(facula.add(X, Z, alpha=1j), X + 1j * Z)
    assert facula.equal(facula.sub(Z, X, alpha=1j), Z - 1j * X)
    out, z = facula.empty(2, dtype=facula.complex64), Z.clone()
    assert facula.addcmul(Z, X, X, value=2j, out=out) is out
    assert facula.equal(z.addcmul_(X, X, value=2j), out)


def test_gradients():
    z = Z.to(facula.complex128).requires_grad_()
    w = facula.tensor([0.5 + 1j, 2.0], dtype=facula.complex128, requires_grad=True)
    assert facula.autograd.gradcheck(lambda z, w: facula.addcmul(z, w, z, value=1 + 2j), (z, w))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_real_tensors_take_real_factors(name):
    with pytest.raises(RuntimeError, match="must not be a complex number"):
        getattr(facula, name)(X, X, alpha=1j)
    with pytest.raises(RuntimeError, match="must not be a complex number"):
        facula.addcmul(X, X, X, value=1j)
