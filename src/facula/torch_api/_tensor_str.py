"""Printing, under the name that libraries import from PyTorch.

Takes and gives what `facula.core.printing` does. Keeps true: the options are the same object.
"""

from __future__ import annotations

from typing import Any

from facula.core.printing import OPTIONS as PRINT_OPTS
from facula.core.printing import (
    contents,
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """`repr(tensor)`."""
    return tensor_repr(self, tensor_contents=tensor_contents)


def _tensor_str(self: Any, indent: int) -> str:
    """The brackets and numbers of a tensor; lines after the first are indented."""
    return contents(self.detach(), indent)
