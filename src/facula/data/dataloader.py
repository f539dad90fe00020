"""`DataLoader`: batches of a dataset, read in this process or by worker processes.

Takes a dataset and how to go through it.  Gives an iterable of batches.
Keeps true: with ``in_order`` batches come in the sampler's order whatever worker is done first; a
worker's exception is raised here with its traceback, a killed worker is named at once; no process
outlives the iterator (or, persistent ones, the loader).
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing as python_multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

import facula
from facula.core.errors import fail
from facula.data import transport
from facula.data.collate import default_collate, default_convert
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.utils.common import drawn_seed
from facula.data.dataset import IterableDataset
from facula.data.fetch import DatasetKind as _DatasetKind
from facula.data.fetch import create_fetcher
from facula.data.graph_settings import apply_shuffle_settings
from facula.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, random_seed
from facula.data.worker import (
    EndOfIterable,
    ExceptionWrapper,
    PipeSettings,
    Restart,
    Settings,
    get_worker_info,
    prepare_pipe,
    worker_loop,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


class _InfiniteConstantSampler(Sampler):
    """Stands in for a sampler where the dataset says itself what comes."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _check_iterable_arguments(
    dataset: Any, shuffle: bool | None, sampler: Any, batch_sampler: Any
) -> None:
    """An iterable dataset decides the order itself; pipes are told whether to shuffle."""
    if shuffle not in (False, None) and not isinstance(dataset, IterDataPipe):
        fail(
            ValueError,
            "DataLoader",
            (
                "DataLoader with IterableDataset: expected unspecified shuffle option, but "
                f"got shuffle={shuffle}"
            ),
            hint="shuffle inside of the dataset's __iter__",
        )
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            fail(
                ValueError,
                "DataLoader",
                (
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                    f"got {name}={value}"
                ),
                hint="the dataset's __iter__ decides the order",
            )


