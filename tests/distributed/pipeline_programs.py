"""What ranks do in `test_pipelining.py`: each function's result is printed as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from joined import begin, error_of

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed.device_mesh import init_device_mesh
from facula.distributed.fsdp import fully_shard
from facula.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    pipe_split,
    pipeline,
)
from facula.distributed.pipelining.microbatch import TensorChunkSpec
from facula.distributed.pipelining.orders import stage_ranks
from facula.distributed.pipelining.schedules import get_schedule_class

WIDTH = 6


class Part(nn.Module):
    """A part with two weights, a bias, a norm, and a weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Any) -> Any:
        x = x + self.two(self.norm(self.one(x)).tanh())
        return self.two(x).sin() + x


def parts(count: int) -> list[Part]:
    facula.manual_seed(7)
    return [Part().double() for _ in range(count)]


def loss_of(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


def batch() -> tuple[Any, Any]:
    facula.manual_seed(3)
    return facula.randn(8, WIDTH, dtype=facula.float64), facula.randn(
        8, WIDTH, dtype=facula.float64
    )


def wanted(count: int, steps: int = 1) -> tuple[float, list[list[Any]], Any]:
    """Loss, gradients of each part and output in one process."""
    whole = nn.Sequential(*parts(count))
    x, y = batch()
    for _ in range(steps):
        output = whole(x)
        loss = loss_of(output, y)
        loss.backward()
    return float(loss), [[p.grad for p in part.parameters()] for part in whole], output.detach()


def ran(
    name: str, each: int, microbatches: int, wrap: Any = None, steps: int = 1, **options: Any
) -> list[Any]:
    """A schedule with `each` stages on each rank, against one process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    style = "v" if name in ("ZBVZeroBubble", "DualPipeV") else "loop"
    count = each * size
    where = stage_ranks(size, count, style)
    mine = [s for s in range(count) if where[s] == rank]
    every = parts(count)
    held = {s: every[s] for s in mine}
    stages = [PipelineStage((wrap or (lambda m: m))(held[s]), s, count, "cpu") for s in mine]
    kind = get_schedule_class(name)
    schedule = kind(stages if each > 1 else stages[0], microbatches, loss_fn=loss_of)
    if "file" in options:
        schedule._dump_csv(f"{options['file']}{rank}", options["format"])
        schedule._load_csv(f"{options['file']}{rank}", options["format"])
    x, y = batch()
    losses: list[Any] = []
    for _ in range(steps):
        output = schedule.step(
            *([x] if 0 in mine else []), target=y if count - 1 in mine else None, losses=losses
        )
    loss, gradients, result = wanted(count, steps)
    found = True
    for s, module in held.items():
        for p, want in zip(module.parameters(), gradients[s], strict=True):
            got = p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
            found = found and bool((got - want).abs().max() < 1e-10)
    if count - 1 in mine:
        found = found and bool((output - result).abs().max() < 1e-12)
        found = found and abs(sum(map(float, losses)) / microbatches - loss) < 1e-12
    else:
        found = found and output is None and losses == []
    return [name, microbatches, found]


def schedules() -> Any:
    begin()
    found = []
    for name, each in (
        ("GPipe", 1), ("1F1B", 1), ("LoopedBFS", 2), ("Interleaved1F1B", 2), ("Interleaved1F1B", 3),
        ("InterleavedZeroBubble", 2), ("ZBVZeroBubble", 2), ("DualPipeV", 2),
    ):  # fmt: skip
        for microbatches in (4, 8):
            found.append(ran(name, each, microbatches, steps=2))
    return found


def files() -> Any:
    begin()
    found = []
    for name, each in (
        ("1F1B", 1),
        ("InterleavedZeroBubble", 2),
        ("ZBVZeroBubble", 2),
        ("DualPipeV", 2),
    ):
        for form in ("compute_only", "compute_comms"):
            file = f"{sys.argv[2]}/{name}-{form}"
            found.append(ran(name, each, 4, file=file, format=form))
    return found


def wrapped() -> Any:
    """Stages that are copied, or cut, along another dimension of a mesh."""
    rank, size = begin()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stage"))
    group, own = mesh["stage"].get_group(), mesh["stage"].get_local_rank()
    found = []
    for kind in ("ddp", "fsdp"):
        module = parts(2)[own]
        given = (
            nn.parallel.DistributedDataParallel(module, process_group=mesh["data"].get_group())
            if kind == "ddp"
            else fully_shard(module, mesh=mesh["data"])
        )
        stage = PipelineStage(given, own, 2, "cpu", group=group)
        x, y = batch()
        half = slice(0, 4) if mesh["data"].get_local_rank() == 0 else slice(4, 8)
        for schedule in (ScheduleGPipe, Schedule1F1B):
            module.zero_grad()
            schedule(stage, 2, loss_fn=loss_of).step(
                *([x[half]] if own == 0 else []), target=y[half]
            )
            _, gradients, _ = wanted(2)
            for p, want in zip(module.parameters(), gradients[own], strict=True):
                got = p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
                found.append(bool((got - want).abs().max() < 1e-10))
    return found


class Marked(nn.Module):
    """A module whose forward says where it may be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = self.one(x).relu()
        pipe_split()
        return self.two(x)


def cut() -> Any:
    """`pipeline` with marks in the forward; arguments that are cut along other dimensions; errors."""
    rank, size = begin()
    facula.manual_seed(1)
    module = Marked()
    x = facula.randn(6, 3)
    pipe = pipeline(module, (x[:2],))
    stage = pipe.build_stage(rank, "cpu")
    output = ScheduleGPipe(stage, 3).step(*([x] if rank == 0 else []))
    found = [pipe.num_stages, pipe.info().num_stages]
    found.append(rank == 0 or bool((output - module(x)).abs().max() < 1e-6))
    other = PipelineStage(nn.Linear(3, 3) if rank == 0 else nn.Identity(), rank, 2, "cpu")
    spec = {"args_chunk_spec": (TensorChunkSpec(1),), "output_merge_spec": TensorChunkSpec(1)}
    wide = facula.randn(2, 6, 3)
    given = ScheduleGPipe(other, 2, **spec).step(*([wide] if rank == 0 else []))
    found.append(rank == 0 or tuple(given.shape) == (2, 6, 3))
    losses: list[Any] = []
    schedule = ScheduleGPipe(other, 2, loss_fn=lambda o, t: (o - t).sum())
    schedule.eval(*([wide] if rank == 0 else []), target=facula.zeros(2, 6, 3), losses=losses)
    found.append(len(losses) == 2 * rank and not any(loss.requires_grad for loss in losses))
    many = get_schedule_class("Interleaved1F1B")
    errors = [
        error_of(many, [], 2), error_of(many, [PipelineStage(module, rank, 4)], 2),
        error_of(get_schedule_class("ZBVZeroBubble"), [PipelineStage(module, rank, 6)], 2),
        error_of(Schedule1F1B, PipelineStage(module, rank, 4), 2), error_of(get_schedule_class, "none"),
    ]  # fmt: skip
    return [*found, [text for _, text in errors]]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
