"""C text of scans: drivers over `[outer, length, inner]`, shape kept.

Takes: a `ScanProgram`, a storage dtype and an instruction-set variant.
Gives: a driver `name:dtype` with `p` = outputs, input and `n` = outer, length, inner; `unit` for a
whole library.
Keeps true: where a few long rows are cut into stretches, the cuts depend on the shape only and the
stretches' states are joined in order, so that results do not depend on the number of threads.

A step depends on the one before, so the speed comes from several stretches side by side: several
rows (or stretches of one row) in the `rows` loop, a tile of neighbouring cells in the `tiles` loop.
"""

from __future__ import annotations

from facula.codegen.c.isa import Isa, isa
from facula.codegen.c.loops import translation_unit as loops_unit
from facula.codegen.c.loops.program_text import Family, ProgramSweeps, body, driver, operands_of
from facula.codegen.c.loops.text import STORED, indent, loop
from facula.lower.loops.ir import Buffer
from facula.lower.loops.programs import scan
from facula.ops.expr import rows
from facula.ops.programs import scan as scan_programs  # noqa: F401  (fills the table)

#: stretches side by side: in registers, and as vector lanes where a step is dear; cells of a tile
NARROW, WIDE, TILE = 4, 16, 128
#: of a transposed block in the loop for dear steps: positions
BLOCK = 32

PLAN = f"""\
enum {{ SCAN_TILE = {TILE} }};
/* n of the loops: outer, length, inner, stretch, pieces, phase (0: only the states; 1: write) */
static int fk_scan(char *const *p, int pointers, const int64_t *n, const fk_scalar *s,
                   const fk_runtime *rt, fk_body rows,
                     fk_body tiles, fk_body join, int states, int64_t lanes)
{{
    const int64_t outer = n[0], length = n[1], inner = n[2];
    if (outer * length * inner == 0) return 0;
    char *q[8];
    for (int k = 0; k < pointers; k++) q[k] = p[k];
    q[pointers] = 0;
    int64_t m[6] = {{outer, length, inner, length, 1, 1}};
    if (inner > 1) {{
        const int64_t across = (inner + SCAN_TILE - 1) / SCAN_TILE;
        const int64_t cost = length * (inner < SCAN_TILE ? inner : SCAN_TILE) + 64;
        rt->parallel(tiles, q, m, s, outer * across, cost < 16384 ? 16384 / cost : 1);
        return 0;
    }}
    if (outer < 8 * lanes && length > 8192) {{
        m[4] = length / 4096 < 16 * lanes ? length / 4096 : 16 * lanes;
        m[3] = (length + m[4] - 1) / m[4];
        m[4] = (length + m[3] - 1) / m[3];
        q[pointers] = (char *)rt->scratch(8 * states * outer * m[4]);
        if (!q[pointers]) return 1;
    }}
    const int64_t groups = (outer * m[4] + lanes - 1) / lanes, cost = m[3] * lanes + 64;
    const int64_t grain = cost < 16384 ? 16384 / cost : 1;
    if (m[4] > 1) {{
        m[5] = 0;
        rt->parallel(rows, q, m, s, groups, grain);
        rt->parallel(join, q, m, s, outer, 64);
        m[5] = 1;
    }}
    rt->parallel(rows, q, m, s, groups, grain);
    if (q[pointers]) rt->release(q[pointers]);
    return 0;
}}
"""


SIZES = "outer, length, inner, stretch, pieces, phase"


