"""What an installation has, and other names that older programs read at the root.

Takes: nothing. Gives: truth values, and the classes of loaded libraries.
Keeps true: a part that facula does itself, as transforms and linear algebra, is one that it has.
"""

from __future__ import annotations

import math as math
from types import ModuleType, SimpleNamespace
from typing import Any

from facula.core.errors import fail
from facula.namespaces.switches import (
    are_deterministic_algorithms_enabled,
    use_deterministic_algorithms,
)
from facula.ops import load_library

from . import cuda, mps
from .backends import cudnn, mkl, mkldnn, openmp

__all__ = ["classes", "compiled_with_cxx11_abi", "is_deterministic", "set_deterministic"]

has_cuda, has_mps, has_cudnn = cuda.is_available(), mps.is_available(), cudnn.is_available()
has_mkl, has_mkldnn, has_openmp = mkl.is_available(), mkldnn.is_available(), openmp.is_available()
has_lapack = has_spectral = True


def is_deterministic() -> bool:
    """`are_deterministic_algorithms_enabled` under its name of PyTorch 1.7 and 1.8.

    Example:
        >>> facula.is_deterministic()
        False
    """
    return are_deterministic_algorithms_enabled()


def set_deterministic(d: bool) -> None:
    """`use_deterministic_algorithms` under its name of PyTorch 1.7 and 1.8.

    Args:
        d: whether results have to be the same each time

    Example:
        >>> facula.set_deterministic(False)
    """
    use_deterministic_algorithms(d)


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """`compiler.disable` as classes of tensors call it: a decorator of functions that are never captured.

    Args:
        fn: the function; None gives the decorator
        recursive: whether what it calls is not captured either

    Example:
        >>> doubled = facula._disable_dynamo(lambda x: x * 2)
        >>> doubled(facula.ones(1))
        tensor([2.])
    """
    # lazily: it is part of the compiler
    from facula.compiler import disable

    return disable(fn, recursive=recursive)


def compiled_with_cxx11_abi() -> bool:
    """Whether C++ libraries for this installation have GCC's newer strings: yes.

    Example:
        >>> facula.compiled_with_cxx11_abi()
        True
    """
    return True


class _Classes(ModuleType):
    """`facula.classes`: classes of C++ that loaded libraries register, by namespace and name."""

    def __init__(self) -> None:
        super().__init__("facula.classes", _Classes.__doc__)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(name)

    def load_library(self, path: str) -> None:
        """Load a library, as `facula.ops.load_library` does."""
        load_library(path)


class _Namespace(SimpleNamespace):
    """The classes of a namespace."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        fail(RuntimeError, "classes", "a class of a loaded library was required "
             f"(Class {self.name}.{name} not registered!)", f"{self.name}.{name}",
             hint="torch.classes.load_library(path) first")  # fmt: skip


classes = _Classes()
