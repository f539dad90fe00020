"""Which elementwise operators masked tensors have, by their numbers of tensors.

Takes the operator table. Gives names and packets of operators. Keeps true: what is listed is elementwise, or a
reduction with a masked form, by its definition; aliases are listed beside what they name.
"""

from __future__ import annotations

from typing import Any

from facula import core, ops
from facula.ops.table.registry import PLACES, TABLE

_TENSORS = ("Tensor", "Operand")


def _operands(op: core.Op) -> list[Any]:
    """The parameters that have no default."""
    return [p for p in op.definition.schema.parameters if not p.has_default]


def elementwise(count: int) -> tuple[str, ...]:
    """The names of root functions that work element by element on so many tensors and need nothing else."""
    found = []
    for name, function in PLACES[""].items():
        op = core.operator_of(function)
        if not isinstance(op, core.Op) or name.startswith("_") or name.endswith("_"):
            continue
        needed = _operands(op)
        if op.definition.kind == "pointwise" and len(needed) == count:
            if all(p.type in _TENSORS for p in needed) and hasattr(core.Tensor, name):
                found.append(name)
    return tuple(found)


def inplace(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the forms that write to their first argument, where there are such."""
    return tuple(f"{name}_" for name in names if hasattr(core.Tensor, f"{name}_"))


def reductions() -> tuple[str, ...]:
    """The names of root functions that give one element for many, and have a masked form of that name."""
    return tuple(
        name
        for name, masked in PLACES["masked"].items()
        if name in TABLE and TABLE[name] is not masked and _reduces(TABLE[name])
    )


def _reduces(op: core.Op) -> bool:
    named = {p.name for p in op.definition.schema.parameters}
    return {"dim", "keepdim"} <= named


def packets(names: tuple[str, ...]) -> dict[str, Any]:
    """The operators of `facula.ops.aten` by these names."""
    return {name: getattr(ops.aten, name) for name in names if hasattr(ops.aten, name)}
