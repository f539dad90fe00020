"""`SubprocessHandler`: a program that runs as a worker.

Takes: a program, its arguments and environment, files for its output. Gives: the process, and its end.
Keeps true: files are closed when it is closed; a process that has ended is sent no signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import IO, Any

__all__ = ["SubprocessHandler"]


class SubprocessHandler:
    """A program that runs; it starts when this is made.

    Args:
        entrypoint: the program
        args: its arguments
        env: variables of its environment, beside those of this process
        stdout: the file of its output; nothing for this process's
        stderr: the file of its error output
        local_rank_id: its number on this machine
        numa_options: kept for PyTorch's API
    """

    def __init__(
        self, entrypoint: str, args: tuple[Any, ...], env: dict[str, str], stdout: str | None,
        stderr: str | None, local_rank_id: int, numa_options: Any = None,
    ) -> None:  # fmt: skip
        self.local_rank_id = local_rank_id
        self._stdout: IO[bytes] | None = open(stdout, "wb") if stdout else None  # noqa: SIM115
        self._stderr: IO[bytes] | None = open(stderr, "wb") if stderr else None  # noqa: SIM115
        command = [str(entrypoint), *map(str, args)]
        try:
            self.proc: subprocess.Popen[bytes] = subprocess.Popen(
                command, env={**os.environ, **env}, stdout=self._stdout, stderr=self._stderr
            )
        except BaseException:
            self._close_files()
            raise

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send the process a signal, by default SIGTERM, where it runs, and close its files."""
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM if death_sig is None else death_sig)
        self._close_files()

    def _close_files(self) -> None:
        for stream in (self._stdout, self._stderr):
            if stream is not None:
                stream.close()
