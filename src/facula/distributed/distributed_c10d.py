"""PyTorch's name of the module of groups and collectives, which libraries import names from, some of them private.

Takes: nothing. Gives: the names of `facula.distributed`, and what libraries ask of groups under PyTorch's names.
Keeps true: nothing is made or kept here; what is no name of `facula.distributed` follows from its groups.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NewType

from facula import core, distributed
from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.distributed.buckets import GradBucket, Reducer  # noqa: F401
from facula.distributed.c10d_names import (  # noqa: F401
    STORE_BASED_BARRIER_PREFIX,
    BuiltinCommHookType,
    _coalescing_manager,
    _CollOp,
    _compute_bucket_assignment_by_size,
    _store_based_barrier,
)
from facula.distributed.gloo_group import FakeProcessGroup, ProcessGroupGloo  # noqa: F401
from facula.distributed.group_tables import World, pg_group_ranks, pg_map, pg_names
from facula.distributed.object_operations import _pickled, _unpickled
from facula.distributed.operations import (
    all_gather_into_tensor,
    reduce_scatter_tensor,
)
from facula.distributed.options import (  # noqa: F401
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BackendConfig,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    supports_complex,
)
from facula.distributed.process_group import ProcessGroup
from facula.distributed.rendezvous import DEFAULT_TIMEOUT
from facula.distributed.stores import Store
from facula.distributed.types import Work as _Work  # noqa: F401
from facula.distributed.world import _STATE, WATCHERS, GroupMember, default_group, groups

#: how long a group waits where nobody says
default_pg_timeout = DEFAULT_TIMEOUT
_pg_map, _pg_names, _pg_group_ranks = pg_map, pg_names, pg_group_ranks
_world: Any = World()
GroupName = NewType("GroupName", str)
#: the newer names of the operations on single tensors
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


#: whether PyTorch's newer package of communicators serves groups
_TORCHCOMM_AVAILABLE = False
_own_world = _world


def _noted(group: ProcessGroup, store: Store) -> None:
    """Write a new group into the tables that a program put in the place of this module's `_world`."""
    tables = _world
    if tables is _own_world:
        return
    tables.pg_map[group] = (group.backend_name, store)
    tables.pg_group_ranks[group] = {rank: number for number, rank in enumerate(group.ranks)}
    tables.pg_backend_config[group] = repr(BackendConfig(group.backend_name))
    tables.pg_names[group] = group._name
    if group.number == 0:
        tables.default_pg = group


WATCHERS.append(_noted)


def __getattr__(name: str) -> Any:
    found = None if name.startswith("__") else getattr(distributed, name, None)
    if found is None:
        raise _no_attribute(__name__, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(distributed)})


def _get_default_group() -> ProcessGroup:
    """The default group."""
    return default_group()


def _get_default_store() -> Store:
    """The store by which the default group met."""
    default_group()
    if _STATE.store is None:
        fail(ValueError, "distributed", "a group that met by a store was required", "none",
             hint="init_process_group(store=...) or env:// make one")  # fmt: skip
    return _STATE.store


def _get_default_timeout(backend: str) -> datetime.timedelta:
    """How long groups wait where nobody says: the same on all engines."""
    return default_pg_timeout


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Which engine of a group serves which type of device: `cpu:gloo,cuda:gloo`."""
    return repr(BackendConfig(distributed.get_backend(group)))


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[core.Tensor]], input_tensor_list: Sequence[core.Tensor],
    group: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """Put each rank's list of tensors into the lists of all; with `async_op` a future of the lists.

    Args:
        output_tensor_lists: a list for each rank, of tensors that are written to
        input_tensor_list: this rank's
    """
    if _rank_not_in_group(group):
        return None
    for one in output_tensor_lists:
        if not isinstance(one, (list, tuple)):
            fail(TypeError, "all_gather_coalesced", "a list of lists was required (Invalid function argument: "
                 "output_tensor_lists should be a list of lists of tensors)", type(one).__name__,
                 hint="one list for each rank")  # fmt: skip
    found = default_group() if group is None else group
    work = found.allgather_coalesced(output_tensor_lists, input_tensor_list)
    if async_op:
        return work.get_future()
    work.wait()
    return None


def _rank_not_in_group(group: ProcessGroup | int | None) -> bool:
    """Whether this process is outside of a group."""
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def _get_group_size(group: ProcessGroup | None) -> int:
    """How many ranks a group has."""
    return distributed.get_world_size(group)


def _get_process_group_name(pg: ProcessGroup) -> str:
    """A group's name."""
    return pg.group_name


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """The group of this process that has a name."""
    found = [known for known in groups() if known.group_name == group_name]
    if not found:
        fail(RuntimeError, "distributed", "the name of a group of this process was required (Could not resolve the "
             "process group registered under the name)", repr(group_name),
             hint="group.group_name is its name")  # fmt: skip
    return found[0]


