"""What ranks do in the tests of this folder: each function's result is printed as JSON."""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

from joined import begin

import facula
from facula import distributed as dist
from facula import nn


def collectives() -> Any:
    rank, size = begin()
    found: dict[str, Any] = {}
    big = facula.arange(10000, dtype=facula.float64) + rank
    dist.all_reduce(big)
    found["big"] = [float(big[0]), float(big[-1])]
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        x = facula.full((2, 3), float(rank + 1)).t()
        dist.all_reduce(x, getattr(dist.ReduceOp, name))
        found[name] = float(x[0, 0])
    bits = facula.tensor([1 << rank])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    found["bor"] = int(bits)
    x = facula.full((5,), float(rank))
    dist.broadcast(x, src=size - 1)
    found["broadcast"] = x.tolist()
    x = facula.full((2,), float(rank))
    dist.reduce(x, dst=1)
    found["reduce"] = x.tolist()
    parts = [facula.zeros(2) for _ in range(size)]
    dist.all_gather(parts, facula.full((2,), float(rank)))
    found["all_gather"] = [p.tolist() for p in parts]
    whole = facula.zeros(size * 2)
    dist.all_gather_into_tensor(whole, facula.full((2,), float(rank)))
    found["into"] = whole.tolist()
    out = facula.zeros(2)
    dist.reduce_scatter(out, [facula.full((2,), float(rank * 10 + i)) for i in range(size)])
    found["reduce_scatter"] = out.tolist()
    out = facula.zeros(1)
    dist.reduce_scatter_tensor(out, facula.arange(size, dtype=facula.float32))
    found["reduce_scatter_tensor"] = out.tolist()
    outs = [facula.zeros(1) for _ in range(size)]
    dist.all_to_all(outs, [facula.full((1,), float(10 * rank + i)) for i in range(size)])
    found["all_to_all"] = [float(o) for o in outs]
    gathered = [facula.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(facula.full((1,), float(rank)), gathered, dst=0)
    found["gather"] = [float(g) for g in gathered or []]
    out = facula.zeros(1)
    dist.scatter(
        out, [facula.full((1,), float(i)) for i in range(size)] if rank == 1 else None, src=1
    )
    found["scatter"] = float(out)
    things: list[Any] = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    sent = [rank, "x"] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, src=0)
    found["objects"] = [things, sent]
    some = dist.new_group([0, size - 1])
    x = facula.ones(1)
    dist.all_reduce(x, group=some)
    found["some"] = [float(x), dist.get_rank(some)]
    dist.barrier()
    dist.monitored_barrier()
    dist.destroy_process_group()
    return found


def messages() -> Any:
    rank, _ = begin()
    other = 1 - rank
    y, z = facula.zeros(3), facula.zeros(3)
    works = [dist.irecv(y, other, tag=2), dist.irecv(z, other, tag=1)]
    dist.isend(facula.full((3,), 1.0 + rank), other, tag=1)
    dist.isend(facula.full((3,), 5.0 + rank), other, tag=2)
    for work in works:
        work.wait()
    big = facula.zeros(1 << 20)
    operations = [
        dist.P2POp(dist.isend, facula.full((1 << 20,), float(rank)), other),
        dist.P2POp(dist.irecv, big, other),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    half = facula.zeros(2, dtype=facula.bfloat16)
    if rank == 0:
        dist.send(facula.ones(2, dtype=facula.bfloat16), 1)
        source = 1
    else:
        source = dist.recv(half)
    return [y.tolist(), z.tolist(), float(big[-1]), source, half.tolist()]


def mismatch() -> Any:
    rank, _ = begin(60)
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=5))
    try:
        if rank == 0:
            dist.all_reduce(facula.ones(4))
        else:
            dist.broadcast(facula.ones(4), src=1)
            dist.barrier()
    except RuntimeError as error:
        return str(error)
    return ""


