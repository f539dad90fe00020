"""In which order each rank of a pipeline computes.

Takes: how many ranks, stages and micro-batches. Gives: a list of actions for each rank, schedule by schedule.
Keeps true: no rank waits for something that another one would do after it waits for this one; each stage runs each
micro-batch once forward and once backward, or its two halves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.distributed.pipelining.actions import Action, Kind, Order, leaves

__all__ = [
    "dual_pipe_v", "gpipe", "interleaved", "looped_breadth_first", "one_forward_one_backward", "stage_ranks",
    "with_messages", "zero_bubble_v",
]  # fmt: skip

F, B, INPUT, W = Kind.FORWARD, Kind.FULL_BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT


def stage_ranks(ranks: int, stages: int, style: str = "loop") -> dict[int, int]:
    """The rank of each stage: round and round, or there and back again (`v`)."""
    if style == "loop":
        return {stage: stage % ranks for stage in range(stages)}
    if stages % ranks:
        fail(ValueError, "pipelining", f"a multiple of {ranks} stages was required (num_stages must be evenly "
             "divisible by pp_size for V schedules)", stages, "two stages for each rank make a V")  # fmt: skip
    found = {}
    for stage in range(stages):
        turn, place = divmod(stage, ranks)
        found[stage] = ranks - 1 - place if turn % 2 else place
    return found


class _Rank:
    """The list of a rank, which counts its micro-batches."""

    def __init__(self) -> None:
        self.actions: list[Action | None] = []
        self.counts: Counter[tuple[int, Kind]] = Counter()

    def add(self, stage: int, *kinds: Kind) -> None:
        """Run the next micro-batch of a stage."""
        for kind in kinds:
            self.actions.append(Action(stage, kind, self.counts[stage, kind]))
            self.counts[stage, kind] += 1


def gpipe(ranks: int, microbatches: int) -> Order:
    """All micro-batches forward, then all back. [Huang et al. 2019]"""
    found = {}
    for rank in range(ranks):
        made = _Rank()
        made.add(rank, *[F] * microbatches, *[B] * microbatches)
        found[rank] = made.actions
    return found


def one_forward_one_backward(ranks: int, microbatches: int) -> Order:
    """One back after each one forward, once the pipeline is full. [Narayanan et al. 2019]"""
    found = {}
    for rank in range(ranks):
        made, ahead = _Rank(), min(microbatches, ranks - rank)
        made.add(rank, *[F] * ahead)
        for _ in range(microbatches - ahead):
            made.add(rank, B, F)
        made.add(rank, *[B] * ahead)
        found[rank] = made.actions
    return found


def looped_breadth_first(ranks: int, stages: int, microbatches: int) -> Order:
    """Stage by stage all micro-batches, there and back. [Lamy-Poirier 2023]"""
    found: Order = {}
    for rank in range(ranks):
        own = range(rank, stages, ranks)
        there = [Action(stage, F, i) for stage in own for i in range(microbatches)]
        back = [Action(s, B, i) for s in reversed(own) for i in reversed(range(microbatches))]
        found[rank] = [*there, *back]
    return found


def interleaved(ranks: int, stages: int, microbatches: int, *, split: bool = False) -> Order:
    """One forward, one backward, with several stages on each rank, which take turns. [Narayanan et al. 2021]

    Args:
        split: whether gradients of weights are computed later than those of inputs, where the rank would
            wait. [Qi et al. 2023]
    """
    local = stages // ranks
    rounds = max(1, microbatches // ranks)
    if microbatches % rounds:
        fail(ValueError, "pipelining", f"a multiple of {rounds} micro-batches was required (Interleaved schedules "
             "require the number of microbatches to be a multiple of the number of rounds)", microbatches,
             f"a multiple of {ranks} fits")  # fmt: skip
    each = microbatches // rounds
    return {
        rank: _interleaved_rank(rank, ranks, local, each, microbatches, split)
        for rank in range(ranks)
    }


def _interleaved_rank(
    rank: int, ranks: int, local: int, each: int, microbatches: int, split: bool
) -> list[Action | None]:
    """A rank's turns: `each` micro-batches of one stage, then as many of the next."""
    total = microbatches * local
    ahead = min((local - 1) * each + (1 if split else 2) * (ranks - 1 - rank), total)
    made = _Rank()

    def forward_stage(turn: int) -> int:
        return (turn // each) % local * ranks + rank

    def backward_stage(turn: int) -> int:
        return (local - 1 - (turn // each) % local) * ranks + rank

    def weight(turn: int) -> None:
        # as many turns later as this rank is far from the first one
        if split and turn - rank >= 0:
            made.add(backward_stage(turn - rank), W)

    for turn in range(ahead):
        made.add(forward_stage(turn), F)
    for turn in range(total):
        if turn + ahead < total:
            made.add(forward_stage(turn + ahead), F)
        made.add(backward_stage(turn), INPUT if split else B)
        weight(turn)
    for turn in range(total, total + rank if split else total):
        weight(turn)
    return made.actions


def zero_bubble_v(ranks: int, microbatches: int) -> Order:
    """Two stages on each rank, the first and the last of what is left, so that a loss comes back at once; weights'
    gradients fill what would be waited. [Qi et al. 2023]"""
    enough = max(2 * ranks - 1, microbatches)
    found: Order = {}
    for rank in range(ranks):
        low, high, made = rank, 2 * ranks - 1 - rank, _Rank()
        made.add(low, *[F] * (2 * (ranks - rank) - 1))
        for _ in range(rank):
            made.add(high, F)
            made.add(low, F)
        for _ in range(ranks - rank):
            made.add(high, F, INPUT, W)
        while made.counts[high, F] < made.counts[low, F] or made.counts[low, F] < enough:
            if made.counts[low, F] < enough:
                made.add(low, F)
            made.add(low, INPUT, W)
            made.add(high, F, INPUT, W)
        for _ in range(rank):
            made.add(low, INPUT)
            made.add(high, INPUT)
        for _ in range(ranks - rank):
            made.add(low, INPUT, W)
        for stage in (high, low):
            made.add(stage, *[W] * (made.counts[stage, INPUT] - made.counts[stage, W]))
        found[rank] = [
            a for a in made.actions if a is not None and (a.microbatch_index or 0) < microbatches
        ]
    return found


class _DualRank(_Rank):
    """A rank's list in which a forward and a backward may run together, and weights' gradients wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Action] = []

    def add(self, stage: int, *kinds: Kind) -> None:
        """Run the next micro-batch of a stage; of a whole backward and of its first half, the same count."""
        for kind in kinds:
            key = (stage, F if kind is F else INPUT)
            number = self.counts[key]
            self.counts[key] += 1
            self.actions.append(Action(stage, kind, number))
            if kind is INPUT:
                self.waiting.append(Action(stage, W, number))

    def together(self, forward: int, backward: int) -> None:
        """Run a stage forward beside another one backward."""
        self.add(forward, F)
        self.add(backward, B)
        self.actions[-2:] = [Action(-1, Kind.OVERLAP_F_B, None, tuple(leaves(self.actions[-2:])))]

    def weight(self) -> None:
        """Compute the weights' gradients that wait longest."""
        if self.waiting:
            self.actions.append(self.waiting.pop(0))


def dual_pipe_v(ranks: int, microbatches: int) -> Order:
    """`zero_bubble_v` with a forward beside each backward, so that messages hide behind both. [DeepSeek 2025]"""
    if microbatches < 2 * ranks:
        fail(ValueError, "pipelining", f"at least {2 * ranks} micro-batches were required (DualPipeV requires at "
             "least as many microbatches as stages)", microbatches, "cut the batch into more parts")  # fmt: skip
    found: Order = {}
    for rank in range(ranks):
        low, high, made, rest = rank, 2 * ranks - 1 - rank, _DualRank(), ranks - rank - 1
        made.add(low, *[F] * (2 * rest))
        for _ in range(rank + 1):
            made.add(low, F)
            made.add(high, F)
        for _ in range(rest):
            made.add(high, INPUT)
            made.weight()
            made.add(high, F)
        for i in range(microbatches - 2 * ranks + rank + 1):
            if i == 0 and rank == ranks - 1:
                made.add(low, F)
                made.add(high, B)
            else:
                made.together(low, high)
            made.together(high, low)
        for _ in range(rest):
            made.add(high, B)
            made.together(high, low)
        _end_of_dual(made, low, high, rank, rest)
        found[rank] = made.actions
    return found


def _end_of_dual(made: _DualRank, low: int, high: int, rank: int, rest: int) -> None:
    """The last backwards: in the second half of them weights' gradients wait."""
    half = (rank + 1) // 2
    for i in range(rank + 1):
        made.add(high, INPUT if i > half or (i == half and rank % 2) else B)
        made.add(low, INPUT if i >= half else B)
    for _ in range(rest):
        made.weight()
        made.add(low, INPUT)
    for _ in range(rank + 1):
        made.weight()


# ------------------------------------------------------------------ messages


def with_messages(order: Order, stages: int, rank_of: Callable[[int], int]) -> Order:
    """An order with what ranks send and receive.

    A send stands behind what makes it, a receipt at once in the list of the rank that needs it, in the order in
    which things are sent.

    Args:
        rank_of: the rank of a stage.

    Raises:
        RuntimeError: ranks wait for each other.
    """
    todo = {rank: list(leaves(actions)) for rank, actions in order.items()}
    made: Order = {rank: [] for rank in order}
    there: set[tuple[int, Kind, int | None]] = set()
    while any(todo.values()):
        moved = False
        for rank in sorted(todo):
            if todo[rank] and _ready(todo[rank][0], stages, rank_of, there):
                action = todo[rank].pop(0)
                made[rank].append(action)
                there.add((action.stage_index, action.computation_type, action.microbatch_index))
                _send(action, stages, rank_of, made, there)
                moved = True
        if not moved:
            first = {rank: str(actions[0]) for rank, actions in todo.items() if actions}
            fail(RuntimeError, "pipelining", "an order in which no ranks wait for each other was required "
                 "(Malformed compute schedule, can't schedule sends/recvs)", first,
                 "each rank waits for what it needs for its first action here")  # fmt: skip
    return made


def _send(
    action: Action, stages: int, rank_of: Callable[[int], int], made: Order, there: set[Any]
) -> None:  # fmt: skip
    """Add the message with an action's result, where another rank needs it."""
    stage, kind, number = action[:3]
    if kind is F and stage + 1 < stages:
        to, send, receive = stage + 1, Kind.SEND_F, Kind.RECV_F
    elif kind in (B, INPUT) and stage > 0:
        to, send, receive = stage - 1, Kind.SEND_B, Kind.RECV_B
    else:
        return
    if rank_of(to) != rank_of(stage):
        made[rank_of(stage)].append(Action(stage, send, number))
        made[rank_of(to)].append(Action(to, receive, number))
    there.add((to, receive, number))


def _ready(
    action: Action, stages: int, rank_of: Callable[[int], int], there: set[Any]
) -> bool:  # fmt: skip
    """Whether all is there that an action needs."""
    stage, kind, number = action[:3]
    if kind is F:
        return stage == 0 or (stage, Kind.RECV_F, number) in there
    if kind in (B, INPUT):
        came = stage == stages - 1 or (stage, Kind.RECV_B, number) in there
        return came and (stage, F, number) in there
    if kind is W:
        return (stage, INPUT, number) in there
    return True
