"""Sparse tensors: the functions of `facula.sparse`.

Takes and gives sparse tensors (COO, CSR, CSC, BSR, BSC). Keeps true: operators stand in the table;
here are only the switch of the invariant checks and what wraps gradcheck.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.ops.sparse_layouts.create import CHECKS
from facula.ops.table.registry import PLACES

from .semi_structured import SparseSemiStructuredTensor as SparseSemiStructuredTensor
from .semi_structured import (
    SparseSemiStructuredTensorCUSPARSELT as SparseSemiStructuredTensorCUSPARSELT,
)
from .semi_structured import (
    SparseSemiStructuredTensorCUTLASS as SparseSemiStructuredTensorCUTLASS,
)
from .semi_structured import to_sparse_semi_structured as to_sparse_semi_structured

globals().update(PLACES["sparse"])


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """Switches the checks of sparse tensors' parts: a context manager, a decorator, two functions.

    Args:
        enable: whether parts are checked inside

    Example:
        >>> with facula.sparse.check_sparse_tensor_invariants():
        ...     x = facula.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,))
        >>> facula.sparse.check_sparse_tensor_invariants.is_enabled()
        False
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether parts are checked."""
        return CHECKS[0]

    @staticmethod
    def enable() -> None:
        """Check the parts of every sparse tensor that is made."""
        CHECKS[0] = True

    @staticmethod
    def disable() -> None:
        """Check parts only where a call asks for it."""
        CHECKS[0] = False

    def __enter__(self) -> None:
        self.saved.append(CHECKS[0])
        CHECKS[0] = self.state

    def __exit__(self, *exc: object) -> None:
        CHECKS[0] = self.saved.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: object, **kwargs: object) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A form of a gradient check that takes sparse inputs, whose values it moves.

    With `masked=True` only specified elements are moved, else all elements.

    Args:
        gradcheck: `facula.autograd.gradcheck`, or another one

    Example:
        >>> check = facula.sparse.as_sparse_gradcheck(facula.autograd.gradcheck)
        >>> x = facula.eye(2, dtype=facula.float64).to_sparse().requires_grad_()
        >>> check(lambda s: (s * s).to_dense(), (x,), masked=True)
        True
    """

    # lazily: nothing but checks of gradients needs it
    from facula.ops.sparse_layouts.by_values import of_values

    @functools.wraps(gradcheck)
    def checked(function: Callable[..., Any], inputs: object, **options: object) -> bool:
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        masked = bool(options.pop("masked", False))
        return gradcheck(*of_values(function, given, masked), **options)

    return checked


__all__ = sorted((*PLACES["sparse"], "as_sparse_gradcheck", "check_sparse_tensor_invariants"))


def __getattr__(name: str) -> Any:
    if name.endswith("Tensor"):
        # lazily: only older programs name these classes
        globals().update(import_module("facula.legacy").sparse_tensors())
        if name in globals():
            return globals()[name]
    raise _no_attribute(__name__, name)
