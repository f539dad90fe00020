"""C text that the kernels of programs share: names, pointers, heads of functions, blocks of a row.

Takes: `lower.loops.programs.Swept`. Gives: `ProgramSweeps`, the loops of `sweeps` for tensors of any
size; `head`, `body` and `driver`, the functions around them; `Program`, what `reduction`, `rowwise`
and `scan` say of a program.
Keeps true: a function's text depends on the program, the dtype and the machine's registers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from facula.codegen.c.fused_stream import Streams
from facula.codegen.c.fused_text import Names
from facula.codegen.c.loops_text import STORED, indent
from facula.codegen.c.sweeps import Sweeps
from facula.lower.loops import sweeps as nest
from facula.lower.loops.index import Var
from facula.lower.loops.ir import Buffer, Named
from facula.lower.loops.programs import AT, Size, Swept
from facula.ops import rows
from facula.ops.scalar_node import Scalar


class ProgramNames(Names):
    """Names that programs give: operands `x<i>`, results `y<i>`, sizes as the launch knows them."""

    def __init__(self) -> None:
        super().__init__(dynamic=False)

    def buffer(self, buffer: Buffer) -> str:
        return buffer.name

    def variable(self, variable: Var) -> str:
        return variable.name

    def number(self, value: int) -> str:
        return value.text if isinstance(value, Size) else super().number(value)

    def parameter(self, parameter: Scalar) -> str:
        return f"parameter_{parameter.value}"


class ProgramSweeps(Sweeps):
    """The loops of a program's sweeps, in rows (`width` 0) or in tiles."""

    # a pass that runs twice would add twice to sums over rows
    fast_forms = False

    def __init__(self, program: Swept, width: int, vector_bytes: int) -> None:
        names = ProgramNames()
        super().__init__(names, AT, width, vector_bytes, Streams(names, frozenset(), AT))
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

    def pointers(
        self, program: rows.ReductionProgram | rows.RowProgram, offset: Callable[[str], str]
    ) -> list[str]:
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


def driver(name: str, statement: str) -> list[str]:
    """A driver of one statement."""
    return [
        f"static int {name}(char *const *p, const int64_t *n, const fk_scalar *s, "
        "const fk_runtime *rt)",
        "{",
        f"    {statement}",
        "}",
    ]
