"""Where an elementwise operator appears in the public API.

Takes: names.
Gives: `functions_and_methods`, the tuple for `names=`.
Keeps true: a name without a prefix is a function and a method.
"""

from __future__ import annotations

from facula.ops.expr.scalar import Runtime

#: marks a number that a prebuilt kernel reads at run time
RUNTIME = Runtime()


def functions_and_methods(*names: str, special: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Each name as `facula.name` and `Tensor.name`, then each of `special` as `facula.special.name`."""
    places: list[str] = []
    for name in names:
        places += [name, "Tensor." + name]
    return (*places, *("special." + name for name in special))
