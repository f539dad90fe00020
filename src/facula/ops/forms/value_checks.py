"""Checks of elements as operators, for composites that are traced.

Takes: a tensor of indices, and where they have to lie. Gives: the same indices.
Keeps true: a composite reads elements only where there are some to read; in a trace it passes its
indices through `_within`, so that the traced program raises what the composite raises.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index.launch import within
from facula.ops.table.registry import F, operator


@operator(
    "_within(Tensor self, int low, int high, str op, str message) -> Tensor",
    names=(),
    out=False,
    file_form="unchecked",
)
class Within:
    """A copy of integers, all of which lie in [low, high)."""

    vmap = "whole"

    def meta(self, low, high, op, message):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, low, high, op, message):
        out.copy_(self)
        if self.numel() and not within(self - low, high - low):
            values = F.logical_or(self < low, self >= high)
            bad = self.reshape(-1)[values.reshape(-1).to(core.int64).argmax()].item()
            fail(RuntimeError, op, message, bad, hint=f"all of them lie in [{low}, {high})")


def checked(indices: core.Tensor, low: int, high: int, op: str, message: str) -> Any:
    """Indices in a trace, to be checked whenever the traced program runs."""
    return F._within(indices, low, high, op, message)


def is_traced(tensor: core.Tensor) -> bool:
    """Whether elements of a tensor can not be asked for now, but later."""
    return core.is_dispatching(tensor)
