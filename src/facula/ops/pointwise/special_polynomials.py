"""Orthogonal polynomials.

Takes: points and degrees, as tensors or numbers; a degree is truncated to an integer.
Gives: operators `special_chebyshev_polynomial_t`, .. `u`, `v`, `w`, their shifted forms,
`special_hermite_polynomial_h`,
`he`, `special_laguerre_polynomial_l`, `special_legendre_polynomial_p`.
Keeps true: a negative degree gives 0; values follow the three-term recurrence. Source: Abramowitz
& Stegun 1964, chapter 22.
"""

from __future__ import annotations

from facula import core
from facula.ops.expr import scalar as s
from facula.ops.table.registry import pointwise

_FAMILIES = {
    "chebyshev_polynomial_t": ("chebyshev_t", "Chebyshev polynomial of the first kind"),
    "chebyshev_polynomial_u": ("chebyshev_u", "Chebyshev polynomial of the second kind"),
    "chebyshev_polynomial_v": ("chebyshev_v", "Chebyshev polynomial of the third kind"),
    "chebyshev_polynomial_w": ("chebyshev_w", "Chebyshev polynomial of the fourth kind"),
    "shifted_chebyshev_polynomial_t": ("shifted_chebyshev_t", "Chebyshev polynomial of the first kind at 2x - 1"),
    "shifted_chebyshev_polynomial_u": ("shifted_chebyshev_u", "Chebyshev polynomial of the second kind at 2x - 1"),
    "shifted_chebyshev_polynomial_v": ("shifted_chebyshev_v", "Chebyshev polynomial of the third kind at 2x - 1"),
    "shifted_chebyshev_polynomial_w": ("shifted_chebyshev_w", "Chebyshev polynomial of the fourth kind at 2x - 1"),
    "hermite_polynomial_h": ("hermite_h", "physicists' Hermite polynomial"),
    "hermite_polynomial_he": ("hermite_he", "probabilists' Hermite polynomial"),
    "laguerre_polynomial_l": ("laguerre_l", "Laguerre polynomial"),
    "legendre_polynomial_p": ("legendre_p", "Legendre polynomial"),
}  # fmt: skip


def _polynomial(name: str, primitive: str, meaning: str) -> core.Op:
    def body(x, n):
        return getattr(s, primitive)(x, n)

    body.__doc__ = f"The {meaning}, of degree `n`."
    return pointwise(
        f"special_{name}(Operand x, Operand n) -> Tensor",
        names=(f"special.{name}",),
        result="float",
        dtypes="bool int float",
        differentiable=False,
        inplace=False,
        domain={"x": (-1, 1), "n": (0, 6)},
    )(body)


for _name, (_primitive, _meaning) in _FAMILIES.items():
    globals()[f"special_{_name}"] = _polynomial(_name, _primitive, _meaning)
