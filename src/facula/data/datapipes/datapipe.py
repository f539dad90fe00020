"""The base classes of pipes, and how a step becomes a method of them.

Takes classes. Gives `IterDataPipe`, `MapDataPipe` and `DataChunk`.
Keeps true: a method that a program registers comes before one of the same name that is only loaded
on demand (`further`); what a hook of pickling sees is what a pipe would be pickled as.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, ClassVar

from facula.core.errors import fail
from facula.data.datapipes._hook_iterator import _SnapshotState, hook
from facula.data.dataset import Dataset, IterableDataset, T_co

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class DataChunk(list):
    """A batch of a pipe: a list that prints its items one by one.

    Args:
        items: an iterable

    Example:
        >>> facula.utils.data.DataChunk([1, 2]).as_str("> ")
        '> [1, 2]'
    """

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

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    #: methods whose module is loaded when they are asked for: name -> (module, class)
    further: ClassVar[dict[str, tuple[str, str]]] = {}
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: ClassVar[Callable[..., str] | None] = None
    repr_hook: ClassVar[Callable[..., str] | None] = None
    _family: ClassVar[Any]

    def __getattr__(self, name: str) -> Any:
        family = type(self)._family
        function = family.functions.get(name)
        if function is None and name in family.further:
            module, cls = family.further[name]
            made = getattr(importlib.import_module(module), cls)
            # `functions` stays as it is, so that a program may still take the name
            function = _step(made)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        bound = functools.partial(function, self)
        functools.update_wrapper(bound, function, assigned=("__doc__",))
        return bound

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a pipe a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
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
        cls.functions[function_name] = _step(cls_to_register)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """What every pipe's state goes through when it is pickled; None takes it away."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """What reduces every pipe when it is pickled; None takes it away."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name: str, function: Callable[..., Any] | None) -> None:
        family = cls._family
        if function is not None and getattr(family, name) is not None:
            fail(
                RuntimeError,
                f"set_{name}",
                f"Attempt to override existing {name}",
                hint="set it to None first",
            )
        setattr(family, name, function)

    def __getstate__(self) -> Any:
        return self._state_for_pickle(self.__dict__)

    @classmethod
    def _state_for_pickle(cls, state: object) -> Any:
        """What is pickled of a state: what the hook makes of it."""
        given = cls._family.getstate_hook
        return state if given is None else given(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        given = type(self)._family.reduce_ex_hook
        if given is not None:
            try:
                return given(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        given = type(self)._family.repr_hook
        return type(self).__qualname__ if given is None else given(self)

    def __str__(self) -> str:
        given = type(self)._family.str_hook
        return type(self).__qualname__ if given is None else given(self)

    def __dir__(self) -> list[str]:
        family = type(self)._family
        return [*super().__dir__(), *family.functions, *family.further]


def _step(cls: Any) -> Callable[..., Any]:
    """A function of a pipe and of the arguments of a step."""

    def step(source: _Functional, *args: object, **kwargs: object) -> Any:
        return cls(source, *args, **kwargs)

    step.__doc__ = cls.__doc__
    return step


class IterDataPipe(_Functional, IterableDataset[T_co]):
    """A dataset by iteration whose steps are methods: ``pipe.map(f).shuffle().batch(4)``.

    A subclass defines ``__iter__``, and ``reset`` where it keeps something between values. A pipe
    has one iterator at a time: a new one ends the one before.

    Example:
        >>> pipe = facula.utils.data.datapipes.iter.IterableWrapper(range(5))
        >>> list(pipe.map(float).batch(2))
        [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    further: ClassVar[dict[str, tuple[str, str]]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state: _SnapshotState = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator[Any] | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        hook(cls)

    def __iter__(self) -> Iterator[Any]:
        return self

    def reset(self) -> None:
        """Called before each new iteration; steps that keep something forget it here."""


IterDataPipe._family = IterDataPipe
hook(IterDataPipe)


class DFIterDataPipe(IterDataPipe):
    """An `IterDataPipe` whose values are columns of a data frame.

    Example:
        >>> issubclass(facula.utils.data.DFIterDataPipe, facula.utils.data.IterDataPipe)
        True
    """

    def _is_dfpipe(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return self


class MapDataPipe(_Functional, Dataset[T_co]):
    """A dataset by index whose steps are methods: ``pipe.map(f).batch(4)``.

    Example:
        >>> pipe = facula.utils.data.datapipes.map.SequenceWrapper([1, 2, 3])
        >>> list(pipe.map(float))
        [1.0, 2.0, 3.0]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    further: ClassVar[dict[str, tuple[str, str]]] = {}


MapDataPipe._family = MapDataPipe


class _SerializationWrapper:
    """A pipe that goes to another process as bytes, by dill where pickle cannot take its functions."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> tuple[str, bytes]:
        try:
            return "pickle", pickle.dumps(self._datapipe)
        except Exception:
            if find_spec("dill") is None:
                raise
        return "dill", importlib.import_module("dill").dumps(self._datapipe)

    def __setstate__(self, state: Any) -> None:
        module, data = state
        self._datapipe = importlib.import_module(module).loads(data)

    def __len__(self) -> int:
        with contextlib.suppress(Exception):
            return len(self._datapipe)
        return fail(TypeError, "DataPipe", "a pipe with a length was required",
                    f"{type(self).__name__} instance doesn't have valid length",
                    hint="count its items, or give the pipe below a __len__")  # fmt: skip


class _IterDataPipeSerializationWrapper(_SerializationWrapper, IterDataPipe):
    """What another package's loader sends to its workers."""

    def __init__(self, datapipe: IterDataPipe) -> None:
        super().__init__(datapipe)
        self._datapipe_iter: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self) -> Any:
        if self._datapipe_iter is None:
            self._datapipe_iter = iter(self._datapipe)
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_SerializationWrapper, MapDataPipe):
    """What another package's loader sends to its workers."""

    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
