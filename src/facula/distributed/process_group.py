"""Some of the ranks, and what they do together.

Takes: a transport and ranks. Gives: `ProcessGroup`: starts collectives and messages, gives `Work`.
Keeps true: the collectives of a group run one behind the other in a thread of the group, in the order
in which they were started, each with a sequence number that is the same on all ranks; one that does
not end in time, or meets another operation, fails with a message that names ranks, sequence number,
operation and shape.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.buffers import fill, host, view_of
from facula.distributed.errors import DistBackendError
from facula.distributed.transport import ANY, Ticket, Transport
from facula.distributed.types import Work

Tensor = core.Tensor

Algorithm = Callable[["Exchange"], Any]
#: what hears the name of each collective that this process begins
LISTENERS: list[Any] = []
#: sequence numbers of messages between two ranks, which have tags instead
_MESSAGES = -1


class Exchange:
    """One collective under way: what an algorithm sends and receives."""

    def __init__(self, group: ProcessGroup, sequence: int, label: str, end: float) -> None:
        self.group, self.sequence, self.label, self.end = group, sequence, label, end
        self.rank, self.size = group.rank(), group.size()

    def _channel(self, step: int) -> tuple[int, int, int]:
        return (self.group.number, self.sequence, step)

    def send(self, peer: int, step: int, payload: Any) -> None:
        """Send bytes to a rank of the group."""
        transport = self.group.transport
        transport.send(self.group.ranks[peer], self._channel(step), self.label, payload)

    def receive(self, peer: int, step: int, size: int | None) -> Any:
        """The bytes that a rank of the group sends."""
        found: list[Any] = []
        transport = self.group.transport
        rank = self.group.ranks[peer]
        ticket = transport.expect(
            rank, self._channel(step), lambda source, label, data: found.append((label, data))
        )
        if not ticket.done.wait(max(self.end - time.monotonic(), 0.0)):
            transport.mailbox.forget(ticket)
            raise TimeoutError
        if ticket.error is not None:
            fail(
                DistBackendError,
                self.label,
                f"rank {rank} was required in {self.describe()}",
                got=ticket.error,
                hint="look at the output of that rank",
            )
        label, data = found[0]
        if label != self.label or (size is not None and len(data) != size):
            fail(
                DistBackendError,
                self.label,
                (
                    "the same operation on tensors of the same size on all ranks was required in "
                    f"{self.describe()}"
                ),
                got=f"{label!r} with {len(data)} bytes from rank {rank}, where {size} bytes were "
                "expected",
                hint="call the same operations in the same order on all ranks",
            )
        return data

    def describe(self) -> str:
        """Which collective this is."""
        status = self.group.status
        return f"{status['op']} (sequence {self.sequence}, {self.group.describe()})"


class ProcessGroup:
    """Ranks that work together, as this process sees them."""

    def __init__(
        self, transport: Transport | None, ranks: Sequence[int], me: int, number: int, name: str,
        backend: str, seconds: float,
    ) -> None:  # fmt: skip
        self._transport = transport
        self.ranks = list(ranks)
        self.number, self.group_name, self.backend_name = number, name, backend
        self.group_desc = name
        self.seconds = seconds
        self._me = self.ranks.index(me)
        self._sequence = 0
        self.log = get_logger("distributed")
        #: the last collective that this rank began
        self.status: dict[str, Any] = {"sequence": 0, "op": "nothing yet"}
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None
        self.log.info("process group %s made: %s", name, self.describe())

    @property
    def transport(self) -> Transport:
        """The connections; a group of one rank needs none."""
        assert self._transport is not None, "a group of one rank sends nothing"
        return self._transport

    def rank(self) -> int:
        """This process's number in the group."""
        return self._me

    def size(self) -> int:
        """How many ranks the group has."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the backend."""
        return self.backend_name

    def get_group_store(self) -> Any:
        """The store of the program."""
        return self.transport.store

    def describe(self) -> str:
        """The group in words."""
        return f"group {self.group_name!r}, rank {self._me} of {len(self.ranks)}"

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name!r} of ranks {self.ranks}, {self.backend_name}>"

    # ---------------------------------------------------------------- collectives

    def start(
        self, name: str, algorithm: Algorithm, tensors: Sequence[Any], seconds: float | None = None
    ) -> Work:
        """Run an algorithm in the group's thread; its result is ignored, `tensors` are the work's."""
        limit = self.seconds if seconds is None else seconds
        for listener in LISTENERS:
            listener.heard(name)
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
        self._sequence += 1
        shape = next((tuple(t.shape) for t in tensors if isinstance(t, Tensor)), None)
        dtype = next((t.dtype for t in tensors if isinstance(t, Tensor)), None)
        op = name if shape is None else f"{name} of {shape} {dtype}"
        self._jobs.put((work, name, op, algorithm, list(tensors), self._sequence, limit))
        return work

    def _run(self) -> None:
        """The group's thread: one collective behind the other."""
        core.set_grad_enabled(False)
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._run_one(job)

    def _help(self, work: Work) -> None:
        """Run what is before a work, where its own thread waits for it: in the callback of a future."""
        while threading.current_thread() is self._thread and not work.is_completed():
            job = self._jobs.get()
            if job is None:
                self._jobs.put(None)
                return
            self._run_one(job)

    def _run_one(self, job: Any) -> None:
        work, name, op, algorithm, tensors, sequence, limit = job
        if self._broken is not None:
            work.break_off(self._broken)
            return
        self.status = {"sequence": sequence, "op": op}
        self.log.debug("%s: %d %s", self.group_name, sequence, op)
        exchange = Exchange(self, sequence, name, time.monotonic() + limit)
        try:
            algorithm(exchange)
        except TimeoutError:
            self._break(work, self._late(op, sequence, limit))
        except Exception as error:
            self._break(work, error)
        else:
            self.status = {"sequence": sequence, "op": op, "done": True}
            work.finish(tensors)

    def _break(self, work: Work, error: BaseException) -> None:
        """After a failure ranks are no longer in step: nothing more can run in this group."""
        self._broken = error
        self.log.error("%s: %s", self.group_name, error)
        work.break_off(error)

    def _late(self, op: str, sequence: int, seconds: float) -> DistBackendError:
        """The error of a collective whose time is over: asks all ranks where they are."""
        lines = self.absent(sequence)
        return DistBackendError(
            f"[{op.split()[0]}] all ranks of {self.describe()} were required in {op} (sequence "
            f"{sequence}) within {seconds:g} s (timeout): got\n  " + "\n  ".join(lines) + "\n"
            "hint: each rank must run the same collectives in the same order"
        )

    def absent(self, sequence: int) -> list[str]:
        """What ranks say that have not come to a collective; those that do not answer."""
        answers: dict[int, Any] = {}

        def ask(rank: int) -> None:
            answers[rank] = self.transport.ask(rank, self.number, 1.0)

        others = [r for r in self.ranks if r != self.ranks[self._me]]
        threads = [threading.Thread(target=ask, args=(r,), daemon=True) for r in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2.0)
        lines = []
        for rank in others:
            answer = answers.get(rank)
            gone = self.transport.mailbox.gone.get(rank)
            if answer is None:
                lines.append(f"rank {rank} does not answer" + (f": {gone}" if gone else ""))
            elif not answer or answer["sequence"] < sequence:
                was = answer.get("op", "nothing yet") if answer else "nothing yet"
                lines.append(f"rank {rank} is missing; the last that it began is {was}")
        return lines or ["all ranks, but too late"]

    # ---------------------------------------------------------------- messages

    def isend(self, tensor: Tensor, peer: int, tag: int) -> Work:
        """Send a tensor to a rank of the group."""
        dense = host(tensor)
        work = Work("send", self.seconds)
        channel = (self.number, _MESSAGES, tag)
        self.transport.send(self.ranks[peer], channel, str(tensor.dtype), view_of(dense))
        work.finish([tensor])
        return work

    def irecv(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        """Write what a rank of the group (any, without one) sends to a tensor."""
        work = Work("recv", self.seconds)
        source = ANY if peer is None else self.ranks[peer]
        held: list[Ticket] = []

        def take(rank: int, label: str, data: bytearray) -> None:
            size = tensor.numel() * tensor.element_size()
            if label != str(tensor.dtype) or len(data) != size:
                work.break_off(
                    DistBackendError(
                        f"[recv] {tensor.numel()} elements of {tensor.dtype} were required: got "
                        f"{len(data)} bytes of {label} from rank {rank}"
                    )
                )
                return
            fill(tensor, data)
            work.finish([tensor], rank)

        def late(seconds: float) -> BaseException:
            self.transport.mailbox.forget(held[0])
            error = held[0].error
            if error is not None:
                return DistBackendError(f"[recv] a message was required: got {error}")
            who = "any rank" if peer is None else f"rank {source}"
            return DistBackendError(
                f"[recv] a message of {who} with tag {tag} was required within {seconds:g} s "
                f"(timeout): got none ({self.describe()}, shape {tuple(tensor.shape)})"
            )

        work.late = late
        ticket = self.transport.expect(source, (self.number, _MESSAGES, tag), take)
        held.append(ticket)
        _follow(ticket, work)
        return work

    def close(self) -> None:
        """End the thread."""
        self._jobs.put(None)


def _follow(ticket: Ticket, work: Work) -> None:
    """Let a work fail when its ticket is abandoned."""
    abandon = ticket.abandon

    def abandoned(error: BaseException) -> None:
        abandon(error)
        work.break_off(DistBackendError(f"[recv] a message was required: got {error}"))

    ticket.abandon = abandoned  # type: ignore[method-assign]
    if ticket.error is not None:
        abandoned(ticket.error)
