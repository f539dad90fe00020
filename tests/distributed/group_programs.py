"""What ranks do in the tests of the methods of groups."""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

from joined import begin

import facula
from facula import distributed as dist


def told(call: Any) -> list[str]:
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def numbers(tensors: Any) -> Any:
    return [t.tolist() if isinstance(t, facula.Tensor) else numbers(t) for t in tensors]


def values(*tensors: Any) -> list[Any]:
    return [facula.tensor([float(t)]) for t in tensors]


def options(kind: str, **told_values: Any) -> Any:
    made = getattr(dist, kind)()
    for name, value in told_values.items():
        setattr(made, name, value)
    return made


def methods() -> Any:
    """Each method, on a group that the program made itself."""
    rank, size = begin()
    store = dist.PrefixStore("own", dist.distributed_c10d._get_default_store())
    group = dist.ProcessGroupGloo(store, rank, size, datetime.timedelta(seconds=60))
    found: dict[str, Any] = {}
    one = values(rank + 1)
    found["sum"] = numbers(group.allreduce(one).get_future().wait())
    several = values(rank, rank + 10)
    group.allreduce(several, options("AllreduceOptions", reduceOp=dist.ReduceOp.MAX)).wait()
    found["several"] = numbers(several)
    each = values(rank, 10 * rank)
    found["entries"] = numbers(group.allreduce_coalesced(each).get_future().wait())
    twice = values(rank + 1) * 2  # the same tensor
    found["twice"] = numbers(group.allreduce_coalesced(twice).get_future().wait())
    coming = dist.all_reduce_coalesced(values(rank, 1), async_op=True)
    found["future"] = numbers(facula.futures.wait_all([coming])[0])
    sent = values(rank, 5 + rank)
    group.broadcast(sent, options("BroadcastOptions", rootRank=1, rootTensor=1)).wait()
    found["broadcast"] = numbers(sent)
    lists = [values(-1, -1, -1, -1), values(-1, -1, -1, -1)]
    found["gathered"] = numbers(
        group.allgather(lists, values(2 * rank, 2 * rank + 1)).get_future().wait()
    )
    rows = [values(-1, -1), values(-1, -1)]
    group.allgather_coalesced(rows, values(rank, rank + 7)).wait()
    found["rows"] = numbers(rows)
    total = values(rank + 1)
    group.reduce(total, options("ReduceOptions", rootRank=1)).wait()
    found["reduced"] = numbers(total)
    many = [values(-1, -1)] if rank == 0 else []
    group.gather(many, values(rank + 3), options("GatherOptions", rootRank=0)).wait()
    found["at root"] = numbers(many)
    part = values(-1)
    group.scatter(
        part, [values(8, 9)] if rank == 1 else [], options("ScatterOptions", rootRank=1)
    ).wait()
    found["scattered"] = numbers(part)
    mine = values(-1)
    group.reduce_scatter(mine, [values(rank, rank + 1)]).wait()
    found["own sum"] = numbers(mine)
    whole, half = facula.zeros(2), facula.zeros(1)
    group._allgather_base(whole, facula.full((1,), rank + 1.0)).wait()
    group._reduce_scatter_base(half, facula.arange(2.0)).wait()
    found["flat"] = [whole.tolist(), half.tolist()]
    swapped = values(-1, -1)
    group.alltoall(swapped, values(10 * rank, 10 * rank + 1)).wait()
    split = facula.zeros(2)
    group.alltoall_base(split, facula.arange(2.0) + 10 * rank, [], []).wait()
    found["swapped"] = [numbers(swapped), split.tolist()]
    if rank == 0:
        group.send(values(4), 1, 3).wait()
    else:
        message = values(0)
        group.recv(message, 0, 3).wait()
        found["message"] = numbers(message)
    group.barrier().wait()
    group.monitored_barrier()
    x, y, z = facula.zeros(1), facula.zeros(1, dtype=facula.float64), facula.zeros(2)
    found["errors"] = [
        told(lambda: group.allreduce([])), told(lambda: group.allreduce([x, y])),
        told(lambda: group.allreduce([x, z])),
        told(lambda: group.broadcast([x], options("BroadcastOptions", rootRank=size))),
        told(lambda: group.broadcast([x], options("BroadcastOptions", rootRank=0, rootTensor=1))),
        told(lambda: group.allgather([[x]], [x])), told(lambda: group.allgather([], [x])),
        told(lambda: group.gather([[x] * size], [x], options("GatherOptions", rootRank=1 - rank))),
        told(lambda: group.scatter([x, x], [], options("ScatterOptions", rootRank=0))),
    ]  # fmt: skip
    after = values(1)
    group.allreduce(after).wait()
    found["after errors"] = numbers(after)
    group.barrier().wait()
    group.close()
    return found


def late() -> Any:
    """A call that names its own time."""
    rank, size = begin()
    group = dist.new_group(list(range(size)))
    text = ["nothing", ""]
    if rank == 0:
        opts = options("AllreduceOptions", timeout=datetime.timedelta(seconds=0.5))
        text = told(lambda: group.allreduce([facula.ones(1)], opts).wait())
    dist.barrier()
    return [text, group.seconds]


def tagged() -> Any:
    """Groups of one rank each, which are found again by their ranks and a tag."""
    rank, _ = begin()
    names = dist.distributed_c10d
    own = names._find_or_create_pg_by_ranks_and_tag("row", [0, 1], 1)
    again = names._find_or_create_pg_by_ranks_and_tag("row", [0, 1], 1)
    other = names._new_group_with_tag([0, 1], pg_tag="column")
    x = facula.tensor([float(rank + 1)])
    dist.all_reduce(x, group=other)
    return {
        "ranks": own.ranks,
        "same": own is again and names._find_pg_by_ranks_and_tag("row", [rank]) is own,
        "by ranks": names._find_pg_by_ranks_and_tag("", [rank]) is own,
        "of another tag": names._find_pg_by_ranks_and_tag("column", [rank]) is None,
        "whole": names._find_or_create_pg_by_ranks_and_tag("column", [0, 1], 2) is other,
        "tags": [names._get_group_tag(group) for group in (own, other)],
        "default": names._get_group_tag(dist.group.WORLD)[:4],
        "sum": x.tolist(),
        "errors": [
            told(lambda: names._find_or_create_pg_by_ranks_and_tag("row", [0, 1], 3)),
            told(lambda: names._find_or_create_pg_by_ranks_and_tag("row", [1 - rank], 1)),
            told(lambda: names._find_or_create_pg_by_ranks_and_tag("", [1, 0], 2)),
        ],
    }


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
