"""C text of reductions: drivers over `[segments, outer, reduce, inner]`, from the programs of
`ops.expr.rows`.

Takes: a `ReductionProgram`, a storage dtype and an instruction-set variant.
Gives: a driver `name:dtype` with `p` = outputs, inputs and `n` = outer, reduce, inner, segments,
for contiguous inputs `[segments, outer, reduce, inner]` and contiguous outputs `[outer, inner]`;
`unit` for a whole library.
Keeps true: the result depends on the shape only, never on the number of threads: how a reduction is
cut into parts is decided from the shape, and the parts' states are merged in order.

Three loops serve every shape: `rows` (inner == 1: lanes along the row), `tiles` (inner > 1: lanes
across neighbouring cells), `join` (merges the parts where segments, or a long reduction, were cut).
"""

from __future__ import annotations

from collections.abc import Iterable

from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops import translation_unit as loops_unit
from facula.codegen.c.loops.program_text import (
    Family,
    ProgramSweeps,
    body,
    driver,
    operands_of,
    parameters,
)
from facula.codegen.c.loops.sweeps import BLOCK, TILE, TILE_ROWS
from facula.codegen.c.loops.text import SIZE, STORED, indent
from facula.lower.loops.programs import reduction
from facula.ops.expr import rows
from facula.ops.programs import reduction as reduction_programs  # noqa: F401  (fills the table)

PLAN = """\
/* cut a reduction into parts by its shape alone, run them, merge them in order */
static int fk_reduce(char *const *p, int pointers, const int64_t *n, const fk_scalar *s,
                     const fk_runtime *rt, fk_body rows,
                     fk_body tiles, fk_body join, int states, int64_t block)
{
    const int64_t outer = n[0], reduce = n[1], inner = n[2], segments = n[3], cells = outer * inner;
    if (cells == 0) return 0;
    const int64_t width = inner < TILE ? inner : TILE, across = (inner + TILE - 1) / TILE;
    const int64_t items = outer * across * segments, work = reduce * width;
    int64_t pieces = 1, piece = reduce;
    if (items < 64 && work > 65536) {
        const int64_t wanted = work / 32768 < 256 / items ? work / 32768 : 256 / items;
        const int64_t unit = inner == 1 ? block : TILE_ROWS;
        piece = ((reduce + wanted - 1) / wanted + unit - 1) / unit * unit;
        pieces = (reduce + piece - 1) / piece;
    }
    const int64_t parts = segments * pieces, cost = piece * width + 64;
    char *q[12];
    for (int k = 0; k < pointers; k++) q[k] = p[k];
    q[pointers] = 0;
    if (parts > 1) {
        q[pointers] = (char *)rt->scratch(8 * states * parts * cells);
        if (!q[pointers]) return 1;
    }
    const int64_t m[6] = {outer, reduce, inner, segments, piece, pieces};
    const int64_t grain = cost < 32768 ? 32768 / cost : 1;
    rt->parallel(inner == 1 ? rows : tiles, q, m, s, items * pieces, grain);
    if (parts > 1) {
        rt->parallel(join, q, m, s, cells, parts < 4096 ? 16384 / parts : 1);
        rt->release(q[pointers]);
    }
    return 0;
}
"""


SIZES = "outer, reduce, inner, segments, piece, pieces"
#: of an item: which part of which segment, from where to where
SPAN = [
    "const int64_t part = item % parts, segment = part / pieces, from = part % pieces * piece;",
    "const int64_t to = from + piece < reduce ? from + piece : reduce;",
]


