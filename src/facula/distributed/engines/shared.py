"""Collectives through memory that all ranks of a group see.

Takes: a group whose processes run on one machine under one user. Gives: `meet`, which makes the group's
memory, and `SharedExchange`, a collective in it.
Keeps true: the memory has no name, so that it goes with the last process that maps it, however that
ends; all ranks get the same bits; a rank that died, left or gave up is named as soon as it is waited for.

Time in a room goes in steps, and a step ends when all ranks have come. What is written in one step is
read in the next, and lies in the half of the memory that belongs to the step: it is written over two
steps later, when all who read it have come further. Each rank writes to its own slot only. With the
first step of a collective, ranks tell each other which one it is.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import select
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core import config
from facula.core.logs import get_logger
from facula.distributed.buffers import view_of
from facula.distributed.engine import Exchange

Tensor = core.Tensor
#: what is done with the slots of one step: from which element, and how many
Part = Callable[[list[Tensor], int, int], None]

#: bytes that a rank shows in a step, up to which it shows all at once, and for the result of its part
CHUNK = 1 << 19
SMALL = 1 << 16
#: bytes of what a rank says of a collective, without two numbers for each rank
_TEXT = 248
_NONCE = 64
#: of how many sizes a room keeps what small collectives read and write
_KEPT = 64
#: seconds between looks at those who do not come
_LOOK = 0.002
#: bytes of a `core.Meeting` for each rank, and once more for all
_LINE = 64
#: bytes in which a rank says why it gave up
_REASON = 1024
HERE, LEFT, FAILED = range(3)


def _aligned(n: int, to: int = 64) -> int:
    return -(-n // to) * to


class Room:
    """The memory of a group, as this rank sees it."""

    def __init__(self, descriptor: int, rank: int, processes: Sequence[int]) -> None:
        self.rank, self.size = rank, len(processes)
        self.places = places(self.size)
        memory: Any = core.SharedMemory(descriptor, self.places["end"])
        self.meeting = core.Meeting(memory, rank, self.size)
        self.bytes = core.empty((0,), dtype=core.uint8).set_(
            memory.storage(), 0, (self.places["end"],), (1,)
        )
        self.view = view_of(self.bytes)
        at = self.places["states"]
        self.states = self.view[at : at + 8 * self.size].cast("q")
        self.poll = select.poll()
        self.handles: dict[int, int] = {}
        for number, process in enumerate(processes):
            if number != rank:
                handle = os.pidfd_open(process)
                self.handles[handle] = number
                self.poll.register(handle, select.POLLIN)
        self._slots: dict[tuple[Any, str], list[list[Tensor]]] = {}
        #: the beginnings of the slots, by dtype and number of elements: a program asks for few numbers, again and again
        self._beginnings: dict[tuple[Any, int], list[list[Tensor]]] = {}

    def say(self, state: int) -> None:
        """Tell the others how this rank is."""
        self.states[self.rank] = state

    def fail(self, why: str) -> None:
        """Tell the others that this rank gave up, and why."""
        text, (start, end) = why.encode()[: _REASON - 1], self._reason(self.rank)
        self.view[start:end] = text.ljust(_REASON, b"\0")
        self.say(FAILED)

    def _reason(self, number: int) -> tuple[int, int]:
        start = self.places["reasons"] + number * _REASON
        return start, start + _REASON

    def away(self, number: int) -> str:
        """Why a rank does not come that said so; nothing where it said nothing."""
        state = self.states[number]
        if state == FAILED:
            start, end = self._reason(number)
            text = bytes(self.view[start:end]).rstrip(b"\0").decode(errors="replace")
            return f"it gave up: {text}"
        return "it destroyed its process group" if state == LEFT else ""

    def close(self) -> None:
        """Leave; the memory goes when no tensor lies in it any more."""
        if self.states[self.rank] == HERE:
            self.say(LEFT)
        for handle in self.handles:
            with contextlib.suppress(OSError):
                os.close(handle)
        self.handles = {}

    def slots(self, dtype: core.dtype, which: str) -> list[list[Tensor]]:
        """The slots of all ranks, in both halves: what is shown, or the results."""
        found = self._slots.get((dtype, which))
        if found is None:
            item = core.empty((0,), dtype=dtype).element_size()
            length = self.places[f"{which} bytes"]
            first = self.places[which]
            found = [
                [
                    self.bytes[start : start + length // item * item].view(dtype)
                    for start in range(
                        first + half * self.size * length,
                        first + (half + 1) * self.size * length,
                        length,
                    )
                ]
                for half in (0, 1)
            ]
            self._slots[(dtype, which)] = found
        return found

    def beginnings(self, dtype: core.dtype, count: int) -> list[list[Tensor]]:
        """So many elements of what each rank shows, in both halves."""
        found = self._beginnings.get((dtype, count))
        if found is None:
            if len(self._beginnings) >= _KEPT:
                self._beginnings.clear()
            slots = self.slots(dtype, "shown")
            found = [[slot[:count] for slot in half] for half in slots]
            self._beginnings[dtype, count] = found
        return found

    def dead(self) -> set[int]:
        """The ranks whose processes have ended."""
        return {self.handles[handle] for handle, _ in self.poll.poll(0)}


def places(size: int) -> dict[str, int]:
    """Where things lie in the memory of a group of this size, and how long they are."""
    made: dict[str, int] = {"text bytes": _aligned(_TEXT + 16 * size), "shown bytes": CHUNK}
    made["results bytes"] = _aligned(CHUNK // size + 64 * size)
    at = _aligned(_LINE * (size + 1))
    made["nonce"], at = at, at + _NONCE
    made["states"], at = at, _aligned(at + 8 * size)
    made["reasons"], at = at, at + _REASON * size
    for name in ("text", "shown", "results"):
        made[name] = at = _aligned(at, 4096)
        at += 2 * size * made[f"{name} bytes"]
    made["end"] = at
    return made


# ------------------------------------------------------------------ how a group gets its room


def _offer(size: int) -> tuple[int, bytes]:
    """A file without a name that is long enough, and what is written in it."""
    descriptor = os.memfd_create("facula-room", os.MFD_CLOEXEC)
    try:
        place = places(size)
        os.posix_fallocate(descriptor, 0, place["end"])
        nonce = secrets.token_hex(_NONCE // 2).encode()
        os.pwrite(descriptor, nonce, place["nonce"])
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, nonce


def _enter(offer: dict[str, Any], rank: int) -> Room:
    """The room that rank 0 offers; OSError where this process can not see it."""
    descriptor = os.open(f"/proc/{offer['pids'][0]}/fd/{offer['fd']}", os.O_RDWR | os.O_CLOEXEC)
    try:
        place = places(len(offer["pids"]))
        if os.pread(descriptor, _NONCE, place["nonce"]) != offer["nonce"].encode():
            raise OSError("another process has the number of rank 0's")
        return Room(descriptor, rank, offer["pids"])
    finally:
        os.close(descriptor)


def meet(x: Exchange) -> Room | None:
    """The room of a group; None where its ranks do not see each other's memory. All ranks call this."""
    ranks = list(x.group.ranks)
    mine = {"pid": os.getpid(), "willing": config.get("shared_collectives"), "ranks": ranks}
    root, others = x.rank == 0, range(1, x.size)
    descriptor = -1
    if root:
        known = [mine, *(json.loads(x.receive(peer, 0, None)) for peer in others)]
        alike = all(one["ranks"] == ranks for one in known)
        offer: dict[str, Any] = {"pids": [one["pid"] for one in known], "ranks": ranks}
        try:
            if alike and all(one["willing"] for one in known):
                descriptor, nonce = _offer(x.size)
                offer |= {"fd": descriptor, "nonce": nonce.decode()}
        except OSError as error:
            get_logger("distributed").info("no memory for a group: %s", error)
        for peer in others:
            x.send(peer, 1, json.dumps(offer).encode())
    else:
        x.send(0, 0, json.dumps(mine).encode())
        offer = json.loads(x.receive(0, 1, None))
        known = [offer]
    for number, one in enumerate(known):
        if one["ranks"] != ranks:
            x.differ(x.group.ranks[number], f"a group of ranks {one['ranks']}", f"ranks {ranks}")
    try:
        return _agreed(x, offer)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _spread(rank: int, size: int) -> None:
    """Move each rank to a processor of its own for a moment, where there are enough.

    The system wakes a process where the one runs that sent it a message: then ranks that wait for each other
    at every step would share a processor until it looks for balance.
    """
    try:
        allowed = os.sched_getaffinity(0)
        if size <= len(allowed):
            os.sched_setaffinity(0, {sorted(allowed)[rank]})
            os.sched_setaffinity(0, allowed)
    except OSError as error:
        get_logger("distributed").debug("this process may not choose its processor: %s", error)


