"""Datasets: by index, by iteration, and combinations of them.

Takes samples, or datasets.  Gives datasets.
Keeps true: a map-style dataset has ``__getitem__`` (and usually ``__len__``), an iterable one
``__iter__``; batched access goes through ``__getitems__`` where the inner dataset has it.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import facula
from facula import core
from facula.core.errors import fail

__all__ = """Dataset IterableDataset TensorDataset StackDataset ConcatDataset ChainDataset Subset
random_split""".split()

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """The base class of datasets by index: a subclass defines ``__getitem__``, and ``__len__`` for the
    samplers.

    ``__getitems__(indices)``, where there is one, gives a list of samples at once.

    Example:
        >>> class Squares(facula.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, i):
        ...         return i * i
        >>> next(iter(facula.utils.data.DataLoader(Squares(), batch_size=3)))
        tensor([0, 1, 4])
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """The base class of datasets by iteration: a subclass defines ``__iter__``.

    Every worker process iterates over a copy of its own: `get_worker_info` tells which part to
    give.

    Example:
        >>> class Lines(facula.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter([1, 2, 3])
        >>> list(facula.utils.data.DataLoader(Lines(), batch_size=2))
        [tensor([1, 2]), tensor([3])]
    """

    def __add__(self, other: Dataset) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Rows of tensors: sample i is ``(t[i] for every t)``.

    Args:
        *tensors: of one first size

    Raises:
        AssertionError: first sizes differ.

    Example:
        >>> facula.utils.data.TensorDataset(facula.tensor([1, 2]), facula.tensor([3, 4]))[1]
        (tensor(2), tensor(4))
    """

    def __init__(self, *tensors: Any) -> None:
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            fail(
                AssertionError,
                "TensorDataset",
                "Size mismatch between tensors",
                hint="all need the same size(0): slice the longer ones",
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Datasets side by side: sample i is a tuple (for keyword arguments a dictionary) of their
    samples.

    Args:
        *args: datasets of one length
        **kwargs: datasets by name, in their place

    Raises:
        ValueError: lengths differ, both forms are given, or none.

    Example:
        >>> facula.utils.data.StackDataset(x=[1, 2], y=[3, 4])[0]
        {'x': 1, 'y': 3}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args:
            if kwargs:
                fail(
                    ValueError,
                    "StackDataset",
                    (
                        "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) "
                        "like input/output, but both types are given."
                    ),
                    hint="pass all datasets by position, or all by name",
                )
            self.datasets: Any = args
            members = list(args)
        elif kwargs:
            self.datasets = kwargs
            members = list(kwargs.values())
        else:
            fail(
                ValueError,
                "StackDataset",
                "At least one dataset should be passed",
                hint="StackDataset(images, labels) pairs two datasets",
            )
        self._length = len(members[0])
        if any(len(d) != self._length for d in members):
            fail(
                ValueError,
                "StackDataset",
                "Size mismatch between datasets",
                hint="facula.utils.data.Subset(dataset, indices) shortens one",
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: list) -> list:
        if isinstance(self.datasets, dict):
            batch: list[dict] = [{} for _ in indices]
            for key, dataset in self.datasets.items():
                for entry, sample in zip(batch, _fetch_all(dataset, indices), strict=True):
                    entry[key] = sample
            return batch
        columns = [_fetch_all(dataset, indices) for dataset in self.datasets]
        return [tuple(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _fetch_all(dataset: Any, indices: list) -> list:
    if callable(getattr(dataset, "__getitems__", None)):
        items = dataset.__getitems__(indices)
        if len(items) != len(indices):
            fail(
                ValueError,
                "StackDataset",
                (
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got "
                    f"{len(items)}"
                ),
                hint="__getitems__ gives one sample for each index",
            )
        return items
    return [dataset[i] for i in indices]


class ConcatDataset(Dataset[T_co]):
    """Datasets by index, one after the other; also ``a + b``.

    Args:
        datasets: an iterable of them

    Raises:
        AssertionError: there is none, or one is by iteration.

    Example:
        >>> joined = facula.utils.data.ConcatDataset([[1, 2], [3]])
        >>> len(joined), joined[2]
        (3, 3)
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Sequence) -> list[int]:
        """The ends of the parts."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if len(self.datasets) == 0:
            fail(
                AssertionError,
                "ConcatDataset",
                "datasets should not be an empty iterable",
                hint="give at least one dataset",
            )
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            fail(
                AssertionError,
                "ConcatDataset",
                "ConcatDataset does not support IterableDataset",
                hint="facula.utils.data.ChainDataset joins iterable datasets",
            )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            if -idx > len(self):
                fail(
                    ValueError,
                    "ConcatDataset",
                    "absolute value of index should not exceed dataset length",
                    hint="len(dataset) tells how many samples there are",
                )
            idx = len(self) + idx
        part = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """``cumulative_sizes`` under its older, misspelt name."""
        warnings.warn(
            "cummulative_sizes attribute is renamed to cumulative_sizes",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Datasets by iteration, one after the other.

    Args:
        datasets: an iterable of `IterableDataset`

    Example:
        >>> class Lines(facula.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter([1, 2])
        >>> list(facula.utils.data.ChainDataset([Lines(), Lines()]))
        [1, 2, 1, 2]
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self._checked():
            total += len(dataset)  # type: ignore[arg-type]
        return total

    def _checked(self) -> Iterator[IterableDataset]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                fail(
                    AssertionError,
                    "ChainDataset",
                    "ChainDataset only supports IterableDataset",
                    hint="facula.utils.data.ConcatDataset joins datasets that are indexed",
                )
            yield dataset


class Subset(Dataset[T_co]):
    """The samples of a dataset at given indices.

    Args:
        dataset: by index
        indices: a sequence of ints

    Example:
        >>> list(facula.utils.data.Subset("abcd", [3, 0]))
        ['d', 'a']
    """

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        inner = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(inner)  # type: ignore[attr-defined]
        return [self.dataset[i] for i in inner]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[Any], generator: core.Generator | None = None
) -> list[Subset]:
    """Disjoint random subsets of a dataset.

    Args:
        dataset: what is split
        lengths: of the subsets, ints that sum to the length; or fractions that sum to 1
        generator: where random numbers come from; None for the default one

    Raises:
        ValueError: the lengths do not sum to the dataset's, or the fractions to more than 1.

    Example:
        >>> parts = facula.utils.data.random_split(range(10), [0.7, 0.3])
        >>> [len(part) for part in parts]
        [7, 3]
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = []
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                fail(
                    ValueError,
                    "random_split",
                    f"Fraction at index {i} is not between 0 and 1",
                    hint="fractions such as [0.8, 0.2] or whole numbers that sum to len(dataset)",
                )
            counts.append(math.floor(size * fraction))
        for i in range(size - sum(counts)):  # the rest, one each
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
        lengths = counts
    if sum(lengths) != size:
        fail(
            ValueError,
            "random_split",
            "Sum of input lengths does not equal the length of the input dataset!",
            hint="fractions such as [0.8, 0.2] fit every length",
        )
    order = facula.randperm(sum(lengths), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, lengths, strict=True)]
