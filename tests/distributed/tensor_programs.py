"""What ranks do in `test_tensor_rules.py`: each function's result is printed as JSON."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import sys
from typing import Any

import facula
from facula import distributed as dist
from facula.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)
from facula.distributed.tensor.collective_utils import redistribute_cost
from facula.distributed.tensor.debug import CommDebugMode
from facula.distributed.tensor.events import gathered
from facula.distributed.tensor.experimental import register_sharding
from facula.distributed.tensor.placement_types import _StridedShard
from facula.distributed.tensor.specs import DTensorSpec, TensorMeta

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops"))


def begin(seconds: float = 60) -> tuple[int, int]:
    """Join the world."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()


def placed(tensor: Any, mesh: Any, placement: Any) -> Any:
    """A whole tensor under a placement; as parts of a sum, each rank has another part."""
    if not isinstance(placement, Partial):
        return distribute_tensor(tensor.detach(), mesh, [placement], src_data_rank=None)
    share = tensor.detach() * (0.25 if mesh.get_local_rank() else 0.75)
    return DTensor.from_local(share, mesh, [placement])


def choices(tensor: Any, few: bool) -> list[Any]:
    """Placements to try."""
    found: list[Any] = [Shard(d) for d in range(tensor.dim())] + [Replicate()]
    if tensor.is_floating_point() or tensor.is_complex():
        found.append(Partial())
    return found[:2] + found[-1:] if few else found


def flat(value: Any) -> list[Any]:
    from facula.fx._pytree import tree_leaves

    return [v for v in tree_leaves(value) if isinstance(v, facula.Tensor)]


def close(got: Any, want: Any) -> bool:
    got = got.full_tensor() if isinstance(got, DTensor) else got
    return got.shape == want.shape and got.dtype is want.dtype and facula.allclose(
        got.to(facula.complex128 if got.is_complex() else facula.float64),
        want.to(facula.complex128 if want.is_complex() else facula.float64),
        1e-4, 1e-5, equal_nan=True,
    )  # fmt: skip


def definitions() -> Any:
    """Every sample of every definition with a rule, under placements of its tensors."""
    from operator_cases import Samples, calls

    from facula.fx._pytree import tree_map
    from facula.ops.table.registry import own_operators

    begin(60)
    mesh = init_device_mesh("cpu", (2,))
    part, parts = int(sys.argv[2]), int(sys.argv[3])
    chosen = [op for _, op in sorted(own_operators().items()) if _ruled(op)]
    wrong, count, pieces = [], 0, set()
    for op in chosen[part::parts]:
        definition = op.definition
        facula.manual_seed(0)
        samples = calls(definition.name, Samples())
        for args, kwargs in samples[: 2 if definition.kind == "pointwise" else 4]:
            tensors = flat((args, kwargs))
            many = len(tensors) > 1 or definition.kind == "pointwise"
            ways = itertools.product(*(choices(t, many) for t in tensors))
            want = flat(op(*args, **kwargs))
            for way in itertools.islice(ways, 40):
                place = iter(way)
                before = sum(gathered.values())
                given = tree_map(
                    lambda v, place=place: placed(v, mesh, next(place))
                    if isinstance(v, facula.Tensor) else v, (args, kwargs)
                )  # fmt: skip
                try:
                    got = flat(op(*given[0], **given[1]))
                except Exception as error:
                    error.add_note(f"{definition.name} of {way}")
                    raise
                count += 1
                if len(got) != len(want) or not all(map(close, got, want)):
                    if definition.name not in ("empty_like", "new_empty"):
                        wrong.append([definition.name, str(way)])
                elif sum(gathered.values()) == before:
                    pieces.add(definition.name)
    every = [op.definition.name for op in chosen[part::parts]]
    return [wrong[:20], count, sorted(set(every) - pieces)]


