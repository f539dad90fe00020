"""PyTorch's `ao.quantization`: the workflows of quantization.

Re-exports the names of `facula.quantization`, which imports their modules when they are asked for.
"""

from __future__ import annotations

from typing import Any

import facula.quantization as _room


def __getattr__(name: str) -> Any:
    return getattr(_room, name)


def __dir__() -> list[str]:
    return dir(_room)
