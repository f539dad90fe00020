"""`linalg` and its older names: factorisations by elimination, linear systems, inverses,
determinants.

Takes matrices or batches of them; gives what LAPACK gives, with PyTorch's names and errors. Keeps
true: all checks stand here, before a primitive of `linalg_triangular`, `linalg_solve` or
`linalg_ldl` is called; leading dimensions broadcast.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail, in_favor_of
from facula.ops.linalg.launch import (
    broadcast,
    check_kind,
    check_matrix,
    check_numbers,
    check_same_dtype,
    check_square,
    like,
)
from facula.ops.linalg.solve import check_pivot, solve_factored
from facula.ops.table.registry import F, composite

#: PyTorch's functions take their first matrix as `input` too
_FIRST = {"input": "A"}


# ------------------------------------------------------------------ Cholesky


@composite(
    "linalg_cholesky_ex(Tensor A, *, bool upper=False, bool check_errors=False) -> (Tensor L, "
    "Tensor info)",
    file_arguments={"A": "self"},
    names=("linalg.cholesky_ex",),
    keyword_aliases=_FIRST,
)
def linalg_cholesky_ex(A, upper, check_errors):  # noqa: N803
    """The Cholesky factor, and the order of the first leading minor that is not positive (0: none)."""
    check_numbers("linalg.cholesky", A)
    return tuple(F._linalg_cholesky(A, upper, "linalg.cholesky_ex" if check_errors else ""))


@composite(
    "linalg_cholesky(Tensor A, *, bool upper=False) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.cholesky",),
    keyword_aliases=_FIRST,
)
def linalg_cholesky(A, upper):  # noqa: N803
    """L with A = L L^H (or U with A = U^H U) for Hermitian positive-definite A."""
    check_numbers("linalg.cholesky", A)
    return F._linalg_cholesky(A, upper, "linalg.cholesky")[0]


@composite(
    "lu(Tensor A, bool pivot=True, bool get_infos=False) -> any",
    names=("lu", "Tensor.lu"),
    home="functional.lu",
    inlined=True,
)
def lu(A, pivot, get_infos):  # noqa: N803
    """The compact LU factorisation and its pivots; with `get_infos` its info in the place of
    errors.
    """
    in_favor_of("lu", "linalg.lu_factor", "linalg.lu_factor_ex() gives info in the place of errors")
    found = F._lu_with_info(A, pivot, not get_infos)
    return found if get_infos else tuple(found[:2])


@composite("cholesky(Tensor self, bool upper=False) -> Tensor")
def cholesky(self, upper):
    """As `linalg.cholesky`."""
    in_favor_of("cholesky", "linalg.cholesky", "it takes the same arguments, upper by name")
    check_numbers("cholesky", self)
    return F._linalg_cholesky(self, upper, "cholesky")[0]


@composite(
    "cholesky_solve(Tensor B, Tensor L, bool upper=False) -> Tensor",
    keyword_aliases={"input": "B", "input2": "L"},
    file_arguments={"B": "self", "L": "input2"},
)
def cholesky_solve(B, L, upper):  # noqa: N803
    """X with A X = B, for the Cholesky factor L of A."""
    for name, x in (("b", B), ("u", L)):
        if x.dim() < 2:
            fail(
                RuntimeError,
                "cholesky_solve",
                f"{name} should have at least 2 dimensions",
                f"{x.dim()} dimensions instead",
                hint="unsqueeze(-1) makes a column of a vector",
            )
    check_square("cholesky_solve", L)
    check_kind("cholesky_solve", L)
    check_same_dtype("cholesky_solve", B, L)
    _check_rows("cholesky_solve", L, B)
    return F._cholesky_solve(*broadcast("cholesky_solve", B, L), upper)


@composite(
    "cholesky_inverse(Tensor L, bool upper=False) -> Tensor",
    keyword_aliases={"input": "L"},
    node="CholeskyInverseBackward0",
    file_arguments={"L": "self"},
)
def cholesky_inverse(L, upper):  # noqa: N803
    """The inverse of A, of which this is the Cholesky factor."""
    check_numbers("cholesky_inverse", L)
    one = F.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand(L.shape)
    return F._cholesky_solve(one, L, upper)


def _check_rows(op: str, a: core.Tensor, b: core.Tensor) -> None:
    if a.shape[-2] != b.shape[-2]:
        fail(
            RuntimeError,
            op,
            f"{op}: Incompatible shapes of A and B for the equation AX = B",
            f"{a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]} (Incompatible matrix sizes for {op}: each A "
            f"matrix is {a.shape[-1]} by {a.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]})",
            hint="every row of A and of B is one equation",
        )


# ------------------------------------------------------------------ linear systems


def _is_vector(a: core.Tensor, b: core.Tensor) -> bool:
    return b.dim() == 1 or (a.dim() - 1 == b.dim() and tuple(b.shape) == tuple(a.shape[:-1]))


def _solved(op: str, a: core.Tensor, b: core.Tensor, left: bool, check: str) -> tuple[Any, Any]:
    """The solution of A X = B (of X A = B), and the info of A's factorisation."""
    check_numbers("linalg.solve", a)
    check_same_dtype("linalg.solve", a, b)
    vector = _is_vector(a, b)
    if vector and not left:
        fail(
            RuntimeError,
            op,
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)",
            hint="B.unsqueeze(-2) makes rows of the vectors",
        )
    rhs = b.unsqueeze(-1) if vector else b
    if not vector:
        check_matrix("linalg.solve", b, "B")
    if not left:
        a, rhs = a.mT, rhs.mT
    _check_rows("linalg.solve", a, rhs)
    a, rhs = broadcast("linalg.solve", a, rhs)
    found = F._linalg_solve(a, rhs, check)
    result = found[0] if left else found[0].mT
    return result.squeeze(-1) if vector else result, found[3]


