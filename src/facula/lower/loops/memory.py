"""The memory plan: which buffers are tensors, and where the others lie in one arena.

Takes: what each step uses, in order. Gives: `Plan`: the arena's size, offsets, tensors to allocate
before and to release after each step.
Keeps true: two buffers share memory only if one is dead before the other is written, or is read
by the very iteration that writes; buffers that operators see, and results, are tensors of their
own; everything else lies in the arena at 64-byte boundaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from facula.lower.loops.program import Buffer

ALIGNMENT = 64


@dataclass(slots=True)
class Use:
    """What a step reads and writes, and whether it is an operator's call."""

    reads: set[Buffer]
    writes: list[Buffer]
    extern: bool
    #: whether the step may write a buffer over one that it reads
    shares: Callable[[Buffer, Buffer], bool] | None = None


@dataclass(slots=True)
class Plan:
    """Where buffers lie. Lists are by step: tensors to allocate before it, to release after it."""

    size: int = 0
    offsets: dict[Buffer, int] = field(default_factory=dict)
    allocate: list[list[Buffer]] = field(default_factory=list)
    release: list[list[Buffer]] = field(default_factory=list)
    #: results that are written over an input
    aliases: dict[Buffer, Buffer] = field(default_factory=dict)


def plan(
    uses: Sequence[Use],
    outputs: set[Buffer],
    aliases: dict[Buffer, Buffer] | None = None,
    given: Iterable[Buffer] = (),
) -> Plan:
    """The plan of a program.

    Args:
        uses: its steps.
        outputs: what it gives.
        aliases: results that lie in an input's memory.
        given: inputs that are the program's own: released after their last use too.
    """
    aliases = aliases or {}
    last, seen_by_extern = {}, set(outputs)
    for number, use in enumerate(uses):
        for buffer in (*use.reads, *use.writes):
            last[buffer] = number
            if use.extern:
                seen_by_extern.add(buffer)
    found, free = Plan(aliases=aliases), _Free()
    live = {buffer for buffer in given if buffer in last}.difference(aliases.values())
    for number, use in enumerate(uses):
        found.allocate.append([])
        found.release.append([])
        for buffer in dict.fromkeys(use.writes):
            if buffer in live or buffer in aliases or buffer.role in ("input", "constant"):
                continue
            live.add(buffer)
            if use.extern:
                continue
            if buffer in seen_by_extern:
                found.allocate[number].append(buffer)
            else:
                found.offsets[buffer] = _place(buffer, use, number, last, found, free)
        for buffer in sorted((b for b in live if last[b] == number), key=lambda b: b.name):
            live.discard(buffer)
            if buffer in found.offsets:
                free.give(found.offsets[buffer], _rounded(buffer))
            elif buffer not in outputs:
                found.release[number].append(buffer)
    found.size = free.size
    return found


def _rounded(buffer: Buffer) -> int:
    return -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT


def _place(
    buffer: Buffer, use: Use, number: int, last: dict[Buffer, int], found: Plan, free: _Free
) -> int:
    """Over a buffer that dies in this step where the step allows it, else in free memory."""
    if use.shares is not None:
        for dying in sorted(use.reads, key=lambda b: b.name):
            if (
                dying in found.offsets
                and last[dying] == number
                and _rounded(dying) == _rounded(buffer)
                and use.shares(dying, buffer)
            ):
                last[dying] = -1  # its memory is given back with the new buffer's
                return found.offsets[dying]
    return free.take(_rounded(buffer))


class _Free:
    """Free pieces of the arena, by offset."""

    def __init__(self) -> None:
        self.size = 0
        self.pieces: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int:
        """The smallest piece that is large enough; else the arena grows."""
        fitting = [(size, offset) for offset, size in self.pieces if size >= nbytes]
        if fitting:
            size, offset = min(fitting)
            self.pieces.remove((offset, size))
            if size > nbytes:
                self.give(offset + nbytes, size - nbytes)
            return offset
        if self.pieces and sum(self.pieces[-1]) == self.size:
            offset, size = self.pieces.pop()
            self.size = offset + nbytes
            return offset
        offset = self.size
        self.size += nbytes
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Take a piece back, joined with its neighbours."""
        merged: list[tuple[int, int]] = []
        for start, size in sorted([*self.pieces, (offset, nbytes)]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((start, size))
        self.pieces = merged
