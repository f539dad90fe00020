"""Settings of capture, under PyTorch's names.

Takes: attribute assignments, by `facula._dynamo.config`, which knows the names and patches them.
Gives: the settings. Keeps true: each has a comment that says what it does.
"""

from __future__ import annotations

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
#: make a symbolic trace of a compiled function an error; else what it was made of is traced
error_on_nested_fx_trace = True
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
#: exported programs check relations of sizes at their door only, whatever `export` was told of deferred checks
do_not_emit_runtime_asserts = False
_NAMES = frozenset(name for name in dict(globals()) if not name.startswith("_")) - {"annotations"}
#: older names of settings
_ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
}


def names() -> frozenset[str]:
    """The settings that there are."""
    return _NAMES
