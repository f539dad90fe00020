"""PyTorch's name of the module of groups and collectives, which libraries import names from, some of them private.

Takes: nothing. Gives: the names of `facula.distributed`, and what libraries ask of groups under PyTorch's names.
Keeps true: nothing is made or kept here; what is no name of `facula.distributed` follows from its groups.
"""

from __future__ import annotations

import datetime
from typing import Any

from facula import core, distributed
from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.distributed.object_operations import _pickled, _unpickled
from facula.distributed.process_group import ProcessGroup
from facula.distributed.rendezvous import DEFAULT_TIMEOUT
from facula.distributed.stores import Store
from facula.distributed.world import _STATE, GroupMember, default_group, groups

#: how long a group waits where nobody says
default_pg_timeout = DEFAULT_TIMEOUT


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
