"""Types that programs import from here for their annotations.

Takes nothing. Gives `typing`'s names, and lists that TorchScript lets a single number stand for.
Keeps true: no meaning beyond the annotation.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "Union",
]
