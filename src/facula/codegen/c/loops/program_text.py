"""C text that the kernels of programs share: names, pointers, heads of functions, blocks of a row.

Takes: `lower.loops.programs.Swept`. Gives: `ProgramSweeps`, the loops of `sweeps` for tensors of any
size; `body` and `driver`, the functions around them; `operands_of`, what they say of a program's
operands; `Family`, the kernels of a table of programs.
Keeps true: a function's text depends on the program, the dtype and the machine's registers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from facula.codegen.c.entries import item, operands
from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops import translation_unit as loops_unit
from facula.codegen.c.loops.fused_non_temporal import NonTemporal
from facula.codegen.c.loops.printer import Names
from facula.codegen.c.loops.sweeps import Sweeps
from facula.codegen.c.loops.text import STORED, indent
from facula.lower.loops import sweeps as nest
from facula.lower.loops.index import Var
from facula.lower.loops.ir import Buffer, Named
from facula.lower.loops.programs import AT, Size, Swept
from facula.ops.expr import rows
from facula.ops.expr.node import Scalar

AnyProgram: TypeAlias = rows.ReductionProgram | rows.RowProgram | rows.ScanProgram


class ProgramNames(Names):
    """Names that programs give: operands `x<i>`, results `y<i>`, sizes as the launch knows them.

    `spelled` is what a layout has in the place of some of them.
    """

    cuts_choices = False

    def __init__(self) -> None:
        super().__init__(dynamic=False)
        self.spelled: Mapping[str, str] = {}

    def buffer(self, buffer: Buffer) -> str:
        return self.spelled.get(buffer.name, buffer.name)

    def variable(self, variable: Var) -> str:
        return self.spelled.get(variable.name, variable.name)

    def number(self, value: int) -> str:
        return value.text if isinstance(value, Size) else super().number(value)

    def parameter(self, parameter: Scalar) -> str:
        return f"parameter_{parameter.value}"


class ProgramSweeps(Sweeps):
    """The loops of a program's sweeps, in rows (`width` 0) or in tiles."""

    # a pass that runs twice would add twice to sums over rows
    fast_forms = False
    names: ProgramNames

    def __init__(self, program: Swept, width: int, vector_bytes: int) -> None:
        names = ProgramNames()
        super().__init__(names, AT, width, vector_bytes, NonTemporal(names, frozenset(), AT))
        self.program = program

    def named(self, value: Named, dtype: str) -> str:
        """The C text of a named value."""
        if value.kind == "origin":
            return "origin"
        return f"scalar{value.number}" if value.kind == "scalar" else super().named(value, dtype)

    def block_start(self, sweep: nest.Sweep) -> list[str]:
        return []

    def block_loop(self, sweep: nest.Sweep, body: list[str], first: str, last: str) -> list[str]:
        """Blocks where there is something to join; else the row at once."""
        if not sweep.reductions:
            return [
                "{",
                f"    const int64_t origin = {first}, stop = {last};",
                *indent(body),
                "}",
            ]
        return [
            f"for (int64_t origin = {first}; origin < {last}; origin += {self.size}) {{",
            f"    const int64_t stop = origin + {self.size} < {last} ? origin + {self.size} : {last};",
            *indent(body),
            "}",
        ]

    def skip(self, sweep: nest.Sweep) -> list[str]:
        """Leave a block whose first fold can not improve the state."""
        conditions = [r.improves for r in sweep.reductions if r.improves is not None]
        if self.tiled or not conditions:
            return []
        lines, (condition,) = self.evaluate(conditions)
        return [*lines, f"if (!({condition})) continue;"]

    def pointers(self, program: AnyProgram, offset: Callable[[str], str]) -> list[str]:
        """Pointers at the row or tile, by the place of an operand; sums over rows have theirs."""
        lines = []
        outputs = zip(self.program.outputs, program.outputs, strict=True)
        for k, (buffer, operand) in enumerate(outputs):
            kind = STORED[buffer.code]
            if operand.place != "column":
                lines.append(
                    f"{kind} *restrict {buffer.name} = ({kind} *)p[{k}] + {offset(operand.place)};"
                )
        inputs = zip(self.program.inputs, program.inputs, strict=True)
        for k, (buffer, operand) in enumerate(inputs, len(program.outputs)):
            kind = f"const {STORED[buffer.code]}"
            lines.append(
                f"{kind} *restrict {buffer.name} = ({kind} *)p[{k}] + {offset(operand.place)};"
            )
        return lines


# --- functions
def parameters(names: Sequence[str]) -> list[str]:
    """Runtime numbers, read from `s`."""
    return [f"const double parameter_{name} = s[{k}].f;" for k, name in enumerate(names)]


def body(
    name: str, sizes: str, start: Sequence[str], item: str, lines: Iterable[str], step: int = 1
) -> list[str]:
    """A body kernel: `sizes` are the names of `n`, `item` runs over what it is given."""
    known = [word.strip() for word in sizes.split(",")]
    return [
        f"static void {name}(char *const *p, const int64_t *n, const fk_scalar *s, "
        "int64_t begin, int64_t end)",
        "{",
        f"    const int64_t {', '.join(f'{word} = n[{k}]' for k, word in enumerate(known))};",
        f"    {', '.join(f'(void){word}' for word in [*known, 's'])};",
        *indent(list(start)),
        f"    for (int64_t {item} = begin; {item} < end; {item} += {step}) {{",
        *indent(list(lines), 2),
        "    }",
        "}",
    ]


def driver(name: str, *statements: str) -> list[str]:
    """A driver of these statements."""
    return [
        f"static int {name}(char *const *p, const int64_t *n, const fk_scalar *s, "
        "const fk_runtime *rt)",
        "{",
        *indent(statements),
        "}",
    ]


def operands_of(
    program: AnyProgram, storage: str, sizes: int, extents: Mapping[str, str], *more: str
) -> str:
    """What a driver says of a program's operands; `extents` is by place, `out <place>` for results
    that differ."""
    items = [
        item(
            mode,
            each.name,
            rows.storage_dtype(each, storage),
            extents.get(f"{side}{each.place}", extents[each.place]),
        )
        for mode, side, group in (("w", "out ", program.outputs), ("r", "", program.inputs))
        for each in group
    ]
    return operands(sizes, len(program.parameters), *items, *more)


class Family:
    """The kernels of a table of programs, and their units.

    Args:
        table: the programs by name.
        kernel: the kernel of a program for a storage dtype and a variant.
        prelude: what a unit starts with.
    """

    def __init__(
        self,
        table: Mapping[str, Any],
        kernel: Callable[[Any, str, Isa], loops_unit.Kernel],
        prelude: str,
    ) -> None:
        self.table, self.kernel, self.prelude = table, kernel, prelude

    def kernels(
        self, variant: str | Isa, names: Iterable[str] | None = None
    ) -> list[loops_unit.Kernel]:
        """Every program (or those named), for all its storage dtypes."""
        chosen, machine = self.table if names is None else names, isa(variant)
        return [
            self.kernel(self.table[name], storage, machine)
            for name in chosen
            for storage in self.table[name].dtypes
        ]

    def unit(self, variant: str | Isa, names: Iterable[str] | None = None) -> str:
        """A translation unit with the programs."""
        return loops_unit.translation_unit(self.kernels(variant, names), self.prelude)
