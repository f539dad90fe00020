"""What ranks do in `test_tensor_parallel.py`: each function's result is printed as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from joined import begin, error_of

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed.fsdp import fully_shard
from facula.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from facula.distributed.tensor.debug import CommDebugMode
from facula.distributed.tensor.events import forbid_gathering
from facula.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


class Attention(nn.Module):
    """Heads, some of which each rank has."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Any) -> Any:
        split = [m(x).unflatten(-1, (-1, 2)).transpose(1, 2) for m in (self.q, self.k, self.v)]
        made = nn.functional.scaled_dot_product_attention(*split, is_causal=True)
        return self.out(made.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.norm2 = nn.LayerNorm(8), Attention(), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm(x))
        return x + self.down(self.up(self.norm2(x)).relu())


class Model(nn.Module):
    """A language model."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layers = nn.Embedding(10, 8), nn.ModuleList([Layer(), Layer()])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def model() -> Any:
    facula.manual_seed(1)
    return Model().double()


def batch() -> Any:
    facula.manual_seed(2)
    return facula.randint(0, 10, (4, 6))


PLAN = {
    "layers.*.attention": PrepareModuleInput(
        input_layouts=Shard(1), desired_input_layouts=Replicate()
    ),
    "layers.*.attention.[qkv]": ColwiseParallel(),
    "layers.*.attention.out": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "layers.*.norm*": SequenceParallel(),
    "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "table": RowwiseParallel(
        input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False
    ),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


def trained(made: Any, tokens: Any, rows: Any, steps: int = 3) -> list[float]:
    optimizer = facula.optim.AdamW(made.parameters(), lr=0.01)
    found = []
    for _ in range(steps):
        scores = made(tokens[rows])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[rows].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def language_model() -> Any:
    rank, size = begin()
    tokens = batch()
    want = trained(model(), tokens, slice(0, 4))
    with forbid_gathering():
        made = parallelize_module(model(), init_device_mesh("cpu", (size,)), PLAN)
        got = trained(made, tokens, slice(0, 4))
    piece = made.layers[0].up.weight.to_local().shape
    return [max(abs(a - b) for a, b in zip(got, want, strict=True)), list(piece)]


def both() -> Any:
    """Tensor parallel, and pieces of the data-parallel dimension."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    tokens, row = batch(), mesh.get_local_rank("dp")
    want = trained(model(), tokens, slice(0, 4))
    made = parallelize_module(model(), mesh["tp"], PLAN)
    for layer in made.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(made, mesh=mesh["dp"])
    mine = trained(made, tokens, slice(2 * row, 2 * row + 2))
    means = facula.tensor(mine, dtype=facula.float64)
    dist.all_reduce(means, dist.ReduceOp.AVG)
    weight = made.layers[0].up.weight
    full = weight.full_tensor()
    reference = model()
    trained(reference, tokens, slice(0, 4))
    return [
        max(abs(a - b) for a, b in zip(means.tolist(), want, strict=True)), list(weight.to_local().shape),
        (full - reference.layers[0].up.weight).abs().max().item(), str(weight.placements),
    ]  # fmt: skip


def pieces() -> Any:
    """Collectives of a perceptron, losses of cut scores, errors."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (size,))
    found: dict[str, Any] = {}
    facula.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    x = facula.randn(3, 4)
    want = net(x)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(net, mesh, plan)
    with CommDebugMode() as mode, forbid_gathering():
        got = net(x)
    counts = {str(key): count for key, count in mode.get_comm_counts().items()}
    found["forward"] = [(got - want).abs().max().item(), counts]
    scores = facula.randn(5, 7, dtype=facula.float64).requires_grad_()
    target = facula.tensor([0, 6, -100, 3, 2])
    loss = nn.functional.cross_entropy(scores, target)
    loss.backward()
    cut = distribute_tensor(scores.detach(), mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        other = nn.functional.cross_entropy(cut, target)
        other.backward()
    found["loss"] = [abs(other.full_tensor().item() - loss.item()),
                     (cut.grad.full_tensor() - scores.grad).abs().max().item(), str(cut.grad.placements)]  # fmt: skip
    found["smooth"] = error_of(_smooth, cut, target)
    found["kind"] = error_of(parallelize_module, nn.LayerNorm(3), mesh, ColwiseParallel())
    found["plan"] = error_of(parallelize_module, net, mesh, [ColwiseParallel()])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        parallelize_module(net, mesh, {"nothing": ColwiseParallel()})
    found["told"] = str(told[0].message)
    out = parallelize_module(nn.Identity(), mesh, PrepareModuleOutput(
        output_layouts=Shard(0), desired_output_layouts=Replicate()))  # fmt: skip
    found["out"] = list(out(facula.ones(2, 3)).shape)
    with forbid_gathering():
        found["forbidden"] = error_of(
            facula.linalg.inv, distribute_tensor(facula.eye(4), mesh, [Shard(0)])
        )
    assert isinstance(cut, DTensor)
    return found


def _smooth(cut: Any, target: Any) -> None:
    with loss_parallel():
        nn.functional.cross_entropy(cut, target, label_smoothing=0.1)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