def _agreed(x: Exchange, offer: dict[str, Any]) -> Room | None:
    """The room, if all ranks can enter it."""
    room = None
    try:
        room = _enter(offer, x.rank) if "fd" in offer else None
    except OSError as error:
        get_logger("distributed").info("the memory of rank 0 can not be seen: %s", error)
    if x.rank:
        x.send(0, 2, bytes([room is not None]))
        fine = x.receive(0, 3, 1) == b"\1"
    else:
        answers = [x.receive(peer, 2, 1) for peer in range(1, x.size)]
        fine = room is not None and all(answer == b"\1" for answer in answers)
        for peer in range(1, x.size):
            x.send(peer, 3, bytes([fine]))
    if not fine and room is not None:
        room.close()
        room = None
    if room is not None:
        _spread(x.rank, x.size)
    get_logger("distributed").info(
        "%s: collectives %s", x.group.describe(), "in shared memory" if fine else "by messages"
    )
    return room


# ------------------------------------------------------------------ collectives


@functools.lru_cache(maxsize=256)
def _told(label: str, numbers: tuple[int, ...]) -> tuple[bytes, bytes]:
    """What a rank tells of a collective: all of it, and that without the numbers."""
    text = label.encode()[: _TEXT - 8]
    told = struct.pack(f"=II{len(text)}s{len(numbers)}q", len(text), len(numbers), text, *numbers)
    return told, told[: 8 + len(text)]


