"""PowerSGD: gradients sent as products of two narrow matrices. [Vogels et al. 2019]

Takes: a `PowerSGDState` and a bucket. Gives: a future of the averaged, approximated buffer.
Keeps true: all ranks get the same bits; what an iteration could not say is added to the next one's
gradients (error feedback).
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from facula.distributed.buckets import GradBucket, flattened
from facula.distributed.operations import all_reduce
from facula.distributed.world import default_group
from facula.namespaces.futures import Future

__all__ = ["PowerSGDState", "powerSGD_hook"]

Tensor = core.Tensor


class PowerSGDState:
    """What the hook keeps from one iteration to the next."""

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,  # noqa: N803 - PyTorch's name
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        """Choose how gradients are approximated.

        Args:
            matrix_approximation_rank: the narrow side of the two matrices.
            start_powerSGD_iter: iterations before that are sent whole.
            min_compression_rate: gradients that would not shrink by this factor are sent whole.
            use_error_feedback: add what was left out to the next gradients.
            warm_start: begin with the last iteration's matrices.
            orthogonalization_epsilon: added to columns before they are made orthonormal.
            random_seed: of the first matrices; the same on all ranks.
            compression_stats_logging_frequency, batch_tensors_with_same_shape: kept for PyTorch's
                API; they change nothing here.
        """
        if start_powerSGD_iter <= 1 and (use_error_feedback or warm_start):
            fail(
                ValueError,
                "PowerSGDState",
                ("start_powerSGD_iter above 1 was required with use_error_feedback or warm_start"),
                got=start_powerSGD_iter,
                hint="start_powerSGD_iter=2 is the least",
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.epsilon = orthogonalization_epsilon
        self.generator = core.Generator()
        self.generator.manual_seed(random_seed)
        self.iter = 0
        #: by bucket: what was left out, and the last right-hand matrices
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def shrinks(self, matrix: Tensor) -> bool:
        """Whether two narrow matrices are enough smaller than a gradient."""
        n, m = matrix.shape
        rank = min(n, m, self.matrix_approximation_rank)
        return (n + m) * rank * self.min_compression_rate < n * m

    def orthonormal(self, matrix: Tensor) -> Tensor:
        """The matrix with orthonormal columns."""
        return facula.linalg.qr(matrix + self.epsilon if self.epsilon else matrix)[0]


def _mean(tensor: Tensor, group: Any) -> Tensor:
    """The mean among ranks. It is waited for: what follows must come in the same order on all."""
    tensor.div_(group.size())
    all_reduce(tensor, group=group)
    return tensor


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:  # noqa: N802
    """The mean of the gradients, approximated by matrices of low rank."""
    group = state.process_group if state.process_group is not None else default_group()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    buffer = bucket.buffer()
    wanted: Tensor | None = None
    if state.use_error_feedback:
        left = state.error_dict.get(bucket.index())
        if left is not None:
            buffer.add_(left)
        wanted = buffer.clone()
    whole: list[Tensor] = []
    matrices: list[Tensor] = []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else gradient
        narrow = matrix.dim() == 2 and state.shrinks(matrix)
        (matrices if narrow else whole).append(matrix)
    if whole:
        flat = _mean(flattened(whole), group)
        for target, part in zip(whole, flat.split([t.numel() for t in whole]), strict=True):
            target.copy_(part.view(target.shape))
    if matrices:
        _approximate(state, bucket.index(), matrices, group)
    if wanted is not None:
        state.error_dict[bucket.index()] = wanted - buffer
    state.maybe_increase_iter(bucket)
    done = Future()
    done.set_result(buffer)
    return done


def _approximate(state: PowerSGDState, index: int, matrices: list[Tensor], group: Any) -> None:
    """One step of the power method for each matrix; all matrices in two exchanges."""
    rights = state.q_memory_dict.get(index) if state.warm_start else None
    if rights is None:
        rights = [_first(state, m) for m in matrices]
    lefts = [m @ state.orthonormal(q) for m, q in zip(matrices, rights, strict=True)]
    lefts = [state.orthonormal(p) for p in _mean_of_all(lefts, group)]
    rights = _mean_of_all([m.t() @ p for m, p in zip(matrices, lefts, strict=True)], group)
    for matrix, p, q in zip(matrices, lefts, rights, strict=True):
        matrix.copy_(p @ q.t())
    state.q_memory_dict[index] = rights


def _first(state: PowerSGDState, matrix: Tensor) -> Tensor:
    n, m = matrix.shape
    rank = min(n, m, state.matrix_approximation_rank)
    return facula.randn(m, rank, generator=state.generator, dtype=matrix.dtype)


def _mean_of_all(tensors: list[Tensor], group: Any) -> list[Tensor]:
    flat = _mean(flattened(tensors), group)
    parts = flat.split([math.prod(t.shape) for t in tensors])
    return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]
