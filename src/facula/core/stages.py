"""Where the compiler was when it failed: its stage, and the user's line.

Takes: blocks (`with stage("lowering", node)`). Gives: `place_of(error)`: what an exception passed on its
way out.
Keeps true: exceptions pass unchanged; of nested blocks the innermost names the stage, and the innermost
that knows a line names the line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Place", "line_of", "place_of", "stage"]

_NAME = "_facula_stage"


class Place(NamedTuple):
    """A stage of the compiler, and the line of the program that it was at, where that is known."""

    stage: str
    line: str | None = None


class stage:  # noqa: N801 - reads as a block's name
    """A block that is a stage of the compiler; `node` is what of a graph it works on."""

    __slots__ = ("name", "node")

    def __init__(self, name: str, node: Any = None) -> None:
        self.name, self.node = name, node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        known: Place | None = place_of(error)
        line = known.line if known is not None else None
        if line is None and self.node is not None:
            line = line_of(self.node)
        setattr(error, _NAME, Place(self.name if known is None else known.stage, line))


def place_of(error: BaseException) -> Place | None:
    """The place in the compiler that an exception comes from; None where it met no stage."""
    return getattr(error, _NAME, None)


def line_of(node: Any) -> str | None:
    """The user's line that a node of a graph comes from: the innermost of its traceback."""
    trace = getattr(node, "meta", {}).get("stack_trace")
    if not trace:
        return None
    lines = str(trace).rstrip().splitlines()
    start = max((n for n, text in enumerate(lines) if text.lstrip().startswith("File ")), default=0)
    return "\n".join(text.rstrip() for text in lines[start : start + 2]).strip()
