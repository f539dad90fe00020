"""Steps that make one pipe of several, or several of one.

Takes pipes; gives pipes, or lists of them.
Keeps true: pipes that share a source read it once; what one has not asked for yet waits in a buffer
of a fixed size.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.pipe import IterDataPipe, functional_datapipe


def _some(op: str, pipes: tuple[Any, ...]) -> None:
    if not pipes:
        fail(
            ValueError,
            op,
            "Expected at least one DataPipe, but got nothing",
            hint="pass the pipes as separate arguments",
        )
    if not all(isinstance(pipe, IterDataPipe) for pipe in pipes):
        fail(
            TypeError,
            op,
            "Expected all inputs to be `IterDataPipe`",
            hint="IterableWrapper(values) makes one of any iterable",
        )


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """The values of several pipes, one after another."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        _some("concat", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of the values of several pipes, until one ends."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        _some("zip", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One value of each pipe in turn, until one ends."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        _some("mux", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for values in zip(*self.datapipes, strict=False):
            yield from values

    def __len__(self) -> int:
        return len(self.datapipes) * min(len(pipe) for pipe in self.datapipes)


class _Shared:
    """A source that several pipes read, and what waits for each."""

    def __init__(self, op: str, source: IterDataPipe, count: int, size: int) -> None:
        if count < 1:
            fail(
                ValueError,
                op,
                f"Expected `num_instances` larger than 0, but {count} is found",
                hint="num_instances=2 makes two pipes",
            )
        if size == 0:
            fail(
                ValueError,
                op,
                "Expected `buffer_size` to be a positive integer, or -1 for unlimited buffer size",
                size,
                hint="buffer_size=-1 keeps as many values as are needed",
            )
        self.op, self.source, self.count, self.size = op, source, count, size
        self.start()

    def start(self) -> None:
        """Read the source from its beginning; nothing waits."""
        self.waiting: list[deque[Any]] = [deque() for _ in range(self.count)]
        self.begun = [False] * self.count
        self.values: Iterator[Any] | None = None

    def enter(self, number: int) -> None:
        """A pipe begins; one that begins again starts the source anew for all."""
        if self.begun[number]:
            self.start()
        self.begun[number] = True
        if self.values is None:
            self.values = iter(self.source)

    def keep(self, number: int, value: Any) -> None:
        """Let a value wait for a pipe."""
        if 0 <= self.size <= len(self.waiting[number]):
            fail(
                BufferError,
                self.op,
                f"{self.op} buffer overflow, buffer size {self.size} is insufficient.",
                hint="give a larger buffer_size, or -1 for any number of values",
            )
        self.waiting[number].append(value)

    def read(self, number: int, route: Callable[[Any], None]) -> Iterator[Any]:
        """The values of one pipe; `route` says for whom a new value of the source waits."""
        self.enter(number)
        source = self.values
        while source is self.values:
            if self.waiting[number]:
                yield self.waiting[number].popleft()
                continue
            try:
                value = next(source)  # type: ignore[arg-type]
            except StopIteration:
                return
            route(value)
        fail(
            RuntimeError,
            self.op,
            "This iterator has been invalidated because another iterator has been created from one "
            "of the pipes that share its source",
            hint="read all of them anew, from the start",
        )


class _Branch(IterDataPipe):
    """One of the pipes that share a source."""

    def __init__(self, shared: _Shared, number: int, route: Callable[[Any], None], known: bool):
        self.shared, self.number, self.route, self.known = shared, number, route, known

    def __iter__(self) -> Iterator[Any]:
        return self.shared.read(self.number, self.route)

    def __len__(self) -> int:
        if not self.known:
            fail(
                TypeError,
                self.shared.op,
                "a length is not known before the values are",
                hint="count them: sum(1 for _ in pipe)",
            )
        return len(self.shared.source)


class _Copies:
    """Every value waits for all pipes, as it is or copied."""

    def __init__(self, shared: _Shared, how: str | None) -> None:
        if how not in (None, "shallow", "deep"):
            fail(
                ValueError,
                "fork",
                "Unknown copy method: expected None, 'shallow' or 'deep'",
                how,
                hint="leave copy out to share the values",
            )
        self.shared, self.how = shared, how

    def __call__(self, value: Any) -> None:
        for number in range(self.shared.count):
            if self.how is None or number == 0:
                self.shared.keep(number, value)
            else:
                self.shared.keep(number, getattr(copy, _COPIES[self.how])(value))


_COPIES = {"shallow": "copy", "deep": "deepcopy"}


class _Classes:
    """A value waits for the pipe that a function names."""

    def __init__(self, shared: _Shared, classify: Callable[[Any], int | None], drop: bool) -> None:
        self.shared, self.classify, self.drop = shared, classify, drop

    def __call__(self, value: Any) -> None:
        number = self.classify(value)
        if number is None and self.drop:
            return
        if number is None or not 0 <= number < self.shared.count:
            fail(
                ValueError,
                "demux",
                f"Output of the classification fn should be between 0 and {self.shared.count - 1}",
                number,
                hint="drop_none=True leaves values of class None out",
            )
        self.shared.keep(number, value)


@functional_datapipe("fork")
class Forker(IterDataPipe):
    """`num_instances` pipes with the same values."""

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        buffer_size: int = 1000,
        copy: str | None = None,
    ) -> Any:
        shared = _Shared("fork", datapipe, num_instances, buffer_size)
        if num_instances == 1:
            return [datapipe]
        route = _Copies(shared, copy)
        return [_Branch(shared, i, route, True) for i in range(num_instances)]


@functional_datapipe("demux")
class Demultiplexer(IterDataPipe):
    """`num_instances` pipes among which a function deals the values out."""

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        shared = _Shared("demux", datapipe, num_instances, buffer_size)
        route = _Classes(shared, classifier_fn, drop_none)
        return [_Branch(shared, i, route, False) for i in range(num_instances)]


@functional_datapipe("groupby")
class Grouper(IterDataPipe):
    """Lists of values of which a function has the same result, given when they are full or the
    buffer is.
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
        if group_size is None and guaranteed_group_size is not None:
            fail(
                ValueError,
                "groupby",
                "group_size must be set with guaranteed_group_size",
                hint="pass group_size too",
            )
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.buffer_size, self.group_size, self.drop_remaining = (
            buffer_size,
            group_size,
            drop_remaining,
        )
        self.guaranteed_group_size = (
            group_size if guaranteed_group_size is None else guaranteed_group_size
        )

    def _made(self, key: Any, values: list[Any]) -> Any:
        return (key, values) if self.keep_key else values

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = {}
        waiting = 0
        for value in self.datapipe:
            key = self.group_key_fn(value)
            groups.setdefault(key, []).append(value)
            waiting += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                waiting -= self.group_size
                yield self._made(key, groups.pop(key))
            elif waiting == self.buffer_size:
                key, values = self._largest(groups)
                waiting -= len(values)
                least = self.guaranteed_group_size or 0
                if len(values) >= least:  # a smaller one was to be dropped
                    yield self._made(key, values)
        for key, values in groups.items():
            yield self._made(key, values)

    def _largest(self, groups: dict[Any, list[Any]]) -> tuple[Any, list[Any]]:
        """The largest group, to make room."""
        key = max(groups, key=lambda k: len(groups[k]))
        values = groups.pop(key)
        least = self.guaranteed_group_size
        if least is not None and len(values) < least and not self.drop_remaining:
            fail(
                RuntimeError,
                "groupby",
                f"Failed to group items: a group of {least} was required",
                f"{len(values)} of {key!r}",
                "give a larger buffer_size",
            )
        return key, values
