"""Modules of models that can be quantized. Re-exports nothing; `quantized` is imported on demand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute


def __getattr__(name: str) -> Any:
    if name == "quantized":
        return import_module("facula.ao.nn.quantized")
    raise _no_attribute(__name__, name)
