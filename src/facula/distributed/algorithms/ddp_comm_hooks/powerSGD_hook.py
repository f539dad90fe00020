"""PowerSGD: gradients as products of two narrow matrices. [Vogels et al. 2019]

Takes: a `PowerSGDState` and a bucket. Gives: a future of the (approximate) mean.
Keeps true: ranks get the same bits; what a product leaves out of a gradient is added to the next one (error
feedback); collectives are started in the thread that calls the hook, so that their order is the same on all
ranks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from facula.distributed.buffers import begin_together
from facula.distributed.operations import all_reduce
from facula.distributed.world import own_group
from facula.namespaces.futures import Future
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

Tensor = core.Tensor


class PowerSGDState:
    """What is kept between steps: errors, and the factors that the next step begins with."""

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,  # noqa: N803
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        """Choose how much is sent.

        Args:
            matrix_approximation_rank: the width of the factors.
            start_powerSGD_iter: steps before it exchange whole gradients.
            min_compression_rate: a matrix is sent as factors where that saves at least this factor.
            use_error_feedback: whether what was left out is added to the next gradient.
            warm_start: whether the last factors begin the next step.
            batch_tensors_with_same_shape: kept for PyTorch's API; all factors of a bucket go together.
        """
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            fail(ValueError, "PowerSGDState", "start_powerSGD_iter > 1 was required (Expect "
                 "`start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can "
                 "only be applied after the first two iterations in DDP.)",
                 start_powerSGD_iter, "start_powerSGD_iter=2 is the least")  # fmt: skip
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.random_seed = random_seed
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.p_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer numbers were sent, the numbers before, and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def group(self) -> Any:
        """The ranks that exchange."""
        return own_group(self.process_group, "powerSGD_hook")

    def pays(self, rows: int, columns: int) -> bool:
        """Whether a matrix is sent as factors."""
        rank = min(rows, columns, self.matrix_approximation_rank)
        return (rows + columns) * rank * self.min_compression_rate < rows * columns

    def start(self, index: int, place: int, columns: int, rank: int) -> Tensor:
        """The right factor that a step begins with: the last one, else random, on all ranks the same."""
        kept = self.q_memory_dict.get(index)
        if self.warm_start and kept is not None:
            return kept[place]
        generator = core.Generator().manual_seed(
            self.random_seed + 7919 * self.iter + 31 * index + place
        )
        made = F.randn((columns, rank), generator=generator, dtype=core.float32)
        return orthogonal(made, self.orthogonalization_epsilon)


def orthogonal(matrix: Tensor, epsilon: float) -> Tensor:
    """The columns made orthonormal, one after the other; a column of zeros stays one."""
    columns: list[Tensor] = []
    for column in matrix.unbind(1):
        for _ in range(2):  # once more: one pass leaves what rounding made of it
            for other in columns:
                column = column - other * (other * column).sum()
        norm = column.norm()
        columns.append(column / (norm + epsilon) if float(norm) > 1e-30 else column * 0)
    return F.stack(columns, 1)


def _summed(tensors: list[Tensor], group: ProcessGroup | None) -> list[Tensor]:
    """The sums of all ranks' tensors, exchanged together."""
    flat = F.cat([t.reshape(-1) for t in tensors])
    all_reduce(flat, group=group)
    parts = flat.split([t.numel() for t in tensors])
    return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]


def _approximate(state: PowerSGDState, index: int, matrices: list[Tensor], group: Any) -> None:
    """Put the mean of all ranks' matrices, as far as factors hold it, into each of them."""
    rank = state.matrix_approximation_rank
    wide = [m.to(core.float32) for m in matrices]
    right = [state.start(index, i, m.shape[1], min(*m.shape, rank)) for i, m in enumerate(wide)]
    left = _summed([m @ q for m, q in zip(wide, right, strict=True)], group)
    left = [orthogonal(p, state.orthogonalization_epsilon) for p in left]
    right = _summed([m.t() @ p for m, p in zip(wide, left, strict=True)], group)
    right = [q / group.size() for q in right]
    for m, p, q in zip(matrices, left, right, strict=True):
        m.copy_(p @ q.t())
    state.q_memory_dict[index] = [orthogonal(q, state.orthogonalization_epsilon) for q in right]
    state.p_memory_dict[index] = left
    state.total_numel_after_compression += sum(t.numel() for t in left + right)


def _done(buffer: Tensor) -> Future:
    future: Future = Future()
    future.set_result(buffer)
    return future


def _feed_back(state: PowerSGDState, bucket: Any) -> Tensor | None:
    """Add what was left out last time; gives a copy of the sum."""
    if not state.use_error_feedback:
        return None
    error = state.error_dict.get(bucket.index())
    if error is not None:
        bucket.buffer().add_(error)
    return bucket.buffer().clone()


def _count(state: PowerSGDState, bucket: Any) -> None:
    state.total_numel_before_compression += bucket.buffer().numel()
    if bucket.is_last():
        state.iter += 1


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:  # noqa: N802
    """Matrices as factors, all else whole."""
    group, buffer = state.group(), bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        _count(state, bucket)
        return allreduce_hook(group, bucket)
    given = _feed_back(state, bucket)
    matrices, rest = [], []
    for gradient in bucket.gradients():
        as_matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else None
        if as_matrix is not None and state.pays(*as_matrix.shape):
            matrices.append(as_matrix)
        else:
            rest.append(gradient)
    if rest:
        for target, total in zip(rest, _summed(rest, group), strict=True):
            target.copy_(total / group.size())
        state.total_numel_after_compression += sum(t.numel() for t in rest)
    if matrices:
        _approximate(state, bucket.index(), matrices, group)
    if given is not None:
        # what ranks have whole has no error: the mean is not this rank's, but nothing is left out
        error = given.sub_(buffer)
        for gradient, part in zip(bucket.gradients(), _parts(error, bucket), strict=True):
            if not any(begin_together(gradient, m) for m in matrices):
                part.zero_()
        state.error_dict[bucket.index()] = error
    _count(state, bucket)
    return _done(buffer)


def _parts(flat: Tensor, bucket: Any) -> list[Tensor]:
    return list(flat.split([p.numel() for p in bucket.parameters()]))


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:  # noqa: N802
    """The whole bucket as one square matrix: fewer, larger products, and a coarser approximation."""
    group, buffer = state.group(), bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        _count(state, bucket)
        return allreduce_hook(group, bucket)
    given = _feed_back(state, bucket)
    side = math.isqrt(max(buffer.numel() - 1, 0)) + 1
    square = F.zeros((side * side,), dtype=buffer.dtype)
    square[: buffer.numel()].copy_(buffer)
    _approximate(state, bucket.index(), [square.view(side, side)], group)
    buffer.copy_(square[: buffer.numel()])
    if given is not None:
        state.error_dict[bucket.index()] = given.sub_(buffer)
    _count(state, bucket)
    return _done(buffer)
