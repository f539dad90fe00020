"""Factorisations give back the matrix they came from, at every size, dtype and batch; gradients are derivatives."""

import numpy as np
import pytest

import facula
from facula import linalg
from facula.autograd import gradcheck, gradgradcheck

DTYPES = [facula.float32, facula.float64, facula.complex64, facula.complex128]
#: sizes around the base cases of the kernels
SIZES = [0, 1, 2, 5, 24, 25, 48, 49, 65, 130]


@pytest.fixture(autouse=True)
def seeded():
    facula.manual_seed(11)


def matrices(*shape, dtype=facula.float64):
    return facula.randn(*shape, dtype=dtype)


def positive(*shape, dtype=facula.float64):
    x = matrices(*shape, dtype=dtype)
    return x @ x.mH + facula.eye(shape[-1], dtype=dtype)


def near(a, b, size=1):
    real = a.dtype.to_real() if a.is_complex() else a.dtype
    scale = float(b.abs().max()) if b.numel() else 0.0
    tolerance = 40 * max(size, 1) * facula.finfo(real).eps * max(scale, 1.0)
    assert a.shape == b.shape and a.dtype == b.dtype
    assert not a.numel() or float((a - b).abs().max()) <= tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_square(n, dtype):
    a, s = matrices(2, n, n, dtype=dtype), positive(2, n, n, dtype=dtype)
    lower, upper = linalg.cholesky(s), linalg.cholesky(s, upper=True)
    near(lower @ lower.mH, s, n)
    near(upper.mH @ upper, s, n)
    assert facula.equal(lower, lower.tril()) and facula.equal(upper, upper.triu())
    p, low, up = linalg.lu(a)
    near(p @ low @ up, a, n)
    packed, pivots = linalg.lu_factor(a)
    b = matrices(2, n, 70, dtype=dtype)
    near(a @ linalg.lu_solve(packed, pivots, b) / 1e3, b / 1e3, 40 * n)
    near(a.mH @ linalg.lu_solve(packed, pivots, b, adjoint=True) / 1e3, b / 1e3, 40 * n)
    values, vectors = linalg.eigh(s)
    near((vectors * values.unsqueeze(-2)) @ vectors.mH, s, n)
    near(linalg.eigvalsh(s), values, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (60, 30), (30, 60), (0, 3), (3, 0)])
