"""What an agent does: meet the others, start workers with their ranks, watch them, start all again.

Takes: a `WorkerSpec`, which says what is run, how often, and how agents meet. Gives: `SimpleElasticAgent`,
whose subclasses say how workers are started and watched.
Keeps true: a worker that fails restarts the workers of all machines, at most `max_restarts` times for this
one; a machine that comes restarts them without counting; when this agent ends, so have its workers.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from signal import Signals
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.elastic import events
from facula.distributed.elastic.multiprocessing import ProcessFailure, SignalException
from facula.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo
from facula.distributed.errors import DistError
from facula.distributed.stores import of_every_rank

__all__ = [
    "ElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]


@dataclass
class WorkerSpec:
    """What an agent runs.

    Args:
        role: a name of the workers, which jobs of several kinds tell apart
        local_world_size: how many workers this machine has
        rdzv_handler: how agents meet
        fn: the older name of `entrypoint`
        entrypoint: a program, or a function
        args: its arguments; `macros` stand for numbers
        max_restarts: how often workers are started again
        monitor_interval: seconds between looks at them
        master_port: the port of their store; None for the agents' choice
        master_addr: the address of their store; None for the agents' choice
        local_addr: this machine's address; None to find it
        event_log_handler: where events go
        virtual_local_rank: whether each worker is told that it is number 0

    Example:
        >>> from facula.distributed.elastic.agent.server import WorkerSpec
        >>> WorkerSpec("trainer", 2, None, entrypoint="/bin/true").get_entrypoint_name()
        'true'
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler | Any
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    virtual_local_rank: bool = False

    def __post_init__(self) -> None:
        """Look at the numbers."""
        if self.local_world_size < 1 or self.monitor_interval <= 0:
            fail(
                ValueError,
                "WorkerSpec",
                "at least one worker, and a monitor_interval above 0, were required",
                f"local_world_size={self.local_world_size}, monitor_interval={self.monitor_interval}",
                hint="--nproc-per-node=1 --monitor-interval=0.1",
            )
        self.entrypoint = self.entrypoint or self.fn
        if self.entrypoint is None:
            fail(ValueError, "WorkerSpec", "an entrypoint was required", "none",
                 hint="pass a function, or the name of a program")  # fmt: skip

    def get_entrypoint_name(self) -> str:
        """The name of what is run."""
        if isinstance(self.entrypoint, str):
            return self.entrypoint.rpartition("/")[2]
        return str(getattr(self.entrypoint, "__qualname__", self.entrypoint))


@dataclass
class Worker:
    """A worker of this machine.

    Args:
        local_rank: its number on this machine
        global_rank: its number in the world
        role_rank: its number among those of its role
        world_size: how many workers there are
        role_world_size: how many of its role

    Example:
        >>> from facula.distributed.elastic.agent.server import Worker
        >>> Worker(0).global_rank
        -1
    """

    local_rank: int
    global_rank: int = -1
    role_rank: int = -1
    world_size: int = -1
    role_world_size: int = -1
    #: its process, once it was started
    id: Any = None


class WorkerState(StrEnum):
    """How the workers of a machine are.

    Example:
        >>> from facula.distributed.elastic.agent.server import WorkerState
        >>> WorkerState.is_running(WorkerState.HEALTHY)
        True
    """

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Whether there are processes."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of a machine, and what they are told.

    Args:
        spec: what is run

    Example:
        >>> from facula.distributed.elastic.agent.server import WorkerGroup, WorkerSpec
        >>> len(WorkerGroup(WorkerSpec("trainer", 2, None, entrypoint="/bin/true")).workers)
        2
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.workers = [Worker(rank) for rank in range(spec.local_world_size)]
        self.store: Any = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None
        self.state = WorkerState.INIT


