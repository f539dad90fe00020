"""Decompositions of operators under PyTorch's names.

Takes operators.  Gives tables from overloads to functions (`lower.decompositions`).
Keeps true: a table is a new dictionary each time; `decomposition_table` holds everything known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from facula.core.errors import fail
from facula.lower import decompositions
from facula.lower.table import operator_of

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "global_decomposition_table",
    "meta_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]

decomposition_table = decompositions.TABLE.fill()
pre_autograd_decomposition_table: dict[Any, Callable[..., Any]] = {}
meta_table: dict[Any, Callable[..., Any]] = {}
global_decomposition_table = {
    "post_autograd": decomposition_table,
    "pre_autograd": pre_autograd_decomposition_table,
    "meta": meta_table,
}


def core_aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions that leave core operators (`lower.decompositions` lists them)."""
    return decompositions.core_decompositions()


def get_decompositions(
    aten_ops: Iterable[Any], type: str = "post_autograd"
) -> dict[Any, Callable[..., Any]]:
    """The decompositions of some operators; those that have none are left out."""
    if type == "post_autograd":
        return decompositions.decompositions_of(aten_ops)
    chosen = {operator_of(op) for op in aten_ops}
    table = global_decomposition_table[type]
    return {op: rule for op, rule in table.items() if operator_of(op) in chosen}


def register_decomposition(
    aten_op: object,
    registry: dict[Any, Callable[..., Any]] | None = None,
    *,
    type: str = "post_autograd",
    unsafe: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: enter a function as the decomposition of one operator or of several."""
    if type not in global_decomposition_table:
        fail(
            AssertionError,
            "register_decomposition",
            f"one of {set(global_decomposition_table)} was required as type",
            got=type,
            hint="leave type out for the usual table",
        )

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        targets = aten_op if isinstance(aten_op, (list, tuple, set)) else (aten_op,)
        for target in targets:
            operator = operator_of(target)
            key = target if operator is None else decompositions.rules.overload(operator)
            if registry is not None:
                registry[key] = function
            elif type == "post_autograd":
                decompositions.register(target)(function)
                decomposition_table[key] = function
            else:
                global_decomposition_table[type][key] = function
        return function

    return enter


def remove_decompositions(decompositions: dict[Any, Any], aten_ops: Iterable[Any]) -> None:
    """Take operators out of a table."""
    chosen = {operator_of(op) for op in aten_ops}
    for key in [k for k in decompositions if operator_of(k) in chosen]:
        del decompositions[key]
