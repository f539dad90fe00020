"""Many processes that work together: groups, collectives, messages, data-parallel training.

Takes: processes that know each other's store (`env://`, `tcp://`, `file://`). Gives: PyTorch's
`torch.distributed`, on a transport over TCP.
Keeps true: importing this opens nothing; a collective that can not end names the rank that is missing.
"""

from __future__ import annotations

import importlib

from facula.core.errors import no_attribute as _no_attribute
from facula.distributed.debugging import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from facula.distributed.engines import Backend
from facula.distributed.errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from facula.distributed.group_calls import allreduce as _allreduce  # noqa: F401 - groups have their methods from it
from facula.distributed.messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from facula.distributed.object_operations import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from facula.distributed.operations import (
    _all_gather_base,
    _reduce_scatter_base,
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from facula.distributed.process_group import ProcessGroup
from facula.distributed.rendezvous import register_rendezvous_handler, rendezvous
from facula.distributed.stores import FileStore, HashStore, PrefixStore, Store
from facula.distributed.tcp_store import TCPStore
from facula.distributed.types import ReduceOp, Work, reduce_op
from facula.distributed.world import (
    GroupMember,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)

_LATER = (
    "_composable",
    "_shard",
    "algorithms",
    "argparse_util",
    "autograd",
    "checkpoint",
    "collective_utils",
    "constants",
    "data_parallel",
    "device_mesh",
    "distributed_c10d",
    "elastic",
    "fsdp",
    "launch",
    "launcher",
    "nn",
    "optim",
    "pipeline",
    "pipelining",
    "remote_device",
    "rpc",
    "run",
    "tensor",
    "utils",
)
#: what PyTorch's module of groups has, and this one under the same names
_OF_GROUPS = (
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BackendConfig",
    "BarrierOptions", "BroadcastOptions", "BuiltinCommHookType", "GatherOptions", "GradBucket", "ProcessGroupGloo",
    "ReduceOptions", "ReduceScatterOptions", "Reducer", "ScatterOptions", "_Work", "_coalescing_manager",
    "_compute_bucket_assignment_by_size", "all_gather_coalesced", "all_gather_single", "default_pg_timeout",
    "get_backend_config", "reduce_scatter_single", "supports_complex",
)  # fmt: skip


def __getattr__(name: str):  # type: ignore[no-untyped-def]
    if name in _LATER:
        return importlib.import_module(f"facula.distributed.{name}")
    if name == "breakpoint":
        return importlib.import_module("facula.distributed.breakpoints").breakpoint
    if name == "_StoreCollectives":
        found = importlib.import_module("facula.distributed.store_collectives")
        return found.StoreCollectives
    if name in _OF_GROUPS:
        return getattr(importlib.import_module("facula.distributed.distributed_c10d"), name)
    if name in ("init_device_mesh", "DeviceMesh"):
        return getattr(importlib.import_module("facula.distributed.device_mesh"), name)
    raise _no_attribute(__name__, name)
