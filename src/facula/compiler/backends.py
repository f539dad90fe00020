"""Backends by name: what turns a captured graph into something callable.

Takes: `register_backend(function)`, or a name. Gives: `(GraphModule, example_inputs) -> callable`.
Keeps true: a backend of facula's own is imported when it is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from facula.capture.errors import InvalidBackend
from facula.core.errors import fail

Backend = Callable[..., Any]

_BACKENDS: dict[str, Backend] = {}
_TAGS: dict[str, tuple[str, ...]] = {}
#: name -> (module, function, tags) of facula's own
_OWN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "inductor": ("facula.compiler.backend", "compile_fx", ()),
    "eager": ("facula.compiler.backends", "eager", ("debug",)),
    "aot_eager": ("facula.lower.aot.backend", "aot_eager", ("debug",)),
    "aot_eager_default_partitioner": (
        "facula.lower.aot.backend",
        "aot_eager_default_partitioner",
        ("debug",),
    ),
}


def eager(graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
    """Runs the captured graph as it is."""
    return graph_module.forward


def register_backend(
    compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Make a backend known by a name; usable as a decorator, with or without arguments."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    key = name or compiler_fn.__name__
    _BACKENDS[key] = compiler_fn
    _TAGS[key] = tuple(tags)
    return compiler_fn


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names of the backends, without those that carry one of the tags."""
    tags = {**{name: own[2] for name, own in _OWN.items()}, **_TAGS}
    excluded = set(exclude_tags or ())
    return sorted(name for name, own in tags.items() if not excluded & set(own))


def specialises(backend: str | Backend) -> bool:
    """Whether a backend compiles for the sizes of its example inputs only."""
    if isinstance(backend, str):
        return backend in _OWN and backend != "eager"
    return bool(getattr(backend, "specialises", False))


def lookup_backend(backend: str | Backend) -> Backend:
    """A backend by its name, or itself."""
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
        register_backend(getattr(import_module(module), function), backend, tags)
    return _BACKENDS[backend]
