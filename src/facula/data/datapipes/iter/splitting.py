"""Steps that make several pipes of one.

Takes a pipe; gives a list of pipes. Keeps true: the source is read once for all of them; what one has
not asked for yet waits in a buffer of a fixed size, and no value is lost where the buffer is full.
"""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import StreamWrapper, check_function, length_of, no_length

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


class _Main(IterDataPipe):
    """The source that several pipes read, and what waits for each of them."""

    op: str
    #: nothing was read yet of a pipe that came out of a pickle
    _copied = False
    #: what is not pickled: it is made anew
    _fresh: tuple[str, ...] = ("_values", "_waiting", "_ended", "_begun")

    def __init__(self, datapipe: IterDataPipe, num_instances: int, buffer_size: int) -> None:
        self.main_datapipe, self.num_instances = datapipe, num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{self.op}`, please be aware of OOM issue during "
                "its usage.",
                UserWarning,
                stacklevel=4,
            )
        self._forget()

    def _forget(self) -> None:
        self._values: Iterator[Any] | None = None
        self._waiting: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self._ended = False
        self._begun = [False] * self.num_instances

    def is_every_instance_exhausted(self) -> bool:
        """Whether the source is at its end, and every pipe has read all that is its own."""
        return self._ended and all(self._begun) and not any(self._waiting)

    def __len__(self) -> int:
        return length_of(self, self.main_datapipe)

    def reset(self) -> None:
        self._close_waiting()
        self._forget()

    def _close_waiting(self) -> None:
        for waiting in self._waiting:
            for value in waiting:
                StreamWrapper.close_streams(value)

    def __getstate__(self) -> Any:
        state = {k: v for k, v in self.__dict__.items() if k not in self._fresh}
        return self._state_for_pickle(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()
        self._copied = True

    def has_room(self, number: int) -> bool:
        """Whether one more value may wait for a pipe."""
        return self.buffer_size < 0 or len(self._waiting[number]) < self.buffer_size

    def overflow(self) -> None:
        """Raise that too many values wait."""
        fail(
            BufferError,
            self.op,
            f"{self._class_name()} buffer overflow, buffer size {self.buffer_size} is insufficient.",
            hint="give a larger buffer_size, or -1 for any number of values",
        )

    def _class_name(self) -> str:
        return type(self).__name__.removeprefix("_")

    def route(self, value: object, asking: int) -> None:
        """Let a new value of the source wait for those to whom it belongs."""
        raise NotImplementedError

    def check_room(self, asking: int) -> None:
        """Raise where the next value of the source could find no room."""

    def read(self, number: int) -> Iterator[Any]:
        """The values of one pipe."""
        self._begun[number] = True
        waiting = self._waiting[number]
        while True:
            if waiting:
                yield waiting.popleft()
                continue
            if self._ended:
                return
            self.check_room(number)
            if self._values is None:
                self._values = iter(self.main_datapipe)
            try:
                value = next(self._values)
            except StopIteration:
                self._ended = True
                return
            self.route(value, number)


class _ForkerIterDataPipe(_Main):
    """Every value waits for all pipes, as it is or copied."""

    op = "fork"

    def __init__(
        self, datapipe: IterDataPipe, num_instances: int, buffer_size: int, how: str | None
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        if how not in _COPIES:
            fail(
                ValueError,
                "fork",
                "Unknown copy method: expected None, 'shallow' or 'deep'",
                how,
                hint="leave copy out to share the values",
            )
        self.how = how

    def check_room(self, asking: int) -> None:
        for number in range(self.num_instances):
            if number != asking and not self.has_room(number):
                self.overflow()

    def route(self, value: object, asking: int) -> None:
        copied = _COPIES[self.how]
        for waiting in self._waiting:
            waiting.append(value if copied is None else copied(value))


_COPIES: dict[str | None, Callable[[Any], Any] | None] = {
    None: None,
    "shallow": copy.copy,
    "deep": copy.deepcopy,
}


class _DemultiplexerIterDataPipe(_Main):
    """A value waits for the pipe that a function names."""

    op = "demux"
    _fresh = (*_Main._fresh, "_held")

    def __init__(
        self,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _forget(self) -> None:
        super()._forget()
        self._held: list[tuple[Any, int]] = []  # the value for which there was no room

    def check_room(self, asking: int) -> None:
        for value, number in self._held:
            if number != asking and not self._room_for(number):
                self.overflow()
            self._held = []
            self._waiting[number].append(value)

    def _room_for(self, number: int) -> bool:
        # the buffer is one for all pipes
        return self.buffer_size < 0 or sum(map(len, self._waiting)) < self.buffer_size

    def route(self, value: object, asking: int) -> None:
        number = self.classifier_fn(value)
        if number is None and self.drop_none:
            StreamWrapper.close_streams(value)
            return
        if number is None or not 0 <= number < self.num_instances:
            fail(
                ValueError,
                "demux",
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}",
                number,
                hint="drop_none=True leaves values of class None out",
            )
        if number != asking and not self._room_for(number):
            self._held = [(value, number)]
            self.overflow()
        self._waiting[number].append(value)


class _ChildDataPipe(IterDataPipe):
    """One of the pipes that share a source; an iterator of one that is read already starts all anew."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe: _Main, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.read(self.instance_id)

    def __len__(self) -> int:
        if isinstance(self.main_datapipe, _DemultiplexerIterDataPipe):
            no_length(self)  # who gets how much shows when it is read
        return length_of(self, self.main_datapipe)

    def _set_main_datapipe_valid_iterator_id(self) -> int:
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not (main._copied or main.is_every_instance_exhausted()):
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting "
                    "the buffer and each child DataPipe will read from the start again.",
                    UserWarning,
                    stacklevel=4,
                )
            main.reset()
        main._copied = False
        self._valid_iterator_id = main._valid_iterator_id
        self._number_of_samples_yielded = 0
        return self._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id: int) -> bool:
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


def _check_count(op: str, num_instances: int, buffer_size: int) -> None:
    if num_instances < 1:
        fail(
            ValueError,
            op,
            f"Expected `num_instances` larger than 0, but {num_instances} is found",
            hint="num_instances=2 makes two pipes",
        )
    if buffer_size == 0 and (op != "fork" or num_instances > 1):
        fail(
            ValueError,
            op,
            "Expected `buffer_size` to be a positive integer, or -1 for unlimited buffer size",
            buffer_size,
            hint="buffer_size=-1 keeps as many values as are needed",
        )


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several pipes with the same values (functional name: ``fork``).

    Args:
        datapipe: the source
        num_instances: how many pipes; for 1 it is the source itself
        buffer_size: how far one may be ahead of the others; -1: as far as it likes
        copy: None shares the values, "shallow" and "deep" copy them

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> a, b = IterableWrapper([1, 2]).fork(2)
        >>> list(a), list(b)
        ([1, 2], [1, 2])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        buffer_size: int = 1000,
        copy: str | None = None,
    ) -> Any:
        _check_count("fork", num_instances, buffer_size)
        if num_instances == 1:
            return datapipe
        main = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(main, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes among which a function deals the values out (functional name: ``demux``).

    Args:
        datapipe: the source
        num_instances: how many pipes
        classifier_fn: the number of the pipe for a value
        drop_none: whether values for which the function gives None are left out
        buffer_size: how many values may wait; -1: any number

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> digits, others = IterableWrapper("1a2").demux(2, lambda c: int(not c.isdigit()))
        >>> list(digits), list(others)
        (['1', '2'], ['a'])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_count("demux", num_instances, buffer_size)
        check_function(classifier_fn)
        main = _DemultiplexerIterDataPipe(
            datapipe, num_instances, classifier_fn, drop_none, buffer_size
        )
        return [_ChildDataPipe(main, i) for i in range(num_instances)]
