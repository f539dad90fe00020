"""Settings of capture, under PyTorch's names.

Takes: attribute assignments (`facula._dynamo.config.name = value`), or `patch(name=value)`.
Gives: the settings. Keeps true: an unknown name is an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail

#: captured segments of one place of the program, before others run in eager
recompile_limit = 8
#: the same for all places of one code object
accumulated_recompile_limit = 256
#: combinations of sizes for which a dynamic graph stays compiled, the last ones that were used
sizes_kept = 256
#: values that are taken of an iterator at once; one that has more is left to Python
iteration_limit = 100_000
#: make a recompile an error
error_on_recompile = False
#: make the recompile limit an error
fail_on_recompile_limit_hit = False
#: go on in eager where the compiler or a backend fails: an event, a count and a warning each, no error
suppress_errors = False
#: sizes are static until a second value is seen
assume_static_by_default = True
#: sizes become dynamic at their second value
automatic_dynamic_shapes = True
#: tensors and ints whose sizes and values may change from the start, as `L['x'], L['self'].scale`, or patterns
dynamic_sources = ""
#: `item()`, `tolist()` and `int()` of tensors are part of the graph, whose numbers may change with every call
capture_scalar_outputs = False
#: so are operators whose result has a shape that its elements decide, as `nonzero`
capture_dynamic_output_shape_ops = False
#: print the reason of every recompile as a warning
verbose = False
#: ask for no Python in the dispatch of a disabled compiler
disable = False
#: compile backward runs that compiled functions start
compiled_autograd = False

_NAMES = frozenset(name for name in dict(globals()) if not name.startswith("_")) - {
    "annotations",
    "contextlib",
    "Iterator",
    "Any",
    "fail",
}
_ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
}


def names() -> frozenset[str]:
    """The settings that there are."""
    return _NAMES


@contextlib.contextmanager
def patch(changes: Any = None, value: object = None, **more: object) -> Iterator[None]:
    """Settings with other values inside of a `with` block or a function."""
    wanted = {changes: value} if isinstance(changes, str) else dict(changes or {})
    wanted.update(more)
    wanted = {_ALIASES.get(name, name): new for name, new in wanted.items()}
    unknown = [name for name in wanted if name not in _NAMES]
    if unknown:
        fail(
            AttributeError,
            "config",
            "a setting of capture was required",
            got=unknown[0],
            hint="dir(facula._dynamo.config) lists them",
        )
    before = {name: globals()[name] for name in wanted}
    globals().update(wanted)
    try:
        yield
    finally:
        globals().update(before)
