"""The groups of this process in the form of PyTorch's tables, which libraries look into.

Takes: nothing. Gives: `pg_map` and its like, and `World`, which has them as attributes.
Keeps true: these are views: what is made or destroyed meanwhile is in them or gone; nothing can be written to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from facula.distributed.options import BackendConfig
from facula.distributed.process_group import ProcessGroup
from facula.distributed.world import _STATE, groups

__all__ = ["View", "World", "pg_group_ranks", "pg_map", "pg_names"]


class View(Mapping[Any, Any]):
    """The groups of this process, each with something about it."""

    def __init__(self, about: Callable[[ProcessGroup], Any]) -> None:
        self._about = about

    def __getitem__(self, group: Any) -> Any:
        if not any(group is known for known in groups()):
            raise KeyError(group)
        return self._about(group)

    def __iter__(self) -> Iterator[ProcessGroup]:
        return iter(groups())

    def __len__(self) -> int:
        return len(groups())

    def __repr__(self) -> str:
        return repr(dict(self))


def _store_of(group: ProcessGroup) -> Any:
    return group.get_group_store()


def _numbers(group: ProcessGroup) -> dict[int, int]:
    return {rank: number for number, rank in enumerate(group.ranks)}


#: backend and store
pg_map = View(lambda group: (group.backend_name, _store_of(group)))
pg_names = View(lambda group: group.group_name)
#: the number in the group of each rank of the world
pg_group_ranks = View(_numbers)


class World:
    """The groups of this process, as attributes."""

    pg_map, pg_names, pg_group_ranks = pg_map, pg_names, pg_group_ranks
    pg_backend_config = View(lambda group: repr(BackendConfig(group.backend_name)))

    @property
    def default_pg(self) -> ProcessGroup | None:
        """The default group, once there is one."""
        return _STATE.default

    @property
    def group_count(self) -> int:
        """How many groups were made since the default one."""
        return _STATE.made
