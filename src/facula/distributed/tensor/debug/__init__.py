"""`CommDebugMode`: which collectives a block ran.

Takes: a block. Gives: counts by the operators that stand for the collectives.
Keeps true: each collective that this process begins is counted once, whoever began it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import facula
from facula.distributed.process_group import LISTENERS
from facula.distributed.tensor.debug._visualize_sharding import visualize_sharding
from facula.distributed.traffic import FUNCTIONAL

__all__ = ["CommDebugMode", "visualize_sharding"]

#: for each name of a collective, the operator that gives a new tensor, and the one that writes to tensors
_OPERATORS = {
    "all_reduce": ("all_reduce", "allreduce_"),
    "broadcast": ("broadcast", "broadcast_"),
    "reduce": ("", "reduce_"),
    "gather": ("", "gather_"),
    "scatter": ("", "scatter_"),
    "all_gather": ("all_gather_into_tensor", "allgather_"),
    "all_gather_into_tensor": ("all_gather_into_tensor", "_allgather_base_"),
    "reduce_scatter": ("reduce_scatter_tensor", "_reduce_scatter_base_"),
    "all_to_all": ("all_to_all_single", "alltoall_"),
    "all_to_all_single": ("all_to_all_single", "alltoall_base_"),
}


class _Counts(Counter[Any]):
    """Counts by operator; a name gives how often collectives of that name ran, in whatever form."""

    def __missing__(self, key: Any) -> int:
        if not isinstance(key, str):
            return 0
        return sum(self[operator] for operator in map(_found, *_forms(key)) if operator is not None)


def _forms(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ("c10d_functional", "c10d"), _OPERATORS.get(name, ("", ""))


def _found(namespace: str, name: str) -> Any:
    return getattr(getattr(facula.ops, namespace), name) if name else None


class CommDebugMode:
    """Counts the collectives of a block.

    >>> with CommDebugMode() as mode:
    ...     model(x)
    >>> mode.get_comm_counts()
    """

    def __init__(self) -> None:
        self.comm_counts: _Counts = _Counts()

    def heard(self, name: str) -> None:
        """A collective is about to run."""
        new, written = map(_found, *_forms(name))
        operator = new if FUNCTIONAL.depth and new is not None else written
        self.comm_counts[name if operator is None else operator] += 1

    def get_comm_counts(self) -> dict[Any, int]:
        """How often each collective ran: by its operator, of `ops.c10d_functional` where it gives a new tensor, as
        distributed tensors do, else of `ops.c10d`. Names (`"all_reduce"`) may be asked for, too."""
        return self.comm_counts

    def get_total_counts(self) -> int:
        """How many collectives ran."""
        return sum(self.comm_counts.values())

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        LISTENERS.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        LISTENERS.remove(self)

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
