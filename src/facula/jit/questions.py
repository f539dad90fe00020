"""Questions that scripted code asks and that Python answers too: `jit.isinstance`.

Takes a value and types. Gives the answer that a compiled function gives.
Keeps true: items of containers count, as they do in the types of TorchScript.
"""

from __future__ import annotations

from facula.jit.python_types import type_of_class
from facula.jit.running import is_instance

__all__ = ["container_isinstance"]


def container_isinstance(obj: object, target: object) -> bool:
    """``isinstance`` for ``List[int]`` and the like: the items count, too.

    Args:
        obj: the value
        target: a type, or a tuple of types

    Example:
        >>> facula.jit.isinstance([1, 2], list[int]), facula.jit.isinstance(["a"], list[int])
        (True, False)
    """
    targets = target if isinstance(target, tuple) else (target,)
    return any(is_instance(obj, type_of_class(t)) for t in targets)


container_isinstance.__name__ = "isinstance"
container_isinstance._jit_question = True  # type: ignore[attr-defined]
