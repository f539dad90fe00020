"""Where the output of workers goes: `Std`, `LogsSpecs`, `DefaultLogsSpecs`.

Takes: a folder, and for each worker which of its streams go to files, to the console, or both. Gives: for a
start of the workers the names of all files.
Keeps true: no run writes to the files of another; a folder that nobody asked for is made only when it is
needed.
"""

from __future__ import annotations

import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from facula.core.errors import fail

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "to_map"]

_ENTRY = re.compile(r"\d+:[0123]")


class Std(IntFlag):
    """Which of a worker's streams are meant.

    Example:
        >>> from facula.distributed.elastic.multiprocessing import Std
        >>> Std.from_str("3") is Std.ALL, Std.from_str("0:1,1:2")[1] is Std.ERR
        (True, True)
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """`"3"` for all workers, or `"0:1,1:2"` by the worker's number.

        Raises:
            ValueError: the text is of neither form.
        """
        if re.fullmatch("[0123]", vm):
            return cls(int(vm))
        if vm and all(_ENTRY.fullmatch(part) for part in vm.split(",")):
            pairs = (part.split(":") for part in vm.split(","))
            return {int(rank): cls(int(value)) for rank, value in pairs}
        return fail(
            ValueError,
            "Std.from_str",
            "0 (none), 1 (stdout), 2 (stderr), 3 (both), or rank:value pairs were required",
            repr(vm),
            hint="for example 3, or 0:1,1:2",
        )


def to_map(val_or_map: Std | Mapping[int, Std], local_world_size: int) -> dict[int, Std]:
    """A value for each worker: workers that a map leaves out have `Std.NONE`.

    Args:
        val_or_map: one value for all, or values by the worker's number
        local_world_size: how many workers there are

    Example:
        >>> from facula.distributed.elastic.multiprocessing import Std, to_map
        >>> to_map({0: Std.OUT}, 2)[1] == Std.NONE
        True
    """
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Names of files by the worker's number; an empty name stands for the launcher's own stream.

    Example:
        >>> from facula.distributed.elastic.multiprocessing import LogsDest
        >>> LogsDest().error_files
        {}
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Says where the output of workers goes; a class of an own kind overrides `reify`.

    Args:
        log_dir: the folder for files
        redirects: which streams go to files
        tee: which go to files and to the console
        local_ranks_filter: the workers whose output the console shows; None for all
        duplicate_stdout_filters: lines with one of these texts go to a common file too
        duplicate_stderr_filters: the same for the error output

    Example:
        >>> from facula.distributed.elastic.multiprocessing import LogsSpecs
        >>> LogsSpecs.__abstractmethods__ == {"reify", "root_log_dir"}
        True
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        self._root_log_dir = log_dir
        self._redirects, self._tee = redirects, tee
        self._local_ranks_filter = local_ranks_filter
        self.duplicate_stdout_filters = duplicate_stdout_filters
        self.duplicate_stderr_filters = duplicate_stderr_filters

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of one start of the workers, whose environments are given."""

    @property
    @abstractmethod
    def root_log_dir(self) -> str | None:
        """The folder for files."""


class DefaultLogsSpecs(LogsSpecs):
    """`log_dir/<run>_<random>/attempt_<n>/<local rank>/` with `stdout.log`, `stderr.log` and `error.json`.

    Args:
        log_dir: the folder for files; None for a temporary one, which stays after a failure
        redirects: which streams go to files
        tee: which go to files and to the console
        local_ranks_filter: the workers whose output the console shows; None for all
        duplicate_stdout_filters: lines with one of these texts go to a common file too
        duplicate_stderr_filters: the same for the error output

    Example:
        >>> import os
        >>> from facula.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
        >>> specs = DefaultLogsSpecs(log_dir=os.devnull, redirects=Std.ALL)
        >>> specs.reify({0: {}}).stdouts == {0: os.devnull}
        True
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        super().__init__(
            log_dir, redirects, tee, local_ranks_filter, duplicate_stdout_filters, duplicate_stderr_filters
        )  # fmt: skip
        #: the folder that nobody asked for, once it is there
        self.temporary: str | None = None
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str | None:
        """The folder for files; None before a temporary one is made."""
        return self._root_log_dir or self.temporary

    def _run_folder(self, run: str) -> str:
        """The folder of this run."""
        if self._run_log_dir is None:
            root = self._root_log_dir
            if root is None:
                root = self.temporary = tempfile.mkdtemp(prefix="torchelastic_")
            os.makedirs(root, exist_ok=True)
            name = re.sub(r"[^\w.-]", "_", run)[:100]
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{name}_", dir=root)
        return self._run_log_dir

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of one start; workers learn their error files from TORCHELASTIC_ERROR_FILE."""
        known = envs.get(0, {})
        run = known.get("TORCHELASTIC_RUN_ID", "test_run_id")
        attempt = known.get("TORCHELASTIC_RESTART_COUNT", "0")
        folder = os.devnull
        if self._root_log_dir != os.devnull:
            folder = os.path.join(self._run_folder(run), f"attempt_{attempt}")
            number = 0
            while os.path.exists(folder):  # members changed without a restart that counts
                number += 1
                folder = os.path.join(self._run_folder(run), f"attempt_{attempt}_{number}")
            os.makedirs(folder)
        return self._files(folder, envs)

    def _files(self, folder: str, envs: dict[int, dict[str, str]]) -> LogsDest:
        size, made = len(envs), LogsDest()
        redirects, tee = to_map(self._redirects, size), to_map(self._tee, size)
        for rank in range(size):
            place = folder
            if folder != os.devnull:
                place = os.path.join(folder, str(rank))
                os.makedirs(place)
            shown = self._local_ranks_filter is None or rank in self._local_ranks_filter
            for stream, name, files, tees in (
                (Std.OUT, "stdout", made.stdouts, made.tee_stdouts),
                (Std.ERR, "stderr", made.stderrs, made.tee_stderrs),
            ):
                path = os.devnull if place == os.devnull else os.path.join(place, f"{name}.log")
                kept = (redirects[rank] | tee[rank]) & stream or self._filtered(stream)
                files[rank] = path if kept else ("" if shown else os.devnull)
                direct = self._filtered(stream) and not redirects[rank] & stream
                if shown and path != os.devnull and (tee[rank] & stream or direct):
                    tees[rank] = path
            error = "" if place == os.devnull else os.path.join(place, "error.json")
            made.error_files[rank] = error
            if error:
                envs[rank]["TORCHELASTIC_ERROR_FILE"] = error
        if folder != os.devnull:
            if self._filtered(Std.OUT):
                made.filtered_stdout = os.path.join(folder, "filtered_stdout.log")
            if self._filtered(Std.ERR):
                made.filtered_stderr = os.path.join(folder, "filtered_stderr.log")
        return made

    def _filtered(self, stream: Std) -> bool:
        """Whether lines of a stream go to a common file too."""
        if stream is Std.OUT:
            return bool(self.duplicate_stdout_filters)
        return bool(self.duplicate_stderr_filters)
