"""Schemas of scripts, and of all operators that scripts may call.

Takes compiled functions, or names of operators. Gives `FunctionSchema`s.
Keeps true: the schema of a script follows from its unit, those of operators from the operator table and from the
texts of the primitives; what stands in neither does not exist.
"""

from __future__ import annotations

import inspect
from typing import Any

from facula.core.errors import fail
from facula.jit.signatures import PRIMITIVE, operator_named
from facula.ops.table.overloads import ON_DEMAND, named_overload, namespace
from facula.ops.table.registry import TABLE, own_operators
from facula.ops.table.schemas.function import REQUIRED, Argument, FunctionSchema
from facula.ops.table.schemas.overloads import names_of_overloads
from facula.ops.table.schemas.reading import parse_schema

__all__ = ["all_schemas", "operation", "overload_of_name", "schema_of_name", "schemas_for", "unit_schema"]  # fmt: skip


def unit_schema(name: str, unit: Any) -> FunctionSchema:
    """The schema of a compiled function or method."""
    arguments = []
    declared = unit.parameters
    lengths = getattr(unit, "lengths", {})
    for own, kind, default in declared:
        length = lengths.get(own)
        if default is inspect.Parameter.empty:
            default = REQUIRED
        elif length and type(default) in (int, float):
            default = [default] * length
        arguments.append(Argument(own, kind, default, N=length))
    return FunctionSchema(name, "", arguments, [Argument("", unit.result_type())])


_READ: dict[str, list[FunctionSchema]] = {}


def _primitives(name: str) -> list[FunctionSchema]:
    """The schemas of what has no place in the operator table: numbers, texts, containers."""
    known = PRIMITIVE.get(name, [])
    if len(_READ.setdefault(name, [])) != len(known):
        _READ[name] = [parse_schema(signature.source) for signature in known]
    return _READ[name]


def _operator(name: str) -> Any:
    space, _, own = name.partition("::")
    return operator_named(own) if space == "aten" else TABLE.get(name) or ON_DEMAND[0](space, own)


def schemas_for(name: str) -> list[FunctionSchema]:
    """The schemas of all overloads of an operator; none where there is no such operator.

    Args:
        name: `aten::add`

    Example:
        >>> [schema.overload_name for schema in facula._C._jit_get_schemas_for_operator("aten::relu")]
        ['', 'out']
    """
    space, _, own = name.partition("::")
    operator = _operator(name)
    names = [] if operator is None else names_of_overloads(operator)
    found = [named_overload(space, own, n, operator)._schema for n in names]
    # operators that programs define overload by overload
    for key in [k for k in TABLE if k.startswith(f"{name}.")] if space != "aten" else ():
        found.append(named_overload(space, own, key.removeprefix(f"{name}."), TABLE[key])._schema)
    taken = {schema.overload_name for schema in found}
    return [*found, *(s for s in _primitives(name) if s.overload_name not in taken)]


def all_schemas() -> list[FunctionSchema]:
    """The schemas of all operators that scripts may call.

    Example:
        >>> any(schema.name == "aten::relu" for schema in facula._C._jit_get_all_schemas())
        True
    """
    names = dict.fromkeys(f"aten::{name}" for name in own_operators())
    names.update(dict.fromkeys(name.partition(".")[0] for name in TABLE if "::" in name))
    names.update(dict.fromkeys(PRIMITIVE))
    return [schema for name in names for schema in schemas_for(name)]


def operation(name: str) -> tuple[Any, list[str]] | tuple[None, None]:
    """An operator, and the names of its overloads; None where there is none.

    Args:
        name: `aten::add`
    """
    names = [schema.overload_name for schema in schemas_for(name)]
    if not names:
        return None, None
    space, _, own = name.partition("::")
    return getattr(namespace(space), own, None), names


def schema_of_name(name: str, overload_name: str) -> FunctionSchema:
    """The schema of an overload.

    Args:
        name: `aten::add`
        overload_name: `Tensor`, or nothing

    Raises:
        RuntimeError: there is none.
    """
    for schema in schemas_for(name):
        if schema.overload_name == overload_name:
            return schema
    names = ", ".join(repr(s.overload_name) for s in schemas_for(name)) or "none"
    return fail(RuntimeError, "_get_schema", "an overload that exists was required (Found no matching schema)",
                f"{name}.{overload_name}", hint=f"the overloads of {name}: {names}")  # fmt: skip


def overload_of_name(name: str, overload_name: str) -> tuple[Any, Any, list[Any]] | None:
    """What calls an overload, twice, and what is known of it; None where there is no such overload.

    Args:
        name: `aten::add`
        overload_name: `Tensor`, or nothing
    """
    operator = _operator(name)
    if operator is None or overload_name not in [s.overload_name for s in schemas_for(name)]:
        return None
    space, _, own = name.partition("::")
    found = named_overload(space, own, overload_name or "default", operator)
    return found, found, found.tags
