"""One part of a pipeline: runs micro-batches forward and backward, and passes them on.

Takes: a module and its place. Gives: `PipelineStage`, which schedules drive.
Keeps true: what a stage gives goes to the next one with its shape; gradients come back for what
needed them.
"""

from __future__ import annotations

from typing import Any

from facula import autograd, core, nn
from facula.core.errors import fail
from facula.distributed.messages import isend, recv
from facula.distributed.object_operations import recv_object_list, send_object_list
from facula.distributed.world import default_group, group_of

Tensor = core.Tensor

#: tags of what goes forward, and back
_FORWARD, _BACKWARD = 1, 2


class PipelineStage:
    """A part of a model, on this rank."""

    def __init__(
        self,
        submodule: nn.Module,
        stage_index: int,
        num_stages: int,
        device: Any = "cpu",
        input_args: Any = None,
        output_args: Any = None,
        group: Any = None,
        dw_builder: Any = None,
    ) -> None:
        """Take a part.

        Args:
            stage_index: its place; rank r of the group has stage r.
            input_args, output_args, dw_builder: kept for PyTorch's API; shapes are sent along.
        """
        if not 0 <= stage_index < num_stages:
            fail(ValueError, "PipelineStage", f"a place in [0, {num_stages}) was required (Stage index "
                 "is out of range)", stage_index, hint="stages count from 0")  # fmt: skip
        self.group = group_of(group) or default_group()
        if num_stages > self.group.size():
            fail(ValueError, "PipelineStage", f"at most {self.group.size()} stages were required (Pipeline "
                 "group size must be able to hold the stages)", num_stages,
                 hint="start more processes, or join stages")  # fmt: skip
        self.submod = submodule
        self.stage_index, self.num_stages, self.device = stage_index, num_stages, device
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        #: of each micro-batch: what came in, and what came out
        self._running: dict[int, tuple[tuple[Any, ...], tuple[Any, ...]]] = {}

    def forward(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool
    ) -> Any:
        """Run a micro-batch; gives the result on the last stage."""
        if not self.is_first:
            args = self._receive(self.stage_index - 1)
            for x in args:
                if training and x.is_floating_point():
                    x.requires_grad_(True)
        recording = core.set_grad_enabled(training)
        try:
            result = self.submod(*args, **kwargs)
        finally:
            core.set_grad_enabled(recording)
        results = result if isinstance(result, tuple) else (result,)
        if training:
            self._running[number] = (args, results)
        if self.is_last:
            return result
        self._send(self.stage_index + 1, results)
        return None

    def backward(self, number: int, loss: Tensor | None) -> None:
        """Run a micro-batch back: from the loss on the last stage, else from the next one's gradients."""
        args, results = self._running.pop(number)
        if self.is_last:
            assert loss is not None
            loss.backward()
        else:
            grads = self._receive_gradients(self.stage_index + 1)
            pairs = [
                (r, g)
                for r, g in zip(results, grads, strict=True)
                if g is not None and r.requires_grad
            ]
            if pairs:
                autograd.backward([r for r, _ in pairs], [g for _, g in pairs])
        if not self.is_first:
            self._send_gradients(self.stage_index - 1, args)

    # ---------------------------------------------------------------- between stages

    def _send(self, peer: int, tensors: tuple[Any, ...]) -> None:
        for t in tensors:
            if not isinstance(t, Tensor):
                fail(
                    TypeError,
                    "PipelineStage",
                    "tensors were required between stages",
                    type(t).__name__,
                    hint="facula.as_tensor(value) makes one; stages pass on tensors only",
                )
        described = [(tuple(t.shape), t.dtype) for t in tensors]
        send_object_list([described], group=self.group, group_dst=peer)
        for t in tensors:
            isend(t, group=self.group, group_dst=peer, tag=_FORWARD)

    def _receive(self, peer: int) -> tuple[Any, ...]:
        return self._filled(peer, _FORWARD)

    def _filled(self, peer: int, tag: int) -> tuple[Any, ...]:
        described: list[Any] = [None]
        recv_object_list(described, group=self.group, group_src=peer)
        found: list[Any] = []
        for shape, dtype in described[0]:
            if dtype is None:
                found.append(None)
                continue
            made = core.empty(shape, dtype=dtype)
            recv(made, group=self.group, group_src=peer, tag=tag)
            found.append(made)
        return tuple(found)

    def _send_gradients(self, peer: int, args: tuple[Any, ...]) -> None:
        grads = [x.grad for x in args]
        described = [(None, None) if g is None else (tuple(g.shape), g.dtype) for g in grads]
        send_object_list([described], group=self.group, group_dst=peer)
        for g in grads:
            if g is not None:
                isend(g, group=self.group, group_dst=peer, tag=_BACKWARD)

    def _receive_gradients(self, peer: int) -> tuple[Any, ...]:
        return self._filled(peer, _BACKWARD)
