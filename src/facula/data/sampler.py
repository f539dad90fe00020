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


def random_seed(generator: core.Generator | None = None) -> int:
    """A seed drawn from a generator."""
    return int(core.empty((), dtype=core.int64).random_(generator=generator))


def _fresh_generator() -> Any:
    generator = facula.Generator()
    generator.manual_seed(random_seed())
    return generator


class Sampler(Generic[T_co]):
    """The base class of samplers: a subclass defines ``__iter__``, and ``__len__`` where the length is
    known.

    Args:
        data_source: not used; it warns when given

    Example:
        >>> class Backwards(facula.utils.data.Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> list(facula.utils.data.DataLoader("abc", sampler=Backwards()))
        [['c'], ['b'], ['a']]
    """

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
    """The indices of a dataset, in order.

    Args:
        data_source: the dataset

    Example:
        >>> list(facula.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices of a dataset at random.

    Args:
        data_source: the dataset
        replacement: whether an index may come again
        num_samples: how many; None for all
        generator: where random numbers come from; None for the default one

    Raises:
        ValueError: ``num_samples`` is no positive int, or the dataset is empty.
        TypeError: ``replacement`` is no bool.

    Example:
        >>> sorted(facula.utils.data.RandomSampler("abc"))
        [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: core.Generator | None = None,
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
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            fail(
                ValueError,
                "RandomSampler",
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}",
                hint="an empty dataset has nothing to draw from; shuffle=False gives no batches",
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
    """Given indices in random order.

    Args:
        indices: a sequence of ints
        generator: where random numbers come from; None for the default one

    Example:
        >>> sorted(facula.utils.data.SubsetRandomSampler([4, 2]))
        [2, 4]
    """

    def __init__(self, indices: Sequence[int], generator: core.Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in facula.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn by weight.

    Args:
        weights: of each index; they need not sum to 1
        num_samples: how many
        replacement: whether an index may come again
        generator: where random numbers come from; None for the default one

    Raises:
        ValueError: the weights are no vector, or ``num_samples`` is no positive int.

    Example:
        >>> list(facula.utils.data.WeightedRandomSampler([0.0, 1.0], num_samples=3))
        [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: core.Generator | None = None,
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
    """Lists of indices of another sampler.

    Args:
        sampler: an iterable of indices
        batch_size: how many a list has
        drop_last: whether a shorter last list is left out

    Raises:
        ValueError: ``batch_size`` is no positive int, or ``drop_last`` no bool.

    Example:
        >>> list(facula.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
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
    """The share of one process among several; indices are repeated until all shares are of one length.

    Call ``set_epoch`` before each epoch, or every epoch has the same order.

    Args:
        dataset: what is shared out
        num_replicas: number of processes; None for that of the process group
        rank: of this process; None for that in the group
        shuffle: whether the order is random, the same for all
        seed: of that order
        drop_last: whether indices are left out and not repeated

    Raises:
        ValueError: ``rank`` is not below ``num_replicas``.

    Example:
        >>> for rank in range(2):
        ...     list(facula.utils.data.DistributedSampler(range(5), 2, rank, shuffle=False))
        [0, 2, 4]
        [1, 3, 0]
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
