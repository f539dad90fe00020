"""Schedules: a batch through a pipeline.

Takes: the stages of this rank, a number of micro-batches, a loss. Gives: `step`, which runs a batch.
Keeps true: the gradients are those of the mean of the micro-batches' losses; only the order, and with
it the number of micro-batches that are under way, differs between schedules (`orders`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.fsdp.fully_shard import FSDPModule
from facula.distributed.pipelining import orders
from facula.distributed.pipelining.actions import (
    Action,
    Kind,
    Order,
    compute_of,
    leaves,
    read_csv,
    write_csv,
)
from facula.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from facula.distributed.pipelining.stage import PipelineStage

Tensor = core.Tensor
_MESSAGES = {Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B}


class _Step:
    """One batch under way on this rank."""

    def __init__(
        self,
        args: list[Any],
        kwargs: list[Any],
        targets: list[Any] | None,
        training: bool,
        explicit: bool,
    ) -> None:
        self.args, self.kwargs, self.targets = args, kwargs, targets
        #: whether gradients are computed; whether the order says when is sent and received
        self.training, self.explicit = training, explicit
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, Any] = {}
        #: backward passes (or second halves of them) that are left, by stage
        self.left: Counter[int] = Counter()


class _PipelineSchedule:
    """What all schedules have in common."""

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None,
        args_chunk_spec: Any, kwargs_chunk_spec: Any, output_merge_spec: Any, scale_grads: bool,
    ) -> None:  # fmt: skip
        if n_microbatches < 1:
            fail(ValueError, "schedule", "a micro-batch was required", n_microbatches,
                 hint="n_microbatches=1 sends the whole batch at once")  # fmt: skip
        self._stages = list(stages)
        first = self._stages[0]
        self._num_stages, self.pp_group_size, self.rank = (
            first.num_stages, first.group_size, first.group_rank
        )  # fmt: skip
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._has_backward = loss_fn is not None
        self._internal_losses: list[Tensor] = []
        self.stage_index_to_group_rank = orders.stage_ranks(
            self.pp_group_size, self._num_stages, self._style()
        )
        for stage in self._stages:
            stage.stage_index_to_group_rank = self.stage_index_to_group_rank
            stage.has_backward = self._has_backward
        self.pipeline_order: Order = self._order()
        self._explicit = False
        self._check_stages()

    def _style(self) -> str:
        return "loop"

    def _order(self) -> Order:
        raise NotImplementedError

    def _check_stages(self) -> None:
        mine = sorted(s for s, r in self.stage_index_to_group_rank.items() if r == self.rank)
        given = sorted(stage.stage_index for stage in self._stages)
        if given != mine:
            fail(ValueError, type(self).__name__, f"stages {mine} were required on rank {self.rank}", given,
                 "give each rank the stages that the schedule runs there")  # fmt: skip

    def _get_pipeline_order(self) -> Order:
        """What each rank computes, one after the other."""
        return self.pipeline_order

    # ---------------------------------------------------------------- batches

    def step(
        self, *args: object, target: object = None, losses: list[Any] | None = None,
        return_outputs: bool = True, loss_kwargs: dict[str, Any] | None = None, **kwargs: object,
    ) -> Any:  # fmt: skip
        """Run a batch: arguments on the first stage, the target on the last.

        Args:
            losses: is filled with the micro-batches' losses on the last stage.
            return_outputs: whether the whole output is put together.
            loss_kwargs: named arguments of the loss, for each micro-batch the same.

        Returns the whole output on the rank of the last stage, None elsewhere.
        """
        return self._run(
            args, kwargs, target, losses, return_outputs, loss_kwargs or {}, self._has_backward
        )

    def eval(
        self,
        *args: object,
        target: object = None,
        losses: list[Any] | None = None,
        **kwargs: object,
    ) -> Any:
        """Run a batch forward alone; the losses, too, where there are a loss and a target."""
        return self._run(args, kwargs, target, losses, True, {}, False)

    def _run(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: object, losses: list[Any] | None,
        return_outputs: bool, loss_kwargs: dict[str, Any], training: bool,
    ) -> Any:  # fmt: skip
        count = self._n_microbatches
        positional, named = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec if args else None, self._kwargs_chunk_spec
        )
        targets = None
        if target is not None:
            targets = [t[0] for t in split_args_kwargs_into_chunks((target,), {}, count)[0]]
        last = next((s for s in self._stages if s.is_last), None)
        if last is not None and training and targets is None:
            fail(ValueError, "schedule", "a target was required on the last stage", "none",
                 hint="pass target=... to step() there")  # fmt: skip
        step = _Step(positional, named, targets, training, self._explicit)
        self._loss_kwargs = loss_kwargs
        by_index = {stage.stage_index: stage for stage in self._stages}
        actions = list(leaves(self.pipeline_order[self.rank]))
        if not training:
            actions = [
                a for a in actions if a.computation_type in (Kind.FORWARD, Kind.SEND_F, Kind.RECV_F)
            ]
        for action in actions:
            if action.computation_type in (Kind.FULL_BACKWARD, Kind.BACKWARD_WEIGHT):
                step.left[action.stage_index] += 1
        try:
            for action in actions:
                self._act(action, by_index[action.stage_index], step, by_index)
        finally:
            for stage in self._stages:
                stage.clear_runtime_states()
        if losses is not None:
            losses[:] = [step.losses[i].detach() for i in sorted(step.losses)]
        if last is None or not return_outputs:
            return None
        outputs = [step.outputs[i] for i in sorted(step.outputs)]
        return merge_chunks(outputs, self._output_merge_spec)

    def _act(
        self, action: Action, stage: PipelineStage, step: _Step, here: dict[int, PipelineStage]
    ) -> None:
        """Run one action; where the order does not say so itself, what it needs is received before, and what it
        gives is sent behind."""
        kind, number = action.computation_type, action.microbatch_index or 0
        auto = not step.explicit
        if kind is Kind.FORWARD:
            self._forward(stage, number, step, here, auto)
        elif kind in (Kind.FULL_BACKWARD, Kind.BACKWARD_INPUT):
            self._backward(stage, number, step, here, auto, kind is Kind.FULL_BACKWARD)
        elif kind is Kind.BACKWARD_WEIGHT:
            step.left[stage.stage_index] -= 1
            stage.backward_weight(number, step.left[stage.stage_index] == 0)
        elif kind in _MESSAGES:
            {Kind.SEND_F: stage.send_forward, Kind.RECV_F: stage.receive_forward,
             Kind.SEND_B: stage.send_backward, Kind.RECV_B: stage.receive_backward}[kind](number)  # fmt: skip
        else:
            _whole_or_pieces(stage, kind)

    def _forward(
        self,
        stage: PipelineStage,
        number: int,
        step: _Step,
        here: dict[int, PipelineStage],
        auto: bool,
    ) -> None:
        before, after = stage.stage_index - 1, stage.stage_index + 1
        if not stage.is_first and auto and not stage.is_here(before):
            stage.receive_forward(number)
        args = step.args[number] if stage.is_first else ()
        result = stage.forward(number, args, step.kwargs[number], step.training)
        if stage.is_last:
            step.outputs[number] = result
            if self._loss_fn is not None and step.targets is not None:
                step.losses[number] = self._loss_fn(
                    result, step.targets[number], **self._loss_kwargs
                )
        elif stage.is_here(after):
            here[after].take_forward(number, stage.passes_forward(number))
        elif auto:
            stage.send_forward(number)

    def _backward(
        self, stage: PipelineStage, number: int, step: _Step, here: dict[int, PipelineStage], auto: bool,
        full: bool,
    ) -> None:  # fmt: skip
        before, after = stage.stage_index - 1, stage.stage_index + 1
        if not stage.is_last and auto and not stage.is_here(after):
            stage.receive_backward(number)
        loss = step.losses[number] if stage.is_last else None
        if loss is not None and self.scale_grads:
            loss = loss / self._n_microbatches
        if full:
            step.left[stage.stage_index] -= 1
            stage.backward(number, loss, step.left[stage.stage_index] == 0)
        else:
            stage.backward_input(number, loss)
        if stage.is_first:
            return
        if stage.is_here(before):
            here[before].take_backward(number, stage.passes_backward(number))
        elif auto:
            stage.send_backward(number)

    # ---------------------------------------------------------------- files

    def _dump_csv(self, filename: str | os.PathLike[str], format: str = "compute_only") -> None:
        """Write what each rank does.

        Args:
            format: `compute_only`, or `compute_comms`, with what is sent and received.
        """
        if format == "compute_only":
            write_csv(filename, {r: list(compute_of(a)) for r, a in self.pipeline_order.items()})
        else:
            write_csv(filename, self._with_messages())

    def _with_messages(self) -> Order:
        if self._explicit:
            return self.pipeline_order
        return orders.with_messages(
            self.pipeline_order, self._num_stages, self.stage_index_to_group_rank.__getitem__
        )

    def _load_csv(self, filename: str | os.PathLike[str], format: str = "compute_only") -> None:
        """Run what a file says.

        Args:
            format: `compute_only`, or `compute_comms`, where the file says what is sent and received.
        """
        if format not in ("compute_only", "compute_comms"):
            fail(NotImplementedError, type(self).__name__, "compute_only or compute_comms was required", format,
                 "_dump_csv writes both")  # fmt: skip
        order = read_csv(filename)
        if sorted(order) != list(range(self.pp_group_size)):
            fail(ValueError, type(self).__name__, f"a row for each of {self.pp_group_size} ranks was required",
                 len(order), "a file is for one number of ranks")  # fmt: skip
        if format == "compute_only":
            self._validate(order)
        self.pipeline_order, self._explicit = order, format == "compute_comms"

    def _validate(self, order: Order) -> None:
        """Raise unless each micro-batch goes through each stage, on its rank, and none waits forever."""
        for rank, actions in order.items():
            for action in leaves(actions):
                where = self.stage_index_to_group_rank.get(action.stage_index)
                if where != rank:
                    fail(ValueError, type(self).__name__, f"actions of the stages of rank {rank} were required",
                         f"{action} of rank {where}", "a row of the file is a rank")  # fmt: skip
        done = Counter(a[:3] for actions in order.values() for a in compute_of(actions))
        for stage in range(self._num_stages):
            for number in range(self._n_microbatches):
                whole = done[stage, Kind.FULL_BACKWARD, number]
                halves = (
                    done[stage, Kind.BACKWARD_INPUT, number],
                    done[stage, Kind.BACKWARD_WEIGHT, number],
                )
                if done[stage, Kind.FORWARD, number] != 1 or (whole, *halves) not in (
                    (1, 0, 0),
                    (0, 1, 1),
                ):
                    fail(ValueError, type(self).__name__, f"one forward and one backward of micro-batch {number} "
                         f"were required for stage {stage}", f"{done[stage, Kind.FORWARD, number]} forward, "
                         f"{whole} whole and {halves} half backward", "F, then B, or I and W")  # fmt: skip
        rank_of = self.stage_index_to_group_rank.__getitem__
        orders.with_messages(order, self._num_stages, rank_of)


def _whole_or_pieces(stage: PipelineStage, kind: Kind) -> None:
    """Gather the parameters of a stage, or give them back, or reduce its gradients."""
    for module in stage.submod.modules():
        if isinstance(module, FSDPModule):
            if kind is Kind.UNSHARD:
                module.unshard()
            elif kind is Kind.RESHARD:
                module.reshard()
            else:
                module._fsdp_state.unit.finish_reduce()


class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule with one stage on each rank.

    Args:
        stage: that of this rank
        n_microbatches: into how many parts a batch is cut
        loss_fn: of a micro-batch's output and target; without one only outputs are computed
        args_chunk_spec, kwargs_chunk_spec: along which dimension each argument is cut; default: the first
        output_merge_spec: along which results are joined
        scale_grads: whether gradients are those of the mean of the losses, not of the sum
    """

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: object = None, kwargs_chunk_spec: object = None, output_merge_spec: object = None,
        scale_grads: bool = True,
    ) -> None:  # fmt: skip
        if stage.num_stages != stage.group_size:
            fail(ValueError, type(self).__name__, f"as many stages as ranks, {stage.group_size}, were required",
                 stage.num_stages, "ScheduleInterleaved1F1B runs several stages on each rank")  # fmt: skip
        self._stage = stage
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )  # fmt: skip


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """All micro-batches forward."""

    def _order(self) -> Order:
        found = orders.gpipe(self.pp_group_size, self._n_microbatches)
        return {rank: actions[: self._n_microbatches] for rank, actions in found.items()}

    def step(self, *args: Any, target: object = None, losses: object = None, **kwargs: Any) -> Any:
        """Run a batch."""
        if target is not None or losses is not None:
            fail(RuntimeError, "_ScheduleForwardOnly", "no target and no losses were required (Forward-only "
                 "schedule does not support loss computation)", "some", "eval() computes losses")  # fmt: skip
        return self.eval(*args, **kwargs)


