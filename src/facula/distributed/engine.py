"""What a process group asks of the engine below it: messages, collectives, who is missing.

Takes: nothing but tensors and stores. Gives: `Engine`, what an engine is; `Exchange`, one collective
under way, by messages where an engine has nothing better; `Rendezvous`, what an engine is made from.
Keeps true: everything above this file is the same on all engines; an engine that can send and receive
is whole; nothing waits longer than an exchange's deadline; an error names the rank that is missing.

An engine of another package is found by the entry point group `facula.engines`, or registered by
`Backend.register_backend`.
"""

from __future__ import annotations

import datetime
import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from facula import core
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed import collectives as algorithms
from facula.distributed.buffers import fill, view_of
from facula.distributed.errors import DistBackendError
from facula.distributed.mailbox import Channel, Mailbox, Taker, Ticket
from facula.distributed.nvidia.communicator import Piece, piece_of
from facula.distributed.stores import Store

Tensor = core.Tensor

__all__ = ["OBJECTS", "TAKERS", "Alone", "Engine", "Exchange", "Members", "Rendezvous"]

#: whether what is sent now are Python objects as bytes, which lie where they were made
OBJECTS: ContextVar[bool] = ContextVar("OBJECTS", default=False)


#: the engines of this process that take arrays of other packages in the memory of devices
TAKERS: list[Engine] = []


@dataclass
class Rendezvous:
    """What an engine is made from: where the ranks of a program meet, and which one this is."""

    store: Store
    rank: int
    size: int
    seconds: float
    #: this process's address on the way to the store
    address: str = "127.0.0.1"
    #: whether an engine that is meant for one machine may span several
    allow_remote: bool = False

    # PyTorch's names of the same
    @property
    def group_rank(self) -> int:
        """Which rank of the group this process is."""
        return self.rank

    @property
    def group_size(self) -> int:
        """How many ranks the group has."""
        return self.size

    @property
    def timeout(self) -> datetime.timedelta:
        """How long a collective may take."""
        return datetime.timedelta(seconds=self.seconds)


class Members(Protocol):
    """What an engine knows of a process group."""

    number: int
    ranks: list[int]

    def rank(self) -> int:
        """This process's number in the group."""

    def size(self) -> int:
        """How many ranks the group has."""

    def describe(self) -> str:
        """The group in words."""

    @property
    def status(self) -> dict[str, Any]:
        """What this process does in the group: `sequence` and `op`."""


class Engine(ABC):
    """This process's end of what connects the ranks of a program."""

    #: as users name it
    name = ""
    #: whether a world of one rank is the engine's too
    serves_one = False
    #: whether nothing is exchanged, so that tensors without elements may pass
    counts_only = False

    def __init__(self, rendezvous: Rendezvous) -> None:
        self.store, self.rank, self.size = rendezvous.store, rendezvous.rank, rendezvous.size
        self.seconds = rendezvous.seconds
        self.log = get_logger("distributed")
        self.mailbox = Mailbox()
        #: what another rank is answered with that asks about a group
        self.status: Callable[[int], dict[str, Any]] = lambda group: {}

    @abstractmethod
    def send(self, rank: int, channel: Channel, label: str, payload: object) -> None:
        """Send bytes to a rank; they may be changed as soon as this returns."""

    def send_within(
        self, rank: int, channel: Channel, label: str, payload: object, seconds: float
    ) -> None:
        """The same; TimeoutError where the rank does not take them in time, as far as the engine knows."""
        self.send(rank, channel, label, payload)

    def check(self, name: str, tensors: Sequence[Any]) -> None:
        """Raise where tensors do not lie in memory that the engine reaches."""
        if not TAKERS:  # nobody makes pieces of such memory
            return
        for t in tensors:
            if isinstance(t, Piece):
                fail(RuntimeError, name, f"tensors of facula were required by the engine {self.name!r}",
                     f"{type(t.owner).__name__}, an array in the memory of a device",
                     hint="use backend='nccl'")  # fmt: skip

    def taken(self, value: Any) -> Any:
        """An argument of a collective, or a list of such, as the engine takes it: arrays of other packages in the
        memory of devices are pieces of it."""
        if isinstance(value, (list, tuple)):
            return [self.taken(one) for one in value]
        seen = not isinstance(value, (Tensor, Piece)) and hasattr(value, "__cuda_array_interface__")
        return piece_of(value) if seen else value

    def message(self, group: Any, name: str, piece: Piece, peer: int, tag: int) -> Any:
        """Send memory of a device to a rank of a group (`name` is "send"), or receive it: the `Work`."""
        fail(RuntimeError, name, f"tensors of facula were required by the engine {self.name!r}",
             "memory of a device", hint="use backend='nccl'")  # fmt: skip

    @abstractmethod
    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        """What a rank is doing in a group; None where it does not answer."""

    @abstractmethod
    def close(self) -> None:
        """Leave: the other ranks are told."""

    def expect(self, source: int, channel: Channel, take: Taker) -> Ticket:
        """Say that a message is wanted; `take` gets it, in the thread that reads."""
        ticket = Ticket(source, take, channel)
        self.mailbox.expect(ticket)
        return ticket

    def forget(self, ticket: Ticket) -> None:
        """The message is not wanted any more."""
        self.mailbox.forget(ticket)

    def gone(self, rank: int) -> str | None:
        """Why a rank is away for good, where the engine knows that it is."""
        return self.mailbox.gone.get(rank)

    def exchange(self, group: Members, sequence: int, label: str, end: float) -> Exchange:
        """A collective of a group that begins; it must be over at `end`, by the monotonic clock."""
        return Exchange(self, group, sequence, label, end)

    def abort(self, group: Members, why: str) -> None:  # noqa: B027 - an engine may have nothing to do
        """A collective of the group failed here, and nothing more will run in it: tell the others."""

    def note(self, group: Members, why: str) -> None:  # noqa: B027
        """A message of the group failed here: tell the others, for whom that may explain what comes."""

    def leave(self, group: Members) -> None:  # noqa: B027
        """The group is not used any more."""


