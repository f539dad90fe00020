"""Processes with numbers, whose output and errors go to files.

Takes: a program or a function, with arguments and an environment for each process. Gives: `PContext`, by
which they are waited for and ended: `SubprocessContext` for programs, `MultiprocessContext` for functions.
Keeps true: the first failure ends the others; no process outlives `close`; signals that this process is to
hand on become a `SignalException` in its main thread.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from facula.core.errors import fail
from facula.distributed.elastic.multiprocessing.errors import ProcessFailure, record
from facula.distributed.elastic.multiprocessing.logs import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    Std,
    to_map,
)
from facula.distributed.elastic.multiprocessing.redirects import redirect
from facula.distributed.elastic.multiprocessing.tail_log import TailLog

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "get_std_cm",
    "start_processes",
    "to_map",
]

#: the signals that end a launcher, where nobody names others
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


def get_std_cm(
    std_rd: str, redirect_fn: Callable[[str], contextlib.AbstractContextManager[None]]
) -> contextlib.AbstractContextManager[None]:
    """A block whose stream goes to a file; nothing where none is named.

    Args:
        std_rd: the file
        redirect_fn: `redirect_stdout` or `redirect_stderr`
    """
    return redirect_fn(std_rd) if std_rd else contextlib.nullcontext()


class SignalException(Exception):
    """A signal came that is to end all workers.

    Args:
        msg: what happened
        sigval: the signal

    Example:
        >>> import signal
        >>> from facula.distributed.elastic.multiprocessing import SignalException
        >>> SignalException("the launcher is to end", signal.SIGTERM).sigval.name
        'SIGTERM'
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


@contextlib.contextmanager
def handled(names: str = SIGNALS) -> Iterator[None]:
    """Let signals raise `SignalException` in the main thread, until the end of the block."""

    def raised(number: int, frame: FrameType | None) -> None:
        raise SignalException(f"process {os.getpid()} got signal {number}", signal.Signals(number))

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in filter(None, (part.strip().upper() for part in names.split(","))):
            number = getattr(signal.Signals, name, None)
            if number is None:
                fail(ValueError, "signals_to_handle", "names of signals were required", name,
                     hint=f"for example {SIGNALS}")  # fmt: skip
            before[number] = signal.signal(number, raised)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class RunProcsResult:
    """How processes ended, by their number: what functions gave, who failed, and where output lies.

    Example:
        >>> from facula.distributed.elastic.multiprocessing import RunProcsResult
        >>> RunProcsResult().is_failed()
        False
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether a process failed."""
        return bool(self.failures)


def _check_full(numbers: dict[int, Any], count: int, what: str) -> None:
    if sorted(numbers) != list(range(count)):
        fail(RuntimeError, "start_processes", f"{what} for the local ranks 0 to {count - 1} were required",
             sorted(numbers), hint="args and envs have an entry for each process, counted from 0")  # fmt: skip


