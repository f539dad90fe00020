"""Messages that came to this process, and who waits for which.

Takes: messages, by the rank that sent them and a channel. Gives: `Mailbox`, `Ticket`.
Keeps true: messages of one rank and channel are handed over in their order, each once; who waits for a
rank that went away is told at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

Channel = tuple[int, int, int]  # group, sequence, step or tag
#: what gets a message: its rank, its label, its bytes
Taker = Callable[[int, str, bytearray], None]
#: in the place of a rank: whichever
ANY = -1


@dataclass(eq=False)
class Ticket:
    """A message that somebody waits for."""

    source: int
    take: Taker
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


class Mailbox:
    """Messages that came, and who waits for which."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.messages: dict[Channel, list[tuple[int, str, bytearray]]] = {}
        self.tickets: dict[Channel, list[Ticket]] = {}
        self.gone: dict[int, str] = {}
        #: groups in which a rank gave up, and why
        self.failed: dict[int, str] = {}
        #: what ranks said that something failed for them
        self.notes: dict[int, str] = {}

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
                why = self.failed.get(ticket.channel[0]) if ticket.channel[1] > 0 else None
                why = why or self.gone.get(ticket.source)
                if why is not None:
                    ticket.abandon(ConnectionError(why))
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

    def give_up(self, group: int, why: str) -> None:
        """A rank gave up in a collective: whoever waits for one of that group is told."""
        with self.lock:
            self.failed.setdefault(group, why)
            mine = [c for c in self.tickets if c[0] == group and c[1] > 0]
            lost = [ticket for channel in mine for ticket in self.tickets.pop(channel)]
        for ticket in lost:
            ticket.abandon(ConnectionError(why))

    def stray(self, group: int, sequence: int) -> tuple[int, str] | None:
        """A message of a collective up to this one that nobody took: its rank and label."""
        with self.lock:
            for channel, waiting in self.messages.items():
                if channel[0] == group and 0 < channel[1] <= sequence and waiting:
                    return waiting[0][0], waiting[0][1]
        return None

    def note(self, rank: int, text: str) -> None:
        """A rank says that something failed for it; that explains it when it goes."""
        self.notes.setdefault(rank, text)

    def explained(self, rank: int, why: str) -> str:
        """Why a rank is away, with what it said before."""
        said = self.notes.get(rank)
        return why if said is None else f"{why}; before, it said: {said}"

    def leave(self, rank: int, why: str, *, gone: bool = True) -> None:
        """A rank went away, or (`gone` is false) is about to and sends no more: whoever waits for it is told."""
        why = self.explained(rank, why)
        with self.lock:
            if gone:
                self.gone.setdefault(rank, why)
            lost = [t for tickets in self.tickets.values() for t in tickets if t.source == rank]
            for ticket in lost:
                self.tickets[ticket.channel].remove(ticket)
        for ticket in lost:
            ticket.abandon(ConnectionError(why))
