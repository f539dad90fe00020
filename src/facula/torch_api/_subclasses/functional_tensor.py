"""Tensors of `functionalize` under the name of PyTorch's module.

Keeps true: facula's level wraps no tensor: writes are followed by memory and generation, so that no tensor is a
`FunctionalTensor`; programs ask `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from facula import core
from facula.autograd.transforms.functional import functionalize
from facula.core.errors import fail

__all__ = ["CppFunctionalizeAPI", "FunctionalTensor", "PythonFunctionalizeAPI"]


class FunctionalTensor(core.Tensor):
    """The class of wrapped tensors, of which there are none."""

    @staticmethod
    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        """Raises: there is nothing to wrap."""
        fail(RuntimeError, "FunctionalTensor", "a function was required", "a tensor to wrap",
             hint="facula.func.functionalize(f) takes the writes out of f")  # fmt: skip


class CppFunctionalizeAPI:
    """Writes taken out of functions, by the name that PyTorch has for it in its extension module."""

    def functionalize(self, inner_f: Callable[..., Any]) -> Callable[..., Any]:
        """A function that computes what another does, without writes.

        Args:
            inner_f: the function.
        """
        return functionalize(inner_f)


class PythonFunctionalizeAPI(CppFunctionalizeAPI):
    """The same by PyTorch's name for it in Python: there is one way here."""
