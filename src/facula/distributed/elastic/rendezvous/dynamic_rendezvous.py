"""A rendezvous whose number of machines changes while the job runs.

Takes: a backend that keeps a state which is compared before it is replaced, and a store. Gives:
`DynamicRendezvousHandler`: rounds of between `min_nodes` and `max_nodes` machines.
Keeps true: a round ends when all machines that may come have come, or enough and none for some time more; a
machine that gives no sign of life is taken out; no clocks are compared: each machine looks how long the
others' signs have not changed.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from facula.distributed.elastic.rendezvous.state import State
from facula.distributed.errors import DistError
from facula.distributed.stores import PrefixStore, Store
from facula.distributed.tcp_store import TCPStore

__all__ = [
    "DynamicRendezvousHandler",
    "RendezvousBackend",
    "RendezvousSettings",
    "RendezvousTimeout",
    "create_handler",
]

#: what stands for a state that was read
Token = Any
#: seconds between looks at a state
_PAUSE = 0.1


class RendezvousBackend(ABC):
    """Keeps the state of a rendezvous.

    Example:
        >>> from facula.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend
        >>> sorted(RendezvousBackend.__abstractmethods__)
        ['get_state', 'name', 'set_state']
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kind."""

    @abstractmethod
    def get_state(self) -> tuple[bytes, Token] | None:
        """The state, and what stands for it; None before there is one."""

    @abstractmethod
    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Replace the state that `token` stands for; gives the one that stands, and whether it is the new."""


class RendezvousTimeout:
    """How long agents wait for each other.

    Args:
        join: until a round is complete
        last_call: for more machines, when enough have come
        close: until the job is closed
        heartbeat: for an answer to a sign of life

    Raises:
        ValueError: a time is not above 0.

    Example:
        >>> from datetime import timedelta
        >>> from facula.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousTimeout
        >>> RendezvousTimeout(join=timedelta(seconds=5)).join.total_seconds()
        5.0
    """

    def __init__(
        self,
        join: timedelta | None = None,
        last_call: timedelta | None = None,
        close: timedelta | None = None,
        heartbeat: timedelta | None = None,
    ) -> None:
        self.join = join or timedelta(seconds=600)
        self.last_call = last_call or timedelta(seconds=30)
        self.close = close or timedelta(seconds=30)
        self.heartbeat = heartbeat or timedelta(seconds=5)
        for given in (join, last_call, close, heartbeat):
            if given is not None and given <= timedelta(0):
                fail(ValueError, "RendezvousTimeout", "times above 0 were required", given,
                     hint="for example datetime.timedelta(seconds=30)")  # fmt: skip


@dataclass(frozen=True)
class RendezvousSettings:
    """What a rendezvous is told.

    Args:
        run_id: the name of the job
        min_nodes: how many machines must come
        max_nodes: how many may come
        timeout: how long agents wait
        keep_alive_interval: time between signs of life
        keep_alive_max_attempt: how many may be missing before a machine counts as away

    Example:
        >>> from datetime import timedelta
        >>> from facula.distributed.elastic.rendezvous import dynamic_rendezvous as dynamic
        >>> limits = dynamic.RendezvousTimeout()
        >>> dynamic.RendezvousSettings("job", 1, 2, limits, timedelta(seconds=5), 3).max_nodes
        2
    """

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: timedelta
    keep_alive_max_attempt: int


