"""The groups that a process has, or a thread of it where threads stand for ranks.

Takes: nothing. Gives: `States`, whose attributes are those of the process or of the thread that asks.
Keeps true: nothing is made here; `world` makes groups and writes them down.
"""

from __future__ import annotations

import threading
from typing import Any

from facula.distributed.engine import Engine, Rendezvous
from facula.distributed.process_group import ProcessGroup
from facula.distributed.stores import Store

__all__ = ["States"]


class State:
    """The groups of this process."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        #: by the name of the backend
        self.engines: dict[str, Engine] = {}
        self.rendezvous: Rendezvous | None = None
        self.store: Store | None = None
        self.met: Store | None = None
        self.groups: dict[int, ProcessGroup] = {}
        self.made = 0
        self.backend = ""

    def status(self, number: int) -> dict[str, Any]:
        """What this process is doing in a group."""
        found = self.groups.get(number)
        return found.status if found is not None else {}


class States:
    """The groups of this process; where threads stand for ranks, those of this thread."""

    def __init__(self) -> None:
        self.__dict__.update(_whole=State(), _threads=threading.local(), _isolated=False)

    def isolate(self, threads: bool) -> None:
        """Let each thread be a process of its own, or all of them one."""
        self.__dict__.update(_isolated=threads, _threads=threading.local())

    def _mine(self) -> State:
        if not self._isolated:
            return self._whole
        if not hasattr(self._threads, "state"):
            self._threads.state = State()
        return self._threads.state

    def default_group(self) -> ProcessGroup | None:
        """The group of all ranks; every collective asks, and a method is found much sooner than a name."""
        return self._mine().default if self._isolated else self._whole.default

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._mine(), name, value)

    def reset(self) -> None:
        """Be as before the start."""
        State.__init__(self._mine())
