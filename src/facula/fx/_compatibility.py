"""`compatibility`: how long a name of `fx` is kept, as other packages mark their own.

Takes: whether a name is kept. Gives: a decorator that notes it. Keeps true: what is marked is not
changed, and works as before.
"""

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["compatibility"]

_Marked = TypeVar("_Marked")


def compatibility(is_backward_compatible: bool) -> Callable[[_Marked], _Marked]:
    """Marks a function or class.

    Args:
        is_backward_compatible: whether it is kept in later versions.

    Example:
        >>> from facula.fx._compatibility import compatibility
        >>> @compatibility(is_backward_compatible=True)
        ... def double(x):
        ...     return 2 * x
        >>> double(3)
        6
    """

    def mark(fn: Any) -> Any:
        fn._is_backward_compatible = is_backward_compatible
        return fn

    return mark
