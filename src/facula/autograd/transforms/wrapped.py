"""Tensors made of tensors, whose classes handle operators (`__torch_dispatch__`), in traced programs.

Takes: calls under a level of `functionalize`, and what dispatch modes are told. Gives: what the class says.
Keeps true: the tape sees the call on the outer tensors, as it does eagerly; what the class calls on the inner
ones comes to the level and to the mode again, and is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from facula import core

Tensor = core.Tensor
#: the stacks of transforms that were left for a call on outer tensors, the innermost last
_LEFT: list[list[Any]] = []


def is_made_of_tensors(kind: type) -> bool:
    """Whether a class handles operators itself, and says of which tensors its own are made."""
    return (
        getattr(kind, "__torch_dispatch__", None) is not None
        and getattr(kind, "__tensor_flatten__", None) is not None
    )


def concerns(args: Iterable[Any]) -> bool:
    """Whether a tensor of such a class is among arguments, one level of lists included."""
    for x in args:
        if isinstance(x, Tensor):
            if type(x) is not Tensor and is_made_of_tensors(type(x)):
                return True
        elif isinstance(x, (list, tuple)) and concerns(x):
            return True
    return False


def called(
    below: list[Any], function: Callable[..., Any], args: Iterable[Any], kwargs: dict[str, Any]
) -> Any:
    """A call on outer tensors with the stack `below`; the class's calls have the present one."""
    stack = core.swap_interpreters(below)
    _LEFT.append(stack)
    try:
        return function(*args, **kwargs)
    finally:
        _LEFT.pop()
        core.swap_interpreters(stack)


def handled(
    mode: Any, function: Any, types: Iterable[type], args: tuple[Any, ...], kwargs: Any
) -> Any:
    """What the first class among `types` says, told while `mode` hears of the operators that it calls.

    NotImplemented where no class says anything.
    """
    kinds = [kind for kind in types if is_made_of_tensors(kind)]
    stack = core.swap_interpreters(_LEFT[-1]) if _LEFT else None
    if stack is not None:
        _LEFT.append(stack)
    core.push_dispatch_mode(mode)
    recording = core.set_grad_enabled(False)
    try:
        for kind in kinds:
            dispatch: Any = kind.__torch_dispatch__  # type: ignore[attr-defined]
            found = dispatch(function, tuple(kinds), args, kwargs)
            if found is not NotImplemented:
                return found
        return NotImplemented
    finally:
        core.set_grad_enabled(recording)
        core.pop_dispatch_mode()
        if stack is not None:
            _LEFT.pop()
            core.swap_interpreters(stack)


__all__ = ["called", "concerns", "handled", "is_made_of_tensors"]
