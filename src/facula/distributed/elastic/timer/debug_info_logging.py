"""What is told of timers that are over, before their processes are ended.

Takes: the job and the timers by process. Gives: `log_debug_info_for_expired_timers`.
Keeps true: nothing is told where there are none.
"""

from __future__ import annotations

from facula.core.logs import get_logger

__all__ = ["log_debug_info_for_expired_timers"]


def log_debug_info_for_expired_timers(run_id: str, expired_timers: dict[int, list[str]]) -> None:
    """Tell the log which timers of which processes are over.

    Args:
        run_id: the job
        expired_timers: names of timers by the process's number
    """
    if expired_timers:
        get_logger("distributed").info(
            "timers of job %s that are over, by process: %s", run_id, expired_timers
        )
