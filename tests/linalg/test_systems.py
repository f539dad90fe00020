"""Linear systems, norms, ranks and products agree with NumPy; what is wrong is said by name."""

import numpy as np
import pytest

import facula
from facula import linalg

F64 = facula.float64


@pytest.fixture(autouse=True)
def seeded():
    facula.manual_seed(12)


def test_solutions():
    a, b = facula.randn(2, 5, 5, dtype=F64), facula.randn(5, 3, dtype=F64)
    assert np.allclose(linalg.solve(a, b).numpy(), np.linalg.solve(a.numpy(), b.numpy()))
    assert np.allclose((linalg.solve(a, b.mT, left=False) @ a).numpy(), b.mT.numpy())
    v = facula.randn(2, 5, dtype=F64)
    assert np.allclose((a @ linalg.solve(a, v).unsqueeze(-1)).squeeze(-1).numpy(), v.numpy())
    result, info = linalg.solve_ex(facula.zeros(2, 2), facula.ones(2, 1))
    assert result.shape == (2, 1) and info.item() == 1


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular(upper, unit, left):
    n = 70
    a = facula.randn(3, n, n, dtype=F64) / n + 2 * facula.eye(n, dtype=F64)
    b = facula.randn(n, 65, dtype=F64) if left else facula.randn(65, n, dtype=F64)
    x = linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
    used = a.triu() if upper else a.tril()
    if unit:
        used = used - facula.diag_embed(used.diagonal(dim1=-2, dim2=-1)) + facula.eye(n)
    assert np.allclose((used @ x if left else x @ used).numpy(), b.expand(3, *b.shape).numpy())


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_least_squares(driver, shape):
    a, b = facula.randn(*shape, dtype=F64), facula.randn(shape[0], 2, dtype=F64)
    found = linalg.lstsq(a, b, driver=driver)
    wanted = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)
    assert np.allclose(found.solution.numpy(), wanted[0])
    if shape[0] > shape[1] and driver != "gelsy":
        assert np.allclose(found.residuals.numpy(), wanted[1])
    assert found.rank.numel() == (driver != "gels")
    assert (found.singular_values.numel() > 0) == (driver in ("gelsd", "gelss"))


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
def test_norms(ord):
    a = facula.randn(4, 3, dtype=F64)
    assert np.isclose(linalg.matrix_norm(a, ord).item(), np.linalg.norm(a.numpy(), ord))
    assert linalg.norm(a, ord, keepdim=True).shape == (1, 1)
    square = facula.randn(3, 3, dtype=F64)
    assert np.isclose(linalg.cond(square, ord).item(), np.linalg.cond(square.numpy(), ord))


def test_norms_along_any_two_dimensions():
    a = facula.randn(4, 3, 5, dtype=F64)
    for ord in (1, float("inf"), 2, "nuc"):
        found = linalg.matrix_norm(a, ord, dim=(2, 0), keepdim=True)
        wanted = np.linalg.norm(a.numpy(), ord, axis=(2, 0), keepdims=True)
        assert np.allclose(found.numpy(), wanted)


def test_ranks_and_pseudo_inverses():
    a = facula.randn(3, 5, 2, dtype=F64) @ facula.randn(3, 2, 4, dtype=F64)
    assert linalg.matrix_rank(a).tolist() == [2, 2, 2]
    assert np.allclose(linalg.pinv(a).numpy(), np.linalg.pinv(a.numpy()))
    s = a @ a.mT
    assert linalg.matrix_rank(s, hermitian=True).tolist() == [2, 2, 2]
    assert np.allclose(linalg.pinv(s, hermitian=True, rtol=1e-9).numpy(), np.linalg.pinv(s.numpy()))
    assert linalg.matrix_rank(facula.diag(facula.tensor([1.0, 0.1])), atol=0.5).item() == 1


def test_products():
    parts = [facula.randn(m, n, dtype=F64) for m, n in ((3, 9), (9, 2), (2, 8), (8, 4))]
    wanted = np.linalg.multi_dot([p.numpy() for p in parts])
    assert np.allclose(linalg.multi_dot(parts).numpy(), wanted)
    a = facula.randn(4, 4, dtype=F64)
    for n in (-3, 0, 1, 5, 8):
        assert np.allclose(linalg.matrix_power(a, n).numpy(), np.linalg.matrix_power(a.numpy(), n))
    t = facula.randn(4, 6, 8, 3, dtype=F64)
    assert np.allclose(linalg.tensorinv(t).numpy(), np.linalg.tensorinv(t.numpy()))
    s = facula.randn(2, 3, 6, dtype=F64)
    b = facula.randn(2, 3, dtype=F64)
    assert np.allclose(
        linalg.tensorsolve(s, b).numpy(), np.linalg.tensorsolve(s.numpy(), b.numpy())
    )
    assert linalg.vander(facula.tensor([2, 3]), N=3).tolist() == [[1, 2, 4], [1, 3, 9]]


