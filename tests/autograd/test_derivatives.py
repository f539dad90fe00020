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


#: where the cut of an inverse function runs, a step along it, and its slope on the side of a positive zero
CUTS = {
    "asin": (2.0, 1.0, 1j / 3**0.5),
    "acos": (2.0, 1.0, -1j / 3**0.5),
    "acosh": (-2.0, 1.0, -1 / 3**0.5),
    "asinh": (2j, 1j, 1 / (1j * 3**0.5)),
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("end", [1.0, -1.0])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_both_sides_of_a_cut(name, side, end):
    """The sign of a zero says on which side of the cut a number is: slopes are those of that side."""
    function, (place, step, slope) = getattr(facula, name), CUTS[name]
    if name == "acosh" and end < 0:
        end = 2.0  # its cut has one end only
    on_cut = place * end
    other = 0.0 * side
    parts = (on_cut.real, other) if step == 1.0 else (other, on_cut.imag)
    z = facula.tensor(complex(*parts), dtype=facula.complex128, requires_grad=True)
    h = 1e-6
    moved = [complex(parts[0] + h * k, parts[1]) if step == 1.0 else complex(parts[0], parts[1] + h * k)
             for k in (1, -1)]  # fmt: skip
    ends = [function(facula.tensor(m, dtype=facula.complex128)).item() for m in moved]
    along = (ends[0] - ends[1]) / (2 * h * step)
    if side > 0 and end == 1.0:
        assert along == pytest.approx(slope, abs=1e-8)
    (found,) = facula.autograd.grad(function(z), z, facula.ones_like(z))
    assert found.item().conjugate() == pytest.approx(along, abs=1e-8)
    _, tangent = facula.func.jvp(function, (z.detach(),), (facula.ones_like(z),))
    assert tangent.item() == pytest.approx(along, abs=1e-8)
