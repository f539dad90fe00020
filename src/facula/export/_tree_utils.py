"""Structures of arguments compared and put in order.

Takes: structures, and keywords. Gives: `reorder_kwargs`, `in_order`, `is_equivalent`.
Keeps true: nothing that is given is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.fx._pytree import TreeSpec

__all__ = ["in_order", "is_equivalent", "reorder_kwargs"]


def reorder_kwargs(user_kwargs: dict[str, Any], spec: TreeSpec) -> dict[str, Any]:
    """Keywords in the order that the structure of (arguments, keywords) has them in.

    Args:
        user_kwargs: the keywords
        spec: the structure

    Raises:
        ValueError: they are not those of the structure.
    """
    names = spec.children_specs[1].context
    if set(user_kwargs) != set(names):
        fail(
            ValueError,
            "export",
            f"the keywords {list(names)} were required (Ran into a kwarg keyword mismatch)",
            list(user_kwargs),
            hint="pass the keywords that were given to export()",
        )
    return {name: user_kwargs[name] for name in names}


def in_order(value: Any, spec: TreeSpec) -> Any:
    """Nested values with the entries of dictionaries in the order of a structure, where they have the same keys.

    Args:
        value: the nested values
        spec: the structure
    """
    if isinstance(value, dict) and spec.type is dict:
        if set(value) != set(spec.context):
            return value
        children = zip(spec.context, spec.children_specs, strict=True)
        return {key: in_order(value[key], child) for key, child in children}
    same = type(value) in (tuple, list) and spec.type is type(value)
    if same and len(value) == len(spec.children_specs):
        parts = zip(value, spec.children_specs, strict=True)
        return type(value)([in_order(part, child) for part, child in parts])
    return value


def is_equivalent(
    spec1: TreeSpec, spec2: TreeSpec, equivalence_fn: Callable[[Any, Any, Any, Any], bool]
) -> bool:
    """Whether two structures are one as far as a function of (type, context, type, context) says.

    Args:
        spec1, spec2: the structures
        equivalence_fn: compares two containers without their children
    """
    if not equivalence_fn(spec1.type, spec1.context, spec2.type, spec2.context):
        return False
    children = spec1.children_specs, spec2.children_specs
    if len(children[0]) != len(children[1]):
        return False
    return all(is_equivalent(a, b, equivalence_fn) for a, b in zip(*children, strict=True))
