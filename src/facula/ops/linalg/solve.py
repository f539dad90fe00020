"""Inverses, determinants and linear systems through LU factors: the primitives.

Takes batches of square matrices (and right-hand sides) with equal leading dimensions, checked by
the callers in `linalg_systems`. Gives solutions and the factors they came from, which gradients use
again. Keeps true: where gradients are themselves differentiated they are formulas of the matrix,
else they reuse its factors.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.linalg.launch import adjoint, batch_of, like, raise_for, real_dtype
from facula.ops.linalg.triangular import factor, lu_parts, permuted, substitute
from facula.ops.table.registry import F, operator


def _substitute_both(factors: core.Tensor, x: core.Tensor) -> None:
    """Solve L U y = x in the place of contiguous `x`."""
    if x.numel():
        substitute(batch_of(factors), batch_of(x), False, True)
        substitute(batch_of(factors), batch_of(x), True, False)


def solve_factored(factors: core.Tensor, pivots: core.Tensor, b: Any, conjugate: bool) -> Any:
    """The solution of A x = b, or of A^H x = b, for A = P L U; differentiable."""
    if conjugate:
        flipped = adjoint(factors)
        x = F._solve_triangular(flipped, b, False, False)
        return permuted(F._solve_triangular(flipped, x, True, True), pivots, True)
    x = F._solve_triangular(factors, permuted(b, pivots, False), False, True)
    return F._solve_triangular(factors, x, True, False)


def _solved_adjoint(matrix: Any, factors: Any, pivots: Any, b: object) -> Any:
    """A^-H b; a formula of A itself where it will be differentiated."""
    if core.is_grad_enabled() or core.interpreters():
        return F._linalg_solve(adjoint(matrix), b, "")[0]
    return solve_factored(factors, pivots, b, True)


def unsolvable(info: int) -> str:
    """What a solver says about a zero pivot."""
    return "The solver failed because the input matrix is singular."


def not_invertible(info: int) -> str:
    """What an inversion says about a zero pivot."""
    return (
        f"The diagonal element {info} is zero, the inversion could not be completed because the "
        "input matrix is singular."
    )


@operator(
    "_linalg_solve(Tensor A, Tensor B, str check) -> (Tensor result, Tensor LU, Tensor pivots, "
    "Tensor info)",
    names=(),
    out=False,
    nondifferentiable=(1, 2, 3),
    node="LinalgSolveExBackward0",
    file_form="solved",
)
class _linalg_solve:
    """The solution X of A @ X = B."""

    vmap = "whole"

    def flops(A, B, check):
        return 2 * A.numel() * A.shape[-1] // 3 + 2 * A.shape[-1] * B.numel()

    def meta(A, B, check):
        return (like(B, B.shape), *lu_parts(A))

    def cpu(out, A, B, check):
        result, *parts = out
        parts[0].copy_(A)
        factor(*parts)
        raise_for(check, parts[2], unsolvable, "linalg.lstsq() takes singular matrices")
        if result.numel():
            result.copy_(permuted(B, parts[1], False))
            _substitute_both(parts[0], result)

    def backward(grads, A, result_0, result_1, result_2, needs):
        if grads[0] is None:
            return None, None
        grad = _solved_adjoint(A, result_1, result_2, grads[0])
        return (-(grad @ adjoint(result_0)) if needs[0] else None), grad


@operator(
    "_linalg_inverse(Tensor A, str check) -> (Tensor inverse, Tensor info)",
    names=(),
    out=False,
    nondifferentiable=(1,),
    node="LinalgInvExBackward0",
    file_form="inverse",
)
class _linalg_inverse:
    """The inverse of A."""

    vmap = "whole"

    def flops(A, check):
        return 2 * A.numel() * A.shape[-1]

    def meta(A, check):
        return like(A, A.shape), like(A, A.shape[:-2], core.int32)

    def cpu(out, A, check):
        factors, pivots, _ = lu_parts(A)
        factors.copy_(A)
        factor(factors, pivots, out[1])
        raise_for(check, out[1], not_invertible, "linalg.pinv() takes singular matrices")
        if A.numel():
            one = F.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)
            out[0].copy_(permuted(one, pivots, False))
            _substitute_both(factors, out[0])

    def backward(grads, result_0):
        if grads[0] is None:
            return None
        conjugate = adjoint(result_0)
        return -(conjugate @ (grads[0] @ conjugate))


# ------------------------------------------------------------------ determinants


def _signed(factors: core.Tensor, pivots: core.Tensor) -> tuple[Any, Any]:
    """The diagonal of U, and 1 or -1 for the exchanges of rows."""
    expected = F.arange(1, pivots.shape[-1] + 1, dtype=core.int32)
    odd = (pivots != expected).sum(-1) % 2
    return factors.diagonal(0, -2, -1), 1 - 2 * odd


def _nearby(matrix: Any, factors: Any) -> Any:
    """The factors with zeros on the diagonal replaced by a rounding error.

    The adjugate of a singular matrix is the limit of determinant times inverse.
    """
    diagonal = factors.diagonal(0, -2, -1)
    zero = diagonal == 0
    tiny = core.finfo(matrix.dtype).eps
    filled = F.diag_embed(F.where(zero, F.full_like(diagonal, tiny), F.zeros_like(diagonal)))
    return factors + filled


@operator(
    "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
    names=("_linalg_det",),
    out=False,
    nondifferentiable=(1, 2),
)
class _linalg_det:
    """The determinants of square matrices, and the LU factors that gave them."""

    vmap = "whole"

    def flops(A):
        return 2 * A.numel() * A.shape[-1] // 3

    def meta(A):
        return (like(A, A.shape[:-2]), *lu_parts(A)[:2])

    def cpu(out, A):
        result, factors, pivots = out
        factors.copy_(A)
        factor(factors, pivots, core.empty(A.shape[:-2], dtype=core.int32))
        diagonal, sign = _signed(factors, pivots)
        result.copy_(diagonal.prod(-1) * sign)

    def backward(grads, A, result_0, result_1, result_2):
        if grads[0] is None:
            return None
        if core.is_grad_enabled() or core.interpreters():
            adjugate = F._linalg_adjoint_adjugate(A)
        else:
            adjugate = _cofactors(A, result_1, result_2)
        return grads[0].unsqueeze(-1).unsqueeze(-1) * adjugate


def _cofactors(matrix: core.Tensor, factors: core.Tensor, pivots: core.Tensor) -> Any:
    """conj(det) A^-H out of one pair of factors: what rounding made of a pivot that should be zero
    stands in both, and cancels."""
    near = _nearby(matrix, factors)
    diagonal, sign = _signed(near, pivots)
    scale = (diagonal.prod(-1) * sign).conj()
    one = F.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return solve_factored(near, pivots, one * scale.unsqueeze(-1).unsqueeze(-1), True)


@operator("_linalg_adjoint_adjugate(Tensor A) -> Tensor", names=(), out=False)
class _linalg_adjoint_adjugate:
    """The gradient of the determinant: conj(det) A^-H, or its limit where A is singular."""

    vmap = "whole"

    def meta(A):
        return like(A, A.shape)

    def cpu(out, A):
        factors, pivots, info = lu_parts(A)
        factors.copy_(A)
        factor(factors, pivots, info)
        out.copy_(_cofactors(A, factors, pivots))

    def backward(grad, A, result):
        if core.is_grad_enabled() and not core.interpreters() and not _near_singular(A):
            determinant = F._linalg_det(A)[0].conj().unsqueeze(-1).unsqueeze(-1)
            inner = (grad.conj() * result).sum((-2, -1), True)
            return (inner * result - result @ adjoint(grad) @ result) / determinant
        slope = _adjugate_gradient(A, grad)
        if A.shape[-1] > POLYNOMIAL or not (core.is_grad_enabled() or core.interpreters()):
            return slope
        # further derivatives of singular vectors have no value where singular values are equal
        further = _adjugate_polynomial(A, grad)
        return slope.detach() + (further - further.detach())


#: rows of the largest matrix whose third derivatives come from a polynomial: its coefficients cancel
POLYNOMIAL = 16


def _adjugate_polynomial(matrix: Any, direction: Any) -> Any:
    """The adjoint of the adjugate's derivative along a direction, by products and traces only. [Faddeev 1949]"""
    n = matrix.shape[-1]
    scale = matrix.detach().abs().amax((-2, -1), True)
    scale = F.where(scale > 0, scale, F.ones_like(scale))
    matrix = matrix / scale
    one = F.eye(n, dtype=matrix.dtype, device=matrix.device)
    known, slope = one, F.zeros_like(matrix)
    for k in range(1, n):
        slope = direction @ known + matrix @ slope
        known = matrix @ known
        slope = slope - one * (_trace(slope) / k)
        known = known - one * (_trace(known) / k)
    sign = 1 if n % 2 else -1
    return sign * adjoint(slope) * scale ** (n - 2)


