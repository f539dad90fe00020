"""Questions that scripted code asks and that Python answers too: `jit.isinstance`.

Takes a value and types. Gives the answer that a compiled function gives.
Keeps true: items of containers count, as they do in the types of TorchScript.
"""

from __future__ import annotations

import warnings

from facula.core.errors import fail
from facula.jit.python_types import NoType, type_of_class
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
    if isinstance(target, (list, set, dict)):
        fail(RuntimeError, "jit.isinstance", "a type or types in a tuple were required (The second argument to "
             "`torch.jit.isinstance` must be a type or a tuple of types)", target,
             hint="write the types in parentheses: (int, list[str])")  # fmt: skip
    check_empty_containers(obj)
    try:
        return any(is_instance(obj, type_of_class(t)) for t in targets)
    except NoType as reason:
        return fail(RuntimeError, "jit.isinstance", "types that TorchScript has were required", reason,
                    hint="see docs/torchscript.md for the types")  # fmt: skip


def check_empty_containers(obj: object) -> None:
    """Warns of an empty list or dictionary, which is of every such type.

    Args:
        obj: the value

    Example:
        >>> check_empty_containers([1])
    """
    if isinstance(obj, (list, dict)) and not obj:
        warnings.warn("The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For "
                      "example, List[int] would become list and therefore falsely return True for List[float] or "
                      "List[str].", stacklevel=3)  # fmt: skip


container_isinstance.__name__ = "isinstance"
container_isinstance._jit_question = True  # type: ignore[attr-defined]
