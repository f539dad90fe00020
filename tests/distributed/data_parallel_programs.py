"""What ranks do in `test_data_parallel.py`: each function's result is printed as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from joined import begin

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed.algorithms import ddp_comm_hooks as hooks
from facula.distributed.algorithms.ddp_comm_hooks import optimizer_overlap_hooks as overlap
from facula.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from facula.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from facula.distributed.algorithms.join import Join
from facula.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

DDP = nn.parallel.DistributedDataParallel


def net(seed: int = 1) -> Any:
    facula.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)
    )


def batches(count: int, size: int) -> Any:
    facula.manual_seed(5)
    return facula.randn(count, size, 6)


def trained(model: Any, inputs: Any, lr: float = 0.1, optimizer: Any = None) -> list[float]:
    """The parameters after a step for each input."""
    optimizer = optimizer or facula.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for x in inputs:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return facula.cat([p.detach().reshape(-1) for p in model.parameters()])


def far(a: Any, b: Any) -> float:
    return (a - b).abs().max().item()


def kinds() -> Any:
    """Every way of wrapping gives what one process does."""
    rank, size = begin()
    inputs = batches(4, 4 * size)
    mine = [x[4 * rank : 4 * rank + 4] for x in inputs]
    want = trained(net(), inputs)
    found = {}
    for name, options in {
        "plain": {}, "small": {"bucket_cap_mb": 0.0002}, "views": {"gradient_as_bucket_view": True},
        "static": {"static_graph": True}, "unused": {"find_unused_parameters": True},
        "both": {"static_graph": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.0002},
    }.items():  # fmt: skip
        model = DDP(net(rank), **options)
        with facula.no_grad():
            for p, q in zip(model.parameters(), net().parameters(), strict=True):
                p.copy_(q)
        found[name] = far(trained(model, mine), want)
        data = model._get_ddp_logging_data()
        found[name + " rebuilt"] = data["has_rebuilt_buckets"]
        if name == "both":
            found["shares"] = len({p.grad.untyped_storage().data_ptr() for p in model.parameters()})
            found["buckets"] = len(data["bucket_sizes"].split(","))
    return found


def uneven() -> Any:
    """Ranks with different numbers of inputs."""
    rank, size = begin()
    model, found = DDP(net()), {}
    inputs = batches(2 + 2 * rank, 4)
    with model.join():
        after = trained(model, inputs)
    every = [None] * size
    dist.all_gather_object(every, facula.cat([p.detach().reshape(-1) for p in model.parameters()]))
    found["equal"] = far(every[0], every[1])
    plain = net()
    optimizer = facula.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for step, x in enumerate(batches(4, 4)):  # rank 1's; rank 0 has the first two of its own
        optimizer.zero_grad()
        loss = plain(x).square().mean()
        if step < 2:
            loss = loss + plain(batches(2, 4)[step]).square().mean()
        (loss / 2).backward()
        optimizer.step()
    want = facula.cat([p.detach().reshape(-1) for p in plain.parameters()])
    found["expected"] = far(after if rank else every[1], want)
    try:
        model = DDP(net())
        with Join([model], throw_on_early_termination=True):
            trained(model, inputs)
        found["throws"] = ""
    except RuntimeError as error:
        found["throws"] = str(error)
    return found


def exchanges() -> Any:
    """Hooks beyond the plain ones."""
    rank, size = begin()
    inputs = batches(6, 4 * size)
    mine = [x[4 * rank : 4 * rank + 4] for x in inputs]
    want, found = trained(net(), inputs, 0.01), {}
    kinds = hooks.DDPCommHookType
    for kind in (kinds.ALLREDUCE, kinds.BF16_COMPRESS, kinds.QUANTIZE_PER_TENSOR,
                 kinds.QUANTIZE_PER_CHANNEL, kinds.BATCHED_POWER_SGD):  # fmt: skip
        model = DDP(net())
        state = None
        if kind is kinds.BATCHED_POWER_SGD:
            state = hooks.powerSGD_hook.PowerSGDState(None, 8, start_powerSGD_iter=2)
        hooks.register_ddp_comm_hook(kind, model, state)
        found[kind.name] = far(trained(model, mine, 0.01), want)
    model = DDP(net())
    optimizer = facula.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    state = overlap.OptimizerHookState(optimizer)
    model.register_comm_hook(None, overlap.optimizer_in_backward(allreduce_hook, state))
    for x in mine:
        model.zero_grad()
        model(x).square().mean().backward()
    found["in backward"] = far(trained(model, [], 0.01), want)
    model = DDP(net())
    zero = dist.optim.ZeroRedundancyOptimizer(
        model.parameters(), facula.optim.SGD, overlap_with_ddp=True, lr=0.01, momentum=0.9
    )
    model.register_comm_hook(None, hook_with_zero_step(allreduce_hook, model, zero))
    found["zero"] = far(trained(model, mine, optimizer=zero), want)
    alone = net(rank)
    averager = PeriodicModelAverager(2, 1)
    means = []
    for x in mine[:3]:
        alone(x).sum().backward()
        averager.average_parameters(alone.parameters())
        means.append(sum(p.sum().item() for p in alone.parameters()))
    found["averaged"] = means
    # a callback that waits for another collective of the same group
    work = dist.all_reduce(facula.ones(1), async_op=True)
    inner = work.get_future().then(lambda _: dist.all_reduce(facula.ones(1), async_op=True).wait())
    found["nested"] = inner.wait()
    return found


def tables() -> Any:
    """Tables with sparse gradients; rank 1 has no element at first, and one that is given twice later."""
    rank, _ = begin()
    places = [[0, 3, 3]] if rank == 0 else [[]]
    values = facula.arange(2.0 * len(places[0])).view(-1, 2)
    x = facula.sparse_coo_tensor(facula.tensor(places, dtype=facula.int64), values, (4, 2))
    dist.all_reduce(x)
    found: dict[str, Any] = {"sum": [x.is_sparse, x.to_dense().tolist()]}
    for seed, static in enumerate((False, True)):
        facula.manual_seed(seed)
        layers = nn.Sequential(nn.Embedding(7, 3, sparse=True), nn.Linear(3, 1))
        model = DDP(layers, static_graph=static)
        given = [layers[0].weight.tolist(), layers[1].weight.tolist()]
        for step in range(3):
            model.zero_grad()
            model(facula.tensor([rank, 2, 2 + step])).sum().backward()
        grad = layers[0].weight.grad
        found[f"static {static}"] = [*given, grad.is_sparse, grad.to_dense().tolist()]
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
