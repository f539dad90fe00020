"""The engine `nccl`: collectives and messages of the memory of NVIDIA's devices (`pip install facula[nccl]`).

Takes: tensors of the device `cuda`, arrays with `__cuda_array_interface__` (version 3), one device for each rank.
Gives: `NCCLEngine`.
Keeps true: tensors in the processor's memory are refused, since nothing is copied without being asked for; only
Python objects, as bytes, go the way of the control messages; a collective that fails or is late ends its
communicator on the device (abort) and is an error on every rank, which names the rank that is away.

Ranks find each other, say what they do and notice who dies by the sockets of `engines.sockets`; NCCL carries
what lies on devices. Each group has a communicator of its own, made at its first collective, and one for each
direction of two ranks between which messages go, made at the first: a message is announced by the sockets, so that
ranks that want different ones say so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from facula import core
from facula.core import config
from facula.core.errors import fail
from facula.distributed.debugging import DebugLevel, get_debug_level
from facula.distributed.engine import OBJECTS, TAKERS, Exchange, Members, Rendezvous
from facula.distributed.engines.sockets import SocketEngine
from facula.distributed.errors import DistBackendError
from facula.distributed.mailbox import Ticket
from facula.distributed.nvidia import driver as cuda
from facula.distributed.nvidia import library as nccl
from facula.distributed.nvidia.communicator import Communicator, Piece, follow
from facula.distributed.nvidia.lanes import Lane, Pair
from facula.distributed.nvidia.tensors import piece_of_tensor
from facula.distributed.types import Work

__all__ = ["NCCLEngine"]

#: seconds in which it becomes known which rank died, and in which communicators end in good order
_GRACE, _FAREWELL = 1.0, 5.0
#: numbers of messages that come before a collective
_MEETING, _AGREEMENT = -1, -2
#: in the place of a sequence number: announcements of messages; beyond the numbers of questions (`sockets.ask`)
_ANNOUNCED = -(1 << 60)
#: seconds between looks at who is away, while nothing comes
_PAUSE = 0.05
#: what operations are of bytes that are 0 or 1
_OF_BOOL = {"SUM": "MAX", "MAX": "MAX", "BOR": "MAX", "PRODUCT": "MIN", "MIN": "MIN", "BAND": "MIN"}
#: of complex numbers sums are those of their parts
_PARTS = {"complex64": "float32", "complex128": "float64"}


def load() -> tuple[nccl.Library, cuda.Driver]:
    """NCCL and the driver."""
    got = "no device"
    try:
        driver = cuda.Driver(cuda.find(config.get("cuda_library")))
        library = nccl.Library(nccl.find(config.get("nccl_library")))
        if driver.count():
            return library, driver
    except (OSError, RuntimeError) as error:
        got = str(error)
    return fail(
        DistBackendError,
        "init_process_group",
        "a driver of CUDA with a device, and NCCL, were required for backend='nccl'",
        got,
        "pip install facula[nccl]; backend='gloo' and backend='mpi' serve the processor's memory",
    )


class NCCLEngine(SocketEngine):
    """This process's end: a device, and a communicator for each group."""

    name = "nccl"
    #: a world of one rank computes on the device too
    serves_one = True

    def __init__(self, rendezvous: Rendezvous) -> None:
        self.library, self.driver = load()
        count = self.driver.count()
        local = int(os.environ.get("LOCAL_RANK", rendezvous.rank))
        if local >= count:  # before the others learn of this rank's address
            fail(DistBackendError, "init_process_group", "a device for each rank of a machine was required",
                 f"{count} devices for local rank {local}",
                 hint="start as many processes as there are devices, or set LOCAL_RANK")  # fmt: skip
        super().__init__(replace(rendezvous, allow_remote=True))
        self.device = local
        self.communicators: dict[int, Communicator] = {}
        #: of each group, sender and receiver
        self.lanes: dict[tuple[int, int, int], Lane] = {}
        TAKERS.append(self)

    def taken(self, value: Any) -> Any:
        """An argument as the engine takes it: tensors of the device as pieces of its memory."""
        if isinstance(value, core.Tensor) and value.device.type == "cuda":
            return value if getattr(value, "_is_fake", False) else piece_of_tensor(value)
        return super().taken(value)

    def check(self, name: str, tensors: Sequence[Any]) -> None:
        """Raise where something does not lie on this rank's device."""
        for t in tensors:
            if not isinstance(t, Piece):
                if OBJECTS.get():
                    continue
                fail(RuntimeError, name, "arrays in the memory of a device were required by nccl (No backend "
                     "type associated with device type cpu)", f"a tensor on {t.device}",
                     hint="tensor.to('cuda') puts it there; backend='gloo' or 'mpi' serves the "
                     "processor's memory")  # fmt: skip
            where = self.driver.device_of(t.pointer)
            if where != self.device and t.count:
                got = "the processor's memory" if where is None else f"device {where}"
                fail(RuntimeError, name, f"memory of this rank's device, {self.device}, was required", got,
                     hint="make arrays on the device of LOCAL_RANK")  # fmt: skip

    # ---------------------------------------------------------------- groups

    def exchange(self, group: Members, sequence: int, label: str, end: float) -> Exchange:
        """A collective: by NCCL for what lies on devices, by the sockets for objects."""
        return NCCLExchange(self, group, sequence, label, end)

    def over_sockets(self, group: Members, sequence: int, label: str, end: float) -> Exchange:
        """The same for tensors of the processor's memory."""
        return super().exchange(group, sequence, label, end)

    def message(self, group: Any, name: str, piece: Piece, peer: int, tag: int) -> Work:
        """Send or receive a message in the thread of its direction."""
        why = self.mailbox.failed.get(group.number)
        if why is not None:
            fail(DistBackendError, name, f"{group.describe()} was required to be in use", why,
                 hint="the first error says why; begin another group")  # fmt: skip
        ends = [group.ranks[peer], self.rank]
        source, target = ends[::-1] if name == "send" else ends
        lane = self.lanes.get((group.number, source, target))
        if lane is None:
            lane = Lane(Pair(group, [source, target], self.rank), _delivered, self._lane_failed)
            self.lanes[group.number, source, target] = lane
        work = Work(name, group.seconds + 60)
        lane.put(work, _Job(self, name, piece, tag, group.seconds, source))
        return work

    def _lane_failed(self, pair: Pair, error: BaseException) -> None:
        """Ranks are no longer in step: nothing more runs in the group."""
        self.log.error("%s: %s", pair.describe(), error)
        self.mailbox.give_up(pair.number, str(error))
        self.abort(pair.group, str(error))

    def _lanes_of(self, group: Members) -> list[Lane]:
        keys = [key for key in self.lanes if key[0] == group.number]
        return [self.lanes.pop(key) for key in keys]

    def abort(self, group: Members, why: str) -> None:
        """End what runs on the device, and tell the others."""
        for lane in self._lanes_of(group):
            lane.stop(why)
        made = self.communicators.pop(group.number, None)
        if made is not None:
            made.abort()
        super().abort(group, why)

    def leave(self, group: Members) -> None:
        """End the group's communicators."""
        for lane in self._lanes_of(group):
            lane.close()
        self._end(self.communicators.pop(group.number, None))
        super().leave(group)

    def _end(self, made: Communicator | None) -> None:
        if made is not None:
            with contextlib.suppress(RuntimeError, TimeoutError):
                made.close(time.monotonic() + _FAREWELL)

    def close(self) -> None:
        """End all communicators, and say goodbye."""
        if self in TAKERS:
            TAKERS.remove(self)
            for lane in self.lanes.values():
                lane.close()
            for made in self.communicators.values():
                self._end(made)
        super().close()


