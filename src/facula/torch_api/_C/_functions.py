"""Functions with a history of their own that PyTorch has in its extension module.

Takes: nothing. Gives: `UndefinedGrad`. Keeps true: its results are the values that were given.
"""

from __future__ import annotations

from typing import Any

from facula.autograd.function import Function

__all__ = ["UndefinedGrad"]


class _Stopped(Function):
    @staticmethod
    def forward(ctx: Any, *values: Any) -> Any:
        found = tuple(v.view_as(v) for v in values)
        return found if len(found) > 1 else found[0]

    @staticmethod
    def backward(ctx: Any, *grads: object) -> Any:
        return (None,) * len(grads)


class UndefinedGrad:
    """Tensors as they are, through which no gradient comes back."""

    def __call__(self, *values: Any) -> Any:
        return _Stopped.apply(*values)