@composite(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor "
    "result, Tensor info)",
    names=("linalg.solve_ex",),
)
def linalg_solve_ex(A, B, left, check_errors):  # noqa: N803
    """As `linalg.solve`, and where the factorisation of A met a zero pivot (0: nowhere)."""
    return _solved("linalg.solve_ex", A, B, left, "torch.linalg.solve_ex" if check_errors else "")


@composite(
    "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    names=("linalg.solve",),
    node="LinalgSolveExBackward0",
)
def linalg_solve(A, B, left):  # noqa: N803
    """X with A X = B, or X A = B unless `left`; B may be a vector or a batch of vectors."""
    return _solved("linalg.solve", A, B, left, "torch.linalg.solve")[0]


@composite(
    "linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool "
    "unitriangular=False) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.solve_triangular",),
    keyword_aliases=_FIRST,
)
def linalg_solve_triangular(A, B, upper, left, unitriangular):  # noqa: N803
    """X with A X = B (X A = B unless `left`), for triangular A.

    Example:
        >>> A = facula.tensor([[2.0, 0.0], [1.0, 4.0]])
        >>> facula.linalg.solve_triangular(A, facula.tensor([[2.0], [9.0]]), upper=False)
        tensor([[1.],
                [2.]])
    """
    op = "linalg.solve_triangular"
    check_matrix(op, B, "B")
    check_square(op, A)
    check_same_dtype(op, A, B)
    _check_solvable_dtype(op, A)
    if left:
        _check_rows(op, A, B)
        a, b = broadcast(op, A, B)
        return F._solve_triangular(a, b, upper, unitriangular)
    if A.shape[-1] != B.shape[-1]:
        fail(
            RuntimeError,
            op,
            f"{op}: Incompatible shapes of A and B for the equation XA = B",
            f"{A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]}",
            hint="every column of A and of B is one equation",
        )
    a, b = broadcast(op, A.mT, B.mT)
    return F._solve_triangular(a, b, not upper, unitriangular).mT


def _check_solvable_dtype(op: str, x: core.Tensor) -> None:
    if x.dtype.code not in ("f32", "f64", "c64", "c128"):
        fail(
            NotImplementedError,
            op,
            "a floating-point or complex dtype of 32 bits or more was required: "
            f"\"triangular_solve_cpu\" not implemented for '{x.dtype.type_word}'",
            hint="convert first: x.float()",
        )


@composite(
    "triangular_solve(Tensor b, Tensor A, bool upper=True, bool transpose=False, bool "
    "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    keyword_aliases={"input": "b"},
    file_arguments={"b": "self"},
)
def triangular_solve(b, A, upper, transpose, unitriangular):  # noqa: N803
    """X with A X = B (A^T X = B with `transpose`) for triangular A, and a copy of A."""
    op = "triangular_solve"
    in_favor_of(op, "linalg.solve_triangular", "it takes the matrix first, and upper by name")
    for name, x in (("b", b), ("A", A)):
        if x.dim() < 2:
            fail(
                RuntimeError,
                op,
                f"{op}: Expected {name} to have at least 2 dimensions",
                x.dim(),
                hint="unsqueeze(-1) makes a column of a vector",
            )
    check_square(op, A)
    check_same_dtype(op, b, A, ("b", "A"))
    _check_solvable_dtype(op, A)
    _check_rows(op, A, b)
    b, a = broadcast(op, b, A)
    chosen, side = (a.mT, not upper) if transpose else (a, upper)
    return F._solve_triangular(chosen, b, side, unitriangular), a.clone()


