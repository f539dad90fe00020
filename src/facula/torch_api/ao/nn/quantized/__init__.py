"""Layers of integers.

Re-exports the names of the modules below, which are imported when a name is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

#: where names are looked for, in this order
_MODULES = (
    "modules.quantized",
    "modules.functional",
    "modules.stubs",
    "modules.embedding",
)
#: modules and packages of this one
_PARTS = ("dynamic", "modules", "functional", "reference")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"{__name__}.{name}")
    if not name.startswith("__"):
        for module in _MODULES:
            found = vars(import_module(f"facula.quantization.{module}")).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise _no_attribute(__name__, name)
