"""What ranks do in `test_added_names.py`: each function's result is printed as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any

from joined import begin, error_of

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed import collective_utils as guarded
from facula.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
from facula.distributed.checkpoint.metadata import MetadataIndex
from facula.distributed.checkpoint.utils import find_tensor_shard
from facula.distributed.data_parallel import DistributedDataParallel
from facula.distributed.optim import ZeroRedundancyOptimizer
from facula.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from facula.distributed.tensor.debug import visualize_sharding
from facula.distributed.tensor.parallel.input_reshard import input_reshard


def exchange() -> Any:
    """Values with guards."""
    rank, _ = begin()
    group = dist.group.WORLD
    calls: list[int] = []

    def own() -> int:
        calls.append(rank)
        return rank * 10

    def fails() -> int:
        if rank == 1:
            raise KeyError("lost")
        return 0

    return {
        "one": [guarded.broadcast(own, rank=1, pg=group), len(calls)],
        "all": guarded.all_gather(own, "here", group),
        "failed": error_of(guarded.broadcast, fails, rank=1, pg=group, stage_name="reading"),
        "some failed": error_of(guarded.all_gather, fails, "reading", group),
        "elsewhere": error_of(guarded.all_gather, 1, f"stage {rank}", group),
        "kinds": error_of(
            guarded.all_gather_object_enforce_type, group, [None, None], rank if rank else "0"
        ),
        "no value": error_of(guarded.broadcast, 1, success=rank != 0, rank=0, pg=group),
    }


def queues() -> Any:
    """Each value of a queue goes to one rank."""
    rank, _ = begin()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        for number in range(20):
            store.queue_push("jobs", str(number))
        store.set("pushed", b"1")
    store.get("pushed")
    found = []
    with contextlib.suppress(dist.QueueEmptyError):
        while True:
            found.append(int(store.queue_pop("jobs", block=False)))
    dist.barrier()
    left = store.queue_len("jobs")
    dist.barrier()
    if rank == 1:
        store.queue_push("answer", b"from 1")
        return [found, left, ""]
    return [found, left, store.queue_pop("answer").decode()]


def interleaved() -> Any:
    """Buckets are updated while others are exchanged: weights are those of one process that sees all inputs."""
    rank, size = begin()
    facula.manual_seed(0)
    alone = nn.Sequential(
        nn.Linear(4, 600), nn.Tanh(), nn.Linear(600, 600), nn.Linear(600, 2)
    ).double()
    model = nn.Sequential(
        nn.Linear(4, 600), nn.Tanh(), nn.Linear(600, 600), nn.Linear(600, 2)
    ).double()
    model.load_state_dict(alone.state_dict())
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.5)
    zero = ZeroRedundancyOptimizer(
        wrapped.parameters(), facula.optim.Adam, overlap_with_ddp=True, lr=0.01
    )
    wrapped.register_comm_hook(
        None,
        ddp_zero_hook.hook_with_zero_step_interleaved(default_hooks.allreduce_hook, wrapped, zero),
    )
    optimizer = facula.optim.Adam(alone.parameters(), lr=0.01)
    inputs = [facula.randn(3, 4, dtype=facula.float64) for _ in range(size)]
    for step in range(3):
        if step == 1:
            zero.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] = 0.002
        optimizer.zero_grad()
        (sum(alone(x).square().mean() for x in inputs) / size).backward()
        wrapped.zero_grad()
        wrapped(inputs[rank]).square().mean().backward()
        optimizer.step()
        zero.step()
    pairs = zip(alone.parameters(), model.parameters(), strict=True)
    apart = max(float((p - q).abs().max()) for p, q in pairs)
    return [apart, len(wrapped.reducer.buckets), len(zero.optim.state)]


def kept() -> Any:
    """Pieces of what a module keeps: the same gradients, and a part of the memory."""
    _, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    facula.manual_seed(0)
    layer = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).double()
    x = facula.randn(4, 6, dtype=facula.float64)
    layer(x).square().sum().backward()
    want = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    assert input_reshard(layer, mesh) is layer and not layer._forward_hooks
    input_reshard(layer, mesh, 0)
    with dist.tensor.debug.CommDebugMode() as forward:
        y = layer(x)
    with dist.tensor.debug.CommDebugMode() as backward:
        y.square().sum().backward()
    pairs = zip(layer.parameters(), want, strict=True)
    apart = max(float((p.grad - g).abs().max()) for p, g in pairs)
    return [apart, forward.get_total_counts(), backward.get_total_counts() > 0]


def shown() -> Any:
    """Tables of pieces, and pieces by their beginnings."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (2, size // 2))
    whole = facula.arange(20.0).view(4, 5)
    texts = []
    for placements in ([Shard(0), Shard(1)], [Replicate(), Shard(0)]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            visualize_sharding(distribute_tensor(whole, mesh, placements), header="pieces")
        texts.append(out.getvalue())
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        visualize_sharding(distribute_tensor(facula.arange(3.0), mesh, [Shard(0), Replicate()]))
    texts.append(out.getvalue())
    cut = distribute_tensor(whole, mesh, [Shard(0), Replicate()])
    start = [0 if rank < size // 2 else 2, 0]
    piece = find_tensor_shard(cut, MetadataIndex("x", start))
    return {
        "texts": texts,
        "deep": error_of(
            visualize_sharding, distribute_tensor(facula.ones(2, 2, 2), mesh, [Shard(0)] * 2)
        ),
        "piece": piece.tolist() == whole[start[0] : start[0] + 2].tolist(),
        "none": error_of(find_tensor_shard, cut, MetadataIndex("x", [1, 0])),
    }


def stopped() -> Any:
    """Rank 1 stops in the debugger, which reads commands; the others wait."""
    rank, _ = begin()
    here = {"passed": 0}
    sys.stdin = io.StringIO("u\np here['passed']\nc\n")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for _ in range(3):
            here["passed"] += 1
            dist.breakpoint(rank=1, skip=2)
    return [rank, here["passed"], out.getvalue()]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