def _on_device(collective: Callable[..., None]) -> Callable[..., None]:
    """Have a collective take arrays of devices; tensors of the processor's memory go over sockets."""

    @functools.wraps(collective)
    def run(self: NCCLExchange, *arguments: Any) -> None:
        given = [x for one in arguments for x in (one if isinstance(one, Sequence) else (one,))]
        if any(isinstance(x, Piece) for x in given):
            collective(self, *arguments)
        else:
            getattr(self.host(), collective.__name__)(*arguments)

    return run


class NCCLExchange(Exchange):
    """A collective on the device of each rank."""

    engine: NCCLEngine

    def __init__(
        self, engine: NCCLEngine, group: Members, sequence: int, label: str, end: float
    ) -> None:
        super().__init__(engine, group, sequence, label, end)
        self._host: Exchange | None = None

    def host(self) -> Exchange:
        """The same collective, on bytes of objects."""
        if self._host is None:
            given = self.group, self.sequence, self.name, self.end
            self._host = self.engine.over_sockets(*given)
        return self._host

    def finish(self) -> None:
        """This rank's part is done."""
        if self._host is not None:
            self._host.finish()

    # ---------------------------------------------------------------- running

    def communicator(self) -> Communicator:
        """The group's; the first collective makes it."""
        number = self.group.number
        made = self.engine.communicators.get(number)
        if made is None:
            made = self.engine.communicators[number] = self._guarded(self._meet)
        return made

    def _meet(self) -> Communicator:
        library = self.engine.library
        if self.rank == 0:
            unique = library.unique()
            for peer in range(1, self.size):
                self.send(peer, _MEETING, unique)
        else:
            unique = bytes(self.receive(0, _MEETING, None))
        return Communicator(
            library, self.engine.driver, self.engine.device, self.size, self.rank, unique, self.end,
            self.look,
        )  # fmt: skip

    def run(self, begin: Callable[[Communicator], None], *pieces: Piece) -> None:
        """Run what `begin` asks the communicator for."""
        if get_debug_level() is DebugLevel.DETAIL:
            self._agree()
        made = self.communicator()
        self._guarded(lambda: made.run(self.name, begin, pieces, self.end, self.look))

    def _agree(self) -> None:
        """See that all ranks want the same, which NCCL does not: where users ask for details."""
        text, self.label = self.label, "agreement"
        others = [peer for peer in range(self.size) if peer != self.rank]
        for peer in others:
            self.send(peer, _AGREEMENT, text.encode())
        for peer in others:
            theirs = self.receive(peer, _AGREEMENT, None).decode(errors="replace")
            if theirs != text:
                self.differ(self.group.ranks[peer], repr(theirs), repr(text))
        self.label = text

    def _guarded(self, run: Callable[[], Any]) -> Any:
        """Run something; what NCCL or the driver say is explained."""
        try:
            return run()
        except (nccl.NCCLError, cuda.DriverError) as error:
            self._failed(error)

    def look(self) -> None:
        """Raise where a rank of the group is known to be away."""
        known = self.engine.mailbox
        for rank in self.group.ranks:
            if rank in known.gone:
                self.lost(rank, known.gone[rank])
        why = known.failed.get(self.group.number)
        if why is not None:
            self.lost(self.engine.rank, why)

    def _failed(self, error: Exception) -> NoReturn:
        """Raise what an error of the library means: who is away, or where all ranks stand."""
        end = time.monotonic() + _GRACE
        while getattr(error, "code", 0) == nccl.REMOTE_ERROR and time.monotonic() < end:
            self.look()
            time.sleep(0.01)
        self.look()
        lines = []
        for rank in self.group.ranks:
            if rank != self.engine.rank:
                told = self.engine.ask(rank, self.group.number, _GRACE)
                where = (
                    "does not answer" if told is None else f"is in {told.get('op', 'nothing yet')}"
                )
                lines.append(f"rank {rank} {where}")
        hint = "NCCL_DEBUG=INFO has NCCL say more; look at the output of the other ranks"
        if getattr(error, "name", "") == "ncclInvalidUsage":
            hint = f"each rank needs a device of its own, this one has {self.engine.device}: set " \
                   f"LOCAL_RANK; {hint}"  # fmt: skip
        fail(DistBackendError, self.name, f"an end of {self.describe()} was required",
             "\n  ".join([str(error), *lines]), hint)  # fmt: skip

    def _named(self, piece: Piece, op: core.Op) -> tuple[Piece, str]:
        """A piece and the name of an operation as NCCL knows them."""
        if piece.dtype == "bool" and op.name in _OF_BOOL:
            return replace(piece, dtype="uint8"), _OF_BOOL[op.name]
        parts = _PARTS.get(piece.dtype)
        if parts is not None and op.name in ("SUM", "AVG"):
            piece = replace(piece, count=2 * piece.count, dtype=parts, width=piece.width // 2)
        if piece.dtype not in nccl.DTYPES or op.name not in nccl.OPERATIONS:
            fail(RuntimeError, self.name, f"a dtype out of {', '.join(nccl.DTYPES)} and an operation out of "
                 f"{', '.join(nccl.OPERATIONS)} were required by nccl", f"{op.name} of {piece.dtype}",
                 hint="convert the array, or use backend='gloo' or 'mpi'")  # fmt: skip
        return piece, op.name

    # ---------------------------------------------------------------- collectives

    @_on_device
    def all_reduce(self, flat: Any, op: core.Op) -> None:
        """The combination of all ranks' arrays, written to each."""
        piece, name = self._named(flat, op)
        self.say(name, piece.dtype, piece.count)
        self.run(lambda c: c.all_reduce(piece, name), piece)

    @_on_device
    def reduce(self, flat: Any, op: core.Op, root: int) -> None:
        """The combination of all ranks' arrays, written to the root's."""
        piece, name = self._named(flat, op)
        self.say(name, piece.dtype, piece.count, root)
        self.run(lambda c: c.reduce(piece, name, root), piece)

    @_on_device
    def broadcast(self, flat: Any, root: int) -> None:
        """The root's array, written to all."""
        self.say(flat.dtype, flat.count, root)
        self.run(lambda c: c.broadcast(flat, root), flat)

    @_on_device
    def all_gather(self, targets: Sequence[Any], flat: Any) -> None:
        """Rank r's array, written to target r."""
        whole = follow(targets)
        if whole is not None and whole.nbytes == flat.nbytes * self.size:
            self.say(flat.dtype, flat.count)
            self.run(lambda c: c.all_gather(whole, flat), flat, whole)
        else:
            self.say(flat.dtype)
            self.swap(dict.fromkeys(range(self.size), flat), dict(enumerate(targets)))

    @_on_device
    def reduce_scatter(self, target: Any, chunks: Sequence[Any], op: core.Op) -> None:
        """The combination of all ranks' chunk r, written to the target of rank r."""
        into, name = self._named(target, op)
        parts = [self._named(chunk, op)[0] for chunk in chunks]
        self.say(name, into.dtype)
        whole = follow(parts)
        if whole is not None and whole.count == into.count * self.size:
            self.run(lambda c: c.reduce_scatter(into, whole, name), into, whole)
            return

        scratch = cuda.DeviceMemory(
            self.engine.driver, self.engine.device, sum(p.nbytes for p in parts), "|u1"
        )
        try:
            rows = Piece(scratch.pointer, into.count * self.size, into.dtype, into.width)

            def gathered(c: Communicator) -> None:
                for row, part in enumerate(parts):
                    c.copy(rows[row * into.count : (row + 1) * into.count], part)

            self.run(gathered, *parts)
            self.run(lambda c: c.reduce_scatter(into, rows, name), into)
        finally:
            scratch.free()

    @_on_device
    def all_to_all(self, targets: Sequence[Any], chunks: Sequence[Any]) -> None:
        """Chunk r goes to rank r; what comes from rank r is written to target r."""
        self.say(chunks[0].dtype)
        self.swap(dict(enumerate(chunks)), dict(enumerate(targets)))

    @_on_device
    def gather(self, targets: Sequence[Any], flat: Any, root: int) -> None:
        """Rank r's array, written to target r of the root."""
        self.say(flat.dtype, root)
        self.swap({root: flat}, dict(enumerate(targets)) if self.rank == root else {})

    @_on_device
    def scatter(self, target: Any, chunks: Sequence[Any], root: int) -> None:
        """The root's chunk r, written to the target of rank r."""
        self.say(target.dtype, root)
        self.swap(dict(enumerate(chunks)) if self.rank == root else {}, {root: target})

    def swap(self, outs: dict[int, Piece], ins: dict[int, Piece]) -> None:
        """Send to ranks, and take what they send, as one group."""
        pieces = [*outs.values(), *ins.values()]
        self.run(lambda c: c.swap(outs, ins), *pieces)

    def barrier(self) -> None:
        """Nobody leaves before everybody has entered; what came before is done, since each collective is waited for."""
        self.host().barrier()


# -------------------------------------------------------------------- messages


@dataclass(frozen=True)
class _Job:
    """A message that is to be sent or received."""

    engine: NCCLEngine
    name: str
    piece: Piece
    tag: int
    seconds: float
    source: int

    def given(self) -> tuple[list[Any], int]:
        """What its work gives: the tensor, and who sent it."""
        return [self.piece.owner], self.source


def _delivered(lane: Lane, job: _Job) -> None:
    """Send or receive a message now."""
    exchange = NCCLMessage(lane, job)
    try:
        exchange.deliver(job.piece, job.tag)
    except TimeoutError:
        lines = ["nothing"]
        for rank in lane.pair.ranks:
            if rank != job.engine.rank:
                told = job.engine.ask(rank, lane.pair.number, _GRACE)
                at = "does not answer" if told is None else f"is in {told.get('op', 'nothing yet')}"
                lines.append(f"rank {rank} {at}")
        fail(DistBackendError, job.name, f"the other end was required within {job.seconds:g} s (timeout) in "
             f"{exchange.describe()}", "\n  ".join(lines),
             hint="each send needs a recv on the other rank, in the same order")  # fmt: skip
    if job.name == "recv" and isinstance(job.piece.owner, core.Tensor):
        core.count_unseen_write(job.piece.owner.detach())


class NCCLMessage(NCCLExchange):
    """A message between two ranks."""

    def __init__(self, lane: Lane, job: _Job) -> None:
        end = time.monotonic() + job.seconds
        super().__init__(job.engine, lane.pair, _ANNOUNCED, job.name, end)
        self.lane, self.piece = lane, job.piece

    def describe(self) -> str:
        """Which message this is."""
        piece = self.piece
        return f"{self.name} of {piece.shape} {piece.dtype} (number {self.lane.count}, {self.group.describe()})"

    def communicator(self) -> Communicator:
        """That of the direction; its first message makes it."""
        if self.lane.communicator is None:
            self.lane.communicator = self._guarded(self._meet)
        return self.lane.communicator

    def look(self) -> None:
        """Raise where the other rank is away, or the group has failed."""
        self.lane.check()
        super().look()

    def awaited(self, ticket: Ticket) -> bool:
        """Wait for a word of the sender; who is away is seen."""
        try:
            while not ticket.done.wait(min(max(self.end - time.monotonic(), 0.0), _PAUSE)):
                self.look()
                if time.monotonic() >= self.end:
                    return False
        except BaseException:
            self.engine.forget(ticket)
            raise
        return True

    def deliver(self, piece: Piece, tag: int) -> None:
        """Send the piece, or write what comes to it."""
        self.label = f"a message of {piece.count} x {piece.dtype} with tag {tag}"
        if self.rank == 0:
            self.send(1, self.lane.count, b"")
        else:
            self.receive(0, self.lane.count, 0)
        outs, ins = ({1: piece}, {}) if self.rank == 0 else ({}, {0: piece})
        made = self.communicator()
        run = functools.partial(Communicator.swap, outs=outs, ins=ins)
        self._guarded(lambda: made.run(self.name, run, [piece], self.end, self.look))
