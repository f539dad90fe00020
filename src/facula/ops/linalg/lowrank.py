"""Approximate decompositions of large matrices: random projections, and a few eigenvalues by
iteration.

Takes matrices (or batches) of which only products are asked. Gives leading singular or eigenvalues
and vectors. Keeps true: everything is made of other operators; random numbers come from the default
generator.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.linalg.launch import adjoint, check_matrix, check_numbers
from facula.ops.table.registry import F, composite


def _range(matrix: Any, q: int, niter: int) -> Any:
    """Orthonormal columns near the span of the leading left singular vectors. [Halko et al. 2011,
    4.4]
    """
    found = F.linalg_qr(
        matrix @ F.randn(matrix.shape[-1], q, dtype=matrix.dtype, device=matrix.device)
    )[0]
    for _ in range(niter):
        found = F.linalg_qr(adjoint(matrix) @ found)[0]
        found = F.linalg_qr(matrix @ found)[0]
    return found


@composite(
    "svd_lowrank(Tensor A, int? q=6, int niter=2, Tensor? M=None) -> (Tensor, Tensor, Tensor)",
    names=("svd_lowrank",),
    home="_lowrank.svd_lowrank",
    out=False,
    inlined=True,
)
def svd_lowrank(A, q, niter, M):  # noqa: N803
    """U, S and V of about the `q` leading singular values of A - M. [Halko et al. 2011]"""
    check_matrix("svd_lowrank", A)
    matrix = A if M is None else A - M.expand(A.shape)
    count = 6 if q is None else q
    if matrix.shape[-2] < matrix.shape[-1]:
        matrix = adjoint(matrix)
        basis = _range(matrix, count, niter)
        right, values, left = _of_projection(matrix, basis)
        return left, values, right
    return _of_projection(matrix, _range(matrix, count, niter))


def _of_projection(matrix: Any, basis: Any) -> tuple[Any, Any, Any]:
    left, values, right = F.linalg_svd(adjoint(basis) @ matrix, False)
    return basis @ left, values, adjoint(right)


@composite(
    "pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> (Tensor, Tensor, Tensor)",
    names=("pca_lowrank",),
    home="_lowrank.pca_lowrank",
    out=False,
    inlined=True,
)
def pca_lowrank(A, q, center, niter):  # noqa: N803
    """U, S and V of about the `q` leading principal components of the rows of A."""
    check_matrix("pca_lowrank", A)
    m, n = A.shape[-2:]
    count = min(6, m, n) if q is None else q
    if not 0 <= count <= min(m, n):
        fail(
            ValueError,
            "pca_lowrank",
            "0 <= q <= min(m, n)",
            f"q={count} for {m} x {n}",
            hint=f"leave q out for {min(6, m, n)}",
        )
    if niter < 0:
        fail(
            ValueError,
            "pca_lowrank",
            "a non-negative niter was required",
            niter,
            hint="niter=2 is the default",
        )
    matrix = A - A.mean(-2, True) if center else A
    return F.svd_lowrank(matrix, count, niter)


def _orthonormal(x: core.Tensor, metric: Any) -> Any:
    """Columns with the span of `x` that are orthonormal in the metric; dependent ones are dropped."""
    gram = adjoint(x) @ (x if metric is None else metric @ x)
    scale = gram.diagonal().clamp(min=core.finfo(gram.dtype).tiny).rsqrt()
    values, vectors = F.linalg_eigh(gram * scale.unsqueeze(0) * scale.unsqueeze(1))
    kept = values > core.finfo(gram.dtype).eps * gram.shape[0] * values[-1]
    return (x * scale) @ (vectors[:, kept] / values[kept].sqrt())


def _iterate(
    matrix: Any,
    metric: Any,
    x: core.Tensor,
    precondition: Any,
    niter: int,
    tol: float,
    largest: bool,
) -> tuple[Any, Any]:
    """Locally optimal steps: the best vectors in the span of the last, the residuals and the step.
    [Knyazev 2001]
    """
    k, sign = x.shape[-1], -1 if largest else 1
    x = _orthonormal(x, metric)
    step: Any = None
    for turn in range(niter + 1):
        reduced = adjoint(x) @ (matrix @ x) * sign
        values, rotation = F.linalg_eigh(reduced)
        best = x @ rotation[:, :k]
        image = best if metric is None else metric @ best
        residual = matrix @ best - image * (values[:k] * sign)
        scale = (matrix @ best).norm(dim=0) + values[:k].abs() * image.norm(dim=0)
        if turn == niter or bool((residual.norm(dim=0) <= tol * scale).all()):
            return values[:k] * sign, best
        if precondition is not None:
            residual = precondition @ residual
        parts = [best, residual] if step is None else [best, residual, step]
        outside = x[:, k:] @ rotation[k:, :k] if x.shape[-1] > k else residual
        step = outside
        x = _orthonormal(F.cat(parts, -1), metric)
    fail(
        AssertionError,
        "lobpcg",
        "niter of 0 or more was required",
        got=niter,
        hint="leave niter out to go on until it converges",
    )


def _of_batch(x: Any, batch: tuple[int, ...], index: int) -> Any:
    """One matrix of those that an optional argument stands for."""
    if x is None:
        return None
    return x.expand((*batch, *x.shape[-2:])).reshape((-1, *x.shape[-2:]))[index]


@composite(
    "lobpcg(Tensor A, int? k=None, Tensor? B=None, Tensor? X=None, int? n=None, Tensor? iK=None, "
    "int? niter=None, float? tol=None, bool? largest=None, str? method=None, any tracker=None, any "
    "ortho_iparams=None, any ortho_fparams=None, any ortho_bparams=None) -> (Tensor, Tensor)",
    names=("lobpcg",),
    home="_lobpcg.lobpcg",
    out=False,
    inlined=True,
)
def lobpcg(  # noqa: PLR0913
    A,  # noqa: N803
    k,
    B,  # noqa: N803
    X,  # noqa: N803
    n,
    iK,  # noqa: N803
    niter,
    tol,
    largest,
    method,
    tracker,
    ortho_iparams,
    ortho_fparams,
    ortho_bparams,
):
    """The `k` largest (or smallest) eigenvalues of A x = v B x for symmetric A and positive-
    definite B, and vectors.

    X: first guesses. iK: an approximate inverse of A. `n`, `method`, `tracker` and `ortho_*` steer
    PyTorch's own iteration and are only checked.
    """
    check_numbers("lobpcg", A)
    if method not in (None, "basic", "ortho"):
        fail(
            ValueError,
            "lobpcg",
            "method 'basic' or 'ortho'",
            repr(method),
            hint="leave method out",
        )
    m = A.shape[-1]
    count = (1 if X is None else X.shape[-1]) if k is None else k
    if m < 3 * count:
        fail(
            ValueError,
            "lobpcg",
            f"A of at least 3 k = {3 * count} rows: LPBPCG algorithm is not applicable when the "
            f"number of A rows (={m}) is smaller than 3 x the number of requested eigenpairs (={count})",
            hint=f"linalg.eigh() finds all {m} eigenpairs of a small matrix",
        )
    real = core.finfo(A.dtype).eps
    settings = (
        1000 if niter is None else niter,
        real**0.5 if tol is None else tol,
        True if largest is None else largest,
    )
    batch = A.shape[:-2]
    flat = A.reshape((-1, m, m))
    found = []
    for i in range(flat.shape[0]):
        first = _of_batch(X, batch, i)
        if first is None:
            first = F.randn(m, n or count, dtype=A.dtype, device=A.device)
        metric, precondition = _of_batch(B, batch, i), _of_batch(iK, batch, i)
        found.append(_iterate(flat[i], metric, first[:, :count], precondition, *settings))
    values = F.stack([v for v, _ in found]).reshape((*batch, count))
    return values, F.stack([x for _, x in found]).reshape((*batch, m, count))
