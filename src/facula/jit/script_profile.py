"""How long the lines of scripts take: `torch.jit._ScriptProfile`.

Takes nothing; it listens while it is enabled. Gives a table of lines with how often and how long they ran.
Keeps true: programs run as they do otherwise while no profile is enabled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["PROFILES", "ScriptProfile", "timed"]

#: the profiles that are enabled
PROFILES: list[ScriptProfile] = []


class ScriptProfile:
    """A listener to the lines of scripts.

    Example:
        >>> profile = ScriptProfile()
        >>> profile.enable()
        >>> facula.jit.script(facula.nn.ReLU())(facula.ones(1))
        tensor([1.])
        >>> profile.disable()
        >>> "relu" in profile.dump_string()
        True
    """

    def __init__(self) -> None:
        #: by place: operator, count, nanoseconds
        self._lines: dict[tuple[str, str], list[int]] = {}

    def enable(self) -> None:
        """Listen from now on."""
        if self not in PROFILES:
            PROFILES.append(self)

    def disable(self) -> None:
        """Listen no more; what was heard stays."""
        if self in PROFILES:
            PROFILES.remove(self)

    def heard(self, place: str, kind: str, nanoseconds: int) -> None:
        """An operator ran."""
        held = self._lines.setdefault((place, kind), [0, 0])
        held[0] += 1
        held[1] += nanoseconds

    def dump_string(self) -> str:
        """The table, the longest first; nothing where nothing ran."""
        if not self._lines:
            return ""
        rows = sorted(self._lines.items(), key=lambda item: -item[1][1])
        lines = [
            f"{count:8d} {spent / 1e6:12.3f} ms  {kind:24s} {place}"
            for (place, kind), (count, spent) in rows
        ]
        return "\n".join([f"{'count':>8s} {'time':>12s}     {'operator':24s} line", *lines, ""])

    def dump(self) -> None:
        """Print the table."""
        print(self.dump_string())


def timed(function: Callable[..., Any], kind: str, place: Any) -> Callable[..., Any]:
    """An operator of which the profiles hear."""
    where = "" if place is None else place.text()

    def run(*args: Any) -> Any:
        start = time.perf_counter_ns()
        try:
            return function(*args)
        finally:
            spent = time.perf_counter_ns() - start
            for profile in PROFILES:
                profile.heard(where, kind, spent)

    return run
