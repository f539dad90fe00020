"""What a worker process of a `DataLoader` does.

Takes a dataset and a channel; over the channel come lists of indices and go batches.  Gives
`get_worker_info`.
Keeps true: an exception goes to the main process with its traceback; the process ends when told,
when the channel closes, and leaves Ctrl-C to the main process.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.data import fetch, transport
from facula.data.graph_settings import apply_random_seed, apply_sharding

__all__ = ["ExceptionWrapper", "WorkerInfo", "get_worker_info"]


class ExceptionWrapper:
    """An exception on its way between processes."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the original type, with the worker's traceback as its message."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)  # a KeyError prints its message's repr
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            exception = self.exc_type(message)
        except Exception:
            # the type wants other arguments
            raise RuntimeError(message) from None
        raise exception


class KeyErrorMessage(str):
    """A string whose repr is itself."""

    def __repr__(self) -> str:
        return str(self)


class WorkerInfo:
    """What a worker knows of itself: ``id``, ``num_workers``, ``seed``, ``dataset``."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    _initialized = False

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._names = tuple(kwargs)
        self._initialized = True

    def __setattr__(self, name: str, value: object) -> None:
        if self._initialized:
            fail(
                RuntimeError,
                "WorkerInfo",
                f"Cannot assign attributes to {type(self).__name__} objects",
                hint="worker_init_fn may set attributes of the dataset instead",
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)}' for n in self._names)})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that this process is: ``id``, ``num_workers``, ``seed`` and ``dataset``; None in the
    main process.

    Example:
        >>> facula.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


@dataclass(frozen=True)
class EndOfIterable:
    """A worker's iterable dataset has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """Start a new epoch with this seed of pipes: the message of other packages' workers."""

    seed: int | None = None


#: PyTorch's name for what a worker sends at the end of its iterable dataset
_IterableDatasetStopIteration = EndOfIterable


class ManagerWatchdog:
    """Whether the process that started this one is still there."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()

    def is_alive(self) -> bool:
        """False once the starting process has ended: another one is this one's parent then."""
        return os.getppid() == self.manager_pid


@dataclass(frozen=True)
class PipeSettings:
    """What a data set of pipes is told before a pass: the seed that all readers share, and which
    of how many processes of a group this one is.
    """

    seed: int | None
    world_size: int
    rank: int


def prepare_pipe(pipe: Any, settings: object, workers: int = 1, worker: int = 0) -> None:
    """Give a graph of pipes its seeds and its share; or a data set that has `settings_of_pass` what
    that gave in the main process.
    """
    if not isinstance(settings, PipeSettings):
        pipe.prepare_pass(settings)
        return
    apply_sharding(
        pipe, workers * settings.world_size, worker * settings.world_size + settings.rank
    )
    if settings.seed is not None:
        apply_random_seed(pipe, facula.Generator().manual_seed(settings.seed))


@dataclass(frozen=True)
class Restart:
    """Start a new epoch, of pipes with another seed; the worker sends it back."""

    pipe_settings: Any = None


@dataclass
class Settings:
    """Everything a worker is started with."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Callable
    drop_last: bool
    base_seed: int
    init_fn: Callable | None
    worker_id: int
    num_workers: int
    persistent: bool
    pipe_settings: Any = None


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The four words that seed NumPy's generator in a worker, as PyTorch's: those of a seed sequence
    [O'Neill 2015] of the worker's number and the two words of the pass's seed.
    """
    import numpy  # lazily: workers of programs without NumPy seed nothing of it

    words = [worker_id, base_seed & 0xFFFFFFFF, (base_seed >> 32) & 0xFFFFFFFF]
    return numpy.random.SeedSequence(words).generate_state(4).tolist()


def _set_seeds(base_seed: int, worker_id: int) -> None:
    random.seed(base_seed + worker_id)
    core.manual_seed(base_seed + worker_id)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(base_seed, worker_id))


class _Worker:
    def __init__(self, settings: Settings, channel: socket.socket) -> None:
        self.settings = settings
        self.channel = channel
        self.failure: ExceptionWrapper | None = None
        self.fetcher: Any = None
        self.ended = False

    def where(self) -> str:
        return f"in DataLoader worker process {self.settings.worker_id}"

    def make_fetcher(self) -> None:
        s = self.settings
        self.fetcher = fetch.create_fetcher(
            s.dataset_kind, s.dataset, s.auto_collation, s.collate_fn, s.drop_last
        )

    def start(self) -> None:
        global _worker_info
        s = self.settings
        seed = s.base_seed + s.worker_id
        _set_seeds(s.base_seed, s.worker_id)
        _worker_info = WorkerInfo(
            id=s.worker_id, num_workers=s.num_workers, seed=seed, dataset=s.dataset
        )
        try:
            if s.pipe_settings is not None:
                prepare_pipe(s.dataset, s.pipe_settings, s.num_workers, s.worker_id)
            if s.init_fn is not None:
                s.init_fn(s.worker_id)
            self.make_fetcher()
        except Exception:
            self.failure = ExceptionWrapper(where=self.where())

    def restart(self, message: Restart) -> None:
        """A new epoch of persistent workers."""
        self.ended = False
        transport.send(self.channel, (message, None))
        if self.failure is not None:
            return
        s, given = self.settings, message.pipe_settings
        try:
            if given is not None:
                prepare_pipe(s.dataset, given, s.num_workers, s.worker_id)
            self.make_fetcher()
        except Exception:
            self.failure = ExceptionWrapper(where=self.where())

    def fetch(self, index: object) -> Any:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            return failure
        try:
            return self.fetcher.fetch(index)
        except StopIteration:
            if self.settings.dataset_kind == fetch.DatasetKind.Iterable:
                self.ended = True
                return EndOfIterable(self.settings.worker_id)
            return ExceptionWrapper(where=self.where())
        except Exception:
            return ExceptionWrapper(where=self.where())

    def reply(self, number: int, data: object) -> None:
        try:
            transport.send(self.channel, (number, data))
        except OSError:
            raise
        except Exception:  # what cannot be pickled
            transport.send(self.channel, (number, ExceptionWrapper(where=self.where())))

    def run(self) -> None:
        while True:
            message = transport.receive(self.channel)
            if message is None:
                return
            if isinstance(message, Restart):
                self.restart(message)
                continue
            number, index = message
            if self.ended:
                continue
            data = self.fetch(index)
            self.reply(number, data)
            del data


def worker_loop(settings: Settings, channel: socket.socket, inherited: list[socket.socket]) -> None:
    """The main function of a worker process."""
    # the main process handles Ctrl-C and tells the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # copies of the main process's ends would keep the other channels open after its death
    for other in inherited:
        other.close()
    # collections would write to every object's header, and so copy the main process's memory
    gc.freeze()
    core.set_num_threads(1)
    worker = _Worker(settings, channel)
    try:
        worker.start()
        worker.run()
    except (EOFError, OSError):
        pass  # the main process is gone, or has closed the channel
    finally:
        channel.close()
        sys.stdout.flush()
        sys.stderr.flush()
