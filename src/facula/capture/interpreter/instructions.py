"""Bytecode as a list of instructions that mean the same on every supported version of CPython.

Takes: a code object. Gives: its `Program`: instructions without caches and prefixes, jump targets as
positions in the list, and the exception table in the same positions.
Keeps true: what differs between versions is `VERSIONS`, one row each, and the names in `RENAMED`;
nothing else in the package asks for the version.
"""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, NamedTuple


class Version(NamedTuple):
    """How one version of CPython lays out what others lay out differently."""

    null_first: bool  # a call's empty slot lies below its callable, not above
    for_iter_pops: bool  # an exhausted FOR_ITER takes its iterator off; otherwise END_FOR does
    end_for_pops: int
    send_pops: bool  # a finished SEND takes the receiver off; otherwise END_SEND does
    method_bit: bool  # LOAD_ATTR has the bit that says that a call follows
    function_flags: bool  # MAKE_FUNCTION takes defaults and closure by its flags
    reraise_star: bool


VERSIONS = {
    (3, 11): Version(True, True, 0, True, False, True, True),
    (3, 12): Version(True, False, 2, False, True, True, False),
    (3, 13): Version(False, False, 1, False, True, False, False),
}

if sys.version_info[:2] not in VERSIONS:
    raise ImportError(
        f"[compile] CPython {', '.join('.'.join(map(str, v)) for v in VERSIONS)} was required: got "
        f"{sys.version_info[0]}.{sys.version_info[1]}"
    )
VERSION = VERSIONS[sys.version_info[:2]]

#: nothing happens there
_SKIPPED = frozenset(
    "CACHE EXTENDED_ARG NOP RESUME PRECALL KW_NAMES COPY_FREE_VARS NOT_TAKEN".split()
)

#: how many instructions are looked at for the question whether code only raises
_LONGEST_RAISE = 200

#: one name for what is one thing
RENAMED = {
    **{
        f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}"
        for way in ("FORWARD", "BACKWARD")
        for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_CLASSDEREF": "LOAD_FROM_DICT_OR_DEREF",
    "RETURN_CONST": "RETURN_CONST",
}


@dataclass(slots=True, frozen=True)
class Instruction:
    """One instruction: `value` is its argument resolved, `target` the position it may jump to."""

    index: int
    name: str
    arg: int
    value: Any
    text: str
    target: int
    line: int
    columns: tuple[int | None, int | None]
    names: tuple[str, ...] = ()


class Handler(NamedTuple):
    """A row of the exception table, in positions of the program."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class Program:
    """The instructions of one code object."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        raw = list(dis.get_instructions(code))
        kept = [r for r in raw if r.opname not in _SKIPPED]
        position: dict[int, int] = {}
        following = len(kept)
        index = {id(r): n for n, r in enumerate(kept)}
        for r in reversed(raw):
            following = index.get(id(r), following)
            position[r.offset] = following
        position[len(code.co_code)] = len(kept)
        self.instructions = self._decode(code, raw, index, position)
        self.handlers = [
            Handler(position[e.start], position[e.end], position[e.target], e.depth, e.lasti)
            for e in dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
        ]

    @staticmethod
    def _decode(
        code: CodeType, raw: list, index: dict[int, int], position: dict[int, int]
    ) -> list[Instruction]:
        out: list[Instruction] = []
        names: tuple[str, ...] = ()
        line = 0
        jumps = {*dis.hasjrel, *dis.hasjabs}
        for r in raw:
            where = r.positions
            if where is not None and where.lineno is not None:
                line = where.lineno
            if r.opname == "KW_NAMES":
                names = code.co_consts[r.arg]  # dis itself does not resolve it everywhere
            if id(r) not in index:
                continue
            name = RENAMED.get(r.opname, r.opname)
            target = position[r.argval] if r.opcode in jumps else -1
            columns = (where.col_offset, where.end_col_offset) if where else (None, None)
            out.append(
                Instruction(
                    len(out), name, r.arg or 0, r.argval, r.argrepr, target, line, columns, names
                )
            )
            if name == "CALL":
                names = ()
        return out

    def only_raises(self, index: int) -> bool:
        """Whether every way from a position ends at a `raise`."""
        seen: set[int] = set()
        pending = [index]
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            if index >= len(self.instructions) or len(seen) > _LONGEST_RAISE:
                return False
            instruction = self.instructions[index]
            if instruction.name.startswith(("RETURN", "RERAISE", "YIELD")):
                return False
            if instruction.target >= 0:
                pending.append(instruction.target)
            if instruction.name not in ("JUMP", "RAISE_VARARGS"):
                pending.append(index + 1)
        return True

    def handler(self, index: int) -> Handler | None:
        """Where an exception raised at `index` goes."""
        for row in self.handlers:
            if row.start <= index < row.end:
                return row
        return None


@cache
def program_of(code: CodeType) -> Program:
    """The program of a code object, decoded once."""
    return Program(code)