class DynamicRendezvousHandler(RendezvousHandler):
    """Rounds of between `min_nodes` and `max_nodes` machines.

    Args:
        node: the name of this machine's agent
        settings: what the rendezvous is told
        backend: keeps its state
        store: for what agents and workers tell each other
        local_addr: this machine's address; None to find it

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> from facula.distributed.elastic.rendezvous import rendezvous_handler_registry as registry
        >>> handler = registry.create_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
        >>> handler.next_rendezvous().world_size, handler.num_nodes_waiting()
        (1, 0)
        >>> handler.shutdown()
        True
    """

    def __init__(
        self,
        node: str,
        settings: RendezvousSettings,
        backend: RendezvousBackend,
        store: Store,
        local_addr: str | None = None,
    ) -> None:
        self.node, self.settings = node, settings
        self._backend, self._store, self._local_addr = backend, store, local_addr
        self._log = get_logger("distributed")
        #: by machine: its last sign of life, and when it was seen here
        self._seen: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def from_backend(
        cls,
        run_id: str,
        store: Store,
        backend: RendezvousBackend,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        timeout: RendezvousTimeout | None = None,
        keep_alive_interval: int = 5,
        keep_alive_max_attempt: int = 3,
    ) -> DynamicRendezvousHandler:
        """A handler of this machine's agent."""
        address = local_addr or socket.gethostname()
        node = f"{address}_{os.getpid()}_{secrets.token_hex(4)}"
        settings = RendezvousSettings(
            run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(),
            timedelta(seconds=keep_alive_interval), keep_alive_max_attempt,
        )  # fmt: skip
        return cls(node, settings, backend, store, local_addr)

    # ---------------------------------------------------------------- the state

    def _sync(self, change: Callable[[State], None]) -> State:
        """Apply a change to the state that stands; it may be applied to several until one holds."""
        with self._lock:
            for _ in range(10_000):
                got = self._backend.get_state()
                data, token = (b"", None) if got is None else got
                state = State.read(data) if data else State()
                before = state.written()
                self._bury(state)
                change(state)
                after = state.written()
                if after == before and data:
                    return state
                kept = self._backend.set_state(after, token)
                if kept is not None and kept[2]:
                    return state
            raise RendezvousStateError(
                "the state of the rendezvous changes faster than it can be replaced"
            )

    def _bury(self, state: State) -> None:
        """Take out machines that have given no sign of life for too long, as seen from here."""
        now, settings = time.monotonic(), self.settings
        limit = settings.keep_alive_interval.total_seconds() * settings.keep_alive_max_attempt
        for node, count in list(state.beats.items()):
            seen = self._seen.get(node)
            if seen is None or seen[0] != count:
                self._seen[node] = (count, now)
            elif now - seen[1] > limit and node != self.node:
                self._log.warning("%s gave no sign of life for %g s", node, limit)
                state.leave(node)

    # ---------------------------------------------------------------- rounds

    def get_backend(self) -> str:
        """The name of the kind."""
        return self._backend.name

    @property
    def use_agent_store(self) -> bool:
        """Workers use the store by which agents meet, where it has an address."""
        return isinstance(self._store, TCPStore)

    def next_rendezvous(self) -> RendezvousInfo:
        """Leave the round, and wait until the next is complete."""
        self._stop_heartbeats()
        self._sync(lambda state: state.leave(self.node))
        state = self._join()
        self._start_heartbeats()
        rank, size = state.participants[self.node], len(state.participants)
        store = PrefixStore(f"facula.rendezvous.{self.settings.run_id}.{state.round}", self._store)
        try:
            info = self._bootstrap(rank, store)
        except DistError as error:
            raise RendezvousConnectionError(str(error)) from error
        self._log.info("round %d: machine %d of %d", state.round, rank, size)
        return RendezvousInfo(store, rank, size, info)

    def _bootstrap(self, rank: int, store: Store) -> RendezvousStoreInfo:
        """Where workers find their store."""
        shared = self._store
        if isinstance(shared, TCPStore):
            return RendezvousStoreInfo(shared.host, shared.port)
        return RendezvousStoreInfo.build(rank, store, self._local_addr)

    def _join(self) -> State:
        settings = self.settings
        limit = settings.timeout.join.total_seconds()
        end, enough, beaten = time.monotonic() + limit, float("inf"), 0.0
        while True:
            now = time.monotonic()
            beat = now - beaten > settings.keep_alive_interval.total_seconds() / 2
            over = now >= enough + settings.timeout.last_call.total_seconds()
            state = self._sync(lambda state, b=beat, o=over: self._come(state, b, o))  # type: ignore[misc]
            beaten = now if beat else beaten
            if state.complete and self.node in state.participants:
                return state
            if state.closed:
                raise RendezvousClosedError(f"the job {settings.run_id!r} is over")
            here = len(state.participants)
            fits = not state.complete and here >= settings.min_nodes
            enough = min(enough, now) if fits else float("inf")
            if now >= end:
                self._sync(lambda state: state.leave(self.node))
                raise RendezvousTimeoutError(
                    f"{settings.min_nodes} machines were required within {limit:g} s: got {here}, and "
                    f"round {state.round} is {'complete' if state.complete else 'open'}"
                )
            time.sleep(_PAUSE)

    def _come(self, state: State, beat: bool, over: bool) -> None:
        """Take part if there is room; end the round if all are there, or no more are waited for."""
        if state.closed:
            return
        state.join(self.node, self.settings.max_nodes)
        if beat or self.node not in state.beats:
            state.beat(self.node)
        if state.complete or self.node not in state.participants:
            return
        here = len(state.participants)
        if here == self.settings.max_nodes or (over and here >= self.settings.min_nodes):
            state.finish()

    # ---------------------------------------------------------------- signs of life

    def _start_heartbeats(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._beat, args=(self._stopped,), name="facula-rendezvous", daemon=True
        )
        self._thread.start()

    def _beat(self, stopped: threading.Event) -> None:
        while not stopped.wait(self.settings.keep_alive_interval.total_seconds()):
            try:
                self._sync(self._live)
            except RendezvousError as error:
                self._log.warning("no sign of life could be given: %s", error)

    def _live(self, state: State) -> None:
        if self.node in state.participants:
            state.beat(self.node)

    def _stop_heartbeats(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self.settings.timeout.heartbeat.total_seconds())
            self._thread = None

    # ---------------------------------------------------------------- the end

    def is_closed(self) -> bool:
        """Whether the job is over."""
        return self._sync(lambda state: None).closed

    def set_closed(self) -> None:
        """Say that the job is over."""

        def close(state: State) -> None:
            state.closed = True

        self._sync(close)

    def num_nodes_waiting(self) -> int:
        """How many machines wait to take part."""
        return len(self._sync(lambda state: None).waiting)

    def get_run_id(self) -> str:
        """The name of the job."""
        return self.settings.run_id

    def shutdown(self) -> bool:
        """Close the job, and leave."""

        def close(state: State) -> None:
            state.leave(self.node)
            state.closed = True

        return self._end(close)

    def leave(self) -> None:
        """Leave a job that goes on without this machine."""
        self._end(lambda state: state.leave(self.node))

    def _end(self, change: Callable[[State], None]) -> bool:
        self._stop_heartbeats()
        try:
            self._sync(change)
        except RendezvousError as error:
            self._log.warning("the others could not be told that this machine leaves: %s", error)
            return False
        finally:
            if isinstance(self._store, TCPStore):
                self._store.close()
        return True