# ------------------------------------------------------------------ inverses


@composite(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    names=("linalg.inv_ex",),
)
def linalg_inv_ex(A, check_errors):  # noqa: N803
    """The inverse, and where the factorisation met a zero pivot (0: nowhere)."""
    check_numbers("linalg.inv", A)
    return tuple(F._linalg_inverse(A, "linalg.inv_ex" if check_errors else ""))


@composite("linalg_inv(Tensor A) -> Tensor", names=("linalg.inv",))
def linalg_inv(A):  # noqa: N803
    """The inverse of a square matrix."""
    check_numbers("linalg.inv", A)
    return F._linalg_inverse(A, "linalg.inv")[0]


@composite("inverse(Tensor self) -> Tensor")
def inverse(self):
    """As `linalg.inv`."""
    return F.linalg_inv(self)


# ------------------------------------------------------------------ LU


@composite(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, "
    "Tensor pivots, Tensor info)",
    names=("linalg.lu_factor_ex",),
    keyword_aliases=_FIRST,
)
def linalg_lu_factor_ex(A, pivot, check_errors):  # noqa: N803
    """As `linalg.lu_factor`, and where a zero pivot was met (0: nowhere)."""
    check_matrix("torch.lu_factor", A)
    check_kind("torch.lu_factor", A)
    check_pivot("linalg.lu_factor", pivot)
    return tuple(F._linalg_lu_factor(A, "torch.linalg.lu_factor_ex" if check_errors else ""))


@composite(
    "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    names=("linalg.lu_factor",),
    keyword_aliases=_FIRST,
)
def linalg_lu_factor(A, pivot):  # noqa: N803
    """L (its unit diagonal left out) and U in one matrix, and the exchanges of rows, counted from
    one.
    """
    check_matrix("torch.lu_factor", A)
    check_kind("torch.lu_factor", A)
    check_pivot("linalg.lu_factor", pivot)
    return tuple(F._linalg_lu_factor(A, "torch.linalg.lu_factor")[:2])


@composite(
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    names=("linalg.lu",),
    keyword_aliases=_FIRST,
    node="LinalgLuBackward0",
)
def linalg_lu(A, pivot):  # noqa: N803
    """A = P L U with a permutation, a lower triangle with unit diagonal, and an upper triangle."""
    check_matrix("linalg.lu", A)
    check_kind("linalg.lu", A)
    check_pivot("linalg.lu", pivot)
    factors, pivots, _ = F._linalg_lu_factor(A, "")
    return tuple(F.lu_unpack(factors, pivots))


@composite(
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
    "-> (Tensor P, Tensor L, Tensor U)",
    names=("lu_unpack",),
    node="LuUnpackBackward0",
)
def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):  # noqa: N803
    """P, L and U out of `lu_factor`'s results; what is not asked for is empty.

    Example:
        >>> LU, pivots = facula.linalg.lu_factor(facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> P, L, U = facula.lu_unpack(LU, pivots)
        >>> P @ L @ U
        tensor([[1., 2.],
                [3., 4.]])
    """
    if unpack_pivots and LU_pivots.dtype is not core.int32:
        fail(
            RuntimeError,
            "lu_unpack",
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
            "Note: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor",
            LU_pivots.dtype,
            hint=cast_hint("LU_pivots", core.int32),
        )
    check_matrix("lu_unpack", LU_data, "LU_data")
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    if unpack_pivots and tuple(LU_pivots.shape) != (*LU_data.shape[:-2], k):
        required = f"LU_pivots of shape {[*LU_data.shape[:-2], k]} were required"
        hint = "linalg.lu_factor() gives factors and pivots that belong together"
        fail(RuntimeError, "lu_unpack", required, list(LU_pivots.shape), hint)
    permutation = lower = upper = like(LU_data, (0,))
    if unpack_data:
        one = F.eye(m, k, dtype=LU_data.dtype, device=LU_data.device)
        lower = LU_data[..., :k].tril(-1) + one
        upper = LU_data[..., :k, :].triu()
    if unpack_pivots:
        order = F._permutation(LU_pivots, m, True)
        rows = F.arange(m, device=LU_data.device)
        permutation = (order.unsqueeze(-1) == rows).to(LU_data.dtype)
    return permutation, lower, upper