class Alone(Engine):
    """The engine of a world of one: it opens nothing."""

    name = "alone"

    def send(self, rank: int, channel: Channel, label: str, payload: object) -> None:
        """There is nobody."""
        fail(
            DistBackendError,
            label,
            "another rank was required",
            rank,
            "this is a world of one rank",
        )

    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        """There is nobody."""
        return None

    def close(self) -> None:
        """Nothing is open."""


class Exchange:
    """One collective among the ranks of a group, as this rank sees it.

    Tensors have one dimension and lie densely in the processor's memory; results are written to those
    that are given. An engine with collectives of its own overrides them.
    """

    #: whether `all_gather` and `reduce_scatter` take strips (`distributed.strips`) in the place of tensors
    strips = False

    def __init__(
        self, engine: Engine, group: Members, sequence: int, label: str, end: float
    ) -> None:
        self.engine, self.group, self.sequence, self.end = engine, group, sequence, end
        #: the operation, and what must be the same on all ranks
        self.name = self.label = label
        #: more that must be the same, in words
        self.about = ""
        self.rank, self.size = group.rank(), group.size()

    def describe(self) -> str:
        """Which collective this is."""
        return f"{self.group.status['op']} (sequence {self.sequence}, {self.group.describe()})"

    def say(self, *details: Any) -> None:
        """Add to what must be the same on all ranks."""
        self.label = _label(self.name, self.about, *details)

    # ---------------------------------------------------------------- messages

    def _channel(self, step: int) -> Channel:
        return (self.group.number, self.sequence, step)

    def send(self, peer: int, step: int, payload: object) -> None:
        """Send bytes to a rank of the group."""
        left = max(self.end - time.monotonic(), 0.0)
        rank = self.group.ranks[peer]
        self.engine.send_within(rank, self._channel(step), self.label, payload, left)

    def receive(self, peer: int, step: int, size: int | None) -> Any:
        """The bytes that a rank of the group sends."""
        found: list[Any] = []
        rank = self.group.ranks[peer]
        ticket = self.engine.expect(
            rank, self._channel(step), lambda source, label, data: found.append((label, data))
        )
        if not self.awaited(ticket):
            self.engine.forget(ticket)
            raise TimeoutError
        if ticket.error is not None:
            self.lost(rank, ticket.error)
        label, data = found[0]
        if label != self.label or (size is not None and len(data) != size):
            got, wanted = f"{label!r} with {len(data)} bytes", f"{self.label!r} with {size} bytes"
            self.differ(rank, got, wanted)
        return data

    def awaited(self, ticket: Ticket) -> bool:
        """Wait for a message until the deadline; whether there is an answer."""
        return ticket.done.wait(max(self.end - time.monotonic(), 0.0))

    def finish(self) -> None:
        """This rank's part is done. What was sent to it and nobody took belongs to another operation."""
        found = self.engine.mailbox.stray(self.group.number, self.sequence)
        if found is not None:
            self.differ(found[0], f"a message of {found[1]!r}", f"none but those of {self.label!r}")

    def lost(self, rank: int, why: Any) -> None:
        """Raise: a rank of the world is away."""
        fail(
            DistBackendError,
            self.name,
            f"rank {rank} was required in {self.describe()}",
            got=why,
            hint="look at the output of that rank",
        )

    def differ(self, rank: int, got: str, wanted: str) -> None:
        """Raise: a rank of the world does something else."""
        fail(
            DistBackendError,
            self.name,
            "the same operation on tensors of the same size and dtype on all ranks was required in "
            f"{self.describe()}",
            got=f"{got} from rank {rank}, where {wanted} were expected",
            hint="call the same operations in the same order on all ranks",
        )

    def asked(self, wanted: dict[int, int]) -> list[int]:
        """How many elements this rank wants of each; -1 where it wants nothing."""
        return [wanted.get(number, -1) for number in range(self.size)]

    def check_sizes(self, told: Sequence[Sequence[int]]) -> None:
        """Raise on every rank where one sends another something else than that wants.

        told: of each rank, how many elements it sends to each, and how many it wants of each (`asked`)
        """
        size, me = self.size, self.rank
        pairs = [(source, target) for source in range(size) for target in range(size)]
        # first what comes to this rank, and of that what others do
        for source, target in sorted(pairs, key=lambda pair: (pair[1] != me, pair[0] == me)):
            count, wanted = told[source][target], told[target][size + source]
            if wanted not in (-1, count):
                to = "" if target == me else f" for rank {self.group.ranks[target]}"
                got = f"{self.label!r} with {count} elements{to}"
                self.differ(self.group.ranks[source], got, f"{wanted} elements")

    # ---------------------------------------------------------------- collectives

    def all_reduce(self, flat: Tensor, op: core.Op) -> None:
        """The combination of all ranks' tensors, written to each."""
        self.say(op.name, flat.dtype)
        put(flat, finished(algorithms.all_reduce(self, flat, op.combine), op, self.size))

    def reduce(self, flat: Tensor, op: core.Op, root: int) -> None:
        """The combination of all ranks' tensors, written to the root's; the others stay."""
        self.say(op.name, flat.dtype, root)
        total = algorithms.reduce(self, flat, op.combine, root)
        if self.rank == root:
            put(flat, finished(total, op, self.size))

    def broadcast(self, flat: Tensor, root: int) -> None:
        """The root's tensor, written to all."""
        self.say(flat.dtype, root)
        put(flat, algorithms.broadcast(self, flat, root))

    def all_gather(self, targets: Sequence[Tensor], flat: Tensor) -> None:
        """Rank r's tensor, written to target r; targets differ in size as the ranks' tensors do."""
        self.say(flat.dtype)
        for target, got in zip(targets, algorithms.all_gather(self, flat, targets), strict=True):
            put(target, got)

    def reduce_scatter(self, target: Tensor, chunks: Sequence[Tensor], op: core.Op) -> None:
        """The combination of all ranks' chunk r, written to the target of rank r."""
        self.say(op.name, target.dtype)
        total = algorithms.reduce_scatter(self, chunks, op.combine)
        put(target, finished(total, op, self.size))

    def all_to_all(self, targets: Sequence[Tensor], chunks: Sequence[Tensor]) -> None:
        """Chunk r goes to rank r; what comes from rank r is written to target r."""
        self.say(chunks[0].dtype)
        algorithms.all_to_all(self, chunks, targets)

    def gather(self, targets: Sequence[Tensor], flat: Tensor, root: int) -> None:
        """Rank r's tensor, written to target r of the root."""
        self.say(flat.dtype, root)
        algorithms.gather(self, flat, targets, root)

    def scatter(self, target: Tensor, chunks: Sequence[Tensor], root: int) -> None:
        """The root's chunk r, written to the target of rank r."""
        self.say(target.dtype, root)
        algorithms.scatter(self, target, chunks, root)

    def barrier(self) -> None:
        """Nobody leaves before everybody has entered."""
        algorithms.barrier(self)


