"""`elastic_launch`: run a function or a program as the workers of a job.

Takes: a `LaunchConfig`. Gives: what the function gave on each worker of this machine, by its rank.
Keeps true: workers that failed for good are a `ChildFailedError` that shows the first failure; when this
returns or raises, no worker of this machine runs.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from facula.core.logs import get_logger
from facula.distributed.elastic.agent.server import LocalElasticAgent, WorkerSpec
from facula.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs
from facula.distributed.elastic.multiprocessing.api import SIGNALS, handled
from facula.distributed.elastic.multiprocessing.errors import ChildFailedError
from facula.distributed.elastic.rendezvous import RendezvousParameters
from facula.distributed.elastic.rendezvous.registry import get_rendezvous_handler

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How a job is run.

    Args:
        min_nodes: how many machines must take part
        max_nodes: how many may
        nproc_per_node: workers on each
        logs_specs: where output goes; None for the console
        run_id: the name of the job, the same on all machines; nothing for a new one
        role: the name of the workers
        rdzv_endpoint: where agents meet: `address:port`
        rdzv_backend: how they meet: `c10d` or `static`
        rdzv_configs: more about that
        rdzv_timeout: seconds for which machines are waited for; -1 for the backend's
        max_restarts: how often workers are started again
        monitor_interval: seconds between looks at them
        start_method: how functions get processes
        log_line_prefix_template: stands before lines on the console
        metrics_cfg: kept for PyTorch's programs
        local_addr: this machine's address; None to find it
        event_log_handler: where events go
        numa_options: kept for PyTorch's programs
        signals_to_handle: signals that end the job
        duplicate_stdout_filters: lines with one of these texts go to a common file too
        duplicate_stderr_filters: the same for the error output
        virtual_local_rank: whether each worker is told that it is number 0
        shutdown_timeout: seconds that workers have to end when they are told to

    Example:
        >>> from facula.distributed.launcher import LaunchConfig
        >>> LaunchConfig(1, 2, 4).max_restarts
        3
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = SIGNALS
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        """Fill in what depends on other fields."""
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()


class elastic_launch:  # noqa: N801 - PyTorch's name
    """A job: called with the arguments of the function or program, it runs it.

    Args:
        config: how it is run
        entrypoint: a function that a module holds, or the name of a program; None for Python

    Raises:
        ChildFailedError: workers failed for good (when it is called).

    Example:
        >>> from facula.distributed.launcher import LaunchConfig, elastic_launch
        >>> config = LaunchConfig(1, 1, 2, rdzv_endpoint="localhost:0")
        >>> elastic_launch(config, "/bin/true")()
        {}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        """Run it; gives what functions gave, by rank."""
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> dict[int, Any]:
    """Run the workers of this machine until they end.

    Args:
        config: how the job is run
        entrypoint: a function that a module holds, or the name of a program; None for Python
        args: its arguments

    Raises:
        ChildFailedError: workers failed for good.
        SignalException: a signal ended this agent; its workers got the same.

    Example:
        >>> from facula.distributed.launcher import LaunchConfig, launch_agent
        >>> launch_agent(LaunchConfig(1, 1, 1, rdzv_endpoint="localhost:0"), "/bin/true", [])
        {}
    """
    run_id = config.run_id or uuid.uuid4().hex
    parameters = RendezvousParameters(
        config.rdzv_backend, config.rdzv_endpoint, run_id, config.min_nodes, config.max_nodes,
        config.local_addr, **config.rdzv_configs,
    )  # fmt: skip
    specs = config.logs_specs or DefaultLogsSpecs()
    with handled(config.signals_to_handle):
        spec = WorkerSpec(
            config.role, config.nproc_per_node, get_rendezvous_handler(parameters),
            entrypoint=entrypoint or sys.executable, args=tuple(args), max_restarts=config.max_restarts,
            monitor_interval=config.monitor_interval, local_addr=config.local_addr,
            event_log_handler=config.event_log_handler, virtual_local_rank=config.virtual_local_rank,
        )  # fmt: skip
        seconds = config.shutdown_timeout
        if seconds is None:
            seconds = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        agent = LocalElasticAgent(
            spec, specs, config.start_method, log_line_prefix_template=config.log_line_prefix_template,
            shutdown_timeout=seconds,
        )  # fmt: skip
        get_logger("distributed").info("job %s: %s", run_id, config)
        result = agent.run()
    if result.is_failed():
        name = spec.get_entrypoint_name()
        if name.startswith("python"):
            name = " ".join([name, *(str(a) for a in args if not str(a).startswith("-"))][:2])
        raise ChildFailedError(name, result.failures)
    return result.return_values
