"""`LocalElasticAgent`: workers are processes of this machine.

Takes: a `WorkerSpec` and where output goes. Gives: an agent.
Keeps true: workers are told their numbers, and where they meet, by the environment variables of `torchrun`.
"""

from __future__ import annotations

import os
import secrets
import string
import tempfile
import uuid
from signal import Signals
from typing import Any

from facula.core.errors import fail
from facula.distributed.elastic.agent.server.api import (
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from facula.distributed.elastic.multiprocessing import LogsSpecs, PContext, start_processes
from facula.distributed.elastic.timer import FileTimerServer
from facula.distributed.elastic.utils import macros

__all__ = ["LocalElasticAgent"]


#: whether agents watch the timers of their workers ("1"), and the pipe by which these are taken
TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"


class LocalElasticAgent(SimpleElasticAgent):
    """Runs workers as processes of this machine.

    Args:
        spec: what is run
        logs_specs: where output goes
        start_method: how functions get processes: `spawn`, `fork` or `forkserver`
        exit_barrier_timeout: seconds that the agents of a job that succeeded wait for each other
        log_line_prefix_template: stands before lines on the console: `${role_name}`, `${local_rank}` and
            `${rank}` in it are replaced
        shutdown_timeout: seconds that workers have to end when they are told to

    Example:
        >>> import os
        >>> from facula.distributed.elastic.agent.server import LocalElasticAgent, WorkerSpec
        >>> from facula.distributed.elastic.multiprocessing import DefaultLogsSpecs
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> from facula.distributed.elastic.rendezvous import rendezvous_handler_registry as registry
        >>> handler = registry.create_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
        >>> spec = WorkerSpec("trainer", 2, handler, entrypoint="/bin/true")
        >>> LocalElasticAgent(spec, DefaultLogsSpecs(os.devnull)).run().state.name
        'SUCCEEDED'
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs_specs: LogsSpecs,
        start_method: str = "spawn",
        exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None,
        shutdown_timeout: int = 30,
    ) -> None:
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        self._logs_specs, self._start_method = logs_specs, start_method
        self._prefix = log_line_prefix_template
        self._context: PContext | None = None
        self._timers: FileTimerServer | None = None
        self._starts = 0

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec = worker_group.spec
        secret = self._secret(worker_group)
        watched = self._watched(spec.rdzv_handler.get_run_id())
        environments = {
            worker.local_rank: self._environment(worker_group, worker, secret) | watched
            for worker in worker_group.workers
        }
        self._starts += 1
        arguments = {
            worker.local_rank: tuple(macros.substituted(spec.args, worker.local_rank))
            for worker in worker_group.workers
        }
        prefixes = None
        if self._prefix is not None:
            template = string.Template(self._prefix)
            prefixes = {
                worker.local_rank: template.safe_substitute(
                    role_name=spec.role, rank=worker.global_rank, local_rank=worker.local_rank
                )
                for worker in worker_group.workers
            }
        entrypoint = spec.entrypoint
        if entrypoint is None:
            fail(ValueError, "LocalElasticAgent", "an entrypoint was required", "none",
                 hint="pass a function, or the name of a program, to WorkerSpec")  # fmt: skip
        self._context = start_processes(
            spec.role, entrypoint, arguments, environments, self._logs_specs, prefixes, self._start_method
        )  # fmt: skip
        return self._context.pids()

    def _watched(self, job: str) -> dict[str, str]:
        """Where workers take timers, if the environment asks for them; a server for them runs then."""
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) != "1":
            return {}
        self._stop_timers()
        path = os.environ.get(TORCHELASTIC_TIMER_FILE)
        if not path:
            path = os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
        self._timers = FileTimerServer(path, job, max_interval=0.1)
        self._timers.start()
        return {TORCHELASTIC_TIMER_FILE: path}

    def _stop_timers(self) -> None:
        timers, self._timers = self._timers, None
        if timers is not None:
            timers.stop()

    def _secret(self, group: WorkerGroup) -> str:
        """What workers prove to each other; machine 0 makes one for all, and tells the other agents."""
        if group.group_rank == 0:
            known = os.environ.get("FACULA_STORE_SECRET") or secrets.token_hex(32)
            group.store.set("secret", known)
        return str(group.store.get("secret").decode())

    def _environment(self, group: WorkerGroup, worker: Worker, secret: str) -> dict[str, str]:
        spec, local = group.spec, worker.local_rank
        shared = spec.rdzv_handler.use_agent_store
        count = spec.local_world_size
        made = {
            "LOCAL_RANK": str(0 if spec.virtual_local_rank else local),
            "RANK": str(worker.global_rank),
            "GROUP_RANK": str(group.group_rank),
            "ROLE_RANK": str(worker.role_rank),
            "ROLE_NAME": spec.role,
            "LOCAL_WORLD_SIZE": str(count),
            "WORLD_SIZE": str(worker.world_size),
            "GROUP_WORLD_SIZE": str(group.group_world_size),
            "ROLE_WORLD_SIZE": str(worker.role_world_size),
            "MASTER_ADDR": str(group.master_addr),
            "MASTER_PORT": str(group.master_port),
            "TORCHELASTIC_RESTART_COUNT": str(spec.max_restarts - self._remaining_restarts),
            "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts),
            "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": str(shared),
        }
        if shared:
            made["FACULA_STORE_PREFIX"] = group.store.path_of("workers")
        else:
            made["FACULA_STORE_SECRET"] = secret
        if count > 1:
            made["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
        if spec.virtual_local_rank and count > 1:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
            made["CUDA_VISIBLE_DEVICES"] = visible.split(",")[local] if visible else ""
        return made

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        context = self._context
        if context is None:
            return RunResult(WorkerState.UNKNOWN)
        found = context.wait(0)
        if found is None:
            return RunResult(WorkerState.HEALTHY)
        ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
        if found.is_failed():
            for number, failure in found.failures.items():
                self._log.error(
                    "rank %d (local %d, process %d) failed with %s: %s", ranks[number], number, failure.pid,
                    failure.exitcode, failure.text(),
                )  # fmt: skip
            failures = {ranks[number]: one for number, one in found.failures.items()}
            return RunResult(WorkerState.FAILED, failures=failures)
        values = {ranks[number]: value for number, value in found.return_values.items()}
        return RunResult(WorkerState.SUCCEEDED, return_values=values)

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown()

    def _shutdown(self, death_sig: Signals = Signals.SIGTERM) -> None:
        self._stop_timers()
        if self._context is not None:
            self._context.close(death_sig, self._shutdown_timeout)
            self._context.forget()
