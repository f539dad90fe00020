"""The manifest of translation units that make up a kernel library.

Takes an instruction-set variant; gives `UNITS`, a tuple of places that write C.  Each is
`module:function`; the function takes an `Isa` and gives either the C text of one translation unit
or an iterable of `(name, text)` pairs, for a family that is too much for one compiler process.
Keeps true: a unit exports `facula_kernels` and `facula_abi` as `facula_abi.h` says, and everything
else in it is static.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from zlib import crc32

from facula.codegen.c import pointwise, reduction, rowwise
from facula.codegen.c import templates as template_package
from facula.codegen.c.isa import Isa
from facula.ops import (
    reduction_programs,  # noqa: F401  (fills the table)
    row_programs,  # noqa: F401  (fills the table)
    rows,
)
from facula.ops.pointwise import quantization  # noqa: F401 - its definitions are not imported with the others
from facula.ops.registry import TABLE

POINTWISE_UNITS = 16
PROGRAMS_PER_UNIT = 6
# families (the first word of a unit's name) that lose a quarter or more of their speed at the common
# level: what folds lanes wants short loops unrolled, what branches per element wants all of -O3
RAISED: dict[str, tuple[str, ...]] = {
    "reduction": ("-fpeel-loops",),
    "rowwise": ("-fpeel-loops",),
    "sort": ("-O3",),
    "pool": ("-O3",),
}

Parts = Iterator[tuple[str, str]]


def _parts(family: str, write: Callable[..., str], names: Iterable[str], isa: Isa) -> Parts:
    """A family of programs in several units, that they may be compiled side by side."""
    chosen = list(names)
    for first in range(0, len(chosen), PROGRAMS_PER_UNIT):
        part = chosen[first : first + PROGRAMS_PER_UNIT]
        yield f"{family}_{part[0]}", write(isa, part)


def reductions(isa: Isa) -> Parts:
    """The reductions of the operator table."""
    return _parts("reduction", reduction.unit, rows.REDUCTION_PROGRAMS, isa)


def row_programs_units(isa: Isa) -> Parts:
    """Normalisation, softmax, losses and their gradients."""
    return _parts("rowwise", rowwise.unit, rows.ROW_PROGRAMS, isa)


@cache
def _pointwise_kernels() -> tuple[tuple[str, Any], ...]:
    return tuple(pointwise.all_kernels(TABLE))


def elementwise(isa: Isa) -> Parts:
    """Pointwise operators and their gradients; an operator's unit follows from its name alone.

    So a new operator, or one that changed, has only its own unit compiled again.
    """
    parts: dict[int, list[tuple[str, Any]]] = {}
    for name, traced in _pointwise_kernels():
        operator = name.partition(":")[0].partition(".")[0]
        parts.setdefault(crc32(operator.encode()) % POINTWISE_UNITS, []).append((name, traced))
    for number, kernels in sorted(parts.items()):
        yield f"pointwise_{number}", pointwise.unit(isa, kernels)


def templates(isa: Isa) -> Parts:
    """Every template module with a `unit` or `units` of its own."""
    for module in iter_modules(template_package.__path__):
        template = import_module(f"{template_package.__name__}.{module.name}")
        if hasattr(template, "units"):
            yield from template.units(isa)
        elif hasattr(template, "unit"):
            yield module.name, template.unit(isa)


UNITS: tuple[str, ...] = (
    "units:reductions",
    "units:row_programs_units",
    "units:elementwise",
    "units:templates",
    "facula.codegen.c.multi_tensor:unit",
    "facula.codegen.c.scan:unit",
)