def _into(target: Tensor, other: Tensor, op: core.Op) -> None:
    """Combine a tensor with another, in place."""
    if op.name in ("SUM", "AVG"):
        target.add_(other)
    elif op.name == "PRODUCT":
        target.mul_(other)
    else:
        target.copy_(op.combine(target, other))


def _copy(target: Tensor, source: Any) -> None:
    """Write a tensor, or a strip, to the beginning of a tensor."""
    if isinstance(source, Tensor):
        target[: source.numel()].copy_(source)
    else:
        source.copy_to(target)


class SharedExchange(Exchange):
    """A collective in a room."""

    strips = True

    def __init__(self, room: Room, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.room = room
        #: the numbers that each rank told with the first step, once that is over
        self.told: list[tuple[int, ...]] | None = None

    def finish(self) -> None:
        """All ranks have agreed on what this is when it begins."""

    # ---------------------------------------------------------------- steps

    @property
    def half(self) -> int:
        """Which half of the memory belongs to this step."""
        return self.room.meeting.step & 1

    def meet(self) -> None:
        """End this step: wait for all."""
        meeting = self.room.meeting
        meeting.arrive()
        while not meeting.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        """Raise if one of those who are missing will not come, or time is over."""
        behind, room = self.room.meeting.behind(), self.room
        dead = room.dead()
        for number in behind:
            rank = self.group.ranks[number]
            if number in dead and number in room.meeting.behind():
                self.lost(rank, f"its process has ended: rank {rank} exited or died")
            why = room.away(number)
            if why:
                self.lost(rank, f"rank {rank} is away: {why}")
        if behind and time.monotonic() >= self.end:
            raise TimeoutError

    def begin(self, *numbers: int, same: bool = True) -> None:
        """End the first step, with which ranks tell each other what this is, and some numbers.

        `same`: the numbers must be those of all.
        """
        room, view = self.room, self.room.view
        told, told_text = _told(self.label, numbers)
        length = room.places["text bytes"]
        first = room.places["text"] + self.half * room.size * length
        mine = first + room.rank * length
        view[mine : mine + len(told)] = told
        self.meet()
        alike = told if same else told_text
        for number in range(room.size):
            start = first + number * length
            if number != room.rank and view[start : start + len(alike)] != alike:
                self._differs(number, start, numbers)
        if not same:
            form, at = f"={len(numbers)}q", first + len(told_text)
            self.told = [
                struct.unpack_from(form, view, at + number * length) for number in range(room.size)
            ]

    def _differs(self, number: int, start: int, numbers: Sequence[int]) -> None:
        view = self.room.view
        length, count = struct.unpack_from("=II", view, start)
        text = bytes(view[start + 8 : start + 8 + length]).decode(errors="replace")
        theirs = struct.unpack_from(f"={count}q", view, start + 8 + length)
        self.differ(
            self.group.ranks[number], f"{text!r} with {list(theirs)}", f"{self.label!r} with {list(numbers)}"
        )  # fmt: skip

    def sizes(self, sent: Sequence[int], wanted: dict[int, int]) -> int:
        """End the first step where ranks send differently much: how much to each, and how much is wanted
        from some. Gives the most that any rank sends to another."""
        self.begin(*sent, *self.asked(wanted), same=False)
        assert self.told is not None
        self.check_sizes(self.told)
        return max(max(numbers[: self.size]) for numbers in self.told)

    def rounds(
        self, dtype: core.dtype, share: int, put: Part, take: Part, begin: Callable[[], int]
    ) -> None:
        """Show parts of tensors, and take those of the others, until all are through.

        A part is as long as a slot, or one of `share` shares of it. `begin` ends the first step, and gives
        how many elements there are.
        """
        slots = self.room.slots(dtype, "shown")
        length = slots[0][0].numel() // share
        start, most = 0, 1
        while start < most:
            shown = slots[self.half]
            put(shown, start, length)
            if start == 0:
                most = begin()
            else:
                self.meet()
            take(shown, start, length)
            start += length

    # ---------------------------------------------------------------- collectives

    def all_reduce(self, flat: Tensor, op: core.Op) -> None:
        """The combination of all ranks' tensors, written to each."""
        self.say(op.name, flat.dtype)
        n = flat.numel()
        if n * flat.element_size() <= SMALL:
            shown = self.room.beginnings(flat.dtype, n)[self.half]
            shown[self.rank].copy_(flat)
            self.begin(n)
            flat.copy_(shown[0])
            for other in shown[1:]:
                _into(flat, other, op)
            if op.name == "AVG":
                flat.div_(self.size)
            return
        self._all_reduce_parts(flat, op)

    def _all_reduce_parts(self, flat: Tensor, op: core.Op) -> None:
        """Each rank reduces a part of each chunk in place. What a step does, it does for three chunks: it
        shows one, reduces its part of the one before, and takes the others' parts of that before."""
        item = flat.element_size()
        chunks = flat.split(CHUNK // item)
        shown = self.room.slots(flat.dtype, "shown")
        results = self.room.slots(flat.dtype, "results")
        cut = [self._cut(chunk.numel()) for chunk in chunks]
        me, last = self.rank, len(chunks)
        for step in range(last + 2):
            half = self.half
            if step < last:
                chunk, (a, b) = chunks[step], cut[step][me]
                shown[half][me][:a].copy_(chunk[:a])
                shown[half][me][b : chunk.numel()].copy_(chunk[b:])
            if 0 <= step - 1 < last:
                a, b = cut[step - 1][me]
                mine = chunks[step - 1][a:b]
                self._combine(mine, [slot[a:b] for slot in shown[1 - half]], op)
                results[half][me][: b - a].copy_(mine)
            if step >= 2:
                for number, (a, b) in enumerate(cut[step - 2]):
                    if number != me:
                        chunks[step - 2][a:b].copy_(results[1 - half][number][: b - a])
            if step == 0:
                self.begin(flat.numel())
            elif step <= last:
                self.meet()

    def _cut(self, count: int) -> list[tuple[int, int]]:
        """The part of each rank in so many elements; parts do not share lines of memory."""
        each = _aligned(-(-count // self.size))
        return [(min(r * each, count), min((r + 1) * each, count)) for r in range(self.size)]

    def reduce(self, flat: Tensor, op: core.Op, root: int) -> None:
        """The combination of all ranks' tensors, written to the root's; the others stay."""
        self.say(op.name, flat.dtype, root)

        def put(shown: list[Tensor], at: int, length: int) -> None:
            if self.rank != root:
                _copy(shown[self.rank], flat[at : at + length])

        def take(shown: list[Tensor], at: int, length: int) -> None:
            part = flat[at : at + length]
            if self.rank == root:
                self._combine(part, [slot[: part.numel()] for slot in shown], op)

        self.rounds(flat.dtype, 1, put, take, lambda: self._same(flat))

    def _same(self, flat: Tensor) -> int:
        """End the first step, where tensors have the same size on all ranks."""
        self.begin(flat.numel())
        return flat.numel()

    def _combine(self, mine: Tensor, parts: Sequence[Tensor], op: core.Op) -> None:
        """Combine what is this rank's with what the others show."""
        for number, part in enumerate(parts):
            if number != self.rank:
                _into(mine, part, op)
        if op.name == "AVG":
            mine.div_(self.size)

    def broadcast(self, flat: Tensor, root: int) -> None:
        """The root's tensor, written to all."""
        self.say(flat.dtype, root)

        def put(shown: list[Tensor], at: int, length: int) -> None:
            if self.rank == root:
                _copy(shown[root], flat[at : at + length])

        def take(shown: list[Tensor], at: int, length: int) -> None:
            part = flat[at : at + length]
            if self.rank != root:
                part.copy_(shown[root][: part.numel()])

        self.rounds(flat.dtype, 1, put, take, lambda: self._same(flat))

    def all_gather(self, targets: Sequence[Any], flat: Any) -> None:
        """Rank r's tensor, written to target r."""
        self.say(flat.dtype)
        self._gather(targets, flat)

    def gather(self, targets: Sequence[Tensor], flat: Tensor, root: int) -> None:
        """Rank r's tensor, written to target r of the root."""
        self.say(flat.dtype, root)
        self._gather(targets if self.rank == root else [], flat)

    def _gather(self, targets: Sequence[Any], flat: Any) -> None:
        def put(shown: list[Tensor], at: int, length: int) -> None:
            _copy(shown[self.rank], flat[at : at + length])

        def take(shown: list[Tensor], at: int, length: int) -> None:
            for number, target in enumerate(targets):
                part = target[at : at + length]
                mine = number == self.rank
                part.copy_(flat[at : at + length] if mine else shown[number][: part.numel()])

        wanted = {number: target.numel() for number, target in enumerate(targets)}
        self.rounds(
            flat.dtype, 1, put, take, lambda: self.sizes([flat.numel()] * self.size, wanted)
        )

    def reduce_scatter(self, target: Tensor, chunks: Sequence[Any], op: core.Op) -> None:
        """The combination of all ranks' chunk r, written to the target of rank r."""
        self.say(op.name, target.dtype)

        def take(shown: list[Tensor], at: int, length: int) -> None:
            part, first = target[at : at + length], self.rank * length
            _copy(part, chunks[self.rank][at : at + length])
            self._combine(part, [slot[first : first + part.numel()] for slot in shown], op)

        wanted = dict.fromkeys(range(self.size), target.numel())
        sent = [chunk.numel() for chunk in chunks]
        self.rounds(
            target.dtype, self.size, self._dealt(chunks), take, lambda: self.sizes(sent, wanted)
        )

    def _dealt(self, chunks: Sequence[Any]) -> Part:
        """Shows a part for each of the other ranks."""

        def put(shown: list[Tensor], at: int, length: int) -> None:
            for number, chunk in enumerate(chunks):
                if number != self.rank:
                    _copy(shown[self.rank][number * length :], chunk[at : at + length])

        return put

    def all_to_all(self, targets: Sequence[Tensor], chunks: Sequence[Tensor]) -> None:
        """Chunk r goes to rank r; what comes from rank r is written to target r."""
        self.say(chunks[0].dtype)

        def take(shown: list[Tensor], at: int, length: int) -> None:
            first = self.rank * length
            for number, target in enumerate(targets):
                part = target[at : at + length]
                if number == self.rank:
                    part.copy_(chunks[number][at : at + length])
                else:
                    part.copy_(shown[number][first : first + part.numel()])

        wanted = {number: target.numel() for number, target in enumerate(targets)}
        sent = [chunk.numel() for chunk in chunks]
        self.rounds(
            chunks[0].dtype, self.size, self._dealt(chunks), take, lambda: self.sizes(sent, wanted)
        )

    def scatter(self, target: Tensor, chunks: Sequence[Tensor], root: int) -> None:
        """The root's chunk r, written to the target of rank r."""
        self.say(target.dtype, root)
        dealt = chunks if self.rank == root else []

        def take(shown: list[Tensor], at: int, length: int) -> None:
            part, first = target[at : at + length], self.rank * length
            if self.rank == root:
                part.copy_(chunks[root][at : at + length])
            else:
                part.copy_(shown[root][first : first + part.numel()])

        sent = [chunk.numel() for chunk in dealt] or [0] * self.size
        wanted = {root: target.numel()}
        self.rounds(
            target.dtype, self.size, self._dealt(dealt), take, lambda: self.sizes(sent, wanted)
        )

    def barrier(self) -> None:
        """Nobody leaves before everybody has entered."""
        self.begin()
