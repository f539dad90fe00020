"""What a step of training takes on each rank.

Takes: a model, a layout, links, how fast a rank computes. Gives: `Prediction`.
Keeps true: bytes of memory and of exchanges are counted on one rank of each kind of stage, the largest is told. Time is
that of the products, of what tensor parallelism exchanges between them, and of what of the other exchanges does not
fit beside them; a pipeline's ranks wait as its time line says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from facula import autograd, core
from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.fsdp.fully_shard import FSDPModule
from facula.distributed.pipelining import timeline
from facula.distributed.planning.links import LINKS, Link, seconds
from facula.distributed.planning.models import Config, Decoder
from facula.distributed.planning.program import Layout, Rank
from facula.distributed.stores import HashStore
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.traffic import Traffic, counting

__all__ = ["Memory", "Prediction", "held", "predicted", "simulated"]


@dataclass
class Memory:
    """Bytes that a rank holds.

    whole: gathered parameters, and gradients before they are reduced. kept: what the backward pass needs.
    """

    parameters: int = 0
    gradients: int = 0
    states: int = 0
    whole: int = 0
    kept: int = 0

    def total(self) -> int:
        """All of it, at the worst moment."""
        return self.parameters + self.gradients + self.states + self.whole + self.kept


@dataclass
class Prediction:
    """What a step takes on the rank that has most to do."""

    layout: Layout
    parameters: int
    memory: Memory
    traffic: Traffic
    flops: float
    #: seconds: of products; of exchanges between them; beside them; and of the step
    compute: float
    between: float
    beside: float
    idle: float
    step: float


# ------------------------------------------------------------------ memory


class _Meter:
    """Bytes that the backward pass keeps, at each time: tensors that are kept twice count once, parameters not."""

    def __init__(self, rank: Rank) -> None:
        self.skipped = {id(_local(p)) for p in rank.model.parameters()}
        for module in rank.model.modules():
            if isinstance(module, FSDPModule):
                for leaf in module._fsdp_state.unit.leaves:
                    self.skipped |= {id(leaf.tensor), id(_local(leaf.parameter))}
        self.counts: dict[int, int] = {}
        self.now = self.peak = 0

    def keep(self, tensor: Any) -> Any:
        """A tensor is kept."""
        base = _local(tensor)
        base = base if base._base is None else base._base
        return _Kept(tensor, base, self) if id(base) not in self.skipped else tensor

    def change(self, base: Any, by: int) -> None:
        """A tensor is kept once more, or once less."""
        count = self.counts.get(id(base), 0)
        self.counts[id(base)] = count + by
        if 0 in (count, count + by):
            self.now += by * base.numel() * base.element_size()
            self.peak = max(self.peak, self.now)


class _Kept:
    """A tensor that a node of the graph keeps, until the node goes."""

    def __init__(self, tensor: Any, base: Any, meter: _Meter) -> None:
        self.tensor, self.base, self.meter = tensor, base, meter
        meter.change(base, 1)

    def __del__(self) -> None:
        self.meter.change(self.base, -1)


def _local(tensor: Any) -> Any:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def _size(tensor: Any) -> int:
    tensor = _local(tensor)
    return tensor.numel() * tensor.element_size()


def held(rank: Rank) -> Memory:
    """What a rank holds behind a step: parameters, gradients and the optimizer's states."""
    parameters = list(rank.model.parameters())
    found = Memory(sum(map(_size, parameters)))
    found.gradients = sum(_size(p.grad) for p in parameters if p.grad is not None)
    states = rank.optimizer.state.values()
    found.states = sum(_size(v) for s in states for v in s.values() if isinstance(v, core.Tensor))
    found.whole = _whole(rank)
    return found


def _whole(rank: Rank) -> int:
    """Two gathered units, of which the next one comes early, and the gradients of one; or buckets."""
    units = [m._fsdp_state.unit for m in rank.model.modules() if isinstance(m, FSDPModule)]
    if rank.layout.strategy == "ddp" and not units:
        return sum(map(_size, rank.model.parameters())) if rank.layout.data > 1 else 0
    sizes = sorted(sum(leaf.bytes for leaf in unit.leaves) for unit in units)
    return sum(sizes[-2:]) + (sizes[-1] if sizes else 0)


# ------------------------------------------------------------------ counting


