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
    """Offers an implementation of attention.

    Args:
        impl: its name
        register_fn: puts it in place, and gives a handle with ``remove()``

    Example:
        >>> import types
        >>> handle = types.SimpleNamespace(remove=lambda: None)
        >>> facula.nn.attention.register_flash_attention_impl("mine", register_fn=lambda: handle)
        >>> facula.nn.attention.activate_flash_attention_impl("mine")
        >>> facula.nn.attention.current_flash_attention_impl()
        'mine'
        >>> facula.nn.attention.restore_flash_attention_impl()
    """
    _KNOWN[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The names of implementations of attention that were offered.

    Example:
        >>> isinstance(facula.nn.attention.list_flash_attention_impls(), list)
        True
    """
    return sorted(_KNOWN)


def current_flash_attention_impl() -> str | None:
    """The name of the implementation in use; None for facula's own.

    Example:
        >>> facula.nn.attention.current_flash_attention_impl() is None
        True
    """
    return _ACTIVE[0][0] if _ACTIVE else None


def activate_flash_attention_impl(impl: str) -> None:
    """Puts an implementation that was offered in place of the one in use.

    Args:
        impl: its name

    Raises:
        ValueError: nobody offers it.

    Example:
        >>> try:
        ...     facula.nn.attention.activate_flash_attention_impl("nobody's")
        ... except ValueError:
        ...     print("not offered")
        not offered
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
    """Goes back to facula's own implementation of attention.

    Example:
        >>> facula.nn.attention.restore_flash_attention_impl(_raise_warn=False)
    """
    if not _ACTIVE:
        if _raise_warn:
            warnings.warn(
                "Trying to restore default FA2 impl when no custom impl was activated", stacklevel=2
            )
        return
    _, handle = _ACTIVE.pop()
    if handle is not None:
        handle.remove()
