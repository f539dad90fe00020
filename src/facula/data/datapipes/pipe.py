"""The base classes of pipes, and how a step becomes a method of them.

Takes classes. Gives `IterDataPipe`, `MapDataPipe`, `DataChunk` and `functional_datapipe`.
Keeps true: a pipe has one iterator at a time: a new one makes the old one raise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import facula
from facula.core.errors import fail
from facula.data.dataset import Dataset, IterableDataset


class Shuffling:
    """A pipe whose order is random: the switch and the seed of the next order."""

    _enabled = True
    _seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Whether the order is random."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next order."""
        self._seed = seed
        return self

    def _next_seed(self) -> int:
        """The seed that was set, for one order; else a drawn one."""
        seed: Any = facula.randint(0, 2**62, ()).item() if self._seed is None else self._seed
        self._seed = None
        return seed


class DataChunk(list):
    """A batch: a list that prints its items one by one."""

    def __init__(self, items: Iterable[Any]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items between brackets."""
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[Any]:
        """The items, also where a subclass iterates over something else."""
        yield from self.items


class _Functional:
    """Steps that were registered on a class, found as methods of its instances."""

    functions: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name) if not name.startswith("__") else None
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(function, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a pipe a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a step a method of all pipes, which gives the step over the pipe.

        Raises:
            Exception: the name is taken.
        """
        if function_name in cls.functions:
            fail(
                Exception,
                "register_datapipe_as_function",
                f"Unable to add DataPipe function name {function_name} as it is already taken",
                hint="take another name",
            )

        @functools.wraps(cls_to_register, updated=())
        def step(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = step

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


def _single(original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """`__iter__` that starts the pipe anew and ends the iterator that was there before."""

    @functools.wraps(original)
    def iterate(self: Any) -> Iterator[Any]:
        number = self.__dict__.get("_iterators", 0) + 1
        self._iterators = number
        self.reset()
        return _guarded(self, number, original(self))

    return iterate


def _guarded(pipe: Any, number: int, values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        if pipe._iterators != number:
            fail(
                RuntimeError,
                type(pipe).__name__,
                "This iterator has been invalidated because another iterator has been created from "
                "the same IterDataPipe",
                hint="use fork() to read a pipe several times at once",
            )
        yield value


class IterDataPipe(_Functional, IterableDataset):
    """A dataset that is iterated over; steps are methods: `pipe.map(f).shuffle().batch(4)`."""

    functions: dict[str, Callable[..., Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in vars(cls):
            cls.__iter__ = _single(vars(cls)["__iter__"])  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[Any]:
        return self

    def reset(self) -> None:
        """Called before each new iteration; steps that keep something forget it here."""


class DFIterDataPipe(IterDataPipe):
    """A pipe whose values are columns."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Functional, Dataset):
    """A dataset that is indexed; steps are methods: `pipe.map(f).batch(4)`."""

    functions: dict[str, Callable[..., Any]] = {}


class functional_datapipe:  # noqa: N801 - PyTorch's name
    """Class decorator: the step is also a method `name` of all pipes of its kind."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        for base in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
                return cls
        fail(
            TypeError,
            "functional_datapipe",
            "Can only decorate IterDataPipe",
            cls,
            hint="let the class inherit from IterDataPipe or MapDataPipe",
        )


def chosen(value: Any, input_col: Any) -> Any:
    """The columns of a value: itself, one, or a tuple of several."""
    if input_col is None:
        return value
    if isinstance(input_col, (list, tuple)):
        return tuple(value[c] for c in input_col)
    return value[input_col]


def applied(fn: Callable[..., Any], value: Any, input_col: Any, output_col: Any) -> Any:
    """A function of the columns of a value, its result put into columns of it."""
    if input_col is None and output_col is None:
        return fn(value)
    picked = chosen(value, input_col)
    result = fn(*picked) if isinstance(input_col, (list, tuple)) else fn(picked)
    columns = list(value) if isinstance(value, tuple) else value
    if output_col is None:
        first = input_col[0] if isinstance(input_col, (list, tuple)) else input_col
        columns[first] = result
        if isinstance(input_col, (list, tuple)):
            for column in sorted(input_col[1:], reverse=True):
                del columns[column]
    elif output_col == -1:
        columns.append(result)
    else:
        columns[output_col] = result
    return tuple(columns) if isinstance(value, tuple) else columns
