"""Worker processes that end before they are told to: noticed when they do.

Takes, for each loader, the identifiers of its workers.  Gives an error in the main thread as soon as one of
them was killed or ended by itself.
Keeps true: what handled SIGCHLD before is called too; workers of loaders that are gone are not looked at.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType

from facula.core.errors import fail

__all__: list[str] = []

#: loader -> its workers that may not end yet
_workers: dict[int, set[int]] = {}
_SIGCHLD_handler_set = False


def _set_worker_pids(key: int, pids: Iterable[int]) -> None:
    """Watch these workers of a loader."""
    if key in _workers:
        fail(
            ValueError,
            "_set_worker_pids",
            f"a loader whose workers are not watched yet was required: got {key}",
            hint="_remove_worker_pids() ends the watch",
        )
    _workers[key] = set(pids)


def _remove_worker_pids(key: int) -> None:
    """Watch the workers of a loader no more."""
    if _workers.pop(key, None) is None:
        fail(
            ValueError,
            "_remove_worker_pids",
            f"a loader whose workers are watched was required: got {key}",
            hint="_set_worker_pids() begins the watch",
        )


def _error_if_any_worker_fails() -> None:
    """Raise where a watched worker was killed or ended with an exit code.

    Raises:
        RuntimeError: names the worker, and the signal or the exit code.
    """
    for key, pids in list(_workers.items()):
        for pid in list(pids):
            try:
                # it is left to be waited for: its owner wants the exit code too
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                continue
            if ended is None or ended.si_status == 0:
                continue
            _workers[key] = set()
            if ended.si_code == os.CLD_EXITED:
                what = f"exited unexpectedly with exit code {ended.si_status}"
                hint = "num_workers=0 shows the error in this process"
            else:
                name = signal.Signals(ended.si_status).name
                what = f"is killed by signal: {name}"
                hint = "the system may be out of memory; num_workers=0 shows crashes of the dataset"
            fail(
                RuntimeError,
                "DataLoader",
                f"a running worker was required: DataLoader worker (pid {pid}) {what}",
                hint=hint,
            )


def _set_SIGCHLD_handler() -> None:
    """Look at the workers whenever a child of this process ends; in the main thread, once."""
    global _SIGCHLD_handler_set
    if sys.platform == "win32" or _SIGCHLD_handler_set:
        return
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGCHLD)

    def handler(number: int, frame: FrameType | None) -> None:
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handler)
    _SIGCHLD_handler_set = True


def _set_worker_signal_handlers() -> None:
    """Have a worker that crashes in native code say where, before the signal ends it."""
    faulthandler.enable(all_threads=False)
