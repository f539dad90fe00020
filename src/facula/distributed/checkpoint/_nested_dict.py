"""Nested states as flat ones, and back.

Takes: a nested state. Gives: its entries by name, and the path of each.
Keeps true: a name is the path, joined by dots; two entries of one name are an error.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.distributed.checkpoint._traverse import OBJ_PATH, set_element, traverse_state_dict

__all__ = ["FLATTEN_MAPPING", "flatten_state_dict", "unflatten_state_dict"]

FLATTEN_MAPPING = dict[str, OBJ_PATH]


def flatten_state_dict(state_dict: dict[str, Any]) -> tuple[dict[str, Any], FLATTEN_MAPPING]:
    """The entries by name, and their paths.

    Example:
        >>> from facula.distributed.checkpoint._nested_dict import flatten_state_dict
        >>> flatten_state_dict({"a": {"b": 1}})
        ({'a.b': 1}, {'a.b': ('a', 'b')})
    """
    flat: dict[str, Any] = {}
    paths: FLATTEN_MAPPING = {}

    def visit(path: OBJ_PATH, value: object) -> None:
        name = ".".join(map(str, path))
        if name in flat:
            fail(ValueError, "checkpoint", f"names of their own were required for all entries (duplicated "
                 f"flatten key {name!r})", f"{paths[name]} and {path}", "rename one of the keys")  # fmt: skip
        flat[name], paths[name] = value, path

    traverse_state_dict(state_dict, visit)
    return flat, paths


def unflatten_state_dict(state_dict: dict[str, Any], mapping: FLATTEN_MAPPING) -> dict[str, Any]:
    """The nested state again.

    Example:
        >>> from facula.distributed.checkpoint._nested_dict import unflatten_state_dict
        >>> unflatten_state_dict({"a.b": 1}, {"a.b": ("a", "b")})
        {'a': {'b': 1}}
    """
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
