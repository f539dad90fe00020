"""A namespace in which `scalar.evaluate` runs on NumPy arrays: the oracle of the tests.

Takes: arrays (or Python numbers).
Gives: `NumPy`, whose attributes are the scalar primitives.
Keeps true: NumPy and SciPy are imported only when it is used; nothing in the package itself needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from facula import core
from facula.ops.expr.primitives import PRIMITIVES

_NAMES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "b8": "bool_"}


class NumPy:
    """The scalar primitives over NumPy arrays."""

    def __init__(self) -> None:
        import numpy
        from scipy import special

        self._modules = SimpleNamespace(**vars(numpy), special=special)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in PRIMITIVES:
            raise AttributeError(f"[evaluate] a scalar primitive was required: got {name!r}")
        form = PRIMITIVES[name].numpy
        if callable(form):
            return lambda *args: form(self._modules, *args)
        module, _, function = form.rpartition(".")
        return getattr(getattr(self._modules, module) if module else self._modules, function)

    def where(self, condition: object, a: object, b: object) -> Any:
        """`numpy.where`."""
        return self._modules.where(condition, a, b)

    def cast(self, x: object, dtype: str) -> Any:
        """Convert to the NumPy dtype behind a short name."""
        return self._modules.asarray(x).astype(getattr(self._modules, _NAMES[dtype]))

    def real(self, x: core.Tensor) -> Any:
        """The real part."""
        return self._modules.real(x)

    def imag(self, x: core.Tensor) -> Any:
        """The imaginary part."""
        return self._modules.imag(x)

    def complex(self, re: Any, im: Any) -> Any:
        """A complex array from its parts."""
        return re + 1j * self._modules.asarray(im)
