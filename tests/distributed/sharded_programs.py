"""What ranks do in `test_fsdp.py` and `test_checkpoint.py`: each function's result is printed as JSON."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

from joined import begin, error_of

import facula
from facula import distributed as dist
from facula import nn
from facula.autograd.checkpoint import checkpoint as recomputed
from facula.distributed import checkpoint
from facula.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from facula.distributed.checkpoint import state_dict as states
from facula.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
    wrap,
)
from facula.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh, zeros


class Block(nn.Module):
    """Two layers, the second of which runs again in backward, if asked for."""

    def __init__(self, again: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.again = nn.Linear(5, 7), nn.Linear(7, 5), again

    def forward(self, x: Any) -> Any:
        inner = self.first(x).tanh()
        if self.again:
            return x + recomputed(self.second, inner, use_reentrant=False)
        return x + self.second(inner)


def net(again: bool = False) -> Any:
    facula.manual_seed(3)
    made = nn.Sequential(nn.Linear(6, 5), Block(again), Block(), nn.LayerNorm(5), nn.Linear(5, 3))
    return made.double()


def inputs(count: int) -> Any:
    facula.manual_seed(4)
    return facula.randn(count, 8, 6).double()


def losses(model: Any, batches: Any, steps: int = 4, **options: Any) -> list[float]:
    """The losses of some steps of AdamW."""
    optimizer = facula.optim.AdamW(model.parameters(), lr=0.05)
    found = []
    for x in batches[:steps]:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def sharded(mesh: Any, again: bool = False, **options: Any) -> Any:
    model = net(again)
    for block in (model[1], model[2]):
        if again:
            fully_shard(block.second, mesh=mesh, **options)
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def mean(value: float) -> float:
    total = facula.tensor([value], dtype=facula.float64)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def kinds() -> Any:
    """Losses of every way to cut, less those of one process."""
    rank, size = begin()
    every = inputs(4)
    share = 8 // size
    mine = every[:, share * rank : share * rank + share]
    want, found = losses(net(), every), {}
    line = init_device_mesh("cpu", (size,))
    for name, mesh, options in (
        ("plain", line, {}),
        ("kept", line, {"reshard_after_forward": False}),
        ("given back", line, {"reshard_after_forward": True}),
        ("columns", line, {"shard_placement_fn": lambda p: Shard(p.dim() - 1)}),
        ("copies", init_device_mesh("cpu", (size, 1)), {}),
        ("both", init_device_mesh("cpu", (1, size)), {}),
        ("again", line, {"again": True}),
    ):
        got = [mean(v) for v in losses(sharded(mesh, **options), mine)]
        found[name] = max(abs(a - b) for a, b in zip(got, want, strict=True))
    model = sharded(line)
    pieces = sum(p.to_local().numel() for p in model.parameters())
    total = sum(p.numel() for p in net().parameters())
    found["share"] = [pieces, total]
    half = sharded(line, mp_policy=MixedPrecisionPolicy(facula.bfloat16, facula.float32))
    shown = str(next(half.parameters()).dtype)
    found["half"] = [str(half(mine[0]).dtype), shown]
    found["half losses"] = abs(mean(losses(half, mine, 1)[0]) - want[0])
    whole = net()
    (whole(every[0]).square().mean() + whole(every[1]).square().mean()).backward()
    model.set_requires_gradient_sync(False)
    model(mine[0]).square().mean().backward()
    model.set_requires_gradient_sync(True)
    model(mine[1]).square().mean().backward()
    pairs = zip(whole.parameters(), model.parameters(), strict=True)
    found["added up"] = max((p.grad - q.grad.full_tensor()).abs().max().item() for p, q in pairs)
    a = nn.utils.clip_grad_norm_(whole.parameters(), 0.1, foreach=False)
    b = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    b = b.full_tensor() if hasattr(b, "full_tensor") else b
    pairs = zip(whole.parameters(), model.parameters(), strict=True)
    clipped = max((p.grad - q.grad.full_tensor()).abs().max().item() for p, q in pairs)
    found["clipped"] = [abs(a.item() - b.item()), clipped]
    handle = model.unshard(async_op=True)
    handle.wait()
    found["unshard"] = [list(model[0].weight.shape), type(model[0].weight).__name__]
    model.reshard()
    found["reshard"] = type(model[0].weight).__name__
    found["twice"] = error_of(fully_shard, model)
    found["number"] = error_of(fully_shard, Number())
    return found


class Number(nn.Module):
    """A parameter without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.number = nn.Parameter(facula.tensor(1.0))


