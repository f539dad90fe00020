"""Triangular systems, and the factorisations whose base cases are kernels: Cholesky, LU, LDL.

Takes batches of matrices in any strides; gives factors in fresh memory. Large matrices are halved
until a kernel takes them, so that nearly all of the work is matrix products. Keeps true: `info` and
pivots are LAPACK's; gradients are formulas over operators. The primitives here have all leading
dimensions equal (`linalg_launch.broadcast`).
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.linalg.launch import adjoint, batch_of, count_of, like, raise_for
from facula.ops.matmul.products import gemm
from facula.ops.table.registry import F, operator

#: sizes that go to a kernel whole
SMALL = 48
#: right-hand sides of one item of the kernel (`codegen/c/kernels/gemm/linalg.py`)
CHUNK = 64


def _half(size: int) -> int:
    """Where to part a size: at a multiple of 16 near the middle."""
    return max(size // 2 // 16 * 16, 16)


def substitute(a: Any, x: core.Tensor, upper: bool, unit: bool) -> None:
    """Solve a @ y = x for triangular matrices, y in the place of x; 3-d batches, columns of x
    adjacent.
    """
    size, count = a.shape[-1], x.shape[-1]
    if size > SMALL:
        cut = _half(size)
        first, last = slice(0, cut), slice(cut, size)
        done, left = (last, first) if upper else (first, last)
        substitute(a[:, done, done], x[:, done], upper, unit)
        gemm(x[:, left], a[:, left, done], x[:, done], -1, 1)
        substitute(a[:, left, left], x[:, left], upper, unit)
        return
    chunks = -(-count // CHUNK)
    if x.numel():
        core.kernel(f"solve_triangular:{x.dtype.code}")(
            (a, x),
            (*a.stride(), *x.stride()[:2], size, count, int(upper), int(unit), chunks),
            (),
            total=x.shape[0] * chunks,
            grain=max(1, 8192 // (size * size * min(count, CHUNK) + 1)),
        )


@operator(
    "_solve_triangular(Tensor A, Tensor B, bool upper, bool unitriangular) -> Tensor",
    names=(),
    out=False,
    file_form="solve_triangular",
)
class _solve_triangular:
    """The solution X of A @ X = B, where only one triangle of A is read."""

    vmap = "whole"

    def flops(A, B, upper, unitriangular):
        return A.shape[-1] * B.numel()

    def meta(A, B, upper, unitriangular):
        return like(B, B.shape)

    def cpu(out, A, B, upper, unitriangular):
        out.copy_(B)
        if out.numel():
            substitute(batch_of(A), batch_of(out), upper, unitriangular)

    def backward(grad, A, result, upper, unitriangular, needs):
        solved = F._solve_triangular(adjoint(A), grad, not upper, unitriangular)
        if not needs[0]:
            return None, solved
        inner = -(solved @ adjoint(result))
        edge = int(unitriangular)
        return inner.triu(edge) if upper else inner.tril(-edge), solved


# ------------------------------------------------------------------ Cholesky


def _cholesky_in_place(a: core.Tensor, info: core.Tensor, before: int) -> None:
    size = a.shape[-1]
    if size <= SMALL:
        core.kernel(f"cholesky:{a.dtype.code}")(
            (a, info),
            (a.stride(0), a.stride(1), size, before),
            (),
            total=a.shape[0],
            grain=max(1, 16384 // (size * size * size + 1)),
        )
        return
    cut = _half(size)
    _cholesky_in_place(a[:, :cut, :cut], info, before)
    below = adjoint(a[:, cut:, :cut]).clone(memory_format=core.contiguous_format)
    substitute(a[:, :cut, :cut], below, False, False)
    a[:, cut:, :cut].copy_(adjoint(below))
    gemm(a[:, cut:, cut:], a[:, cut:, :cut], below, -1, 1)
    _cholesky_in_place(a[:, cut:, cut:], info, before + cut)


def not_positive(info: int) -> str:
    """What a Cholesky factorisation says about its failure."""
    return (
        "The factorization could not be completed because the input is not positive-definite "
        f"(the leading minor of order {info} is not positive-definite)."
    )


@operator(
    "_linalg_cholesky(Tensor self, bool upper, str check) -> (Tensor L, Tensor info)",
    names=(),
    out=False,
    nondifferentiable=(1,),
    node="LinalgCholeskyExBackward0",
    file_form="cholesky",
)
class _linalg_cholesky:
    """The lower (or upper) triangular factor of Hermitian matrices, of which it reads that
    triangle.
    """

    vmap = "whole"

    def flops(self, upper, check):
        return self.numel() * self.shape[-1] // 3

    def meta(self, upper, check):
        return like(self, self.shape), like(self, self.shape[:-2], core.int32)

    def cpu(out, self, upper, check):
        factor, info = out
        info.zero_()
        if factor.numel():
            factor.copy_(adjoint(self) if upper else self)
            _cholesky_in_place(batch_of(factor), info, 0)
            factor.copy_(F.triu(adjoint(factor)) if upper else F.tril(factor))
        hint = "A + eps * facula.eye(n) helps where only rounding is in the way"
        raise_for(check, info, not_positive, hint)

    def backward(grads, result_0, upper):
        if grads[0] is None:
            return None
        lower = adjoint(result_0) if upper else result_0
        grad = adjoint(grads[0]) if upper else grads[0]
        inner = (adjoint(lower) @ grad).tril()
        inner = (inner + adjoint(inner.tril(-1))) * 0.5
        inner = (inner + adjoint(inner)) * 0.5  # the diagonal of the factor is real
        inner = F._solve_triangular(adjoint(lower), inner, True, False)
        return adjoint(F._solve_triangular(adjoint(lower), adjoint(inner), True, False))


@operator(
    "_cholesky_solve(Tensor B, Tensor L, bool upper) -> Tensor",
    names=(),
    out=False,
    file_form="cholesky_solve",
)
class _cholesky_solve:
    """The solution of A @ X = B out of the Cholesky factor of A.

    The gradient of the factor is that of all its elements in L L^H, as PyTorch's.
    """

    vmap = "whole"

    def meta(B, L, upper):
        return like(B, B.shape)

    def cpu(out, B, L, upper):
        out.copy_(B)
        if out.numel():
            lower, above = (adjoint(L), L) if upper else (L, adjoint(L))
            substitute(batch_of(lower), batch_of(out), False, False)
            substitute(batch_of(above), batch_of(out), True, False)

    def backward(grad, L, result, upper, needs):
        solved = F._cholesky_solve(grad, L, upper)
        if not needs[1]:
            return solved, None
        common = solved @ adjoint(result)
        common = common + adjoint(common)
        return solved, -(L @ common if upper else common @ L)


# ------------------------------------------------------------------ LU


def _eliminate(a: core.Tensor, pivots: core.Tensor, info: object, begin: int, end: int) -> None:
    """Factor the columns [begin, end) below row `begin`; exchanges of rows reach over the whole
    matrix.
    """
    if end - begin <= SMALL // 2:
        rows = a.shape[1] - begin
        core.kernel(f"lu:{a.dtype.code}")(
            (a[:, begin:], pivots, info),
            (
                *a.stride()[:2],
                rows,
                end - begin,
                begin,
                a.shape[2],
                pivots.shape[-1],
                begin,
            ),
            (),
            total=a.shape[0],
            grain=max(1, 16384 // (rows * (end - begin) ** 2 + 1)),
        )
        return
    middle = begin + _half(end - begin)
    _eliminate(a, pivots, info, begin, middle)
    _continue_rows(a, begin, middle, end)
    _eliminate(a, pivots, info, middle, end)


def _continue_rows(a: Any, begin: int, middle: int, end: int) -> None:
    """Rows of U right of the factored columns [begin, middle), and what is left below them."""
    right = a[:, begin:middle, middle:end]
    substitute(a[:, begin:middle, begin:middle], right, False, True)
    if middle < a.shape[1]:
        gemm(a[:, middle:, middle:end], a[:, middle:, begin:middle], right, -1, 1)


def factor(a: Any, pivots: core.Tensor, info: core.Tensor) -> None:
    """LU factors with partial pivoting in the place of contiguous matrices."""
    info.zero_()
    if not a.numel():
        return
    batch = batch_of(a)
    steps = min(a.shape[-2:])
    _eliminate(batch, pivots, info, 0, steps)
    if a.shape[-1] > steps:
        _continue_rows(batch, 0, steps, a.shape[-1])


def lu_parts(x: core.Tensor) -> tuple[Any, Any, Any]:
    """Empty factors, pivots and info for the LU factorisation of `x`."""
    pivots = like(x, (*x.shape[:-2], min(x.shape[-2:])), core.int32)
    return like(x, x.shape), pivots, like(x, x.shape[:-2], core.int32)


def singular(info: int) -> str:
    """What an LU factorisation says about a zero pivot."""
    return (
        f"U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. "
        "If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


def permuted(x: core.Tensor, pivots: core.Tensor, back: bool) -> Any:
    """The rows of `x` in the order into which pivoting brings them, or brought back from it."""
    order = F._permutation(pivots, x.shape[-2], back).unsqueeze(-1)
    return x.gather(-2, order.expand((*order.shape[:-1], x.shape[-1])))


@operator(
    "_permutation(Tensor pivots, int rows, bool inverse) -> Tensor",
    names=(),
    out=False,
)
class _permutation:
    """Which row stands where after the exchanges of an LU factorisation; or the inverse of this
    permutation.
    """

    vmap = "whole"

    def meta(pivots, rows, inverse):
        return like(pivots, (*pivots.shape[:-1], rows), core.int64)

    def cpu(out, pivots, rows, inverse):
        count = count_of(out.unsqueeze(-1))
        core.kernel("permutation:i32")(
            (out, pivots.contiguous()), (rows, pivots.shape[-1]), (), total=count, grain=64
        )
        if inverse:
            out.copy_(F.argsort(out, -1))


def lu_gradient(grad: core.Tensor, factors: core.Tensor, pivots: core.Tensor) -> Any:
    """The gradient of the matrix out of that of its LU factors, of any shape."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    square, below, above = factors[..., :k, :k], grad.tril(-1), grad.triu()
    unit = square.tril(-1) + F.eye(k, dtype=square.dtype, device=square.device)
    inner_lower = adjoint(unit) @ below[..., :k, :k]
    inner_upper = above[..., :k, :k] @ adjoint(square.triu())
    if n > m:
        inner_lower = inner_lower - above[..., k:] @ adjoint(factors[..., k:])
    if m > n:
        inner_upper = inner_upper - adjoint(factors[..., k:, :]) @ below[..., k:, :]
    inner = inner_lower.tril(-1) + inner_upper.triu()
    inner = F._solve_triangular(adjoint(square), _right(inner, square), True, True)
    if n > m:
        right = F._solve_triangular(adjoint(square), above[..., k:], True, True)
        inner = F.cat([inner, right], -1)
    if m > n:
        inner = F.cat([inner, _right(below[..., k:, :], square)], -2)
    return permuted(inner, pivots, True)


def _right(x: core.Tensor, square: core.Tensor) -> Any:
    """x @ U^-H for the upper triangle U of a matrix."""
    return adjoint(F._solve_triangular(square, adjoint(x), True, False))


@operator(
    "_linalg_lu_factor(Tensor self, str check) -> (Tensor LU, Tensor pivots, Tensor info)",
    file_form="lu_factor",
    names=(),
    out=False,
    nondifferentiable=(1, 2),
    node="LinalgLuFactorExBackward0",
)
class _linalg_lu_factor:
    """L (unit diagonal, below) and U in one matrix, the exchanges of rows, and the first zero
    pivot.
    """

    vmap = "whole"

    def flops(self, check):
        return 2 * self.numel() * min(self.shape[-2:]) // 3

    def meta(self, check):
        return lu_parts(self)

    def cpu(out, self, check):
        out[0].copy_(self)
        factor(*out)
        raise_for(check, out[2], singular, "linalg.lstsq() takes singular matrices")

    def backward(grads, result_0, result_1):
        return None if grads[0] is None else lu_gradient(grads[0], result_0, result_1)
