"""Backends by name: what turns a captured graph into something callable.

Takes: `register_backend(function)`, or a name. Gives: `(GraphModule, example_inputs) -> callable`.
Keeps true: a backend of facula's own is imported when it is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from facula.capture.errors import InvalidBackend, TorchDynamoException
from facula.capture.guards.handed_on import handed_on
from facula.core.errors import fail

Backend = Callable[..., Any]

_BACKENDS: dict[str, Backend] = {}
_TAGS: dict[str, tuple[str, ...]] = {}
#: name -> (module, function, tags) of facula's own
_OWN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "inductor": ("facula.compiler.backend", "compile_fx", ()),
    "eager": ("facula.compiler.backends", "eager", ("debug",)),
    "eager_noexcept": ("facula.compiler.backends", "eager_noexcept", ("debug",)),
    "aot_eager": ("facula.lower.aot.backend", "aot_eager", ("debug",)),
    "aot_eager_decomp_partition": ("facula.lower.aot.backend", "aot_eager", ("debug",)),
    "aot_eager_default_partitioner": (
        "facula.lower.aot.backend",
        "aot_eager_default_partitioner",
        ("debug",),
    ),
}
#: those of them that run the captured graph itself, for whatever sizes
_AS_CAPTURED = ("eager", "eager_noexcept")


def eager(graph_module: Any, example_inputs: Sequence[Any], **options: object) -> Any:
    """Runs the captured graph as it is."""
    return graph_module.forward


def eager_noexcept(graph_module: Any, example_inputs: Sequence[Any], **options: object) -> Any:
    """Runs the captured graph as it is; what it raises is an error of the compiler."""

    def inner(*args: object) -> Any:
        try:
            return graph_module(*args)
        except Exception as error:
            raise TorchDynamoException(
                "[eager_noexcept] a graph that runs was required: got an unexpected exception when running it"
            ) from error

    return inner


def register_backend(
    compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Makes a backend known by a name; also a decorator.

    Args:
        compiler_fn: of (graph module, example inputs), to a callable of the inputs
        name: None for the function's
        tags: words for `list_backends`

    Example:
        >>> @facula.compiler.register_backend(tags=("debug",))
        ... def counting(module, example_inputs):
        ...     print(len(module.graph.nodes), "nodes")
        ...     return module.forward
        >>> facula.compile(lambda x: x.sin() + 1, backend="counting")(facula.zeros(1))
        4 nodes
        tensor([1.])
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    key = name or compiler_fn.__name__
    _BACKENDS[key] = compiler_fn
    _TAGS[key] = tuple(tags)
    return compiler_fn


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of the backends of `compile`.

    Args:
        exclude_tags: backends with one of these tags are left out

    Example:
        >>> "inductor" in facula.compiler.list_backends()
        True
    """
    tags = {**{name: own[2] for name, own in _OWN.items()}, **_TAGS}
    excluded = set(exclude_tags or ())
    return sorted(name for name, own in tags.items() if not excluded & set(own))


def specialises(backend: str | Backend) -> bool:
    """Whether a backend compiles for the sizes of its example inputs only."""
    if isinstance(backend, str):
        return backend in _OWN and backend not in _AS_CAPTURED
    return bool(getattr(backend, "specialises", False))


def _for_handed_on(function: Backend) -> Backend:
    """A backend that compiles for its examples, for captured graphs that another backend hands on, too."""

    @functools.wraps(function)
    def backend(
        module: object, example_inputs: Sequence[Any], *args: object, **words: object
    ) -> Any:
        again = functools.partial(function, *args, **words)
        whole = handed_on(again, module, list(example_inputs))
        return function(module, example_inputs, *args, **words) if whole is None else whole

    return backend


def lookup_backend(backend: str | Backend) -> Backend:
    """A backend by its name.

    Args:
        backend: the name; what is none is given back

    Raises:
        InvalidBackend: nothing has the name.

    Example:
        >>> callable(facula.compiler.lookup_backend("eager"))
        True
    """
    if not isinstance(backend, str):
        return backend
    if backend not in _BACKENDS:
        if backend not in _OWN:
            # lazily: for messages only
            import difflib

            near = difflib.get_close_matches(backend, [*_OWN, *_BACKENDS])
            hint = (
                f"did you mean {near[0]!r}?" if near else "see facula.compiler.list_backends(None)"
            )
            fail(
                InvalidBackend,
                "compile",
                f"a backend out of {', '.join(list_backends(None))} was required",
                got=repr(backend),
                hint=hint,
            )
        module, function, tags = _OWN[backend]
        found = getattr(import_module(module), function)
        register_backend(found if backend in _AS_CAPTURED else _for_handed_on(found), backend, tags)
    return _BACKENDS[backend]
