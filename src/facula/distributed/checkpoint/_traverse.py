"""The entries of nested states.

Takes: dictionaries and lists in each other. Gives: each entry with its path, and access by paths.
Keeps true: lists without tensors and dictionaries are entries of their own; a path consists of the keys as text and
of places in lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from facula import core

__all__ = ["OBJ_PATH", "get_element", "print_tensor", "set_element", "traverse_state_dict"]

OBJ_PATH = tuple[str | int, ...]


def _is_tensor(value: object) -> bool:
    return isinstance(value, core.Tensor)


def traverse_state_dict(
    state_dict: Mapping[Any, Any],
    visitor: Callable[[OBJ_PATH, Any], None],
    keep_traversing: Callable[[Any], bool] | None = _is_tensor,
) -> None:
    """Call a function with the path and the value of each entry.

    Args:
        keep_traversing: which values in a list make that the list's values are entries.

    Example:
        >>> from facula.distributed.checkpoint._traverse import traverse_state_dict
        >>> traverse_state_dict({"a": {"b": [1, 2]}}, print)
        ('a', 'b') [1, 2]
    """

    def is_entry(value: object) -> bool:
        if isinstance(value, Mapping):
            return False
        if not isinstance(value, list):
            return True
        return not any(
            (isinstance(v, (Mapping, list)) and not is_entry(v))
            or (keep_traversing is not None and keep_traversing(v))
            for v in value
        )

    def visit(path: OBJ_PATH, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                visit((*path, str(key)), inner)
        elif is_entry(value):
            visitor(path, value)
        else:
            for i, inner in enumerate(value):
                visit((*path, i), inner)

    for key, value in state_dict.items():
        visit((str(key),), value)


def _key(container: Any, part: str | int) -> Any:
    """The key of a dictionary that a part of a path names: keys that are no text, such as numbers, too."""
    if isinstance(container, Mapping) and part not in container:
        return next((key for key in container if str(key) == part), part)
    return part


def set_element(root_dict: Any, path: OBJ_PATH, value: object) -> None:
    """Exchange the entry at a path; what is missing on the way is made.

    Example:
        >>> from facula.distributed.checkpoint._traverse import set_element
        >>> state = {}
        >>> set_element(state, ("a", 1), "x")
        >>> state
        {'a': [None, 'x']}
    """
    for part, after in zip(path[:-1], path[1:], strict=True):
        made: Any = [] if type(after) is int else {}
        key = _key(root_dict, part)
        if isinstance(root_dict, Mapping):
            root_dict = root_dict.setdefault(key, made)  # type: ignore[attr-defined]
            continue
        root_dict.extend([None] * (key + 1 - len(root_dict)))
        if root_dict[key] is None:
            root_dict[key] = made
        root_dict = root_dict[key]
    last = _key(root_dict, path[-1])
    if type(last) is int and isinstance(root_dict, list):
        root_dict.extend([None] * (last + 1 - len(root_dict)))
    root_dict[last] = value


def get_element(root_dict: Any, path: OBJ_PATH, default_value: object = None) -> Any:
    """The entry at a path; `default_value` where there is none.

    Example:
        >>> from facula.distributed.checkpoint._traverse import get_element
        >>> get_element({"a": [1, 2]}, ("a", 1))
        2
    """
    for part in path:
        key = _key(root_dict, part)
        if isinstance(root_dict, list):
            if type(key) is not int or key >= len(root_dict):
                return default_value
        elif not isinstance(root_dict, Mapping) or key not in root_dict:
            return default_value
        root_dict = root_dict[key]
    return root_dict


def print_tensor(path: OBJ_PATH, value: Any, print_fun: Callable[[str], None] = print) -> None:
    """Print an entry: for `traverse_state_dict`."""
    kind = "Tensor size" if isinstance(value, core.Tensor) else "Type"
    print_fun(f"{path} {kind}: {value.size() if kind != 'Type' else type(value)}")