@pytest.mark.parametrize("size", [1e-3, 1.0, 10.0])
def test_exponentials(size):
    from scipy.linalg import expm

    for dtype in (facula.float64, facula.complex128, facula.float32):
        a = facula.randn(3, 5, 5, dtype=dtype) * size
        wanted = np.stack([expm(m) for m in a.numpy()])
        tolerance = 1e-3 if dtype is facula.float32 else 1e-10
        scale = np.abs(wanted).max((-2, -1), keepdims=True)
        assert np.abs((linalg.matrix_exp(a).numpy() - wanted) / scale).max() < tolerance


@pytest.mark.parametrize("dtype", [facula.float32, facula.complex64])
def test_exponentials_of_large_matrices_are_rounded_once(dtype):
    """Each squaring doubles the error of what is squared: results were 19 epsilons off."""
    from scipy.linalg import expm

    a = facula.randn(20, 5, 5, dtype=dtype) * 6
    wide = np.complex128 if dtype.is_complex else np.float64
    wanted = np.stack([expm(m) for m in a.numpy().astype(wide)])
    scale = np.abs(wanted).max((-2, -1), keepdims=True)
    assert np.abs((linalg.matrix_exp(a).numpy() - wanted) / scale).max() < 1e-7


def test_a_few_eigenvalues():
    a = facula.randn(30, 30, dtype=F64)
    a = a @ a.mT
    values, vectors = facula.lobpcg(a, 3, tol=1e-9)
    assert np.allclose(values.numpy(), np.linalg.eigvalsh(a.numpy())[:-4:-1])
    assert np.allclose((a @ vectors).numpy(), (vectors * values).numpy(), atol=1e-4)
    low = facula.randn(40, 3, dtype=F64) @ facula.randn(3, 20, dtype=F64)
    u, s, v = facula.svd_lowrank(low, 5)
    assert np.allclose(((u * s) @ v.mT).numpy(), low.numpy())


BAD = [
    (lambda: linalg.inv(facula.zeros(2, 2)), linalg.LinAlgError, "diagonal element 1 is zero"),
    (lambda: linalg.inv(facula.ones(2, 3)), RuntimeError, "square matrices: got 2 by 3"),
    (lambda: linalg.inv(facula.ones(2, 2).long()), RuntimeError, "floating point or complex"),
    (lambda: linalg.inv(facula.ones(2, 2).half()), RuntimeError, "Low precision dtypes"),
    (lambda: linalg.cholesky(-facula.eye(2)[None]), linalg.LinAlgError, r"\(Batch element 0\)"),
    (lambda: linalg.solve(facula.zeros(2, 2), facula.ones(2)), linalg.LinAlgError, "singular"),
    (lambda: linalg.solve(facula.eye(2), facula.ones(3, 1)), RuntimeError, "Incompatible shapes"),
    (lambda: linalg.svd(facula.full((2, 2), float("nan"))), linalg.LinAlgError, "non-finite"),
    (lambda: linalg.eig(facula.full((2, 2), float("inf"))), RuntimeError, "infs or NaNs"),
    (lambda: linalg.qr(facula.ones(2, 2), "full"), RuntimeError, "unrecognized mode"),
    (lambda: linalg.eigh(facula.eye(2), "X"), RuntimeError, "UPLO"),
    (lambda: linalg.lstsq(facula.eye(2), facula.ones(2), driver="g"), RuntimeError, "driver"),
    (lambda: linalg.multi_dot([facula.eye(2)]), RuntimeError, "at least 2 tensors"),
    (lambda: linalg.lu(facula.eye(2), pivot=False), RuntimeError, "without pivoting"),
    (lambda: linalg.matrix_norm(facula.ones(2, 2), 3), RuntimeError, "not supported"),
]


@pytest.mark.parametrize("case", BAD)
def test_errors(case):
    call, kind, text = case
    with pytest.raises(kind, match=r"(?s)^\[.*" + text):
        call()
