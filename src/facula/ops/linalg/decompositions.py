"""`linalg` and its older names: eigenvalues, singular values, QR, least squares, and what is read
off them.

Takes matrices or batches of them; gives what LAPACK gives, with PyTorch's names and errors. Keeps
true: all checks stand here, before a primitive of `linalg_spectrum` is called; thresholds of rank
follow PyTorch's `atol` and `rtol`.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail, in_favor_of
from facula.ops.linalg.launch import (
    adjoint,
    broadcast,
    check_kind,
    check_matrix,
    check_numbers,
    check_same_dtype,
    like,
    real_dtype,
)
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite

#: PyTorch's functions take their first matrix as `input` too
_FIRST = {"input": "A"}


def _is_upper(op: str, triangle: str) -> bool:
    if triangle.upper() not in ("L", "U"):
        fail(
            RuntimeError,
            op,
            "Expected UPLO argument to be 'L' or 'U'",
            triangle,
            hint="'L' reads the lower triangle, 'U' the upper one",
        )
    return triangle.upper() == "U"


@composite(
    "linalg_eigh(Tensor A, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    file_arguments={"A": "self"},
    names=("linalg.eigh",),
    keyword_aliases=_FIRST,
)
def linalg_eigh(A, UPLO):  # noqa: N803
    """Ascending eigenvalues and orthonormal eigenvectors of Hermitian matrices, of which one
    triangle is read.
    """
    check_numbers("linalg.eigh", A)
    return tuple(F._linalg_eigh(A, _is_upper("linalg.eigh", UPLO), "linalg.eigh"))


@composite(
    "linalg_eigvalsh(Tensor A, str UPLO='L') -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.eigvalsh",),
    keyword_aliases=_FIRST,
)
def linalg_eigvalsh(A, UPLO):  # noqa: N803
    """Ascending eigenvalues of Hermitian matrices, of which one triangle is read."""
    check_numbers("linalg.eigvalsh", A)
    return F._linalg_eigvalsh(A, _is_upper("linalg.eigvalsh", UPLO), "linalg.eigvalsh")


def _check_finite(op: str, x: core.Tensor) -> None:
    """`linalg.eig` refuses infinities by name."""
    if not x.is_meta and batch_forms.anywhere(F.logical_not(F.isfinite(x))):
        fail(
            RuntimeError,
            op,
            f"torch.{op}: input tensor should not contain infs or NaNs.",
            hint="x.isfinite() tells where they are",
        )


@composite(
    "linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
    file_arguments={"A": "self"},
    names=("linalg.eig",),
    keyword_aliases=_FIRST,
)
def linalg_eig(A):  # noqa: N803
    """Eigenvalues and eigenvectors (columns) of square matrices, complex, in no order."""
    check_numbers("linalg.eig", A)
    _check_finite("linalg.eig", A)
    return tuple(F._linalg_eig(A, "linalg.eig"))


@composite(
    "linalg_eigvals(Tensor A) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.eigvals",),
    keyword_aliases=_FIRST,
)
def linalg_eigvals(A):  # noqa: N803
    """Eigenvalues of square matrices, complex, in no order."""
    check_numbers("linalg.eigvals", A)
    _check_finite("linalg.eigvals", A)
    return F._linalg_eigvals(A, "linalg.eigvals")


# ------------------------------------------------------------------ singular values


def _check_driver(op: str, driver: str | None) -> None:
    if driver is not None:
        fail(
            RuntimeError,
            op,
            f"{op}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
            driver,
            hint="leave driver out",
        )


@composite(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, "
    "Tensor Vh)",
    names=("linalg.svd",),
    keyword_aliases=_FIRST,
)
def linalg_svd(A, full_matrices, driver):  # noqa: N803
    """A = U diag(S) Vh with orthonormal U and V, S descending; reduced unless `full_matrices`."""
    check_matrix("linalg.svd", A)
    check_kind("linalg.svd", A)
    _check_driver("linalg.svd", driver)
    return tuple(F._linalg_svd(A, full_matrices, "linalg.svd"))


@composite(
    "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    names=("linalg.svdvals",),
    keyword_aliases=_FIRST,
)
def linalg_svdvals(A, driver):  # noqa: N803
    """Singular values, descending."""
    check_matrix("linalg.svd", A)
    check_kind("linalg.svd", A)
    _check_driver("linalg.svd", driver)
    return F._linalg_svdvals(A, "linalg.svd")


@composite(
    "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)"
)
def svd(self, some, compute_uv):
    """As `linalg.svd`, with V in the place of its adjoint; U and V are zeros without `compute_uv`."""
    check_matrix("linalg.svd", self)
    check_kind("linalg.svd", self)
    if compute_uv:
        left, values, right = F._linalg_svd(self, not some, "linalg.svd")
        return left, values, adjoint(right)
    *batch, m, n = self.shape
    left, right = self.new_zeros((*batch, m, m)), self.new_zeros((*batch, n, n))
    return left, F._linalg_svdvals(self, "linalg.svd"), right


# ------------------------------------------------------------------ QR and reflections


@composite(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    names=("linalg.qr",),
    keyword_aliases=_FIRST,
)
def linalg_qr(A, mode):  # noqa: N803
    """Orthonormal Q and upper triangular R with A = Q R; `mode` "reduced", "complete", or "r"
    without Q.
    """
    check_matrix("linalg.qr", A)
    check_kind("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        fail(
            RuntimeError,
            "linalg.qr",
            "qr received unrecognized mode: expected one of 'reduced' (default), 'r', or 'complete'",
            mode,
            hint="mode='r' leaves the first factor out",
        )
    return tuple(F._linalg_qr(A, mode))


@composite("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)")
def qr(self, some):
    """As `linalg.qr`, reduced or complete."""
    in_favor_of("qr", "linalg.qr", "some=False is mode='complete'")
    return tuple(F.linalg_qr(self, "reduced" if some else "complete"))


def _check_reflections(op: str, packed: core.Tensor, tau: core.Tensor) -> None:
    check_matrix(op, packed, "input")
    check_kind(op, packed, "input")
    check_same_dtype(op, packed, tau, ("input", "tau"))
    if tuple(tau.shape[:-1]) != tuple(packed.shape[:-2]) or tau.dim() != packed.dim() - 1:
        fail(
            RuntimeError,
            op,
            f"{op}: Expected tau to have one dimension less than input equal to input.shape[:-2]",
            list(tau.shape),
            hint="geqrf() gives input and tau",
        )
    if packed.shape[-1] < tau.shape[-1]:
        fail(
            RuntimeError,
            op,
            f"{op}: input.shape[-1] must be greater than or equal to tau.shape[-1]",
            f"{packed.shape[-1]} and {tau.shape[-1]}",
            hint="geqrf() gives input and tau",
        )


def _reflections(packed: core.Tensor, tau: core.Tensor) -> tuple[Any, Any]:
    """The vectors V of k reflections as columns, and the triangle I + U D of their product."""
    # H_1 ... H_k = I - V D (I + U D)^-1 V^H, where U is the strict upper triangle of V^H V and D =
    # diag(tau).
    k, m = tau.shape[-1], packed.shape[-2]
    one = F.eye(m, k, dtype=packed.dtype, device=packed.device)
    vectors = packed[..., :k].tril(-1) + one
    triangle = (adjoint(vectors) @ vectors).triu(1) * tau.unsqueeze(-2)
    return vectors, triangle + F.eye(k, dtype=packed.dtype, device=packed.device)


def _reflected(packed: core.Tensor, tau: core.Tensor, other: object, conjugate: bool) -> Any:
    """Q @ other, or Q^H @ other, for the product Q of the reflections."""
    vectors, triangle = _reflections(packed, tau)
    inner, scale = adjoint(vectors) @ other, tau.unsqueeze(-1)
    if conjugate:
        inner = F._solve_triangular(adjoint(triangle), scale.conj() * inner, False, True)
    else:
        inner = scale * F._solve_triangular(triangle, inner, True, True)
    return other - vectors @ inner


@composite(
    "linalg_householder_product(Tensor A, Tensor tau) -> Tensor",
    names=("linalg.householder_product",),
    keyword_aliases=_FIRST,
    node="LinalgHouseholderProductBackward0",
    file_arguments={"A": "input"},
)
def linalg_householder_product(A, tau):  # noqa: N803
    """The first columns of the product of Householder reflections, stored below the diagonal.
    [Schreiber 1989]
    """
    op = "torch.linalg.householder_product"
    check_matrix(op, A, "input")
    m, n = A.shape[-2:]
    if m < n:
        fail(
            RuntimeError,
            op,
            f"{op}: input.shape[-2] must be greater than or equal to input.shape[-1]",
            f"{m} and {n}",
            hint="geqrf() of a matrix with at least as many rows as columns gives input and tau",
        )
    _check_reflections(op, A, tau)
    one = F.eye(m, n, dtype=A.dtype, device=A.device).expand(A.shape)
    return _reflected(A, tau, one, False)


@composite(
    "orgqr(Tensor self, Tensor tau) -> Tensor",
    keyword_aliases={"input2": "tau"},
    file_arguments={"tau": "input2"},
)
def orgqr(self, tau):
    """As `linalg.householder_product`."""
    return F.linalg_householder_product(self, tau)


@composite(
    "ormqr(Tensor self, Tensor tau, Tensor other, bool left=True, bool transpose=False) -> Tensor",
    keyword_aliases={"input2": "tau", "input3": "other"},
    node="OrmqrBackward0",
    file_arguments={"tau": "input2", "other": "input3"},
)
def ormqr(self, tau, other, left, transpose):
    """Q @ other (other @ Q unless `left`; Q^H with `transpose`) for the product Q of reflections."""
    _check_reflections("torch.ormqr", self, tau)
    check_matrix("torch.ormqr", other, "other")
    side = -2 if left else -1
    if other.shape[side] != self.shape[-2]:
        fail(
            RuntimeError,
            "torch.ormqr",
            f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]",
            f"{other.shape[side]} and {self.shape[-2]}",
            hint="left chooses the side that other is multiplied from",
        )
    check_same_dtype("torch.ormqr", self, other, ("input", "other"))
    if left:
        return _reflected(self, tau, other, transpose)
    return adjoint(_reflected(self, tau, adjoint(other), not transpose))


# ------------------------------------------------------------------ ranks and pseudo-inverses


def _tolerance(value: Any, x: core.Tensor, default: float) -> Any:
    """A tolerance as a tensor of real numbers."""
    if isinstance(value, core.Tensor):
        if value.dtype.is_complex:
            fail(
                RuntimeError,
                "linalg",
                "a real tolerance was required",
                value.dtype,
                hint="give value.real or value.abs()",
            )
        return value.to(real_dtype(x))
    number = default if value is None else float(value)
    return F.full((), number, dtype=real_dtype(x), device=x.device)


def tolerances(x: core.Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance: the latter has a default where the former is zero or not
    given.
    """
    epsilon = core.finfo(real_dtype(x)).eps * max(x.shape[-2:])
    absolute = _tolerance(atol, x, 0.0)
    if rtol is not None:
        return absolute, _tolerance(rtol, x, 0.0)
    relative = _tolerance(None, x, epsilon)
    if atol is None:
        return absolute, relative
    return absolute, F.where(absolute > 0, F.zeros_like(relative), relative)