class _Generator:
    """The functions of one reduction for one storage dtype."""

    def __init__(self, program: rows.ReductionProgram, storage: str, variant: Isa) -> None:
        self.program = program
        self.function = loops_unit.identifier(f"{program.name}_{storage}")
        self.row, self.tile = (
            ProgramSweeps(reduction(program, storage, width > 0), width, variant.vector_bytes)
            for width in (0, TILE)
        )
        self.row.size = BLOCK // 2 if SIZE[storage] == 8 else BLOCK
        ((self.step,),) = (sweep.reductions for sweep in self.row.program.sweeps)
        self.slot = len(program.outputs) + len(program.inputs)

    def parked(self, const: str, names: Iterable[str]) -> list[str]:
        """Pointers at the states of a part in scratch memory, a state after the other."""
        place = f"(p[{self.slot}] + 8 * ({{k}} * parts + part) * cells) + cell"
        return [
            f"{const}{STORED[state.dtype]} *restrict {name} = "
            f"({const}{STORED[state.dtype]} *){place.format(k=k)};"
            for k, (state, name) in enumerate(zip(self.step.identity, names, strict=True))
        ]

    def finish(self, loops: ProgramSweeps) -> list[str]:
        """Write the results from the states."""
        (sweep,) = loops.program.sweeps
        return [*loops.finish(sweep), *loops.row_stores(loops.program.stores)]

    def part(self, loops: ProgramSweeps, full: str) -> list[str]:
        """Sweep over a part of a row or tile; its states go to `join`, or are finished."""
        (sweep,) = loops.program.sweeps
        states = [name for name, _ in loops.states(self.step, "a")]
        lane = loops.lane or "[0]"
        stores = [f"parked_{name}{lane} = {name}{loops.lane};" for name in states]
        return [
            *loops.pointers(self.program, lambda place: full if place == "full" else "cell"),
            *loops.sweep(sweep, "from", "to"),
            "if (parts > 1) {",
            *indent(self.parked("", [f"parked_{name}" for name in states])),
            *indent(loops.per_row(stores)),
            "} else {",
            *indent(self.finish(loops)),
            "}",
        ]

    def body(self, part: str, item: str, lines: list[str], step: int = 1) -> list[str]:
        """One of the loops."""
        start = [
            *parameters(self.program.parameters),
            "const int64_t parts = segments * pieces, cells = outer * inner;",
            "(void)cells;",
        ]
        return body(f"{self.function}_{part}", SIZES, start, item, lines, step)

    def rows(self) -> list[str]:
        """One row (or a part of it) an item."""
        part = self.part(self.row, "(segment * outer + cell) * reduce")
        return self.body("rows", "item", [*SPAN, "const int64_t cell = item / parts;", *part])

    def tiles(self) -> list[str]:
        """One tile of neighbouring cells (or a part of its reduction) an item."""
        lines = [
            *SPAN,
            f"const int64_t across = (inner + {TILE} - 1) / {TILE}, row = item / parts / across;",
            f"const int64_t column = item / parts % across * {TILE};",
            f"const int64_t width = inner - column < {TILE} ? inner - column : {TILE};",
            "const int64_t cell = row * inner + column;",
            *self.part(self.tile, "(segment * outer + row) * reduce * inner + column"),
        ]
        return self.body("tiles", "item", lines)

    def join(self) -> list[str]:
        """Merge the parts of each cell in order."""
        loops = self.tile
        states, merged = (loops.states(self.step, letter) for letter in "am")
        lines = [
            f"const int64_t width = end - cell < {TILE} ? end - cell : {TILE};",
            *loops.pointers(self.program, lambda _: "cell"),
            *loops.compute(states, self.step.identity),
            "for (int64_t part = 0; part < parts; part++) {",
            *indent(self.parked("const ", [name for name, _ in merged])),
            *indent(loops.assign(states, self.step.merge)),
            "}",
            *self.finish(loops),
        ]
        return self.body("join", "cell", lines, TILE)

    def driver(self) -> list[str]:
        loops = ", ".join(f"{self.function}_{part}" for part in ("rows", "tiles", "join"))
        return driver(
            self.function,
            f"return fk_reduce(p, {self.slot}, n, s, rt, {loops}, {len(self.step.identity)}, "
            f"{self.row.size});",
        )


def kernel(program: rows.ReductionProgram, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one reduction for one storage dtype."""
    generator = _Generator(program, storage, isa(variant))
    lines = [*generator.rows(), *generator.tiles(), *generator.join(), *generator.driver()]
    extents = {"full": "n0*n1*n2*n3", "row": "n0*n2"}
    said = operands_of(program, storage, 4, extents, SEGMENTS)
    return loops_unit.driver(f"{program.name}:{storage}", generator.function, lines, said)


#: no more segments than elements: of nothing one is enough, and partial results are kept of each
SEGMENTS = "c segments 1+max(1,n0*n1*n2*n3)-n3"


REDUCTIONS = Family(
    rows.REDUCTION_PROGRAMS, kernel, f"enum {{ TILE = {TILE}, TILE_ROWS = {TILE_ROWS} }};\n{PLAN}"
)
kernels, unit = REDUCTIONS.kernels, REDUCTIONS.unit