class ScheduleGPipe(PipelineScheduleSingle):
    """All micro-batches forward, then all back. [Huang et al. 2019]"""

    def _order(self) -> Order:
        return orders.gpipe(self.pp_group_size, self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """One back after each one forward, once the pipeline is full. [Narayanan et al. 2019]"""

    def _order(self) -> Order:
        return orders.one_forward_one_backward(self.pp_group_size, self._n_microbatches)


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule with several stages on each rank.

    Args:
        stages: those of this rank
        n_microbatches: into how many parts a batch is cut
        loss_fn: of a micro-batch's output and target; without one only outputs are computed
        args_chunk_spec, kwargs_chunk_spec: along which dimension each argument is cut; default: the first
        output_merge_spec: along which results are joined
        use_full_backward: kept for PyTorch's API
        scale_grads: whether gradients are those of the mean of the losses, not of the sum
        backward_requires_autograd: kept for PyTorch's API
    """

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: object = None, kwargs_chunk_spec: object = None, output_merge_spec: object = None,
        use_full_backward: bool | None = None, scale_grads: bool = True,
        backward_requires_autograd: bool = True,
    ) -> None:  # fmt: skip
        if not stages:
            fail(ValueError, type(self).__name__, "a stage was required", "none",
                 "give the stages of this rank as a list")  # fmt: skip
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )  # fmt: skip


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    """A schedule whose order comes from a file."""

    def _order(self) -> Order:
        return {rank: [] for rank in range(self.pp_group_size)}


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Stage by stage all micro-batches, there and back. [Lamy-Poirier 2023]"""

    def _order(self) -> Order:
        return orders.looped_breadth_first(
            self.pp_group_size, self._num_stages, self._n_microbatches
        )


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One forward, one backward, with several stages on each rank, which take turns. [Narayanan et al. 2021]"""

    def _order(self) -> Order:
        return orders.interleaved(self.pp_group_size, self._num_stages, self._n_microbatches)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """`ScheduleInterleaved1F1B` whose weights' gradients fill what ranks would wait. [Qi et al. 2023]"""

    def _order(self) -> Order:
        return orders.interleaved(
            self.pp_group_size, self._num_stages, self._n_microbatches, split=True
        )


class _TwoStages(PipelineScheduleMulti):
    """Schedules in the form of a V."""

    def _style(self) -> str:
        if self._num_stages != 2 * self.pp_group_size:
            fail(ValueError, type(self).__name__, f"two stages for each of {self.pp_group_size} ranks were required "
                 "(V schedules require exactly two stages per rank)", self._num_stages,
                 "rank r runs stages r and 2 * ranks - 1 - r")  # fmt: skip
        return "v"


class ScheduleZBVZeroBubble(_TwoStages):
    """The first and the last of what is left on each rank, and weights' gradients later. [Qi et al. 2023]"""

    def _order(self) -> Order:
        return orders.zero_bubble_v(self.pp_group_size, self._n_microbatches)


class ScheduleDualPipeV(_TwoStages):
    """`ScheduleZBVZeroBubble` with a forward beside each backward. [DeepSeek 2025]"""

    def _order(self) -> Order:
        return orders.dual_pipe_v(self.pp_group_size, self._n_microbatches)


_NAMES: dict[str, type[_PipelineSchedule]] = {
    "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV,
}  # fmt: skip


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """The schedule of a name, in letters of any size.

    Example:
        >>> facula.distributed.pipelining.schedules.get_schedule_class("gpipe").__name__
        'ScheduleGPipe'
    """
    for name, found in _NAMES.items():
        if name.lower() == schedule_name.lower():
            return found
    fail(ValueError, "get_schedule_class", f"one of {', '.join(_NAMES)} was required (Unknown schedule name)",
         repr(schedule_name), "letters may be small or large")  # fmt: skip
