"""A hook with which `ZeroRedundancyOptimizer` updates during the backward pass.

Takes: a hook, the wrapped module and its optimizer. Gives: a hook.
Keeps true: each rank updates the parameters that it owns, with the exchanged gradients; the others take
them when the bucket's future is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import (
    OptimizerHookState,
    optimizer_in_backward,
)
from facula.namespaces.futures import Future

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


def hook_with_zero_step(
    hook: Callable[..., Future], ddp: Any, zero: Any, shard_buckets: bool = False
) -> Any:
    """A hook that exchanges by another one, and has the optimizer step after the last bucket.

    Args:
        shard_buckets: kept for PyTorch's API; which rank updates what, `zero` says.
    """

    def run(state: Any, bucket: Any) -> Future:
        if bucket.is_last():
            ddp.reducer.when_done = zero.step_exchanged
        return hook(state, bucket)

    return run


def hook_with_zero_step_interleaved(
    hook: Callable[..., Future], ddp: Any, zero: Any, shard_buckets: bool = False
) -> Any:
    """A hook that exchanges by another one, and updates what this rank owns of a bucket as soon as it was
    exchanged, while gradients of others are computed; ranks give each other what they own after the last one.

    Args:
        shard_buckets: kept for PyTorch's API; which rank updates what, `zero` says.
    """
    stepping = optimizer_in_backward(hook, OptimizerHookState(zero.optim))

    def run(state: Any, bucket: Any) -> Future:
        if bucket.index() == 0:
            zero.take_options()
        if bucket.is_last():
            ddp.reducer.when_done = zero.share
        return stepping(state, bucket)

    return run