def _get_process_group_store(pg: ProcessGroup) -> Store:
    """The store of a group."""
    return pg.get_group_store()


def _find_pg_by_ranks_and_tag(tag: str, ranks: Sequence[int]) -> ProcessGroup | None:
    """The group of this process that has these ranks, and a tag where one is told."""
    fitting = (known for known in groups() if known.ranks == list(ranks))
    return next((known for known in fitting if tag in ("", _get_group_tag(known))), None)


def _get_group_tag(pg: ProcessGroup) -> str:
    """The tag that a program gave a group, or one that no other group has."""
    return pg.tag or f"ptd:{pg.group_name}"


def _new_group_with_tag(
    ranks: Sequence[int] | None = None, timeout: datetime.timedelta | None = None, backend: str | None = None,
    backend_options: object = None, pg_tag: str | None = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: object = None,
) -> Any:  # fmt: skip
    """As `new_group`, with a tag by which, together with its ranks, the group is found again.

    Args:
        pg_tag: the tag; without one the group is found by its ranks alone
    """
    made = distributed.new_group(
        ranks, timeout, backend, backend_options, use_local_synchronization, group_desc, device_id
    )
    if isinstance(made, ProcessGroup):
        made.tag = pg_tag or ""
    return made


def _find_or_create_pg_by_ranks_and_tag(
    tag: str, ranks: Sequence[int], stride: int
) -> ProcessGroup:
    """The group of this rank among groups of `stride` ranks each; one with a tag is made where there is none.

    Args:
        tag: of the groups; those without are found, never made
        ranks: of all the groups, one group after the other
        stride: how many ranks a group has

    Raises:
        ValueError: the ranks are no whole groups; this rank is in none; a group without a tag is not there.
    """
    if stride < 1 or len(ranks) % stride:
        fail(ValueError, "distributed", f"ranks of whole groups of {stride} were required (Ranks length must be "
             "divisible by group_size)", f"{len(ranks)} ranks",
             hint="name the ranks of one group after those of the other")  # fmt: skip
    parts = [list(ranks[at : at + stride]) for at in range(0, len(ranks), stride)]
    mine = next((part for part in parts if distributed.get_rank() in part), None)
    if mine is None:
        fail(ValueError, "distributed", f"ranks with rank {distributed.get_rank()} among them were required",
             list(ranks), hint="a rank asks for groups that it belongs to")  # fmt: skip
    found = _find_pg_by_ranks_and_tag(tag, mine)
    if found is not None:
        return found
    if not tag:
        fail(ValueError, "distributed", "a group of this process was required where no tag is given (Cannot "
             "automatically create PG with empty tag)", mine,
             hint="new_group makes it; or give a tag")  # fmt: skip
    made = [_new_group_with_tag(part, pg_tag=tag) for part in parts]
    return made[parts.index(mine)]


def _get_group_size_by_name(group_name: str) -> int:
    """How many ranks the group of a name has."""
    return _resolve_process_group(group_name).size()


def _object_to_tensor(
    obj: object, device: core.device | None = None, group: Any = None
) -> tuple[core.Tensor, core.Tensor]:
    """A value's bytes as a tensor, and how many they are as another."""
    data = _pickled(obj)
    return data, core.tensor([data.numel()], dtype=core.int64)


def _tensor_to_object(tensor: core.Tensor, tensor_size: Any, group: Any = None) -> Any:
    """The value whose bytes a tensor begins with."""
    return _unpickled(tensor[: int(tensor_size)])