def _trace(matrix: Any) -> Any:
    return matrix.diagonal(0, -2, -1).sum(-1).unsqueeze(-1).unsqueeze(-1)


def _near_singular(matrix: core.Tensor) -> bool:
    values = F.linalg_svdvals(matrix.detach())
    return bool((values[..., -1:] <= 1e-3 * values[..., :1]).any())


def _adjugate_gradient(matrix: Any, grad: Any) -> Any:
    """The gradient of the adjugate without a division: in the basis of the singular vectors it
    consists of products of all singular values but two."""
    left, values, right = F._linalg_svd(matrix, False, "linalg.det")
    one = F.eye(values.shape[-1], dtype=core.bool, device=matrix.device)
    left_out = F.logical_or(one.unsqueeze(-2), one.unsqueeze(-3))  # [i, j, k]: k is i or j
    others = values.unsqueeze(-2).unsqueeze(-2).masked_fill(left_out, 1).prod(-1)
    others = others.masked_fill(one, 0)
    phase = (F._linalg_det(left)[0] * F._linalg_det(right)[0]).unsqueeze(-1).unsqueeze(-1)
    turned = phase * (adjoint(left) @ grad @ adjoint(right))
    traces = (others * turned.diagonal(0, -2, -1).unsqueeze(-2)).sum(-1)
    inner = F.diag_embed(traces) - others * turned.transpose(-2, -1)
    return left @ inner.conj() @ right


