"""Which locals a frame may still read: what is dead where a segment ends need not be computed.

Takes: a code object and a position in its program. Gives: the names that some way from there reads
before it writes them.
Keeps true: a name that could be read is among them; a program that can look at its locals as a whole
(`locals()`, `eval`) reads all of them.
"""

from __future__ import annotations

from functools import cache
from types import CodeType

from facula.capture.interpreter.instructions import Instruction, Program, program_of

#: builtins that see all locals of the frame that calls them
_SEE_ALL = frozenset("locals vars dir eval exec".split())
#: instructions behind which the program does not go on
_ENDS = frozenset("RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE JUMP".split())


def _reads_and_writes(i: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if i.name in ("LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"):
        return (i.value,), ()
    if i.name == "LOAD_FAST_LOAD_FAST":
        return i.value, ()
    if i.name == "STORE_FAST":
        return (), (i.value,)
    if i.name == "STORE_FAST_STORE_FAST":
        return (), i.value
    if i.name == "STORE_FAST_LOAD_FAST":
        stored, loaded = i.value
        return (() if stored == loaded else (loaded,)), (stored,)
    return (), ()


def _following(program: Program, i: Instruction) -> list[int]:
    found = [] if i.name in _ENDS else [i.index + 1]
    if i.target >= 0:
        found.append(i.target)
    handler = program.handler(i.index)
    if handler is not None:
        found.append(handler.target)
    return [n for n in found if n < len(program.instructions)]


@cache
def _live_at(code: CodeType) -> list[frozenset[str]] | None:
    """For each position the names that are live there; None where all are."""
    if _SEE_ALL.intersection(code.co_names):
        return None
    program = program_of(code)
    always = frozenset(code.co_varnames[:1] if "__class__" in code.co_freevars else ())
    steps = [
        (frozenset(reads), frozenset(writes), _following(program, i))
        for i in program.instructions
        for reads, writes in (_reads_and_writes(i),)
    ]
    live = [always] * len(steps)
    changed = True
    while changed:
        changed = False
        for index in range(len(steps) - 1, -1, -1):
            reads, writes, following = steps[index]
            behind = always.union(*(live[n] for n in following))
            handler = program.handler(index)
            found = reads | (behind - writes) | always
            if handler is not None:
                found |= live[handler.target]  # the write may not have happened
            if found != live[index]:
                live[index], changed = found, True
    return live


def is_live(code: CodeType, index: int, name: str) -> bool:
    """Whether the program may read a local that it has at a position."""
    live = _live_at(code)
    return live is None or index >= len(live) or name in live[index]


__all__ = ["is_live"]
