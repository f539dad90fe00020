"""One pass through a `DataLoader`, in this process or by worker processes.

Takes a loader.  Gives an iterator of its batches.
Keeps true: with ``in_order`` batches come in the sampler's order whatever worker is done first; a
worker's exception is raised here with its traceback, a killed worker is named at once; no process
outlives the iterator (or, persistent ones, the loader).
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing as python_multiprocessing
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import facula
from facula.core.errors import fail
from facula.data import transport
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.utils.common import drawn_seed
from facula.data.fetch import DatasetKind, create_fetcher
from facula.data.graph_settings import apply_random_seed, apply_sharding
from facula.data.sampler import random_seed
from facula.data.worker import (
    EndOfIterable,
    ExceptionWrapper,
    PipeSettings,
    Restart,
    Settings,
    get_worker_info,
    worker_loop,
)


def _settings_of_pipe(loader: Any) -> Any:
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

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        # memory is pinned for an accelerator's copies, and there is none
        self._pin_memory = False
        self._pin_memory_device: str | None = None
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._take_settings(loader)
        self._base_seed = random_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        if loader.pin_memory:
            _warn_about_pinning()

    def _take_settings(self, loader: Any) -> None:
        """Ask for seed and share of the pass that begins, and seed the pipes of this process."""
        given = self._pipe_settings = _settings_of_pipe(loader)
        told = given if isinstance(given, PipeSettings) else PipeSettings(None, 1, 0)
        self._shared_seed, self._world_size, self._rank = told.seed, told.world_size, told.rank
        if told.seed is not None:
            apply_random_seed(self._dataset, facula.Generator().manual_seed(told.seed))

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if not first_iter:
            self._take_settings(loader)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if (
            self._dataset_kind == DatasetKind.Iterable
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
                    "For multiprocessing data-loading, this is what workers give that all iterate over "
                    "everything: get_worker_info() tells which part to give."
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


def _sharding_worker_init_fn(
    worker_init_fn: Callable[[int], None] | None, world_size: int, rank_id: int, worker_id: int
) -> None:
    """What a worker of other packages' loaders begins with: its share of the pipes, then the program's
    own function.
    """
    info = get_worker_info()
    if info is None:
        fail(
            RuntimeError,
            "DataLoader",
            "a worker process was required",
            hint="loaders call this in their workers",
        )
    number = worker_id * world_size + rank_id
    apply_sharding(info.dataset, info.num_workers * world_size, number)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads in this process."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            fail(
                AssertionError,
                "DataLoader",
                "timeout needs num_workers > 0",
                hint="leave timeout out: without workers there is nobody to wait for",
            )
        if isinstance(self._pipe_settings, PipeSettings):
            apply_sharding(self._dataset, self._world_size, self._rank)
        elif self._pipe_settings is not None:
            self._dataset.prepare_pass(self._pipe_settings)
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

    def __init__(self, loader: Any) -> None:
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

    def _start_worker(self, loader: Any, context: Any, worker_id: int) -> None:
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

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
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

    def _drain_and_restart(self, loader: Any) -> None:
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

    def _send(self, handle: _WorkerHandle, message: tuple[Any, ...]) -> None:
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

    def _note_arrival(self, handle: _WorkerHandle, number: int, data: object) -> None:
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
