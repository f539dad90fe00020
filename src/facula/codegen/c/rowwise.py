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

from collections.abc import Iterable

from facula.codegen.c import loops_schedule, loops_unit
from facula.codegen.c import loops_text as text
from facula.codegen.c.entries import item, operands
from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops_sweep import Sweeper
from facula.ops import (
    row_programs,  # noqa: F401  (fills the table)
    rows,
)

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


class _Generator:
    """The functions of one row program for one storage dtype."""

    def __init__(self, program: rows.RowProgram, storage: str, variant: Isa) -> None:
        self.program, self.storage, self.variant = program, storage, variant
        self.traced = rows.trace_rows(program, storage)
        self.function = loops_unit.identifier(f"{program.name}_{storage}")
        self.operations = {k: fold.operation for k, fold in enumerate(self.traced.folds)}
        self.compute = text.STORED[self.traced.compute]
        self.sums = [k for k, operand in enumerate(program.outputs) if operand.place == "column"]
        self.scratch: list[tuple[str, str]] = []  # (pointer name, dtype), one row each in a slot
        self.slot = len(program.outputs) + len(program.inputs)
        self.interleaved = not self.sums and all(
            operand.place != "group" for operand in program.inputs
        )

    # --- schedules and layouts
    def _varies(self, leaf: rows.Scalar) -> bool:
        if leaf.op != "input":
            return False
        number = leaf.value
        if number < rows.FOLD:
            return self.program.inputs[number].place not in ("row", "group")
        return number == rows.POSITION

    def schedule(self, keep: bool) -> loops_schedule.Schedule:
        results = [
            (k, value, self.program.outputs[k].place != "row")
            for k, value in enumerate(self.traced.results)
        ]
        return loops_schedule.schedule(self.traced.folds, results, self._varies, keep)

    def homes(self, plan: loops_schedule.Schedule) -> dict[int, int | None]:
        """For each temporary the result whose memory can hold it until then, or None."""
        last = plan.passes[-1].results if plan.passes else []
        free = [
            k
            for k, _ in last
            if self.program.outputs[k].place == "full"
            and rows.storage_dtype(self.program.outputs[k], self.storage) == self.traced.compute
        ]
        homes: dict[int, int | None] = {}
        for leaf in plan.temporaries:
            home = free.pop(0) if free and leaf.dtype == self.traced.compute else None
            homes[leaf.value - rows.TEMPORARY] = home
        return homes

    def sweeper(self, tile: int, plan: loops_schedule.Schedule) -> Sweeper:
        sweeper = Sweeper(
            self.program.inputs,
            self.program.outputs,
            self.storage,
            tile=tile,
            vector_bytes=self.variant.vector_bytes,
        )
        sweeper.has_position = any(
            leaf.op == "input" and leaf.value == rows.POSITION
            for sweep in plan.passes
            for leaf in rows.scalar.topological_order(sweep.roots)
        )
        return sweeper

    # --- text
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
            "    const int64_t outer = n[0], length = n[1], inner = n[2], period = n[3], slots = "
            "n[4], group = n[5], origin = 0;",
            f"    const {self.compute} length_value = ({self.compute})length;",
            "    const double length_double = (double)length;",
            "    (void)outer, (void)inner, (void)period, (void)slots, (void)group, (void)origin, "
            "(void)s;",
            "    (void)length_value, (void)length_double;",
            *text.indent(reads),
        ]

    def pointers(self, full: str, cell: str, sweeper: Sweeper) -> list[str]:
        lines = []
        for k, operand in enumerate(self.program.outputs):
            if operand.place == "column":
                continue
            kind = text.STORED[rows.storage_dtype(operand, self.storage)]
            offset = full if operand.place == "full" else cell
            lines.append(f"{kind} *restrict y{k} = ({kind} *)p[{k}] + {offset};")
        base = len(self.program.outputs)
        for k, operand in enumerate(self.program.inputs):
            stored = rows.storage_dtype(operand, self.storage)
            kind = text.STORED[stored]
            offset = {"full": full, "column": "0", "row": cell, "group": cell}[operand.place]
            uniform = operand.place in ("row", "group") and not sweeper.tile
            if uniform:
                offset = (
                    "row / group" if operand.place == "group" else "(period ? row % period : row)"
                )
            lines.append(f"const {kind} *restrict x{k} = (const {kind} *)p[{base + k}] + {offset};")
            if uniform:
                computed = rows.compute_dtype(operand, self.storage)
                lines.append(
                    f"const {text.STORED[computed]} row{k} = "
                    f"{text.load(stored, computed, f'x{k}[0]')};"
                )
        return lines

    def passes(self, sweeper: Sweeper, plan: loops_schedule.Schedule) -> list[str]:
        lines: list[str] = []
        for sweep in plan.passes:
            lines += sweeper.sweep(sweep, self.operations, "0", "length", blocked=True)
        if plan.final:
            computed, values = sweeper.evaluate(list(plan.final.values()))
            for number, value in zip(plan.final, values, strict=True):
                stored = rows.storage_dtype(self.program.outputs[number], self.storage)
                computed.append(f"y{number}{sweeper.lane or '[0]'} = {text.store(stored, value)};")
            lines += sweeper.per_row(computed)
        return lines

    def rows(self) -> list[str]:
        """Row by row; with scratch, a slot of rows an item."""
        plan = self.schedule(True)
        sweeper = self.sweeper(0, plan)
        for number, home in self.homes(plan).items():
            if home is None:
                self.scratch.append((f"t{number}", self.traced.compute))
            sweeper.temporary_text[number] = f"t{number}[at]" if home is None else f"y{home}[at]"
        self.scratch += [(f"y{k}", self.traced.compute) for k in self.sums]
        body = [
            *self.pointers("row * length", "row", sweeper),
            *self.passes(sweeper, plan),
        ]
        lines = self.header("rows")
        if not self.scratch:
            lines += [
                "    for (int64_t row = begin; row < end; row++) {",
                *text.indent(body, 2),
                "    }",
                "}",
            ]
            return lines
        lines += [
            "    for (int64_t slot = begin; slot < end; slot++) {",
            *text.indent(self.slot_pointers("slot"), 2),
            *[f"        memset(y{k}, 0, (size_t)length * sizeof *y{k});" for k in self.sums],
            "        const int64_t last = (slot + 1) * outer / slots;",
            "        for (int64_t row = slot * outer / slots; row < last; row++) {",
            *text.indent(body, 3),
            "        }",
            "    }",
            "}",
        ]
        return lines

    def slot_pointers(self, slot: str) -> list[str]:
        size = text.SIZE[self.traced.compute]
        return [
            f"{self.compute} *restrict {name} = ({self.compute} *)(p[{self.slot}] + "
            f"(({k} * slots + {slot}) * (length + 16)) * {size});"
            for k, (name, _) in enumerate(self.scratch)
        ]

    def tiles(self) -> list[str]:
        """A tile of interleaved rows an item."""
        plan = self.schedule(True)
        if any(home is None for home in self.homes(plan).values()):
            plan = self.schedule(False)
        sweeper = self.sweeper(TILE, plan)
        for number, home in self.homes(plan).items():
            sweeper.temporary_text[number] = f"y{home}[at * inner + l]"
        body = [
            "const int64_t across = (inner + slots - 1) / slots, group = item / across;",
            "const int64_t column = item % across * slots, cell = group * inner + column;",
            "const int64_t width = inner - column < slots ? inner - column : slots;",
            *self.pointers("group * length * inner + column", "cell", sweeper),
            *self.passes(sweeper, plan),
        ]
        return [
            *self.header("tiles"),
            "    for (int64_t item = begin; item < end; item++) {",
            *text.indent(body, 2),
            "    }",
            "}",
        ]

    def join(self) -> list[str]:
        """Add the slots of the column results, in order."""
        body = ["for (int64_t at = begin; at < end; at++) {", "    double total = 0;"]
        lines: list[str] = []
        for k, (name, _) in enumerate(self.scratch):
            if not name.startswith("y"):
                continue
            number = int(name[1:])
            stored = rows.storage_dtype(self.program.outputs[number], self.storage)
            kind, size = text.STORED[stored], text.SIZE[self.traced.compute]
            place = f"p[{self.slot}] + (({k} * slots + slot) * (length + 16)) * {size}"
            part = f"(({self.compute} *)({place}))[at]"
            lines += [
                f"{kind} *restrict y{number} = ({kind} *)p[{number}];",
                *body,
                f"    for (int64_t slot = 0; slot < slots; slot++) total += {part};",
                f"    y{number}[at] = {text.store(stored, f'({self.compute})total')};",
                "}",
            ]
        return [*self.header("join"), *text.indent(lines), "}"]

    def driver(self, tiles: str, join: str) -> list[str]:
        scratch = text.SIZE[self.traced.compute] * len(self.scratch)
        return [
            f"static int {self.function}(char *const *p, const int64_t *n, const fk_scalar *s, "
            f"const fk_runtime *rt)",
            "{",
            f"    return fk_rowwise(p, {self.slot}, n, s, rt, {self.function}_rows, {tiles}, "
            f"{join}, "
            f"{len(self.sums)}, {scratch});",
            "}",
        ]


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
    said = operands_of(program, storage)
    return loops_unit.driver(f"{program.name}:{storage}", generator.function, lines, said)


