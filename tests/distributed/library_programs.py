"""What ranks do in `test_library_names.py`: each function's result is printed as JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from joined import begin, error_of

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed import checkpoint, distributed_c10d
from facula.distributed import utils as wrapping
from facula.distributed._shard import sharded_tensor
from facula.distributed._shard.sharding_spec import ChunkShardingSpec
from facula.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from facula.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)
from facula.distributed.checkpoint import _consolidate_hf_safetensors as consolidation
from facula.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from facula.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from facula.distributed.checkpoint.state_dict_loader import _load_state_dict
from facula.distributed.fsdp import FullyShardedDataParallel, OptimStateKeyType, StateDictType, wrap
from facula.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from facula.distributed.optim import PostLocalSGDOptimizer
from facula.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from facula.serialization.safetensors import load_file


def net() -> Any:
    facula.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def flat(**options: Any) -> Any:
    return FullyShardedDataParallel(
        net(), auto_wrap_policy=wrap.ModuleWrapPolicy({nn.Linear}), **options
    )


def stepped(model: Any) -> Any:
    optimizer = facula.optim.Adam(model.parameters(), lr=0.1)
    facula.manual_seed(5)
    model(facula.randn(4, 6, dtype=facula.float64)).square().mean().backward()
    optimizer.step()
    return optimizer


def apart(one: Any, other: Any) -> float:
    """How far the moments of two named states are from each other."""
    return max(
        float((one[name][key] - other[name][key]).abs().max())
        for name in other
        for key in ("exp_avg", "exp_avg_sq")
    )


def optimizers() -> Any:
    """States of optimizers over flat units, under names and numbers."""
    rank, _ = begin()
    plain = net()
    alone = stepped(plain).state_dict()
    named = {name: alone["state"][i] for i, (name, _) in enumerate(plain.named_parameters())}
    found: dict[str, Any] = {}
    for original in (False, True):
        model = flat(use_orig_params=original)
        optimizer = stepped(model)
        kind = FullyShardedDataParallel
        whole = kind.full_optim_state_dict(model, optimizer, rank0_only=False)
        found[f"{original} full"] = apart(whole["state"], named)
        only = kind.full_optim_state_dict(model, optimizer)
        found[f"{original} first only"] = bool(only)
        sharded = kind.sharded_optim_state_dict(model, optimizer)
        kinds = {type(s["exp_avg"]).__name__ for s in sharded["state"].values()}
        numbered = kind.rekey_optim_state_dict(whole, OptimStateKeyType.PARAM_ID, model)
        found[f"{original} numbers"] = [
            list(numbered["state"]),
            numbered["param_groups"][0]["params"],
        ]
        again = kind.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, plain)
        found[f"{original} back"] = apart(again["state"], named)
        for name, made in (
            ("sharded", kind.flatten_sharded_optim_state_dict(sharded, model, optimizer)),
            ("shard", kind.shard_full_optim_state_dict(numbered, model, optim=optimizer)),
            ("scatter", kind.scatter_full_optim_state_dict(only or None, model, optim=optimizer)),
        ):
            fresh = facula.optim.Adam(model.parameters(), lr=0.1)
            fresh.load_state_dict(made)
            loaded = kind.full_optim_state_dict(model, fresh, rank0_only=False)
            found[f"{original} {name}"] = apart(loaded["state"], named)
        found[f"{original} kinds"] = sorted(kinds)
    bad = {"state": {99: {}}, "param_groups": [{"params": [99]}]}
    found["unknown"] = error_of(
        FullyShardedDataParallel.rekey_optim_state_dict, bad, OptimStateKeyType.PARAM_NAME, net()
    )
    return found


def scaling() -> Any:
    """One rank's gradient overflows: no rank steps, and all scales shrink."""
    rank, _ = begin()
    found: list[Any] = []
    for overflow in (False, True):
        weight = nn.Parameter(facula.ones(2))
        optimizer = facula.optim.SGD([weight], lr=1.0)
        scaler = ShardedGradScaler("cpu", init_scale=4.0, growth_interval=1)
        factor = float("inf") if overflow and rank == 1 else 0.25
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append([weight.detach().tolist(), scaler.get_scale()])
    # a rank without any gradient of its own decides as the others do
    weight = nn.Parameter(facula.ones(2))
    optimizer = facula.optim.SGD([weight], lr=1.0)
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    loss = scaler.scale((weight * 0.25).sum())
    if rank == 0:
        loss.backward()
    scaler.step(optimizer)
    scaler.update()
    found.append([weight.detach().tolist(), scaler.get_scale()])
    return found


def emptied(value: Any) -> Any:
    """A distributed tensor of zeros, cut as another one."""
    local, mesh = facula.zeros_like(value.to_local()), value.device_mesh
    return DTensor.from_local(
        local, mesh, value.placements, shape=value.shape, stride=value.stride()
    )


