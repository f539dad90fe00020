"""Switching recording on and off: context managers that also decorate functions and generators.

Takes nothing, or a mode.  Gives `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode` and
the smaller switches.
Keeps true: leaving a context restores what was before, per thread; a decorated generator has the
mode inside its own steps only.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def _decorate_generator(make_context: Callable[[], Any], function: Callable) -> Callable:
    """The generator with the context around each of its steps, and never around its caller's code."""

    @functools.wraps(function)
    def generator(*args: object, **kwargs: object) -> Any:
        inner = function(*args, **kwargs)
        try:
            with make_context():
                response = inner.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make_context():
                        inner.close()
                    raise
                except BaseException:
                    with make_context():
                        response = inner.throw(*sys.exc_info())
                else:
                    with make_context():
                        response = inner.send(request)
        except StopIteration as stop:
            return stop.value

    return generator


def _decorate_class(make_context: Callable[[], Any], cls: type) -> type:
    """Only the constructor: decorating a class as a whole has no other sensible meaning."""
    original = cls.__init__  # type: ignore[misc]

    @functools.wraps(original)
    def init(self: object, *args: object, **kwargs: object) -> None:
        with make_context():
            original(self, *args, **kwargs)

    cls.__init__ = init  # type: ignore[misc]
    return cls


def context_decorator(make_context: Callable[[], Any], function: Callable[..., Any]) -> Any:
    """``function`` run inside a fresh context at every call."""
    if inspect.isclass(function):
        return _decorate_class(make_context, function)
    if inspect.isgeneratorfunction(function):
        return _decorate_generator(make_context, function)

    @functools.wraps(function)
    def decorated(*args: object, **kwargs: object) -> Any:
        with make_context():
            return function(*args, **kwargs)

    return decorated


class ContextDecorator:
    """A context manager that may also be used as a decorator."""

    def clone(self) -> Any:
        """A fresh context of the same kind."""
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Any:
        return context_decorator(self.clone, function)


class _FixedGradMode(ContextDecorator):
    """Sets recording to ``_mode`` inside; used bare as a decorator too (``@no_grad``)."""

    _mode = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is None:
            return super().__new__(cls)
        return cls()(function)

    def __enter__(self) -> None:
        self.prev = core.set_grad_enabled(self._mode)

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        core.set_grad_enabled(self.prev)


class no_grad(_FixedGradMode):
    """A block, or a decorator, in which nothing is recorded for differentiation.

    Args:
        function: what is decorated; None for a block

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> with facula.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    _mode = False


class enable_grad(_FixedGradMode):
    """A block, or a decorator, in which operations are recorded, also inside of `no_grad`.

    Args:
        function: what is decorated; None for a block

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> with facula.no_grad(), facula.enable_grad():
        ...     y = x * 2
        >>> y.requires_grad
        True
    """

    _mode = True


class set_grad_enabled(ContextDecorator):
    """Switches recording on or off: at once, or for a block.

    Args:
        mode: whether operations are recorded

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> with facula.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __init__(self, mode: bool) -> None:
        if type(mode) is not bool:
            fail(TypeError, "set_grad_enabled", "argument 'enabled' (position 1) must be bool", type(mode).__name__,
                 hint="bool(mode) is one")  # fmt: skip
        self.mode = mode
        self.prev = core.set_grad_enabled(mode)

    def __call__(self, function: Callable[..., Any]) -> Any:
        # as a decorator it takes effect inside calls only
        core.set_grad_enabled(self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        core.set_grad_enabled(self.mode)

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        core.set_grad_enabled(self.prev)

    def __str__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"

    __repr__ = __str__

    def clone(self) -> set_grad_enabled:
        """A fresh context with the same mode, not in effect yet."""
        before = core.is_grad_enabled()
        copy = type(self)(self.mode)
        core.set_grad_enabled(before)
        copy.prev = before
        return copy


class inference_mode(ContextDecorator):
    """A block, or a decorator, without recording and without version counting: the fastest.

    Tensors that are made inside can never be recorded.

    Args:
        mode: whether it is on

    Example:
        >>> with facula.inference_mode():
        ...     y = facula.ones(2)
        >>> y.is_inference()
        True
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._saved: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        recording = core.is_grad_enabled()
        self._saved.append((core.set_inference_mode(self.mode), recording))
        if not self.mode:
            core.set_grad_enabled(True)

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        inference, recording = self._saved.pop()
        core.set_inference_mode(inference)
        core.set_grad_enabled(recording)

    def clone(self) -> inference_mode:
        """A fresh context with the same mode."""
        return type(self)(self.mode)


class set_multithreading_enabled(ContextDecorator):
    """Whether backward passes may use several threads: at once, or for a block.

    Args:
        mode: whether they may

    Example:
        >>> x = facula.ones(2, requires_grad=True)
        >>> with facula.autograd.set_multithreading_enabled(False):
        ...     (x * x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.prev = core.set_multithreading_enabled(mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        core.set_multithreading_enabled(self.prev)

    def clone(self) -> set_multithreading_enabled:
        """A fresh context with the same mode."""
        return type(self)(self.mode)


class enforce_grad_layout_policy(ContextDecorator):
    """Accepted for PyTorch's sake: a gradient always has its leaf's order in memory here.

    Args:
        enable: no effect

    Example:
        >>> with facula.autograd.enforce_grad_layout_policy():
        ...     pass
    """

    def __init__(self, enable: bool = True) -> None:
        self.enable = enable

    def __enter__(self) -> None:
        return None

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        return None

    def clone(self) -> enforce_grad_layout_policy:
        """A fresh context with the same setting."""
        return type(self)(self.enable)
