"""Numbers that calls are made with where nobody says others."""

from __future__ import annotations

from facula.distributed.rpc.options import DEFAULT_TIMEOUT
from facula.distributed.rpc.requests import UNSET_TIMEOUT

__all__: list[str] = []

DEFAULT_RPC_TIMEOUT_SEC = DEFAULT_TIMEOUT
DEFAULT_INIT_METHOD = "env://"
#: as long as it takes
DEFAULT_SHUTDOWN_TIMEOUT = 0
DEFAULT_NUM_WORKER_THREADS = 16
UNSET_RPC_TIMEOUT = UNSET_TIMEOUT
