"""What the C of a fused graph is known by.

Takes: nothing; `fused.unit` makes it. Gives: `Unit`.
Keeps true: nothing here needs what writes C, so that a process which reads units from disk does not
import it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Unit:
    """A translation unit: its text, the names of its drivers, the numbers that each gets."""

    text: str
    drivers: list[str]
    numbers: list[list[int]]
