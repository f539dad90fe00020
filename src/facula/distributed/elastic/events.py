"""What agents did: events, for those who collect them.

Takes: `Event`s. Gives: `record`, which hands them to a handler of Python's logging.
Keeps true: nothing is kept or shown where nobody asked for it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Event", "EventSource", "get_logging_handler", "record"]

#: where events go, by the name that `--event-log-handler` takes
_HANDLERS: dict[str, logging.Handler] = {"null": logging.NullHandler()}


class EventSource(StrEnum):
    """Who an event comes from.

    Example:
        >>> from facula.distributed.elastic.events import EventSource
        >>> EventSource.AGENT.value
        'AGENT'
    """

    AGENT = "AGENT"
    WORKER = "WORKER"


@dataclass
class Event:
    """Something that happened.

    Args:
        name: what it was
        source: who it comes from
        timestamp: in milliseconds since 1970
        metadata: more about it

    Example:
        >>> from facula.distributed.elastic.events import Event, EventSource
        >>> Event("started", EventSource.AGENT, 0, {"rank": 0}).serialize()
        '{"name": "started", "source": "AGENT", "timestamp": 0, "metadata": {"rank": 0}}'
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """As JSON."""
        return self.serialize()

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """An event that `serialize` wrote."""
        if isinstance(data, Event):
            return data
        found = json.loads(data)
        found["source"] = EventSource[found["source"]]
        return Event(**found)

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a name: `null`, `console`, or one that a program registered.

    Args:
        destination: the name; an unknown one is `null`

    Example:
        >>> from facula.distributed.elastic.events import get_logging_handler
        >>> type(get_logging_handler()).__name__
        'NullHandler'
    """
    if destination == "console":
        return logging.StreamHandler(sys.stderr)
    return _HANDLERS.get(destination, _HANDLERS["null"])


def record(event: Event, destination: str = "null") -> None:
    """Hand an event to a handler.

    Args:
        event: what happened
        destination: the name of the handler

    Example:
        >>> from facula.distributed.elastic import events
        >>> events.record(events.Event("started", events.EventSource.WORKER))
    """
    if destination == "null":
        return
    event.timestamp = event.timestamp or int(time.time() * 1000)
    handler = get_logging_handler(destination)
    handler.handle(
        logging.LogRecord("facula.elastic", logging.INFO, __file__, 0, event.serialize(), (), None)
    )
