"""The loop that runs frames, for any domain of values.

Takes: a frame and a domain (`concrete.Concrete` for real objects, `symbolic.Symbolic` for symbolic
values). Gives: what the frame returns or yields.
Keeps true: an instruction's meaning stands once, in `opcodes_*`, in terms of the domain's operations;
an exception finds its handler through the code's exception table.
"""

from __future__ import annotations

from typing import Any

# these fill the table of actions
from facula.capture.interpreter import opcodes_build, opcodes_call, opcodes_control, opcodes_stack  # noqa: F401
from facula.capture.interpreter.frames import ACTIONS, Frame, Returned, Yielded


def step(domain: Any, frame: Frame) -> Returned | Yielded | None:
    """Run one instruction; exceptions go to the frame's handler, or out."""
    instruction = frame.program.instructions[frame.index]
    frame.instruction = instruction
    frame.index += 1
    if domain.watch is not None:
        domain.watch(frame)
    run = ACTIONS.get(instruction.name)
    if run is None:
        domain.unknown_instruction(frame, instruction)
    try:
        return run(domain, frame, instruction)  # type: ignore[misc]
    except domain.RAISED as error:
        if not throw(domain, frame, domain.caught(error, frame)):
            raise
        return None


def throw(domain: Any, frame: Frame, exception: object) -> bool:
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
