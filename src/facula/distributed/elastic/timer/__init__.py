"""Blocks of code that end in time, or whose process is ended.

Takes: a server in a watching process, a client in each worker. Gives: `configure`, `expires`, and servers and
clients over a queue or a named pipe.
Keeps true: importing this starts nothing; a worker that releases its timers in time is left alone.
"""

from __future__ import annotations

from facula.distributed.elastic.timer.api import (
    TimerClient,
    TimerRequest,
    TimerServer,
    configure,
    expires,
)
from facula.distributed.elastic.timer.file_based_local_timer import (
    FileTimerClient,
    FileTimerRequest,
    FileTimerServer,
)
from facula.distributed.elastic.timer.local_timer import LocalTimerClient, LocalTimerServer

__all__ = [
    "FileTimerClient", "FileTimerRequest", "FileTimerServer", "LocalTimerClient", "LocalTimerServer",
    "TimerClient", "TimerRequest", "TimerServer", "configure", "expires",
]  # fmt: skip
