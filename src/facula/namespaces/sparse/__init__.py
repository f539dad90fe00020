"""Sparse tensors: the functions of `facula.sparse`.

Takes and gives sparse tensors (COO, CSR, CSC, BSR, BSC). Keeps true: operators stand in the table;
here are only the switch of the invariant checks and what wraps gradcheck.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.ops.registry import PLACES
from facula.ops.sparse_create import CHECKS
from facula.ops.sparse_tensor import SparseTensor, rebuilt

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

    def __exit__(self, *exc: Any) -> None:
        CHECKS[0] = self.saved.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A form of a gradient check that takes sparse inputs, whose values it moves.

    With `masked=True` only specified elements are moved; facula's gradients are of that kind, so
    `masked=False` (gradients of elements that are not specified) raises for sparse inputs.

    Args:
        gradcheck: `facula.autograd.gradcheck`, or another one

    Example:
        >>> check = facula.sparse.as_sparse_gradcheck(facula.autograd.gradcheck)
        >>> x = facula.eye(2, dtype=facula.float64).to_sparse().requires_grad_()
        >>> check(lambda s: (s * s).to_dense(), (x,), masked=True)
        True
    """

    @functools.wraps(gradcheck)
    def checked(function: Callable[..., Any], inputs: Any, **options: Any) -> bool:
        masked = options.pop("masked", False)
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        moved = [isinstance(x, SparseTensor) and x.requires_grad for x in given]
        if any(moved) and not masked:
            fail(
                ValueError,
                "as_sparse_gradcheck",
                "masked=True was required with sparse inputs",
                hint="gradcheck(f, inputs, masked=True)",
            )

        def of_values(*values: Any) -> Any:
            made = [
                rebuilt(x, v) if is_moved else v
                for x, v, is_moved in zip(given, values, moved, strict=True)
            ]
            return _dense_results(function(*made))

        values = tuple(
            x.detach()._stored.clone().requires_grad_() if is_moved else x
            for x, is_moved in zip(given, moved, strict=True)
        )
        return gradcheck(of_values, values, **options)

    return checked


def _dense_results(results: Any) -> Any:
    if isinstance(results, SparseTensor):
        return results.to_dense()
    return type(results)(map(_dense_results, results)) if isinstance(results, tuple) else results


__all__ = sorted((*PLACES["sparse"], "as_sparse_gradcheck", "check_sparse_tensor_invariants"))
