"""The exponential of matrices.

Takes batches of square matrices; gives their exponentials by Padé approximants with scaling and
squaring. Keeps true: each matrix is scaled for itself; the gradient is the exponential of a block
matrix, so that it can be differentiated again.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Any

from facula import core
from facula.ops.linalg.launch import adjoint, check_kind, check_square, like
from facula.ops.table.registry import F, composite, operator

#: degree of the approximant, and the norm up to which it is exact to rounding [Higham 2005]; float32 is
#: computed in float64, since squaring doubles what was rounded off, within half of the norm for its rounding
_DEGREES = {"f32": (7, 1.962862391569330), "f64": (13, 5.371920351148152)}


@cache
def _coefficients(degree: int) -> tuple[float, ...]:
    """The numerator of the diagonal Padé approximant of exp, lowest power first."""
    return tuple(
        factorial(2 * degree - k)
        * factorial(degree)
        / (factorial(2 * degree) * factorial(k) * factorial(degree - k))
        for k in range(degree + 1)
    )


def _approximant(x: core.Tensor, degree: int) -> Any:
    """exp of matrices of small norm: odd and even powers, shared by numerator and denominator."""
    factors = _coefficients(degree)
    one = F.eye(x.shape[-1], dtype=x.dtype)
    square = x @ x
    power, even, odd = one, one * factors[0], one * factors[1]
    for k in range(2, degree + 1, 2):
        power = power @ square
        even = even + power * factors[k]
        if k + 1 <= degree:
            odd = odd + power * factors[k + 1]
    odd = x @ odd
    return F._linalg_solve(even - odd, even + odd, "")[0]


@operator(
    "_matrix_exp(Tensor self) -> Tensor",
    names=(),
    out=False,
    node="LinalgMatrixExpBackward0",
    file_form="matrix_exp",
)
class _matrix_exp:
    """The exponential of square matrices."""

    vmap = "whole"

    def meta(self):
        return like(self, self.shape)

    def cpu(out, self):
        if not self.numel():
            return
        kind = self.dtype.to_real() if self.is_complex() else self.dtype
        degree, reach = _DEGREES["f64" if kind is core.float64 else "f32"]
        wide, real = self.to(core.complex128 if self.is_complex() else core.float64), core.float64
        norm = wide.abs().sum(-2).amax(-1)
        steps = F.frexp(F.nan_to_num(norm / reach, 0.0, 0.0, 0.0))[1].clamp(min=0)
        scale = F.pow(F.full((), 0.5, dtype=real), steps)
        result = _approximant(wide * scale.unsqueeze(-1).unsqueeze(-1), degree)
        for step in range(int(steps.max().item())):
            again = (step < steps).unsqueeze(-1).unsqueeze(-1)
            result = F.where(again, result @ result, result)
        out.copy_(F.where(F.isfinite(norm).unsqueeze(-1).unsqueeze(-1), result, float("nan")))

    def backward(grad, self):
        n, matrix = self.shape[-1], adjoint(self)
        top = F.cat([matrix, grad], -1)
        bottom = F.cat([F.zeros_like(matrix), matrix], -1)
        return F._matrix_exp(F.cat([top, bottom], -2))[..., :n, n:]


@composite(
    "linalg_matrix_exp(Tensor A) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.matrix_exp", "matrix_exp", "Tensor.matrix_exp"),
    out=False,
    keyword_aliases={"input": "A"},
)
def linalg_matrix_exp(A):  # noqa: N803
    """The sum of A^k / k! over all k, for square matrices."""
    check_square("linalg.matrix_exp", A)
    check_kind("linalg.matrix_exp", A, low=True)
    return F._matrix_exp(A)
