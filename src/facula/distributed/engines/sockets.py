"""`gloo`: the embedded engine of one machine, by sockets and shared memory.

Takes: a store through which processes find each other. Gives: `SocketEngine`; collectives of groups
whose processes see each other's memory go through that (`engines.shared`), messages over TCP.
Keeps true: messages of one rank, group and tag arrive in their order; a sender never waits for the
program of the receiver, since a thread of each process always reads; a rank that went away is known
to all who wait for it at once; it listens on the loopback address, and spans machines only where it is
told to.

A connection carries messages in one direction and is made at the first one, or when its rank is waited for that
never sent anything: its end tells of the rank's. It begins with a proof that both ends know a secret, which only
those who reach the store do.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import struct
import threading
import time
from typing import Any, NoReturn

from facula.core.errors import fail
from facula.distributed import wire
from facula.distributed.engine import Engine, Exchange, Members, Rendezvous
from facula.distributed.engines import shared
from facula.distributed.engines.shared import Room, SharedExchange
from facula.distributed.errors import DistBackendError
from facula.distributed.mailbox import ANY, Channel, Taker, Ticket
from facula.distributed.stores import of_every_rank

#: group, kind, sequence, step or tag, length of what follows, length of the label before it
_HEADER = struct.Struct("!IBqqQI")
_HELLO = struct.Struct("!I")
#: bytes of a label, and of a message
_LONGEST_LABEL, _LARGEST = 1 << 16, 1 << 46
MESSAGE, QUESTION, ANSWER, GOODBYE, FAILURE, NOTE = range(6)
_LONGEST_REASON = 4096
#: seconds that a rank that gives up takes to tell the others
_FAREWELL = 0.5
#: seconds for which the last messages of a rank that has closed its connections are waited for
_LAST_WORDS = 2.0
#: seconds until a rank whose greeting failed is called again
_AGAIN = 0.05
#: the sequence number of the messages by which a group finds out whether it shares memory; those of
#: collectives begin at 1
MEETING = 0


class SocketEngine(Engine):
    """This process's end of all connections."""

    name = "gloo"

    def __init__(self, rendezvous: Rendezvous) -> None:
        super().__init__(rendezvous)
        self.outgoing: dict[int, socket.socket] = {}
        #: held while something is sent to a rank
        self.locks = [threading.Lock() for _ in range(self.size)]
        self.incoming: list[socket.socket] = []
        #: ranks that connected to this one, which see to it that their end is known
        self.heard: set[int] = set()
        #: connections that have not said whose they are
        self.greeting: set[socket.socket] = set()
        #: ranks to which a connection is made because they are waited for
        self.watched: set[int] = {self.rank}
        self.closed = False
        self.rooms: dict[int, Room | None] = {}
        store = self.store
        host = "127.0.0.1" if self._on_one_machine(rendezvous) else rendezvous.address
        self.server = wire.listen(host, 0)
        if self.rank == 0:
            store.set("transport/secret", secrets.token_hex(16))
        self.secret = bytes(store.get("transport/secret"))
        store.set(f"transport/{self.rank}", json.dumps([host, self.server.getsockname()[1]]))
        self.addresses = [tuple(json.loads(address)) for address in self._of_all("transport")]
        threading.Thread(target=self._accept, name="facula-accept", daemon=True).start()

    def _of_all(self, name: str) -> list[bytes]:
        """What every rank wrote to the store under a name."""
        return of_every_rank(self.store, name, self.size, "init_process_group")

    def _on_one_machine(self, rendezvous: Rendezvous) -> bool:
        """Whether all ranks reach each other by the loopback address; raises where that was required."""
        self.store.set(f"transport/machine/{self.rank}", wire.machine())
        found = self._of_all("transport/machine")
        machines = list(dict.fromkeys(found))
        if len(machines) > 1 and not rendezvous.allow_remote:
            first = [found.index(machine) for machine in machines]
            fail(
                DistBackendError,
                "init_process_group",
                "ranks on one machine were required by gloo, the engine of one machine",
                f"{self.size} ranks on {len(machines)} machines, which begin at ranks {first}",
                "use backend='mpi' (pip install facula[mpi]); or, in a network that you trust, "
                "init_process_group(..., allow_remote=True) or FACULA_ALLOW_REMOTE=1",
            )
        return len(machines) == 1

    # ---------------------------------------------------------------- collectives

    def exchange(self, group: Members, sequence: int, label: str, end: float) -> Exchange:
        """A collective: through memory that all ranks of the group see, where there is such."""
        if group.number not in self.rooms:
            messages = Exchange(self, group, MEETING, "meeting of a group", end)
            self.rooms[group.number] = shared.meet(messages)
        room = self.rooms[group.number]
        if room is None:
            return Exchange(self, group, sequence, label, end)
        return SharedExchange(room, self, group, sequence, label, end)

    def abort(self, group: Members, why: str) -> None:
        """Tell the others that this rank gave up."""
        room = self.rooms.get(group.number)
        if room is not None:
            room.fail(why)
        self._tell(group, FAILURE if room is None else NOTE, why)

    def note(self, group: Members, why: str) -> None:
        """A message failed here: tell the others, for whom that may explain what comes."""
        self._tell(group, NOTE, why)

    def _tell(self, group: Members, kind: int, why: str) -> None:
        """Send a text to all ranks of a group that are there, within a moment."""
        text = why[:_LONGEST_REASON].encode()

        def tell(rank: int) -> None:
            with contextlib.suppress(OSError, RuntimeError):
                self._write(rank, kind, (group.number, 0, 0), "", text, _FAREWELL)

        others = [rank for rank in group.ranks if rank != self.rank and self.gone(rank) is None]
        threads = [threading.Thread(target=tell, args=(rank,), daemon=True) for rank in others]
        for thread in threads:
            thread.start()
        end = time.monotonic() + _FAREWELL
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0.0))

    def leave(self, group: Members) -> None:
        """Tell the others that this rank left."""
        room = self.rooms.pop(group.number, None)
        if room is not None:
            room.close()

    # ---------------------------------------------------------------- receiving

    def _accept(self) -> None:
        while not self.closed:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.incoming.append(connection)
            self.greeting.add(connection)
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
            self.heard.add(rank)
        except OSError as error:
            if isinstance(error, PermissionError):
                self.log.warning("a connection was refused: %s", error)
            connection.close()
            return
        finally:
            self.greeting.discard(connection)
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
            if not self.closed:
                self.mailbox.leave(rank, why)
            connection.close()  # behind it: who sees the end may ask what became of the rank

    def _read_one(self, connection: socket.socket, rank: int) -> bool:
        header = wire.receive_exactly(connection, _HEADER.size)
        group, kind, sequence, step, size, label_size = _HEADER.unpack(header)
        if label_size > _LONGEST_LABEL or size > _LARGEST:
            raise ValueError(f"{size} bytes under a name of {label_size}")
        label = wire.receive_exactly(connection, label_size).decode()
        payload = wire.receive_exactly(connection, size)
        if kind == GOODBYE:
            return False
        if kind in (FAILURE, NOTE):
            text = payload.decode(errors="replace")
            self.mailbox.note(rank, text)
            if kind == FAILURE:
                self.mailbox.give_up(group, f"rank {rank} gave up: {text}")
        elif kind == QUESTION:
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

    # ---------------------------------------------------------------- who is there

    def expect(self, source: int, channel: Channel, take: Taker) -> Ticket:
        """Say that a message is wanted; that its rank died is seen, though it never sent anything."""
        ticket = super().expect(source, channel, take)
        if not ticket.done.is_set():
            for rank in range(self.size) if source == ANY else (source,):
                if rank not in self.watched and rank not in self.heard:
                    self.watched.add(rank)
                    threading.Thread(target=self._reach, args=(rank,), daemon=True).start()
        return ticket

    def _reach(self, rank: int) -> None:
        """Connect to a rank that is waited for, and that has not connected to this one."""
        end = time.monotonic() + self.seconds
        while not self.closed and rank not in self.mailbox.gone:
            try:
                with self.locks[rank]:
                    self._connection(rank, self.seconds)
                return
            except ConnectionRefusedError:
                self._ended(rank, f"rank {rank} takes no connections: it exited or died")
                return
            except (OSError, RuntimeError) as error:
                self.log.debug("rank %d can not be reached: %s", rank, error)
                # a connection that is not answered: of a rank that ended just then, which refuses the next
                if not isinstance(error, ConnectionError) or time.monotonic() > end:
                    return
            time.sleep(_AGAIN)

    def _watch(self, rank: int, connection: socket.socket) -> None:
        """Wait until a rank to which this one sends closes the connection, on which it sends nothing."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.poll()
        if not self.closed and self.outgoing.get(rank) is connection:
            self._ended(rank, f"the connection was closed by rank {rank}: it exited or died")

    def _ended(self, rank: int, why: str) -> None:
        """A rank is away. Where it connected to this one, what it sent comes first: who reads that tells."""
        end = time.monotonic() + wire.PATIENCE
        while self.greeting and time.monotonic() < end:
            time.sleep(0.01)
        if rank not in self.heard and not self.closed:
            self.mailbox.leave(rank, why)

    # ---------------------------------------------------------------- sending

    def _connection(self, rank: int, seconds: float) -> socket.socket:
        """The connection to a rank, whose lock is held."""
        known = self.outgoing.get(rank)
        if known is None:
            host, port = self.addresses[rank]
            # it listened before it gave its address: who refuses now has ended
            made = wire.connect(host, port, seconds, starting=False)
            try:
                made.settimeout(max(seconds, 0.001))
                wire.prove(made, self.secret)
                made.sendall(_HELLO.pack(self.rank))
            except BaseException:
                made.close()
                raise
            known = self.outgoing[rank] = made
            self.watched.add(rank)
            threading.Thread(target=self._watch, args=(rank, known), daemon=True).start()
        return known

    def _write(
        self, rank: int, kind: int, channel: Channel, label: str, payload: Any,
        seconds: float | None = None,
    ) -> None:  # fmt: skip
        limit = self.seconds if seconds is None else seconds
        end = time.monotonic() + limit
        name = label.encode()
        group, sequence, step = channel
        size = memoryview(payload).nbytes
        header = _HEADER.pack(group, kind, sequence, step, size, len(name)) + name
        lock = self.locks[rank]
        if not lock.acquire(timeout=max(limit, 0.0)):
            raise TimeoutError(f"rank {rank} takes nothing")
        try:
            connection = self._connection(rank, limit)
            connection.settimeout(max(end - time.monotonic(), 0.001))
            try:
                if size < 65536:
                    connection.sendall(header + bytes(payload))
                else:
                    connection.sendall(header)
                    connection.settimeout(max(end - time.monotonic(), 0.001))
                    connection.sendall(payload)
            except BaseException:
                # a part of a message may be on its way: nothing can follow it
                self.outgoing.pop(rank, None)
                wire.close(connection)
                raise
        finally:
            lock.release()

    def send(self, rank: int, channel: Channel, label: str, payload: object) -> None:
        """Send bytes to a rank."""
        try:
            self.send_within(rank, channel, label, payload, self.seconds)
        except TimeoutError as error:
            self._unreachable(rank, label, error)

    def send_within(
        self, rank: int, channel: Channel, label: str, payload: object, seconds: float
    ) -> None:
        """Send bytes to a rank; TimeoutError where it does not take them in time."""
        try:
            self._write(rank, MESSAGE, channel, label, payload, seconds)
        except TimeoutError:
            raise
        except OSError as error:
            self._unreachable(rank, label, error)

    def _unreachable(self, rank: int, label: str, error: OSError) -> NoReturn:
        end = time.monotonic() + _LAST_WORDS
        if isinstance(error, ConnectionError):  # what it said before may not have been read yet
            while rank not in self.mailbox.gone and time.monotonic() < end:
                time.sleep(0.002)
        fail(
            DistBackendError,
            label or "send",
            f"a connection to rank {rank} was required",
            self.mailbox.gone.get(rank) or self.mailbox.explained(rank, str(error)),
            "look at the output of that rank: it exited, died or does not read",
        )

    def ask(self, rank: int, group: int, seconds: float) -> dict[str, Any] | None:
        """What a rank is doing in a group; None where it does not answer."""
        number = secrets.randbits(48)
        found: list[bytearray] = []
        channel = (group, -2 - number, 0)
        ticket = self.expect(rank, channel, lambda source, label, data: found.append(data))
        try:
            self._write(rank, QUESTION, (group, number, 0), "", b"", seconds)
        except (OSError, RuntimeError):
            return None
        ticket.done.wait(seconds)
        self.mailbox.forget(ticket)
        return json.loads(bytes(found[0])) if found else None

    def close(self) -> None:
        """Say goodbye, and close everything."""
        self.closed = True
        for room in self.rooms.values():
            if room is not None:
                room.close()
        for rank in list(self.outgoing):
            try:
                self._write(rank, GOODBYE, (0, 0, 0), "", b"", _FAREWELL)
            except (OSError, RuntimeError):
                self.log.debug("rank %d was gone before this process left", rank)
        for connection in list(self.outgoing.values()):
            wire.close(connection)
        wire.close(self.server)
        end = time.monotonic() + 0.2
        for connection in self.incoming:
            if time.monotonic() < end:
                wire.close(connection)
