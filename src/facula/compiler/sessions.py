"""Sessions of the compiler: a backend with its options, and how far a program is to be captured.

Takes: what `compile` is told. Gives: `make_session`.
Keeps true: a session is made of plain values, so that what was compiled can be pickled and compiled anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula.capture.driver import Session
from facula.capture.guards.hooks import GuardHooks
from facula.compiler.backends import lookup_backend, specialises
from facula.compiler.options import MODES
from facula.core.errors import fail

__all__ = ["make_session"]


def make_session(
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    hooks: GuardHooks | None = None,
) -> Session:
    """A session of the compiler that has captured nothing yet."""
    if options is not None and "guard_filter_fn" in options:
        options = dict(options)
        keep = options.pop("guard_filter_fn")
        hooks = (hooks or GuardHooks())._replace(keep=keep)
    return Session(
        _backend(backend, mode, options),
        fullgraph=fullgraph,
        dynamic=dynamic,
        name=backend if isinstance(backend, str) else getattr(backend, "__name__", "custom"),
        specialises=specialises(backend),
        hooks=hooks,
    )


def _backend(backend: Any, mode: str | None, options: dict[str, Any] | None) -> Callable[..., Any]:
    """The backend with its options."""
    if mode is not None and options is not None:
        fail(
            RuntimeError,
            "compile",
            "either mode or options was required (Either mode or options can be specified, but both "
            "can't be specified at the same time.)",
            f"mode={mode!r} and options={options!r}",
            hint="leave one of them out: a mode is a set of options",
        )
    if mode is not None and mode not in MODES:
        fail(
            RuntimeError,
            "compile",
            f"a mode out of {', '.join(MODES)} was required (Unrecognized mode)",
            repr(mode),
            hint="'default' is the usual one",
        )
    function = lookup_backend(backend)
    if backend == "inductor":
        chosen = {**MODES[mode or "default"], **(options or {})}
        return functools.partial(function, options=chosen) if chosen else function
    words: dict[str, Any] = {}
    if mode is not None and mode != "default":
        words["mode"] = mode
    if options is not None:
        words["options"] = options
    return functools.partial(function, **words) if words else function
