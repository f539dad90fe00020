"""`static`: a fixed number of machines, each of which knows its number.

Takes: the address of machine 0, the number of machines, this machine's number. Gives: `StaticTCPRendezvous`.
Keeps true: a machine that does not come is a time-out that says so; restarts use keys of their own.
"""

from __future__ import annotations

import datetime
from typing import Any

from facula.core.errors import fail
from facula.distributed.elastic.rendezvous.api import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
    parse_rendezvous_endpoint,
)
from facula.distributed.errors import DistError
from facula.distributed.stores import PrefixStore
from facula.distributed.tcp_store import TCPStore

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]

_TIMEOUT = 600


class StaticTCPRendezvous(RendezvousHandler):
    """Machines that know their numbers; machine 0 keeps the store.

    Args:
        master_addr: the address of machine 0
        master_port: a port of machine 0; 0 for any, where there is one machine
        rank: this machine's number
        world_size: how many machines there are
        run_id: the name of the job
        timeout: seconds for which machines are waited for

    Example:
        >>> from facula.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
        >>> handler = StaticTCPRendezvous("127.0.0.1", 0, 0, 1, "job", 10)
        >>> handler.next_rendezvous().world_size
        1
        >>> handler.shutdown()
        True
    """

    def __init__(
        self,
        master_addr: str,
        master_port: int,
        rank: int,
        world_size: int,
        run_id: str,
        timeout: int,
    ) -> None:
        self.master_addr, self.master_port = master_addr, master_port
        self.rank, self.world_size, self.run_id = rank, world_size, run_id
        self.timeout = datetime.timedelta(seconds=timeout)
        self._store: TCPStore | None = None
        self._rounds = 0

    def get_backend(self) -> str:
        """`static`."""
        return "static"

    @property
    def use_agent_store(self) -> bool:
        """Workers use the store of machine 0's agent."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until all machines have come."""
        if self._store is None:
            try:
                self._store = TCPStore(
                    self.master_addr, self.master_port, self.world_size, self.rank == 0, self.timeout,
                    wait_for_workers=False,
                )  # fmt: skip
            except DistError as error:
                raise RendezvousConnectionError(str(error)) from error
            self.master_port = self._store.port
        number, self._rounds = self._rounds, self._rounds + 1
        store = PrefixStore(f"{self.run_id}/{number}", self._store)
        try:
            store.set(f"here/{self.rank}", b"1")
            store.wait([f"here/{r}" for r in range(self.world_size)], self.timeout)
        except DistError as error:
            raise RendezvousTimeoutError(
                f"machine {self.rank} waited for {self.world_size} machines: {error}"
            ) from error
        info = RendezvousStoreInfo(self.master_addr, self.master_port)
        return RendezvousInfo(store, self.rank, self.world_size, info)

    def is_closed(self) -> bool:
        """Nothing closes it."""
        return False

    def set_closed(self) -> None:
        """Nothing closes it."""

    def num_nodes_waiting(self) -> int:
        """Nobody waits: the number of machines is fixed."""
        return 0

    def get_run_id(self) -> str:
        """The name of the job."""
        return self.run_id

    def shutdown(self) -> bool:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None
        return True


def create_rdzv_handler(params: RendezvousParameters) -> RendezvousHandler:
    """A handler of the kind `static`; `rank` is among the parameters.

    Args:
        params: as the launcher made them

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> from facula.distributed.elastic.rendezvous.static_tcp_rendezvous import create_rdzv_handler
        >>> create_rdzv_handler(RendezvousParameters("static", "localhost:0", "job", 1, 1, rank=0)).get_run_id()
        'job'
    """
    rank: Any = params.get_as_int("rank")
    if rank is None or not 0 <= rank < params.max_nodes or params.min_nodes != params.max_nodes:
        fail(
            ValueError,
            "rdzv_backend=static",
            "a fixed number of machines, and this machine's number among them, were required",
            f"machine {rank} of {params.min_nodes}:{params.max_nodes}",
            hint="pass --node-rank, or --rdzv-backend=c10d for numbers that change",
        )
    host, port = parse_rendezvous_endpoint(params.endpoint, 29500)
    timeout = params.get_as_int("timeout", _TIMEOUT) or _TIMEOUT
    return StaticTCPRendezvous(host, port, rank, params.max_nodes, params.run_id, timeout)
