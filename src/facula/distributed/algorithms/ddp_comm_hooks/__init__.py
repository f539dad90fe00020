"""How `DistributedDataParallel` exchanges its buckets: functions for `register_comm_hook`.

Takes a wrapped module. Gives `DDPCommHookType`, `register_ddp_comm_hook`, and the modules of hooks.
Keeps true: a hook gives a future of the mean of all ranks' buffers, or of what it takes for it.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from facula.distributed.algorithms.ddp_comm_hooks import (
    ddp_zero_hook,
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """The hooks by name; each value is a function `(state, bucket)`."""

    ALLREDUCE = partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = partial(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = partial(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = partial(powerSGD_hook.powerSGD_hook)
    POWER_SGD_RANK2 = partial(powerSGD_hook.powerSGD_hook)
    BATCHED_POWER_SGD = partial(powerSGD_hook.batched_powerSGD_hook)
    BATCHED_POWER_SGD_RANK2 = partial(powerSGD_hook.batched_powerSGD_hook)
    NOOP = partial(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Have a wrapped module exchange its gradients by one of the hooks.

    Args:
        state: a process group, or for PowerSGD's the group (a state is made) or a `PowerSGDState`.
    """
    if "POWER_SGD" in comm_hook_type.name and not isinstance(state, powerSGD_hook.PowerSGDState):
        rank = 2 if comm_hook_type.name.endswith("RANK2") else 1
        state = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank=rank)
    model.register_comm_hook(state, comm_hook_type.value)
