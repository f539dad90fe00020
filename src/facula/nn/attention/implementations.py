"""Flash attention by other packages: who offers it, and which is in use.

Takes functions that put an implementation in place. Gives PyTorch's functions of the same names.
Keeps true: an implementation is put in place only when it is activated by name, and taken away
before the next one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

_KNOWN: dict[str, Callable[..., Any]] = {}
_ACTIVE: list[tuple[str, Any]] = []


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Offer an implementation: `register_fn()` puts it in place and gives a handle with `remove()`."""
    _KNOWN[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The names of what is offered."""
    return sorted(_KNOWN)


def current_flash_attention_impl() -> str | None:
    """The name of the implementation in use; None for facula's own."""
    return _ACTIVE[0][0] if _ACTIVE else None


def activate_flash_attention_impl(impl: str) -> None:
    """Put an implementation in place of the one in use.

    Raises:
        ValueError: nobody offers it.
    """
    if impl not in _KNOWN:
        fail(
            ValueError,
            "activate_flash_attention_impl",
            f"one of {list_flash_attention_impls()} was required (Unknown flash attention impl)",
            repr(impl),
            "register it with register_flash_attention_impl",
        )
    restore_flash_attention_impl(_raise_warn=False)
    _ACTIVE.append((impl, _KNOWN[impl]()))


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Go back to facula's own implementation."""
    if not _ACTIVE:
        if _raise_warn:
            warnings.warn(
                "Trying to restore default FA2 impl when no custom impl was activated", stacklevel=2
            )
        return
    _, handle = _ACTIVE.pop()
    if handle is not None:
        handle.remove()