def test_rectangular(shape, dtype):
    a = matrices(2, *shape, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        near(q @ r, a, max(shape))
        near(q.mH @ q, facula.eye(q.shape[-1], dtype=dtype).expand(2, -1, -1), max(shape))
    u, s, v = linalg.svd(a, full_matrices=False)
    near((u * s.unsqueeze(-2)) @ v, a, max(shape))
    near(linalg.svdvals(a), s, max(shape))
    p, low, up = linalg.lu(a)
    near(p @ low @ up, a, max(shape))
    packed, tau = facula.geqrf(a)
    if shape[0] >= shape[1]:
        q = linalg.householder_product(packed, tau)
        near(q @ packed.triu()[..., : shape[1], :], a, max(shape))
        near(facula.ormqr(packed, tau, a, transpose=True)[..., : shape[1], :], q.mH @ a, max(shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_indefinite(dtype, hermitian):
    for n in (1, 2, 3, 9, 20):
        a = matrices(3, n, n, dtype=dtype)
        a = a + (a.mH if hermitian else a.mT)
        if n > 1:  # zeros on the diagonal ask for blocks of two
            a = a - facula.diag_embed(a.diagonal(dim1=-2, dim2=-1))
        packed, pivots = linalg.ldl_factor(a, hermitian=hermitian)
        b = matrices(3, n, 4, dtype=dtype)
        near(a @ linalg.ldl_solve(packed, pivots, b, hermitian=hermitian) / 1e3, b / 1e3, 40 * n)


def test_eigenvalues_of_any_matrix():
    for dtype in DTYPES:
        a = matrices(2, 6, 6, dtype=dtype)
        values, vectors = linalg.eig(a)
        near(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), 60)
        close = (linalg.eigvals(a).unsqueeze(-1) - values.unsqueeze(-2)).abs().amin(-1)
        assert float(close.max()) < 1e-3


def phaseless(values):
    """What does not depend on the phases of vectors."""
    return tuple(v.abs() if v.is_complex() else v for v in values)


DIFFERENTIABLE = {
    "cholesky": lambda a: linalg.cholesky(a @ a.mH + facula.eye(4, dtype=a.dtype)),
    "cholesky upper": lambda a: linalg.cholesky(
        a @ a.mH + facula.eye(4, dtype=a.dtype), upper=True
    ),
    "cholesky_inverse": lambda a: facula.cholesky_inverse(a.tril() + 2 * facula.eye(4)),
    "lu_factor": lambda a: linalg.lu_factor(a)[0],
    "lu_solve": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a @ a),
    "qr": lambda a: linalg.qr(a),
    "svd": lambda a: phaseless(linalg.svd(a)),
    "eigh": lambda a: phaseless(linalg.eigh(a + a.mH)),
    "eig": lambda a: phaseless(linalg.eig(a)),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda a: linalg.slogdet(a),
    "pinv": linalg.pinv,
    "matrix_exp": linalg.matrix_exp,
    "cond 1": lambda a: linalg.cond(a, 1),
    "matrix_norm 2": lambda a: linalg.matrix_norm(a, 2),
    "nuclear": lambda a: linalg.matrix_norm(a, "nuc"),
    "matrix_power": lambda a: linalg.matrix_power(a, -3),
    "householder_product": lambda a: linalg.householder_product(a, a[..., 0]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
def test_derivatives(name, dtype):
    a = matrices(2, 4, 4, dtype=dtype).requires_grad_()
    assert gradcheck(DIFFERENTIABLE[name], (a,))
    assert gradgradcheck(DIFFERENTIABLE[name], (a,), fast_mode=True)


def gradient(function, x):
    """The gradient of the sum of all that a function gives, weighted by position."""
    x = x.detach().requires_grad_()
    result = function(x)
    total = 0.0
    for part in result if isinstance(result, tuple) else (result,):
        if part.requires_grad:
            weight = facula.linspace(1, 2, part[0, 0].numel(), dtype=facula.float64)
            total = total + (part.abs() * weight.reshape(part.shape[2:])).sum()
    return facula.autograd.grad(total, x)[0]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
def test_each_matrix_of_a_batch_has_its_own_gradient(name, dtype):
    a = matrices(3, 2, 4, 4, dtype=dtype)
    whole = gradient(DIFFERENTIABLE[name], a)
    for i in range(3):
        for j in range(2):
            alone = gradient(DIFFERENTIABLE[name], a[i, j][None, None])
            near(whole[i, j], alone[0, 0], 400)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
def test_derivatives_of_rectangular(shape, dtype):
    a = matrices(*shape, dtype=dtype).requires_grad_()
    for function in (
        lambda x: linalg.lu_factor(x)[0],
        linalg.qr,
        lambda x: phaseless(linalg.svd(x, full_matrices=False)),
        linalg.svdvals,
        linalg.pinv,
        lambda x: linalg.lstsq(x, x[..., :2], driver="gels").solution,
    ):
        assert gradcheck(function, (a,))
        assert gradgradcheck(function, (a,), fast_mode=True)


def test_the_gradient_of_a_singular_determinant_is_the_adjugate():
    a = facula.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=facula.float64, requires_grad=True)
    linalg.det(a).backward()
    assert np.allclose(a.grad.numpy(), [[4.0, -2.0], [-2.0, 1.0]])


def test_gradients_that_depend_on_a_phase_are_refused():
    a = matrices(3, 3, dtype=facula.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match="specified up to multiplication by"):
        linalg.eigh(a + a.mH).eigenvectors.imag.sum().backward()


@pytest.mark.parametrize("name", ["inv", "det", "eigvalsh", "svdvals", "cholesky", "pinv", "qr"])
def test_one_call_serves_a_mapped_batch(name):
    a = positive(3, 4, 4)
    function = getattr(linalg, name)
    mapped, plain = facula.vmap(function)(a), function(a)
    pairs = zip(mapped, plain, strict=True) if isinstance(plain, tuple) else [(mapped, plain)]
    assert all(facula.allclose(m, p) for m, p in pairs)


def test_shapes_without_data():
    a = facula.empty(2, 5, 3, device="meta")
    assert [tuple(x.shape) for x in linalg.svd(a)] == [(2, 5, 5), (2, 3), (2, 3, 3)]
    assert [tuple(x.shape) for x in linalg.qr(a)] == [(2, 5, 3), (2, 3, 3)]
    square = facula.empty(2, 3, 3, device="meta")
    assert linalg.inv(square).shape == (2, 3, 3) and linalg.eigvals(square).is_complex()
