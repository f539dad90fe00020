"""Eigenvalues, singular values, QR and the pseudo-inverse: the primitives.

Takes batches of matrices that the callers in `linalg_decompositions` have checked; LAPACK does the
work, through NumPy. Gives factors in fresh memory. Keeps true: where factors are determined up to a
sign or a phase, a gradient that depends on the choice is refused; values alone have gradients of
their own, which ask for no vectors before they are needed.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.linalg.launch import (
    adjoint,
    check_kind,
    check_matrix,
    lapack,
    like,
    real_dtype,
    store,
)
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, operator


def _column(values: Any) -> Any:
    return values.unsqueeze(-1)


def _row(values: Any) -> Any:
    return values.unsqueeze(-2)


def _unit_diagonal(x: core.Tensor) -> Any:
    """`x` with ones on the diagonal, which is not looked at."""
    one = F.eye(x.shape[-1], dtype=core.bool_, device=x.device)
    return F.where(one, F.ones_like(x), x)


def _without_diagonal(x: core.Tensor) -> Any:
    return x - F.diag_embed(x.diagonal(0, -2, -1))


def _check_phase(op: str, imaginary: Any, what: str) -> None:
    """Raise where a loss depends on the phase of vectors: the imaginary parts must vanish."""
    if imaginary.is_meta or imaginary.numel() == 0 or core.interpreters():
        return
    largest = F.abs(batch_forms.innermost(imaginary)).max().item()
    if largest > 1e-2:
        fail(
            RuntimeError,
            op,
            f"{op}_backward: The {what} in the complex case are specified up to multiplication by "
            "e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined.",
            hint="make the loss independent of the phase, as with absolute values",
        )


# ------------------------------------------------------------------ Hermitian matrices


@operator(
    "_linalg_eigh(Tensor A, bool upper, str check) -> (Tensor eigenvalues, Tensor eigenvectors)",
    names=(),
    out=False,
)
class _linalg_eigh:
    """Ascending eigenvalues of Hermitian matrices (of which one triangle is read), and vectors as
    columns.
    """

    vmap = "whole"

    def meta(A, upper, check):
        return like(A, A.shape[:-1], real_dtype(A)), like(A, A.shape)

    def cpu(out, A, upper, check):
        if A.numel():
            values, vectors = lapack(check, "eigh", A, UPLO="U" if upper else "L")
            store(out[0], values)
            store(out[1], vectors)

    def backward(grads, results):
        values, vectors = results
        by_values, by_vectors = grads
        if by_values is None and by_vectors is None:
            return None
        if by_vectors is None:
            return (vectors * _row(by_values)) @ adjoint(vectors)
        inner = adjoint(vectors) @ by_vectors
        if inner.is_complex():
            _check_phase("linalg_eigh", F.imag(inner.diagonal(0, -2, -1)), "eigenvectors")
        # of all gradients that Hermitian changes cannot tell apart the Hermitian one, as there is no other direction
        inner = _without_diagonal(_skew(inner) / 2) / _unit_diagonal(_row(values) - _column(values))
        if by_values is not None:
            inner = inner + F.diag_embed(by_values).to(inner.dtype)
        return vectors @ inner @ adjoint(vectors)


@operator(
    "_linalg_eigvalsh(Tensor A, bool upper, str check) -> Tensor",
    names=(),
    out=False,
    node="LinalgEighBackward0",
    file_form="eigvalsh",
)
class _linalg_eigvalsh:
    """Ascending eigenvalues of Hermitian matrices."""

    vmap = "whole"

    def meta(A, upper, check):
        return like(A, A.shape[:-1], real_dtype(A))

    def cpu(out, A, upper, check):
        if A.numel():
            store(out, lapack(check, "eigvalsh", A, UPLO="U" if upper else "L"))

    def backward(grad, A, upper, check):
        vectors = F._linalg_eigh(A, upper, check)[1]
        return (vectors * _row(grad)) @ adjoint(vectors)


# ------------------------------------------------------------------ any square matrix


@operator(
    "_linalg_eig(Tensor A, str check) -> (Tensor eigenvalues, Tensor eigenvectors)",
    names=(),
    out=False,
)
class _linalg_eig:
    """Complex eigenvalues in no order, and vectors of length one as columns."""

    vmap = "whole"

    def meta(A, check):
        dtype = A.dtype.to_complex()
        return like(A, A.shape[:-1], dtype), like(A, A.shape, dtype)

    def cpu(out, A, check):
        if A.numel():
            values, vectors = lapack(check, "eig", A.to(A.dtype.to_complex()))
            store(out[0], values)
            store(out[1], vectors)

    def backward(grads, A_meta, results):
        values, vectors = results
        by_values, by_vectors = grads
        if by_values is None and by_vectors is None:
            return None
        dual = adjoint(vectors)
        if by_vectors is None:
            inner = F.diag_embed(by_values)
        else:
            inner = dual @ by_vectors
            along = inner.diagonal(0, -2, -1)
            _check_phase("linalg_eig", F.imag(along), "eigenvectors")
            inner = inner - (dual @ vectors) * _row(F.real(along))
            spread = (_row(values) - _column(values)).conj()
            inner = _without_diagonal(inner / _unit_diagonal(spread))
            if by_values is not None:
                inner = inner + F.diag_embed(by_values)
        grad = F._linalg_solve(dual, inner @ dual, "")[0]
        return grad if A_meta.dtype.is_complex else F.real(grad)


@operator(
    "_linalg_eigvals(Tensor A, str check) -> Tensor",
    names=("_linalg_eigvals",),
    out=False,
    node="LinalgEigBackward0",
)
class _linalg_eigvals:
    """Complex eigenvalues in no order."""

    vmap = "whole"

    def meta(A, check):
        return like(A, A.shape[:-1], A.dtype.to_complex())

    def cpu(out, A, check):
        if A.numel():
            store(out, lapack(check, "eigvals", A.to(A.dtype.to_complex())))

    def backward(grad, A, check):
        vectors = F._linalg_eig(A, check)[1]
        dual = adjoint(vectors)
        found = F._linalg_solve(dual, _column(grad) * dual, "")[0]
        return found if A.is_complex() else F.real(found)


# ------------------------------------------------------------------ singular values


@operator(
    "_linalg_svd(Tensor A, bool full_matrices, str check) -> (Tensor U, Tensor S, Tensor Vh)",
    names=(),
    out=False,
)
class _linalg_svd:
    """Singular values, descending, between left vectors (columns) and right vectors (rows)."""

    vmap = "whole"

    def meta(A, full_matrices, check):
        *batch, m, n = A.shape
        k = min(m, n)
        left, right = (m, n) if full_matrices else (k, k)
        values = like(A, (*batch, k), real_dtype(A))
        return like(A, (*batch, m, left)), values, like(A, (*batch, right, n))

    def cpu(out, A, full_matrices, check):
        if A.numel():
            found = lapack(check, "svd", A, full_matrices=full_matrices)
            for result, array in zip(out, found, strict=True):
                store(result, array)
            return
        for result in (out[0], out[2]):
            if result.numel():
                result.copy_(F.eye(*result.shape[-2:], dtype=A.dtype).expand(result.shape))

    def backward(grads, results, full_matrices):
        left, values, right = results
        by_left, by_values, by_right = grads
        k = values.shape[-1]
        if full_matrices:
            left, right = left[..., :k], right[..., :k, :]
            by_left = None if by_left is None else by_left[..., :k]
            by_right = None if by_right is None else by_right[..., :k, :]
        return _svd_gradient(left, values, right, by_left, by_values, by_right)


def _svd_gradient(
    left: Any, values: Any, right: Any, by_left: Any, by_values: Any, by_right: Any
) -> Any:
    """The gradient of a thin singular value decomposition. [Townsend 2016]"""
    if by_left is None and by_right is None:
        return None if by_values is None else (left * _row(by_values.to(left.dtype))) @ right
    spread = _unit_diagonal(_row(values) ** 2 - _column(values) ** 2)
    inner = F.diag_embed(F.zeros_like(values) if by_values is None else by_values).to(left.dtype)
    turn_left = None if by_left is None else _skew(adjoint(left) @ by_left)
    turn_right = None if by_right is None else _skew(right @ adjoint(by_right))
    if left.is_complex():
        turns = [t for t in (turn_left, turn_right) if t is not None]
        phase = sum(F.imag(t.diagonal(0, -2, -1)) for t in turns)
        _check_phase("linalg_svd", phase, "singular vectors")
    if turn_left is not None:
        inner = inner + _without_diagonal(turn_left / spread) * _row(values)
        if left.is_complex():  # the phase that both vectors share is seen in one of them
            inner = inner + F.diag_embed(turn_left.diagonal(0, -2, -1) / (2 * values))
    if turn_right is not None:
        inner = inner + _column(values) * _without_diagonal(turn_right / spread)
    grad = left @ inner @ right
    if by_left is not None and left.shape[-2] > values.shape[-1]:
        scaled = by_left / _row(values)
        grad = grad + (scaled - left @ (adjoint(left) @ scaled)) @ right
    if by_right is not None and right.shape[-1] > values.shape[-1]:
        scaled = by_right / _column(values)
        grad = grad + left @ (scaled - (scaled @ adjoint(right)) @ right)
    return grad


def _skew(x: core.Tensor) -> Any:
    return x - adjoint(x)


@operator(
    "_linalg_svdvals(Tensor A, str check) -> Tensor",
    names=(),
    out=False,
    node="LinalgSvdBackward0",
    file_form="svdvals",
)
class _linalg_svdvals:
    """Singular values, descending."""

    vmap = "whole"

    def meta(A, check):
        return like(A, (*A.shape[:-2], min(A.shape[-2:])), real_dtype(A))

    def cpu(out, A, check):
        if A.numel():
            store(out, lapack(check, "svd", A, compute_uv=False))

    def backward(grad, A, check):
        left, _, right = F._linalg_svd(A, False, check)
        return (left * _row(grad)) @ right


# ------------------------------------------------------------------ QR


@operator(
    "_linalg_qr(Tensor A, str mode) -> (Tensor Q, Tensor R)", names=(), out=False, file_form="qr"
)
class _linalg_qr:
    """Orthonormal columns times an upper triangle; `mode` is "reduced", "complete" or "r" (an empty
    Q).
    """

    vmap = "whole"

    def meta(A, mode):
        *batch, m, n = A.shape
        k = m if mode == "complete" else min(m, n)
        first = (0,) if mode == "r" else (*batch, m, k)
        return like(A, first), like(A, (*batch, k, n))

    def cpu(out, A, mode):
        if A.numel():
            found = lapack("linalg.qr", "qr", A, mode=mode)
            for result, array in zip(
                out[mode == "r" :], [found] if mode == "r" else found, strict=True
            ):
                store(result, array)
        elif out[0].numel():
            out[0].copy_(F.eye(*out[0].shape[-2:], dtype=A.dtype).expand(out[0].shape))

    def backward(grads, A_meta, results, mode):
        rows, columns = A_meta.shape[-2:]
        if mode == "r" or (mode == "complete" and rows > columns):
            fail(
                RuntimeError,
                "linalg.qr",
                f"The QR decomposition is not differentiable when mode='{mode}'"
                + (" and nrows > ncols" if mode == "complete" else ""),
                list(A_meta.shape),
                "use mode='reduced'",
            )
        orthonormal, triangle = results
        if rows >= columns:
            return _qr_gradient(orthonormal, triangle, *grads)
        return _wide_qr_gradient(orthonormal, triangle, *grads)


def _qr_gradient(orthonormal: Any, triangle: Any, by_first: Any, by_second: Any) -> Any:
    """The gradient where the matrix has at least as many rows as columns. [Walter & Lehmann 2010]"""
    if by_first is None and by_second is None:
        return None
    inner: Any = None if by_second is None else by_second @ adjoint(triangle)
    if by_first is not None:
        turn = adjoint(orthonormal) @ by_first
        inner = -turn if inner is None else inner - turn
    along = F.diag_embed(
        F.real(inner.diagonal(0, -2, -1)) if inner.is_complex() else inner.diagonal(0, -2, -1)
    )
    above = inner.triu(1)
    grad = orthonormal @ (above + adjoint(above) + along.to(above.dtype))
    if by_first is not None:
        grad = grad + by_first
    return adjoint(F._solve_triangular(triangle, adjoint(grad), True, False))


def _wide_qr_gradient(orthonormal: Any, triangle: Any, by_first: Any, by_second: Any) -> Any:
    """The gradient of a wide matrix [X Y]: X has the square factors, and the rest of R is Q^H Y."""
    size = orthonormal.shape[-1]
    square, rest = triangle[..., :size], triangle[..., size:]
    if by_second is None:
        first = _qr_gradient(orthonormal, square, by_first, None)
        return None if first is None else F.pad(first, (0, rest.shape[-1]))
    by_square, by_rest = by_second[..., :size], by_second[..., size:]
    turned = orthonormal @ (rest @ adjoint(by_rest))
    by_first = turned if by_first is None else by_first + turned
    grad = _qr_gradient(orthonormal, square, by_first, by_square)
    return F.cat([grad, orthonormal @ by_rest], -1)


@operator("geqrf(Tensor self) -> (Tensor a, Tensor tau)", names=("geqrf", "Tensor.geqrf"))
class geqrf:
    """R above, and the Householder vectors of Q below the diagonal; their factors."""

    vmap = "whole"

    def meta(self):
        check_matrix("geqrf", self, "input")
        check_kind("geqrf", self, "input")
        return like(self, self.shape), like(self, (*self.shape[:-2], min(self.shape[-2:])))

    def cpu(out, self):
        if self.numel():
            packed, factors = lapack("geqrf", "qr", self, mode="raw")
            store(out[0], packed.swapaxes(-2, -1))
            store(out[1], factors)

    def backward(grads, self_meta):
        fail(
            NotImplementedError,
            "geqrf",
            "the derivative for 'geqrf' is not implemented",
            hint="use linalg.qr, which has one",
        )


# ------------------------------------------------------------------ pseudo-inverse


@operator(
    "_linalg_pinv(Tensor A, Tensor atol, Tensor rtol, bool hermitian) -> Tensor",
    names=(),
    out=False,
    file_form="pinv",
)
class _linalg_pinv:
    """The pseudo-inverse, with singular values up to max(atol, rtol * largest) taken as zero."""

    def vmap(batch, A, atol, rtol, hermitian):
        rank = A.dim() - 2
        tolerances = [batch.aligned(t, rank) for t in (atol, rtol)]
        return F._linalg_pinv(batch.full(A), *tolerances, hermitian)

    def meta(A, atol, rtol, hermitian):
        return like(A, (*A.shape[:-2], A.shape[-1], A.shape[-2]))

    def cpu(out, A, atol, rtol, hermitian):
        if not A.numel():
            return
        if hermitian:
            values, left = F._linalg_eigh(A, False, "linalg.pinv")
            right = adjoint(left)
            magnitude = values.abs()
            largest = magnitude.amax(-1, True)
        else:
            left, values, right = F._linalg_svd(A, False, "linalg.pinv")
            magnitude, largest = values, values[..., :1]
        limit = F.maximum(_column(atol), _column(rtol) * largest)
        inverse = F.where(magnitude > limit, values.reciprocal(), F.zeros_like(values))
        out.copy_((adjoint(right) * _row(inverse)) @ adjoint(left))

    def backward(grad, A, result):
        dual, back = adjoint(result), adjoint(grad)
        first = -(dual @ grad @ dual)
        second = (back - A @ (result @ back)) @ result @ dual
        third = dual @ (result @ back) @ _residual(A, result)
        return first + second + third, None, None


def _residual(matrix: core.Tensor, inverse: core.Tensor) -> Any:
    """The projection onto the kernel of the matrix."""
    one = F.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return one - inverse @ matrix
