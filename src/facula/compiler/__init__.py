"""The front door of the compiler: `facula.compile` and the functions around it.

Takes nothing. Gives: the names below, each imported when it is first asked for.
Keeps true: importing this package imports no other part of the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

_NAMES = {
    **dict.fromkeys(
        "allow_in_graph assume_constant_result compile cudagraph_mark_step_begin disable "
        "disallow_in_graph is_compiling list_backends reset set_stance substitute_in_graph "
        "wrap_numpy".split(),
        "facula.compiler.api",
    ),
    **dict.fromkeys(
        "keep_tensor_guards_unsafe skip_all_guards_unsafe skip_guard_on_all_nn_modules_unsafe "
        "skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe".split(),
        "facula.capture.guards.hooks",
    ),
    "explain": "facula.compiler.explanation",
    "register_backend": "facula.compiler.backends",
    "lookup_backend": "facula.compiler.backends",
    "OptimizedModule": "facula.compiler.optimized_module",
    "is_dynamo_compiling": "facula.compiler.api",
    "is_exporting": "facula.compiler.api",
}
_OTHER = {"is_dynamo_compiling": "is_compiling"}


def __getattr__(name: str) -> Any:
    place = _NAMES.get(name)
    if name == "config":
        return import_module("facula.compiler.config")
    if place is None:
        raise _no_attribute(__name__, name)
    value = getattr(import_module(place), _OTHER.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})


__all__ = sorted(_NAMES)
