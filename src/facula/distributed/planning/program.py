"""One rank's program: the same on real ranks and on simulated ones.

Takes: a model's sizes, a layout of ranks, a batch. Gives: `Rank`, which builds this rank's part and runs steps.
Keeps true: what is run is what a user writes: `fully_shard`, `DistributedDataParallel`, `parallelize_module`, a
pipeline's schedule, over one mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from facula import core, nn, optim
from facula.core.errors import fail
from facula.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from facula.distributed.data_parallel import DistributedDataParallel
from facula.distributed.device_mesh import DeviceMesh, init_device_mesh
from facula.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from facula.distributed.pipelining import PipelineStage, Schedule1F1B
from facula.distributed.planning.models import Config, Decoder, Layer, parallel_plans
from facula.distributed.tensor.parallel import parallelize_module
from facula.distributed.world import get_world_size

__all__ = ["Layout", "Rank"]


@dataclass(frozen=True)
class Layout:
    """How a model lies on ranks.

    data, tensor, pipeline: along how many ranks. strategy: `fsdp2` or `ddp`, along the first. batch: sequences for
    each rank of data parallelism, in micro-batches where there is a pipeline. length: of a sequence. dtype: of
    what is computed with, where parameters are gathered (`fsdp2`). recompute: whether layers are computed again.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    strategy: str = "fsdp2"
    batch: int = 1
    length: int = 128
    microbatches: int = 1
    dtype: Any = None
    recompute: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.data * self.tensor * self.pipeline

    def check(self, config: Config) -> None:
        """Raise unless the model can lie so."""
        if self.strategy not in ("fsdp2", "ddp"):
            fail(ValueError, "plan", "the strategy fsdp2 or ddp was required", repr(self.strategy),
                 "fsdp2 keeps pieces of parameters on each rank, ddp all of them")  # fmt: skip
        counts = self.data, self.tensor, self.pipeline, self.batch, self.length, self.microbatches
        if min(counts) < 1 or self.batch % self.microbatches:
            fail(ValueError, "plan", "numbers from 1 on, and micro-batches that divide the batch, were required",
                 self, "batch is for each rank of data parallelism")  # fmt: skip
        if config.shared_heads % self.tensor or config.depth % self.pipeline:
            fail(ValueError, "plan", f"a number of tensor ranks that divides {config.shared_heads} heads, and of "
                 f"stages that divides {config.depth} layers, was required", (self.tensor, self.pipeline),
                 "each rank has whole heads, each stage as many layers")  # fmt: skip


class Rank:
    """This rank's part of a model, and its steps."""

    def __init__(self, config: Config, layout: Layout, device: str) -> None:
        """Build the part; the default process group has `layout.ranks` ranks.

        Args:
            device: `meta` for a program that is only counted
        """
        layout.check(config)
        if get_world_size() != layout.ranks:
            fail(ValueError, "plan", f"a world of {layout.ranks} ranks was required", get_world_size(),
                 "the product of data, tensor and pipeline")  # fmt: skip
        self.config, self.layout, self.device = config, layout, device
        self.mesh = init_device_mesh(
            "cpu", (layout.pipeline, layout.data, 1, layout.tensor),
            mesh_dim_names=("pipeline", "data", "one", "tensor"),
        )  # fmt: skip
        self.place = self.mesh.get_local_rank("pipeline")
        self.bare = self._part()
        self._cut(self.bare)
        self.model = self._wrapped(self.bare)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-4)

    def _part(self) -> Decoder:
        each = self.config.depth // self.layout.pipeline
        with core.device(self.device):
            return Decoder(self.config, self.place * each, (self.place + 1) * each)

    def _cut(self, model: Decoder) -> None:
        """Lay the parts of layers on the ranks of tensor parallelism."""
        if self.layout.tensor == 1:
            return
        layer, around = parallel_plans()
        mesh = self.mesh["tensor"]
        for one in model.layers:
            parallelize_module(one, mesh, layer)
        held = {name: style for name, style in around.items() if getattr(model, name) is not None}
        parallelize_module(model, mesh, held)

    def _wrapped(self, model: Decoder) -> nn.Module:
        layout = self.layout
        if layout.recompute:
            for i, one in enumerate(model.layers):
                model.layers[i] = checkpoint_wrapper(one)
        if layout.data == 1:
            return model
        if layout.strategy == "ddp" and layout.tensor == 1:
            return DistributedDataParallel(model, process_group=self.mesh["data"].get_group())
        # copies beside each other, where parameters are distributed tensors: pieces along a dimension of one rank
        mesh: DeviceMesh = (
            self.mesh["data"] if layout.strategy == "fsdp2" else self.mesh["data", "one"]
        )
        policy = MixedPrecisionPolicy(
            param_dtype=layout.dtype,
            reduce_dtype=core.float32 if layout.dtype is not None else None,
        )
        for one in model.layers:
            fully_shard(one, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        return model

    @property
    def layers(self) -> list[Layer]:
        """The layers, without what wraps them."""
        return [m for m in self.bare.modules() if isinstance(m, Layer)]

    def tokens(self, batch: int) -> Any:
        """A batch of places of words; zeros do as well as any."""
        return core.empty((batch, self.layout.length), dtype=core.int64, device=self.device).zero_()

    def _loss(self, output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output.flatten(0, 1).float(), target.flatten())

    def step(self) -> None:
        """Forward, backward, and the optimizer's step."""
        if self.layout.pipeline > 1:
            self._pipelined()
        else:
            ids = self.tokens(self.layout.batch)
            self._loss(self.model(ids), ids).backward()
        self.optimizer.step()

    def _pipelined(self) -> None:
        layout = self.layout
        small = (layout.batch // layout.microbatches, layout.length, self.config.width)
        between = core.empty(small, dtype=self.dtype_between(), device=self.device)
        stage = PipelineStage(
            self.model, self.place, layout.pipeline, input_args=between, output_args=between,
            group=self.mesh["pipeline"].get_group(),
        )  # fmt: skip
        schedule = Schedule1F1B(stage, layout.microbatches, loss_fn=self._loss)
        ids = self.tokens(layout.batch)
        schedule.step(*([ids] if stage.is_first else []), target=ids if stage.is_last else None)

    def dtype_between(self) -> Any:
        """The dtype of what stages pass on."""
        gathered = self.layout.data > 1 and (
            self.layout.strategy == "fsdp2" or self.layout.tensor > 1
        )
        return self.layout.dtype if gathered and self.layout.dtype is not None else core.float32