#: sizes outer, length, inner, period, group; results by row have no period
_EXTENTS = {
    "full": "n0*n1*n2",
    "column": "n1",
    "row": "if(n3,min(n3,n0*n2),n0*n2)",
    "group": "if(n4,(n0*n2+n4-1)/n4,n0*n2)",
}


def operands_of(program: rows.RowProgram, storage: str) -> str:
    """What the driver says of its operands."""
    items = []
    for operand in program.outputs:
        extent = "n0*n2" if operand.place == "row" else _EXTENTS[operand.place]
        items.append(item("w", operand.name, rows.storage_dtype(operand, storage), extent))
    for operand in program.inputs:
        extent = _EXTENTS[operand.place]
        items.append(item("r", operand.name, rows.storage_dtype(operand, storage), extent))
    return operands(5, len(program.parameters), *items)


def kernels(variant: str | Isa, names: Iterable[str] | None = None) -> list[loops_unit.Kernel]:
    """Every row program of the table (or those named), for all their storage dtypes."""
    chosen = rows.ROW_PROGRAMS if names is None else names
    programs = [rows.ROW_PROGRAMS[name] for name in chosen]
    return [kernel(program, storage, variant) for program in programs for storage in program.dtypes]


def unit(variant: str | Isa, names: Iterable[str] | None = None) -> str:
    """A translation unit with the row programs of the table."""
    return loops_unit.translation_unit(kernels(variant, names), PLAN)