@composite(
    "linalg_matrix_rank(Tensor A, *, any atol=None, any rtol=None, bool hermitian=False) -> Tensor",
    file_arguments={"A": "self", "atol_rtol_tensor.A": "input"},
    overload="atol:Tensor=atol_rtol_tensor, rtol:Tensor=atol_rtol_tensor, atol_rtol_float",
    names=("linalg.matrix_rank",),
    keyword_aliases=_FIRST | {"tol": "atol"},
)
def linalg_matrix_rank(A, atol, rtol, hermitian):  # noqa: N803
    """How many singular values are above max(atol, rtol * largest)."""
    op = "linalg.matrix_rank"
    check_matrix(op, A)
    check_kind(op, A)
    if hermitian:
        check_numbers(op, A)
    absolute, relative = tolerances(A, atol, rtol)
    if A.numel() == 0:
        return F.zeros(A.shape[:-2], dtype=core.int64, device=A.device)
    if hermitian:
        values = F._linalg_eigvalsh(A, False, op).abs()
    else:
        values = F._linalg_svdvals(A, op)
    limit = F.maximum(absolute, relative * values.amax(-1))
    return (values > limit.unsqueeze(-1)).sum(-1)


@composite(
    "linalg_pinv(Tensor A, any rcond=None, bool hermitian=False, *, any atol=None, any rtol=None) -> Tensor",
    file_arguments={"A": "self"},
    overload="atol:Tensor=atol_rtol_tensor, rtol:Tensor=atol_rtol_tensor, rcond=default, atol_rtol_float",
    names=("linalg.pinv",),
    keyword_aliases=_FIRST,
)
def linalg_pinv(A, rcond, hermitian, atol, rtol):  # noqa: N803
    """Moore and Penrose's inverse; singular values up to max(atol, rtol * largest) count as zero.

    rcond: the older name of rtol, as in NumPy.
    """
    rtol = rcond if rtol is None else rtol
    check_matrix("linalg.pinv", A)
    check_kind("linalg.pinv", A)
    if hermitian:
        check_numbers("linalg.pinv", A)
    absolute, relative = tolerances(A, atol, rtol)
    batch = A.shape[:-2]
    return F._linalg_pinv(A, absolute.expand(batch), relative.expand(batch), hermitian)


