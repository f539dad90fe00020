"""Remote calls under the name of PyTorch's extension module.

Takes: nothing. Gives: what libraries ask there.
Keeps true: nothing is kept here.
"""

from __future__ import annotations

from facula.distributed.rpc.options import TensorPipeRpcBackendOptions, WorkerInfo
from facula.distributed.rpc.requests import STATE
from facula.distributed.rpc.rref import RRef as PyRRef

__all__ = ["PyRRef", "TensorPipeRpcBackendOptions", "WorkerInfo"]


def _is_current_rpc_agent_set() -> bool:
    """Whether this process takes part in remote calls (`init_rpc` was called, and not `shutdown`)."""
    return STATE.agent is not None
