"""Some of the ranks, and what they do together.

Takes: an engine and ranks. Gives: `ProcessGroup`: starts collectives and messages, gives `Work`.
Keeps true: the collectives of a group run one behind the other in the order in which they were started,
in a thread of the group, or, where the caller waits and nothing is before it, in the caller's; each has a
sequence number that is the same on all ranks; one that does not end in time, or meets another operation,
fails with a message that names ranks, sequence number, operation and shape.
"""

from __future__ import annotations

import datetime
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.buffers import fill, host, view_of
from facula.distributed.engine import Alone, Engine, Exchange, Rendezvous
from facula.distributed.errors import DistBackendError
from facula.distributed.group_methods import GroupMethods
from facula.distributed.mailbox import ANY, Ticket
from facula.distributed.nvidia.communicator import Piece
from facula.distributed.stores import HashStore, Store
from facula.distributed.traffic import COUNTERS
from facula.distributed.types import Work

Tensor = core.Tensor

Algorithm = Callable[[Exchange], Any]
#: what hears the name of each collective that this process begins
LISTENERS: list[Any] = []
#: the groups of this process that the program derived, and which have methods of their own
BY_PROGRAM: set[weakref.ref[ProcessGroup]] = set()
#: sequence numbers of messages between two ranks, which have tags instead
_MESSAGES = -1


@dataclass(frozen=True)
class ByMessages:
    """An algorithm that sends and receives, and has no use for what an engine's own collectives need: it begins
    though not all ranks come."""

    run: Algorithm

    def __call__(self, exchange: Exchange) -> Any:
        """Run it."""
        return self.run(exchange)


