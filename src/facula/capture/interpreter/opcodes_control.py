"""Instructions that decide where to go on: jumps, exceptions, `with`.

Keeps true: `frame.handling` is the exception that is being handled; the stack keeps the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.capture.interpreter.frames import Frame, action
from facula.capture.interpreter.instructions import Instruction

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


@action("JUMP")
def jump(d: Symbolic, f: Frame, i: Instruction) -> None:
    f.index = i.target


@action("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def pop_jump_if(d: Symbolic, f: Frame, i: Instruction) -> None:
    if d.branch(f.pop(), f, i) == (i.name == "POP_JUMP_IF_TRUE"):
        f.index = i.target


@action("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_none(d: Symbolic, f: Frame, i: Instruction) -> None:
    if d.is_none(f.pop()) == (i.name == "POP_JUMP_IF_NONE"):
        f.index = i.target


@action("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def jump_if_or_pop(d: Symbolic, f: Frame, i: Instruction) -> None:
    if d.truth(f.stack[-1]) == (i.name == "JUMP_IF_TRUE_OR_POP"):
        f.index = i.target
    else:
        f.pop()


@action("PUSH_EXC_INFO")
def push_exc_info(d: Symbolic, f: Frame, i: Instruction) -> None:
    error = f.pop()
    f.push(d.constant(None) if f.handling is None else f.handling)
    f.push(error)
    f.handling = error


@action("POP_EXCEPT")
def pop_except(d: Symbolic, f: Frame, i: Instruction) -> None:
    before = f.pop()
    f.handling = None if d.is_none(before) else before


@action("CHECK_EXC_MATCH")
def check_exc_match(d: Symbolic, f: Frame, i: Instruction) -> None:
    kind = f.pop()
    f.push(d.constant(d.exception_matches(f.stack[-1], kind)))


@action("CHECK_EG_MATCH")
def check_eg_match(d: Symbolic, f: Frame, i: Instruction) -> None:
    kind = f.pop()
    rest, match = d.split_group(f.pop(), kind)
    f.push(rest)
    f.push(match)
    if not d.is_none(match):
        f.handling = match


@action("PREP_RERAISE_STAR")
def prep_reraise_star(d: Symbolic, f: Frame, i: Instruction) -> None:
    original, failed = f.pop_many(2)
    f.push(d.prepare_reraise_star(original, failed))


@action("RAISE_VARARGS")
def raise_varargs(d: Symbolic, f: Frame, i: Instruction) -> None:
    if i.arg == 0:
        d.reraise(f, f.handling)
    parts = f.pop_many(i.arg)
    d.raise_(f, parts[0], parts[1] if i.arg == 2 else None)


@action("RERAISE")
def reraise(d: Symbolic, f: Frame, i: Instruction) -> None:
    error = f.pop()
    if i.arg:
        # where the exception was raised at first lies below; it is the line that is shown
        d.constant_of(f.stack[-i.arg])
    d.reraise(f, error)


@action("BEFORE_WITH")
def before_with(d: Symbolic, f: Frame, i: Instruction) -> None:
    manager = f.pop()
    leave, enter = d.context_methods(manager)
    f.push(leave)
    f.push(d.call_in(f, enter, [], {}))


@action("WITH_EXCEPT_START")
def with_except_start(d: Symbolic, f: Frame, i: Instruction) -> None:
    error = f.stack[-1]
    leave = f.stack[-4]
    f.push(d.call_in(f, leave, d.exception_triple(error), {}))
