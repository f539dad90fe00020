"""Messages between the processes of a program, over TCP.

Takes: a store through which processes find each other. Gives: `Transport`: `send` to a rank,
`expect` a message of a rank, `ask` a rank what it is doing.
Keeps true: messages of one rank, group and tag arrive in their order; a sender never waits for the
program of the receiver, since a thread of each process always reads; a rank that went away is known
to all who wait for it at once.

A connection carries messages in one direction and is made at the first one. It begins with a proof
that both ends know a secret, which only those who reach the store do.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed import wire
from facula.distributed.errors import DistBackendError
from facula.distributed.stores import Store

#: group, kind, sequence, step or tag, length of what follows, length of the label before it
_HEADER = struct.Struct("!IBqqQI")
_HELLO = struct.Struct("!I")
#: bytes of a label, and of a message
_LONGEST_LABEL, _LARGEST = 1 << 16, 1 << 46
MESSAGE, QUESTION, ANSWER, GOODBYE = range(4)
ANY = -1

Channel = tuple[int, int, int]  # group, sequence, step or tag


@dataclass(eq=False)
class Ticket:
    """A message that somebody waits for."""

    source: int
    take: Callable[[int, str, bytearray], None]
    channel: Channel
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def fill(self, source: int, label: str, payload: bytearray) -> None:
        """Hand the message over."""
        try:
            self.take(source, label, payload)
        except Exception as error:
            self.error = error
        self.done.set()

    def abandon(self, error: BaseException) -> None:
        """Say that it will not come."""
        self.error = error
        self.done.set()


class _Mailbox:
    """Messages that came, and who waits for which."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.messages: dict[Channel, list[tuple[int, str, bytearray]]] = {}
        self.tickets: dict[Channel, list[Ticket]] = {}
        self.gone: dict[int, str] = {}

    def put(self, channel: Channel, source: int, label: str, payload: bytearray) -> None:
        """A message came."""
        with self.lock:
            waiting = self.tickets.get(channel, [])
            ticket = next((t for t in waiting if t.source in (source, ANY)), None)
            if ticket is None:
                self.messages.setdefault(channel, []).append((source, label, payload))
                return
            waiting.remove(ticket)
            if not waiting:
                del self.tickets[channel]
        ticket.fill(source, label, payload)

    def expect(self, ticket: Ticket) -> None:
        """Fill a ticket now or later."""
        with self.lock:
            there = self.messages.get(ticket.channel, [])
            found = next((m for m in there if ticket.source in (m[0], ANY)), None)
            if found is None:
                if ticket.source in self.gone:
                    ticket.abandon(ConnectionError(self.gone[ticket.source]))
                    return
                self.tickets.setdefault(ticket.channel, []).append(ticket)
                return
            there.remove(found)
            if not there:
                del self.messages[ticket.channel]
        ticket.fill(*found)

    def forget(self, ticket: Ticket) -> None:
        """Nobody waits any more."""
        with self.lock:
            waiting = self.tickets.get(ticket.channel, [])
            if ticket in waiting:
                waiting.remove(ticket)

    def leave(self, rank: int, why: str) -> None:
        """A rank went away: whoever waits for it is told."""
        with self.lock:
            self.gone.setdefault(rank, why)
            lost = [t for tickets in self.tickets.values() for t in tickets if t.source == rank]
            for ticket in lost:
                self.tickets[ticket.channel].remove(ticket)
        for ticket in lost:
            ticket.abandon(ConnectionError(why))