def _check_order_arguments(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """What decides the order and the batches is said once."""
    if sampler is not None and shuffle:
        fail(
            ValueError,
            "DataLoader",
            "sampler option is mutually exclusive with shuffle",
            hint="leave shuffle out: the sampler decides the order",
        )
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            fail(
                ValueError,
                "DataLoader",
                (
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                ),
                hint="the batch sampler decides all of them",
            )
    elif batch_size is None and drop_last:
        fail(
            ValueError,
            "DataLoader",
            (
                "batch_size=None option disables auto-batching and is mutually exclusive "
                "with drop_last"
            ),
            hint="leave drop_last out",
        )


def _usual_sampler(dataset: Any, shuffle: bool | None, generator: Any) -> Any:
    """The order of a data set where no sampler says it."""
    if isinstance(dataset, IterableDataset):
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


class DataLoader:
    """Batches of a dataset, made in this process or by workers.

    Args:
        dataset: by index, or by iteration
        batch_size: samples a batch; None for single samples
        shuffle: whether the order is random
        sampler: the order, an iterable of indices; in place of ``shuffle``
        batch_sampler: lists of indices; in place of ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``
        num_workers: processes that make batches; 0 for none
        collate_fn: of a list of samples, to a batch; None for `default_collate`
        pin_memory: kept as in PyTorch: memory is not pinned without an accelerator
        drop_last: whether a smaller last batch is left out
        timeout: seconds to wait for a worker; 0 for ever
        worker_init_fn: is called with its number in every worker
        multiprocessing_context: how workers are started, a context or its name
        generator: where the order and the workers' seeds come from
        prefetch_factor: batches that a worker makes ahead; None for 2
        persistent_workers: whether workers stay after an epoch
        pin_memory_device: the device that pinned memory is for
        in_order: whether batches come in the sampler's order

    Raises:
        ValueError: arguments exclude each other, or a number is out of its range.
        RuntimeError: while iterating, where a worker failed; the message has its traceback.

    Example:
        >>> data = facula.utils.data.TensorDataset(facula.arange(5), facula.arange(5) * 10)
        >>> for x, y in facula.utils.data.DataLoader(data, batch_size=2):
        ...     print(x, y)
        tensor([0, 1]) tensor([ 0, 10])
        tensor([2, 3]) tensor([20, 30])
        tensor([4]) tensor([40])
    """

    _iterator: Any = None
    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_worker_arguments(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            _check_iterable_arguments(dataset, shuffle, sampler, batch_sampler)
        if isinstance(dataset, IterDataPipe):
            self.dataset = apply_shuffle_settings(dataset, shuffle)
        _check_order_arguments(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = _usual_sampler(dataset, shuffle, generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started: a context, or None for the system's way."""
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        if value is not None:
            if self.num_workers == 0:
                fail(
                    ValueError,
                    "DataLoader",
                    (
                        "multiprocessing_context can only be used with multi-process loading "
                        f"(num_workers > 0), but got num_workers={self.num_workers}"
                    ),
                    hint="num_workers=1 loads in one other process",
                )
            if isinstance(value, str):
                known = python_multiprocessing.get_all_start_methods()
                if value not in known:
                    fail(
                        ValueError,
                        "DataLoader",
                        (
                            "multiprocessing_context option should specify a valid start method in "
                            f"{known!r}, but got multiprocessing_context={value!r}"
                        ),
                        hint="leave it out for the default of the system",
                    )
                value = python_multiprocessing.get_context(value)
            elif not isinstance(value, python_multiprocessing.context.BaseContext):
                fail(
                    TypeError,
                    "DataLoader",
                    (
                        "multiprocessing_context option should be a valid context object or a string "
                        f"specifying the start method, but got multiprocessing_context={value}"
                    ),
                    hint="multiprocessing.get_context('spawn') makes one",
                )
        self.__context = value

    def __setattr__(self, attr: str, val: Any) -> None:
        fixed = (
            "batch_size",
            "batch_sampler",
            "sampler",
            "drop_last",
            "dataset",
            "persistent_workers",
        )
        if self.__initialized and attr in fixed:
            fail(
                ValueError,
                "DataLoader",
                (f"{attr} attribute should not be set after {type(self).__name__} is initialized"),
                hint="make another loader with it",
            )
        super().__setattr__(attr, val)

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        if self.drop_last:
            return length // self.batch_size
        return -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn where there are more workers than this process may use CPUs."""
        if not self.num_workers:
            return
        if hasattr(os, "sched_getaffinity"):
            cpus = len(os.sched_getaffinity(0))
        else:
            cpus = os.cpu_count() or 0
        if cpus and self.num_workers > cpus:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                "suggested max number of "
                f"worker in current system is {cpus}, which is smaller than what this DataLoader "
                "is going to create. "
                "Please be aware that excessive worker creation might get DataLoader running slow "
                "or even freeze, lower "
                "the worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _check_worker_arguments(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        fail(
            ValueError,
            "DataLoader",
            (
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            ),
            hint="num_workers counts processes beside the main one",
        )
    if timeout < 0:
        fail(
            ValueError,
            "DataLoader",
            "timeout option should be non-negative",
            hint="timeout=0 waits for ever",
        )
    if num_workers == 0 and prefetch_factor is not None:
        fail(
            ValueError,
            "DataLoader",
            (
                "prefetch_factor option could only be specified in multiprocessing.let "
                "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to "
                "None."
            ),
            hint="without workers batches are made when they are asked for",
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        fail(
            ValueError,
            "DataLoader",
            "prefetch_factor option should be non-negative",
            hint="prefetch_factor=2 has two batches of each worker ready",
        )
    if persistent_workers and num_workers == 0:
        fail(
            ValueError,
            "DataLoader",
            "persistent_workers option needs num_workers > 0",
            hint="leave persistent_workers out",
        )


def _settings_of_pipe(loader: DataLoader) -> Any:
    """Seed and share of this process for a data set of pipes; None for others, except for those that
    say themselves what their copies in the workers are told (`settings_of_pass`).

    The seed is the same in all processes of a group, so that their shares are those of one order.
    """
    if not isinstance(loader.dataset, (IterDataPipe, MapDataPipe)):
        told = getattr(loader.dataset, "settings_of_pass", None)
        return None if told is None else told()
    seed = None
    if isinstance(loader.dataset, IterDataPipe):
        seed = drawn_seed(loader.generator)
    distributed = facula.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return PipeSettings(seed, 1, 0)
    if seed is not None:
        shared = [seed]
        distributed.broadcast_object_list(shared, src=0)
        seed = shared[0]
    return PipeSettings(seed, distributed.get_world_size(), distributed.get_rank())


class _BaseDataLoaderIter:
    """One pass through a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._pipe_settings = _settings_of_pipe(loader)
        self._base_seed = random_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        if loader.pin_memory:
            _warn_about_pinning()

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if not first_iter:
            self._pipe_settings = _settings_of_pipe(loader)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and expected is not None
            and self._num_yielded > expected
        ):
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {expected}(when "
                "accessing len(dataloader)), "
                f"but {self._num_yielded} samples have been fetched. "
            )
            if self._num_workers > 0:
                message += (
                    "With several workers, each iterates over a copy of its own: get_worker_info() "
                    "tells which part to give."
                )
            warnings.warn(message, stacklevel=2)
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


@functools.cache
def _warn_about_pinning() -> None:
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
        "memory won't be used.",
        stacklevel=4,
    )


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads in this process."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            fail(
                AssertionError,
                "DataLoader",
                "timeout needs num_workers > 0",
                hint="leave timeout out: without workers there is nobody to wait for",
            )
        if self._pipe_settings is not None:
            prepare_pipe(self._dataset, self._pipe_settings)
        self._dataset_fetcher = create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


class _WorkerHandle:
    """A worker process as the main process sees it."""

    def __init__(self, process: Any, channel: Any) -> None:
        self.process = process
        self.channel = channel
        self.active = True  # takes more indices in this pass
        self.closed = False


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Reads by worker processes.

    Indices go to the workers in turn; of each worker at most ``prefetch_factor`` batches are under
    way.
    """

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._prefetch_factor = max(1, loader.prefetch_factor or 0)
        self._in_order = loader.in_order
        self._shutdown = False
        self._handles: list[_WorkerHandle] = []
        context = loader.multiprocessing_context or python_multiprocessing.get_context()
        try:
            for worker_id in range(self._num_workers):
                self._start_worker(loader, context, worker_id)
        except BaseException:
            self._shutdown_workers()
            raise
        self._workers = [h.process for h in self._handles]
        self._reset(loader, first_iter=True)

    def _start_worker(self, loader: DataLoader, context: Any, worker_id: int) -> None:
        settings = Settings(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            self._base_seed,
            loader.worker_init_fn,
            worker_id,
            self._num_workers,
            self._persistent_workers,
            self._pipe_settings,
        )
        ours, theirs = transport.channel_pair()
        forked = context.get_start_method() == "fork"
        inherited = [h.channel for h in self._handles] + [ours] if forked else []
        process = context.Process(
            target=worker_loop, args=(settings, theirs, inherited), daemon=True
        )
        self._handles.append(_WorkerHandle(process, ours))
        try:
            process.start()
        finally:
            theirs.close()

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        if not first_iter:
            self._drain_and_restart(loader)
        self._send_number = 0  # of the next task
        self._next_number = 0  # of the next batch to give
        self._owner: dict[int, _WorkerHandle] = {}  # of tasks that are under way
        self._arrived: dict[int, Any] = {}
        self._ready: deque[int] = deque()  # arrived, in order of arrival
        self._turn = itertools.cycle(range(self._num_workers))
        for handle in self._handles:
            handle.active = True
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _drain_and_restart(self, loader: DataLoader) -> None:
        """Throw away what is still under way, until every worker has answered."""
        waiting = set()
        for handle in self._handles:
            transport.send(handle.channel, Restart(self._pipe_settings))
            waiting.add(handle)
        while waiting:
            handle, (number, _) = self._receive()
            if isinstance(number, Restart):
                waiting.discard(handle)

    # one pass -------------------------------------------------------------------------------------

    def _try_put_index(self) -> None:
        """Send the next list of indices to the worker whose turn it is."""
        busy: dict[int, int] = {}
        for handle in self._owner.values():
            busy[id(handle)] = busy.get(id(handle), 0) + 1
        chosen = None
        for _ in range(self._num_workers):
            candidate = self._handles[next(self._turn)]
            room = busy.get(id(candidate), 0) < self._prefetch_factor
            if candidate.active and (self._in_order or room):
                chosen = candidate
                break
        if chosen is None:
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        self._owner[self._send_number] = chosen
        self._send(chosen, (self._send_number, index))
        self._send_number += 1

    def _send(self, handle: _WorkerHandle, message: Any) -> None:
        try:
            transport.send(handle.channel, message)
        except OSError:
            self._raise_dead(handle)

    def _receive(self) -> tuple[_WorkerHandle, Any]:
        """The next message of any worker; raises where one has died or the time is up."""
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        channels = {h.channel: h for h in self._handles if not h.closed}
        sentinels = {h.process.sentinel: h for h in self._handles if not h.closed}
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = wait([*channels, *sentinels], left)
            if not ready:
                fail(
                    RuntimeError,
                    "DataLoader",
                    (
                        "a batch within the timeout was required: DataLoader timed out after "
                        f"{self._timeout} seconds"
                    ),
                    hint=(
                        "a larger timeout waits longer; num_workers=0 shows what the dataset waits "
                        "for"
                    ),
                )
            for item in ready:
                handle = channels.get(item)
                if handle is not None:
                    try:
                        return handle, transport.receive(handle.channel)
                    except (EOFError, ConnectionResetError):
                        self._raise_dead(handle)
            for item in ready:
                if item in sentinels:
                    self._raise_dead(sentinels[item])

    def _raise_dead(self, handle: _WorkerHandle) -> None:
        process = handle.process
        process.join(5)
        code = process.exitcode
        self._shutdown_workers()
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"number {-code}"
            what = f"DataLoader worker (pid {process.pid}) is killed by signal: {name} ({_signal_text(-code)})"
            hint = (
                "the system may have run out of memory: use fewer workers or smaller batches"
                if -code in (signal.SIGKILL, getattr(signal, "SIGBUS", -1))
                else "a crash in native code of the dataset; num_workers=0 shows it in this process"
            )
        else:
            what = f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly with exit code {code}"
            hint = "the dataset may have called sys.exit() or os._exit(); num_workers=0 shows it in this process"
        fail(RuntimeError, "DataLoader", f"a running worker was required: {what}", hint=hint)

    def _note_arrival(self, handle: _WorkerHandle, number: int, data: Any) -> None:
        if isinstance(data, EndOfIterable):
            self._mark_ended(handle, number)
            return
        self._arrived[number] = data
        self._ready.append(number)

    def _mark_ended(self, handle: _WorkerHandle, number: int) -> None:
        """A worker's iterable dataset is at its end: what else it was asked for will not come."""
        handle.active = False
        for waiting in [
            n for n, h in self._owner.items() if h is handle and n not in self._arrived
        ]:
            del self._owner[waiting]
        if not self._persistent_workers:
            self._stop_worker(handle)
        self._try_put_index()

    def _next_data(self) -> Any:
        if self._shutdown and not self._persistent_workers:
            raise StopIteration
        while True:
            if self._in_order:
                while (
                    self._next_number < self._send_number and self._next_number not in self._owner
                ):
                    self._next_number += 1
                number = self._next_number
                if number >= self._send_number:
                    break
                if number in self._arrived:
                    self._next_number += 1
                    return self._give(number)
            elif self._ready:
                return self._give(self._ready.popleft())
            elif not self._owner:
                break
            handle, (number, data) = self._receive()
            self._note_arrival(handle, number, data)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _give(self, number: int) -> Any:
        data = self._arrived.pop(number)
        del self._owner[number]
        if self._in_order:
            self._ready.clear()
        self._try_put_index()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    # the end ------------------------------------------------------------------------------------------

    def _stop_worker(self, handle: _WorkerHandle) -> None:
        """Tell a worker to end."""
        if handle.closed:
            return
        handle.closed = True
        try:
            transport.send(handle.channel, None)
        except OSError:
            pass  # it has ended already
        handle.channel.close()

    def _shutdown_workers(self) -> None:
        if self._shutdown:
            return
        self._shutdown = True
        for handle in self._handles:
            handle.active = False
            self._stop_worker(handle)
        deadline = time.monotonic() + 2.0
        started = [h.process for h in self._handles if h.process.pid is not None]
        for process in started:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in started:
            if process.is_alive():  # busy in the dataset, perhaps for long
                process.terminate()
        for process in started:
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()

    def __del__(self) -> None:
        try:
            self._shutdown_workers()
        except (AttributeError, TypeError, AssertionError):
            pass  # half made, or the interpreter is shutting down


def _signal_text(number: int) -> str:
    text = signal.strsignal(number) if hasattr(signal, "strsignal") else None
    return text or "unknown"
