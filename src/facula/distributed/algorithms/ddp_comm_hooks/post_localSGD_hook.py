"""A hook for local training: gradients are exchanged everywhere at first, later in small groups only.

Takes: a state and a bucket. Gives: a future of the mean.
Keeps true: before `start_localSGD_iter` steps all ranks have the same gradients, from then on the ranks of a
subgroup have; who averages the parameters is `algorithms.model_averaging`. [Lin et al. 2018]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.distributed.algorithms.ddp_comm_hooks.default_hooks import mean_of
from facula.namespaces.futures import Future

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The groups, and the step from which on training is local."""

    def __init__(
        self, process_group: ProcessGroup | None, subgroup: Any, start_localSGD_iter: int,  # noqa: N803
        post_local_gradient_allreduce: bool = True,
    ) -> None:  # fmt: skip
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future:  # noqa: N802
    """The mean over all ranks in the first steps, then over the subgroup, or nobody."""
    step = state.iter
    if bucket.is_last():
        state.iter += 1
    if step < state.start_localSGD_iter:
        return mean_of(bucket.buffer(), state.process_group)
    if state.post_local_gradient_allreduce and state.subgroup is not None:
        return mean_of(bucket.buffer(), state.subgroup)
    done: Future = Future()
    done.set_result(bucket.buffer())
    return done
