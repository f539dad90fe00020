"""What ranks of a pipeline do one after the other, and its form in text.

Takes: actions. Gives: `Action`, the text of each (as `2F0`: stage 2 runs micro-batch 0 forward), and files of them.
Keeps true: the text is PyTorch's, both ways; a row of a file is a rank; an empty cell is a rank that waits.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from facula.core.errors import fail

__all__ = ["Action", "Kind", "Order", "compute_of", "leaves", "read_csv", "write_csv"]


class Kind(StrEnum):
    """What is done: computed, sent, received, or made whole."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    FULL_BACKWARD = "B"
    OVERLAP_F_B = "OVERLAP_F_B"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    REDUCE_GRAD = "REDUCE_GRAD"


_COMPUTES = {Kind.FORWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT, Kind.FULL_BACKWARD}
_TEXT = re.compile(r"(\d+)(F|I|B|W|UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)")


class Action(NamedTuple):
    """One thing that a rank does.

    Example:
        >>> from facula.distributed.pipelining.actions import Action
        >>> Action.from_str("2SEND_F0").stage_index
        2
    """

    stage_index: int
    computation_type: Kind
    microbatch_index: int | None = None
    sub_actions: tuple[Action, ...] | None = None

    def __repr__(self) -> str:
        if self.sub_actions is not None:
            return f"({';'.join(map(repr, self.sub_actions))}){self.computation_type.value}"
        number = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type.value}{number}"

    def __str__(self) -> str:
        return repr(self)

    @staticmethod
    def from_str(text: str) -> Action | None:
        """The action of a text; None of an empty one."""
        text = text.strip()
        if not text:
            return None
        both = re.fullmatch(r"\((.*)\)OVERLAP_F_B", text)
        if both:
            parts = tuple(a for a in map(Action.from_str, both[1].split(";")) if a is not None)
            return Action(-1, Kind.OVERLAP_F_B, None, parts)
        found = _TEXT.fullmatch(text)
        if not found:
            fail(RuntimeError, "pipelining", "an action such as 2F0 was required (Invalid action string, should "
                 "be formatted as [stage][action type][(microbatch)])", repr(text),
                 "F, B, I and W compute; SEND_F, RECV_F, SEND_B and RECV_B pass on")  # fmt: skip
        number = int(found[3]) if found[3] else None
        return Action(int(found[1]), Kind(found[2]), number)


#: rank -> what it does; None: it waits
Order = dict[int, list[Action | None]]


def leaves(actions: Iterable[Action | None]) -> Iterator[Action]:
    """Actions one by one: those that are done together, one after the other."""
    for action in actions:
        if action is None:
            continue
        if action.sub_actions is None:
            yield action
        else:
            yield from leaves(action.sub_actions)


def compute_of(actions: Iterable[Action | None]) -> list[Action]:
    """The actions that compute."""
    return [a for a in leaves(actions) if a.computation_type in _COMPUTES]


def write_csv(filename: str | os.PathLike[str], order: Order) -> None:
    """Write a row of actions for each rank."""
    with open(filename, "w", newline="") as stream:
        writer = csv.writer(stream)
        for rank in sorted(order):
            writer.writerow(["" if action is None else str(action) for action in order[rank]])


def read_csv(filename: str | os.PathLike[str]) -> Order:
    """Read a row of actions for each rank."""
    with open(filename, newline="") as stream:
        rows = list(csv.reader(stream))
    return {rank: [Action.from_str(text) for text in row] for rank, row in enumerate(rows)}
