"""The elementwise operators, by family.

Takes: nothing; importing fills the operator table.
Gives: the modules of the families.
Keeps true: one definition an operator; bodies are scalar expressions (`ops.expr.scalar`), so kernels, gradients and the
interpreted form all follow from them.
"""

from importlib import import_module

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

#: quantized forms, whose definitions are not imported with the others
ON_DEMAND = ("quantization", "steps")

# last: it fills what the families leave open
evaluation = import_module("facula.ops.pointwise.evaluation")

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
