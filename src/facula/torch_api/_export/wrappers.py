"""`torch._export.wrappers`: what marks classes of tensors that programs make.

Takes: the `__init__` of a class of tensors. Gives: the same function.
Keeps true: the tensors that such an object is made of are part of a trace; so is what becomes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

__all__ = ["mark_subclass_constructor_exportable_experimental"]


def mark_subclass_constructor_exportable_experimental(
    constructor_subclass: Callable[..., Any],
) -> Callable[..., Any]:
    """Mark the constructor of a class of tensors, which programs that are exported may call.

    Args:
        constructor_subclass: its ``__init__``

    Raises:
        RuntimeError: it is another function.

    Example:
        >>> class Pair(facula.Tensor):
        ...     @facula._export.wrappers.mark_subclass_constructor_exportable_experimental
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
    """
    if getattr(constructor_subclass, "__name__", "") != "__init__":
        fail(
            RuntimeError,
            "export",
            "the __init__ of a class of tensors was required: the mark was put on fn which is not supported. If the "
            "class has no __init__, write one",
            getattr(constructor_subclass, "__name__", type(constructor_subclass).__name__),
            hint="decorate __init__ of the class",
        )
    return constructor_subclass
