"""`breakpoint`: the debugger on one rank, while the others wait.

Takes: a rank. Gives: nothing; returns on all ranks when the debugger is left.
Keeps true: all ranks call it at the same place; one that waits too long says so.
"""

from __future__ import annotations

import datetime
import inspect
import pdb

from facula.core.errors import fail
from facula.distributed.world import _STATE, default_group

__all__ = ["breakpoint"]

#: how often each place was reached, and how many breakpoints were left on this rank
_REACHED: dict[tuple[str, int], int] = {}
_LEFT = [0]


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stop one rank in the debugger; the others wait until it is left.

    Args:
        rank: the rank that stops, a number of the default group
        skip: how often this place is passed before it stops
        timeout_s: seconds for which the others wait

    Raises:
        DistStoreError: the debugger was not left in time.
    """
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None:
        fail(RuntimeError, "distributed.breakpoint", "a caller was required", "none",
             hint="call it in the program that is to stop")  # fmt: skip
    if skip > 0:
        place = (caller.f_code.co_filename, caller.f_lineno)
        _REACHED[place] = _REACHED.get(place, 0) + 1
        if _REACHED[place] <= skip:
            return
    group, store = default_group(), _STATE.store
    _LEFT[0] += 1
    key = f"breakpoint/{_LEFT[0]}"
    if group.rank() == rank:
        debugger = pdb.Pdb()
        debugger.message(
            f"\nrank {rank} stops; the other ranks wait. `u` goes up to the place of the breakpoint, `c` goes on.\n"
        )
        debugger.set_trace()
        if store is not None:  # the debugger stands here until it is left
            store.set(key, b"left")
    elif store is not None:
        store.wait([key], datetime.timedelta(seconds=timeout_s))
