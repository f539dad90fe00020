"""`compile` and what belongs to it.

Takes: functions and modules. Gives: versions of them that capture, compile and run graphs.
Keeps true: a compiled function has the signature, name and results of the function; `disable` and
`set_stance` are obeyed at every call.
"""

from __future__ import annotations

import contextlib
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.capture import driver, marks, stances
from facula.capture.driver import Session
from facula.capture.events import LISTENERS, Event, happened
from facula.capture.numpy.arrays import array_of_tensor
from facula.capture.rules.framework import (
    assume_constant_result,
    graph_break,
    is_compiling,
    is_exporting,
)
from facula.capture.rules.table import RULES
from facula.capture.rules.transforms import is_transformed
from facula.compiler import compiled_autograd  # noqa: F401  (fills a slot of capture)
from facula.compiler.backends import list_backends, lookup_backend, specialises
from facula.compiler.optimized_module import OptimizedModule
from facula.compiler.sessions import make_session
from facula.core.errors import fail
from facula.nn import Module

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_exporting", "list_backends", "reset", "set_stance", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip


def compile(  # noqa: A001 - PyTorch's name
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
) -> Any:
    """Compiles a function or a module; what it computes stays the same.

    Bytecode is captured, differentiated ahead of time and written as fused C, once for each
    combination of dtypes, layouts and decisions; sizes that change become symbols. What can not be
    captured runs in Python (a graph break). Compiled code is kept on disk.

    Args:
        model: the function or module; None for a decorator with settings
        fullgraph: whether a graph break is an error
        dynamic: whether sizes may change from the start (True), never (False), or when a second
            value comes (None)
        backend: a name of `list_backends`, or a function of (graph module, example inputs) that
            gives a callable
        mode: 'default', 'reduce-overhead', 'max-autotune' or 'max-autotune-no-cudagraphs'
        options: settings of the backend by name; `guard_filter_fn` says for each guard of a new
            graph whether it is checked
        disable: whether nothing is done
        name: under which events name it

    Raises:
        Unsupported: at the call, where ``fullgraph=True`` and the graph breaks.

    Example:
        >>> @facula.compile
        ... def f(x):
        ...     return x.sin() + 1
        >>> f(facula.zeros(3))
        tensor([1., 1., 1.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable, name=name,
        )  # fmt: skip
    if disable:
        return model
    if is_exporting():
        warnings.warn(
            "[compile] torch.compile is ignored when called inside torch.export region: what it would compile "
            "is part of the exported program",
            stacklevel=2,
        )
        return model
    session = make_session(backend, mode, options, fullgraph=fullgraph, dynamic=dynamic)
    return compile_with(session, model)


def _as_it_is(model: Any = None, **options: object) -> Any:
    """`compile` where a program is captured already: a function, which becomes part of the graph."""
    if isinstance(model, Module):
        graph_break()  # a compiled module is another module, which Python makes
    return _as_it_is if model is None else model


compile._facula_captured_as = _as_it_is  # type: ignore[attr-defined]


def compile_with(session: Session, model: Any) -> Any:
    """The compiled version of a function, method, module or callable object."""
    if isinstance(model, Module):
        return OptimizedModule(model, session)
    model = marks.original_of(model) or model
    if isinstance(model, types.MethodType) and isinstance(model.__func__, types.FunctionType):
        return _bound(session, model)
    if isinstance(model, types.FunctionType) and not is_transformed(model):
        if model.__code__.co_flags & driver._GENERATOR:
            happened(
                Event(
                    "not captured", "unsupported-instruction", model.__qualname__, None,
                    "generators and async functions run as they are", "compile what they call",
                )
            )  # fmt: skip
            return model
        return session.wrap(model)
    if not callable(model):
        fail(
            TypeError,
            "compile",
            "a callable was required",
            type(model).__name__,
            hint="pass a function or a module",
        )
    if isinstance(model, type):
        return _compiled_class(session, model)
    call = next((vars(b)["__call__"] for b in type(model).__mro__ if "__call__" in vars(b)), None)
    if isinstance(call, types.FunctionType):
        return _bound(session, types.MethodType(call, model))

    def caller(*args: object, **kwargs: object) -> Any:
        return model(*args, **kwargs)

    functools.update_wrapper(caller, model, updated=())
    del caller.__wrapped__  # type: ignore[attr-defined]
    return session.wrap(caller)


def _bound(session: Session, method: types.MethodType) -> Any:
    compiled = types.MethodType(session.wrap(method.__func__), method.__self__)
    return compiled


def _compiled_class(session: Session, cls: type) -> type:
    """A class whose instances call compiled code: its own `__call__` or `forward` is compiled."""
    for name in ("forward", "__call__"):
        if isinstance(vars(cls).get(name), types.FunctionType):
            setattr(cls, name, session.wrap(vars(cls)[name]))
            return cls
    fail(
        TypeError,
        "compile",
        "a class with __call__ or forward was required",
        cls.__name__,
        hint="decorate functions and modules",
    )


def reset() -> None:
    """Forgets all captured and compiled code; what is on disk stays.

    Example:
        >>> facula.compiler.reset()
    """
    driver.reset()


def disable(
    fn: Callable[..., Any] | None = None,
    recursive: bool = True,
    *,
    reason: str | None = None,
    wrapping: bool = True,
) -> Any:
    """Never captures a function: compiled code calls it as it is.

    Args:
        fn: the function; None for a decorator with settings
        recursive: whether what it calls runs in eager, too
        reason: what reports say
        wrapping: kept as in PyTorch

    Example:
        >>> @facula.compiler.disable
        ... def log(x):
        ...     return x * 2
        >>> facula.compile(lambda x: log(x) + 1)(facula.ones(2))
        tensor([3., 3.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward)
        return fn
    if isinstance(fn, type):
        fn.__call__ = disable(fn.__call__)  # type: ignore[method-assign]
        return fn
    fn = marks.original_of(fn) or fn
    if not wrapping and isinstance(fn, types.FunctionType):
        marks.disable(fn, reason)
        return fn

    @functools.wraps(fn)
    def disabled(*args: object, **kwargs: object) -> Any:
        return fn(*args, **kwargs)

    marks.disable(disabled, reason)
    return disabled


def allow_in_graph(fn: Callable[..., Any]) -> Any:
    """Takes calls of a function as one node of the graph, without looking into it.

    Args:
        fn: a function, or several, of tensors

    Example:
        >>> @facula.compiler.allow_in_graph
        ... def opaque(x):
        ...     return x * 2
        >>> facula.compile(lambda x: opaque(x) + 1, fullgraph=True)(facula.ones(2))
        tensor([3., 3.])
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        fail(
            TypeError,
            "allow_in_graph",
            "a callable was required",
            type(fn).__name__,
            hint="pass the function itself",
        )
    marks.allow_in_graph(fn)
    return fn


def disallow_in_graph(fn: Callable[..., Any]) -> Any:
    """Breaks the graph at calls of a function.

    Args:
        fn: a function, or several

    Example:
        >>> def plain(x):
        ...     return x * 2
        >>> _ = facula.compiler.disallow_in_graph(plain)
        >>> facula.compile(lambda x: plain(x) + 1)(facula.ones(2))
        tensor([3., 3.])
    """
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(one) for one in fn]
    marks.disallow_in_graph(fn)
    return fn


def substitute_in_graph(original_fn: Callable[..., Any], **options: object) -> Callable[[Any], Any]:
    """Follows another function, written in Python, wherever a given one is called.

    Args:
        original_fn: what is called, such as a function written in C
        **options: kept as in PyTorch

    Returns:
        a decorator of the function that is followed.

    Example:
        >>> import math
        >>> @facula.compiler.substitute_in_graph(math.cbrt)
        ... def cbrt(x):
        ...     return x ** (1 / 3)
        >>> round(cbrt(8.0), 6)
        2.0
    """

    def put(traceable: Callable[..., Any]) -> Any:
        def follow(d: Any, args: list, kwargs: dict) -> Any:
            return d.call(d.trusted(traceable), args, kwargs)

        RULES[original_fn] = follow
        return traceable

    return put


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function on NumPy arrays as one on tensors; compiled, gradients flow through it.

    Args:
        fn: of arrays

    Example:
        >>> import numpy
        >>> double = facula.compiler.wrap_numpy(lambda a: numpy.add(a, a))
        >>> double(facula.ones(2))
        tensor([2., 2.])
    """

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> Any:
        words = {name: array_of_tensor(value) for name, value in kwargs.items()}
        result = fn(*map(array_of_tensor, args), **words)
        if isinstance(result, (tuple, list)):
            return type(result)(core.as_tensor(item) for item in result)
        return core.as_tensor(result)

    return wrapped


def cudagraph_mark_step_begin() -> None:
    """Says that a new step begins; nothing follows from it here, since no buffers are kept between
    calls.

    Example:
        >>> facula.compiler.cudagraph_mark_step_begin()
    """


class set_stance:  # noqa: N801 - PyTorch's name
    """What compiled functions do from now on, or inside of a block.

    Args:
        stance: 'default'; 'force_eager' runs the functions as they stand; 'eager_on_recompile'
            never captures anew; 'fail_on_recompile' makes that an error
        skip_guard_eval_unsafe: whether guards are believed to hold
        force_backend: a backend in the place of all others

    Raises:
        RuntimeError: the stance is unknown.

    Example:
        >>> fast = facula.compile(lambda x: x + facula.compiler.is_compiling())
        >>> with facula.compiler.set_stance("force_eager"):
        ...     fast(facula.zeros(1))
        tensor([0.])
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        self.stance = stances.stance_of(stance, force_backend)
        self.before = driver.set_stance(self.stance)

    def __enter__(self) -> set_stance:
        driver.set_stance(self.stance)
        return self

    def __exit__(self, *error: Any) -> None:
        driver.set_stance(self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        driver.set_stance(self.before)

        @functools.wraps(function)
        def within(*args: object, **kwargs: object) -> Any:
            before = driver.set_stance(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                driver.set_stance(before)

        return within


stances.BACKEND_BY_NAME[0] = lambda name: (lookup_backend(name), specialises(name))


@contextlib.contextmanager
def listening(listener: Callable[[Event], None]) -> Iterator[None]:
    """Send events to a function inside of a `with` block."""
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)
