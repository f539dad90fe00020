"""What ranks do in the tests of collectives that give new tensors, and of functions on pieces."""

from __future__ import annotations

import json
import sys
from typing import Any

from joined import begin

import facula
from facula import distributed as dist
from facula.distributed import _functional_collectives as collectives
from facula.distributed import init_device_mesh
from facula.distributed.tensor import DTensor, Replicate, Shard
from facula.distributed.tensor.experimental import local_map
from facula.distributed.traffic import counting


def told(call: Any) -> list[str]:
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def functions() -> Any:
    rank, size = begin()
    world, ranks, mesh = dist.group.WORLD, list(range(size)), init_device_mesh("cpu", (size,))
    x = facula.arange(4.0).reshape(2, 2) + 10 * rank
    found: dict[str, Any] = {}
    for name, group in {"group": world, "ranks": ranks, "lists": [ranks], "mesh": mesh, "dim": (mesh, 0),
                        "name": world.group_name}.items():  # fmt: skip
        found[name] = collectives.all_reduce(x, "sum", group).tolist()
    found["untouched"] = x.tolist()
    found["max"] = collectives.all_reduce(x, "MAX", world).tolist()
    found["rows"] = collectives.all_gather_tensor(x, 0, world).tolist()
    found["columns"] = collectives.all_gather_tensor(x, 1, world).tolist()
    found["scattered"] = collectives.reduce_scatter_tensor(x, "sum", 1, world).tolist()
    found["broadcast"] = collectives.broadcast(x, 1, world).tolist()
    found["moved"] = collectives.permute_tensor(x, [1, 0], world).tolist()
    found["exchanged"] = collectives.all_to_all_single(x, None, None, world).tolist()
    found["each"] = [t.tolist() for t in collectives.all_reduce_coalesced([x, x], "sum", world)]
    ops = facula.ops._c10d_functional
    whole = ops.wait_tensor(ops.all_gather_into_tensor(x, size, world.group_name))
    found["operator"] = whole.tolist()
    found["older"] = facula.ops.c10d_functional.all_reduce(x, "sum", "", ranks, size).tolist()
    y = facula.ones(2, requires_grad=True)
    (collectives.all_reduce(y, "sum", world) * (rank + 1)).sum().backward()
    found["gradient"] = y.grad.tolist()
    found["way"] = told(lambda: collectives.all_reduce(x, "mean", world))
    found["no group"] = told(lambda: collectives.all_reduce(x, "sum", "nobody"))
    found["odd"] = told(lambda: collectives.reduce_scatter_tensor(facula.ones(3), "sum", 0, world))
    return found


def compiled() -> Any:
    """Rank 1 runs what rank 0 does in a compiled program, which it traces when rank 0 is in a collective already."""
    rank, size = begin(60)
    world = dist.group.WORLD
    sizes = [[1, 2], [2, 1]]

    def run(x: Any) -> Any:
        y = 2 * x
        return (
            collectives.all_reduce(y, "sum", world) + 1,
            collectives.all_reduce(y, "avg", world.group_name) + 1,
            collectives.broadcast(y, 1, world) + 1,
            collectives.all_gather_tensor(y, 0, world) + 1,
            collectives.all_gather_tensor(3 * x, 1, world) + 1,
            collectives.reduce_scatter_tensor(y, "sum", 1, world) + 1,
            collectives.all_to_all_single(y, [sizes[0][rank], sizes[1][rank]], sizes[rank], world)
            + 1,
        )

    found: dict[str, Any] = {}
    for backend in ("aot_eager", "inductor"):
        call = facula.compile(run, fullgraph=True, backend=backend)
        x = facula.arange(12.0).reshape(3, 4) + 100 * rank
        with counting() as traffic:
            results = (call if rank else run)(x)
        found[backend] = [y.tolist() for y in results]
        found[f"{backend} count"] = traffic.total().count
        x.requires_grad_()  # the order of the backward pass is the compiler's: on all ranks
        results = call(x)
        sum((y * (number + rank + 1)).sum() for number, y in enumerate(results)).backward()
        found[f"{backend} gradient"] = x.grad.tolist()
    return found


def pieces() -> Any:
    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    rows = DTensor.from_local(facula.full((2, 3), rank + 1.0), mesh, [Shard(0)])
    scale = DTensor.from_local(facula.full((3,), 2.0), mesh, [Replicate()])
    shapes: list[Any] = []

    def product(x: Any, y: Any) -> Any:
        shapes.append([list(x.shape), type(x).__name__])
        return x * y, x.sum()

    mapped = local_map(product, ([Shard(0)], None), ([Shard(0)], [Replicate()]))
    out = told(lambda: mapped(rows, scale))
    one = local_map(lambda x, y: x * y, [Shard(0)], ([Shard(0)], [Replicate()]))
    made = one(rows, scale)
    strict = told(lambda: one(scale, scale))
    moved = local_map(lambda x: x + rank, [Shard(0)], ([Shard(0)],), redistribute_inputs=True)(
        DTensor.from_local(facula.zeros(4), mesh, [Replicate()])
    )
    plain = local_map(lambda x: x + 1, [Shard(0)])(facula.ones(2))
    return {
        "shapes": shapes, "out": out, "made": made.full_tensor().tolist(), "strict": strict,
        "moved": moved.full_tensor().tolist(), "plain": [type(plain).__name__, plain.tolist()],
        "few": told(lambda: local_map(lambda x: x, [Shard(0)], ([Shard(0)],))(rows, rows)),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
