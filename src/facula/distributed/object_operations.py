"""Collectives and messages on Python objects, which go as pickles.

Takes: objects and a group. Gives: the same at other ranks, in lists that are written in place.
Keeps true: only ranks that trust each other use these: who sends a pickle runs code where it is read.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from facula import core
from facula.core.errors import fail
from facula.distributed.buffers import view_of
from facula.distributed.engine import OBJECTS
from facula.distributed.messages import recv, send
from facula.distributed.operations import _root, all_gather, broadcast, gather
from facula.distributed.process_group import ProcessGroup
from facula.distributed.world import group_of
from facula.ops.table.registry import F

Tensor = core.Tensor
P = ParamSpec("P")
R = TypeVar("R")


def _of_objects(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose tensors are bytes of objects: engines of devices carry them too."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        token = OBJECTS.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            OBJECTS.reset(token)

    return run


def _pickled(value: object) -> Tensor:
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    data = buffer.getvalue()
    made = core.empty((len(data),), dtype=core.uint8)
    view_of(made)[:] = data
    return made


def _unpickled(t: Tensor) -> Any:
    return pickle.loads(bytes(view_of(t)))


def _check_places(objects: object, name: str, group: ProcessGroup) -> None:
    """Raise unless there is an object for each rank."""
    if not isinstance(objects, list) or len(objects) < group.size():
        got = len(objects) if isinstance(objects, list) else objects
        fail(ValueError, name, f"a list of {group.size()} objects was required (one for each rank)", got,
             hint="[None] * get_world_size(group)")  # fmt: skip


def _sizes(mine: int, group: ProcessGroup) -> list[int]:
    each = [core.empty((1,), dtype=core.int64) for _ in range(group.size())]
    all_gather(each, F.full((1,), mine, dtype=core.int64), group)
    return [int(t) for t in each]


@_of_objects
def all_gather_object(object_list: list[Any], obj: object, group: object = None) -> None:
    """Put each rank's object into the list of all. Only between ranks that trust each other: pickle.

    Args:
        object_list: one for each rank, written to
        obj: this rank's, which pickle takes
        group: the ranks; None for all

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [None]
        >>> dist.all_gather_object(parts, {"rank": 0})
        >>> parts
        [{'rank': 0}]
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    _check_places(object_list, "all_gather_object", found)
    data = _pickled(obj)
    parts = [core.empty((n,), dtype=core.uint8) for n in _sizes(data.numel(), found)]
    all_gather(parts, data, found)
    object_list[: found.size()] = [_unpickled(t) for t in parts]


@_of_objects
def gather_object(
    obj: object, object_gather_list: list[Any] | None = None, dst: int | None = None, group: object = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Put each rank's object into the list of one rank.

    Args:
        obj: this rank's, which pickle takes
        object_gather_list: one for each rank, written to; on the rank that gets them
        dst: the rank that gets it, a number of the world
        group: the ranks; None for all
        group_dst: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [None]
        >>> dist.gather_object("mine", parts, dst=0)
        >>> parts
        ['mine']
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    root = _root(found, 0 if dst is None and group_dst is None else dst, group_dst, "gather_object")
    if found.rank() == root:
        _check_places(object_gather_list, "gather_object", found)
    data = _pickled(obj)
    sizes = _sizes(data.numel(), found)
    parts = [core.empty((n,), dtype=core.uint8) for n in sizes] if found.rank() == root else None
    gather(data, parts, group=found, group_dst=root)
    if parts is not None and object_gather_list is not None:
        object_gather_list[: found.size()] = [_unpickled(t) for t in parts]


@_of_objects
def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: object = None, device: core.device | str | int | None = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Put one rank's objects into the lists of all.

    Args:
        object_list: what is sent, or written to
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        device: kept for PyTorch's API
        group_src: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> settings = [0.1, "adam"]
        >>> dist.broadcast_object_list(settings, src=0)
        >>> settings
        [0.1, 'adam']
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "broadcast")
    data = _pickled(list(object_list))
    # as many as there are objects, which engines compare
    size = F.full((1 + len(object_list),), data.numel(), dtype=core.int64)
    broadcast(size, group=found, group_src=root)
    if found.rank() != root:
        data = core.empty((int(size[0]),), dtype=core.uint8)
    broadcast(data, group=found, group_src=root)
    if found.rank() != root:
        object_list[:] = _unpickled(data)


@_of_objects
def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: object = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Put entry r of one rank's list into the first place of rank r's.

    Args:
        scatter_object_output_list: its first place is written to
        scatter_object_input_list: one for each rank; on the rank that has them
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        group_src: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine = [None]
        >>> dist.scatter_object_list(mine, ["part"], src=0)
        >>> mine
        ['part']
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        fail(ValueError, "scatter_object_list", "a list with a place was required (Expected argument "
             "scatter_object_output_list to be a list of size at least 1.)", scatter_object_output_list,
             hint="[None]")  # fmt: skip
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "scatter")
    if found.rank() == root:
        _check_places(scatter_object_input_list, "scatter_object_list", found)
    whole: list[Any] = [scatter_object_input_list if found.rank() == root else None]
    broadcast_object_list(whole, None, found, group_src=root)
    scatter_object_output_list[0] = whole[0][found.rank()]


@_of_objects
def send_object_list(
    object_list: list[Any], dst: int | None = None, group: object = None, **options: object
) -> None:
    """Send objects to a rank.

    Args:
        object_list: what is sent, or written to
        dst: the rank that gets it, a number of the world
        group: the ranks; None for all
        **options: `device`, and the rank as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> settings = [0.1]
        >>> if dist.get_world_size() > 1 and dist.get_rank() == 0:
        ...     dist.send_object_list(settings, dst=1)
        >>> dist.destroy_process_group()
    """
    data = _pickled(list(object_list))
    send(F.full((1,), data.numel(), dtype=core.int64), dst, group, **_group_peer(options, "dst"))
    send(data, dst, group, **_group_peer(options, "dst"))


@_of_objects
def recv_object_list(
    object_list: list[Any], src: int | None = None, group: object = None, **options: object
) -> int:
    """Wait for objects of a rank; gives the sender's rank.

    Args:
        object_list: what is sent, or written to
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        **options: `device`, and the rank as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> settings = [None]
        >>> if dist.get_rank() == 1:
        ...     dist.recv_object_list(settings, src=0)
        >>> dist.destroy_process_group()
    """
    size = core.empty((1,), dtype=core.int64)
    source = recv(size, src, group, **_group_peer(options, "src"))
    data = core.empty((int(size),), dtype=core.uint8)
    recv(data, source, group)
    object_list[:] = _unpickled(data)
    return source


def _group_peer(options: dict[str, Any], side: str) -> dict[str, Any]:
    name = f"group_{side}"
    return {name: options[name]} if options.get(name) is not None else {}
