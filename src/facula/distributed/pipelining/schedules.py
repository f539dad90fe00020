"""In which order a stage runs micro-batches.

Takes: a stage, a number of micro-batches, a loss. Gives: `step`, which runs a batch.
Keeps true: the gradients are those of the mean of the micro-batches' losses; only the order, and with
it the number of micro-batches that are under way, differs between schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.pipelining.stage import PipelineStage
from facula.ops.registry import F

Tensor = core.Tensor


class _Schedule:
    """What all schedules have in common; `_order` says what is done after what."""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        """Choose how a batch is run.

        Args:
            loss_fn: of a micro-batch's output and target; without one only outputs are computed.
            scale_grads: whether gradients are those of the mean of the losses, not of the sum.
            args_chunk_spec, kwargs_chunk_spec, output_merge_spec: kept for PyTorch's API; tensors
                are cut and joined along their first dimension.
        """
        if n_microbatches < 1:
            fail(
                ValueError,
                "schedule",
                "a micro-batch was required",
                n_microbatches,
                hint="n_microbatches=1 sends the whole batch at once",
            )
        self._stage, self._n, self._loss_fn = stage, n_microbatches, loss_fn
        self._scale = 1.0 / n_microbatches if scale_grads else 1.0

    def _order(self) -> Iterator[tuple[str, int]]:
        raise NotImplementedError

    def _cut(self, x: Any) -> list[Any]:
        if not isinstance(x, Tensor):
            return [x] * self._n
        if x.shape[0] < self._n:
            fail(
                ValueError,
                "schedule",
                f"a batch of at least {self._n} was required",
                tuple(x.shape),
                hint=f"give a larger batch, or less than {self._n} micro-batches",
            )
        return list(x.tensor_split(self._n))

    def step(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """Run a batch: arguments on the first stage, the target on the last.

        Args:
            losses: is filled with the micro-batches' losses on the last stage.

        Returns the whole output on the last stage, None elsewhere.
        """
        stage = self._stage
        positional = [self._cut(x) for x in args]
        named = {name: self._cut(x) for name, x in kwargs.items()}
        targets = self._cut(target) if target is not None else None
        if stage.is_last and self._loss_fn is not None and targets is None:
            fail(
                ValueError,
                "schedule",
                "a target was required on the last stage",
                "none",
                hint="pass target=... to step() there",
            )
        outputs: list[Any] = [None] * self._n
        found: dict[int, Any] = {}
        training = self._loss_fn is not None
        for kind, i in self._order():
            if kind == "backward":
                if training:
                    loss = found[i] * self._scale if stage.is_last else None
                    stage.backward(i, loss)
                continue
            mine = tuple(parts[i] for parts in positional)
            outputs[i] = stage.forward(i, mine, {k: v[i] for k, v in named.items()}, training)
            if stage.is_last and self._loss_fn is not None and targets is not None:
                found[i] = self._loss_fn(outputs[i], targets[i])
        if losses is not None:
            losses[:] = [found[i].detach() for i in sorted(found)]
        return _joined(outputs) if stage.is_last else None


def _joined(outputs: list[Any]) -> Any:
    """The outputs of micro-batches as one."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return F.cat([o.detach() for o in outputs])
    if isinstance(first, (tuple, list)):
        return type(first)(_joined([o[i] for o in outputs]) for i in range(len(first)))
    return first


class ScheduleGPipe(_Schedule):
    """All micro-batches forward, then all back. [Huang et al. 2019]"""

    def _order(self) -> Iterator[tuple[str, int]]:
        for i in range(self._n):
            yield "forward", i
        for i in range(self._n):
            yield "backward", i


class Schedule1F1B(_Schedule):
    """One back after each one forward, once the pipeline is full. [Narayanan et al. 2019]"""

    def _order(self) -> Iterator[tuple[str, int]]:
        ahead = min(self._n, self._stage.num_stages - self._stage.stage_index)
        for i in range(ahead):
            yield "forward", i
        for i in range(self._n):
            yield "backward", i
            if i + ahead < self._n:
                yield "forward", i + ahead
