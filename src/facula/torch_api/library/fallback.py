"""Recorded calls of operators of a `Library` for which no gradient was registered.

Takes an operator's definition. Gives a function that runs its kernel, and the mode: "nothing", or "warn" (the default).
Keeps true: what the kernel does is recorded as if it stood in the program, so gradients are those of its operators;
with "warn", a backward pass that comes through the operator says that nobody registered a gradient, and what the
kernel made without a history gets no gradient.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.function import Function
from facula.core.errors import fail
from facula.core.nested import tensors_in

__all__ = ["fallback_mode", "set_fallback_mode", "unregistered"]

MODES = ("nothing", "warn")
_MODE = ["warn"]


def fallback_mode() -> str:
    """What happens where a gradient was not registered: "nothing" or "warn"."""
    return _MODE[0]


def set_fallback_mode(mode: str) -> None:
    """Say what happens where a gradient was not registered.

    Raises:
        ValueError: another word.
    """
    if mode not in MODES:
        fail(ValueError, "set_fallback_mode", f"one of {MODES} was required", mode, "'warn' tells")
    _MODE[0] = mode


def _warn(name: str) -> None:
    text = (
        f"{name}: an autograd kernel was not registered to the Autograd key(s), and a gradient is asked through it: "
        "it is that of the operators which the kernel called, and none for what the kernel made by other means. "
        f"facula.library.register_autograd({name!r}, backward) registers one"
    )
    warnings.warn(core.spoken(text), UserWarning, stacklevel=2)


class _Unknown(Function):
    """A result that has no history: its backward pass warns and gives nothing."""

    @staticmethod
    def forward(ctx: Any, name: str, made: list[core.Tensor], *inputs: object) -> Any:
        ctx.name, ctx.count = name, len(inputs)
        return made[0]

    @staticmethod
    def backward(ctx: Any, grad: object) -> Any:
        _warn(ctx.name)
        return (None,) * (2 + ctx.count)


def _is_traced(tensors: list[core.Tensor]) -> bool:
    """Whether a mode, a transform or a class of tensors has to hear of the operator as a whole."""
    return bool(core.DISPATCH_MODES or core.interpreters()) or any(
        type(t) is not core.Tensor and hasattr(type(t), "__torch_dispatch__") for t in tensors
    )


def unregistered(definition: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """The operator as a recorded call runs it; `otherwise` where the operator must stay a whole."""
    known = weakref.ref(definition)

    def run(*args: Any) -> Any:
        owner = known()
        given = tensors_in(args)
        if owner is None or _is_traced(given):
            return otherwise(*args)
        result = owner.run(*args)
        if _MODE[0] == "nothing" or not core.is_grad_enabled():
            return result
        return _told(owner, [t for t in given if t.requires_grad], given, result)

    return run


def _told(
    definition: Any, differentiable: list[core.Tensor], given: list[core.Tensor], result: Any
) -> Any:
    """The results, with a warning on each way back."""

    def tell(grad: object) -> None:
        _warn(definition.name)

    def watched(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(watched(v) for v in value)
        if not isinstance(value, core.Tensor):
            return value
        if value.requires_grad:
            value.register_hook(tell)
            base = value._base if any(value is t for t in given) else None
            if base is not None and base.requires_grad:
                base.register_hook(tell)
            return value
        if any(value is t for t in given) or not (
            value.dtype.is_floating_point or value.dtype.is_complex
        ):
            return value
        return _Unknown.apply(definition.name, [value], *differentiable)

    return watched(result)
