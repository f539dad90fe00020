"""What compiling produced, counted.

Takes: calls of the compiler. Gives: counters as attributes, and `reset`.
Keeps true: counters only grow until `reset`.
"""

from __future__ import annotations

generated_kernel_count = 0
extern_call_count = 0
ir_nodes_pre_fusion = 0
compiled_units = 0
cached_units = 0


def reset() -> None:
    """Start counting anew."""
    for name, value in list(globals().items()):
        if isinstance(value, int) and not name.startswith("_"):
            globals()[name] = 0