@contextmanager
def _world(rank: int, size: int) -> Iterator[None]:
    """A block in which this process is one rank of a world that is not there."""
    world.init_process_group("fake", store=HashStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        world.destroy_process_group()


def simulated(config: Config, layout: Layout, stage: int = 0) -> tuple[Memory, Traffic]:
    """What one rank of a stage holds and exchanges in a step: the second one, in which nothing is made anew.

    Example:
        >>> from facula.distributed.planning import MODELS, Layout
        >>> from facula.distributed.planning.prediction import simulated
        >>> memory, traffic = simulated(MODELS["tiny"], Layout(data=4, strategy="ddp", length=8))
        >>> memory.gradients == memory.parameters == traffic.total("all_reduce").payload
        True
    """
    if not layout.recompute:
        memory, traffic, _, _ = _run(config, layout, stage)
        return memory, traffic
    # what a layer keeps is there for one layer at a time; of the others, what came in
    plain, _, layer, came = _run(config, replace(layout, recompute=False), stage)
    memory, traffic, _, _ = _run(config, layout, stage)
    under_way = min(layout.microbatches, layout.pipeline - stage)
    many = under_way * (config.depth // layout.pipeline)
    memory.kept = plain.kept - many * layer + many * came + layer
    return memory, traffic


def _run(config: Config, layout: Layout, stage: int) -> tuple[Memory, Traffic, int, int]:
    """Memory, exchanges, and the bytes that a layer keeps and gets."""
    with _world(stage * layout.data * layout.tensor, layout.ranks):
        rank = Rank(config, layout, "meta")
        rank.step()
        rank.optimizer.zero_grad()
        meter = _Meter(rank)
        layer = _OneLayer(rank.layers[-1], meter)
        hooks = autograd.graph.saved_tensors_hooks(meter.keep, _unkept)
        with counting() as traffic, hooks:
            rank.step()
        memory = held(rank)
        memory.kept = meter.peak
        return memory, traffic, layer.kept, layer.came


def _unkept(value: object) -> Any:
    return value.tensor if isinstance(value, _Kept) else value


class _OneLayer:
    """What a layer keeps of its first micro-batch, and how large that is."""

    def __init__(self, layer: Any, meter: _Meter) -> None:
        self.meter = meter
        self.kept = self.came = self._before = 0
        layer.register_forward_pre_hook(self._begins)
        layer.register_forward_hook(self._ends)

    def _begins(self, module: Any, args: Any) -> None:
        self.came, self._before = _size(args[0]), self.meter.now

    def _ends(self, module: Any, args: object, result: object) -> None:
        self.kept = self.kept or self.meter.now - self._before


# ------------------------------------------------------------------ time


def _products(config: Config, length: int) -> float:
    """Operations of numbers in the products of one sequence, there and back.

    Each weight of a product takes two for each token, and twice as many back; attention takes two products of all
    pairs of places, of which the causal mask leaves a half.
    """
    size = config.width // config.heads
    weights = 2 * config.width * size * (config.heads + config.shared_heads)
    weights += 3 * config.width * config.hidden
    total = config.depth * weights + config.words * config.width
    return 6.0 * total * length + 6.0 * config.depth * config.width * length**2


def predicted(
    config: Config, layout: Layout, links: Sequence[Link] = LINKS, flops: float = 4e14
) -> Prediction:
    """What a step takes.

    Args:
        links: what connects the ranks
        flops: operations of numbers that a rank makes in a second

    Example:
        >>> from facula.distributed.planning import MODELS, Layout, predicted
        >>> found = predicted(MODELS["tiny"], Layout(data=2, tensor=2, length=8))
        >>> found.layout.ranks, found.memory.total() > 0, found.step > found.compute
        (4, True, True)
    """
    layout.check(config)
    if not 0 < flops < float("inf"):
        fail(ValueError, "plan", "a positive number of operations in a second was required", flops,
             "a rank makes so many; 4e14 where nothing is said")  # fmt: skip
    stages = sorted({0, layout.pipeline // 2, layout.pipeline - 1})
    counted = [simulated(config, layout, stage) for stage in stages]
    memory = max((m for m, _ in counted), key=Memory.total)
    traffic = max((t for _, t in counted), key=lambda t: t.total().sent)
    where = stages[[t for _, t in counted].index(traffic)] * layout.data * layout.tensor
    near = tuple(range(where, where + layout.tensor))
    between = beside = 0.0
    for ranks, taken in _by_kind(traffic, links):
        if layout.tensor > 1 and ranks == near or ranks == ():
            between += taken
        else:
            beside += taken
    work = _products(config, layout.length) * layout.batch / (layout.tensor * layout.pipeline)
    work *= 4 / 3 if layout.recompute else 1.0
    compute, idle = work / flops, _idle(layout)
    step = (compute + between) / (1 - idle) + max(0.0, beside - compute)
    count = _count(config)
    return Prediction(layout, count, memory, traffic, work, compute, between, beside, idle, step)


def _by_kind(traffic: Traffic, links: Sequence[Link]) -> list[tuple[tuple[int, ...], float]]:
    """How long the exchanges of each group take; () stands for messages between stages."""
    found: list[tuple[tuple[int, ...], float]] = []
    for messages in (True, False):
        part = Traffic()
        part.flows = {k: v for k, v in traffic.flows.items() if (k[0] == "send") is messages}
        taken = seconds(part, links)
        found += [((), t) for t in taken.values()] if messages else list(taken.items())
    return found


def _idle(layout: Layout) -> float:
    if layout.pipeline == 1:
        return 0.0
    order = timeline.get_schedule_ops("1F1B", layout.pipeline, layout.microbatches)
    return timeline.idle(timeline.spans(order, layout.pipeline))


def _count(config: Config) -> int:
    """How many parameters the model has."""
    with core.device("meta"):
        one, two = (
            sum(p.numel() for p in Decoder(replace(config, depth=n)).parameters()) for n in (1, 2)
        )
    return one + (two - one) * (config.depth - 1)
