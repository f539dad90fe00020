"""Values that are computed when somebody asks for them: `jit._awaitable`, PyTorch's `torch._awaits`.

Takes a function and its arguments, or a value. Gives an `_Await`: `jit._awaitable_wait` calls the function once.
Keeps true: an attribute of it that is no own one is that of the value, which is computed then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["_Await", "_awaitable", "_awaitable_nowait", "_awaitable_wait"]

Result = TypeVar("Result")
_ABSENT = object()


class _Await(Generic[Result]):
    """A value that a function gives once it is needed.

    Example:
        >>> later = facula.jit._awaitable(lambda x: x + 1, 2)
        >>> later.is_nowait(), later.wait()
        (False, 3)
    """

    def __init__(
        self, function: Callable[..., Any] | None, args: tuple[Any, ...], value: Any = _ABSENT
    ) -> None:
        self._function, self._args, self._value = function, args, value

    def fn(self) -> Callable[..., Any] | None:
        """The function; None where there is none."""
        return self._function

    def args(self) -> tuple[Any, ...]:
        """The arguments, or the value that was there from the start."""
        return self._args

    def is_nowait(self) -> bool:
        """Whether the value was there from the start."""
        return self._function is None

    def wait(self) -> Any:
        """The value."""
        if self._value is _ABSENT:
            assert self._function is not None
            self._value = self._function(*self._args)
        return self._value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wait(), name)


def _awaitable(func: Callable[..., Any], *args: Any, **kwargs: Any) -> _Await[Any]:
    """What `func` gives for some arguments, later.

    Args:
        func: the function
        *args, **kwargs: its arguments

    Example:
        >>> facula.jit._awaitable_wait(facula.jit._awaitable(facula.sin, facula.zeros(1)))
        tensor([0.])
    """
    function = func if not kwargs else lambda *given: func(*given, **kwargs)
    return _Await(function, args)


def _awaitable_wait(aw: _Await[Any]) -> Any:
    """The value of an `_Await`.

    Args:
        aw: the `_Await`

    Example:
        >>> facula.jit._awaitable_wait(facula.jit._awaitable_nowait(3))
        3
    """
    return aw.wait()


def _awaitable_nowait(o: Any) -> _Await[Any]:
    """A value that is there as one that is computed later.

    Args:
        o: the value

    Example:
        >>> facula.jit._awaitable_nowait(3).is_nowait()
        True
    """
    return _Await(None, (o,), o)
