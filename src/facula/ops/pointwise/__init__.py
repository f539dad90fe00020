"""The elementwise operators, by family.

Takes: nothing; importing fills the operator table.
Gives: the modules of the families.
Keeps true: one definition an operator; bodies are scalar expressions (`ops.scalar`), so kernels, gradients and the
interpreted form all follow from them.
"""

from facula.ops.pointwise import (
    activation,
    activation_functional,
    arithmetic,
    bitwise,
    comparison,
    complex,
    division,
    exponential,
    rounding,
    selection,
    special,
    special_bessel,
    special_polynomials,
    trigonometric,
)
from facula.ops.pointwise import evaluation  # isort: skip  (fills what the families left open)

__all__ = [
    "activation",
    "activation_functional",
    "arithmetic",
    "bitwise",
    "comparison",
    "complex",
    "division",
    "evaluation",
    "exponential",
    "rounding",
    "selection",
    "special",
    "special_bessel",
    "special_polynomials",
    "trigonometric",
]
