"""C text of reductions: drivers over `[segments, outer, reduce, inner]`, from the programs of
`ops.rows`.

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

from facula.codegen.c import loops_schedule, loops_unit
from facula.codegen.c import loops_text as text
from facula.codegen.c.entries import item, operands
from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops_sweep import Sweeper
from facula.ops import (
    reduction_programs,  # noqa: F401  (fills the table)
    rows,
)

#: cells of a tile, and positions of a block in the tile layout
TILE, TILE_ROWS = 1024, 64

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


class _Generator:
    """The functions of one reduction for one storage dtype."""

    def __init__(self, program: rows.ReductionProgram, storage: str, variant: Isa) -> None:
        self.program, self.storage = program, storage
        self.traced = rows.trace_reduction(program, storage)
        self.function = loops_unit.identifier(f"{program.name}_{storage}")
        self.block = 2048 if text.SIZE[storage] == 8 else 4096
        self.operations = {k: fold.operation for k, fold in enumerate(self.traced.folds)}
        results = [(k, value, False) for k, value in enumerate(self.traced.block)]
        self.plan = loops_schedule.schedule(self.traced.folds, results, self._varies, False)
        self.row = self._sweeper(0, variant)
        self.tile = self._sweeper(TILE, variant)

    def _varies(self, leaf: object) -> bool:
        number = leaf.value  # type: ignore[attr-defined]
        if leaf.op != "input":  # type: ignore[attr-defined]
            return False
        if number < rows.FOLD:
            return self.program.inputs[number].place != "row"
        return number == rows.POSITION

    def _sweeper(self, tile: int, variant: Isa) -> Sweeper:
        sweeper = Sweeper(
            self.program.inputs,
            self.program.outputs,
            self.storage,
            tile=tile,
            vector_bytes=variant.vector_bytes,
        )
        sweeper.has_position = any(
            leaf.value == rows.POSITION
            for sweep in self.plan.passes
            for leaf in rows.scalar.topological_order(sweep.roots)
            if leaf.op == "input"
        )
        return sweeper

    # --- pieces shared by the layouts
    def pointers(self, full: str, cell: str, sweeper: Sweeper) -> list[str]:
        """Declare operand pointers at the offsets of a row or tile, and load the row layout's
        per-row values."""
        lines = []
        for k, operand in enumerate(self.program.outputs):
            kind = text.STORED[rows.storage_dtype(operand, self.storage)]
            lines.append(f"{kind} *restrict y{k} = ({kind} *)p[{k}] + {cell};")
        base = len(self.program.outputs)
        for k, operand in enumerate(self.program.inputs):
            stored = rows.storage_dtype(operand, self.storage)
            kind = text.STORED[stored]
            offset = cell if operand.place == "row" else full
            lines.append(f"const {kind} *restrict x{k} = (const {kind} *)p[{base + k}] + {offset};")
            if operand.place == "row" and not sweeper.tile:
                computed = rows.compute_dtype(operand, self.storage)
                lines.append(
                    f"const {text.STORED[computed]} row{k} = "
                    f"{text.load(stored, computed, f'x{k}[0]')};"
                )
        return lines

    def start(self, sweeper: Sweeper) -> list[str]:
        """Declare the states and set them to the identity."""
        names = [f"state{k}" for k in range(len(self.traced.identity))]
        declared = [
            sweeper.declare(n, e.dtype) for n, e in zip(names, self.traced.identity, strict=True)
        ]
        return declared + sweeper.assign(names, self.traced.identity)

    def blocks(self, sweeper: Sweeper, size: int) -> list[str]:
        """Go over the part block by block and merge each into the states."""
        compute = text.STORED[self.traced.compute]
        lines = [
            f"for (int64_t origin = from; origin < to; origin += {size}) {{",
            f"    const int64_t stop = origin + {size} < to ? origin + {size} : to;",
            f"    const {compute} length_value = ({compute})(stop - origin);",
            "    const double length_double = (double)(stop - origin);",
            "    (void)length_value, (void)length_double;",
        ]
        inner: list[str] = []
        for number, sweep in enumerate(self.plan.passes):
            inner += sweeper.sweep(sweep, self.operations, "origin", "stop", blocked=False)
            if number == 0 and self.traced.improves is not None and not sweeper.tile:
                guard, (condition,) = sweeper.evaluate([self.traced.improves])
                inner += [*guard, f"if (!({condition})) continue;"]
        names = [f"next{k}" for k in range(len(self.traced.block))]
        inner += [
            sweeper.declare(n, e.dtype) for n, e in zip(names, self.traced.block, strict=True)
        ]
        inner += sweeper.assign(names, [self.plan.final[k] for k in range(len(names))])
        inner += self.merge(sweeper)
        return [*lines, *text.indent(inner), "}"]

    def merge(self, sweeper: Sweeper) -> list[str]:
        return sweeper.assign(
            [f"state{k}" for k in range(len(self.traced.merge))], self.traced.merge
        )

    def finish(self, sweeper: Sweeper) -> list[str]:
        """Write the results from the states."""
        lines, values = sweeper.evaluate(self.traced.finalize)
        for k, (operand, value) in enumerate(zip(self.program.outputs, values, strict=True)):
            stored = rows.storage_dtype(operand, self.storage)
            lines.append(f"y{k}{sweeper.lane or '[0]'} = {text.store(stored, value)};")
        return sweeper.per_row(lines)

    def park(self, sweeper: Sweeper, cell: str) -> list[str]:
        """Write the states of a part to the scratch that `join` reads."""
        slot = len(self.program.outputs) + len(self.program.inputs)
        lines = []
        for k, state in enumerate(self.traced.identity):
            kind = text.STORED[state.dtype]
            lines.append(
                f"{kind} *restrict parked{k} = ({kind} *)(p[{slot}] + 8 * ({k} * parts + part) * "
                f"cells) + {cell};"
            )
        stores = [
            f"parked{k}{sweeper.lane or '[0]'} = state{k}{sweeper.lane};"
            for k in range(len(self.traced.identity))
        ]
        return lines + sweeper.per_row(stores)

    # --- the three loops
    def header(self, part: str) -> list[str]:
        reads = [
            f"const double parameter_{name} = s[{k}].f;"
            for k, name in enumerate(self.program.parameters)
        ]
        return [
            f"static void {self.function}_{part}(char *const *p, const int64_t *n, const "
            f"fk_scalar *s, "
            "int64_t begin, int64_t end)",
            "{",
            "    const int64_t outer = n[0], reduce = n[1], inner = n[2], segments = n[3], piece "
            "= n[4];",
            "    const int64_t pieces = n[5], parts = segments * pieces, cells = outer * inner;",
            "    const double length_double = (double)reduce * (double)segments;",
            "    (void)inner, (void)s, (void)cells, (void)piece, (void)length_double;",
            *text.indent(reads),
        ]

    _SPAN = [
        "const int64_t part = item % parts, segment = part / pieces, from = part % pieces * piece;",
        "const int64_t to = from + piece < reduce ? from + piece : reduce;",
    ]

    def rows(self) -> list[str]:
        """One row (or a part of it) an item."""
        lines = [
            *self._SPAN,
            "const int64_t cell = item / parts;",
            *self.pointers("(segment * outer + cell) * reduce", "cell", self.row),
            *self.start(self.row),
            *self.blocks(self.row, self.block),
            "if (parts > 1) {",
            *text.indent(self.park(self.row, "cell")),
            "} else {",
            *text.indent(self.finish(self.row)),
            "}",
        ]
        return [
            *self.header("rows"),
            "    for (int64_t item = begin; item < end; item++) {",
            *text.indent(lines, 2),
            "    }",
            "}",
        ]

    def tiles(self) -> list[str]:
        """One tile of neighbouring cells (or a part of its reduction) an item."""
        lines = [
            *self._SPAN,
            f"const int64_t across = (inner + {TILE} - 1) / {TILE}, row = item / parts / across;",
            f"const int64_t column = item / parts % across * {TILE};",
            f"const int64_t width = inner - column < {TILE} ? inner - column : {TILE};",
            "const int64_t cell = row * inner + column;",
            *self.pointers("(segment * outer + row) * reduce * inner + column", "cell", self.tile),
            *self.start(self.tile),
            *self.blocks(self.tile, TILE_ROWS),
            "if (parts > 1) {",
            *text.indent(self.park(self.tile, "cell")),
            "} else {",
            *text.indent(self.finish(self.tile)),
            "}",
        ]
        return [
            *self.header("tiles"),
            "    for (int64_t item = begin; item < end; item++) {",
            *text.indent(lines, 2),
            "    }",
            "}",
        ]

    def join(self) -> list[str]:
        """Merge the parts of each cell in order."""
        slot = len(self.program.outputs) + len(self.program.inputs)
        loads = []
        for k, state in enumerate(self.traced.identity):
            kind = text.STORED[state.dtype]
            loads.append(
                f"const {kind} *restrict next{k} = (const {kind} *)(p[{slot}] + 8 * ({k} * parts "
                f"+ part) * cells) + cell;"
            )
        lines = [
            f"const int64_t width = end - cell < {TILE} ? end - cell : {TILE};",
            *self.pointers("cell", "cell", self.tile),
            *self.start(self.tile),
            "for (int64_t part = 0; part < parts; part++) {",
            *text.indent(loads),
            *text.indent(self.merge(self.tile)),
            "}",
            *self.finish(self.tile),
        ]
        return [
            *self.header("join"),
            f"    for (int64_t cell = begin; cell < end; cell += {TILE}) {{",
            *text.indent(lines, 2),
            "    }",
            "}",
        ]

    def driver(self) -> list[str]:
        count = len(self.program.outputs) + len(self.program.inputs)
        return [
            f"static int {self.function}(char *const *p, const int64_t *n, const fk_scalar *s, "
            f"const fk_runtime *rt)",
            "{",
            f"    return fk_reduce(p, {count}, n, s, rt, {self.function}_rows, "
            f"{self.function}_tiles, "
            f"{self.function}_join, {len(self.traced.identity)}, {self.block});",
            "}",
        ]


def kernel(program: rows.ReductionProgram, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one reduction for one storage dtype."""
    generator = _Generator(program, storage, isa(variant))
    lines = [*generator.rows(), *generator.tiles(), *generator.join(), *generator.driver()]
    said = operands_of(program, storage)
    return loops_unit.driver(f"{program.name}:{storage}", generator.function, lines, said)


