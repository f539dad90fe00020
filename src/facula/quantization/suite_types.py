"""Records of the numeric suite of graph mode: PyTorch's `ao.ns.fx.ns_types`.

Takes nothing. Gives: the kinds of results, and the part of a graph that a result belongs to. Keeps true: a kind is its
word.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

__all__ = ["NSSingleResultValuesType", "NSSubgraph"]


class NSSingleResultValuesType(enum.StrEnum):
    """What the values of a result are."""

    WEIGHT = "weight"
    NODE_OUTPUT = "node_output"
    NODE_INPUT = "node_input"


class NSSubgraph(NamedTuple):
    """The first node of a part, the last, and the one whose operator it is named after."""

    start_node: Any
    end_node: Any
    base_op_node: Any
