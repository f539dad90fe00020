"""Several processes of one program: Python's `multiprocessing`, and `spawn`.

Takes: a function and a number of processes. Gives: `spawn`, `start_processes`, and the names of the
standard library's module.
Keeps true: the first process that fails ends the others, and its exception is raised here with its
traceback; tensors are sent as the memory that they
are, so that what one process writes the others see.
"""

from __future__ import annotations

import contextlib
import threading
from multiprocessing import *  # noqa: F403
from multiprocessing import get_all_start_methods as get_all_start_methods
from pathlib import Path

from .. import shared_memory
from .spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)


def get_all_sharing_strategies() -> set[str]:
    """How memory may be passed to other processes."""
    return set(shared_memory.STRATEGIES)


def get_sharing_strategy() -> str:
    """How memory that is shared from now on is passed to other processes."""
    return shared_memory.strategy()


def set_sharing_strategy(new_strategy: str) -> None:
    """Pass memory by open descriptors (`file_descriptor`) or by names of files (`file_system`)."""
    assert new_strategy in shared_memory.STRATEGIES, (
        f"[set_sharing_strategy] one of {shared_memory.STRATEGIES} was required: "
        f"got {new_strategy!r}"
    )
    shared_memory.set_strategy(new_strategy)


def _set_thread_name(name: str) -> None:
    """Name this thread, for debuggers and `top -H`; at most 15 bytes of it count."""
    with contextlib.suppress(OSError):  # a system without such files
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)


def _get_thread_name() -> str:
    """What this thread is called for debuggers; "" where the system does not say."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().rstrip("\n")
    return ""


__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy",
    "spawn", "start_processes",
]  # fmt: skip
