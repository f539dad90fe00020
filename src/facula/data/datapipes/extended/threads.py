"""Steps that work beside the program: threads that read ahead, groups of processes in step.

Takes pipes; gives pipes. Keeps true: values come in the order of the source; an error of the source
is raised where the value would have come; no thread outlives its pass.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.extended.flow import at_least
from facula.data.datapipes.iter.callable import MapperIterDataPipe
from facula.data.datapipes.utils.common import applied, check_function, chosen, length_of

_END = object()


class _Ahead:
    """A thread that reads a source into a queue of a fixed size."""

    def __init__(self, source: object, size: int) -> None:
        self.ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(size)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._read, args=(source,), daemon=True)
        self.thread.start()

    def _put(self, value: object, error: BaseException | None = None) -> bool:
        while not self.stopping.is_set():
            try:
                self.ready.put((value, error), timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def _read(self, source: IterDataPipe) -> None:
        try:
            for value in source:
                if not self._put(value):
                    return
            self._put(_END)
        except BaseException as error:
            self._put(_END, error)

    def stop(self) -> None:
        """End the thread; what it has read is dropped."""
        self.stopping.set()
        if self.thread is not threading.current_thread():
            self.thread.join()


class PrefetcherIterDataPipe(IterDataPipe):
    """The same values, `buffer_size` of which a thread reads ahead (functional name:
    ``prefetch``).
    """

    _ahead: _Ahead | None = None

    def __init__(self, source_datapipe: IterDataPipe, buffer_size: int = 10) -> None:
        at_least("prefetch", "buffer_size", buffer_size, 1)
        self.source_datapipe, self.buffer_size = source_datapipe, buffer_size

    def _changed(self, value: int) -> Any:
        return value

    def __iter__(self) -> Iterator[Any]:
        ahead = self._ahead = _Ahead(self.source_datapipe, self.buffer_size)
        try:
            while True:
                value, error = ahead.ready.get()
                if error is not None:
                    raise error
                if value is _END:
                    return
                yield self._changed(value)
        finally:
            ahead.stop()
            if self._ahead is ahead:
                self._ahead = None

    def reset(self) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """End the thread that reads ahead."""
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None

    def __getstate__(self) -> Any:
        return self._state_for_pickle({k: v for k, v in self.__dict__.items() if k != "_ahead"})

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


def pin_memory_fn(data: object, device: core.device | str | int | None = None) -> Any:
    """A nesting of tensors in memory that an accelerator reads directly, where there is one."""
    if isinstance(data, facula.Tensor):
        return data.pin_memory() if facula.cuda.is_available() else data
    if isinstance(data, dict):
        return {key: pin_memory_fn(value, device) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory_fn(value, device) for value in data))
    if isinstance(data, (list, tuple)):
        return type(data)([pin_memory_fn(value, device) for value in data])
    return data.pin_memory() if hasattr(data, "pin_memory") else data


class PinMemoryIterDataPipe(PrefetcherIterDataPipe):
    """Batches in memory that an accelerator reads directly, made ahead (functional name:
    ``pin_memory``).
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        device: core.device | str | int | None = None,
        pin_memory_fn: Callable[..., Any] = pin_memory_fn,
        buffer_size: int = 2,
    ) -> None:
        super().__init__(source_datapipe, buffer_size)
        self.device, self.pin_memory_fn = device, pin_memory_fn

    def _changed(self, value: object) -> Any:
        return self.pin_memory_fn(value, self.device)


