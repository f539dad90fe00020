"""`torch.jit._state`: whether scripts are compiled at all.

Takes nothing. Gives switches.
Keeps true: while scripting is off, `script` and `trace` give back what they get.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["EnabledProxy", "disable", "enable"]


class EnabledProxy:
    """Whether scripting is on."""

    def __init__(self) -> None:
        self.enabled = os.environ.get("PYTORCH_JIT", "1") != "0"

    def __bool__(self) -> bool:
        return self.enabled


_enabled = EnabledProxy()
#: compiled functions by what they were made of; they are kept with the functions here
_jit_caching_layer: dict[Any, Any] = {}


def disable() -> None:
    """`script` and `trace` give back what they get."""
    _enabled.enabled = False


def enable() -> None:
    """`script` and `trace` compile again."""
    _enabled.enabled = True


def _clear_class_state() -> None:
    """Forgets classes that were compiled; they live as long as what uses them here."""
    _jit_caching_layer.clear()
