"""PyTorch's place for the numeric suite, which compares models before and after quantization.

Re-exports nothing; its parts, which are those of `quantization.numeric_suite` and `quantization.suite`, are imported
when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute


def __getattr__(name: str) -> Any:
    if name in ("_numeric_suite", "_numeric_suite_fx", "fx"):
        return import_module(f"facula.ao.ns.{name}")
    raise _no_attribute(__name__, name)
