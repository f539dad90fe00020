"""PyTorch's `ao.nn`: modules of quantized models.

Re-exports the names of the modules below, which are imported when a name is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

#: where names are looked for, in this order
_MODULES: tuple[str, ...] = ()
#: modules and packages of this one
_PARTS = ("quantized", "intrinsic", "qat", "quantizable")


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
