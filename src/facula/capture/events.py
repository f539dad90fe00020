"""What happened while programs were captured: graphs, breaks, recompiles, limits.

Takes: events, as they happen. Gives: `COUNTERS`, the list of recent events, and log lines.
Keeps true: an event has a code, the user's line, the cause and a rewrite; nothing happens silently.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from facula.core import logs

#: counts by kind, as `_dynamo.utils.counters`
COUNTERS: collections.defaultdict[str, collections.Counter] = collections.defaultdict(
    collections.Counter
)
#: callables that get every event
LISTENERS: list[Callable[[Event], None]] = []
#: callables that hear that a program begins, and has ended, to be captured and compiled: each gets a number
ON_START: list[Callable[[int], None]] = []
ON_END: list[Callable[[int], None]] = []
_THREAD = threading.local()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """A block that captures and compiles; who listens hears of the outermost one."""
    COUNTERS["frames"]["total"] += 1
    number = COUNTERS["frames"]["total"]
    outermost = not getattr(_THREAD, "compiling", False)
    _THREAD.compiling = True
    try:
        for listener in list(ON_START) if outermost else ():
            listener(number)
        yield
    finally:
        if outermost:
            _THREAD.compiling = False
            for listener in list(ON_END):
                listener(number)


class Event(NamedTuple):
    """One thing that happened."""

    kind: str
    code: str
    function: str
    line: Any
    cause: str
    rewrite: str = ""


_ARTIFACT = {"graph break": "graph_breaks", "recompile": "recompiles"}


def happened(event: Event) -> None:
    """Count, log and pass on an event."""
    for listener in list(LISTENERS):
        listener(event)
    name = _ARTIFACT.get(event.kind)
    if name is not None:
        if logs.is_on(name):
            logs.artifact(name).debug(text_of(event))
    elif event.kind == "recompile limit":
        logs.get_logger("dynamo").warning(text_of(event))
        return
    log = logs.get_logger("dynamo")
    if log.isEnabledFor(20):
        log.info("%s", text_of(event).splitlines()[0])


def text_of(event: Event) -> str:
    """An event as the log shows it."""
    text = f"{event.kind} in {event.function} [{event.code}]: {event.cause}"
    if event.line is not None:
        text += f"\n  {event.line}"
    if event.rewrite:
        text += f"\n  hint: {event.rewrite}"
    return text
