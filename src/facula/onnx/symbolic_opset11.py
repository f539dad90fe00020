"""Building blocks of symbolic functions for version 11 of ONNX's operators.

Takes the graph that an exporter passes, and values of it. Gives new values of the graph. Keeps true:
everything goes through the graph's own `op`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from facula.onnx.graph import Value


__all__ = ["select", "squeeze", "unsqueeze"]


def unsqueeze(g: Any, self: Any, dim: int) -> Any:
    """A dimension of size 1 more."""
    return g.op("Unsqueeze", self, [dim])


def squeeze(g: Any, self: Any, dim: int | None = None) -> Any:
    """A dimension of size 1 less, or all of them."""
    return g.op("Squeeze", self) if dim is None else g.op("Squeeze", self, [dim])


def select(g: Any, self: Any, dim: int, index: Value) -> Any:
    """The entries at an index along a dimension."""
    return g.op("Gather", self, index, axis_i=dim)
