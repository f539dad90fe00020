"""PyTorch's place for quantization: the parts of models that stand for it before it happens.

Re-exports nothing; `ao.quantization` and `ao.nn` are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("nn", "quantization"):
        return import_module(f"facula.ao.{name}")
    raise AttributeError(f"module 'facula.ao' has no attribute {name!r}")
