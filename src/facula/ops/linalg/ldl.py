"""Factorisation of symmetric and Hermitian indefinite matrices, and solutions out of it.

Takes batches of square matrices, of which the lower triangle is read. Gives LAPACK's form: L below
blocks of one or two on the diagonal, and pivots whose sign tells the blocks. Keeps true: neither
has a gradient, as in PyTorch.
"""

from __future__ import annotations

from facula import core
from facula.core.errors import fail
from facula.ops.linalg.launch import (
    broadcast,
    check_matrix,
    check_numbers,
    check_same_dtype,
    count_of,
    like,
    raise_for,
)
from facula.ops.table.registry import F, composite, operator


def _no_derivative(op: str) -> None:
    fail(
        NotImplementedError,
        op,
        f"the derivative for '{op}' is not implemented",
        hint="use linalg.solve or linalg.cholesky, which have one",
    )


def _incomplete(info: int) -> str:
    return (
        f"The diagonal element D[{info},{info}] is exactly zero: the factorization has been "
        "completed, but a division by zero will occur if it is used to solve a system of equations"
    )


@operator(
    "_linalg_ldl_factor(Tensor A, bool hermitian, str check) -> (Tensor LD, Tensor pivots, Tensor "
    "info)",
    names=(),
    file_form="ldl_factor",
    out=False,
)
class _linalg_ldl_factor:
    """L and D in one matrix, pivots, and the first zero block of D. [Bunch & Kaufman 1977]"""

    vmap = "whole"

    def meta(A, hermitian, check):
        pivots = like(A, A.shape[:-1], core.int32)
        return like(A, A.shape), pivots, like(A, A.shape[:-2], core.int32)

    def cpu(out, A, hermitian, check):
        out[0].copy_(A)
        out[2].zero_()
        if A.numel():
            size = A.shape[-1]
            core.kernel(f"ldl:{A.dtype.code}")(
                out,
                (size, int(hermitian and A.is_complex())),
                (),
                total=count_of(A),
                grain=max(1, 16384 // size**3),
            )
        raise_for(check, out[2], _incomplete, "linalg.lstsq() takes singular matrices")

    def backward(grads, A_meta):
        _no_derivative("linalg.ldl_factor")


@operator(
    "_linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian) -> Tensor",
    names=(),
    out=False,
)
class _linalg_ldl_solve:
    """The solution X of A @ X = B out of the factors of A."""

    vmap = "whole"

    def meta(LD, pivots, B, hermitian):
        return like(B, B.shape)

    def cpu(out, LD, pivots, B, hermitian):
        out.copy_(B)
        if out.numel():
            size, count = B.shape[-2:]
            core.kernel(f"ldl.solve:{LD.dtype.code}")(
                (LD.contiguous(), pivots.contiguous(), out),
                (size, count, int(hermitian and LD.is_complex())),
                (),
                total=count_of(B),
                grain=max(1, 16384 // (size * size * count)),
            )

    def backward(grad, LD_meta):
        _no_derivative("linalg.ldl_solve")


@composite(
    "linalg_ldl_factor_ex(Tensor A, *, bool hermitian=False, bool check_errors=False) -> (Tensor "
    "LD, Tensor pivots, Tensor info)",
    file_arguments={"A": "self"},
    names=("linalg.ldl_factor_ex",),
    keyword_aliases={"input": "A"},
)
def linalg_ldl_factor_ex(A, hermitian, check_errors):  # noqa: N803
    """As `linalg.ldl_factor`, and the first zero block of D (0: none)."""
    check_numbers("torch.linalg.ldl_factor_ex", A)
    check = "torch.linalg.ldl_factor_ex" if check_errors else ""
    return tuple(F._linalg_ldl_factor(A, hermitian, check))


@composite(
    "linalg_ldl_factor(Tensor A, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    file_arguments={"A": "self"},
    names=("linalg.ldl_factor",),
    keyword_aliases={"input": "A"},
)
def linalg_ldl_factor(A, hermitian):  # noqa: N803
    """The compact LDL^T (LDL^H with `hermitian`) factorisation with Bunch and Kaufman's pivots."""
    check_numbers("torch.linalg.ldl_factor_ex", A)
    return tuple(F._linalg_ldl_factor(A, hermitian, "torch.linalg.ldl_factor")[:2])


@composite(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    names=("linalg.ldl_solve",),
)
def linalg_ldl_solve(LD, pivots, B, hermitian):  # noqa: N803
    """X with A X = B out of `linalg.ldl_factor`'s results.

    Example:
        >>> A = facula.tensor([[2.0, 1.0], [1.0, 3.0]])
        >>> LD, pivots = facula.linalg.ldl_factor(A)
        >>> facula.linalg.ldl_solve(LD, pivots, facula.tensor([[3.0], [4.0]]))
        tensor([[1.],
                [1.]])
    """
    op = "torch.linalg.ldl_solve"
    check_numbers(op, LD, "LD")
    if B.dim() < 2:
        fail(
            RuntimeError,
            op,
            f"{op}: Expected B to have at least 2 dimensions",
            f"{B.dim()} dimensions",
            hint="B.unsqueeze(-1) makes a column of a vector",
        )
    check_matrix(op, B, "B")
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        fail(
            RuntimeError,
            op,
            f"{op}: Expected LD.shape[:-1] and pivots.shape to be the same",
            f"pivots with shape {list(pivots.shape)}",
            hint="linalg.ldl_factor() gives LD and pivots",
        )
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex or pivots.dtype is core.bool_:
        fail(
            RuntimeError,
            op,
            f"{op}: Expected pivots to be integers",
            pivots.dtype,
            hint="linalg.ldl_factor() gives LD and pivots",
        )
    check_same_dtype(op, LD, B, ("LD", "B"))
    if LD.shape[-2] != B.shape[-2]:
        fail(
            RuntimeError,
            op,
            f"{op}: Incompatible shapes of A and B for the equation AX = B",
            f"{LD.shape[-2]}x{LD.shape[-1]} and {B.shape[-2]}x{B.shape[-1]}",
            hint="every row of A and of B is one equation",
        )
    factors, b = broadcast(op, LD, B)
    order = pivots.to(core.int32).expand(factors.shape[:-1])
    return F._linalg_ldl_solve(factors, order, b, hermitian)