class _Words(threading.local):
    text = ""


#: what the collectives that this thread begins are for, in words
_ALIKE = _Words()


@contextmanager
def alike(text: str) -> Iterator[None]:
    """A block whose collectives fail on every rank where another one says something else.

    Args:
        text: what they are for, in words: pieces of different things may be of the same size
    """
    before, _ALIKE.text = _ALIKE.text, text
    try:
        yield
    finally:
        _ALIKE.text = before


def telling(algorithm: Any) -> Any:
    """A collective that says what it is for, where this thread's block does."""
    text = _ALIKE.text
    if not text:
        return algorithm

    def run(x: Exchange) -> None:
        x.about = text
        algorithm(x)

    return run


@functools.lru_cache(maxsize=512, typed=True)
def _label(name: str, about: str, *details: Any) -> str:
    """What must be the same on all ranks, in words; a program says the same again and again."""
    return " ".join([name, *map(str, details), about]).rstrip()


def put(target: Tensor, result: Tensor) -> None:
    """Write a result to where it was wanted."""
    if result is not target:
        fill(target, view_of(result.contiguous()))


def finished(total: Tensor, op: core.Op, size: int) -> Tensor:
    """What the sum of all ranks' tensors is for an operation."""
    return total / size if op.name == "AVG" else total
