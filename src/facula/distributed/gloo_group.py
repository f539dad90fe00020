"""Groups that a program makes by itself, without `init_process_group`: `ProcessGroupGloo(store, rank, size)`.

Takes: a store, a rank and a size. Gives: groups with connections of their own.
Keeps true: the group is none of those that `new_group` counts; it ends its engine when it is closed.
"""

from __future__ import annotations

import datetime
from typing import Any

from facula.core import config
from facula.core.errors import fail
from facula.distributed import engines
from facula.distributed.engine import Alone, Engine, Rendezvous
from facula.distributed.engines.fake import FakeEngine
from facula.distributed.options import Options
from facula.distributed.process_group import ProcessGroup
from facula.distributed.stores import HashStore, PrefixStore, Store, seconds_of

__all__ = ["FakeProcessGroup", "ProcessGroupGloo"]

_TIMEOUT = datetime.timedelta(minutes=30)


class Device:
    """The network that an engine uses, as programs name it."""

    def __init__(self, hostname: str = "", interface: str = "") -> None:
        self.hostname, self.interface = hostname, interface


def _engine(kind: str, store: Store, rank: int, size: int, seconds: float) -> Engine:
    if not 0 <= rank < size:
        fail(ValueError, f"ProcessGroup of {kind}", f"a rank in [0, {size}) was required", rank,
             hint="ranks count from 0")  # fmt: skip
    remote = bool(config.get("allow_remote"))
    address = getattr(store, "local_address", "127.0.0.1")
    met = Rendezvous(PrefixStore(kind, store), rank, size, seconds, address, remote)
    if kind == "fake":
        return FakeEngine(met)
    return Alone(met) if size == 1 else engines.make(kind, met)


class _OfItself(ProcessGroup):
    """A group with an engine that is nobody else's."""

    def __init__(self, kind: str, store: Store, rank: int, size: int, seconds: float) -> None:
        engine = _engine(kind, store, rank, size, seconds)
        super().__init__(engine, range(size), rank, 0, kind, kind, seconds)
        engine.status = lambda number: self.status

    def close(self) -> None:
        """End the thread, and close the connections."""
        super().close()
        self.engine.close()


class ProcessGroupGloo(_OfItself):
    """A group of one machine's processes.

    Args:
        store: where the ranks meet
        rank: which one this is
        size: how many there are
        timeout: how long a collective may take; or options, which have the time
    """

    class _Options(Options):
        """How a group is made: its time and its network."""

        def __init__(self) -> None:
            super().__init__("gloo", _TIMEOUT)
            self._devices: list[Device] = []
            self._threads = 2

    Options = _Options

    def __init__(
        self, store: Store, rank: int, size: int, timeout: Any = _TIMEOUT, options: Any = None
    ) -> None:
        told = options if options is not None else timeout
        self.options = (
            told if isinstance(told, ProcessGroupGloo._Options) else ProcessGroupGloo._Options()
        )
        if not isinstance(told, ProcessGroupGloo._Options):
            self.options._timeout = told
        super().__init__("gloo", store, rank, size, seconds_of(self.options._timeout, 1800.0))

    @staticmethod
    def create_device(
        hostname: str = "", interface: str = "", lazy_init: bool | None = None
    ) -> Device:
        """The network of an address or an interface."""
        return Device(hostname, interface)

    @staticmethod
    def create_default_device(lazy_init: bool | None = None) -> Device:
        """The network that is used where nobody names one."""
        return Device()

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        """Choose how long a collective may take."""
        self.set_timeout(timeout)


class FakeProcessGroup(_OfItself):
    """A group of ranks that are not there (`engines.fake`).

    Args:
        rank: which one this is
        world_size: how many there are
        options: kept for PyTorch's API
    """

    def __init__(self, rank: int, world_size: int, options: Any = None) -> None:
        super().__init__("fake", HashStore(), rank, world_size, 1800.0)

    @classmethod
    def _create_internal(cls, rank: int, world_size: int, options: Any = None) -> FakeProcessGroup:
        """The same."""
        return cls(rank, world_size, options)
