"""Steps that decide an order.

Takes pipes. Gives their values in another order, or the places that a sampler chooses. Keeps true:
the order follows from the seed alone, and is PyTorch's for the same seed; a pickled pipe goes on in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import length_of
from facula.data.datapipes.utils.orders import SeededOrder
from facula.data.sampler import SequentialSampler

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe):
    """The places that a sampler chooses."""

    def __init__(
        self,
        datapipe: object,
        sampler: Any = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            fail(
                AssertionError,
                "Sampler",
                "Sampler class requires input datapipe implemented `__len__`",
                type(datapipe).__name__,
                hint="set_length(n) gives a pipe a length",
            )
        self.datapipe = datapipe
        self.sampler_args, self.sampler_kwargs = sampler_args or (), sampler_kwargs or {}
        keywords = {**self.sampler_kwargs, "data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **keywords)

    def __iter__(self) -> Iterator[Any]:
        yield from self.sampler

    def __len__(self) -> int:
        return length_of(self, self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(SeededOrder, IterDataPipe):
    """Values in random order: each is drawn out of a buffer (functional name: ``shuffle``).

    Args:
        datapipe: the source
        buffer_size: how many values wait to be drawn
        unbatch_level: how many levels of batches are opened before

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> sorted(IterableWrapper(range(5)).shuffle())
        [0, 1, 2, 3, 4]
    """

    def __init__(
        self, datapipe: IterDataPipe, *, buffer_size: int = 10000, unbatch_level: int = 0
    ) -> None:
        if buffer_size <= 0:
            fail(
                AssertionError,
                "shuffle",
                "buffer_size should be larger than 0",
                buffer_size,
                hint="buffer_size=1 keeps the order",
            )
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level)
        self.buffer_size = buffer_size
        self._buffer: list[Any] = []
        self._begin_order()

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer, draw = self._buffer, self._rng.randint
        for value in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = draw(0, len(buffer) - 1)
                given, buffer[at] = buffer[at], value
                yield given
            else:
                buffer.append(value)
        while buffer:
            yield buffer.pop(draw(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)

    def reset(self) -> None:
        self._buffer = []
        super().reset()
