"""Tools around tensors and training, under the names that PyTorch gives them.

Re-exports and thin modules; nothing else, and each is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

_MODULES = frozenset(module.name for module in iter_modules(__path__))
_FROM = {
    "rename_privateuse1_backend": "facula.utils.backend_registration",
    "generate_methods_for_privateuse1_backend": "facula.utils.backend_registration",
    "ThroughputBenchmark": "facula.utils.throughput_benchmark",
    "set_module": "facula.utils.naming",
    "swap_tensors": "facula.namespaces.swapping",
}
__all__ = sorted(_FROM)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"facula.utils.{name}")
    if name in _FROM:
        return getattr(import_module(_FROM[name]), name)
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_FROM})