@operator(
    "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    names=("_linalg_slogdet",),
    out=False,
    nondifferentiable=(2, 3),
)
class _linalg_slogdet:
    """Sign and logarithm of the absolute value of determinants, and the LU factors that gave them."""

    vmap = "whole"

    def meta(A):
        logarithm = like(A, A.shape[:-2], real_dtype(A))
        return (like(A, A.shape[:-2]), logarithm, *lu_parts(A)[:2])

    def cpu(out, A):
        sign, logarithm, factors, pivots = out
        factors.copy_(A)
        factor(factors, pivots, core.empty(A.shape[:-2], dtype=core.int32))
        diagonal, parity = _signed(factors, pivots)
        sign.copy_(F.sgn(diagonal).prod(-1) * parity)
        logarithm.copy_(diagonal.abs().log().sum(-1))

    def backward(grads, A, result_0, result_2, result_3):
        sign, logarithm = grads[:2]
        if sign is None and logarithm is None:
            return None
        if not A.is_complex():
            if logarithm is None:
                return F.zeros_like(A)
            scale = logarithm
        else:
            real = F.zeros_like(F.real(result_0)) if logarithm is None else logarithm
            turn = F.zeros_like(real) if sign is None else F.imag(sign.conj() * result_0)
            scale = F.complex(real, -turn)
        one = F.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        scaled = one * scale.unsqueeze(-1).unsqueeze(-1)
        return _solved_adjoint(A, result_2, result_3, scaled)


def check_pivot(op: str, pivot: bool) -> None:
    """Raise where a factorisation without pivoting is asked for."""
    if not pivot:
        fail(
            RuntimeError,
            op,
            f"{op}: LU without pivoting is not implemented on the CPU",
            "pivot=False",
            hint="leave pivot out",
        )
