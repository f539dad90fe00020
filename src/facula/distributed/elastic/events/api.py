"""Events: something that an agent, a worker or a meeting of machines did.

Takes and gives plain values. Keeps true: an event that was written as JSON is read as the same event.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent"]


class EventSource(StrEnum):
    """Who an event comes from.

    Example:
        >>> from facula.distributed.elastic.events import EventSource
        >>> EventSource.AGENT.value
        'AGENT'
    """

    AGENT = "AGENT"
    WORKER = "WORKER"


class _AsJson:
    """What events of both kinds share: how they are written as JSON, and read."""

    #: the field that holds a member of an enumeration, and which one
    _named: ClassVar[tuple[str, type[StrEnum]]]

    def __str__(self) -> str:
        """As JSON."""
        return self.serialize()

    @classmethod
    def deserialize(cls, data: str | Self) -> Self:
        """An event that `serialize` wrote."""
        if isinstance(data, cls):
            return data
        found = json.loads(str(data))
        name, kind = cls._named
        return cls(**{**found, name: kind[found[name]]})

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))  # type: ignore[call-overload]  # both kinds are data classes


@dataclass
class Event(_AsJson):
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

    _named = "source", EventSource
    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


class NodeState(StrEnum):
    """How a machine stands in a meeting.

    Example:
        >>> from facula.distributed.elastic.events import NodeState
        >>> NodeState.RUNNING.value
        'RUNNING'
    """

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class RdzvEvent(_AsJson):
    """Something that happened while machines met.

    Args:
        name: which part of the program tells it
        run_id: the job
        message: what it was
        hostname: of the machine
        pid: of the process
        node_state: how the machine stands
        master_endpoint: where workers meet
        rank: the machine's number
        local_id: which of the machine's agents
        error_trace: the traceback of an error

    Example:
        >>> from facula.distributed.elastic.events import NodeState, RdzvEvent
        >>> event = RdzvEvent("a", "job", "met", "host", 1, NodeState.INIT)
        >>> RdzvEvent.deserialize(event.serialize()) == event
        True
    """

    _named = "node_state", NodeState
    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""