class PContext(ABC):
    """Processes that were or will be started.

    Args:
        name: stands before their lines on the console
        entrypoint: a program, or a function
        args: of each, by its number
        envs: of each, by its number
        logs_specs: where output goes
        log_line_prefixes: of each, by its number

    Example:
        >>> from facula.distributed.elastic.multiprocessing import PContext
        >>> sorted(PContext.__abstractmethods__)
        ['_close', '_poll', '_start', 'pids']
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
    ) -> None:
        self.nprocs = len(envs)
        _check_full(envs, self.nprocs, "environments")
        _check_full(args, self.nprocs, "arguments")
        self.name, self.entrypoint = name, entrypoint
        self.args, self.envs = args, envs
        self._specs, self._prefixes = logs_specs, log_line_prefixes
        self._dest = logs_specs.reify(envs)
        self.stdouts, self.stderrs = self._dest.stdouts, self._dest.stderrs
        self.error_files = self._dest.error_files
        self._tails: list[TailLog] = []
        self._files: list[Any] = []
        self._failed = False

    def start(self) -> None:
        """Start them, and show their lines."""
        dest = self._dest
        for files, console in ((dest.tee_stdouts, sys.stdout), (dest.tee_stderrs, sys.stderr)):
            self._tails.append(TailLog(self.name, files, console, self._prefixes).start())
        self._filter(dest.filtered_stdout, self.stdouts, self._specs.duplicate_stdout_filters)
        self._filter(dest.filtered_stderr, self.stderrs, self._specs.duplicate_stderr_filters)
        self._start()

    def _filter(self, path: str, files: dict[int, str], texts: list[str] | None) -> None:
        """Write the lines with one of these texts to a common file."""
        if not path or not texts:
            return
        target = open(path, "w", buffering=1)  # noqa: SIM115 - until `close`
        self._files.append(target)
        wanted = tuple(texts)
        tail = TailLog(
            self.name, files, target, self._prefixes,
            log_line_filter=lambda line: any(text in line for text in wanted),
        )  # fmt: skip
        self._tails.append(tail.start())

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait for the end of all, or the first failure; None where `timeout` seconds were too few.

        `timeout`: 0 looks once, less waits without end. `period`: seconds between looks.
        """
        end = time.monotonic() + timeout
        while True:
            found = self._poll()
            if found is not None or timeout == 0:
                return found
            if timeout > 0 and time.monotonic() + period > end:
                time.sleep(max(end - time.monotonic(), 0.0))
                return self._poll()
            time.sleep(period)

    def close(self, death_sig: signal.Signals | None = None, timeout: float = 30) -> None:
        """End what still runs: by a signal, and after `timeout` seconds by SIGKILL."""
        self._close(death_sig or signal.SIGTERM, timeout)
        for tail in self._tails:
            tail.stop()
        for file in self._files:
            file.close()
        self._tails, self._files = [], []

    def forget(self) -> None:
        """Remove the folder that nobody asked for, where no process failed."""
        specs = self._specs
        if isinstance(specs, DefaultLogsSpecs) and specs.temporary and not self._failed:
            shutil.rmtree(specs.temporary, ignore_errors=True)

    @abstractmethod
    def _start(self) -> None:
        """Start them."""

    @abstractmethod
    def _poll(self) -> RunProcsResult | None:
        """How they ended; None while they run."""

    @abstractmethod
    def pids(self) -> dict[int, int]:
        """Their processes, by their number."""

    @abstractmethod
    def _close(self, death_sig: signal.Signals, timeout: float) -> None:
        """End what still runs."""

    def _result(self, codes: dict[int, int | None]) -> RunProcsResult | None:
        """What exit statuses mean: the first failure ends all."""
        failures = {
            number: ProcessFailure(number, self.pids()[number], code, self.error_files[number])
            for number, code in codes.items()
            if code
        }
        if failures:
            self._failed = True
            self.close()
        elif any(code is None for code in codes.values()):
            return None
        else:
            self.close()
        return RunProcsResult({}, failures, self.stdouts, self.stderrs)


class SubprocessContext(PContext):
    """Programs.

    Example:
        >>> from facula.distributed.elastic.multiprocessing import DefaultLogsSpecs, SubprocessContext
        >>> import os
        >>> quiet = DefaultLogsSpecs(os.devnull)
        >>> made = SubprocessContext("ls", "/bin/true", {0: ()}, {0: {}}, quiet)
        >>> made.start()
        >>> made.wait(period=0.01).is_failed()
        False
    """

    _processes: dict[int, subprocess.Popen[bytes]]

    def _start(self) -> None:
        self._processes = {}
        try:
            for number in range(self.nprocs):
                with contextlib.ExitStack() as opened:
                    files = [
                        opened.enter_context(open(path, "wb")) if path else None
                        for path in (self.stdouts[number], self.stderrs[number])
                    ]
                    self._processes[number] = subprocess.Popen(
                        [str(self.entrypoint), *map(str, self.args[number])],
                        env={**os.environ, **self.envs[number]},
                        stdout=files[0],
                        stderr=files[1],
                    )
        except BaseException:
            self.close(signal.SIGKILL)
            raise

    def _poll(self) -> RunProcsResult | None:
        return self._result({number: one.poll() for number, one in self._processes.items()})

    def pids(self) -> dict[int, int]:
        """Their processes, by their number."""
        return {number: one.pid for number, one in self._processes.items()}

    def _close(self, death_sig: signal.Signals, timeout: float) -> None:
        running = [one for one in self._processes.values() if one.poll() is None]
        for one in running:
            one.send_signal(death_sig)
            if death_sig != signal.SIGKILL:
                one.send_signal(signal.SIGCONT)  # one that was stopped hears nothing
        end = time.monotonic() + timeout
        for one in running:
            try:
                one.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def _called(
    number: int, fn: Callable[..., Any], args: tuple[Any, ...], env: dict[str, str],
    stdout: str, stderr: str, queue: Any,
) -> None:  # fmt: skip
    """What a process of `MultiprocessContext` does."""
    os.environ.update(env)
    with contextlib.ExitStack() as redirected:
        for name, path in (("stdout", stdout), ("stderr", stderr)):
            if path:
                redirected.enter_context(redirect(name, path))
        queue.put(record(fn)(*args))


