"""Errors of operators that take functions.

Takes: nothing. Gives: `TorchDynamoException`, and `UncapturedHigherOrderOpError` for functions that can be no
part of a graph.
Keeps true: the names are PyTorch's, so that programs that catch them go on.
"""

from __future__ import annotations

from typing import NoReturn

from facula.core.errors import fail

__all__ = ["TorchDynamoException", "UncapturedHigherOrderOpError", "refuse"]


class TorchDynamoException(RuntimeError):
    """Base class of what the compiler raises."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A function given to `cond`, `while_loop`, `scan` and their kin can be no graph of its own."""


#: under what name PyTorch's messages speak of an operator
_SPOKEN = {"cond": "torch.cond", "while_loop": "torch.while_loop"}


def refuse(op: str, required: str, got: object, hint: str) -> NoReturn:
    """Raise `UncapturedHigherOrderOpError` for an operator."""
    spoken = _SPOKEN.get(op, f"torch.ops.higher_order.{op}")
    fail(
        UncapturedHigherOrderOpError,
        op,
        f"{required} (Higher Order Operator: {spoken})",
        got,
        hint=hint,
    )
