"""Groups, stores and options under the name of PyTorch's extension module.

Takes: nothing. Gives: the classes of `facula.distributed`.
Keeps true: re-exports; what facula has no counterpart for is absent.
"""

from __future__ import annotations

from facula.distributed.buckets import GradBucket, Reducer
from facula.distributed.c10d_names import (
    _DEFAULT_FIRST_BUCKET_BYTES,
    _DEFAULT_NO_TIMEOUT,
    _DEFAULT_PG_TIMEOUT,
    BuiltinCommHookType,
    ErrorType,
    OpType,
    WorkResult,
    _compute_bucket_assignment_by_size,
    _create_work_from_future,
    _get_work_registry_size,
    _register_process_group,
    _set_thread_isolation_mode,
)
from facula.distributed.debugging import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from facula.distributed.distributed_c10d import _resolve_process_group
from facula.distributed.engine import Rendezvous as _DistributedBackendOptions
from facula.distributed.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from facula.distributed.gloo_group import FakeProcessGroup, ProcessGroupGloo
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
from facula.distributed.utils import (
    _verify_param_shape_across_processes as _verify_params_across_processes,
)

#: what programs derive engines of groups from: a group's methods are the same
Backend = ProcessGroup

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "ErrorType",
    "FakeProcessGroup",
    "FileStore",
    "GatherOptions",
    "GradBucket",
    "HashStore",
    "OpType",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "Reducer",
    "ScatterOptions",
    "Store",
    "TCPStore",
    "Work",
    "WorkResult",
    "_DEFAULT_FIRST_BUCKET_BYTES",
    "_DEFAULT_NO_TIMEOUT",
    "_DEFAULT_PG_TIMEOUT",
    "_DistributedBackendOptions",
    "_compute_bucket_assignment_by_size",
    "_create_work_from_future",
    "_get_work_registry_size",
    "_register_process_group",
    "_resolve_process_group",
    "_set_thread_isolation_mode",
    "_verify_params_across_processes",
    "get_debug_level",
    "set_debug_level",
    "set_debug_level_from_env",
]
