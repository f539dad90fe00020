"""Truths that a program asserts: `assert n > 0` for a number that is known only where the program runs.

Takes: the running frames. Gives: `is_asserted`.
Keeps true: nothing but a statement `assert` of a program counts; what it says is checked where the program runs.
"""

from __future__ import annotations

import dis
import sys
from types import FrameType

from facula.core.errors import is_own

__all__ = ["is_asserted"]


def is_asserted() -> bool:
    """Whether the program that runs asks for a truth because it asserts it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(str(frame.f_globals.get("__name__"))):
        frame = frame.f_back
    return frame is not None and _asserts(frame)


def _asserts(frame: FrameType) -> bool:
    """Whether a frame raises an assertion error unless what it asks for holds."""
    steps = list(dis.get_instructions(frame.f_code))
    at = {step.offset: i for i, step in enumerate(steps)}
    place = at.get(frame.f_lasti, len(steps))
    while place < len(steps) and "JUMP" not in steps[place].opname:
        if steps[place].opname not in ("TO_BOOL", "CACHE", "COMPARE_OP", "NOT_TAKEN"):
            return False
        place += 1
    if place + 1 >= len(steps):
        return False
    jump = steps[place]
    if jump.opname.endswith("IF_TRUE"):
        return _raises(steps[place + 1])
    # `assert a and b`: what is wrong leads to the error
    target = at.get(jump.argval) if jump.opname.endswith("IF_FALSE") else None
    return target is not None and _raises(steps[target])


def _raises(step: dis.Instruction) -> bool:
    return step.opname == "LOAD_ASSERTION_ERROR" or step.argval is AssertionError
