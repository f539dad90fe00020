"""Checks of indices on a device.

Takes: an index tensor and its bounds. Gives: `replacement`, which knows what stands for calls that look at
elements on the processor.
Keeps true: an index out of range raises what the operator itself raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.nested import mapped
from facula.lower.loops.gathers import check_within
from facula.ops.table.registry import TABLE

__all__ = ["replacement"]


def _check(index: Any, low: int, high: int, name: str, *args: Any) -> None:
    """Raise the operator's own error where an index is not in `[low, high)`."""
    if not index.numel():
        return
    least, most = index.amin(), index.amax()
    if int(least.item()) >= low and int(most.item()) < high:
        return
    operator: Any = TABLE[name]
    positional, named = operator.definition.trim(mapped(args, lambda tensor: tensor.detach().cpu()))
    operator(*positional, **named)


def replacement(target: Callable[..., Any]) -> Callable[..., Any]:
    """What is called on a device in the place of a call in a program."""
    return _check if target is check_within else target
