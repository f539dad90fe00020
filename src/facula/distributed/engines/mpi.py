"""`mpi`: the engine for several machines, Open MPI or another through `mpi4py` (`pip install facula[mpi]`).

Takes: processes that `mpiexec` or `srun` started. Gives: `MPIEngine`; `MPIEngine.meet`, by which processes
that know nothing but MPI find a store.
Keeps true: no call waits in the library: all are begun and asked about until the deadline, so that a rank
that does not come is named in time; a collective begins when all ranks are known to want the same one;
each group that spans machines has a communicator of its own, the others share memory; a rank that the
library knows to be dead (ULFM: `mpiexec --with-ft ulfm`) is named at once.

A thread takes in messages, also while the program computes: ranks answer what they are doing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import datetime
import functools
import json
import os
import secrets
import socket
import struct
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core import config
from facula.core.errors import fail
from facula.distributed import wire
from facula.distributed.buffers import fill, view_of
from facula.distributed.engine import Engine, Exchange, Members, Rendezvous, finished, put
from facula.distributed.engines import shared
from facula.distributed.engines.shared import Room, SharedExchange
from facula.distributed.errors import DistBackendError
from facula.distributed.mailbox import Channel, Taker, Ticket
from facula.distributed.stores import Store
from facula.distributed.tcp_store import TCPStore

Tensor = core.Tensor

#: group, kind, sequence, step or tag, length of the whole payload, length of the label before it
_HEADER = struct.Struct("!IBqqQI")
MESSAGE, QUESTION, ANSWER, FAILURE, REST, GOODBYE, NOTE = range(7)
#: bytes of a frame, and of what is reduced or sent at once
_FRAME, _PIECE = 1 << 28, 1 << 20
#: looks without a pause, those of them that keep the processor, and seconds between later ones: at first, and
#: at most
_LOOKS, _KEPT, _SHORT, _LONG = 1000, 100, 2e-5, 2e-3
#: seconds after which there is a pause all the same: where others want the processor, each offer may take long
_OFFERED = 5e-3
#: seconds between looks at messages while nobody waits for one, and at who died
_IDLE, _DEATHS = 0.005, 0.05
#: seconds that a collective may still take when one of its ranks has died
_GRACE = 0.2
#: seconds for which a process that leaves waits for what it has sent, and for the others where one gave up
_FAREWELL, _LAST = 1.0, 5.0
#: MPI's names of dtypes that it reduces as facula does
_TYPES = {
    "float32": "FLOAT", "float64": "DOUBLE", "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T",
    "int64": "INT64_T", "uint8": "UINT8_T", "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}  # fmt: skip
_SUMS = {"SUM": "SUM", "AVG": "SUM", "PRODUCT": "PROD"}
#: where order and bits are exact; among fractions NaNs are facula's matter
_EXACT = {"MIN": "MIN", "MAX": "MAX", "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR"}


def load(seconds: float) -> Any:
    """`mpi4py.MPI`, started for several threads within so many seconds."""
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            # both would wait for ranks that never come: see `_start` and `_end`
            mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        fail(
            DistBackendError,
            "init_process_group",
            "mpi4py and a library of MPI were required for backend='mpi'",
            str(error),
            "pip install facula[mpi], and start the program with `mpiexec -n 4 python program.py`",
        )
    if not MPI.Is_initialized():
        _start(MPI, seconds)
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        fail(DistBackendError, "init_process_group", "a library of MPI that several threads may call was "
             "required (MPI_THREAD_MULTIPLE)", f"level {MPI.Query_thread()}",
             hint="let facula be the first to import mpi4py, or set mpi4py.rc.thread_level")  # fmt: skip
    return MPI


def _start(mpi: Any, seconds: float) -> None:
    """Begin MPI. The library waits for all processes, also for those that ended before they began: who lacks a package
    says so and goes. `mpi4py` would keep all threads waiting."""
    library, level, over = ctypes.CDLL(mpi.__file__), ctypes.c_int(), threading.Event()

    def run() -> None:
        library.MPI_Init_thread(None, None, mpi.THREAD_MULTIPLE, ctypes.byref(level))
        over.set()

    threading.Thread(target=run, name="facula-mpi-start", daemon=True).start()
    if not over.wait(seconds):
        fail(DistBackendError, "init_process_group", "all processes that MPI started were required within "
             f"{seconds:g} s (timeout)", "some that never began: MPI_Init still waits for them",
             "look at what each process printed: one may lack mpi4py (pip install facula[mpi])")  # fmt: skip
    for comm in (mpi.COMM_WORLD, mpi.COMM_SELF):
        comm.Set_errhandler(mpi.ERRORS_RETURN)


class MPIEngine(Engine):
    """This process's end of MPI."""

    name = "mpi"

    def __init__(self, rendezvous: Rendezvous) -> None:
        super().__init__(rendezvous)
        self.mpi = load(rendezvous.seconds)
        world = self.mpi.COMM_WORLD
        if world.Get_size() != self.size:
            fail(
                DistBackendError,
                "init_process_group",
                f"{self.size} processes that MPI started were required",
                world.Get_size(),
                f"start the program with `mpiexec -n {self.size} python program.py`",
            )
        #: carries messages, any of which its thread takes; ranks are those of the world of facula
        self.comm = world.Split(0, self.rank)
        #: what groups are made of: the library sends messages of its own on it
        self.all = world.Split(0, self.rank)
        for made in (self.comm, self.all):
            made.Set_errhandler(self.mpi.ERRORS_RETURN)
        self.groups: dict[int, Any] = {}
        self.rooms: dict[int, Room | None] = {}
        self.sending: list[tuple[Any, Any]] = []
        self.lock = threading.Lock()
        self.wake = threading.Event()
        self.parts: dict[int, tuple[tuple[Any, ...], str, bytearray]] = {}
        #: what a request that was given up may still write to
        self.kept: list[Any] = []
        self.closed, self.healthy, self.gave_up = False, True, False
        #: ranks that said goodbye, with the last collective that each began in every group
        self.left: dict[int, dict[int, int]] = {}
        self.reached: dict[int, int] = {}
        self.looked = 0.0
        self.thread = threading.Thread(target=self._progress, name="facula-mpi", daemon=True)
        self.thread.start()
        self.finish = _finisher(self.mpi)
        atexit.register(self._end)

    @staticmethod
    def meet(seconds: float) -> tuple[Store, int, int]:
        """The store of processes that know nothing but MPI, this process's rank, and how many there are."""
        world = load(seconds).COMM_WORLD
        rank, size = world.Get_rank(), world.Get_size()
        near = len(set(world.allgather(wire.machine()))) == 1
        host = "127.0.0.1" if near else socket.gethostname()
        limit, made, told = datetime.timedelta(seconds=seconds), None, None
        if rank == 0:
            secret = config.get("store_secret") or secrets.token_hex(32)
            config.set("store_secret", secret)
            made = TCPStore(host, 0, size, True, limit, wait_for_workers=False)
            told = (host, made.port, secret)
        host, port, secret = world.bcast(told)
        config.set("store_secret", secret)
        if made is None:
            made = TCPStore(host, port, size, False, limit, wait_for_workers=False)
        return made, rank, size

    # ---------------------------------------------------------------- messages

    def send(self, rank: int, channel: Channel, label: str, payload: object) -> None:
        """Send bytes to a rank."""
        why = self.gone(rank)
        try:
            if why is None:
                self._write(rank, MESSAGE, channel, label, payload)
                return
        except self.mpi.Exception as error:
            self._bury()
            why = self.gone(rank) or str(error)
        fail(
            DistBackendError,
            label or "send",
            f"a connection to rank {rank} was required",
            why,
            "look at the output of that rank",
        )

    def _write(self, rank: int, kind: int, channel: Channel, label: str, payload: Any) -> None:
        group, sequence, step = channel
        name, data = label.encode(), memoryview(payload).cast("B") if payload else memoryview(b"")
        head = _HEADER.pack(group, kind, sequence, step, data.nbytes, len(name)) + name
        frames = [bytearray(head) + data[:_FRAME]]
        more = _HEADER.pack(group, REST, 0, 0, 0, 0)
        for start in range(_FRAME, data.nbytes, _FRAME):
            frames.append(bytearray(more) + data[start : start + _FRAME])
        with self.lock:  # the frames of a message follow each other
            for frame in frames:
                self.sending.append((self.comm.Isend([frame, self.mpi.BYTE], rank), frame))
        self.wake.set()

    def expect(self, source: int, channel: Channel, take: Taker) -> Ticket:
        """Say that a message is wanted."""
        made = super().expect(source, channel, take)
        if source in self.left and not made.done.is_set():
            self.mailbox.leave(source, _left(source), gone=False)
        self.wake.set()
        return made

    def _progress(self) -> None:
        """Take in messages and finish what is sent, until the engine is closed."""
        looks, pause = 0, _SHORT
        while not self.closed:
            try:
                busy = self._take() | self._finish()
            except self.mpi.Exception:
                busy = False
                self._bury()
            if time.monotonic() - self.looked > _DEATHS:
                self._bury()
            looks = 0 if busy else looks + 1
            if not self.mailbox.tickets and not self.sending:
                self.wake.wait(_IDLE)
                self.wake.clear()
            elif looks > 100:
                pause = min(1.2 * pause, _LONG)
                time.sleep(pause)
            else:
                pause = _SHORT
                time.sleep(0)

    def _take(self) -> bool:
        """Take in a message; gives whether there was one."""
        status = self.mpi.Status()
        message = self.comm.Improbe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status)
        if message is None:
            return False
        frame = bytearray(status.Get_count(self.mpi.BYTE))
        message.Recv([frame, self.mpi.BYTE])
        rank = status.Get_source()
        fields = _HEADER.unpack_from(frame)
        if fields[1] == REST:
            fields, label, payload = self.parts.pop(rank)
            payload += frame[_HEADER.size :]
        else:
            start = _HEADER.size + fields[5]
            label = frame[_HEADER.size : start].decode()
            payload = frame[start:]
        if len(payload) < fields[4]:
            self.parts[rank] = (fields, label, payload)
        else:
            self._deliver(rank, fields, label, payload)
        return True

    def _deliver(self, rank: int, fields: Any, label: str, payload: bytearray) -> None:
        group, kind, sequence, step = fields[:4]
        if kind == QUESTION:
            answer = json.dumps(self.status(group)).encode()
            self._write(rank, ANSWER, (group, sequence, 0), "", answer)
        elif kind == GOODBYE:  # behind all that it sent
            self.left[rank] = dict(json.loads(payload))
            self.mailbox.leave(rank, _left(rank), gone=False)
        elif kind in (FAILURE, NOTE):
            text = payload.decode(errors="replace")
            self.mailbox.note(rank, text)
            if kind == FAILURE:
                self.mailbox.give_up(group, f"rank {rank} gave up: {text}")
        else:
            number = sequence if kind == MESSAGE else -2 - sequence
            self.mailbox.put((group, number, step), rank, label, payload)

    def _finish(self) -> bool:
        """Forget what has been sent."""
        with self.lock:
            before = len(self.sending)
            self.sending = [one for one in self.sending if not one[0].Test()]
            return len(self.sending) < before

    def _bury(self) -> None:
        """Find out who died, as far as the library knows."""
        self.looked = time.monotonic()
        try:
            failed = self.comm.Get_failed()
        except (self.mpi.Exception, NotImplementedError, AttributeError):
            return  # a library without ULFM: its launcher ends all processes
        count = failed.Get_size()
        if count <= len(self.mailbox.gone):
            return
        own = self.comm.Get_group()
        ranks = self.mpi.Group.Translate_ranks(failed, list(range(count)), own)
        with contextlib.suppress(self.mpi.Exception):
            self.comm.Ack_failed(count)
        self.healthy = False
        with self.lock:
            self.sending = [one for one in self.sending if not _ended(self.mpi, one[0])]
        for rank in ranks:
            self.mailbox.leave(rank, f"rank {rank} exited or died, says MPI")

    def gone(self, rank: int) -> str | None:
        """Why a rank is away."""
        known = super().gone(rank)
        if known is not None or rank not in self.left:
            return known
        return self.mailbox.explained(rank, _left(rank))

    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        """What a rank is doing in a group; None where it does not answer."""
        number = secrets.randbits(48)
        found: list[bytearray] = []
        ticket = self.expect(
            rank, (group, -2 - number, 0), lambda source, label, data: found.append(data)
        )
        try:
            self._write(rank, QUESTION, (group, number, 0), "", b"")
        except self.mpi.Exception:
            return None
        ticket.done.wait(seconds)
        self.forget(ticket)
        return json.loads(bytes(found[0])) if found else None

    # ---------------------------------------------------------------- groups

    def exchange(self, group: Members, sequence: int, label: str, end: float) -> Exchange:
        """A collective: in the memory that a group on one machine shares, else on the group's communicator."""
        number = group.number
        self.reached[number] = sequence
        if number not in self.rooms:
            self.rooms[number] = shared.meet(Exchange(self, group, 0, "meeting of a group", end))
        room = self.rooms[number]
        if room is not None:
            return SharedExchange(room, self, group, sequence, label, end)
        if number not in self.groups:
            # all have just met: to make a communicator, for which the library waits, ends
            members = self.all.Get_group().Incl(group.ranks)
            made = self.all.Create_group(members, number % (1 << 14))
            made.Set_errhandler(self.mpi.ERRORS_RETURN)
            self.groups[number] = made
        return MPIExchange(self.groups[number], self, group, sequence, label, end)

    def abort(self, group: Members, why: str) -> None:
        """Tell the others that this rank gave up."""
        self.gave_up = True
        room = self.rooms.get(group.number)
        if room is not None:
            room.fail(why)
        self._tell(group, FAILURE if room is None else NOTE, why)

    def note(self, group: Members, why: str) -> None:
        """A message failed here: tell the others, for whom that may explain what comes."""
        self.gave_up = True
        self._tell(group, NOTE, why)

    def _tell(self, group: Members, kind: int, why: str) -> None:
        """Send a text to all ranks of a group that are there."""
        text = why.encode()[:4096]
        for rank in group.ranks:
            if rank != self.rank and self.gone(rank) is None:
                with contextlib.suppress(self.mpi.Exception):
                    self._write(rank, kind, (group.number, 0, 0), "", text)

    def leave(self, group: Members) -> None:
        """Tell the others that this rank left."""
        room = self.rooms.pop(group.number, None)
        if room is not None:
            room.close()

    def close(self) -> None:
        """Say goodbye, wait a moment until what was sent has arrived, and stop."""
        self._say_goodbye()
        self._stop(_FAREWELL, self._all_left if self.gave_up else lambda: True)

    def _say_goodbye(self) -> None:
        for room in self.rooms.values():
            if room is not None:
                room.close()
        reached = json.dumps(list(self.reached.items())).encode()
        for rank in range(self.size):
            if rank != self.rank and super().gone(rank) is None:  # one that left waits for it
                with contextlib.suppress(self.mpi.Exception):
                    self._write(rank, GOODBYE, (0, 0, 0), "", reached)

    def _stop(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Take in no more messages, once what was sent has arrived and enough came, or the time is over."""
        end, pause = time.monotonic() + seconds, _SHORT
        while (self.sending or not enough()) and time.monotonic() < end:
            self.wake.set()
            time.sleep(pause)
            pause = min(1.2 * pause, _LONG)
        self.closed = True
        self.wake.set()
        self.thread.join(_FAREWELL)

    def _end(self) -> None:
        """End MPI with the process, unless a rank that is away would be waited for."""
        seconds, known = self.seconds, not self.closed
        if known:
            self._say_goodbye()
            # where one that gave up goes at once, a rank that left in good order would wait for it
            seconds = _FAREWELL if self.gave_up else self.seconds
            self._stop(seconds, lambda: self._all_left() or not self.healthy)
        if not (self.mpi.Is_initialized() and self.healthy) or self.mpi.Is_finalized():
            return
        if known and not self._all_left():
            away = sorted(set(range(self.size)) - self.left.keys() - {self.rank})
            why = f"no goodbye of rank {', '.join(map(str, away))} came"
        elif self.finish.within(_LAST if self.gave_up else self.seconds):
            return
        else:
            why = "MPI_Finalize did not end"
        if not self.gave_up:
            self.log.warning("rank %d leaves MPI: %s within %g s", self.rank, why, seconds)

    def _all_left(self) -> bool:
        """Whether all other ranks said goodbye."""
        return len(self.left.keys() - {self.rank}) == self.size - 1


class _Finish:
    """A thread that ends MPI: the library waits for all ranks, one of which may never come."""

    def __init__(self, mpi: Any) -> None:
        self.mpi, self.wanted, self.done = mpi, threading.Event(), threading.Event()
        # now: when the process ends, no thread can begin
        threading.Thread(target=self._run, name="facula-mpi-end", daemon=True).start()

    def _run(self) -> None:
        library = ctypes.CDLL(self.mpi.__file__)  # its own `Finalize` lets no other thread run
        self.wanted.wait()
        library.MPI_Finalize()
        self.done.set()

    def within(self, seconds: float) -> bool:
        """End MPI; gives whether that came about in time."""
        self.wanted.set()
        return self.done.wait(seconds)


#: the one of this process
_finisher = functools.cache(_Finish)


def _left(rank: int) -> str:
    return f"rank {rank} left: it destroyed its process group"


def _ended(mpi: Any, request: Any) -> bool:
    """Whether a request has ended, well or not."""
    try:
        return bool(request.Test())
    except mpi.Exception:
        return True


class MPIExchange(Exchange):
    """A collective on a communicator."""

    def __init__(
        self, comm: Any, engine: MPIEngine, group: Members, sequence: int, label: str, end: float
    ) -> None:
        super().__init__(engine, group, sequence, label, end)
        self.comm, self.mpi, self.own = comm, engine.mpi, engine

    def finish(self) -> None:
        """All ranks have agreed on what this is when it begins."""

    # ---------------------------------------------------------------- waiting

    def done(self, begin: Callable[[], Any], *held: Any) -> None:
        """Begin an operation of MPI and wait for its end; `held` is what it reads and writes."""
        request = None
        try:
            request, began = begin(), time.monotonic()
            for look in range(_LOOKS):
                if request.Test():
                    return
                if time.monotonic() - began > _OFFERED:  # the library, too, offers it at each look
                    break
                if look > _KEPT:
                    os.sched_yield()
            self._wait(request)
        except self.mpi.Exception as error:
            self._failed(error)
        except BaseException:
            self.own.kept.append((request, held))
            raise

    def _wait(self, request: Any) -> None:
        pause, told = _SHORT, 0.0
        while not request.Test():
            lost = self._lost()
            if lost is not None:
                told = told or time.monotonic()
                if time.monotonic() - told > _GRACE:  # it may have done its part before
                    self.lost(*lost)
            if time.monotonic() >= self.end:
                raise TimeoutError
            time.sleep(pause)
            pause = min(1.2 * pause, _LONG)

    def _lost(self) -> tuple[int, str] | None:
        """A rank that died or gave up, and how that is known."""
        known = self.engine.mailbox
        for rank in self.group.ranks:
            if rank in known.gone:
                return rank, known.gone[rank]
            reached = self.own.left.get(rank)
            if reached is not None and reached.get(self.group.number, 0) < self.sequence:
                return rank, known.explained(rank, _left(rank))
        why = known.failed.get(self.group.number)
        return None if why is None else (self.engine.rank, why)

    def _failed(self, error: Exception) -> None:
        """Raise what an error of MPI means."""
        self.own._bury()
        lost = self._lost()
        if lost is not None:
            self.lost(*lost)
        fail(
            DistBackendError,
            self.name,
            f"an end of {self.describe()} was required",
            str(error),
            "see what MPI wrote to the error output",
        )

    def agree(self, *numbers: int) -> None:
        """Wait until all ranks are here, and see that they want the same."""
        text = " ".join([self.label, *map(str, numbers)])
        told = int.from_bytes(text.encode()[:4096], "little") % ((1 << 61) - 1)
        most = array("q", [told, -told])
        self.done(
            lambda: self.comm.Iallreduce(self.mpi.IN_PLACE, [most, self.mpi.INT64_T], self.mpi.MAX),
            most,
        )
        if most[0] == told == -most[1]:
            return
        others = [peer for peer in range(self.size) if peer != self.rank]
        self.label = "difference"
        for peer in others:
            self.send(peer, -1, text.encode())
        for peer in others:
            theirs = self.receive(peer, -1, None).decode(errors="replace")
            if theirs != text:
                self.differ(self.group.ranks[peer], repr(theirs), repr(text))

    def sizes(self, sent: Sequence[int], wanted: dict[int, int]) -> None:
        """The same where ranks send differently much: what each sends must be what the others want."""
        self.agree()
        mine = core.tensor([*sent, *self.asked(wanted)], dtype=core.int64)
        told = core.empty((self.size, 2 * self.size), dtype=core.int64)
        item = self.mpi.INT64_T
        self.done(
            lambda: self.comm.Iallgather([view_of(mine), item], [view_of(told), item]), mine, told
        )
        self.check_sizes(told.tolist())

    def swap(self, outs: dict[int, Tensor], ins: dict[int, Tensor]) -> None:
        """Send tensors to ranks, and write what comes from ranks to tensors."""

        def begin() -> _All:
            requests = []
            for come, tensors in ((True, ins), (False, outs)):
                for shift in range(1, self.size):
                    peer = (self.rank - shift if come else self.rank + shift) % self.size
                    if peer not in tensors:
                        continue
                    view = view_of(tensors[peer])
                    act = self.comm.Irecv if come else self.comm.Isend
                    for start in range(0, view.nbytes, _FRAME):
                        requests.append(act([view[start : start + _FRAME], self.mpi.BYTE], peer))
            return _All(self.mpi, requests)

        if self.rank in outs and self.rank in ins:
            fill(ins[self.rank], view_of(outs[self.rank]))
        self.done(begin, outs, ins)
        for target in ins.values():
            core.count_unseen_write(target)

    # ---------------------------------------------------------------- collectives

    def _kind(self, dtype: core.dtype, op: core.Op) -> tuple[Any, Any] | None:
        """MPI's names of a dtype and an operation; None where it does not do what facula does."""
        name = str(dtype).rpartition(".")[2]
        whole = not (dtype.is_floating_point or dtype.is_complex)
        found = _SUMS.get(op.name) or (_EXACT.get(op.name) if whole else None)
        if name not in _TYPES or found is None:
            return None
        return getattr(self.mpi, _TYPES[name]), getattr(self.mpi, found)

    def all_reduce(self, flat: Tensor, op: core.Op) -> None:
        """The combination of all ranks' tensors, written to each."""
        self.say(op.name, flat.dtype)
        self.agree(flat.numel())
        kind = self._kind(flat.dtype, op)
        if kind is None:
            self._reduce_parts(flat, op)
        else:
            view, item = view_of(flat), flat.element_size()
            for start in range(0, view.nbytes, _PIECE // item * item):
                piece = [view[start : start + _PIECE // item * item], kind[0]]
                self.done(lambda p=piece: self.comm.Iallreduce(self.mpi.IN_PLACE, p, kind[1]), flat)  # type: ignore[misc]
            core.count_unseen_write(flat)
        if op.name == "AVG":
            flat.div_(self.size)

    def _reduce_parts(self, flat: Tensor, op: core.Op) -> None:
        """Each rank combines a part, by facula's own operators, and gives it to all."""
        edges = [flat.numel() * r // self.size for r in range(self.size + 1)]
        parts = dict(enumerate(flat[a:b] for a, b in zip(edges, edges[1:], strict=False)))
        mine = self._combined(parts, parts[self.rank].clone(), op)
        put(parts[self.rank], mine)
        others = {number: part for number, part in parts.items() if number != self.rank}
        self.swap(dict.fromkeys(others, mine), others)

    def _combined(self, chunks: dict[int, Tensor], mine: Tensor, op: core.Op) -> Tensor:
        """The combination of all ranks' chunks for this rank."""
        others = [number for number in range(self.size) if number != self.rank]
        come = {number: core.empty((mine.numel(),), dtype=mine.dtype) for number in others}
        self.swap({number: chunks[number] for number in others}, come)
        for number in others:
            mine = op.combine(mine, come[number])
        return mine

    def reduce(self, flat: Tensor, op: core.Op, root: int) -> None:
        """The combination of all ranks' tensors, written to the root's; the others stay."""
        total = flat if self.rank == root else flat.clone()
        self.name = f"{self.name} to {root}"
        self.all_reduce(total, op)

    def broadcast(self, flat: Tensor, root: int) -> None:
        """The root's tensor, written to all."""
        self.say(flat.dtype, root)
        self.agree(flat.numel())
        view = view_of(flat)
        for start in range(0, view.nbytes, _PIECE):
            piece = [view[start : start + _PIECE], self.mpi.BYTE]
            self.done(lambda p=piece: self.comm.Ibcast(p, root), flat)  # type: ignore[misc]
        core.count_unseen_write(flat)

    def all_gather(self, targets: Sequence[Tensor], flat: Tensor) -> None:
        """Rank r's tensor, written to target r."""
        self.say(flat.dtype)
        self.sizes([flat.numel()] * self.size, {r: t.numel() for r, t in enumerate(targets)})
        self.swap(dict.fromkeys(range(self.size), flat), dict(enumerate(targets)))

    def gather(self, targets: Sequence[Tensor], flat: Tensor, root: int) -> None:
        """Rank r's tensor, written to target r of the root."""
        self.say(flat.dtype, root)
        ins = dict(enumerate(targets)) if self.rank == root else {}
        self.sizes([flat.numel()] * self.size, {r: t.numel() for r, t in ins.items()})
        self.swap({root: flat}, ins)

    def scatter(self, target: Tensor, chunks: Sequence[Tensor], root: int) -> None:
        """The root's chunk r, written to the target of rank r."""
        self.say(target.dtype, root)
        outs = dict(enumerate(chunks)) if self.rank == root else {}
        sent = [outs[r].numel() if outs else 0 for r in range(self.size)]
        self.sizes(sent, {root: target.numel()})
        self.swap(outs, {root: target})

    def all_to_all(self, targets: Sequence[Tensor], chunks: Sequence[Tensor]) -> None:
        """Chunk r goes to rank r; what comes from rank r is written to target r."""
        self.say(chunks[0].dtype)
        self.sizes([c.numel() for c in chunks], {r: t.numel() for r, t in enumerate(targets)})
        self.swap(dict(enumerate(chunks)), dict(enumerate(targets)))

    def reduce_scatter(self, target: Tensor, chunks: Sequence[Tensor], op: core.Op) -> None:
        """The combination of all ranks' chunk r, written to the target of rank r."""
        self.say(op.name, target.dtype)
        self.sizes([c.numel() for c in chunks], dict.fromkeys(range(self.size), target.numel()))
        mine = self._combined(dict(enumerate(chunks)), chunks[self.rank], op)
        put(target, finished(mine, op, self.size))

    def barrier(self) -> None:
        """Nobody leaves before everybody has entered."""
        self.agree()


class _All:
    """Several requests as one."""

    def __init__(self, mpi: Any, requests: list[Any]) -> None:
        self.mpi, self.requests = mpi, requests

    def Test(self) -> bool:  # noqa: N802 - MPI's name
        """Whether all have ended."""
        return not self.requests or bool(self.mpi.Request.Testall(self.requests))
