"""When each rank of a pipeline does what: a picture.

Takes: an order of actions, and how long each kind takes. Gives: the beginning and end of each, and a drawing.
Keeps true: an action begins when its rank is free and all is there that it needs; messages take no time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from facula.core.errors import fail
from facula.distributed.pipelining import orders
from facula.distributed.pipelining.actions import Action, Kind, Order, compute_of

__all__ = ["COSTS", "Span", "drawing", "get_schedule_ops", "idle", "spans", "visualize_schedule"]

#: what a forward takes as the unit: a backward has two products for each of the forward's
COSTS = {
    Kind.FORWARD: 1.0, Kind.FULL_BACKWARD: 2.0, Kind.BACKWARD_INPUT: 1.0, Kind.BACKWARD_WEIGHT: 1.0,
}  # fmt: skip
_COLORS = {
    Kind.FORWARD: "#4C78A8", Kind.FULL_BACKWARD: "#54A24B", Kind.BACKWARD_INPUT: "#72B7B2",
    Kind.BACKWARD_WEIGHT: "#EECA3B",
}  # fmt: skip


@dataclass(frozen=True)
class Span:
    """An action of a rank in time."""

    rank: int
    action: Action
    start: float
    end: float


def spans(
    order: Order, stages: int, style: str = "loop", costs: Mapping[Kind, float] | None = None
) -> list[Span]:
    """When each action begins and ends.

    Example:
        >>> from facula.distributed.pipelining import orders, timeline
        >>> found = timeline.spans(orders.gpipe(2, 1), 2)
        >>> [(str(s.action), s.start, s.end) for s in found if s.rank == 0]
        [('0F0', 0.0, 1.0), ('0B0', 4.0, 6.0)]
    """
    taken = {**COSTS, **(costs or {})}
    where = orders.stage_ranks(len(order), stages, style)
    # the order in which a machine that runs one action at a time may run them
    merged = orders.with_messages(order, stages, where.__getitem__)
    left = {rank: compute_of(actions) for rank, actions in merged.items()}
    ends: dict[tuple[Any, ...], float] = {}
    free = dict.fromkeys(order, 0.0)
    found: list[Span] = []
    while any(left.values()):
        for rank, actions in left.items():
            while actions and all(need in ends for need in _needs(actions[0], stages)):
                action = actions.pop(0)
                ready = [ends[need] for need in _needs(action, stages)]
                start = max([free[rank], *ready])
                free[rank] = start + taken[action.computation_type]
                ends[action[:3]] = free[rank]
                if action.computation_type is Kind.FULL_BACKWARD:
                    ends[action.stage_index, Kind.BACKWARD_INPUT, action.microbatch_index] = free[
                        rank
                    ]
                found.append(Span(rank, action, start, free[rank]))
    return sorted(found, key=lambda span: (span.rank, span.start))


def _needs(action: Action, stages: int) -> list[tuple[Any, ...]]:
    stage, kind, number = action[:3]
    if kind is Kind.FORWARD:
        return [(stage - 1, kind, number)] if stage else []
    if kind is Kind.BACKWARD_WEIGHT:
        return [(stage, Kind.BACKWARD_INPUT, number)]
    after = [(stage + 1, Kind.BACKWARD_INPUT, number)] if stage + 1 < stages else []
    return [(stage, Kind.FORWARD, number), *after]


def idle(found: list[Span]) -> float:
    """Which part of the time ranks wait."""
    total = max(span.end for span in found)
    ranks = len({span.rank for span in found})
    return 1.0 - sum(span.end - span.start for span in found) / (total * ranks)


def drawing(found: list[Span], title: str = "") -> str:
    """The time line as SVG: a row for each rank, a box for each action."""
    total, ranks = max(span.end for span in found), max(span.rank for span in found) + 1
    unit, height, left, top = 28.0, 26.0, 60.0, 40.0
    width = left + total * unit + 10
    shown = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{top + ranks * height + 10:g}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="8" y="20">{_text(title)}  (waiting: {100 * idle(found):.1f} %)</text>',
    ]
    for rank in range(ranks):
        shown.append(f'<text x="8" y="{top + rank * height + 17:g}">rank {rank}</text>')
    for span in found:
        x, y = left + span.start * unit, top + span.rank * height
        size = (span.end - span.start) * unit
        color = _COLORS[span.action.computation_type]
        shown.append(
            f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{height - 4:g}" fill="{color}" stroke="white"/>'
            f'<text x="{x + size / 2:g}" y="{y + 15:g}" text-anchor="middle" fill="white" font-size="9">'
            f"{_text(str(span.action))}</text>"
        )
    return "\n".join([*shown, "</svg>"]) + "\n"


def _text(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def get_schedule_ops(
    schedule: str, pp_degree: int, num_microbatches: int, num_stages_per_rank: int | None = None
) -> Order:
    """What each rank computes in a schedule.

    Args:
        schedule: its name, as `get_schedule_class` takes it
        pp_degree: how many ranks
        num_microbatches: into how many parts a batch is cut
        num_stages_per_rank: how many stages each rank has; default: what the schedule needs

    Example:
        >>> from facula.distributed.pipelining.timeline import get_schedule_ops
        >>> get_schedule_ops("1F1B", 2, 2)[1]
        [1F0, 1B0, 1F1, 1B1]
    """
    name, count = schedule.lower(), num_microbatches
    if name in ("gpipe", "1f1b"):
        each = 1
        made = (orders.gpipe if name == "gpipe" else orders.one_forward_one_backward)(
            pp_degree, count
        )
    elif name in ("zbvzerobubble", "dualpipev"):
        each = 2
        made = (orders.zero_bubble_v if name == "zbvzerobubble" else orders.dual_pipe_v)(
            pp_degree, count
        )
    elif name in ("loopedbfs", "interleaved1f1b", "interleavedzerobubble"):
        each = num_stages_per_rank or 2
        if name == "loopedbfs":
            made = orders.looped_breadth_first(pp_degree, each * pp_degree, count)
        else:
            split = name == "interleavedzerobubble"
            made = orders.interleaved(pp_degree, each * pp_degree, count, split=split)
    else:
        fail(ValueError, "get_schedule_ops", "the name of a schedule was required", repr(schedule),
             "GPipe, 1F1B, LoopedBFS, Interleaved1F1B, InterleavedZeroBubble, ZBVZeroBubble or DualPipeV")  # fmt: skip
    if num_stages_per_rank not in (None, each):
        fail(ValueError, "get_schedule_ops", f"{each} stages on each rank were required for {schedule}",
             num_stages_per_rank, "leave num_stages_per_rank out")  # fmt: skip
    return made


def visualize_schedule(
    schedule: Order, filename: str | os.PathLike[str] | None = None, title: str = ""
) -> str:
    """The picture of an order, also written to a file: SVG, which browsers show.

    Example:
        >>> from facula.distributed.pipelining import timeline
        >>> picture = timeline.visualize_schedule(timeline.get_schedule_ops("GPipe", 2, 4), "gpipe.svg")
        >>> picture.count("<rect")
        16
    """
    stages = 1 + max(a.stage_index for actions in schedule.values() for a in compute_of(actions))
    first = {a.stage_index for a in compute_of(schedule[0])}
    style = "v" if stages > len(schedule) and stages - 1 in first else "loop"
    picture = drawing(spans(schedule, stages, style), title)
    if filename is not None:
        with open(filename, "w") as stream:
            stream.write(picture)
    return picture