class ThreadPoolMapperIterDataPipe(IterDataPipe):
    """A function of each value, computed by several threads (functional name: ``threadpool_map``).

    Args:
        source_datapipe: the source
        fn: the function
        input_col: the column, or columns, that it reads
        output_col: the column that takes the result
        scheduled_tasks: how many values are under way
        max_workers: how many threads there are
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        **threadpool_kwargs: Any,
    ) -> None:
        check_function(fn)
        at_least("threadpool_map", "scheduled_tasks", scheduled_tasks, 1)
        self.step = MapperIterDataPipe(source_datapipe, fn, input_col, output_col)
        self.source_datapipe, self.scheduled_tasks = source_datapipe, scheduled_tasks
        self.max_workers, self.threadpool_kwargs = max_workers, threadpool_kwargs

    def __iter__(self) -> Iterator[Any]:
        made = self.step.of_value
        with ThreadPoolExecutor(self.max_workers, **self.threadpool_kwargs) as pool:
            values = iter(self.source_datapipe)
            under_way = deque(
                pool.submit(made, value) for value in islice(values, self.scheduled_tasks)
            )
            try:
                while under_way:
                    result = under_way.popleft().result()
                    under_way.extend(pool.submit(made, value) for value in islice(values, 1))
                    yield result
            finally:
                for task in under_way:
                    task.cancel()

    def __len__(self) -> int:
        return length_of(self, self.source_datapipe)


class BatchAsyncMapperIterDataPipe(IterDataPipe):
    """An asynchronous function of each value, `batch_size` of them at a time (functional name:
    ``async_map_batches``).

    Args:
        source_datapipe: the source
        async_fn: the coroutine function
        batch_size: how many values are under way together
        input_col: the column, or columns, that it reads
        output_col: the column that takes the result
        max_concurrency: how many run at once
        flatten: whether the results come one by one
    """

    def __init__(
        self,
        source_datapipe: IterDataPipe,
        async_fn: Callable[..., Any],
        batch_size: int,
        input_col: Any = None,
        output_col: Any = None,
        max_concurrency: int = 32,
        flatten: bool = True,
    ) -> None:
        at_least("async_map_batches", "batch_size", batch_size, 1)
        at_least("async_map_batches", "max_concurrency", max_concurrency, 1)
        if not asyncio.iscoroutinefunction(async_fn):
            fail(
                ValueError,
                "async_map_batches",
                "Expected a coroutine function with an async def syntax",
                async_fn,
                hint="threadpool_map() takes other functions",
            )
        self.source_datapipe, self.async_fn, self.batch_size = source_datapipe, async_fn, batch_size
        self.input_col, self.output_col = input_col, output_col
        self.max_concurrency, self.flatten = max_concurrency, flatten

    async def _together(self, batch: list[Any]) -> list[Any]:
        gate = asyncio.Semaphore(self.max_concurrency)

        async def one(value: object) -> Any:
            picked = chosen(value, self.input_col)
            async with gate:
                if isinstance(self.input_col, (list, tuple)):
                    return await self.async_fn(*picked)
                return await self.async_fn(picked)

        return await asyncio.gather(*map(one, batch))

    def __iter__(self) -> Iterator[Any]:
        values = iter(self.source_datapipe)
        while batch := list(islice(values, self.batch_size)):
            results = asyncio.run(self._together(batch))
            if self.input_col is not None:
                results = [
                    applied(_Given(result), value, self.input_col, self.output_col)
                    for value, result in zip(batch, results, strict=True)
                ]
            if self.flatten:
                yield from results
            else:
                yield results


class _Given:
    """A function whose result is known."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __call__(self, *columns: Any) -> Any:
        return self.result


class FullSyncIterDataPipe(IterDataPipe):
    """The same values, and all processes of a group end with the one that ends first (functional
    name: ``fullsync``): else those that have more would wait for others in their collectives.
    """

    def __init__(self, datapipe: IterDataPipe, timeout: float = 1800) -> None:
        distributed = facula.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            fail(
                RuntimeError,
                "fullsync",
                "Torch Distributed is required to be initialized to use `FullSync`.",
                hint="call facula.distributed.init_process_group() first",
            )
        self.datapipe, self.timeout = datapipe, timeout

    def __iter__(self) -> Iterator[Any]:
        distributed = facula.distributed
        for value in self._with_end():
            going = facula.tensor([0 if value is _END else 1])
            distributed.all_reduce(going, op=distributed.ReduceOp.MIN)
            if not int(going.item()):
                return
            yield value

    def _with_end(self) -> Iterator[Any]:
        yield from self.datapipe
        yield _END

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
