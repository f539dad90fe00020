"""Decorators: names of steps, checks of what pipes are given and give, and which may be random.

Takes functions and classes. Gives wrappers.
Keeps true: a check can be switched off; without annotations nothing is checked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_origin, get_type_hints

from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = [
    "argument_validation",
    "functional_datapipe",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]

_CHECKING = [True]
_DETERMINISM = [False]


class functional_datapipe:  # noqa: N801 - PyTorch's name
    """A class decorator: the step is also a method of all pipes of its kind.

    Args:
        name: of the method
        enable_df_api_tracing: whether calls are traced for data frames

    Raises:
        TypeError: the class is no pipe.

    Example:
        >>> @facula.utils.data.functional_datapipe("doubled_twice")
        ... class Doubled(facula.utils.data.IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        ...     def __iter__(self):
        ...         return (4 * x for x in self.source)
        >>> list(facula.utils.data.datapipes.iter.IterableWrapper([1, 2]).doubled_twice())
        [4, 8]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        for base in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
                return cls
            decides = getattr(cls, "__wrapped__", None)  # a class behind `non_deterministic`
            if isinstance(decides, type) and issubclass(decides, base):
                base.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
                return cls
        fail(
            TypeError,
            "functional_datapipe",
            "Can only decorate IterDataPipe",
            cls,
            hint="let the class inherit from IterDataPipe or MapDataPipe",
        )


def _fits(value: object, hint: object) -> bool:
    """Whether a value is an instance of a plain class or of the class of a generic one; others are
    not checked.
    """
    kind = get_origin(hint) or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: pipes among the arguments must be of the annotated classes.

    Args:
        f: a function with annotations

    Example:
        >>> from facula.utils.data import IterDataPipe
        >>> @facula.utils.data.argument_validation
        ... def first(pipe: IterDataPipe):
        ...     return next(iter(pipe))
        >>> first(facula.utils.data.datapipes.iter.IterableWrapper([1, 2]))
        1
    """
    signature = inspect.signature(f)

    @functools.wraps(f)
    def checked(*args: object, **kwargs: object) -> Any:
        hints = get_type_hints(f)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in hints and not _fits(value, hints[name]):
                fail(
                    TypeError,
                    f.__qualname__,
                    f"Expected argument '{name}' as a instance of {hints[name]}",
                    type(value).__name__,
                    hint="convert the argument, or change the annotation",
                )
        return f(*args, **kwargs)

    return checked


def runtime_validation(f: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A decorator of ``__iter__``: values must be of the annotated item type.

    Args:
        f: the method

    Example:
        >>> from collections.abc import Iterator
        >>> class Numbers(facula.utils.data.IterDataPipe):
        ...     @facula.utils.data.runtime_validation
        ...     def __iter__(self) -> Iterator[int]:
        ...         yield from [1, 2]
        >>> list(Numbers())
        [1, 2]
    """

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        hint = get_type_hints(f).get("return")
        item = getattr(hint, "__args__", (None,))[0]
        for value in f(self):
            if _CHECKING[0] and item is not None and not _fits(value, item):
                fail(
                    RuntimeError,
                    type(self).__name__,
                    f"Expected an instance as subtype of {item}",
                    type(value).__name__,
                    hint="convert the values, or change the annotation",
                )
            yield value

    return checked


class runtime_validation_disabled:  # noqa: N801 - PyTorch's name
    """A block in which `runtime_validation` checks nothing.

    Example:
        >>> with facula.utils.data.runtime_validation_disabled():
        ...     values = list(facula.utils.data.datapipes.iter.IterableWrapper([1, 2]))
    """

    def __enter__(self) -> None:
        self._before = _CHECKING[0]
        _CHECKING[0] = False

    def __exit__(self, *exception: object) -> None:
        _CHECKING[0] = self._before


class guaranteed_datapipes_determinism:  # noqa: N801 - PyTorch's name
    """A block in which pipes that are marked `non_deterministic` are refused, with a `TypeError`.

    Example:
        >>> with facula.utils.data.guaranteed_datapipes_determinism():
        ...     pipe = facula.utils.data.datapipes.iter.IterableWrapper([1, 2])
    """

    def __enter__(self) -> None:
        self._before = _DETERMINISM[0]
        _DETERMINISM[0] = True

    def __exit__(self, *exception: object) -> None:
        _DETERMINISM[0] = self._before


class non_deterministic:  # noqa: N801 - PyTorch's name
    """A class decorator: what the pipe gives may differ from run to run.

    Args:
        arg: the class; or a function of the constructor's arguments that says so

    Example:
        >>> @facula.utils.data.non_deterministic
        ... class Noise(facula.utils.data.IterDataPipe):
        ...     def __iter__(self):
        ...         yield facula.rand(())
        >>> with facula.utils.data.guaranteed_datapipes_determinism():
        ...     try:
        ...         Noise()
        ...     except TypeError:
        ...         print("refused")
        refused
    """

    def __init__(self, arg: object) -> None:
        self._class = arg if isinstance(arg, type) else None
        self._decides: Any = None if isinstance(arg, type) else arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._class is not None:
            if _DETERMINISM[0]:
                self._refuse(self._class)
            return self._class(*args, **kwargs)
        cls, decides = args[0], self._decides

        @functools.wraps(cls, updated=())
        def made(*arguments: Any, **keywords: Any) -> Any:
            if _DETERMINISM[0] and decides(*arguments, **keywords):
                self._refuse(cls)
            return cls(*arguments, **keywords)

        return made

    @staticmethod
    def _refuse(cls: type) -> None:
        fail(
            TypeError,
            cls.__name__,
            f"{cls.__name__} is non-deterministic",
            hint="turn off 'guaranteed_datapipes_determinism'",
        )
