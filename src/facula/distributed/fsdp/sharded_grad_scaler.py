"""`ShardedGradScaler`: a scaler of losses for parameters in pieces.

Takes: losses, optimizers, the ranks that hold the pieces. Gives: what `amp.GradScaler` gives.
Keeps true: all ranks leave the same steps out: a gradient that overflowed on one of them has on all; a rank whose
optimizer holds no elements decides as the others do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.amp.grad_scaler import GradScaler
from facula.distributed.operations import all_reduce
from facula.distributed.types import ReduceOp
from facula.distributed.world import group_of, is_initialized

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scales losses as `amp.GradScaler` does, among ranks that each have a piece of the gradients.

    Args:
        device: its type
        init_scale: the first factor
        backoff_factor: of the factor after a step that was left out
        growth_factor: of the factor after ``growth_interval`` good steps
        growth_interval: good steps before the factor grows
        enabled: whether it does anything
        process_group: the ranks; default: all
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
        growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
        process_group: ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group

    def unscale_(self, optimizer: Any) -> None:
        """Divide this rank's gradients by the scale, and hear whether any rank's overflowed."""
        super().unscale_(optimizer)
        if not self._enabled or not is_initialized():
            return
        state = self._per_optimizer_states[id(optimizer)]
        found = state["found_inf_per_device"]
        home = self._scale_tensor("ShardedGradScaler.unscale_").device
        mine = max((float(value.item()) for value in found.values()), default=0.0)
        flag = core.tensor([mine], dtype=core.float32)
        all_reduce(flag, ReduceOp.MAX, group_of(self.process_group))
        for device in found or (home,):
            found[device] = core.tensor(flag.item(), dtype=core.float32, device=device)
