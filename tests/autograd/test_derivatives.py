"""Jacobians, Hessians and the gradient checks themselves."""

import numpy as np
import pytest

import facula
from facula.autograd import Function, gradcheck, gradgradcheck
from facula.autograd import functional as F
from facula.autograd.gradcheck import GradcheckError


def tensor(*shape):
    return facula.randn(*shape, dtype=facula.float64)


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian(vectorize):
    matrix, x = tensor(3, 4), tensor(4)
    expected = (1 - np.tanh(matrix.numpy() @ x.numpy()) ** 2)[:, None] * matrix.numpy()
    close(F.jacobian(lambda x: (matrix @ x).tanh(), x, vectorize=vectorize), expected)


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian_of_several(vectorize):
    a, b = tensor(3), tensor(2, 3)
    blocks = F.jacobian(lambda p, q: (q @ p, (p * q).sum(0)), (a, b), vectorize=vectorize)
    close(blocks[0][0], b.numpy())
    close(blocks[0][1], np.einsum("ij,k->ijk", np.eye(2), a.numpy()))
    close(blocks[1][0], np.diag(b.numpy().sum(0)))


def test_products():
    matrix, x, v = tensor(4, 4), tensor(4), tensor(4)
    jacobian = F.jacobian(lambda x: (matrix @ x).sin(), x).numpy()
    close(F.vjp(lambda x: (matrix @ x).sin(), x, v)[1], v.numpy() @ jacobian)
    close(F.jvp(lambda x: (matrix @ x).sin(), x, v)[1], jacobian @ v.numpy())
    scalar = lambda x: ((matrix @ x) ** 3).sum()  # noqa: E731
    hessian = F.hessian(scalar, x).numpy()
    inner = 6 * (matrix.numpy() @ x.numpy())
    np.testing.assert_allclose(
        hessian, matrix.numpy().T @ np.diag(inner) @ matrix.numpy(), rtol=1e-8
    )
    close(F.hvp(scalar, x, v)[1], hessian @ v.numpy())
    close(F.vhp(scalar, x, v)[1], v.numpy() @ hessian)


def test_create_graph_and_strict():
    x = tensor(3).requires_grad_()
    F.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    close(x.grad, 6 * x.detach().numpy())
    with pytest.raises(RuntimeError, match="strict"):
        F.jacobian(lambda x: facula.ones(3), tensor(3), strict=True)
    with pytest.raises(RuntimeError, match="v"):
        F.vjp(lambda x: x, tensor(3))
    with pytest.raises(TypeError, match="Tensor"):
        F.jacobian(lambda x: 3, tensor(3))


class WrongSquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 2.1


@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_gradient_is_found(fast):
    x = tensor(3).requires_grad_()
    with pytest.raises(GradcheckError, match="mismatch for output 0 with respect to input 0"):
        gradcheck(WrongSquare.apply, (x,), fast_mode=fast)
    assert not gradcheck(WrongSquare.apply, (x,), fast_mode=fast, raise_exception=False)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda z: z * z.conj(),
        lambda z: z.exp(),
        lambda z: z.abs(),
        lambda z: z.real,
        lambda z: (z * z).imag,
    ],
)
def test_complex_functions(function, fast):
    z = facula.randn(3, dtype=facula.complex128).requires_grad_()
    assert gradcheck(function, (z,), fast_mode=fast)


def test_real_and_complex_together():
    x = tensor(3).requires_grad_()
    z = facula.randn(3, dtype=facula.complex128).requires_grad_()
    assert gradcheck(lambda a, b: (a * b).abs(), (x, z))
    assert gradgradcheck(lambda b: b * b.conj() * b, (z,))


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="require gradient"):
        gradcheck(lambda x: x, (tensor(2),))
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda x: x * 2, (facula.ones(2, requires_grad=True),), atol=0.1)


def test_undefined_gradients_are_checked():
    class NoneBreaks(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return a + b * 2  # fails where one of them is None

    x = tensor(2).requires_grad_()
    with pytest.raises((GradcheckError, TypeError)):
        gradcheck(NoneBreaks.apply, (x,))