def missing() -> Any:
    rank, _ = begin(60)
    dist.barrier()
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
    if rank == 1:
        import time

        time.sleep(3)
        return ""
    try:
        dist.all_reduce(facula.ones(4, 2))
    except dist.DistBackendError as error:
        return str(error)
    return ""


def training() -> Any:
    rank, size = begin()
    facula.manual_seed(rank)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0001)
    same = [p.sum().item() for p in net.parameters()]
    facula.manual_seed(7)
    x = facula.randn(size * 4, 4)
    optimizer = facula.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        mine = x[rank * 4 : rank * 4 + 4]
        if step == 1:
            with model.no_sync():
                model(mine).square().sum().backward()
        model(mine).square().sum().backward()
        optimizer.step()
    after = [round(p.sum().item(), 5) for p in net.parameters()]
    problem = ""
    two = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    two.forward = lambda v: two[0](v)
    unused = nn.parallel.DistributedDataParallel(two)
    unused(facula.ones(1, 2)).sum().backward()
    try:
        unused(facula.ones(1, 2))
    except RuntimeError as error:
        problem = str(error)
    return [[round(s, 5) for s in same], after, problem]


def gradients() -> Any:
    rank, size = begin()
    functional = dist.nn.functional
    x = facula.full((2,), float(rank + 1), requires_grad=True)
    (functional.all_reduce(x).sum() * (rank + 1)).backward()
    found = [x.grad.tolist()]
    x.grad = None
    parts = functional.all_gather(x)
    sum(p.sum() * (i + 1) for i, p in enumerate(parts)).backward()
    found.append(x.grad.tolist())
    x.grad = None
    (functional.broadcast(x, 0).sum() * 3).backward()
    found.append(x.grad.tolist())
    ys = [facula.full((2,), float(i), requires_grad=True) for i in range(size)]
    (functional.reduce_scatter(facula.zeros(2), ys).sum() * (rank + 1)).backward()
    found.append([float(y.grad[0]) for y in ys])
    return found + more_functional(functional, rank, size)


def more_functional(functional: Any, rank: int, size: int) -> list[Any]:
    """To one rank, from one rank, and each to each: values and gradients."""
    x = facula.full((2,), float(rank + 1), requires_grad=True)
    gathered = functional.gather(x, 1)
    (sum(g.sum() * (i + 3) for i, g in enumerate(gathered)) * (rank + 1)).backward()
    found: list[Any] = [[g.tolist() for g in gathered], x.grad.tolist()]
    ys = [facula.full((2,), 10.0 * rank + i, requires_grad=True) for i in range(size)]
    part = functional.scatter(ys, 1)
    (part.sum() * (rank + 1)).backward()
    found += [part.tolist(), [float(y.grad[0]) for y in ys]]
    x.grad = None
    total = functional.reduce(x, 0)
    (total.sum() * (rank + 5)).backward()
    found += [total.tolist(), x.grad.tolist()]
    for y in ys:
        y.grad = None
    swapped = functional.all_to_all([facula.zeros(2) for _ in range(size)], ys)
    sum(s.sum() * (rank + 2 + 10 * i) for i, s in enumerate(swapped)).backward()
    return [*found, [s.tolist() for s in swapped], [float(y.grad[0]) for y in ys]]


def zero() -> Any:
    rank, _ = begin()
    facula.manual_seed(0)
    whole, shared = nn.Linear(4, 3), nn.Linear(4, 3)
    shared.load_state_dict(whole.state_dict())
    plain = facula.optim.Adam(whole.parameters(), lr=0.1)
    optimizer = dist.optim.ZeroRedundancyOptimizer(shared.parameters(), facula.optim.Adam, lr=0.1)
    for _ in range(3):
        for net, one in ((whole, plain), (shared, optimizer)):
            one.zero_grad()
            net(facula.ones(2, 4)).square().sum().backward()
            one.step()
    equal = all(
        facula.equal(a, b) for a, b in zip(whole.parameters(), shared.parameters(), strict=True)
    )
    optimizer.consolidate_state_dict(1)
    try:
        count = len(optimizer.state_dict()["state"])
    except RuntimeError:
        count = -1
    return [equal, len(optimizer.optim.state), count]


