"""C text of row programs: drivers that run a fused program over every row.

Takes: a `RowProgram`, a storage dtype and an instruction-set variant.
Gives: a driver `name:dtype` with `p` = outputs, inputs, `n` = outer, length, inner, period, group
and `s` = parameters, for contiguous full operands `[outer, length, inner]`, row operands `[outer,
inner]` (or `[period]`, where row `r` reads value `r % period`), group operands (row `r` reads value
`r / group`) and column operands `[length]`; with a period or a group, inner is 1. `unit` gives the
C of a whole library.
Keeps true: each row is computed by one thread in a fixed order, and column results (sums over rows)
are summed in slots whose number depends on the shape only: no result depends on the number of
threads.

Programs with column results exist for inner == 1 only; the others in two layouts, `rows` and
`tiles`.
"""

from __future__ import annotations

from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops import text
from facula.codegen.c.loops import translation_unit as loops_unit
from facula.codegen.c.loops.program_text import (
    Family,
    ProgramSweeps,
    body,
    driver,
    operands_of,
    parameters,
)
from facula.codegen.c.loops.sweeps import homes
from facula.codegen.c.loops.text import SIZE, STORED, indent
from facula.lower.loops.programs import row_program
from facula.ops.expr import rows
from facula.ops.programs import row as row_programs  # noqa: F401  (fills the table)

#: neighbouring rows of a tile; at most so many slots, each of at least so many rows where there are
#: enough
TILE = 128
#: elements of a tile that stay in the second-level cache
CACHE = 65536

PLAN = f"""\
enum {{ ROW_TILE = {TILE}, ROW_CACHE = {CACHE} }};
/* run a row program: by rows or tiles; by slots of rows where it wants scratch or sums over rows */
static int fk_rowwise(char *const *p, int pointers, const int64_t *n, const fk_scalar *s,
                      const fk_runtime *rt, fk_body rows,
                     fk_body tiles, fk_body join, int sums, int64_t scratch_bytes)
{{
    const int64_t outer = n[0], length = n[1], inner = n[2], period = n[3], group = n[4];
    const int64_t cost = length + 16;
    if (outer * inner == 0) return 0;
    char *q[16];
    for (int k = 0; k < pointers; k++) q[k] = p[k];
    if (inner > 1) {{
        int64_t tile = ROW_TILE; /* as wide as stays in the second-level cache */
        while (tile > 16 && tile * length > ROW_CACHE) tile /= 2;
        const int64_t m[6] = {{outer, length, inner, period, tile, group}};
        const int64_t across = (inner + tile - 1) / tile;
        const int64_t work = cost * (inner < tile ? inner : tile);
        rt->parallel(tiles, q, m, s, outer * across, work < 16384 ? 16384 / work : 1);
        return 0;
    }}
    if (scratch_bytes == 0) {{
        const int64_t m[6] = {{outer, length, inner, period, outer, group}};
        rt->parallel(rows, q, m, s, outer, cost < 16384 ? 16384 / cost : 1);
        return 0;
    }}
    int64_t slots = outer / 128 < 32 ? 32 : outer / 128 < 256 ? outer / 128 : 256;
    if (slots > outer) slots = outer;
    q[pointers] = (char *)rt->scratch(slots * (length + 16) * scratch_bytes);
    if (!q[pointers]) return 1;
    const int64_t m[6] = {{outer, length, inner, period, slots, group}};
    const int64_t work = cost * (outer / slots);
    rt->parallel(rows, q, m, s, slots, work < 16384 ? 16384 / work : 1);
    if (sums) rt->parallel(join, q, m, s, length, 1024);
    rt->release(q[pointers]);
    return 0;
}}
"""


SIZES = "outer, length, inner, period, slots, group"