def saved() -> Any:
    """A model and its optimizer are saved in pieces and read again in pieces."""
    begin()
    folder = sys.argv[2]
    model = flat()
    optimizer = stepped(model)
    kind = FullyShardedDataParallel
    with kind.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = {"model": model.state_dict(), "optim": kind.optim_state_dict(model, optimizer)}
        checkpoint.save(state, checkpoint_id=folder)
        other = model.state_dict()
        reader = checkpoint.FileSystemReader(folder)
        read = load_sharded_optimizer_state_dict(other, "optim", reader)
        fresh = facula.optim.Adam(model.parameters(), lr=0.7)
        fresh.load_state_dict(kind.optim_state_dict_to_load(model, fresh, read["optim"]))
        unknown = error_of(load_sharded_optimizer_state_dict, other, "optimizer", reader)
        weights = {"model": {name: emptied(value) for name, value in other.items()}}
        _load_state_dict(weights, storage_reader=checkpoint.FileSystemReader(folder))
    want = kind.full_optim_state_dict(model, optimizer, rank0_only=False)["state"]
    got = kind.full_optim_state_dict(model, fresh, rank0_only=False)["state"]
    kinds = {type(s["exp_avg"]).__name__ for s in read["optim"]["state"].values()}
    steps = [float(s["step"]) for s in got.values()]
    far = max(
        float((weights["model"][k].full_tensor() - other[k].full_tensor()).abs().max())
        for k in other
    )
    return [apart(got, want), sorted(kinds), steps, fresh.param_groups[0]["lr"], unknown, far]


def consolidated() -> Any:
    """Pieces of many ranks become whole files, by one process or by all."""
    rank, size = begin()
    base = sys.argv[2]
    mesh = init_device_mesh("cpu", (size,))
    whole = {"a": facula.arange(15.0).view(5, 3), "b": facula.arange(7.0)}
    state = {k: distribute_tensor(v, mesh, [Shard(0)]) for k, v in whole.items()}
    pieces = os.path.join(base, "pieces")
    writer = HuggingFaceStorageWriter(pieces, {"a": 1, "b": 2}, save_distributed=True)
    checkpoint.save(state, storage_writer=writer)
    numbers = {"a": 1, "b": 2}
    if rank == 0:
        consolidation.consolidate_safetensors_files(
            pieces, os.path.join(base, "one"), numbers, num_threads=2
        )
    consolidation.consolidate_safetensors_files_on_every_rank(
        pieces, os.path.join(base, "all"), numbers
    )
    dist.barrier()
    found: dict[str, Any] = {}
    for name in ("one", "all"):
        folder = os.path.join(base, name)
        read = {}
        for file in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
            read |= {k: v.tolist() for k, v in load_file(os.path.join(folder, file)).items()}
        with open(os.path.join(folder, "model.safetensors.index.json")) as stream:
            found[name] = [read == {k: v.tolist() for k, v in whole.items()}, json.load(stream)]
    found["unknown"] = error_of(
        consolidation.consolidate_safetensors_files, pieces, os.path.join(base, "no"), {"z": 1}
    )
    dist.barrier()
    if rank == 0:
        lost = next(f for f in sorted(os.listdir(pieces)) if f.endswith(".safetensors"))
        os.remove(os.path.join(pieces, lost))
        found["lost"] = error_of(
            consolidation.consolidate_safetensors_files, pieces, os.path.join(base, "no"), {"a": 1}
        )
    return found


def wrapped() -> Any:
    """What wrappers of modules share."""
    rank, _ = begin()
    group = dist.group.WORLD
    facula.manual_seed(rank)
    model = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 300, dtype=facula.float64)
    )
    model[1].running_mean.fill_(float(rank))
    kept = model[0].bias.detach().clone()
    wrapping._sync_module_states(model, group, 1024, 0, {"0.bias"})
    facula.manual_seed(0)
    want = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 300, dtype=facula.float64)
    )
    same = [
        bool((p == q).all())
        for (n, p), (_, q) in zip(model.named_parameters(), want.named_parameters(), strict=True)
        if n != "0.bias"
    ]
    wrapping._verify_param_shape_across_processes(group, list(model.parameters()))
    uneven = [facula.ones(2), facula.ones(3 + rank)]
    return {
        "same": all(same),
        "kept": bool((kept == model[0].bias).all()),
        "mean": model[1].running_mean.tolist(),
        "uneven": error_of(wrapping._verify_param_shape_across_processes, group, uneven),
    }