def mesh() -> Any:
    rank, _ = begin()
    grid = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "b"))
    x = facula.full((1,), float(rank))
    dist.all_reduce(x, group=grid["b"].get_group())
    problems = 0
    for make in (
        lambda: grid["c"],
        lambda: grid.get_group(),
        lambda: dist.init_device_mesh("cpu", (2, 2)),
        lambda: dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "a")),
    ):
        try:
            make()
        except (RuntimeError, KeyError):
            problems += 1
    return [grid.get_coordinate(), float(x), grid["a"].size(), problems, str(grid["b"])]


def pipelines() -> Any:
    from facula.distributed import pipelining

    rank, _ = begin()
    facula.manual_seed(0)
    whole = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    x, y = facula.randn(6, 4).double(), facula.randn(6, 2).double()
    loss_function = nn.functional.mse_loss
    loss_function(whole(x), y).backward()
    want = [p.grad.clone() for p in whole.parameters()]
    whole.zero_grad()
    pipe = pipelining.pipeline(whole, (x[:2],), split_spec={"2": pipelining.SplitPoint.BEGINNING})
    found: list[Any] = []
    for kind in (pipelining.ScheduleGPipe, pipelining.Schedule1F1B):
        whole.zero_grad()
        schedule = kind(pipe.build_stage(rank, "cpu"), 3, loss_fn=loss_function)
        losses: list[Any] = []
        out = schedule.step(x) if rank == 0 else schedule.step(target=y, losses=losses)
        mine = list(pipe.get_stage_module(rank).parameters())
        expected = want[:2] if rank == 0 else want[2:]
        pairs = zip(mine, expected, strict=True)
        found.append(all(facula.allclose(p.grad, w) for p, w in pairs))
        found.append(len(losses))
        found.append(out is None or facula.allclose(out, whole(x)))
    return found


def sharded() -> Any:
    from facula.distributed.tensor import (
        DTensor,
        Partial,
        Replicate,
        Shard,
        distribute_module,
        distribute_tensor,
        init_device_mesh,
        zeros,
    )

    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    whole = facula.arange(15.0).reshape(5, 3)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    found: dict[str, Any] = {"piece": list(x.to_local().shape), "whole": x.full_tensor().tolist()}
    doubled = (x * 2 - x).relu()
    found["elementwise"] = [doubled.placements == (Shard(0),), doubled.full_tensor().tolist()]
    w = distribute_tensor(facula.ones(3, 4), mesh, [Shard(1)]).requires_grad_()
    (x @ w).sum().backward()
    found["gradient"] = w.grad.full_tensor().tolist()
    other = x.redistribute(placements=[Shard(1)])
    found["other"] = [other.full_tensor().tolist() == whole.tolist(), list(other.to_local().shape)]
    part = DTensor.from_local(facula.ones(2) * (rank + 1), mesh, [Partial()])
    found["partial"] = part.full_tensor().tolist()
    local = facula.ones(2, requires_grad=True)
    (DTensor.from_local(local, mesh, [Shard(0)]) * 3).sum().full_tensor().backward()
    found["local gradient"] = local.grad.tolist()
    x.mul_(2)
    found["in place"] = x.full_tensor().sum().item()
    found["zeros"] = list(zeros(5, 2, device_mesh=mesh, placements=[Shard(0)]).to_local().shape)
    layer = distribute_module(nn.Linear(3, 1, bias=False), mesh)
    before = layer.weight.full_tensor().detach().clone()
    optimizer = facula.optim.SGD(layer.parameters(), lr=0.5)
    layer(distribute_tensor(facula.ones(2, 3), mesh, [Replicate()])).sum().backward()
    optimizer.step()
    found["step"] = (before - layer.weight.full_tensor().detach()).tolist()
    try:
        x + facula.ones(5, 3)
    except RuntimeError as error:
        found["mixed"] = str(error)
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
