"""The loader: passes through a graph of pipes, their seeds, and where a pass stands.

Takes the last pipe of a graph, adapters, a reading service. Gives the values, and a state. Keeps true:
the state is numbers alone: the seed, the pass, and how many values the program has got; the pipes
that it goes on with are the program's, nothing is unpickled.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.dataloader2.graph import set_graph_random_seed
from facula.data.dataloader2.random import SeedGenerator
from facula.data.dataloader2.reading_service import (
    CheckpointableReadingServiceInterface,
    ReadingServiceInterface,
)
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from facula.data.datapipes.utils.common import drawn_seed

__all__ = ["DataLoader2", "DataLoader2Iterator"]

_KEYS = {"seed", "epoch", "number_of_samples_yielded", "reading_service_state"}


class DataLoader2Iterator:
    """One pass through a loader; a new one makes the old one raise."""

    def __init__(self, loader: DataLoader2, number: int, values: Iterator[Any]) -> None:
        self.loader, self.number, self.values = loader, number, values

    def __iter__(self) -> DataLoader2Iterator:
        return self

    def __next__(self) -> Any:
        loader = self.loader
        if loader._number != self.number:
            fail(
                RuntimeError,
                "DataLoader2",
                "This iterator has been invalidated because another iterator has been created from "
                "the same DataLoader2",
                hint="make another loader to read twice at once",
            )
        if loader._ended:
            raise StopIteration
        try:
            value = next(self.values)
        except StopIteration:
            loader._end_pass()
            raise
        except BaseException:
            loader._end_pass()
            raise
        loader._yielded += 1
        return value

    def __getattr__(self, name: str) -> Any:
        if name == "values":  # a copy that is not made yet
            raise AttributeError(name)
        return getattr(self.values, name)


class DataLoader2:
    """Reads a graph of pipes, as a reading service says.

    Args:
        datapipe: the last pipe of the graph, of which the loader makes a copy of its own
        datapipe_adapter_fn: an adapter, or several: what is changed in the graph before
        reading_service: where the pipes run; None: in this process
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        datapipe_adapter_fn: Iterable[Callable[[Any], Any]] | Callable[[Any], Any] | None = None,
        reading_service: ReadingServiceInterface | None = None,
    ) -> None:
        if not isinstance(datapipe, (IterDataPipe, MapDataPipe)):
            fail(
                TypeError,
                "DataLoader2",
                "Expected `IterDataPipe` or `MapDataPipe`",
                type(datapipe),
                hint="IterableWrapper(values) makes a pipe of any iterable",
            )
        self.reading_service = reading_service
        self.datapipe: Any = _copied(datapipe)
        if datapipe_adapter_fn is not None:
            adapters: Any = datapipe_adapter_fn
            for adapter in adapters if isinstance(adapters, Iterable) else [adapters]:
                self.datapipe = adapter(self.datapipe)
        self._initialized = self._terminated = False
        self._seed: int | None = None
        self._epoch = self._yielded = self._skip = self._number = 0
        self._ended = True
        self._service_state: Any = None

    def seed(self, seed: int) -> None:
        """The seed of the passes that begin from now on, which count from the first again."""
        self._seed = seed
        self._epoch, self._skip = 0, 0
        if not self._ended:
            self._epoch = -1  # the pass that is under way belongs to the seed before

    def _initialize(self) -> None:
        self._initialized = True
        service = self.reading_service
        if service is None:
            return
        if self._service_state is not None and isinstance(
            service, CheckpointableReadingServiceInterface
        ):
            self.datapipe = service.restore(self.datapipe, self._service_state)
        else:
            self.datapipe = service.initialize(self.datapipe)

    def __iter__(self) -> DataLoader2Iterator:
        if self._terminated:
            fail(
                RuntimeError,
                "DataLoader2",
                "Cannot iterate over the DataLoader as it has already been shut down",
                hint="make another loader",
            )
        if not self._ended:
            self._end_pass()
        if self._seed is None:
            self._seed = drawn_seed()
        if not self._initialized:
            self._initialize()
        mixed = random.Random(f"{self._seed} {self._epoch}").getrandbits(63)
        seeds = SeedGenerator(mixed)
        if self.reading_service is None:
            set_graph_random_seed(self.datapipe, seeds)
        else:
            self.reading_service.initialize_iteration(seeds)
        self._number += 1
        self._ended = False
        self._yielded = 0
        values = DataLoader2Iterator(self, self._number, iter(self.datapipe))
        self._go_on(values)
        return values

    def _go_on(self, values: DataLoader2Iterator) -> None:
        """Pass over the values that the program got before its state was taken."""
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            try:
                next(values)
            except StopIteration:
                fail(
                    RuntimeError,
                    "DataLoader2",
                    f"a pass of at least {skip} values, as the state says, was required",
                    self._yielded,
                    hint="the state is that of other pipes or other data",
                )

    def _end_pass(self) -> None:
        if not self._ended:
            self._ended = True
            self._epoch += 1
            self._yielded = 0
            if self.reading_service is not None:
                self.reading_service.finalize_iteration()

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: numbers, and the state of the reading service if it has one."""
        if self._seed is None:
            self._seed = drawn_seed()
        service = self.reading_service
        kept = isinstance(service, CheckpointableReadingServiceInterface) and self._initialized
        return {
            "seed": self._seed,
            "epoch": self._epoch,
            "number_of_samples_yielded": self._skip if self._ended else self._yielded,
            "reading_service_state": service.checkpoint() if kept else self._service_state,  # type: ignore[union-attr]
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next pass go on where a loader of the same pipes stood.

        Raises:
            ValueError: the state is not one of `state_dict`.
        """
        if not isinstance(state_dict, dict) or set(state_dict) != _KEYS:
            fail(
                ValueError,
                "load_state_dict",
                f"a dictionary of {sorted(_KEYS)} was required",
                sorted(state_dict) if isinstance(state_dict, dict) else type(state_dict),
                hint="DataLoader2.state_dict() gives one",
            )
        self._end_pass()
        self._number += 1
        self._seed, self._epoch = state_dict["seed"], state_dict["epoch"]
        self._skip = state_dict["number_of_samples_yielded"]
        self._service_state = state_dict["reading_service_state"]

    def shutdown(self) -> None:
        """End the reading service and its processes; the loader is of no use any more."""
        if self._terminated:
            return
        self._terminated = True
        if self.reading_service is not None:
            self.reading_service.finalize_iteration()
            self.reading_service.finalize()

    def __enter__(self) -> DataLoader2:
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    def __del__(self) -> None:
        try:
            self.shutdown()
        except (AttributeError, TypeError):
            pass  # half made, or the interpreter is shutting down


def _copied(datapipe: Iterable[Any]) -> Any:
    """A copy, so that settings of one loader are not those of others; where something in it cannot
    be copied (open files, generators) the graph itself.
    """
    try:
        return copy.deepcopy(datapipe)
    except (TypeError, NotImplementedError, AttributeError):
        return datapipe