def _time(params: RendezvousParameters, key: str) -> timedelta | None:
    seconds = params.get_as_int(key)
    return None if seconds is None else timedelta(seconds=seconds)


def create_handler(
    store: Store, backend: RendezvousBackend, params: RendezvousParameters
) -> DynamicRendezvousHandler:
    """A handler as parameters ask for it: `join_timeout`, `last_call_timeout`, `close_timeout`, `heartbeat`,
    `keep_alive_interval` and `keep_alive_max_attempt` are among them.

    Args:
        store: for what agents and workers tell each other
        backend: keeps the state
        params: as the launcher made them

    Example:
        >>> from facula.distributed import HashStore
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> from facula.distributed.elastic.rendezvous.c10d_rendezvous_backend import (
        ...     C10dRendezvousBackend,
        ... )
        >>> from facula.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
        >>> backend = C10dRendezvousBackend(HashStore(), "job")
        >>> create_handler(HashStore(), backend, RendezvousParameters("c10d", "", "job", 1, 2)).get_run_id()
        'job'
    """
    timeout = RendezvousTimeout(
        _time(params, "join_timeout") or _time(params, "timeout"), _time(params, "last_call_timeout"),
        _time(params, "close_timeout"), _time(params, "heartbeat"),
    )  # fmt: skip
    return DynamicRendezvousHandler.from_backend(
        params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, timeout,
        params.get_as_int("keep_alive_interval", 5) or 5,
        params.get_as_int("keep_alive_max_attempt", 3) or 3,
    )  # fmt: skip
