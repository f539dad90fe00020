"""The manifest of translation units that make up a kernel library.

Takes an instruction-set variant; gives `UNITS`, a tuple of places that write C, and `writers`, the
same one by one for who wants few of them. Each is `module:function`; the function takes an `Isa`
and gives either the C text of one translation unit or an iterable of `(name, text)` pairs, for a
family that is too much for one compiler process.
Keeps true: a unit exports `facula_kernels` and `facula_abi` as `facula_abi.h` says, and everything
else in it is static.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from pkgutil import walk_packages
from typing import Any
from zlib import crc32

from facula.codegen.c import kernels as template_package
from facula.codegen.c.isa import Isa
from facula.codegen.c.loops import multi_tensor, pointwise, reduction, rowwise, scan
from facula.codegen.c.loops.translation_unit import Kernel, translation_unit
from facula.ops.expr import rows
from facula.ops.pointwise import quantization  # noqa: F401 - its definitions are not imported with the others
from facula.ops.programs import reduction as reduction_programs  # noqa: F401  (fills the table)
from facula.ops.programs import row as row_programs  # noqa: F401  (fills the table)
from facula.ops.table.registry import own_operators

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
# families whose loops end one by one, without a second loop of shorter vectors, which is a quarter of their
# code: optimizers run on long arrays, and complex numbers are rare
_ONE_BY_ONE = ("--param=vect-epilogues-nomask=0",)
SHORTENED: dict[str, tuple[str, ...]] = {"multi": _ONE_BY_ONE, "complex": _ONE_BY_ONE}
# processors without AVX2 are rare, and make do without what `RAISED` gains
_PLAIN = frozenset({"v2"})

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
    return tuple(pointwise.all_kernels(own_operators()))


def elementwise(isa: Isa) -> Parts:
    """Pointwise operators and their gradients; an operator's unit follows from its name alone.

    So a new operator, or one that changed, has only its own unit compiled again. A kernel that an operator
    before it has too (`special_i1` is `i1`) lies beside that one, and is there once. Those of complex numbers
    have units of their own.
    """
    parts: dict[str, list[Kernel]] = {}
    places: dict[str, str] = {}
    for name, traced in _pointwise_kernels():
        operator, _, code = name.partition(":")
        kernel = pointwise.written(name, traced)
        family, count = (
            ("complex", 4) if code in ("c64", "c128") else ("pointwise", POINTWISE_UNITS)
        )
        number = crc32(operator.partition(".")[0].encode()) % count
        unnamed = kernel.text.replace(kernel.function, "", 1)
        place = places.setdefault(unnamed, f"{family}_{number}")
        parts.setdefault(place, []).append(kernel)
    for place, kernels in sorted(parts.items()):
        yield place, translation_unit(kernels)


def _templates() -> Iterator[tuple[str, Any]]:
    """The modules of templates by name, whatever package they lie in."""
    found = [
        module.name
        for module in walk_packages(template_package.__path__, f"{template_package.__name__}.")
    ]
    for path in sorted(found, key=lambda path: path.rpartition(".")[2]):
        yield path.rpartition(".")[2], import_module(path)


def templates(isa: Isa) -> Parts:
    """Every template module with a `unit` or `units` of its own."""
    for name, template in _templates():
        if hasattr(template, "units"):
            yield from template.units(isa)
        elif hasattr(template, "unit"):
            yield name, template.unit(isa)


UNITS: tuple[str, ...] = (
    "facula.codegen.c.units:reductions",
    "facula.codegen.c.units:row_programs_units",
    "facula.codegen.c.units:elementwise",
    "facula.codegen.c.units:templates",
    "facula.codegen.c.loops.multi_tensor:unit",
    "facula.codegen.c.loops.scan:unit",
)

#: what units are compiled with beside the flags of the variant: as fast as -O3 for nearly all
#: kernels, in two thirds of the compiler's time (`RAISED` has the exceptions); no exception passes through
#: them, and tables to unwind them would be a fortieth of the library
UNIT_FLAGS = ("-fvisibility=hidden", "-g0", "-fno-asynchronous-unwind-tables")
LEVEL = ("-O2", "-fvect-cost-model=dynamic")
#: a row of a unit's table, one a line
ENTRY = re.compile(
    r'\{\s*"(?P<name>[^"]+)",\s*\'[mbd]\',\s*\(void \*\)\w+,\s*"(?P<operands>[^"]+)"'
)


def own_flags(unit: str, variant: str) -> tuple[str, ...]:
    """What the compiler is told of a unit beyond `UNIT_FLAGS` and `LEVEL`."""
    family = unit.partition("_")[0]
    raised = () if variant in _PLAIN else RAISED.get(family, ())
    return (*raised, *SHORTENED.get(family, ()))


INDEX = """\
#include "facula_abi.h"
{declarations}
#define COUNT {count}
fk_entry facula_kernels[COUNT + 1];
int64_t facula_gathered;
const int facula_abi = FACULA_ABI;
static const fk_entry *const tables[] = {{ {tables} }};
/* one table out of those of the units, when the library is loaded */
__attribute__((constructor)) static void gather(void) {{
    for (unsigned unit = 0; unit < sizeof tables / sizeof *tables; unit++)
        for (const fk_entry *entry = tables[unit]; entry->name; entry++, facula_gathered++)
            if (facula_gathered < COUNT) facula_kernels[facula_gathered] = *entry;
}}
"""


def index_text(units: Iterable[str], count: int) -> str:
    """C that presents the tables of units with these names as one of `count` kernels."""
    tables = [f"facula_kernels_{name}" for name in units]
    return INDEX.format(
        declarations="\n".join(f"extern const fk_entry {table}[];" for table in tables),
        count=count,
        tables=", ".join(tables),
    )


def writers(isa: Isa) -> Iterator[tuple[str, Callable[[], Iterable[tuple[str, str]]]]]:
    """Every unit, or family of units, with a function that writes it: the quick ones first."""
    for name, template in _templates():
        if hasattr(template, "units"):
            yield name, partial(template.units, isa)
        elif hasattr(template, "unit"):
            yield name, partial(_alone, name, template.unit, isa)
    yield "pointwise", partial(elementwise, isa)
    yield "rowwise", partial(row_programs_units, isa)
    yield "reduction", partial(reductions, isa)
    yield "scan", partial(_alone, "scan", scan.unit, isa)
    yield "multi_tensor", partial(_alone, "multi_tensor", multi_tensor.unit, isa)


def _alone(name: str, write: Callable[[Isa], str], isa: Isa) -> list[tuple[str, str]]:
    """A family of one unit."""
    return [(name, write(isa))]