class MultiprocessContext(PContext):
    """Functions; what they give comes back as a pickle of a process that this one started.

    Args:
        name: stands before their lines on the console
        entrypoint: the function
        args: of each, by its number
        envs: of each, by its number
        start_method: `spawn`, `fork` or `forkserver`
        logs_specs: where output goes
        log_line_prefixes: of each, by its number

    Example:
        >>> from facula.distributed.elastic.multiprocessing import MultiprocessContext, PContext
        >>> issubclass(MultiprocessContext, PContext)
        True
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any],
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        start_method: str,
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
    ) -> None:
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes)
        self._context: Any = multiprocessing.get_context(start_method)
        self._queues = {number: self._context.SimpleQueue() for number in range(self.nprocs)}
        self._processes: dict[int, Any] = {}
        self._values: dict[int, Any] = {}

    def _start(self) -> None:
        try:
            for number in range(self.nprocs):
                arguments = (
                    number, self.entrypoint, self.args[number], self.envs[number],
                    self.stdouts[number], self.stderrs[number], self._queues[number],
                )  # fmt: skip
                one = self._context.Process(target=_called, args=arguments, daemon=True)
                one.start()
                self._processes[number] = one
        except BaseException:
            self.close(signal.SIGKILL)
            raise

    def _poll(self) -> RunProcsResult | None:
        for number, queue in self._queues.items():
            if number not in self._values and not queue.empty():  # long ones hold up the process
                self._values[number] = queue.get()
        found = self._result({number: one.exitcode for number, one in self._processes.items()})
        if found is None or found.failures:
            return found
        for number, queue in self._queues.items():
            if number not in self._values and not queue.empty():
                self._values[number] = queue.get()
        found.return_values = {number: self._values.get(number) for number in self._queues}
        return found

    def pids(self) -> dict[int, int]:
        """Their processes, by their number."""
        return {number: one.pid for number, one in self._processes.items()}

    def _close(self, death_sig: signal.Signals, timeout: float) -> None:
        running = [one for one in self._processes.values() if one.is_alive()]
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, death_sig)
                if death_sig != signal.SIGKILL:
                    os.kill(one.pid, signal.SIGCONT)
        end = time.monotonic() + timeout
        for one in running:
            one.join(max(end - time.monotonic(), 0.0))
            if one.is_alive():
                one.kill()
                one.join()


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
) -> PContext:
    """Start a program or a function in several processes.

    Args:
        name: stands before their lines on the console
        entrypoint: the name of a program, or a function that a module holds
        args: of each process, by its number
        envs: what is added to the environment of each, by its number
        logs_specs: where output goes
        log_line_prefixes: of each, by its number
        start_method: of functions: `spawn`, `fork` or `forkserver`

    Raises:
        RuntimeError: numbers are missing.

    Example:
        >>> import os
        >>> from facula.distributed.elastic import multiprocessing
        >>> quiet = multiprocessing.DefaultLogsSpecs(os.devnull)
        >>> made = multiprocessing.start_processes("job", "/bin/false", {0: ()}, {0: {}}, quiet)
        >>> made.wait(period=0.01).failures[0].exitcode
        1
    """
    if isinstance(entrypoint, str):
        made: PContext = SubprocessContext(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes
        )
    else:
        made = MultiprocessContext(
            name, entrypoint, args, envs, start_method, logs_specs, log_line_prefixes
        )
    made.start()
    return made