#: no more segments than elements: of nothing one is enough, and partial results are kept of each
SEGMENTS = "c segments 1+max(1,n0*n1*n2*n3)-n3"


def operands_of(program: rows.ReductionProgram, storage: str) -> str:
    """What the driver says of its operands: sizes outer, reduce, inner, segments."""
    extents = {"full": "n0*n1*n2*n3", "row": "n0*n2"}
    items = [
        item(mode, operand.name, rows.storage_dtype(operand, storage), extents[operand.place])
        for mode, each in (("w", program.outputs), ("r", program.inputs))
        for operand in each
    ]
    return operands(4, len(program.parameters), *items, SEGMENTS)


def kernels(variant: str | Isa, names: Iterable[str] | None = None) -> list[loops_unit.Kernel]:
    """Every reduction of the table (or those named), for all their storage dtypes."""
    chosen = rows.REDUCTION_PROGRAMS if names is None else names
    programs = [rows.REDUCTION_PROGRAMS[name] for name in chosen]
    return [kernel(program, storage, variant) for program in programs for storage in program.dtypes]


def prelude() -> str:
    """What a unit with reductions starts with."""
    return f"enum {{ TILE = {TILE}, TILE_ROWS = {TILE_ROWS} }};\n{PLAN}"


def unit(variant: str | Isa, names: Iterable[str] | None = None) -> str:
    """A translation unit with the reductions of the table."""
    return loops_unit.translation_unit(kernels(variant, names), prelude())
