"""What stands around `__iter__` and `reset` of pipes.

Takes the classes of pipes. Gives `hook`, which wraps their methods, and the states of a snapshot.
Keeps true: a pipe has one valid iterator, the newest; it knows how many values that one has given;
a pipe whose state was restored goes on where it was instead of beginning anew.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from facula.core.errors import fail

__all__ = ["hook", "named"]

_FEEDBACK = (
    "\nFor feedback regarding this single iterator per IterDataPipe constraint, feel free to comment "
    "on this issue: https://github.com/pytorch/data/issues/45."
)


class _SnapshotState(Enum):
    """Where a pipe stands: not begun, restored (the next iterator goes on), or under way."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def named(pipe: Any) -> str:
    """The class of a pipe and the arguments that it was made with, as far as it kept them."""
    known = vars(pipe)
    names = [n for n in inspect.signature(type(pipe)).parameters if n in known]
    texts = (
        f"{name}={value.__name__ if inspect.isfunction(value) else _short(value)}"
        for name, value in ((name, known[name]) for name in sorted(names))
    )
    return f"{type(pipe).__name__}({', '.join(texts)})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _check(pipe: Any, number: int) -> None:
    """Raise where another iterator has taken the place of iterator `number`."""
    if getattr(pipe, "_is_child_datapipe", False):
        if not pipe._check_valid_iterator_id(number):
            fail(
                RuntimeError,
                type(pipe).__name__,
                "This iterator has been invalidated, because a new iterator has been created from "
                f"one of the ChildDataPipes of {named(pipe.main_datapipe)}.{_FEEDBACK}",
                hint="read all of them anew, from the start",
            )
    elif pipe._valid_iterator_id != number:
        fail(
            RuntimeError,
            type(pipe).__name__,
            "This iterator has been invalidated because another iterator has been created from the "
            f"same IterDataPipe: {named(pipe)}\n"
            "This may be caused by multiple references to the same IterDataPipe. We recommend using "
            f"`.fork()` if that is necessary.{_FEEDBACK}",
            hint="fork(n) gives n pipes with the same values",
        )


def _begin(pipe: Any) -> int:
    """Make a new iterator the valid one; the pipe begins anew."""
    if getattr(pipe, "_is_child_datapipe", False):
        pipe._set_main_datapipe_valid_iterator_id()
        return pipe._valid_iterator_id
    last = pipe._valid_iterator_id
    pipe._valid_iterator_id = 0 if last is None else last + 1
    pipe.reset()
    return pipe._valid_iterator_id


def _note_pipe(error: Exception, pipe: Any) -> None:
    """Say in an exception in which pipe it came up, once."""
    said = "This exception is thrown by __iter__ of"
    if not any(said in note for note in getattr(error, "__notes__", ())):
        error.add_note(f"{said} {named(pipe)}")


def _restored(pipe: Any) -> Iterator[Any] | None:
    """The iterator that was moved forward when a snapshot was restored, once."""
    values = pipe._fast_forward_iterator
    pipe._fast_forward_iterator = None
    return values


def _of_generator(function: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    @functools.wraps(function)
    def iterate(self: Any, *args: object, **kwargs: object) -> Iterator[Any]:
        restored = _restored(self)
        if restored is not None:
            self._snapshot_state = _SnapshotState.Iterating
            yield from restored
            return
        number = _begin(self)
        try:
            for value in function(self, *args, **kwargs):
                self._number_of_samples_yielded += 1
                yield value
                _check(self, number)
        except Exception as error:
            if "single iterator per IterDataPipe constraint" not in str(error):
                _note_pipe(error, self)
            raise

    return iterate


class _Counted:
    """An iterator that is no generator: counts what it gives, ends when another one is made."""

    def __init__(self, values: Any, pipe: Any, number: int, counts_itself: bool) -> None:
        self._values, self._pipe, self._number = values, pipe, number
        self._counts_itself = counts_itself

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        _check(self._pipe, self._number)
        value = next(self._values)
        if not self._counts_itself:
            self._pipe._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name: str) -> Any:
        if name == "_values":  # a copy that is not made yet
            raise AttributeError(name)
        return getattr(self._values, name)


def _of_function(function: Callable[[Any], Any], with_next: bool) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def iterate(self: Any, *args: object, **kwargs: object) -> Any:
        values = function(self, *args, **kwargs)
        restored = _restored(self)
        if restored is not None:
            self._snapshot_state = _SnapshotState.Iterating
            return restored
        number = _begin(self)
        self._snapshot_state = _SnapshotState.Iterating
        return _Counted(values, self, number, with_next and values is self)

    return iterate


def _of_next(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def advance(self: Any) -> Any:
        value = function(self)
        self._number_of_samples_yielded += 1
        return value

    return advance


def _of_reset(function: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(function)
    def reset(self: Any, *args: object, **kwargs: object) -> None:
        if self._snapshot_state is not _SnapshotState.Restored:
            self._number_of_samples_yielded = 0
            self._fast_forward_iterator = None
            function(self, *args, **kwargs)
        self._snapshot_state = _SnapshotState.Iterating

    return reset


def hook(cls: Any) -> None:
    """Wrap what a class itself defines of `__iter__`, `__next__` and `reset`."""
    own = vars(cls)
    if "reset" in own:
        cls.reset = _of_reset(own["reset"])
    if "__iter__" not in own:
        return
    iterate, with_next = own["__iter__"], "__next__" in own
    if inspect.isgeneratorfunction(iterate):
        cls.__iter__ = _of_generator(iterate)
        return
    if with_next:
        cls.__next__ = _of_next(own["__next__"])
    cls.__iter__ = _of_function(iterate, with_next)