def drawn() -> Any:
    """Random numbers in place under each placement: how they differ from those of one process."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    probabilities = facula.linspace(0.1, 0.9, 15).reshape(5, 3)
    ways = {
        "normal_": lambda x: x.normal_(1.0, 2.0), "uniform_": lambda x: x.uniform_(-1, 3),
        "exponential_": lambda x: x.exponential_(), "random_": lambda x: x.random_(0, 100),
        "bernoulli_": lambda x: x.bernoulli_(0.3), "cauchy_": lambda x: x.cauchy_(),
        "log_normal_": lambda x: x.log_normal_(), "geometric_": lambda x: x.geometric_(0.4),
        "each": lambda x: x.bernoulli_(
            distribute_tensor(probabilities, mesh, x.placements) if isinstance(x, DTensor) else probabilities
        ),
        "normal init": facula.nn.init.normal_, "kaiming": facula.nn.init.kaiming_uniform_,
        "truncated": facula.nn.init.trunc_normal_, "data": lambda x: x.data.normal_(),
    }  # fmt: skip
    wrong = []
    for name, draw in ways.items():
        facula.manual_seed(5)
        want = facula.zeros(5, 3)
        draw(want)
        for placement in (Shard(0), Shard(1), Replicate()):
            facula.manual_seed(5)
            x = distribute_tensor(facula.zeros(5, 3), mesh, [placement])
            draw(x)
            if type(x) is not DTensor or not facula.equal(x.full_tensor(), want):
                wrong.append(f"{name} {placement}")
    return wrong, type(x.data).__name__


def registered() -> Any:
    """An operator of a program under a rule that it registers: results, placements, and what was gathered."""
    _, size = begin()
    mesh = init_device_mesh("cpu", (size,))

    @facula.library.custom_op("shards::scaled", mutates_args=())
    def scaled(x: facula.Tensor, weight: facula.Tensor, by: float) -> facula.Tensor:
        return x @ weight * by

    @scaled.register_fake
    def _(x: Any, weight: Any, by: float) -> Any:
        return x.new_empty(x.shape[0], weight.shape[1])

    seen = []

    @register_sharding(facula.ops.shards.scaled.default)
    def rule(x: Any, weight: Any, by: float) -> Any:
        seen.append([x.ndim, list(weight.shape), by])
        return [
            ([Replicate()], [Replicate(), Replicate(), None]),
            ([Shard(0)], [Shard(0), Replicate(), None]),
            ([Shard(1)], [Replicate(), Shard(1), None]),
            ([Partial()], [Shard(1), Shard(0), None]),
        ]

    facula.manual_seed(0)
    found = []
    for rows in (4, 3):
        x, weight = facula.randn(rows, 6), facula.randn(6, 8)
        want = x @ weight * 0.5
        for left, right in itertools.product((Shard(0), Shard(1), Replicate()), repeat=2):
            before = sum(gathered.values())
            one, two = distribute_tensor(x, mesh, [left]), distribute_tensor(weight, mesh, [right])
            made = facula.ops.shards.scaled(one, two, 0.5)
            exact = (
                facula.allclose(made.full_tensor(), want, atol=1e-6) and made.shape == want.shape
            )
            found.append([rows, short(left), short(right), short(made.placements[0]), exact,
                          sum(gathered.values()) - before])  # fmt: skip
    return found, seen[0], error_type(register_sharding, print)


def made() -> Any:
    """Distributed tensors by their parts, and what making and moving them sends."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    ops, found = facula.ops, {}
    whole = facula.arange(15.0).view(5, 3)
    with CommDebugMode() as mode:
        cut = distribute_tensor(whole + rank, mesh, [Shard(0)])
        same = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
    counts = mode.get_comm_counts()
    found["sent"] = [counts[ops.c10d.scatter_], mode.get_total_counts(), counts["scatter"]]
    found["cut"] = facula.equal(cut.to_local(), same.to_local())
    with CommDebugMode() as mode:
        cut.redistribute(placements=[Replicate()])
        facula.distributed.all_reduce(facula.ones(2))
    counts = mode.get_comm_counts()
    found["moved"] = [
        counts[ops.c10d_functional.all_gather_into_tensor],
        counts[ops.c10d.allreduce_],
    ]
    part = distribute_tensor(whole, mesh, [Partial()])
    found["part"] = [float(part.to_local().sum()), float(part.full_tensor().sum())]
    spec = DTensorSpec(mesh, (Shard(0),), TensorMeta(facula.Size([5, 3]), (3, 1), facula.float32))
    other = DTensor(same.to_local(), spec, requires_grad=True)
    (other * 2).full_tensor().sum().backward()
    found["leaf"] = [other.is_leaf, other.grad.to_local().flatten()[0].item(), other._spec == spec]
    found["spec"] = [spec.dim_map, spec.num_shards, spec.num_shards_map, spec.sums, str(spec)]
    half = cut.redistribute(placements=[Replicate()], forward_dtype=facula.bfloat16)
    found["half"] = str(half.dtype)
    found["texts"] = [str(Shard(1)), repr(Partial()), str(_StridedShard(0, split_factor=2))]
    strided = _StridedShard(0, split_factor=2)._split_tensor(facula.arange(8), 2)[0]
    found["strided"] = [piece.tolist() for piece in strided]
    local = facula.ones(2, 2, requires_grad=True)
    DTensor.from_local(local, mesh, [Replicate()], grad_placements=[Partial()]).sum().backward()
    found["grad"] = local.grad.tolist()
    cost = [redistribute_cost(spec, DTensorSpec(mesh, (p,), spec.tensor_meta)) for p in
            (Shard(0), Replicate(), Partial())]  # fmt: skip
    found["cost"] = [cost[0], cost[1] > 0, str(cost[2])]
    found["errors"] = [
        error_type(cut.redistribute), error_type(distribute_tensor, cut, mesh, [Replicate()]),
        error_type(distribute_tensor, facula.ones(2, requires_grad=True) * 2, mesh),
        error_type(DTensor.from_local, cut, mesh), error_type(distribute_tensor, whole, mesh, [Partial("product")]),
    ]  # fmt: skip
    return found


def short(placement: Any) -> str:
    """`S0`, `R` or `P`."""
    return type(placement).__name__[0] + str(getattr(placement, "dim", ""))


def error_type(run: Any, *args: Any) -> str:
    """The type of what a call raises."""
    try:
        run(*args)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return "none"


def _ruled(op: Any) -> bool:
    definition = op.definition
    pointwise = definition.kind == "pointwise" and not definition.random
    ruled = definition.shards is not None and definition.samples is not None
    floats = pointwise and "float" in definition.dtypes.split()
    return ruled or (floats and definition.names != ())


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
