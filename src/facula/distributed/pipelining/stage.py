"""One part of a pipeline: runs micro-batches forward and backward, and passes them on.

Takes: a module and its place. Gives: `PipelineStage`, which schedules drive.
Keeps true: what a stage gives goes to the next one with its shape; gradients come back for what needed them; a
wrapper that exchanges gradients does so with the last micro-batch alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import autograd, core, nn
from facula.core.errors import fail
from facula.distributed.data_parallel import DistributedDataParallel
from facula.distributed.fsdp.fully_shard import FSDPModule
from facula.distributed.messages import isend, recv
from facula.distributed.pipelining._backward import InputBackward
from facula.distributed.world import own_group

__all__ = ["PipelineStage", "build_stage"]

Tensor = core.Tensor

#: numbers that describe what is sent: how many tensors, then dtype, rank and sizes of each
_WORDS = 256
#: micro-batches of a step, at most, so that each message has a tag of its own
_MICROBATCHES = 1 << 16
_FORWARD, _BACKWARD = 0, 1
_DTYPES = (
    core.float32, core.float64, core.float16, core.bfloat16, core.int64, core.int32, core.int16, core.int8,
    core.uint8, core.bool, core.complex64, core.complex128,
)  # fmt: skip


class PipelineStage:
    """A part of a model, on this rank.

    Args:
        submodule: the part
        stage_index: its place
        num_stages: how many parts there are
        device: where it computes
        input_args, output_args: what comes in and goes out, as an example; needed where ranks are simulated, as
            otherwise shapes are sent along
        input_grads, output_grads, get_mesh: kept for PyTorch's API
        group: the ranks of the pipeline; default: all. Stage `s` is on rank `s % size`, where the schedule says
            nothing else.
        dw_builder: called after each first half of a backward pass; gives what computes the weights' gradients
    """

    def __init__(
        self, submodule: nn.Module, stage_index: int, num_stages: int, device: core.device | str | int = "cpu",
        input_args: Any = None, output_args: Any = None, output_grads: Any = None, input_grads: Any = None,
        group: Any = None, dw_builder: Callable[[], Callable[..., None]] | None = None, get_mesh: Any = None,
    ) -> None:  # fmt: skip
        if not 0 <= stage_index < num_stages:
            fail(ValueError, "PipelineStage", f"a place in [0, {num_stages}) was required (Stage index "
                 "is out of range)", stage_index, hint="stages count from 0")  # fmt: skip
        self.group = own_group(group, "PipelineStage")
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if self.group_size > num_stages:
            fail(ValueError, "PipelineStage", f"at most {num_stages} ranks were required (Pipeline group size "
                 "cannot be larger than number of stages)", self.group_size,
                 hint="start less processes, or cut the model into more stages")  # fmt: skip
        self.input_args, self.output_args = input_args, output_args
        self.submod, self.dw_builder = submodule, dw_builder
        self.stage_index, self.num_stages, self.device = stage_index, num_stages, device
        self.stage_index_to_group_rank = {s: s % self.group_size for s in range(num_stages)}
        self.has_backward = False
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        """Whether it takes the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the result."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forget the micro-batches of a step."""
        #: of each micro-batch: what came in, what came out, and the gradients of both
        self._inputs: dict[int, tuple[Any, ...]] = {}
        self._results: dict[int, tuple[Any, ...]] = {}
        self._gradients: dict[int, tuple[Any, ...]] = {}
        self._input_gradients: dict[int, tuple[Any, ...]] = {}
        self._losses: dict[int, Tensor | None] = {}
        self._halves: dict[int, Callable[..., None]] = {}
        self._named: dict[int, dict[str, Any]] = {}

    # ---------------------------------------------------------------- computing

    def forward(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool
    ) -> Any:
        """Run a micro-batch; gives the result."""
        if not self.is_first:
            args = self._inputs[number]
            for x in args:
                if training and x.is_floating_point():
                    x.requires_grad_(True)
        recording = core.set_grad_enabled(training)
        try:
            result = self.submod(*args, **kwargs)
        finally:
            core.set_grad_enabled(recording)
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        self._inputs[number], self._results[number] = args, results
        return result

    def _ends(self, number: int, loss: Tensor | None) -> tuple[list[Any], list[Any]]:
        """The results that a backward pass begins with, and their gradients (None: ones)."""
        if self.is_last:
            return ([loss], [None]) if loss is not None and loss.requires_grad else ([], [])
        pairs = [
            (r, g)
            for r, g in zip(self._results[number], self._gradients.pop(number), strict=True)
            if g is not None and r.requires_grad
        ]
        return [r for r, _ in pairs], [g for _, g in pairs]

    def backward(self, number: int, loss: Tensor | None, last: bool) -> None:
        """Run a micro-batch back: from the loss on the last stage, else from the next one's gradients.

        Args:
            last: whether no other micro-batch comes back in this step.
        """
        results, gradients = self._ends(number, loss)
        self._exchanges(last)
        if results:
            autograd.backward(results, gradients)
        inputs = self._inputs.pop(number)
        self._input_gradients[number] = tuple(
            x.grad if isinstance(x, Tensor) else None for x in inputs
        )
        self._results.pop(number)

    def backward_input(self, number: int, loss: Tensor | None) -> None:
        """The first half of `backward`: gradients of what came in. The first stage does all in the second."""
        results, gradients = self._ends(number, loss)
        inputs = self._inputs.pop(number)
        self._results.pop(number)
        wanted = [] if self.is_first else [x for x in inputs if x.requires_grad]
        self._input_gradients[number] = (None,) * len(inputs)
        if self.dw_builder is not None and wanted and results:
            autograd.backward(results, gradients)
            self._input_gradients[number] = tuple(x.grad for x in inputs)
            self._halves[number] = self.dw_builder()
        elif wanted and results:
            trained = {id(p) for p in self.submod.parameters() if p.requires_grad}
            ones = [
                self._ones(r) if g is None else g for r, g in zip(results, gradients, strict=True)
            ]
            half = InputBackward(results, ones, wanted, trained)
            found = dict(zip(map(id, wanted), half.inputs, strict=True))
            self._input_gradients[number] = tuple(found.get(id(x)) for x in inputs)
            self._halves[number] = half.weights
        elif results:
            self._halves[number] = lambda: autograd.backward(results, gradients)

    @staticmethod
    def _ones(result: Tensor) -> Tensor:
        return core.tensor(1.0, dtype=result.dtype).expand(result.shape)

    def backward_weight(self, number: int, last: bool) -> None:
        """The second half of `backward`: gradients of weights."""
        self._exchanges(last)
        half = self._halves.pop(number, None)
        if half is not None:
            half()

    def _exchanges(self, last: bool) -> None:
        """Have wrappers exchange gradients with the last micro-batch."""
        for module in self.submod.modules():
            if isinstance(module, FSDPModule):
                module.set_is_last_backward(last)
                module.set_requires_gradient_sync(last, recurse=False)
        if isinstance(self.submod, DistributedDataParallel) and last:
            self.submod.reducer.prepare(set())

    # ---------------------------------------------------------------- between stages

    def _rank(self, stage: int) -> int:
        return self.stage_index_to_group_rank[stage]

    def is_here(self, stage: int) -> bool:
        """Whether another stage is on this rank, too."""
        return self._rank(stage) == self.group_rank

    def passes_forward(self, number: int) -> tuple[Any, ...]:
        """The results for the next stage."""
        for t in self._results[number]:
            if not isinstance(t, Tensor):
                fail(TypeError, "PipelineStage", "tensors were required between stages", type(t).__name__,
                     hint="facula.as_tensor(value) makes one; stages pass on tensors only")  # fmt: skip
        return tuple(t.detach() for t in self._results[number])

    def passes_backward(self, number: int) -> tuple[Any, ...]:
        """The gradients for the stage before."""
        return self._input_gradients.pop(number)

    def take_forward(self, number: int, tensors: Sequence[Any]) -> None:
        """What the stage before gave."""
        self._inputs[number] = tuple(tensors)

    def take_backward(self, number: int, tensors: Sequence[Any]) -> None:
        """The gradients that the next stage gave."""
        self._gradients[number] = tuple(tensors)

    def send_forward(self, number: int) -> None:
        """Send the results to the next stage's rank."""
        target = self.stage_index + 1
        self._send(self._rank(target), target, _FORWARD, number, self.passes_forward(number))

    def send_backward(self, number: int) -> None:
        """Send the gradients to the rank of the stage before."""
        target = self.stage_index - 1
        self._send(self._rank(target), target, _BACKWARD, number, self.passes_backward(number))

    def receive_forward(self, number: int) -> None:
        """Wait for what the stage before gives."""
        source = self._rank(self.stage_index - 1)
        self.take_forward(number, self._receive(source, _FORWARD, number))

    def receive_backward(self, number: int) -> None:
        """Wait for the gradients that the next stage gives."""
        source = self._rank(self.stage_index + 1)
        self.take_backward(number, self._receive(source, _BACKWARD, number))

    def _known(self, way: int) -> tuple[Any, ...]:
        known = self.input_args if way == _FORWARD else self.output_args
        if known is None:
            fail(ValueError, "PipelineStage", "input_args and output_args were required where ranks are simulated",
                 "none", "tensors on the meta device say shapes and dtypes")  # fmt: skip
        return known if isinstance(known, tuple) else (known,)

    def _tag(self, stage: int, way: int, number: int) -> int:
        return ((stage * 2 + way) * _MICROBATCHES + number) * 2

    def _send(
        self, peer: int, stage: int, way: int, number: int, tensors: Sequence[Any]
    ) -> None:  # fmt: skip
        tag = self._tag(stage, way, number)
        isend(_described(tensors), group=self.group, group_dst=peer, tag=tag)
        for t in tensors:
            if t is not None:
                isend(t, group=self.group, group_dst=peer, tag=tag + 1)

    def _receive(self, peer: int, way: int, number: int) -> list[Any]:
        if self.group.engine.counts_only:  # nothing comes: what would is known beforehand
            return [core.empty_like(t) for t in self._known(way)]
        tag = self._tag(self.stage_index, way, number)
        words = core.empty((_WORDS,), dtype=core.int64)
        recv(words, group=self.group, group_src=peer, tag=tag)
        found: list[Any] = []
        for made in _made(words.tolist()):
            if made is not None:
                recv(made, group=self.group, group_src=peer, tag=tag + 1)
            found.append(made)
        return found


def _described(tensors: Sequence[Any]) -> Tensor:
    """Numbers that say what is sent: -1 stands for nothing."""
    words = [len(tensors)]
    for t in tensors:
        words += [-1] if t is None else [_DTYPES.index(t.dtype), t.dim(), *t.shape]
    if len(words) > _WORDS:
        fail(ValueError, "PipelineStage", f"a description of {_WORDS} numbers was required of what a stage gives",
             len(words), "give less tensors: facula.cat joins some")  # fmt: skip
    return core.tensor(words + [0] * (_WORDS - len(words)), dtype=core.int64)


def _made(words: list[int]) -> list[Any]:
    """Tensors to be written to, of a description."""
    found: list[Any] = []
    at = 1
    for _ in range(words[0]):
        if words[at] < 0:
            found.append(None)
            at += 1
            continue
        dtype, rank = _DTYPES[words[at]], words[at + 1]
        found.append(core.empty(tuple(words[at + 2 : at + 2 + rank]), dtype=dtype))
        at += 2 + rank
    return found


def build_stage(
    stage_module: nn.Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None
) -> PipelineStage:
    """A stage of a `Pipe` for this rank.

    Args:
        pipe_info: what `Pipe.info()` gives
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)