@composite("pinverse(Tensor self, float rcond=1e-15) -> Tensor", out=False)
def pinverse(self, rcond):
    """As `linalg.pinv`, with a relative tolerance."""
    return F.linalg_pinv(self, rtol=rcond)


# ------------------------------------------------------------------ least squares


def _full_rank(a: Any, b: object) -> Any:
    """The least-squares solution through QR: of least length where there are several."""
    if a.shape[-2] >= a.shape[-1]:
        first, triangle = F._linalg_qr(a, "reduced")
        return F._solve_triangular(triangle, adjoint(first) @ b, True, False)
    first, triangle = F._linalg_qr(adjoint(a), "reduced")
    return first @ F._solve_triangular(adjoint(triangle), b, False, False)


@composite(
    "linalg_lstsq(Tensor A, Tensor B, Number? rcond=None, *, str? driver=None) -> (Tensor solution, "
    "Tensor residuals, Tensor rank, Tensor singular_values)",
    file_arguments={"A": "self", "B": "b"},
    names=("linalg.lstsq",),
    keyword_aliases=_FIRST | {"b": "B", "self": "A"},
    node="LinalgLstsqBackward0",
)
def linalg_lstsq(A, B, rcond, driver):  # noqa: N803
    """X with least |A X - B|; residuals, ranks and singular values where they exist, else empty."""
    op, chosen = "torch.linalg.lstsq", driver or "gelsy"
    _check_lstsq(op, A, B, chosen)
    vector = A.dim() - 1 == B.dim() and tuple(B.shape) == tuple(A.shape[:-1])
    rhs = B.unsqueeze(-1) if vector else B
    if A.shape[-2] != rhs.shape[-2]:
        fail(
            RuntimeError,
            op,
            f"{op}: input.size(-2) should match other.size({-1 if vector else -2})",
            f"{A.shape[-2]} and {rhs.shape[-2]}",
            hint="every row of both is one equation",
        )
    m, n = A.shape[-2:]
    a, rhs = broadcast(op, A, rhs)
    batch = a.shape[:-2]
    values, rank = like(A, (0,), real_dtype(A)), like(A, (0,), core.int64)
    if A.numel() == 0:
        solution = a.new_zeros((*batch, n, rhs.shape[-1]))
        rank = F.zeros(batch, dtype=core.int64, device=A.device) if chosen != "gels" else rank
    elif chosen == "gels":
        solution = _full_rank(a, rhs)
    else:
        limit = core.finfo(real_dtype(A)).eps * max(m, n) if rcond is None else rcond
        solution = F.linalg_pinv(a, rtol=limit) @ rhs
        found = F._linalg_svdvals(a.detach(), op)
        rank = (found > limit * found[..., :1]).sum(-1)
        values = found if chosen in ("gelsd", "gelss") else values
    residuals = solution.reshape(-1)[:0].abs()
    if m > n and (chosen == "gels" or (chosen != "gelsy" and _all_of(rank, n))):
        residuals = (a @ solution - rhs).abs().square().sum(-2)
    return (solution.squeeze(-1) if vector else solution), residuals, rank, values


def _all_of(rank: Any, full: int) -> bool:
    """Whether every matrix has full rank; without data, whether it may be assumed."""
    return rank.is_meta or not batch_forms.anywhere(rank != full)


def _check_lstsq(op: str, a: Any, b: Any, driver: str) -> None:
    if a.dim() < 2:
        fail(
            RuntimeError,
            op,
            f"{op}: input must have at least 2 dimensions.",
            a.dim(),
            hint="unsqueeze(-1) makes a column of a vector",
        )
    if b.dim() < 1:
        fail(
            RuntimeError,
            op,
            f"{op}: other must have at least 1 dimension.",
            b.dim(),
            hint="reshape(1) makes a vector of a number",
        )
    check_kind(op, a, "input")
    check_same_dtype(op, a, b, ("input", "other"))
    difference = a.dim() - b.dim()
    if not 0 <= difference <= 1:
        fail(
            RuntimeError,
            op,
            f"{op}: input.dim() must be greater or equal to other.dim() and "
            "(input.dim() - other.dim()) <= 1",
            f"{a.dim()} and {b.dim()}",
            hint="other is a vector or a matrix for each matrix of input",
        )
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        fail(
            RuntimeError,
            op,
            f"{op}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
            driver,
            hint="leave driver out",
        )
