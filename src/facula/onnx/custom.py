"""Translations that programs bring along: symbolic functions, tables, and functions of ONNX Script.

Takes what users register. Gives the function for an operator, and its call.
Keeps true: what a program registers goes before facula's own translation; a registration is kept
until it is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from facula.core.errors import fail
from facula.lower.table import operator_of
from facula.onnx.graph import Graph, Value

#: operator's full name -> function
Custom = Mapping[str, Callable[..., Any]]

#: (operator, opset version) -> the symbolic function
_SYMBOLIC: dict[tuple[str, int], Callable[..., Any]] = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Keep the function that writes an operator into an ONNX graph.

    Args:
        symbolic_name: `namespace::name`.
        symbolic_fn: called as `f(graph, *arguments)`, with arguments in schema order; it gives what
            `graph.op("Name", *values, attribute_i=..)` gave.
        opset_version: the version of ONNX's operators from which on it serves.

    Raises:
        ValueError: the name is not of the form `namespace::name`.
    """
    if "::" not in symbolic_name:
        required = "a name 'namespace::name' was required"
        fail(
            ValueError,
            "onnx.register_custom_op_symbolic",
            required,
            repr(symbolic_name),
            hint="for example 'mylib::scale'",
        )
    _SYMBOLIC[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Take a registration back."""
    _SYMBOLIC.pop((symbolic_name, opset_version), None)


def full_name(target: object) -> str:
    """`namespace::name` of an operator, an overload, a packet, or a custom operator."""
    found = operator_of(target)
    if found is None:
        inner = getattr(target, "_operator", None) or getattr(target, "_op", None)
        found = operator_of(inner) if inner is not None else None
    name = found.name if found is not None else getattr(target, "_qualname", "") or str(target)
    return name if "::" in name else f"aten::{name}"


def table_of(custom: Mapping[Any, Any] | None) -> Custom:
    """The user's table, by names."""
    return {full_name(target): function for target, function in (custom or {}).items()}


def custom_for(custom: Custom, target: Callable[..., Any], opset: int) -> Callable[..., Any] | None:
    """The user's function for an operator: from the table, else the newest that is registered."""
    if not (custom or _SYMBOLIC):
        return None
    name = full_name(target)
    if name in custom:
        return custom[name]
    versions = [v for n, v in _SYMBOLIC if n == name and v <= opset]
    return _SYMBOLIC[name, max(versions)] if versions else None


def call_custom(
    function: Callable[..., Any], graph: Graph, arguments: list[Any], results: int
) -> Any:
    """The values that a user's function gives."""
    if hasattr(function, "to_function_proto"):  # of ONNX Script: the body is carried along
        proto = function.to_function_proto()
        graph.functions[proto.domain, proto.name] = proto
        graph.domains[proto.domain] = 1
        tensors = [a for a in arguments if isinstance(a, Value) or a is None]
        names = list(proto.attribute)
        numbers = [a for a in arguments if not isinstance(a, Value) and a is not None]
        attributes = dict(zip(names, numbers, strict=False))
        return graph.op(
            f"{proto.domain}::{proto.name}", *tensors, outputs=max(1, results), **attributes
        )
    made = function(graph, *arguments)
    several = isinstance(made, (tuple, list)) and len(made) == 1 and results <= 1
    return made[0] if several else made
