"""Tensors of `functionalize` under the name of PyTorch's module.

Keeps true: facula's level wraps no tensor: writes are followed by memory and generation, so that no tensor is a
`FunctionalTensor`; programs ask `isinstance`.
"""

from __future__ import annotations

from typing import NoReturn

from facula import core
from facula.core.errors import fail

__all__ = ["FunctionalTensor"]


class FunctionalTensor(core.Tensor):
    """The class of wrapped tensors, of which there are none."""

    @staticmethod
    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        """Raises: there is nothing to wrap."""
        fail(RuntimeError, "FunctionalTensor", "a function was required", "a tensor to wrap",
             hint="facula.func.functionalize(f) takes the writes out of f")  # fmt: skip
