"""Frames, what running them gives, and the table of what instructions do.

Takes: code objects, and functions for instructions. Gives: `Frame`, `Returned`, `Yielded`, and `ACTIONS`,
which `opcodes_*` fill through `action`.
Keeps true: an instruction's meaning stands once, whatever the domain of values.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from facula.capture.interpreter.instructions import Instruction, Program, program_of


class _Mark:
    """A value that is no value: an empty slot."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name


NULL = _Mark("NULL")
UNBOUND = _Mark("UNBOUND")
STOP = _Mark("STOP")


class Returned(NamedTuple):
    """The frame has ended with a value."""

    value: Any


class Yielded(NamedTuple):
    """The frame waits for the next value that is sent to it."""

    value: Any


class Frame:
    """One activation of a code object."""

    __slots__ = (
        "cells", "code", "function", "globals", "handling", "index", "instruction", "locals",
        "program", "stack",
    )  # fmt: skip

    def __init__(self, code: CodeType, function: Any, globals_: Any) -> None:
        self.code = code
        self.program: Program = program_of(code)
        self.function = function
        self.globals = globals_
        self.index = 0
        self.instruction: Instruction | None = None
        self.locals: dict[str, Any] = {}
        self.cells: dict[str, Any] = {}
        self.stack: list[Any] = []
        self.handling: Any = None

    def push(self, value: object) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the topmost value off."""
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Any]:
        """Take `count` values off, in the order in which they were put."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values


Action = Callable[[Any, Frame, Instruction], Any]
ACTIONS: dict[str, Action] = {}


def action(*names: str) -> Callable[[Action], Action]:
    """What the instructions of these names do; gives `Returned` or `Yielded` where the loop ends."""

    def put(function: Action) -> Action:
        for name in names:
            ACTIONS[name] = function
        return function

    return put
