"""How packages of PyTorch's places for quantized modules find their names.

Takes: the namespace of a package, modules of `facula.quantization`, and its own parts. Gives: `forwarded`,
the package's `__getattr__`. Keeps true: nothing is imported before a name is asked for; a name that was
found stays in the package.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute

__all__ = ["forwarded"]


def forwarded(
    namespace: dict[str, Any], modules: tuple[str, ...] = (), parts: tuple[str, ...] = ()
) -> Callable[[str], Any]:
    """A `__getattr__` that looks in `modules`, in this order; `parts` are modules of the package."""
    package = namespace["__name__"]

    def find(name: str) -> Any:
        if name in parts:
            return import_module(f"{package}.{name}")
        if not name.startswith("__"):
            for module in modules:
                found = vars(import_module(f"facula.quantization.{module}")).get(name)
                if found is not None:
                    namespace[name] = found
                    return found
        raise no_attribute(package, name)

    return find
