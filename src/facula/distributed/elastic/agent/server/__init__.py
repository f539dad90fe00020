"""Agents: who starts and watches the workers of a machine."""

from __future__ import annotations

from facula.distributed.elastic.agent.server.api import (
    ElasticAgent,
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from facula.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

__all__ = [
    "ElasticAgent",
    "LocalElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]
