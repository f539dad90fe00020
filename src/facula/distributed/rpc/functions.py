"""Marks of functions that are called from elsewhere.

Takes and gives functions. Keeps true: a marked function called directly is the function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["async_execution"]


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that a function gives a Future: the caller gets its value, once it is there."""

    @functools.wraps(fn)
    def wrapper(*args: object, **kwargs: object) -> Any:
        return fn(*args, **kwargs)

    wrapper._is_async_execution = True  # type: ignore[attr-defined]
    return wrapper