def groups() -> Any:
    """The tables of groups, and options."""
    rank, size = begin()
    table = distributed_c10d._pg_map
    found: dict[str, Any] = {
        "one": [len(table), dist.group.WORLD in table, table[dist.group.WORLD][0]]
    }
    few = dist.new_group([0])
    found["two"] = [
        len(table),
        few in table,
        distributed_c10d._world.default_pg is dist.group.WORLD,
    ]
    found["ranks"] = sorted(distributed_c10d._pg_group_ranks[dist.group.WORLD].items())
    lists = [[facula.zeros(2), facula.zeros(1)] for _ in range(size)]
    mine = [facula.full((2,), float(rank)), facula.full((1,), 10.0 + rank)]
    work = distributed_c10d.all_gather_coalesced(lists, mine, async_op=True)
    work.wait()
    found["gathered"] = [[t.tolist() for t in one] for one in lists]
    found["short"] = error_of(distributed_c10d.all_gather_coalesced, lists[:1], mine)
    found["config"] = distributed_c10d.get_backend_config()
    out = facula.zeros(2 * size)
    distributed_c10d.all_gather_single(out, mine[0])
    found["single"] = out.tolist()
    dist.destroy_process_group()
    found["none"] = [len(table), few in table]
    return found


def averaging() -> Any:
    """Parameters drift apart and are averaged among two, then among all."""
    rank, size = begin()
    weight = nn.Parameter(facula.tensor([float(rank)]))
    weight.grad = facula.zeros(1)
    averager = HierarchicalModelAverager({1: 2, 2: size}, warmup_steps=1)
    seen = []
    for _ in range(4):
        weight.data.fill_(float(rank))
        averager.average_parameters([weight])
        seen.append(weight.item())
    bad = [
        error_of(HierarchicalModelAverager, {1: 2}),
        error_of(HierarchicalModelAverager, {2: 2, 3: size}),
        error_of(HierarchicalModelAverager, {1: size, 2: size}),
    ]
    local = PostLocalSGDOptimizer(
        facula.optim.SGD([weight], lr=1.0, momentum=0.5), PeriodicModelAverager(2)
    )
    weights = []
    weight.data.fill_(0.0)
    for _ in range(3):
        local.zero_grad()
        (weight * float(rank + 1)).sum().backward()
        local.step()
        weights.append(weight.item())
    state = local.state_dict()
    again = PostLocalSGDOptimizer(facula.optim.SGD([weight], lr=9.0), PeriodicModelAverager(2))
    again.load_state_dict(state)
    told = [again.averager.step, again.param_groups[0]["lr"], len(again.state)]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        again.load_state_dict(facula.optim.SGD([weight], lr=2.0).state_dict())
    return {"seen": seen, "bad": bad, "weights": weights, "told": told,
            "anew": [again.averager.step, len(heard)]}  # fmt: skip


def pieces() -> Any:
    """Tensors of pieces: whole again, in checkpoints, and what is refused on both ranks."""
    rank, size = begin()
    base, whole = sys.argv[2], facula.arange(15.0).reshape(5, 3)
    cut = ChunkShardingSpec(0, [f"rank:{r}/cpu" for r in range(size)])
    rows = sharded_tensor.empty(cut, 5, 3)
    for piece in rows.local_shards():
        start = piece.metadata.shard_offsets[0]
        piece.tensor.copy_(whole[start : start + len(piece.tensor)])
    out = facula.empty(5, 3) if rank == 1 else None
    rows.gather(1, out)
    kept, late = os.path.join(base, "kept"), os.path.join(base, "late")
    checkpoint.save({"t": rows}, checkpoint_id=kept)
    saving = checkpoint.async_save({"t": rows}, checkpoint_id=late)
    rows.local_tensor().zero_()
    saving.result()
    read = [{"t": facula.zeros(5, 3)} for _ in range(2)]
    for state, place in zip(read, (kept, late), strict=True):
        checkpoint.load(state, checkpoint_id=place)
    made = sharded_tensor.Shard.from_tensor_and_offsets
    begins, ends = ((2, 3), (0, 2))[rank]  # columns
    columns = [made(facula.zeros(5, ends - begins), [0, begins], rank)]
    joined = sharded_tensor.init_from_local_shards(columns, 5, 3)
    checkpoint.load({"t": joined}, checkpoint_id=kept)
    join = sharded_tensor.init_from_local_shards
    same = [made(facula.zeros(5, 3), [0, 0], rank)]
    other = [
        made(
            facula.zeros(5, ends - begins).to(facula.int64 if rank else facula.int32),
            [0, begins],
            rank,
        )
    ]
    return {
        "whole": None if out is None else out.tolist(),
        "read": [state["t"].tolist() for state in read],
        "columns": columns[0].tensor.tolist(),
        "bad": [error_of(join, columns, 5, 4), error_of(join, columns, 5, 3 + rank), error_of(join, same, 5, 3),
                error_of(join, other, 5, 3), error_of(joined.gather, 0)],
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
