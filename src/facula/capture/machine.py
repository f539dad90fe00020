"""Frames and the loop that runs them, for any domain of values.

Takes: a frame and a domain (`concrete.Concrete` for real objects, `symbolic.Symbolic` for symbolic
values). Gives: what the frame returns or yields.
Keeps true: an instruction's meaning stands once, in `opcodes_*`, in terms of the domain's operations;
an exception finds its handler through the code's exception table.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from facula.capture.instructions import Instruction, Program, program_of


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

    def push(self, value: Any) -> None:
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


def step(domain: Any, frame: Frame) -> Returned | Yielded | None:
    """Run one instruction; exceptions go to the frame's handler, or out."""
    instruction = frame.program.instructions[frame.index]
    frame.instruction = instruction
    frame.index += 1
    run = ACTIONS.get(instruction.name)
    if run is None:
        domain.unknown_instruction(frame, instruction)
    try:
        return run(domain, frame, instruction)  # type: ignore[misc]
    except domain.RAISED as error:
        if not throw(domain, frame, domain.caught(error)):
            raise
        return None


def throw(domain: Any, frame: Frame, exception: Any) -> bool:
    """Go on at the handler of the present instruction; False where there is none."""
    position = frame.instruction.index if frame.instruction is not None else 0
    row = frame.program.handler(position)
    if row is None:
        return False
    del frame.stack[row.depth :]
    if row.lasti:
        frame.push(domain.constant(position))
    frame.push(exception)
    frame.index = row.target
    return True


def run(domain: Any, frame: Frame) -> Returned | Yielded:
    """Run until the frame returns or yields."""
    while True:
        signal = step(domain, frame)
        if signal is not None:
            return signal


def load_actions() -> None:
    """Fill the table of actions."""
    from facula.capture import opcodes_build, opcodes_call, opcodes_control, opcodes_stack  # noqa: F401


load_actions()
