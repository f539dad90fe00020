"""Values that come later.

Takes: nothing, then a result or an exception. Gives: `Future`, `collect_all`, `wait_all`.
Keeps true: a future ends once; callbacks run once, in the thread that ends it, or at once where it has
ended; an exception in one is that of the future which `then` gave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from facula.core.errors import fail

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that comes later."""

    def __init__(self, *, devices: Any = None) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def __reduce__(self) -> Any:
        """Raises: what comes later cannot be written."""
        fail(
            RuntimeError,
            "Future",
            "a value was required: Can not pickle facula.futures.Future",
            "a future",
            hint="write what wait() returns",
        )

    def __class_getitem__(cls, kind: object) -> type[Future]:
        return cls

    def done(self) -> bool:
        """Whether it has a value or an exception."""
        return self._ended.is_set()

    def exception(self) -> BaseException | None:
        """The exception, where it has one."""
        return self._error

    def wait_done(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most this long; gives whether it came."""
        return self._ended.wait(seconds)

    def wait(self) -> Any:
        """The value, once it is there; raises the exception."""
        self._ended.wait()
        return self.value()

    def value(self) -> Any:
        """The value of a future that has ended; raises its exception."""
        if not self.done():
            fail(
                RuntimeError,
                "Future.value",
                "a future that is done was required",
                "one that is not",
                hint="wait() returns the value when it is there",
            )
        if self._error is not None:
            raise self._error
        return self._value

    def _end(self, value: object, error: BaseException | None) -> None:
        with self._lock:
            if self._ended.is_set():
                fail(
                    RuntimeError,
                    "Future.set_result",
                    "a future without a value was required (Future can only be marked completed once)",
                    "one that is done",
                    hint="make another Future for the second value",
                )
            self._value, self._error = value, error
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def set_result(self, result: object) -> None:
        """End it with a value."""
        self._end(result, None)

    def set_exception(self, result: BaseException) -> None:
        """End it with an exception."""
        if not isinstance(result, BaseException):
            fail(AssertionError, "Future.set_exception", "an exception was required",
                 f"{result!r} is of type {type(result).__name__}, not an Exception.",
                 hint="pass an exception, as RuntimeError('...')")  # fmt: skip
        self._end(None, result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call a function with this future when it ends; what it raises is printed."""

        def run(future: Future) -> None:
            try:
                callback(future)
            except Exception:
                import traceback

                traceback.print_exc()

        self._when_done(run)

    def _when_done(self, callback: Callable[[Future], Any]) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what the function gives for this one; what it raises becomes a RuntimeError."""

        def told(future: Future) -> Any:
            try:
                return callback(future)
            except Exception as error:
                raise _of_callback(error) from error

        return self._mapped(told)

    def _mapped(self, callback: Callable[[Future], Any]) -> Future:
        """The same, with the exceptions of the function as they are."""
        made = Future()

        def run(future: Future) -> None:
            try:
                value = callback(future)
            except Exception as error:
                made.set_exception(error)
                return
            made.set_result(value)

        self._when_done(run)
        return made


def _of_callback(error: Exception) -> RuntimeError:
    """What a callback of `then` raised, as PyTorch's futures tell it; the error itself is its cause."""
    return RuntimeError(
        "Got the following error when running the callback: "
        f"{type(error).__name__}: {error}\nhint: wait() in the callback raises the errors of its future"
    )


def _check_given(op: str, future: object) -> None:
    if future is None:
        fail(
            RuntimeError,
            op,
            "a future was required: Future can't be None",
            "None",
            hint="leave it out of the list",
        )


def collect_all(futures: Sequence[Future]) -> Future:
    """A future of the list of these, once all have ended."""
    made, futures = Future(), list(futures)
    for future in futures:
        _check_given("collect_all", future)
    left = [len(futures)]
    lock = threading.Lock()

    def one(_: Future) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            made.set_result(futures)

    if not futures:
        made.set_result(futures)
    for future in futures:
        future._when_done(one)
    return made


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The values of all; raises the first exception."""
    return [future.wait() for future in collect_all(futures).wait()]
