"""Marks on symbolic functions.

Takes what kinds of arguments a symbolic function reads. Gives the mark. Keeps true: the function
itself is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """Notes on a function how an exporter has to read its arguments (`v`, `i`, `f`, ...)."""

    def mark(function: Any) -> Any:
        function._arg_descriptors = list(arg_descriptors)
        return function

    return mark