@composite(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) "
    "-> Tensor",
    names=("linalg.lu_solve",),
    node="LinalgLuSolveBackward0",
)
def linalg_lu_solve(LU, pivots, B, left, adjoint):  # noqa: N803
    """X with A X = B (A^H X = B with `adjoint`, X A = B unless `left`) out of the factors of A.

    Example:
        >>> LU, pivots = facula.linalg.lu_factor(facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> facula.linalg.lu_solve(LU, pivots, facula.tensor([[3.0], [7.0]]))
        tensor([[1.],
                [1.]])
    """
    op = "torch.linalg.lu_solve"
    check_kind(op, LU, "LU")
    check_square(op, LU, "LU")
    _check_pivots(op, pivots)
    check_same_dtype(op, LU, B, ("LU", "B"))
    check_matrix(op, B, "B")
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        fail(
            RuntimeError,
            op,
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix",
            f"{list(pivots.shape)} for {list(LU.shape)}",
            hint="linalg.lu_factor() gives LU and pivots",
        )
    if not left:  # X A = B is A^H X^H = B^H
        turned = B.mH
        return F.linalg_lu_solve(LU, pivots, turned, left=True, adjoint=not adjoint).mH
    _check_rows(op, LU, B)
    factors, b = broadcast(op, LU, B)
    return solve_factored(factors, pivots.expand(factors.shape[:-1]), b, adjoint)


def _check_pivots(op: str, pivots: core.Tensor) -> None:
    if pivots.dtype is not core.int32:
        fail(
            RuntimeError,
            op,
            f"{op}: pivots should be a Tensor of scalar type torch.int32",
            pivots.dtype,
            hint=cast_hint("pivots", core.int32),
        )


@composite(
    "lu_solve(Tensor b, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    keyword_aliases={"input": "b"},
    node="LinalgLuSolveBackward0",
    file_arguments={"b": "self"},
)
def lu_solve(b, LU_data, LU_pivots):  # noqa: N803
    """As `linalg.lu_solve`, with the right-hand sides first.

    Example:
        >>> LU, pivots = facula.linalg.lu_factor(facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> facula.lu_solve(facula.tensor([[3.0], [7.0]]), LU, pivots)
        tensor([[1.],
                [1.]])
    """
    in_favor_of("lu_solve", "linalg.lu_solve", "it takes the right-hand sides last")
    return F.linalg_lu_solve(LU_data, LU_pivots, b)


@composite(
    "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor "
    "pivots, Tensor info)",
    names=("_lu_with_info",),
    out=False,
)
def _lu_with_info(self, pivot, check_errors):
    """As `linalg.lu_factor_ex`."""
    return tuple(F.linalg_lu_factor_ex(self, pivot=pivot, check_errors=check_errors))


# ------------------------------------------------------------------ determinants


@composite("linalg_det(Tensor A) -> Tensor", names=("linalg.det",))
def linalg_det(A):  # noqa: N803
    """The determinant of a square matrix.

    The gradient is right at singular matrices too; there, derivatives of the gradient are not.
    """
    check_numbers("linalg.det", A)
    return F._linalg_det(A)[0]


@composite("det(Tensor self) -> Tensor", out=False, keyword_aliases={"A": "self"})
def det(self):
    """As `linalg.det`."""
    return F.linalg_det(self)


@composite("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", keyword_aliases={"A": "self"})
def slogdet(self):
    """As `linalg.slogdet`."""
    check_numbers("linalg.slogdet", self)
    return tuple(F._linalg_slogdet(self)[:2])


@composite("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", names=("linalg.slogdet",))
def linalg_slogdet(A):  # noqa: N803
    """The sign (of complex matrices: the phase) of the determinant, and the logarithm of its size."""
    check_numbers("linalg.slogdet", A)
    return tuple(F._linalg_slogdet(A)[:2])


@composite("logdet(Tensor self) -> Tensor", out=False, keyword_aliases={"A": "self"})
def logdet(self):
    """The logarithm of the determinant; NaN where it is negative."""
    check_numbers("logdet", self)
    sign, logarithm = F._linalg_slogdet(self)[:2]
    if self.is_complex():
        return sign.log() + logarithm
    return F.where(sign == -1, float("nan"), logarithm)
