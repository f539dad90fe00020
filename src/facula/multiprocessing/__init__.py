"""Several processes of one program: Python's `multiprocessing`, and `spawn`.

Takes: a function and a number of processes. Gives: `spawn`, `start_processes`, and the names of the
standard library's module.
Keeps true: the first process that fails ends the others, and its exception is raised here with its
traceback; tensors are sent as copies.
"""

from __future__ import annotations

from multiprocessing import *  # noqa: F403
from multiprocessing import get_all_start_methods as get_all_start_methods

from facula.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_STRATEGIES = frozenset(("file_system",))


def get_all_sharing_strategies() -> set[str]:
    """How tensors may be shared."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """How tensors are shared."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how tensors are shared."""
    assert new_strategy in _STRATEGIES, f"[set_sharing_strategy] one of {set(_STRATEGIES)}"


__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy",
    "spawn", "start_processes",
]  # fmt: skip