class Transport:
    """This process's end of all connections."""

    def __init__(self, store: Store, rank: int, size: int, seconds: float, host: str) -> None:
        self.store, self.rank, self.size = store, rank, size
        self.log = get_logger("distributed")
        self.mailbox = _Mailbox()
        self.outgoing: dict[int, tuple[socket.socket, threading.Lock]] = {}
        self.incoming: list[socket.socket] = []
        self.opening = threading.Lock()
        self.closed = False
        #: what `ask` is answered with, by group
        self.status: Callable[[int], dict[str, Any]] = lambda group: {}
        self.server = wire.listen(host, 0)
        if rank == 0:
            store.set("transport/secret", secrets.token_hex(16))
        self.secret = bytes(store.get("transport/secret"))
        address = json.dumps([host, self.server.getsockname()[1]])
        store.set(f"transport/{rank}", address)
        self.seconds = seconds
        found = store.multi_get([f"transport/{r}" for r in range(size)])
        self.addresses = [tuple(json.loads(a)) for a in found]
        threading.Thread(target=self._accept, name="facula-accept", daemon=True).start()

    # ---------------------------------------------------------------- receiving

    def _accept(self) -> None:
        while not self.closed:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.incoming.append(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        """Take in the messages of one rank."""
        try:
            connection.settimeout(wire.PATIENCE)
            wire.ask_proof(connection, self.secret)
            (rank,) = _HELLO.unpack(wire.receive_exactly(connection, _HELLO.size))
            if rank >= self.size:
                raise PermissionError(f"rank {rank} of {self.size}")
            connection.settimeout(None)
        except OSError as error:
            if isinstance(error, PermissionError):
                self.log.warning("a connection was refused: %s", error)
            connection.close()
            return
        why = f"the connection was closed by rank {rank}: it exited or died"
        try:
            while self._read_one(connection, rank):
                pass
            why = f"rank {rank} left: it destroyed its process group"
        except OSError:
            pass
        except (ValueError, MemoryError) as error:
            why = f"rank {rank} sent what is no message: {error}"
        finally:
            connection.close()
        if not self.closed:
            self.mailbox.leave(rank, why)

    def _read_one(self, connection: socket.socket, rank: int) -> bool:
        header = wire.receive_exactly(connection, _HEADER.size)
        group, kind, sequence, step, size, label_size = _HEADER.unpack(header)
        if label_size > _LONGEST_LABEL or size > _LARGEST:
            raise ValueError(f"{size} bytes under a name of {label_size}")
        label = wire.receive_exactly(connection, label_size).decode()
        payload = wire.receive_exactly(connection, size, known=True)
        if kind == GOODBYE:
            return False
        if kind == QUESTION:
            answer = json.dumps(self.status(group)).encode()
            threading.Thread(
                target=self._answer, args=(rank, group, sequence, answer), daemon=True
            ).start()
        else:
            channel = (group, sequence if kind == MESSAGE else -2 - sequence, step)
            self.mailbox.put(channel, rank, label, payload)
        return True

    def _answer(self, rank: int, group: int, number: int, answer: bytes) -> None:
        try:
            self._write(rank, ANSWER, (group, number, 0), "", answer)
        except OSError:
            self.log.debug("rank %d asked, and is gone", rank)

    def expect(
        self, source: int, channel: Channel, take: Callable[[int, str, bytearray], None]
    ) -> Ticket:
        """Say that a message is wanted; `take` gets it, in the thread that reads."""
        ticket = Ticket(source, take, channel)
        self.mailbox.expect(ticket)
        return ticket

    # ---------------------------------------------------------------- sending

    def _connection(self, rank: int) -> tuple[socket.socket, threading.Lock]:
        with self.opening:
            known = self.outgoing.get(rank)
            if known is None:
                host, port = self.addresses[rank]
                made = wire.connect(host, port, self.seconds)
                made.settimeout(None)
                made.settimeout(self.seconds)
                wire.prove(made, self.secret)
                made.settimeout(None)
                made.sendall(_HELLO.pack(self.rank))
                known = self.outgoing[rank] = (made, threading.Lock())
            return known

    def _write(self, rank: int, kind: int, channel: Channel, label: str, payload: Any) -> None:
        connection, lock = self._connection(rank)
        name = label.encode()
        group, sequence, step = channel
        size = memoryview(payload).nbytes
        header = _HEADER.pack(group, kind, sequence, step, size, len(name)) + name
        with lock:
            connection.settimeout(self.seconds)
            if size < 65536:
                connection.sendall(header + bytes(payload))
            else:
                connection.sendall(header)
                connection.sendall(payload)

    def send(self, rank: int, channel: Channel, label: str, payload: Any) -> None:
        """Send bytes to a rank."""
        try:
            self._write(rank, MESSAGE, channel, label, payload)
        except OSError as error:
            why = self.mailbox.gone.get(rank, str(error))
            fail(
                DistBackendError,
                label or "send",
                f"a connection to rank {rank} was required",
                why,
                "look at the output of that rank: it exited, died or does not read",
            )

    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        """What a rank is doing in a group; None where it does not answer."""
        number = secrets.randbits(48)
        found: list[bytearray] = []
        channel = (group, -2 - number, 0)
        ticket = self.expect(rank, channel, lambda source, label, data: found.append(data))
        try:
            self._write(rank, QUESTION, (group, number, 0), "", b"")
        except (OSError, RuntimeError):
            return None
        ticket.done.wait(seconds)
        self.mailbox.forget(ticket)
        return json.loads(bytes(found[0])) if found else None

    def close(self) -> None:
        """Say goodbye, and close everything."""
        self.closed = True
        for rank in list(self.outgoing):
            try:
                self._write(rank, GOODBYE, (0, 0, 0), "", b"")
            except OSError:
                self.log.debug("rank %d was gone before this process left", rank)
        for connection, _ in self.outgoing.values():
            wire.close(connection)
        wire.close(self.server)
        end = time.monotonic() + 0.2
        for connection in self.incoming:
            if time.monotonic() < end:
                wire.close(connection)
