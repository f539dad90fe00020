"""Operators under the name that PyTorch's older modules call them by.

Takes: nothing. Gives: facula's own functions. Keeps true: it holds nothing.
"""

from __future__ import annotations

from typing import Any

import facula
from facula.core.errors import no_attribute as _no_attribute


def __getattr__(name: str) -> Any:
    if not name.startswith("__") and hasattr(facula, name):
        return getattr(facula, name)
    raise _no_attribute(__name__, name)
