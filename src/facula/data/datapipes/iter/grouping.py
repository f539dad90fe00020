"""Steps that put values together, and take them apart again.

Takes pipes. Gives batches, groups, or the values of such. Keeps true: what waits for its group stays
within `buffer_size`, and is part of the pipe when it is pickled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail, no_attribute
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import DataChunk, IterDataPipe
from facula.data.datapipes.iter import sharding
from facula.data.datapipes.utils.common import (
    batch_size_checked,
    check_function,
    count_of_batches,
    length_of,
)

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


#: what stood here before it had a module of its own
_MOVED = {
    each.__name__: each
    for each in (sharding.SHARDING_PRIORITIES, sharding.ShardingFilterIterDataPipe)
}


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise no_attribute(__name__, name)
    warnings.warn(
        f"`{name}` from `torch.utils.data.datapipes.iter.grouping` is going to be removed in "
        f"PyTorch 2.1. Please use `{name}` from the `torch.utils.data.datapipes.iter.sharding`",
        FutureWarning,
        stacklevel=2,
    )
    return _MOVED[name]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Batches of consecutive values (functional name: ``batch``).

    Args:
        datapipe: the source
        batch_size: how many values a batch has
        drop_last: whether a last batch with fewer values is left out
        wrapper_class: makes the batch of a list

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        self.datapipe, self.batch_size = datapipe, batch_size_checked(batch_size)
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for value in self.datapipe:
            batch.append(value)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = length_of(self, self.datapipe)
        return count_of_batches(count, self.batch_size, self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The values of batches (functional name: ``unbatch``).

    Args:
        datapipe: the source, whose values are lists
        unbatch_level: how many levels of lists are opened; -1: all

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([[0, 1], [2]]).unbatch())
        [0, 1, 2]
    """

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            fail(
                ValueError,
                "unbatch",
                "unbatch_level must be -1 or >= 0",
                self.unbatch_level,
                hint="unbatch_level=-1 flattens everything",
            )
        for value in self.datapipe:
            yield from self._opened(value, self.unbatch_level)

    def _opened(self, value: object, level: int) -> Iterator[Any]:
        if level == 0:
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from self._opened(item, level if level == -1 else level - 1)
        elif level == -1:
            yield value
        else:
            fail(
                IndexError,
                "unbatch",
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe",
                value,
                hint="unbatch_level=-1 flattens everything",
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Lists of values of which a function has the same result (functional name: ``groupby``).

    A group is given when it is full, the largest one also when the buffer is, and what is left at
    the end.

    Args:
        datapipe: the source
        group_key_fn: the function
        keep_key: whether a group comes with its key, as a pair
        buffer_size: how many values may wait for their groups
        group_size: how many values make a group full
        guaranteed_group_size: how many a group has at least when the buffer is full
        drop_remaining: whether a smaller one is left out then, instead of an error

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a", "1", "b"]).groupby(str.isdigit))
        [['a', 'b'], ['1']]
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        check_function(group_key_fn)
        if group_size is not None and not 0 < group_size <= buffer_size:
            fail(
                AssertionError,
                "groupby",
                "a group_size from 1 to buffer_size was required",
                group_size,
                hint="a larger buffer_size has room for larger groups",
            )
        if guaranteed_group_size is not None and not (
            group_size is not None and 0 < guaranteed_group_size <= group_size
        ):
            fail(
                ValueError,
                "groupby",
                "group_size must be set with guaranteed_group_size, and be no smaller",
                (group_size, guaranteed_group_size),
                hint="pass group_size too",
            )
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size = buffer_size, group_size
        self.guaranteed_group_size = (
            group_size if guaranteed_group_size is None else guaranteed_group_size
        )
        self.drop_remaining, self.wrapper_class = drop_remaining, DataChunk
        self._groups: dict[Any, list[Any]] = {}
        self._waiting = 0

    def _made(self, key: object, values: list[Any]) -> Any:
        group = self.wrapper_class(values)
        return (key, group) if self.keep_key else group

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            key = self.group_key_fn(value)
            group = self._groups.setdefault(key, [])
            group.append(value)
            self._waiting += 1
            if self.group_size is not None and len(group) == self.group_size:
                yield self._taken(key)
            if self._waiting == self.max_buffer_size:
                largest = max(self._groups, key=lambda k: len(self._groups[k]))
                if self._is_large_enough(largest):
                    yield self._taken(largest)
        while self._groups:
            yield self._taken(next(iter(self._groups)))

    def _taken(self, key: object) -> Any:
        """A group, which is out of the buffer then."""
        values = self._groups.pop(key)
        self._waiting -= len(values)
        return self._made(key, values)

    def _is_large_enough(self, key: object) -> bool:
        """Whether a group may be given; a smaller one is left out or an error."""
        least, count = self.guaranteed_group_size, len(self._groups[key])
        if least is None or count >= least:
            return True
        if not self.drop_remaining:
            fail(
                RuntimeError,
                "groupby",
                f"Failed to group items: a group of {least} was required",
                f"{count} of {key!r}",
                "give a larger buffer_size",
            )
        self._taken(key)
        return False

    def reset(self) -> None:
        self._groups, self._waiting = {}, 0
