"""Collectives of groups that a program derived from `ProcessGroup`: its methods are called.

Takes: the name of a collective, its arguments, and the group. Gives: what the collective gives.
Keeps true: methods are called as PyTorch's functions call them: lists of tensors and options with ranks of the group.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
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

__all__ = ["called", "signature"]


#: the time of a work that says itself how long it takes
_WHATEVER = datetime.timedelta(0)


def signature(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """What gives the arguments of a call by name, those that were left out with their defaults."""
    known = inspect.signature(function)

    def named(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = known.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return named


def _made(kind: type[Any], given: dict[str, Any], **values: Any) -> Any:
    made = kind()
    made.asyncOp = bool(given.get("async_op"))
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _root(group: ProcessGroup, given: dict[str, Any], end: str) -> int:
    """The root of a call, as a rank of the group."""
    rank, inside = given.get(end), given.get(f"group_{end}")
    if inside is not None:
        return int(inside)
    rank = 0 if rank is None else rank
    if rank not in group.ranks:
        fail(ValueError, end, f"a rank out of {group.ranks} was required (Global rank {rank} is not part of group)",
             rank, hint="get_global_rank(group, rank) gives it for a rank of the group")  # fmt: skip
    return group.ranks.index(rank)


def _all_reduce(group: Any, given: dict[str, Any]) -> Any:
    return group.allreduce([given["tensor"]], _made(AllreduceOptions, given, reduceOp=given["op"]))


def _all_reduce_coalesced(group: Any, given: dict[str, Any]) -> Any:
    opts = _made(AllreduceCoalescedOptions, given, reduceOp=given["op"])
    return group.allreduce_coalesced(list(given["tensors"]), opts)


def _reduce(group: Any, given: dict[str, Any]) -> Any:
    root = _root(group, given, "dst")
    return group.reduce(
        [given["tensor"]], _made(ReduceOptions, given, reduceOp=given["op"], rootRank=root)
    )


def _broadcast(group: Any, given: dict[str, Any]) -> Any:
    root = _root(group, given, "src")
    return group.broadcast([given["tensor"]], _made(BroadcastOptions, given, rootRank=root))


def _all_gather(group: Any, given: dict[str, Any]) -> Any:
    return group.allgather(
        [given["tensor_list"]], [given["tensor"]], _made(AllgatherOptions, given)
    )


def _all_gather_into_tensor(group: Any, given: dict[str, Any]) -> Any:
    return group.all_gather_single(
        given["output_tensor"], given["input_tensor"], _made(AllgatherOptions, given)
    )


def _reduce_scatter(group: Any, given: dict[str, Any]) -> Any:
    opts = _made(ReduceScatterOptions, given, reduceOp=given["op"])
    return group.reduce_scatter([given["output"]], [list(given["input_list"])], opts)


def _reduce_scatter_tensor(group: Any, given: dict[str, Any]) -> Any:
    opts = _made(ReduceScatterOptions, given, reduceOp=given["op"])
    return group.reduce_scatter_single(given["output"], given["input"], opts)


def _all_to_all(group: Any, given: dict[str, Any]) -> Any:
    opts = _made(AllToAllOptions, given)
    return group.alltoall(list(given["output_tensor_list"]), list(given["input_tensor_list"]), opts)


def _all_to_all_single(group: Any, given: dict[str, Any]) -> Any:
    sizes = [list(given[name] or []) for name in ("output_split_sizes", "input_split_sizes")]
    return group.all_to_all_single(
        given["output"], given["input"], *sizes, _made(AllToAllOptions, given)
    )


def _gather(group: Any, given: dict[str, Any]) -> Any:
    root = _root(group, given, "dst")
    lists = [list(given["gather_list"])] if group.rank() == root else []
    return group.gather(lists, [given["tensor"]], _made(GatherOptions, given, rootRank=root))


def _scatter(group: Any, given: dict[str, Any]) -> Any:
    root = _root(group, given, "src")
    lists = [list(given["scatter_list"])] if group.rank() == root else []
    return group.scatter([given["tensor"]], lists, _made(ScatterOptions, given, rootRank=root))


def _barrier(group: Any, given: dict[str, Any]) -> Any:
    opts = _made(BarrierOptions, given)
    opts.device_ids = list(given["device_ids"] or [])
    return group.barrier(opts)


_CALLS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "gather": _gather,
    "scatter": _scatter,
    "barrier": _barrier,
}


def called(name: str, group: ProcessGroup, given: dict[str, Any]) -> Any:
    """Call the group's method for a collective; gives its `Work` where the caller does not wait."""
    if name == "monitored_barrier":
        return group.monitored_barrier(given["timeout"], given["wait_all_ranks"])
    work = _CALLS[name](group, given)
    if given["async_op"]:
        return work
    if work is not None:
        work.wait(_WHATEVER)
    return None
