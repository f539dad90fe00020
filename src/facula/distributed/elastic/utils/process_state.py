"""What the system says of a process.

Takes: a process's number. Gives: its state, a letter of `/proc`.
Keeps true: a process that has ended, or a system without `/proc`, gives None.
"""

from __future__ import annotations

__all__ = ["is_uninterruptible_state", "read_proc_state"]


def read_proc_state(pid: int) -> str | None:
    """The state of a process: `R` runs, `S` sleeps, `D` waits for a device, `Z` has ended, ..

    Args:
        pid: its number
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            # the name, which may hold anything, stands in brackets before it
            rest = stream.read().rpartition(")")[2].split()
    except OSError:
        return None
    return rest[0] if rest else None


def is_uninterruptible_state(state: str | None) -> bool:
    """Whether a process in a state hears no signal: it waits for a device."""
    return state == "D"