class ProcessGroup(GroupMethods):
    """Ranks that work together, as this process sees them.

    A program that derives groups with methods of its own begins them with a rank and a size, or a store, a rank and
    a size.

    Args:
        engine: what carries messages
        ranks: of the world
        me: this process's number in the group
        number: of the group, the same in all processes
        name: of the group, the same in all processes
        backend: the engine's name
        seconds: how long a collective may take
        desc: what the group is for, in words

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> group = dist.new_group([0])
        >>> group.size(), group.rank()
        (1, 0)
        >>> dist.destroy_process_group()
    """

    #: by which, with its ranks, a program finds it again
    tag = ""

    def __init__(
        self, engine: Any, ranks: Any, me: int = -1, number: int = 0, name: str = "", backend: str = "",
        seconds: float = 1800.0, desc: str | None = None,
    ) -> None:  # fmt: skip
        self._by_device = {}
        if not isinstance(engine, Engine):
            engine, ranks, me, backend = self._of_program(engine, ranks, me)
        self.engine: Engine = engine
        self.ranks: list[int] = list(ranks)
        self._name, self._desc = name, desc or name
        self.number, self.backend_name = number, backend
        self.seconds = seconds
        self._me = self.ranks.index(me)
        self._sequence = 0
        #: how often `split_group` made others of it
        self.splits = 0
        self.log = get_logger("distributed")
        #: the last collective that this rank began: number, name, shape and dtype, whether it is done
        self._at: tuple[int, str, Any, Any, bool] = (0, "nothing yet", None, None, False)
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: held by the thread that runs a collective; how many wait for the group's own thread
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        #: messages that are to come, in words
        self._coming: dict[Work, str] = {}
        if not self.by_program:
            self.log.info("process group %s made: %s", name, self.describe())

    def _of_program(self, first: Any, second: Any, third: int) -> tuple[Engine, range, int, str]:
        """Begin a group whose methods the program has: (rank, size) or (store, rank, size)."""
        store = first if isinstance(first, Store) else HashStore()
        rank, size = (second, third) if isinstance(first, Store) else (first, second)
        if not 0 <= rank < size:
            fail(ValueError, "ProcessGroup", f"a rank in [0, {size}) was required", rank,
                 hint="ProcessGroup(rank, size) or ProcessGroup(store, rank, size)")  # fmt: skip
        self.by_program = True
        BY_PROGRAM.add(weakref.ref(self, BY_PROGRAM.discard))
        return Alone(Rendezvous(store, rank, size, 1800.0)), range(size), rank, "custom"

    def joined(
        self, ranks: Sequence[int], number: int, name: str, backend: str, seconds: float, store: Any
    ) -> None:
        """Take a place among the groups of this process: what a program derived is one of them."""
        self.ranks, self.number, self.backend_name, self.seconds = (
            list(ranks),
            number,
            backend,
            seconds,
        )
        self.engine.store = store
        self._set_group_name(name)

    @property
    def group_name(self) -> str:
        """The name of the group, the same in all processes."""
        return self._said("getGroupName", self._name)

    @property
    def group_desc(self) -> str:
        """What the group is for."""
        return self._said("getGroupDesc", self._desc)

    def _set_group_name(self, name: str) -> None:
        """Name the group."""
        own = getattr(self, "setGroupName", None)
        if own is not None:
            own(name)
        self._name = name

    def _set_group_desc(self, text: str) -> None:
        """Say what the group is for."""
        own = getattr(self, "setGroupDesc", None)
        if own is not None:
            own(text)
        self._desc = text

    def _said(self, method: str, otherwise: Any) -> Any:
        """What a method of a derived group says, by the name that groups written in other languages have."""
        own = getattr(self, method, None)
        return otherwise if own is None else own()

    @property
    def status(self) -> dict[str, Any]:
        """The last collective that this rank began."""
        sequence, name, shape, dtype, done = self._at
        op = name if shape is None else f"{name} of {shape} {dtype}"
        told: dict[str, Any] = {"sequence": sequence, "op": op}
        if done:
            told["done"] = True
        if self._broken is not None:
            told["failed"] = str(self._broken).partition("\n")[0]
        awaited = [text for work, text in list(self._coming.items()) if work.awaited]
        if awaited:
            told["waits"] = awaited[0]
        return told

    def rank(self) -> int:
        """This process's number in the group."""
        return self._said("getRank", self._me) if self.by_program else self._me

    def size(self) -> int:
        """How many ranks the group has."""
        return self._said("getSize", len(self.ranks)) if self.by_program else len(self.ranks)

    def name(self) -> str:
        """The name of the backend."""
        return self._said("getBackendName", self.backend_name)

    _get_backend_name = name

    def abort(self) -> None:
        """End what is under way here: nothing more can run in the group."""
        self._broken = self._broken or DistBackendError(f"[abort] {self.describe()} was aborted")
        self.engine.abort(self, str(self._broken))

    def shutdown(self) -> None:
        """End the group's thread."""
        self._jobs.put(None)

    def _get_sequence_number_for_group(self) -> int:
        """How many collectives began here."""
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        """Kept for PyTorch's API: numbers count from 0 on all ranks."""

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Choose how long a collective that begins from now on may take."""
        self.seconds = timeout.total_seconds()

    def get_group_store(self) -> Any:
        """The store of the program."""
        return self.engine.store

    def describe(self) -> str:
        """The group in words."""
        if self._desc != self._name:
            return f"group {self._name!r} ({self._desc}), rank {self._me} of {len(self.ranks)}"
        return f"group {self.group_name!r}, rank {self._me} of {len(self.ranks)}"

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name!r} of ranks {self.ranks}, {self.backend_name}>"

    # ---------------------------------------------------------------- collectives

    def start(
        self, name: str, algorithm: Algorithm, tensors: Sequence[Any], seconds: float | None = None
    ) -> Work:
        """Run an algorithm in the group's thread; its result is ignored, `tensors` are the work's."""
        limit = self.seconds if seconds is None else seconds
        _told(name, self.ranks, tensors)
        work = Work(name, limit + 60)
        work.help = self._help
        if self._broken is not None:
            work.break_off(self._broken)
            return work
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"facula-{self.group_name}", daemon=True
            )
            self._thread.start()
        with self._counting:
            self._waiting += 1
            self._sequence += 1
            self._jobs.put((work, name, algorithm, list(tensors), self._sequence, limit))
        return work

    def run(
        self, name: str, algorithm: Algorithm, tensors: Sequence[Any], seconds: float | None = None
    ) -> None:
        """Run an algorithm, and wait for its end."""
        if self._waiting or self._broken is not None or not self._turn.acquire(blocking=False):
            self.start(name, algorithm, tensors, seconds).wait()
            return
        try:
            _told(name, self.ranks, tensors)
            with self._counting:
                self._sequence += 1
            recording = core.set_grad_enabled(False)
            try:
                limit = self.seconds if seconds is None else seconds
                self._attempt(name, algorithm, tensors, self._sequence, limit)
            finally:
                core.set_grad_enabled(recording)
        finally:
            self._turn.release()

    def _run(self) -> None:
        """The group's thread: one collective behind the other."""
        core.set_grad_enabled(False)
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._run_one(job)
            job = None  # what it read and wrote may go before the next one comes

    def _help(self, work: Work) -> None:
        """Run what is before a work, where its own thread waits for it: in the callback of a future."""
        while threading.current_thread() is self._thread and not work.is_completed():
            job = self._jobs.get()
            if job is None:
                self._jobs.put(None)
                return
            self._run_one(job)

    def _run_one(self, job: Any) -> None:
        work, name, algorithm, tensors, sequence, limit = job
        try:
            with self._turn:
                self._attempt(name, algorithm, tensors, sequence, limit)
        except BaseException as error:
            work.break_off(error)
        else:
            work.finish([t.owner if isinstance(t, Piece) else t for t in tensors])
        finally:
            with self._counting:
                self._waiting -= 1

    def _attempt(
        self, name: str, algorithm: Algorithm, tensors: Sequence[Any], sequence: int, limit: float
    ) -> None:
        """Run an algorithm now; an error ends the group."""
        if self._broken is not None:
            raise self._broken
        shape = dtype = None
        for t in tensors:
            if isinstance(t, Tensor):
                shape, dtype = tuple(t.shape), t.dtype
                break
        self._at = (sequence, name, shape, dtype, False)
        end = time.monotonic() + limit
        try:
            if not (self.engine.counts_only and _without_elements(tensors)):
                if isinstance(algorithm, ByMessages):
                    exchange = Exchange(self.engine, self, sequence, name, end)
                else:
                    exchange = self.engine.exchange(self, sequence, name, end)
                algorithm(exchange)
                exchange.finish()
        except TimeoutError:
            self._break(self._late(self.status["op"], sequence, limit))
        except BaseException as error:
            self._break(error)
        self._at = (sequence, name, shape, dtype, True)

    def _break(self, error: BaseException) -> NoReturn:
        """After a failure ranks are no longer in step: nothing more can run in this group."""
        self._broken = error
        self.log.error("%s: %s", self.group_name, error)
        self.engine.abort(self, str(error))
        raise error

    def _late(self, op: str, sequence: int, seconds: float) -> DistBackendError:
        """The error of a collective whose time is over: asks all ranks where they are."""
        lines = self.absent(sequence)
        return DistBackendError(
            f"[{op.split()[0]}] all ranks of {self.describe()} were required in {op} (sequence "
            f"{sequence}) within {seconds:g} s (timeout): got\n  " + "\n  ".join(lines) + "\n"
            "hint: each rank must run the same collectives in the same order"
        )

    def _asked(self) -> dict[int, Any]:
        """What the other ranks say that they are doing; nothing of those that do not answer."""
        answers: dict[int, Any] = {}

        def ask(rank: int) -> None:
            answers[rank] = self.engine.ask(rank, self.number, 1.0)

        others = [r for r in self.ranks if r != self.ranks[self._me]]
        threads = [threading.Thread(target=ask, args=(r,), daemon=True) for r in others]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2.0
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0.0))
        return {rank: answers.get(rank) for rank in others}

    def absent(self, sequence: int) -> list[str]:
        """What ranks say that have not come to a collective; those that do not answer."""
        lines, own = [], self.status["op"]
        for rank, answer in self._asked().items():
            if answer is None:
                lines.append(self._silent(rank))
            elif answer.get("failed"):
                lines.append(f"rank {rank} gave up: {answer['failed']}")
            elif not answer or answer["sequence"] < sequence:
                was = answer.get("op", "nothing yet") if answer else "nothing yet"
                waits = f"; it waits for {answer['waits']}" if answer.get("waits") else ""
                lines.append(f"rank {rank} is missing; the last that it began is {was}{waits}")
            elif answer["sequence"] == sequence and answer["op"] != own:
                lines.append(f"rank {rank} is in {answer['op']} (sequence {sequence}) instead")
        return lines or ["all ranks, but too late"]

    def _silent(self, rank: int) -> str:
        gone = self.engine.gone(rank)
        return f"rank {rank} does not answer" + (f": {gone}" if gone else "")

    def _elsewhere(self) -> str:
        """Where all other ranks are, for one that waits for a message."""
        lines = []
        for rank, answer in self._asked().items():
            if answer is None:
                lines.append(self._silent(rank))
            elif answer.get("failed"):
                lines.append(f"rank {rank} gave up: {answer['failed']}")
            elif answer.get("waits"):
                lines.append(f"rank {rank} waits for {answer['waits']}")
            elif not answer:
                lines.append(f"rank {rank} is not in this group yet, or left it")
            else:
                state = "has ended" if answer.get("done") else "is in"
                lines.append(f"rank {rank} {state} {answer['op']} (sequence {answer['sequence']})")
        return "\n  ".join(lines)

    # ---------------------------------------------------------------- messages

    def isend(self, tensor: Tensor, peer: int, tag: int) -> Work:
        """Send a tensor to a rank of the group."""
        _count("send", [self.ranks[self._me], self.ranks[peer]], [tensor])
        given = self.engine.taken(tensor)
        self.engine.check("send", [given])
        if isinstance(given, Piece):
            return self._message("send", given, peer, tag)
        work = Work("send", self.seconds)
        if self.engine.counts_only:
            work.finish([tensor])
            return work
        dense = host(tensor)
        channel = (self.number, _MESSAGES, tag)
        try:
            self.engine.send_within(
                self.ranks[peer], channel, str(tensor.dtype), view_of(dense), self.seconds
            )
        except TimeoutError as late:
            error = DistBackendError(
                f"[send] rank {self.ranks[peer]} was required to take a message within "
                f"{self.seconds:g} s (timeout): got {late or 'nothing'} ({self.describe()})\n  "
                f"{self._elsewhere()}\nhint: look at the output of rank {self.ranks[peer]}"
            )
            self._message_failed(error)
            raise error from late
        except DistBackendError as error:
            self._message_failed(error)
            raise
        work.finish([tensor])
        return work

    def irecv(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        """Write what a rank of the group (any, without one) sends to a tensor."""
        given = self.engine.taken(tensor)
        self.engine.check("recv", [given])
        if isinstance(given, Piece):
            return self._message("recv", given, peer, tag)
        work = Work("recv", self.seconds)
        if self.engine.counts_only:
            work.finish([tensor], self.ranks[peer or 0])
            return work
        source = ANY if peer is None else self.ranks[peer]
        who, held = "any rank" if peer is None else f"rank {source}", list[Ticket]()

        def take(rank: int, label: str, data: bytearray) -> None:
            self._coming.pop(work, None)
            if label != str(tensor.dtype) or len(data) != tensor.numel() * tensor.element_size():
                work.break_off(_unlike(tensor, f"{len(data)} bytes of {label} from rank {rank}"))
                return
            fill(tensor, data)
            work.finish([tensor], rank)

        def late(seconds: float) -> BaseException:
            self.engine.forget(held[0])
            self._coming.pop(work, None)
            error = held[0].error
            if error is not None:
                return DistBackendError(f"[recv] a message was required: got {error}")
            return DistBackendError(
                f"[recv] a message of {who} with tag {tag} was required within {seconds:g} s "
                f"(timeout): got none ({self.describe()}, shape {tuple(tensor.shape)})\n  "
                f"{self._elsewhere()}\nhint: see whether {who} sends it, with this tag and in this group"
            )

        work.late = late
        work.failing = self._message_failed
        self._coming[work] = f"a message of {who} with tag {tag}"
        ticket = self.engine.expect(source, (self.number, _MESSAGES, tag), take)
        held.append(ticket)
        _follow(ticket, work, lambda: self._coming.pop(work, None))
        return work

    def _message(self, name: str, piece: Piece, peer: int | None, tag: int) -> Work:
        """Have the engine deliver memory of a device."""
        if peer is None:
            fail(RuntimeError, name, f"the rank of the sender was required by {self.backend_name}",
                 "none (recv from any source)", hint="name it: recv(tensor, src)")  # fmt: skip
        if self._broken is not None:
            raise self._broken
        work: Work = self.engine.message(self, name, piece, peer, tag)
        what = "a message of" if name == "recv" else "the receipt of a message by"
        self._coming[work] = f"{what} rank {self.ranks[peer]} with tag {tag}"
        work.get_future().add_done_callback(lambda _: self._coming.pop(work, None))
        return work

    def _message_failed(self, error: BaseException) -> None:
        """Tell the others, for whom this may explain why a rank goes."""
        self.engine.note(self, str(error))

    def close(self) -> None:
        """End the thread, and leave the group."""
        self.shutdown()
        self.engine.leave(self)


def _unlike(tensor: Tensor, got: str) -> DistBackendError:
    required = f"{tensor.numel()} elements of {tensor.dtype}"
    return DistBackendError(f"[recv] {required} were required: got {got}")


def _told(name: str, ranks: list[int], tensors: Sequence[Any]) -> None:
    """Tell those who listen which collective begins."""
    for listener in LISTENERS:
        listener.heard(name)
    _count(name, ranks, tensors)


def _count(name: str, ranks: list[int], tensors: Sequence[Any]) -> None:
    for traffic in COUNTERS:
        traffic.counted(name, ranks, tensors)


def _without_elements(tensors: Sequence[Any]) -> bool:
    """Whether a collective is about tensors on the meta device."""
    return any(isinstance(t, Tensor) and t.is_meta for t in tensors)


def _follow(ticket: Ticket, work: Work, ended: Callable[[], Any]) -> None:
    """Let a work fail when its ticket is abandoned."""
    abandon = ticket.abandon

    def abandoned(error: BaseException) -> None:
        abandon(error)
        ended()
        work.break_off(DistBackendError(f"[recv] a message was required: got {error}"))

    ticket.abandon = abandoned  # type: ignore[method-assign]
    if ticket.error is not None:
        abandoned(ticket.error)
