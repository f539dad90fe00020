"""Reading services: where the pipes of a loader run.

Takes the last pipe of a graph. Gives the pipe that the loader reads. Keeps true: the shares of all
readers together hold each value once; the order follows from the seed; no process outlives `finalize`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula.core.errors import fail
from facula.data.dataloader import DataLoader
from facula.data.dataloader2.graph import set_graph_random_seed
from facula.data.dataloader2.random import SeedGenerator
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.extended.threads import FullSyncIterDataPipe
from facula.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from facula.data.dataset import IterableDataset
from facula.data.graph_settings import apply_sharding
from facula.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "CheckpointableReadingServiceInterface",
    "DistributedReadingService",
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "ReadingServiceInterface",
    "SequentialReadingService",
]


class ReadingServiceInterface:
    """Base class of reading services."""

    @abstractmethod
    def initialize(self, datapipe: Any) -> Any:
        """The pipe to be read instead of this one."""
        raise NotImplementedError

    def finalize(self) -> None:
        """End what `initialize` began."""

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: object = None
    ) -> Any:
        """Called before each pass: gives the pipes their seeds."""

    def finalize_iteration(self) -> None:
        """Called after each pass."""

    def __del__(self) -> None:
        try:
            self.finalize()
        except (AttributeError, TypeError):
            pass  # half made, or the interpreter is shutting down


class CheckpointableReadingServiceInterface(ReadingServiceInterface):
    """A reading service with a state of its own."""

    @abstractmethod
    def checkpoint(self) -> Any:
        """The state."""
        raise NotImplementedError

    @abstractmethod
    def restore(self, datapipe: object, serialized_state: object) -> Any:
        """The pipe to be read, with the state that was taken."""
        raise NotImplementedError


def _info(number: int, count: int, datapipe: object) -> WorkerInfo:
    return WorkerInfo(id=number, worker_id=number, num_workers=count, dataset=datapipe)


class InProcessReadingService(ReadingServiceInterface):
    """Reads in this process.

    Args:
        worker_init_fn: called with the pipe and what is known of the reader, gives the pipe
        worker_reset_fn: called before each pass, with the seeds too, gives the pipe
    """

    _pipe: Any = None

    def __init__(
        self,
        worker_init_fn: Callable[..., Any] | None = None,
        worker_reset_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.worker_init_fn, self.worker_reset_fn = worker_init_fn, worker_reset_fn

    def initialize(self, datapipe: IterDataPipe) -> Any:
        if self.worker_init_fn is not None:
            datapipe = self.worker_init_fn(datapipe, _info(0, 1, datapipe))
        self._pipe = datapipe
        return datapipe

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: object = None
    ) -> Any:
        if self.worker_reset_fn is not None:
            info = _info(0, 1, self._pipe)
            self._pipe = self.worker_reset_fn(self._pipe, info, seed_generator)
        set_graph_random_seed(self._pipe, seed_generator)


class _Reader(IterableDataset):
    """What a worker process reads: its share of a graph of pipes."""

    def __init__(self, datapipe: Any, init_fn: Any, reset_fn: Any) -> None:
        self.datapipe, self.init_fn, self.reset_fn = datapipe, init_fn, reset_fn
        self.seed = 0
        self.begun = False

    def settings_of_pass(self) -> int:
        """What a loader sends to the workers before each pass."""
        return self.seed

    def prepare_pass(self, seed: int) -> None:
        """Called in a worker before each pass."""
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        assert worker is not None
        info = _info(worker.id, worker.num_workers, self.datapipe)
        if not self.begun:
            self.begun = True
            apply_sharding(
                self.datapipe, worker.num_workers, worker.id, SHARDING_PRIORITIES.MULTIPROCESSING
            )
            if self.init_fn is not None:
                self.datapipe = self.init_fn(self.datapipe, info)
        seeds = SeedGenerator(self.seed).spawn(worker.id)
        if self.reset_fn is not None:
            self.datapipe = self.reset_fn(self.datapipe, info, seeds)
        set_graph_random_seed(self.datapipe, seeds)
        return iter(self.datapipe)


def _itself(value: object) -> Any:
    return value


class _WorkersIterDataPipe(IterDataPipe):
    """The values of a graph that worker processes read, one of each worker in turn."""

    def __init__(self, datapipe: Any, reader: _Reader, settings: dict[str, Any]) -> None:
        self.datapipe, self.reader = datapipe, reader
        self.loader = DataLoader(
            reader, batch_size=None, collate_fn=_itself, persistent_workers=True, **settings
        )

    def __iter__(self) -> Iterator[Any]:
        yield from self.loader

    def shutdown(self) -> None:
        """End the workers."""
        iterator = self.loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()
            self.loader._iterator = None


class MultiProcessingReadingService(ReadingServiceInterface):
    """Reads by worker processes; `sharding_filter` says where values are dealt out among them. A
    graph without one is read whole by each worker.

    Args:
        num_workers: how many processes; 0 reads in this one
        multiprocessing_context: how they are started, as "spawn"
        worker_prefetch_cnt: how many values each has ready
        main_prefetch_cnt: how many more are under way, together
        worker_init_fn: called in each with the pipe and what is known of the worker, gives the pipe
        worker_reset_fn: called in each before each pass, with the seeds too, gives the pipe
    """

    _workers: _WorkersIterDataPipe | None = None

    def __init__(
        self,
        num_workers: int = 0,
        multiprocessing_context: Any = None,
        worker_prefetch_cnt: int = 10,
        main_prefetch_cnt: int = 10,
        worker_init_fn: Callable[..., Any] | None = None,
        worker_reset_fn: Callable[..., Any] | None = None,
    ) -> None:
        for name, value in (
            ("num_workers", num_workers),
            ("worker_prefetch_cnt", worker_prefetch_cnt),
            ("main_prefetch_cnt", main_prefetch_cnt),
        ):
            if value < 0:
                fail(
                    ValueError,
                    "MultiProcessingReadingService",
                    f"{name} of at least 0 was required",
                    value,
                    hint="num_workers=0 reads in this process",
                )
        self.num_workers, self.multiprocessing_context = num_workers, multiprocessing_context
        self.worker_prefetch_cnt, self.main_prefetch_cnt = worker_prefetch_cnt, main_prefetch_cnt
        self.worker_init_fn, self.worker_reset_fn = worker_init_fn, worker_reset_fn
        self._inside = InProcessReadingService(worker_init_fn, worker_reset_fn)

    def initialize(self, datapipe: Any) -> Any:
        if self.num_workers == 0:
            return self._inside.initialize(datapipe)
        # the step that keeps a group of processes together stays in this one
        synced = isinstance(datapipe, FullSyncIterDataPipe)
        inner = datapipe.datapipe if synced else datapipe
        more = -(-self.main_prefetch_cnt // self.num_workers)
        settings = {
            "num_workers": self.num_workers,
            "multiprocessing_context": self.multiprocessing_context,
            "prefetch_factor": max(1, self.worker_prefetch_cnt + more),
        }
        reader = _Reader(inner, self.worker_init_fn, self.worker_reset_fn)
        self._workers = _WorkersIterDataPipe(inner, reader, settings)
        if not synced:
            return self._workers
        datapipe.datapipe = self._workers
        return datapipe

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: object = None
    ) -> Any:
        if self._workers is None:
            return self._inside.initialize_iteration(seed_generator)
        self._workers.reader.seed = seed_generator.number

    def finalize(self) -> None:
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None


class DistributedReadingService(ReadingServiceInterface):
    """Reads a share for each process of the default group; all end with the one that ends first."""

    _pipe: Any = None

    def initialize(self, datapipe: Any) -> Any:
        distributed = facula.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            fail(
                RuntimeError,
                "DistributedReadingService",
                "Torch Distributed is required to be initialized",
                hint="call facula.distributed.init_process_group() first",
            )
        apply_sharding(
            datapipe,
            distributed.get_world_size(),
            distributed.get_rank(),
            SHARDING_PRIORITIES.DISTRIBUTED,
        )
        self._pipe = FullSyncIterDataPipe(datapipe)
        return self._pipe

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: object = None
    ) -> Any:
        distributed = facula.distributed
        shared = [seed_generator.generate_shared_seed()]
        distributed.broadcast_object_list(shared, src=0)
        seed_generator.seed(shared[0])
        own = seed_generator.spawn(distributed.get_rank(), inplace=True)
        set_graph_random_seed(self._pipe, own)


class SequentialReadingService(CheckpointableReadingServiceInterface):
    """Several services, each over what the one before gives: `SequentialReadingService(
    DistributedReadingService(), MultiProcessingReadingService(2))`.
    """

    def __init__(self, *reading_services: ReadingServiceInterface) -> None:
        if not reading_services:
            fail(
                ValueError,
                "SequentialReadingService",
                "at least one reading service was required",
                hint="InProcessReadingService() reads in this process",
            )
        self.reading_services = reading_services

    def initialize(self, datapipe: Any) -> Any:
        for service in self.reading_services:
            datapipe = service.initialize(datapipe)
        return datapipe

    def finalize(self) -> None:
        for service in reversed(getattr(self, "reading_services", ())):
            service.finalize()

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: object = None
    ) -> Any:
        for service in self.reading_services:
            service.initialize_iteration(seed_generator, iter_reset_fn)

    def finalize_iteration(self) -> None:
        for service in reversed(self.reading_services):
            service.finalize_iteration()

    def _with_states(self) -> list[CheckpointableReadingServiceInterface]:
        kind = CheckpointableReadingServiceInterface
        return [service for service in self.reading_services if isinstance(service, kind)]

    def checkpoint(self) -> list[Any]:
        return [service.checkpoint() for service in self._with_states()]

    def restore(self, datapipe: Any, serialized_state: Any) -> Any:
        states = iter(serialized_state)
        for service in self.reading_services:
            if isinstance(service, CheckpointableReadingServiceInterface):
                datapipe = service.restore(datapipe, next(states))
            else:
                datapipe = service.initialize(datapipe)
        return datapipe
