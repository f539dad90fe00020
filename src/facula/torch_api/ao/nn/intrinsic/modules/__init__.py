"""Layers that stand for several, by the names that PyTorch's modules have.

Re-exports the names of the modules below, which are imported when a name is asked for.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from facula.quantization.forwarding import forwarded as _forwarded

_name_of = _forwarded(globals(), modules=("modules.intrinsic",))


def __getattr__(name: str) -> Any:
    return _import_module(f"{__name__}.fused") if name == "fused" else _name_of(name)