class Two(nn.Module):
    """One of two layers, by rank, and one that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Any, second: bool) -> Any:
        return self.b(x) if second else self.a(x)


def uneven() -> Any:
    """Parameters that some ranks use, or none; fewer rows than ranks; a frozen layer."""
    rank, size = begin()
    model = fully_shard(Two())
    model(facula.ones(1, 2), rank == 0).sum().backward()
    found = {"unused": [model.a.bias.grad.full_tensor().tolist(), model.c.weight.grad is None]}
    narrow = nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 4))
    narrow[0].requires_grad_(False)
    fully_shard(narrow)
    x = facula.ones(2, 3, requires_grad=True)
    narrow(x).sum().backward()
    found["frozen"] = [
        narrow[0].weight.grad is None,
        narrow[1].weight.grad.to_local().numel(),
        x.grad is not None,
    ]
    return found


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x).tanh())


def flat(model: Any, policy: Any = None, **options: Any) -> Any:
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, **options)


def flats() -> Any:
    """`FullyShardedDataParallel` of every strategy, less one process."""
    rank, size = begin()
    every = inputs(4)
    mine = every[:, 4 * rank : 4 * rank + 4]
    want, found = losses(net(), every), {}
    policy = wrap.ModuleWrapPolicy({Block})
    mesh = init_device_mesh("cpu", (1, size))
    sized = functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=50)
    for name, made, options in (
        ("FULL_SHARD", policy, {}),
        ("SHARD_GRAD_OP", policy, {}),
        ("NO_SHARD", policy, {}),
        ("HYBRID_SHARD", policy, {"device_mesh": mesh}),
        ("original", policy, {"use_orig_params": True}),
        ("sized", sized, {}),
        ("alone", None, {}),
    ):
        strategy = getattr(ShardingStrategy, name, ShardingStrategy.FULL_SHARD)
        model = flat(net(), made, sharding_strategy=strategy, **options)
        got = [mean(v) for v in losses(model, mine)]
        found[name] = max(abs(a - b) for a, b in zip(got, want, strict=True))
    whole = net()
    losses(whole, every, 2)
    model = flat(net(), policy)
    optimizer = facula.optim.AdamW(model.parameters(), lr=0.05)
    for x in mine[:2]:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    state = model.state_dict()
    found["names"] = list(state) == list(whole.state_dict())
    found["state"] = max((state[k] - v).abs().max().item() for k, v in whole.state_dict().items())
    optim = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    found["optim"] = [list(optim["state"]["1.first.weight"]["exp_avg"].shape), len(optim["state"])]
    other = flat(net(), policy, use_orig_params=True)
    with FullyShardedDataParallel.state_dict_type(other, StateDictType.FULL_STATE_DICT):
        other.load_state_dict(state)
    again = facula.optim.AdamW(other.parameters(), lr=0.05)
    losses(other, mine, 0)
    again.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(other, again, optim))
    after = []
    for one, its in ((model, optimizer), (other, again)):
        one(mine[2]).square().mean().backward()
        its.step()
        its.zero_grad()
        after.append(one.state_dict())
    found["resumed"] = max((after[0][k] - after[1][k]).abs().max().item() for k in after[0])
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        pieces = model.state_dict()
        found["pieces"] = [str(pieces["0.weight"].placements), list(pieces["0.weight"].shape)]
        model.load_state_dict({k: v * 2 if "weight" in k else v for k, v in pieces.items()})
    found["doubled"] = (
        (model.state_dict()["0.weight"] - 2 * after[0]["0.weight"]).abs().max().item()
    )
    with FullyShardedDataParallel.summon_full_params(model):
        names = [n for n, _ in model.named_parameters()]
        with facula.no_grad():
            for p in model.parameters():
                p.fill_(1.0)
    found["summoned"] = [names == list(dict(net().named_parameters())),
                         sum(v.sum().item() for v in model.state_dict().values())]  # fmt: skip
    whole = net()
    model = flat(net(), policy)
    whole(every[0]).square().mean().backward()
    model(mine[0]).square().mean().backward()
    with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
        pairs = zip(whole.parameters(), model.parameters(), strict=True)
        found["gradients"] = max((p.grad - q.grad).abs().max().item() for p, q in pairs)
    a = nn.utils.clip_grad_norm_(whole.parameters(), 0.1)
    found["norm"] = abs(a.item() - model.clip_grad_norm_(0.1).item())
    return found


def flats_more() -> Any:
    """Ties, meta devices, dtypes, no_sync, checkpoint wrappers, errors."""
    rank, size = begin()
    every, found = inputs(2), {}
    mine = every[:, 4 * rank : 4 * rank + 4]
    facula.manual_seed(0)
    tied = Tied().double()
    want = losses(tied, every, 2)
    facula.manual_seed(0)
    got = [mean(v) for v in losses(flat(Tied().double()), mine, 2)]
    found["tied"] = max(abs(a - b) for a, b in zip(got, want, strict=True))
    with facula.device("meta"):
        later = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    made = flat(later, sync_module_states=True)
    count = sum(p.numel() for p in made.parameters())
    found["meta"] = [list(made(facula.ones(1, 6)).shape), count]
    half = flat(net(), mixed_precision=MixedPrecision(facula.bfloat16, facula.float32))
    out = half(mine[0])
    out.float().square().mean().backward()
    flat_one = next(half.parameters())
    found["half"] = [str(out.dtype), str(flat_one.dtype), str(flat_one.grad.dtype)]
    whole = net()
    (whole(every[0]).square().mean() + whole(every[1]).square().mean()).backward()
    model = flat(net(), wrap.ModuleWrapPolicy({Block}))
    with model.no_sync():
        model(mine[0]).square().mean().backward()
    model(mine[1]).square().mean().backward()
    with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
        pairs = zip(whole.parameters(), model.parameters(), strict=True)
        found["added up"] = max((p.grad - q.grad).abs().max().item() for p, q in pairs)
    wrapped = net()
    apply_activation_checkpointing(wrapped, check_fn=lambda m: isinstance(m, Block))
    found["wrapped"] = list(wrapped.state_dict()) == list(net().state_dict())
    wrapped.load_state_dict(net().state_dict())
    model = flat(wrapped, wrap.ModuleWrapPolicy({Block}))
    want = losses(net(), every, 2)
    got = [mean(v) for v in losses(model, mine, 2)]
    found["again"] = max(abs(a - b) for a, b in zip(got, want, strict=True))
    found["names"] = list(model.state_dict()) == list(net().state_dict())
    found["hybrid"] = error_of(flat, net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD)
    return found


# ------------------------------------------------------------------ checkpoints


def state(size: int, mesh: Any, fill: bool) -> dict[str, Any]:
    """A state with tensors that lie in several ways."""
    whole = facula.arange(35.0).reshape(7, 5)
    cut = (
        distribute_tensor(whole, mesh, [Shard(0)])
        if fill
        else zeros(7, 5, device_mesh=mesh, placements=[Shard(1)])
    )
    return {
        "cut": cut, "plain": facula.arange(4) if fill else facula.zeros(4, dtype=facula.int64),
        "step": 17 if fill else 0, "inner": {"list": [facula.ones(2) * fill, {"x": fill}], "text": "t" * fill},
    }  # fmt: skip


def save_state() -> Any:
    rank, size = begin()
    folder = sys.argv[2]
    mesh = init_device_mesh("cpu", (size,))
    checkpoint.save(state(size, mesh, True), checkpoint_id=folder)
    dist.barrier()  # rank 0 may still take stale files away
    return sorted(n.split("_")[3] for n in os.listdir(folder) if n.startswith("__"))


def load_state() -> Any:
    rank, size = begin()
    folder = sys.argv[2]
    mesh = init_device_mesh("cpu", (size,))
    found = state(size, mesh, False)
    checkpoint.load(found, checkpoint_id=folder)
    whole = found["cut"].full_tensor()
    missing = error_of(checkpoint.load, {"other": facula.ones(1)}, checkpoint_id=folder)
    shape = error_of(checkpoint.load, {"plain": facula.ones(3)}, checkpoint_id=folder)
    inner = found["inner"]
    return [
        whole.tolist() == facula.arange(35.0).reshape(7, 5).tolist(), found["plain"].tolist(),
        found["step"], inner["list"][0].tolist(), inner["list"][1], inner["text"], missing, shape,
    ]  # fmt: skip


def training() -> Any:
    """A step, a checkpoint while training goes on, and the same steps again from there."""
    rank, size = begin()
    folder, every = sys.argv[2], inputs(4)
    mesh = init_device_mesh("cpu", (size,))

    def run(model: Any, optimizer: Any, batches: Any) -> list[float]:
        found = []
        for x in batches:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    model = sharded(mesh)
    optimizer = facula.optim.AdamW(model.parameters(), lr=0.05)
    run(model, optimizer, every[:2])
    held = {
        "model": states.get_model_state_dict(model),
        "optim": states.get_optimizer_state_dict(model, optimizer),
    }
    future = checkpoint.async_save(held, checkpoint_id=folder)
    want = run(model, optimizer, every[2:])
    future.result()
    other = sharded(mesh)
    again = facula.optim.AdamW(other.parameters(), lr=0.5)
    run(other, again, every[:1])
    held = {
        "model": states.get_model_state_dict(other),
        "optim": states.get_optimizer_state_dict(other, again),
    }
    checkpoint.load(held, checkpoint_id=folder)
    states.set_state_dict(
        other, again, model_state_dict=held["model"], optim_state_dict=held["optim"]
    )
    full = states.get_model_state_dict(other, options=states.StateDictOptions(full_state_dict=True))
    return [
        want,
        run(other, again, every[2:]),
        type(full["0.weight"]).__name__,
        again.param_groups[0]["lr"],
    ]


class Dies:
    """An entry whose rank goes away when it is written."""

    def __reduce__(self) -> Any:
        os._exit(9)


class Breaks:
    """An entry that can not be written."""

    def __reduce__(self) -> Any:
        raise OSError("no space left on this disk")


def broken() -> Any:
    rank, size = begin(60)
    folder = sys.argv[2]
    mesh = init_device_mesh("cpu", (size,))
    checkpoint.save(state(size, mesh, True), checkpoint_id=folder)
    changed = {**state(size, mesh, True), "step": 18}
    bad = {**changed, **({"mine": Breaks()} if rank == 1 else {})}
    found = [error_of(checkpoint.save, bad, checkpoint_id=folder)]
    dies = {**changed, **({"mine": Dies()} if rank == 1 else {})}
    found.append(error_of(checkpoint.save, dies, checkpoint_id=folder))
    again = {"step": 0, "plain": facula.zeros(4, dtype=facula.int64)}
    checkpoint.load(again, checkpoint_id=folder, no_dist=True)
    return [*found, again["step"], again["plain"].tolist()]


def hugging_face() -> Any:
    rank, size = begin()
    folder = sys.argv[2]
    mesh = init_device_mesh("cpu", (size,))
    given = {k: v for k, v in state(size, mesh, True).items() if k in ("cut", "plain")}
    writer = checkpoint.HuggingFaceStorageWriter(
        folder, save_distributed=True, enable_consolidation=True
    )
    checkpoint.save(given, storage_writer=writer)
    dist.barrier()
    found = []
    for source in (folder, os.path.join(folder, "sharded")):
        into = {k: v for k, v in state(size, mesh, False).items() if k in ("cut", "plain")}
        checkpoint.load(into, storage_reader=checkpoint.HuggingFaceStorageReader(source))
        whole = into["cut"].full_tensor().tolist()
        found.append(whole == facula.arange(35.0).reshape(7, 5).tolist())
    plain = checkpoint.HuggingFaceStorageWriter(folder + "-plain")
    error = error_of(checkpoint.save, given, storage_writer=plain)
    return [*found, "save_distributed=True" in error[1]]


def reshard() -> Any:
    """What lies on one mesh in one way is read on others in other ways."""
    rank, size = begin()
    folder = sys.argv[2]
    whole = facula.arange(7 * 6.0).reshape(7, 6)
    line, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    half = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))["b"]
    ways = [
        (line, [Shard(0)]), (line, [Shard(1)]), (square, [Shard(0), Shard(1)]),
        (square, [Shard(1), Replicate()]), (square, [Shard(0), Shard(0)]), (half, [Shard(1)]),
    ]  # fmt: skip
    found = []
    for number, (mesh, placements) in enumerate(ways):
        given = {"w": distribute_tensor(whole, mesh, placements)}
        checkpoint.save(given, checkpoint_id=folder)
        good = True
        for other in (number + 1, number + 3):
            mesh, placements = ways[other % len(ways)]
            into = {"w": zeros(7, 6, device_mesh=mesh, placements=placements)}
            checkpoint.load(into, checkpoint_id=folder)
            good = good and into["w"].full_tensor().tolist() == whole.tolist()
        dist.barrier()
        found.append(good)
    return found


def planners() -> Any:
    """Which rank a planner's methods are called on."""
    rank, size = begin()
    folder = sys.argv[2]
    asked: list[Any] = []

    class Told(checkpoint.DefaultSavePlanner):
        def create_global_plan(self, all_plans: Any) -> Any:
            asked.append(len(all_plans))
            return super().create_global_plan(all_plans)

    class Lowest(Told):
        def __init__(self) -> None:
            super().__init__(dedup_save_to_lowest_rank=True)

        def resolve_data(self, write_item: Any) -> Any:
            asked.append(write_item.index.fqn)
            return super().resolve_data(write_item)

    given = {"a": facula.ones(2), "b": facula.ones(3)}
    written = checkpoint.save(given, checkpoint_id=folder, planner=Lowest())
    own = [size in asked, asked == ([size, "a", "b"] if rank == 0 else [])]
    into = {"a": facula.zeros(2), "b": facula.zeros(3)}
    checkpoint.load(into, checkpoint_id=folder)
    return [
        sorted(written.state_dict_metadata), own, into["b"].tolist() == [1, 1, 1],
        len(written.storage_data),
    ]  # fmt: skip


