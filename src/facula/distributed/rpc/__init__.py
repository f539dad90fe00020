"""Calls of functions in other processes, over gRPC (`pip install facula[rpc]`).

Takes: the names that workers go by. Gives: PyTorch's `torch.distributed.rpc`.
Keeps true: importing this opens nothing and imports no gRPC; `is_available` says whether it is there.
"""

from __future__ import annotations

import importlib.util

from facula.distributed import world
from facula.distributed.rpc import functions
from facula.distributed.rpc.api import (
    _all_gather,
    _is_current_rpc_agent_set,
    _set_rpc_timeout,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    shutdown,
)
from facula.distributed.rpc.calls import rpc_async, rpc_sync, wait_all
from facula.distributed.rpc.options import (
    BackendType,
    RpcBackendOptions,
    TensorPipeRpcBackendOptions,
    WorkerInfo,
)
from facula.distributed.rpc.rref import RRef, remote

__all__ = [
    "BackendType", "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo",
    "functions", "get_rpc_timeout", "get_worker_info", "init_rpc", "is_available", "remote",
    "rpc_async", "rpc_sync", "shutdown", "wait_all", "_all_gather", "_is_current_rpc_agent_set",
    "_set_rpc_timeout",
]  # fmt: skip


def is_available() -> bool:
    """Whether there are remote procedure calls: there may be several processes, and gRPC is installed."""
    return world.is_available() and importlib.util.find_spec("grpc") is not None