class _Generator:
    """The functions of one scan for one storage dtype."""

    def __init__(self, program: rows.ScanProgram, storage: str, variant: Isa) -> None:
        self.program, self.swept = program, scan(program, storage)
        self.function = loops_unit.identifier(f"{program.name}_{storage}")
        ((self.step,),) = (sweep.reductions for sweep in self.swept.sweeps)
        self.slot = len(program.outputs) + 1
        self.lanes = WIDE if program.wide else NARROW
        self.side, self.tile, self.single = (
            ProgramSweeps(self.swept, width, variant.vector_bytes)
            for width in (self.lanes, TILE, 0)
        )
        self.states = self.side.states(self.step, "a")

    def buffers(self, write: bool) -> list[Buffer]:
        """What a loop reads, and what it writes."""
        return [*self.swept.inputs, *(self.swept.outputs if write else ())]

    def element(
        self, loops: ProgramSweeps, lane: str, spelled: dict[str, str], write: bool = True
    ) -> list[str]:
        """One step for one lane; `spelled` says where its element lies."""
        loops.lane, loops.names.spelled = lane, spelled
        lines = ["{", *indent(loops.assigned(self.states, self.step.block)), "}"]
        if write:
            lines += ["{", *indent(loops.stored(self.swept.stores)), "}"]
        loops.lane, loops.names.spelled = "[l]", {}
        return lines

    def begin(self, loops: ProgramSweeps, width: str) -> list[str]:
        """Declare the states of all lanes; their loop is not asked to be vectors, which few lanes
        feel (1.2 times the time of 8 steps of 20 cells)."""
        starts = loops.assigned(self.states, self.step.identity)
        return [*(loops.declare(*each) for each in self.states), *loop("l", "0", width, starts)]

    def parked(self, verb: str) -> list[str]:
        """Load or store the states of the stretches of this group."""
        lines = []
        for k, (name, dtype) in enumerate(self.states):
            place = f"(({STORED[dtype]} *)(p[{self.slot}] + 8 * {k} * outer * pieces))[item + l]"
            lines.append(f"{name}[l] = {place};" if verb == "load" else f"{place} = {name}[l];")
        return loop("l", "0", "width", lines)

    def body(self, part: str, item: str, lines: list[str]) -> list[str]:
        """One of the loops."""
        return body(f"{self.function}_{part}", SIZES, [], item, lines)

    def rows(self) -> list[str]:
        """A group of stretches side by side an item."""

        def stretches(write: bool) -> list[str]:
            spot = {"spot": "start[l] + i"}
            rest = [
                "const int64_t i = rest, at = first[l] + i;",
                "(void)at;",
                *self.element(self.side, "[l]", spot, write),
            ]
            side = self.transposed(write) if self.program.wide else self.unrolled(write)
            return [
                f"if (width == {self.lanes}) {{",
                *indent(side),
                "}",
                *loop("l", "0", "width", loop("rest", "i", "extent[l]", rest)),
            ]

        lines = [
            f"const int64_t item = group * {self.lanes}, total = outer * pieces;",
            f"const int64_t width = total - item < {self.lanes} ? total - item : {self.lanes};",
            f"int64_t start[{self.lanes}], first[{self.lanes}], extent[{self.lanes}], common = "
            "stretch, i = 0;",
            "for (int64_t l = 0; l < width; l++) {",
            "    const int64_t row = (item + l) / pieces;",
            "    first[l] = (item + l) % pieces * stretch;",
            "    start[l] = row * length + first[l];",
            "    extent[l] = length - first[l] < stretch ? length - first[l] : stretch;",
            "    common = extent[l] < common ? extent[l] : common;",
            "}",
            *self.begin(self.side, str(self.lanes)),
            *self.side.pointers(self.program, lambda _: "0"),
            "if (phase == 0) {",
            *indent([*stretches(False), *self.parked("store"), "continue;"]),
            "}",
            "if (pieces > 1) {",
            *indent(self.parked("load")),
            "}",
            *stretches(True),
        ]
        return self.body("rows", "group", lines)

    def unrolled(self, write: bool) -> list[str]:
        """All lanes in step, each with states and pointers of its own, which stay in registers."""
        before, steps, after = [], [], []
        for lane in range(self.lanes):
            spelled = {"spot": "i"}
            for buffer in self.buffers(write):
                spelled[buffer.name] = own = f"{buffer.name}_{lane}"
                const = "const " if buffer in self.swept.inputs else ""
                before.append(
                    f"{const}{STORED[buffer.code]} *restrict {own} = {buffer.name} + start[{lane}];"
                )
            for name, dtype in self.states:
                before.append(f"{STORED[dtype]} {name}_{lane} = {name}[{lane}];")
                after.append(f"{name}[{lane}] = {name}_{lane};")
            step = self.element(self.side, f"_{lane}", spelled, write)
            at = [f"const int64_t at = first[{lane}] + i;", "(void)at;"]
            steps += ["{", *indent([*at, *step]), "}"]
        return [*before, "for (; i < common; i++) {", *indent(steps), "}", *after]

    def transposed(self, write: bool) -> list[str]:
        """Blocks of all lanes are turned so that the lanes lie side by side and a step is one
        vector operation."""
        spelled = {b.name: f"turned_{b.name}" for b in self.buffers(write)}
        step = self.element(self.side, "[l]", {"spot": f"i * {self.lanes} + l", **spelled}, write)
        each, lanes = (
            f"for (int i = 0; i < {BLOCK}; i++)",
            f"for (int l = 0; l < {self.lanes}; l++)",
        )
        turn = [
            (f"{spelled[b.name]}[i * {self.lanes} + l]", f"{b.name}[start[l] + block + i]")
            for b in self.buffers(write)
        ]
        reads = [f"{each} {turned} = {plain};" for turned, plain in turn[:1]]
        stores = [f"{each} {plain} = {turned};" for turned, plain in turn[1:]]
        return [
            *[
                f"{STORED[b.code]} {spelled[b.name]}[{BLOCK * self.lanes}];"
                for b in self.buffers(write)
            ],
            f"for (; i + {BLOCK} <= common; i += {BLOCK}) {{",
            "    const int64_t block = i;",
            *indent([f"{lanes} {{", *indent(reads), "}", f"{each} {{"]),
            "        #pragma omp simd",
            f"        {lanes} {{",
            "            const int64_t at = first[l] + block + i;",
            "            (void)at;",
            *indent(step, 3),
            "        }",
            "    }",
            *indent([f"{lanes} {{", *indent(stores), "}"] if write else []),
            "}",
        ]

    def join(self) -> list[str]:
        """Turn the states of a row's stretches into the states before them."""
        merged = self.single.states(self.step, "m")
        moves = []
        for k, ((name, dtype), (later, _)) in enumerate(zip(self.states, merged, strict=True)):
            kind, place = STORED[dtype], f"8 * {k} * outer * pieces"
            moves += [
                f"{kind} *slot{k} = ({kind} *)(p[{self.slot}] + {place}) + row * pieces + piece;",
                f"const {kind} {later} = *slot{k};",
                f"*slot{k} = {name};",
            ]
        lines = [
            *self.single.compute(self.states, self.step.identity),
            "for (int64_t piece = 0; piece < pieces; piece++) {",
            *indent([*moves, *self.single.assign(self.states, self.step.merge)]),
            "}",
        ]
        return self.body("join", "row", lines)

    def tiles(self) -> list[str]:
        """A tile of neighbouring cells an item."""
        step = self.element(self.tile, "[l]", {"spot": "at * inner + l"})
        lines = [
            f"const int64_t across = (inner + {TILE} - 1) / {TILE}, row = item / across;",
            f"const int64_t column = item % across * {TILE};",
            f"const int64_t width = inner - column < {TILE} ? inner - column : {TILE};",
            *self.begin(self.tile, "width"),
            *self.tile.pointers(self.program, lambda _: "row * length * inner + column"),
            *loop("at", "0", "length", ["#pragma omp simd", *loop("l", "0", "width", step)]),
        ]
        return self.body("tiles", "item", lines)

    def driver(self) -> list[str]:
        loops = ", ".join(f"{self.function}_{part}" for part in ("rows", "tiles", "join"))
        return driver(
            self.function,
            f"return fk_scan(p, {self.slot}, n, s, rt, {loops}, {len(self.states)}, {self.lanes});",
        )


def kernel(program: rows.ScanProgram, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one scan for one storage dtype."""
    generator = _Generator(program, storage, isa(variant))
    lines = [*generator.rows(), *generator.join(), *generator.tiles(), *generator.driver()]
    said = operands_of(program, storage, 3, {"full": "n0*n1*n2"})
    return loops_unit.driver(f"{program.name}:{storage}", generator.function, lines, said)


SCANS = Family(rows.SCAN_PROGRAMS, kernel, PLAN)
kernels, unit = SCANS.kernels, SCANS.unit
