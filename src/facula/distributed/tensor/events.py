"""Operators on distributed tensors that had to gather.

Takes: names of operators. Gives: a counter, and a block that forbids gathering.
Keeps true: an operator without a rule is counted, logged once, and an error where it is forbidden.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from facula.core.errors import fail
from facula.core.logs import get_logger

__all__ = ["forbid_gathering", "gathered", "gathering"]

#: operators that ran on whole tensors, on each rank the same: name -> how often
gathered: Counter[str] = Counter()
_FORBIDDEN = [False]


def gathering(name: str) -> None:
    """An operator is about to run on whole tensors."""
    if _FORBIDDEN[0]:
        fail(RuntimeError, name, "a rule for distributed tensors was required, where gathering is forbidden",
             "none for these arguments and placements",
             "redistribute() the tensors, or leave the block of forbid_gathering()")  # fmt: skip
    if not gathered[name]:
        get_logger("distributed").info("%s runs on whole tensors: it has no rule for pieces", name)
    gathered[name] += 1


@contextlib.contextmanager
def forbid_gathering() -> Iterator[None]:
    """A block in which an operator that would run on whole tensors is an error."""
    before, _FORBIDDEN[0] = _FORBIDDEN[0], True
    try:
        yield
    finally:
        _FORBIDDEN[0] = before
