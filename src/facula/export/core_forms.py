"""What the operators of exported programs become on the way to PyTorch's core set.

Takes: nothing. Gives: `default_table`, the decompositions of `default_decompositions`.
Keeps true: a rule computes what its operator does; what has no form in the core set by other operators stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.export.told_forms import told_operators
from facula.fx.pre_dispatch import stays_whole
from facula.lower.decompositions import core_decompositions, decompositions_of
from facula.lower.decompositions.rules import overload
from facula.ops.table.registry import TABLE, F

Tensor = core.Tensor


def _t(self: Tensor) -> Any:
    return F.permute(self, [1, 0]) if self.dim() == 2 else NotImplemented


def _transpose(self: Tensor, dim0: int, dim1: int) -> Any:
    if self.dim() == 0:
        return NotImplemented
    order = list(range(self.dim()))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return F.permute(self, order)


def _sum(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return NotImplemented if dim is not None else F.sum(self, [], keepdim, dtype=dtype)


_FORMS: dict[str, Callable[..., Any]] = {"t": _t, "transpose": _transpose, "sum": _sum}


def of_programs() -> dict[Any, Callable[..., Any]]:
    """Operators of programs that are made of others."""
    return {
        overload(operator): operator.definition.composite
        for name, operator in TABLE.items()
        if "::" in name and operator.definition.composite is not None
    }


@functools.cache
def composites() -> dict[Any, Any]:
    """Operators that are made of others -> themselves: a call in a trace without writes is a call of their parts."""
    return {
        overload(operator): operator
        for operator in TABLE.values()
        if operator.definition.kind == "composite" and stays_whole(operator.definition)
    }


def default_table() -> dict[Any, Callable[..., Any]]:
    """Operator -> function that computes it by others."""
    table = told_operators() | composites() | core_decompositions()
    table |= decompositions_of([TABLE["linear"]]) | of_programs()
    return table | {overload(TABLE[name]): rule for name, rule in _FORMS.items()}
