"""`torch.jit._state`: whether scripts are compiled at all.

Takes nothing. Gives switches.
Keeps true: while scripting is off, `script` and `trace` give back what they get.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

__all__ = ["EnabledProxy", "PythonUnit", "disable", "enable"]


class EnabledProxy:
    """Whether scripting is on."""

    def __init__(self) -> None:
        self.enabled = os.environ.get("PYTORCH_JIT", "1") != "0"

    def __bool__(self) -> bool:
        return self.enabled


class PythonUnit:
    """The functions of the program that were scripted, as long as somebody has them."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, function: object) -> None:
        """A function was scripted."""
        self._held.add(function)

    def get_functions(self) -> list[Any]:
        """All functions."""
        return list(self._held)

    def find_function(self, name: str) -> Any:
        """The function of that name or qualified name; None where there is none."""
        return next((f for f in self._held if name in (f.name, f.qualified_name)), None)


_enabled = EnabledProxy()
_python_cu = PythonUnit()
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
