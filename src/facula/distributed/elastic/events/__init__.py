"""What agents did: events, for those who collect them.

Takes: events. Gives: `record` and `record_rdzv_event`, which hand them to a handler of Python's logging.
Keeps true: nothing is kept or shown where nobody asked for it.
"""

from __future__ import annotations

import inspect
import logging
import os
import socket
import time
import traceback

from facula.distributed.elastic.events.api import Event, EventSource, NodeState, RdzvEvent
from facula.distributed.elastic.events.handlers import get_logging_handler

__all__ = [
    "Event", "EventSource", "NodeState", "RdzvEvent", "construct_and_record_rdzv_event", "get_logging_handler",
    "record", "record_rdzv_event",
]  # fmt: skip

#: the handler of what machines tell while they meet
_MEETINGS = "dynamic_rendezvous"


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """The logger whose records go to the handler of a name, and nowhere else."""
    logger = logging.getLogger(f"facula.elastic.events.{destination}")
    if not logger.handlers:
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
    return logger


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
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Hand an event of a meeting to the handler `dynamic_rendezvous`.

    Args:
        event: what happened
    """
    _get_or_create_logger(_MEETINGS).info(event.serialize())


def construct_and_record_rdzv_event(
    run_id: str, message: str, node_state: NodeState, name: str = "", hostname: str = "",
    pid: int | None = None, master_endpoint: str = "", local_id: int | None = None,
    rank: int | None = None,
) -> None:  # fmt: skip
    """Make an event of a meeting and hand it on; nothing where no handler collects them.

    Args:
        run_id: the job
        message: what happened
        node_state: how the machine stands; with FAILED the traceback under way goes along
        name: which part of the program tells it; default: the file and function of the caller
        hostname: of the machine; default: this one
        pid: of the process; default: this one
        master_endpoint: where workers meet
        local_id: which of the machine's agents
        rank: the machine's number
    """
    if isinstance(get_logging_handler(_MEETINGS), logging.NullHandler):
        return
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if not name and caller is not None:
        name = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_code.co_name}"
    trace = traceback.format_exc() if node_state == NodeState.FAILED else ""
    record_rdzv_event(
        RdzvEvent(
            name, run_id, message, hostname or socket.getfqdn(), os.getpid() if pid is None else pid,
            node_state, master_endpoint, rank, local_id, trace,
        )
    )  # fmt: skip
