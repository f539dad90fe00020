"""Samplers: the order in which a dataset's indices are used.

Takes a dataset (or its length) and a generator.  Gives indices, or lists of them.
Keeps true: the order depends on the generator's state only; without one, on the global generator.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import facula
from facula import core
from facula.core.errors import fail

__all__ = """BatchSampler DistributedSampler RandomSampler Sampler SequentialSampler
SubsetRandomSampler WeightedRandomSampler""".split()

T_co = TypeVar("T_co", covariant=True)


def random_seed(generator: Any = None) -> int:
    """A seed drawn from a generator."""
    return int(core.empty((), dtype=core.int64).random_(generator=generator))


def _fresh_generator() -> Any:
    generator = facula.Generator()
    generator.manual_seed(random_seed())
    return generator


class Sampler(Generic[T_co]):
    """Base class: a subclass defines ``__iter__``, and ``__len__`` where the length is known."""

    def __init__(self, data_source: Any = None) -> None:
        if data_source is not None:
            warnings.warn(
                "`data_source` argument is not used and will be removed. You may still have custom "
                "implementation that "
                "utilizes it.",
                stacklevel=2,
            )

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Indices in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices at random, each once, or with ``replacement``; ``num_samples`` of them."""

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            fail(
                TypeError,
                type(self).__name__,
                f"replacement should be a boolean value, but got replacement={replacement}",
                hint="replacement=True draws a sample more than once",
            )
        if not isinstance(self.num_samples, int) or self.num_samples < 0:
            fail(
                ValueError,
                "RandomSampler",
                f"num_samples should be a non-negative integer value, but got num_samples={self.num_samples}",
                hint="leave num_samples out to draw as many as the data has",
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = _fresh_generator() if self.generator is None else self.generator
        left = self.num_samples
        if self.replacement:
            while left > 0:  # in pieces, so that a huge number of samples needs no huge tensor
                piece = min(32, left)
                yield from facula.randint(
                    n, (piece,), dtype=core.int64, generator=generator
                ).tolist()
                left -= piece
            return
        while (
            n and left >= 0
        ):  # where `left` comes to 0 the generator moves on all the same, as PyTorch's does
            order = facula.randperm(n, generator=generator).tolist()
            yield from order[:left]
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in facula.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices with given weights, with replacement unless told otherwise."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            fail(
                ValueError,
                "WeightedRandomSampler",
                f"num_samples should be a positive integer value, but got num_samples={num_samples}",
                hint="len(weights) draws as many as there are",
            )
        if not isinstance(replacement, bool):
            fail(
                ValueError,
                type(self).__name__,
                f"replacement should be a boolean value, but got replacement={replacement}",
                hint="replacement=True draws a sample more than once",
            )
        tensor = facula.as_tensor(weights, dtype=core.float64)
        if tensor.dim() != 1:
            fail(
                ValueError,
                "WeightedRandomSampler",
                (
                    "weights should be a 1d sequence but given weights have shape "
                    f"{tuple(tensor.shape)}"
                ),
                hint="one weight for each sample, e.g. weights.flatten()",
            )
        self.weights = tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        chosen = facula.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from chosen.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of another sampler; the last may be shorter unless
    ``drop_last``.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            fail(
                ValueError,
                "BatchSampler",
                f"batch_size should be a positive integer value, but got batch_size={batch_size}",
                hint="batch_size=1 is the least",
            )
        if not isinstance(drop_last, bool):
            fail(
                ValueError,
                "BatchSampler",
                f"drop_last should be a boolean value, but got drop_last={drop_last}",
                hint="drop_last=True leaves out a last batch that is not full",
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        if self.drop_last:
            return count // self.batch_size
        return (count + self.batch_size - 1) // self.batch_size


class DistributedSampler(Sampler[int]):
    """The share of a process among ``num_replicas``; call `set_epoch` before each epoch for another
    shuffle.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            distributed = facula.distributed
            if not distributed.is_available():
                fail(
                    RuntimeError,
                    "DistributedSampler",
                    "Requires distributed package to be available",
                    hint=(
                        "pass num_replicas and rank, or call facula.distributed.init_process_group() "
                        "first"
                    ),
                )
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            fail(
                ValueError,
                "DistributedSampler",
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]",
                hint="ranks count from 0",
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        if drop_last and size % num_replicas != 0:
            self.num_samples = math.ceil((size - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            generator = facula.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = facula.randperm(size, generator=generator).tolist()
        else:
            indices = list(range(size))
        if self.drop_last:
            indices = indices[: self.total_size]
        else:  # repeated from the start until every process has as many
            indices = list(itertools.islice(itertools.cycle(indices), self.total_size))
        if len(indices) != self.total_size:
            fail(
                AssertionError,
                "DistributedSampler",
                f"Number of indices ({len(indices)}) does not match total_size ({self.total_size})",
                hint="len(dataset) must not change during an epoch",
            )
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which is part of the seed."""
        self.epoch = epoch
