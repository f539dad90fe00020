"""The compiler's options, by the names that PyTorch programs set.

Takes: assignments, `patch`, the `options=` and `mode=` of `facula.compile`. Gives: attributes.
Keeps true: an unknown name is an error that lists the known ones; `patch` restores what was there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.core.named_settings import Setting

#: name -> (default, meaning)
OPTIONS: dict[str, tuple[Any, str]] = {
    "equal_rounding": (False, "round 16-bit floats after each operator, as eager does"),
    "freezing": (True, "without gradients: pack weights and fold batch norms ahead of the calls"),
    "max_autotune": (False, "choose kernels of frozen products by measurement, once a machine"),
    "max_autotune_gemm": (False, "the same for matrix products only"),
    "dynamic": (False, "sizes are arguments of the kernels"),
    "force_disable_caches": (False, "compile and measure anew, whatever the disk holds"),
    "trace.enabled": (False, "write every stage to the folder facula_trace, as FACULA_TRACE does"),
    "epilogue_fusion": (True, "without gradients: products take what follows them"),
    "debug": (False, "verify the program after each pass"),
    "layout_optimization": (True, "keep images channels last between convolutions"),
    "pattern_matcher": (True, "recognise attention written by hand"),
    "coordinate_descent_tuning": (False, "Triton's kernels only: PyTorch programs set it"),
    "coordinate_descent_check_all_directions": (False, "Triton's kernels only"),
    "force_fuse_int_mm_with_mul": (False, "products of integers take what follows them anyway"),
    "fx_graph_cache": (
        True,
        "compiled graphs are kept on disk, unless force_disable_caches says no",
    ),
    "triton.unique_kernel_names": (False, "Triton's kernels only"),
    "triton.cudagraphs": (
        False,
        "tell, as an event, which graphs are more than one call of the core",
    ),
}

#: mode -> options, as PyTorch has them. A graph of kernels alone is one call of the core in every mode, so
#: that "reduce-overhead" finds nothing to add; for other graphs an event says so (`backend.tell_of_modes`)
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}

_values: dict[str, Any] = {}


def _known(name: str) -> str:
    if name not in OPTIONS:
        fail(
            RuntimeError,
            "inductor.config",
            f"an option was required, one of {', '.join(sorted(OPTIONS))}",
            got=f"Unexpected optimization option {name}",
            hint="leave it out for the default",
        )
    return name


def get(name: str) -> Any:
    """The present value of an option."""
    return _values.get(_known(name), OPTIONS[name][0])


def set(name: str, value: Any) -> None:
    """Give an option a value."""
    _values[_known(name)] = value


def setting(name: str) -> Setting:
    """An option as a setting of another module."""
    return Setting(functools.partial(get, name), functools.partial(set, name))


def snapshot() -> dict[str, Any]:
    """All options."""
    return {name: get(name) for name in OPTIONS}


@contextlib.contextmanager
def patch(changes: Any = None, **more: Any) -> Iterator[None]:
    """A block with other values: `patch({"name": value})`, `patch(name=value)` or `patch("name", value)`."""
    if isinstance(changes, str):
        changes = {changes: more.pop("value")}
    before = dict(_values)
    for name, value in {**(changes or {}), **more}.items():
        set(name, value)
    try:
        yield
    finally:
        _values.clear()
        _values.update(before)


def chosen(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """The options that `facula.compile` was given, checked.

    Raises:
        RuntimeError: an unknown mode or option, or a value of the wrong type.
    """
    found: dict[str, Any] = {}
    if mode is not None:
        if mode not in MODES:
            fail(
                RuntimeError,
                "compile",
                f"a mode was required, one of {', '.join(MODES)}",
                got=f"Unrecognized mode={mode}",
                hint="'default' is the usual one",
            )
        found |= MODES[mode]
    for name, value in (options or {}).items():
        name = name.replace("-", "_")
        default = OPTIONS[_known(name)][0]
        if type(value) is not type(default):
            fail(
                RuntimeError,
                "compile",
                f"a value of type {type(default).__name__} was required for {name}",
                got=f"Unexpected type of attr {name}, got {type(value).__name__}",
                hint=f"for example {default!r}, the default",
            )
        found[name] = value
    return found
