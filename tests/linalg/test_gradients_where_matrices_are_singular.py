"""Derivatives of determinants at singular matrices, and gradients of Hermitian decompositions."""

import numpy as np
import pytest

import facula
from facula.autograd import gradcheck, gradgradcheck


def cofactors(a):
    """The matrix of cofactors, minor by minor."""
    n = len(a)
    minor = [[np.delete(np.delete(a, i, 0), j, 1) for j in range(n)] for i in range(n)]
    return np.array(
        [[(-1) ** (i + j) * np.linalg.det(minor[i][j]) for j in range(n)] for i in range(n)]
    )


def singular(n, seed):
    a = np.random.default_rng(seed).uniform(-1, 1, (n, n))
    a[-1] = a[0]
    return a


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_derivatives_of_determinants(n):
    a, weight, step = singular(n, n), np.random.default_rng(0).uniform(-1, 1, (n, n)), 1e-6
    x = facula.tensor(a, requires_grad=True)
    (first,) = facula.autograd.grad(facula.linalg.det(x), x, create_graph=True)
    assert np.allclose(first.detach().numpy(), cofactors(a), rtol=0, atol=1e-12)
    (second,) = facula.autograd.grad(first, x, facula.tensor(weight))
    expected = np.empty((n, n))
    for place in np.ndindex(n, n):
        moved = np.zeros((n, n))
        moved[place] = step
        change = (cofactors(a + moved) - cofactors(a - moved)) / (2 * step)
        expected[place] = (change * weight).sum()
    assert np.allclose(second.numpy(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
def test_batches_of_regular_and_singular_matrices(dtype):
    facula.manual_seed(0)
    x = facula.randn(4, 3, 3, dtype=dtype)
    x[0, -1], x[1], x[2] = x[0, 0].clone(), 0, 2 * facula.eye(3, dtype=dtype)
    x.requires_grad_()
    assert gradcheck(facula.linalg.det, x)
    assert gradgradcheck(facula.linalg.det, x)
    regular = x.detach()[3].clone().requires_grad_()

    def gradient(v):
        return facula.autograd.grad(facula.linalg.det(v).abs(), v, create_graph=True)[0]

    assert gradgradcheck(gradient, regular)  # the third derivative


def test_transforms_of_determinants():
    one = facula.eye(3, dtype=facula.float64)
    for hessian in (facula.func.hessian, lambda f: facula.func.jacrev(facula.func.jacrev(f))):
        for x in (one, facula.tensor(singular(3, 1))):
            got = hessian(facula.linalg.det)(x).numpy()
            minors = x.numpy()
            # of two places in other rows and columns it is the element that is left, with its sign
            assert got[0, 0, 1, 1] == pytest.approx(minors[2, 2])
            assert got[0, 1, 1, 0] == pytest.approx(-minors[2, 2])
            assert abs(got[0, 0, 0, 1]) < 1e-12


@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_gradients_of_hermitian_matrices_are_hermitian(dtype, triangle):
    facula.manual_seed(1)
    a = facula.randn(2, 4, 4, dtype=dtype)
    x = (a + a.mH).requires_grad_()
    weight = facula.rand(2, 4, 4, dtype=facula.float64)
    values, vectors = facula.linalg.eigh(x, triangle)
    loss = (values**3).sum() + (vectors.abs() * weight).sum()
    (grad,) = facula.autograd.grad(loss, x, create_graph=True)
    assert facula.allclose(grad, grad.mH)
    (grad,) = facula.autograd.grad(
        (facula.linalg.eigvalsh(x, triangle) ** 3).sum(), x, create_graph=True
    )
    assert facula.allclose(grad, 3 * x @ x)
    (second,) = facula.autograd.grad((grad.abs() ** 2 * weight).sum(), x)
    assert facula.allclose(second, second.mH)