class _Generator:
    """The functions of one row program for one storage dtype."""

    def __init__(self, program: rows.RowProgram, storage: str, variant: Isa) -> None:
        self.program, self.storage, self.variant = program, storage, variant
        self.function = loops_unit.identifier(f"{program.name}_{storage}")
        self.compute = rows.COMPUTE[storage]
        self.sums = [k for k, operand in enumerate(program.outputs) if operand.place == "column"]
        self.slot = len(program.outputs) + len(program.inputs)
        self.interleaved = not self.sums and all(o.place != "group" for o in program.inputs)
        self.row = self.sweeps(0, True)
        #: one row each in a slot: (pointer, dtype)
        self.scratch = [
            *((f"t{leaf.value.number}", leaf.dtype) for leaf in self.homeless(self.row)),
            *((f"y{k}", self.compute) for k in self.sums),
        ]

    def sweeps(self, width: int, keep: bool) -> ProgramSweeps:
        """The program's loops in one layout."""
        program = row_program(self.program, self.storage, width > 0, keep)
        loops = ProgramSweeps(program, width, self.variant.vector_bytes)
        loops.homes = homes(program.sweeps, program.kept, lambda store: not store.adds)
        return loops

    @staticmethod
    def homeless(loops: ProgramSweeps) -> list[rows.Scalar]:
        """What is kept between passes in memory of its own."""
        return [leaf for leaf in loops.program.kept if leaf.value.number not in loops.homes]

    # --- text
    def passes(self, loops: ProgramSweeps, offsets: dict[str, str]) -> list[str]:
        """All of what happens to a row or tile that begins at these offsets."""
        lines = loops.pointers(self.program, offsets.__getitem__)
        for sweep in loops.program.sweeps:
            lines += [*loops.sweep(sweep, "0", "length"), *loops.finish(sweep)]
        return lines + loops.row_stores(loops.program.stores)

    def body(self, part: str, item: str, lines: list[str]) -> list[str]:
        """One of the loops."""
        start = parameters(self.program.parameters)
        return body(f"{self.function}_{part}", SIZES, start, item, lines)

    def rows(self) -> list[str]:
        """Row by row; with scratch, a slot of rows an item."""
        uniform = {"row": "(period ? row % period : row)", "group": "row / group"}
        lines = self.passes(self.row, {"full": "row * length", "column": "0", **uniform})
        if not self.scratch:
            return self.body("rows", "row", lines)
        pointers = [
            f"{STORED[dtype]} *restrict {name} = ({STORED[dtype]} *){self.place(k)};"
            for k, (name, dtype) in enumerate(self.scratch)
        ]
        slot = [
            *pointers,
            *[f"memset(y{k}, 0, (size_t)length * sizeof *y{k});" for k in self.sums],
            "const int64_t last = (slot + 1) * outer / slots;",
            "for (int64_t row = slot * outer / slots; row < last; row++) {",
            *indent(lines),
            "}",
        ]
        return self.body("rows", "slot", slot)

    def place(self, number: int) -> str:
        """Where a row of a slot lies in scratch memory."""
        size = SIZE[self.compute]
        return f"(p[{self.slot}] + (({number} * slots + slot) * (length + 16)) * {size})"

    def tiles(self) -> list[str]:
        """A tile of interleaved rows an item; what is kept there lies where results will."""
        loops = self.sweeps(TILE, True)
        if self.homeless(loops):
            loops = self.sweeps(TILE, False)
        full = "row * length * inner + column"
        lines = [
            "const int64_t across = (inner + slots - 1) / slots, row = item / across;",
            "const int64_t column = item % across * slots, cell = row * inner + column;",
            "const int64_t width = inner - column < slots ? inner - column : slots;",
            "(void)cell;",
            *self.passes(loops, {"full": full, "column": "0", "row": "cell"}),
        ]
        return self.body("tiles", "item", lines)

    def join(self) -> list[str]:
        """Add the slots of the column results, in order."""
        lines: list[str] = []
        for k, number in enumerate(self.sums, len(self.scratch) - len(self.sums)):
            stored = rows.storage_dtype(self.program.outputs[number], self.storage)
            total = text.store(stored, self.compute, f"({STORED[self.compute]})total{number}")
            lines += [
                f"double total{number} = 0;",
                "for (int64_t slot = 0; slot < slots; slot++)",
                f"    total{number} += (({STORED[self.compute]} *){self.place(k)})[at];",
                f"(({STORED[stored]} *)p[{number}])[at] = {total};",
            ]
        return self.body("join", "at", lines)

    def driver(self, tiles: str, join: str) -> list[str]:
        scratch = SIZE[self.compute] * len(self.scratch)
        return driver(
            self.function,
            f"return fk_rowwise(p, {self.slot}, n, s, rt, {self.function}_rows, {tiles}, {join}, "
            f"{len(self.sums)}, {scratch});",
        )


def kernel(program: rows.RowProgram, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one row program for one storage dtype."""
    generator = _Generator(program, storage, isa(variant))
    lines = generator.rows()
    tiles = join = "0"
    if generator.sums:
        lines += generator.join()
        join = f"{generator.function}_join"
    elif generator.interleaved:
        lines += generator.tiles()
        tiles = f"{generator.function}_tiles"
    lines += generator.driver(tiles, join)
    said = operands_of(program, storage, 5, EXTENTS)
    return loops_unit.driver(f"{program.name}:{storage}", generator.function, lines, said)


#: sizes outer, length, inner, period, group; results by row have no period
EXTENTS = {
    "full": "n0*n1*n2",
    "column": "n1",
    "row": "if(n3,min(n3,n0*n2),n0*n2)",
    "out row": "n0*n2",
    "group": "if(n4,(n0*n2+n4-1)/n4,n0*n2)",
}

ROWS = Family(rows.ROW_PROGRAMS, kernel, PLAN)
kernels, unit = ROWS.kernels, ROWS.unit