class TiedWords(nn.Module):
    """A layer between two that share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.inner = nn.Embedding(8, 4), nn.Linear(4, 4)
        self.out = nn.Linear(4, 8, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.inner(self.words(x)))


def cut(model: Any) -> Any:
    for part in (model.inner, model):
        fully_shard(part)
    return model


def replaced() -> Any:
    """Parameters put in the place of pieces, on the meta device and behind a forward pass; drawn ones."""
    begin()
    facula.manual_seed(1)
    whole, x = TiedWords(), facula.arange(6)
    want = whole(x).detach()

    def assigned(model: Any) -> float:
        shown = model.state_dict()
        given = {
            name: nn.Parameter(
                distribute_tensor(value, shown[name].device_mesh, shown[name].placements)
            )
            for name, value in whole.state_dict().items()
        }
        model.load_state_dict(given, assign=True)
        return float((model(x) - want).abs().max())

    with facula.device("meta"):
        model = cut(TiedWords())
    found: dict[str, Any] = {"meta": assigned(model)}
    facula.manual_seed(2)
    model = cut(TiedWords())
    found["other before"] = float((model(x) - want).abs().max())
    found["behind forward"] = assigned(model)
    model.inner.weight = nn.Parameter(facula.ones(4, 4))
    found["whole"] = error_of(lambda: model.inner(facula.ones(1, 4)))
    with facula.device("meta"):
        model = cut(TiedWords())
    model.to_empty(device="cpu")
    facula.manual_seed(3)
    for part in (model.words, model.inner):
        part.reset_parameters()
    facula.manual_seed(3)
    for part in (whole.words, whole.inner):
        part.reset_parameters()
    found["drawn"] = float((model(x) - whole(x)).abs().max())
    return found


def alone() -> Any:
    rank, size = begin()
    folder = sys.argv[2]
    checkpoint.save(
        {"mine": facula.tensor([float(rank)])}, checkpoint_id=folder, use_collectives=False
    )
    into = {"mine": facula.tensor([9.0])}
    checkpoint.load(into, checkpoint_id=folder)
    return into["mine"].tolist()


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
