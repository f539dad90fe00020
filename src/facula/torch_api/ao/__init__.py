"""PyTorch's place for quantization: the parts of models that stand for it before it happens.

Re-exports nothing; `ao.quantization`, `ao.nn`, `ao.ns` and `ao.pruning` are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute


def __getattr__(name: str) -> Any:
    if name in ("nn", "ns", "pruning", "quantization"):
        return import_module(f"facula.ao.{name}")
    raise _no_attribute(__name__, name)
