"""Parts and angles of complex numbers.

Takes: tensors.
Gives: operators `angle`, `conj_physical`, `conj`, `complex`, `polar`.
Keeps true: a real tensor is its own conjugate; results of `complex` and `polar` are new memory.
"""

from __future__ import annotations

from facula import core
from facula.core.errors import cast_hint
from facula.ops.expr import scalar as s
from facula.ops.table.registry import F, composite, pointwise


@pointwise(
    "angle(Tensor self) -> Tensor", result="real_float", inplace=False, reference="numpy.angle"
)
def angle(x):
    """Angle in (-pi, pi]; of a real number 0 or pi."""
    return s.angle(x)


@angle.backward
def _(grad, x):
    """Nothing at zero, where it has no derivative, and nothing of a real NaN."""
    if not x.is_complex:
        return None
    square = x.re * x.re + x.im * x.im
    zero = square == 0
    return s.Complex(
        s.where(zero, 0.0, -(grad * x.im / square)), s.where(zero, 0.0, grad * x.re / square)
    )


@pointwise(
    "_conjugate(Tensor self) -> Tensor", names=(), reference="numpy.conj", node="ConjBackward0"
)
def _conjugate(x):
    """Complex conjugate in new memory, of real tensors too."""
    return s.conj(x)


@composite("conj_physical(Tensor self) -> Tensor", inplace=True, elementwise=True)
def conj_physical(self):
    """Complex conjugate in new memory; a real tensor is returned as it is."""
    return F._conjugate(self) if self.is_complex() else self


@composite("conj(Tensor self) -> Tensor", out=False, elementwise=True)
def conj(self):
    """Complex conjugate; a real tensor is returned as it is."""
    return F._conjugate(self) if self.is_complex() else self


def _check_parts(op: str, real: core.Tensor, imag: core.Tensor, name: str) -> None:
    """Raise unless two tensors are real numbers of one dtype."""
    if not {real.dtype, imag.dtype} <= {core.float16, core.float32, core.float64}:
        core.errors.fail(
            RuntimeError,
            op,
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{real.dtype.type_word} and {imag.dtype.type_word}",
            got=f"{real.dtype} and {imag.dtype}",
            hint="x.float() converts numbers of another kind",
        )
    if real.dtype != imag.dtype:
        core.errors.fail(
            RuntimeError,
            op,
            f"Expected object of scalar type {real.dtype.type_word} but got scalar type "
            f"{imag.dtype.type_word} for second argument",
            got=f"{real.dtype} and {imag.dtype}",
            hint=cast_hint(name, real.dtype),
        )


@composite(
    "complex(Tensor real, Tensor imag) -> Tensor", names=("complex",), node="ComplexBackward0"
)
def complex(real, imag):
    """``real + i imag`` from two real tensors of one dtype."""
    _check_parts("complex", real, imag, "imag")
    real, imag = F.broadcast_tensors([real, imag])
    return F.view_as_complex(F.stack([real, imag], -1))


@composite(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    names=("polar",),
    autocast="cpu float32",
    node="PolarBackward0",
)
def polar(abs, angle):
    """``abs * (cos(angle) + i sin(angle))``."""
    _check_parts("polar", abs, angle, "angle")
    return F.complex(abs * F.cos(angle), abs * F.sin(angle))
