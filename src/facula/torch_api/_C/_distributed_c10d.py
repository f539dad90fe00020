"""Groups, stores and options under the name of PyTorch's extension module.

Takes: nothing. Gives: the classes of `facula.distributed`.
Keeps true: re-exports; what facula has no counterpart for is absent.
"""

from __future__ import annotations

from facula.distributed.buckets import GradBucket, Reducer
from facula.distributed.debugging import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from facula.distributed.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from facula.distributed.options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from facula.distributed.process_group import ProcessGroup
from facula.distributed.stores import FileStore, HashStore, PrefixStore, Store
from facula.distributed.tcp_store import TCPStore
from facula.distributed.types import ReduceOp, Work

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
    "BroadcastOptions", "DebugLevel", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "FileStore", "GatherOptions", "GradBucket", "HashStore", "PrefixStore", "ProcessGroup", "ReduceOp",
    "ReduceOptions", "ReduceScatterOptions", "Reducer", "ScatterOptions", "Store", "TCPStore", "Work",
    "get_debug_level", "set_debug_level", "set_debug_level_from_env",
]  # fmt: skip
