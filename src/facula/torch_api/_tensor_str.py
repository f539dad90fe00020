"""Printing, under the name that libraries import from PyTorch.

Takes and gives what `facula.core.printing` does. Keeps true: the options are the same object.
"""

from __future__ import annotations

from typing import Any

from facula.core.printing import OPTIONS as PRINT_OPTS
from facula.core.printing import _join as _joined
from facula.core.printing import (
    contents,
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)
from facula.ops.table.registry import F

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


def get_summarized_data(self: Any) -> Any:
    """The elements that a summary of a tensor shows: the first and last ones of each long dimension."""
    edge = PRINT_OPTS.edgeitems
    if self.dim() == 0:
        return self
    if self.dim() == 1:
        return F.cat([self[:edge], self[-edge:]]) if len(self) > 2 * edge else self
    if not PRINT_OPTS.edgeitems:
        return self.new_empty([0] * self.dim())
    rows = [*self[:edge], *self[-edge:]] if len(self) > 2 * edge else list(self)
    return F.stack([get_summarized_data(row) for row in rows]) if rows else self


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """`repr(tensor)`."""
    return tensor_repr(self, tensor_contents=tensor_contents)


def _tensor_str(self: Any, indent: int) -> str:
    """The brackets and numbers of a tensor; lines after the first are indented."""
    return contents(self.detach(), indent)


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """`repr(tensor)`."""
    return tensor_repr(inp, tensor_contents=tensor_contents)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Adds what follows a tensor's contents, each on the last line if it fits there, and the closing bracket."""
    return _joined(tensor_str, suffixes, indent, force_newline)
