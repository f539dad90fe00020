"""`DataLoader`: batches of a dataset, read in this process or by worker processes.

Takes a dataset and how to go through it.  Gives an iterable of batches (`iterators`).
Keeps true: arguments that exclude each other are refused when the loader is made, and what decides
order and batches stays what it was.
"""

from __future__ import annotations

import itertools
import multiprocessing as python_multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from facula import core
from facula.core.errors import fail
from facula.data.collate import default_collate, default_convert
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.dataset import Dataset, IterableDataset, T_co
from facula.data.fetch import DatasetKind as _DatasetKind
from facula.data.graph_settings import apply_shuffle_settings
from facula.data.iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _sharding_worker_init_fn,  # noqa: F401 - other packages take it from here
    _SingleProcessDataLoaderIter,
)
from facula.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from facula.data.worker import get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T = TypeVar("_T")
#: what makes a batch of samples, and what a worker begins with, as other packages annotate them
_collate_fn_t = Callable[[list[_T]], Any]
_worker_init_fn_t = Callable[[int], None]


class _InfiniteConstantSampler(Sampler):
    """Stands in for a sampler where the dataset says itself what comes."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _check_iterable_arguments(
    dataset: object, shuffle: bool | None, sampler: object, batch_sampler: object
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
    batch_size: int | None,
    shuffle: bool | None,
    sampler: object,
    batch_sampler: object,
    drop_last: bool,
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


def _usual_sampler(dataset: object, shuffle: bool | None, generator: core.Generator | None) -> Any:
    """The order of a data set where no sampler says it."""
    if isinstance(dataset, IterableDataset):
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


class DataLoader(Generic[T_co]):
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
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context: object = None,
        generator: core.Generator | None = None,
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
    def multiprocessing_context(self, value: object) -> None:
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

    def __setattr__(self, attr: str, val: object) -> None:
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
        dataset: Any = self.dataset
        length = self._IterableDataset_len_called = len(dataset)
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
    _check_prefetching(num_workers, prefetch_factor)
    if persistent_workers and num_workers == 0:
        fail(
            ValueError,
            "DataLoader",
            "persistent_workers option needs num_workers > 0",
            hint="leave persistent_workers out",
        )


def _check_prefetching(num_workers: int, prefetch_factor: int | None) -> None:
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