@dataclass
class RunResult:
    """How workers ended: what functions gave, and who failed, by rank in the world.

    Args:
        state: how they are
        return_values: what functions gave
        failures: who failed

    Example:
        >>> from facula.distributed.elastic.agent.server import RunResult, WorkerState
        >>> RunResult(WorkerState.SUCCEEDED).is_failed()
        False
    """

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether a worker failed for good."""
        return self.state == WorkerState.FAILED


class ElasticAgent(ABC):
    """Starts and watches the workers of a machine.

    Example:
        >>> from facula.distributed.elastic.agent.server import ElasticAgent
        >>> sorted(ElasticAgent.__abstractmethods__)
        ['get_worker_group', 'run']
    """

    @abstractmethod
    def run(self, role: str = "default") -> RunResult:
        """Run the workers until they end."""

    @abstractmethod
    def get_worker_group(self, role: str = "default") -> WorkerGroup:
        """The workers; what is changed in it changes nothing."""


class SimpleElasticAgent(ElasticAgent):
    """An agent of workers of one role; a subclass says how they are started and watched.

    Args:
        spec: what is run
        exit_barrier_timeout: seconds that the agents of a job that succeeded wait for each other
        shutdown_timeout: seconds that workers have to end when they are told to

    Example:
        >>> from facula.distributed.elastic.agent.server import ElasticAgent, SimpleElasticAgent
        >>> issubclass(SimpleElasticAgent, ElasticAgent)
        True
    """

    def __init__(
        self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: int = 30
    ) -> None:
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts = spec.max_restarts
        self._exit_barrier_timeout = exit_barrier_timeout
        self._shutdown_timeout = shutdown_timeout
        self._log = get_logger("distributed")

    def get_worker_group(self, role: str = "default") -> WorkerGroup:
        """The workers."""
        return self._worker_group

    # ---------------------------------------------------------------- what subclasses say

    @abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start them; gives their processes by the number on this machine."""

    @abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """End them."""

    @abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """How they are now."""

    @abstractmethod
    def _shutdown(self, death_sig: Signals = Signals.SIGTERM) -> None:
        """End them by a signal, and let go of everything."""

    # ---------------------------------------------------------------- ranks

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Meet the other agents, and number the workers."""
        spec = worker_group.spec
        info: RendezvousInfo = spec.rdzv_handler.next_rendezvous()
        worker_group.store = info.store
        worker_group.group_rank, worker_group.group_world_size = info.rank, info.world_size
        found = info.bootstrap_store_info
        worker_group.master_addr = spec.master_addr or found.master_addr
        worker_group.master_port = spec.master_port or found.master_port
        worker_group.workers = self._assign_worker_ranks(
            info.store, info.rank, info.world_size, spec
        )

    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        """Workers with their numbers: those of a machine follow each other."""
        store.set(f"role/{group_rank}", json.dumps([spec.role, spec.local_world_size]))
        told = of_every_rank(store, "role", group_world_size, "elastic agent", "machine")
        roles = [(str(role), int(count)) for role, count in map(json.loads, told)]
        before = sum(count for _, count in roles[:group_rank])
        same = sum(count for role, count in roles[:group_rank] if role == spec.role)
        world = sum(count for _, count in roles)
        of_role = sum(count for role, count in roles if role == spec.role)
        return [
            Worker(local, before + local, same + local, world, of_role)
            for local in range(spec.local_world_size)
        ]

    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        """Meet the other agents, and start the workers."""
        self._rendezvous(worker_group)
        for number, process in self._start_workers(worker_group).items():
            worker_group.workers[number].id = process
        worker_group.state = WorkerState.HEALTHY

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """End the workers, and start them with those of all machines."""
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    # ---------------------------------------------------------------- the run

    def run(self, role: str = "default") -> RunResult:
        """Run the workers until they end, for good or well.

        Raises:
            SignalException: a signal ended this agent; its workers got the same.
        """
        signal: Signals | None = None
        handler = self._worker_group.spec.rdzv_handler
        try:
            return self._invoke_run(role)
        except SignalException as error:
            signal = error.sigval
            raise
        finally:
            self._shutdown(signal or Signals.SIGTERM)
            if self._worker_group.state not in (WorkerState.SUCCEEDED, WorkerState.FAILED):
                self._worker_group.state = WorkerState.STOPPED
            if signal is None:
                handler.shutdown()
            else:  # this machine goes, and the job goes on where it can
                handler.leave()

    def _invoke_run(self, role: str = "default") -> RunResult:
        spec, group = self._worker_group.spec, self._worker_group
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            if result.state == WorkerState.SUCCEEDED:
                self._tell("succeeded", result)
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                self._tell("failed", result)
                if self._remaining_restarts <= 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return RunResult(WorkerState.FAILED, failures=result.failures)
                self._remaining_restarts -= 1
                self._log.warning("workers failed: %d restarts are left", self._remaining_restarts)
                self._restart_workers(group)
            elif self._others_wait():
                self._log.warning("machines came: all workers are started again")
                self._restart_workers(group)

    def _others_wait(self) -> bool:
        """Whether machines wait to take part."""
        return self._worker_group.spec.rdzv_handler.num_nodes_waiting() > 0

    def _tell(self, what: str, result: RunResult) -> None:
        """Record an event of these workers."""
        group = self._worker_group
        metadata: dict[str, Any] = {
            "run_id": group.spec.rdzv_handler.get_run_id(),
            "group_rank": group.group_rank,
            "role": group.spec.role,
            "failed_ranks": json.dumps(sorted(result.failures)),
            "remaining_restarts": self._remaining_restarts,
        }
        event = events.Event(what, events.EventSource.AGENT, metadata=metadata)
        events.record(event, group.spec.event_log_handler)

    def _exit_barrier(self) -> None:
        """Wait until the workers of all machines have ended: the store goes with its agent."""
        group = self._worker_group
        began = time.monotonic()
        try:
            group.store.set(f"ended/{group.group_rank}", b"1")
            group.store.set_timeout(timedelta(seconds=self._exit_barrier_timeout))
            of_every_rank(
                group.store, "ended", group.group_world_size or 1, "elastic agent", "machine"
            )
            group.store.add("left", 1)
            if group.spec.rdzv_handler.use_agent_store and group.group_rank == 0:
                self._wait_for_leaving(min(self._exit_barrier_timeout, 5.0))
        except DistError as error:
            self._log.warning(
                "after %.1f s not all machines have ended: %s", time.monotonic() - began, error
            )

    def _wait_for_leaving(self, seconds: float) -> None:
        """Let the other agents read that all have ended before the store goes."""
        group, end = self._worker_group, time.monotonic() + seconds
        while group.store.add("left", 0) < (group.group_world_size or 1) and time.monotonic() < end:
            time.sleep(0.01)
