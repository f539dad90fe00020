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

from collections.abc import Iterable, Sequence

from facula.codegen.c import loops_text as text
from facula.codegen.c import loops_unit
from facula.codegen.c.entries import item, operands
from facula.codegen.c.isa import Isa, isa
from facula.ops import (
    rows,
    scan_programs,  # noqa: F401  (fills the table)
)

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


class _Generator:
    """The functions of one scan for one storage dtype."""

    def __init__(self, program: rows.ScanProgram, storage: str, variant: Isa) -> None:
        self.program, self.storage = program, storage
        self.traced = rows.trace_scan(program, storage)
        self.function = loops_unit.identifier(f"{program.name}_{storage}")
        self.states = range(len(self.traced.identity))
        self.slot = len(program.outputs) + 1
        self.lanes = WIDE if program.wide else NARROW

    def evaluate(
        self, roots: Sequence[rows.Scalar], names: dict[int, str]
    ) -> tuple[list[str], list[str]]:
        """Statements for `roots`; `names` says how the leaves are spelled, by number."""
        return text.expressions(roots, lambda leaf: names[leaf.value])

    def advance(self, roots: Sequence[rows.Scalar], names: dict[int, str], lane: str) -> list[str]:
        """Replace the states by `roots`."""
        lines, values = self.evaluate(roots, names)
        held = [
            f"const {text.STORED[root.dtype]} out{k} = {value};"
            for k, (root, value) in enumerate(zip(roots, values, strict=True))
        ]
        return ["{", *lines, *held, *[f"state{k}{lane} = out{k};" for k in self.states], "}"]

    def element(self, x: str, lane: str, y: str, write: bool) -> list[str]:
        """One step for one lane; `x` and `y` spell the element, `{k}` in `y` the result."""
        names = {rows.LEFT + k: f"state{k}{lane}" for k in self.states}
        step_names = names | {
            rows.OPERAND: text.load(self.storage, self.traced.compute, x),
            rows.ORIGIN: "at",
        }
        lines = self.advance(self.traced.step, step_names, lane)
        if not write:
            return lines
        computed, values = self.evaluate(self.traced.finalize, names)
        stores = []
        for k, (operand, value) in enumerate(zip(self.program.outputs, values, strict=True)):
            stores.append(
                f"{y.format(k=k)} = "
                f"{text.store(rows.storage_dtype(operand, self.storage), self.traced.finalize[k].dtype, value)};"
            )
        return [*lines, "{", *computed, *stores, "}"]

    def declare(self, extent: int, width: str) -> list[str]:
        declared = [
            f"{text.STORED[state.dtype]} state{k}[{extent}];"
            for k, state in enumerate(self.traced.identity)
        ]
        lines, values = self.evaluate(self.traced.identity, {})
        starts = " ".join(f"state{k}[l] = {value};" for k, value in enumerate(values))
        return [*declared, *lines, f"for (int64_t l = 0; l < {width}; l++) {{ {starts} }}"]

    def header(self, part: str) -> list[str]:
        return [
            f"static void {self.function}_{part}(char *const *p, const int64_t *n, const "
            f"fk_scalar *s, "
            "int64_t begin, int64_t end)",
            "{",
            "    const int64_t outer = n[0], length = n[1], inner = n[2], stretch = n[3], pieces "
            "= n[4], phase = n[5];",
            "    (void)s, (void)outer, (void)inner, (void)stretch, (void)pieces, (void)phase;",
        ]

    def outputs(self, offset: str) -> list[str]:
        kinds = [text.STORED[rows.storage_dtype(o, self.storage)] for o in self.program.outputs]
        return [
            f"{kind} *restrict y{k} = ({kind} *)p[{k}] + {offset};" for k, kind in enumerate(kinds)
        ]

    def scratch(self, verb: str) -> list[str]:
        """Load or store the states of the stretches of this group."""
        lines = []
        for k, state in enumerate(self.traced.identity):
            kind = text.STORED[state.dtype]
            place = f"(({kind} *)(p[{self.slot}] + 8 * {k} * outer * pieces))[item + l]"
            lines.append(f"state{k}[l] = {place};" if verb == "load" else f"{place} = state{k}[l];")
        return ["for (int64_t l = 0; l < lanes; l++) {", *text.indent(lines), "}"]

    def rows(self) -> list[str]:
        """A group of stretches side by side an item."""
        kind = text.STORED[self.storage]
        count = len(self.program.outputs)

        def loop(write: bool) -> list[str]:
            body = self.element("x[start[l] + i]", "[l]", "y{k}[start[l] + i]", write)
            side = self.transposed(write) if self.program.wide else self.unrolled(write)
            return [
                f"if (lanes == {self.lanes}) {{",
                *text.indent(side),
                "}",
                "for (int64_t l = 0; l < lanes; l++)",
                "    for (int64_t rest = i; rest < extent[l]; rest++) {",
                "        const int64_t i = rest, at = first[l] + i;",
                "        (void)at;",
                *text.indent(body, 2),
                "    }",
            ]

        lines = [
            f"const int64_t item = group * {self.lanes}, total = outer * pieces;",
            f"const int64_t lanes = total - item < {self.lanes} ? total - item : {self.lanes};",
            f"int64_t start[{self.lanes}], first[{self.lanes}], extent[{self.lanes}], common = "
            f"stretch, i = 0;",
            "for (int64_t l = 0; l < lanes; l++) {",
            "    const int64_t row = (item + l) / pieces;",
            "    first[l] = (item + l) % pieces * stretch;",
            "    start[l] = row * length + first[l];",
            "    extent[l] = length - first[l] < stretch ? length - first[l] : stretch;",
            "    common = extent[l] < common ? extent[l] : common;",
            "}",
            *self.declare(self.lanes, str(self.lanes)),
            f"const {kind} *restrict x = (const {kind} *)p[{count}];",
            *self.outputs("0"),
            "if (phase == 0) {",
            *text.indent(loop(False)),
            *text.indent(self.scratch("store")),
            "    continue;",
            "}",
            "if (pieces > 1) {",
            *text.indent(self.scratch("load")),
            "}",
            *loop(True),
        ]
        return [
            *self.header("rows"),
            "    for (int64_t group = begin; group < end; group++) {",
            *text.indent(lines, 2),
            "    }",
            "}",
        ]

    def unrolled(self, write: bool) -> list[str]:
        """All lanes in step, each with states and pointers of its own, which stay in registers."""
        kind = text.STORED[self.storage]
        before, body, after = [], [], []
        for lane in range(self.lanes):
            before.append(f"const {kind} *restrict x_{lane} = x + start[{lane}];")
            for k, operand in enumerate(self.program.outputs if write else ()):
                written = text.STORED[rows.storage_dtype(operand, self.storage)]
                before.append(f"{written} *restrict y{k}_{lane} = y{k} + start[{lane}];")
            for k, state in enumerate(self.traced.identity):
                before.append(f"{text.STORED[state.dtype]} state{k}_{lane} = state{k}[{lane}];")
                after.append(f"state{k}[{lane}] = state{k}_{lane};")
            step = self.element(f"x_{lane}[i]", f"_{lane}", f"y{{k}}_{lane}[i]", write)
            body += [
                "{",
                f"    const int64_t at = first[{lane}] + i;",
                "    (void)at;",
                *text.indent(step),
                "}",
            ]
        return [*before, "for (; i < common; i++) {", *text.indent(body), "}", *after]

    def transposed(self, write: bool) -> list[str]:
        """Blocks of all lanes are turned so that the lanes lie side by side and a step is one
        vector operation."""
        kind = text.STORED[self.storage]
        kinds = [text.STORED[rows.storage_dtype(o, self.storage)] for o in self.program.outputs]
        step = self.element(
            f"turned[i * {self.lanes} + l]", "[l]", f"result{{k}}[i * {self.lanes} + l]", write
        )
        each = f"for (int i = 0; i < {BLOCK}; i++)"
        stores = [
            f"{each} y{k}[start[l] + block + i] = result{k}[i * {self.lanes} + l];"
            for k in range(len(kinds))
        ]
        return [
            f"{kind} turned[{BLOCK * self.lanes}];",
            *[f"{written} result{k}[{BLOCK * self.lanes}];" for k, written in enumerate(kinds)],
            f"for (; i + {BLOCK} <= common; i += {BLOCK}) {{",
            "    const int64_t block = i;",
            f"    for (int l = 0; l < {self.lanes}; l++)",
            f"        {each} turned[i * {self.lanes} + l] = x[start[l] + block + i];",
            f"    {each} {{",
            "        #pragma omp simd",
            f"        for (int l = 0; l < {self.lanes}; l++) {{",
            "            const int64_t at = first[l] + block + i;",
            "            (void)at;",
            *text.indent(step, 3),
            "        }",
            "    }",
            *(
                [f"    for (int l = 0; l < {self.lanes}; l++) {{", *text.indent(stores, 2), "    }"]
                if write
                else []
            ),
            "}",
        ]

    def join(self) -> list[str]:
        """Turn the states of a row's stretches into the states before them."""
        loads, moves = [], []
        for k, state in enumerate(self.traced.identity):
            kind = text.STORED[state.dtype]
            loads += [
                f"{kind} *slot{k} = ({kind} *)(p[{self.slot}] + 8 * {k} * outer * pieces) + row "
                f"* pieces + piece;",
                f"const {kind} next{k} = *slot{k};",
            ]
            moves.append(f"*slot{k} = state{k}[0];")
        names = {rows.LEFT + k: f"state{k}[0]" for k in self.states}
        names |= {rows.RIGHT + k: f"next{k}" for k in self.states}
        return [
            *self.header("join"),
            "    for (int64_t row = begin; row < end; row++) {",
            *text.indent(self.declare(1, "1"), 2),
            "        for (int64_t piece = 0; piece < pieces; piece++) {",
            *text.indent([*loads, *moves, *self.advance(self.traced.merge, names, "[0]")], 3),
            "        }",
            "    }",
            "    (void)length;",
            "}",
        ]

    def tiles(self) -> list[str]:
        """A tile of neighbouring cells an item."""
        kind = text.STORED[self.storage]
        count = len(self.program.outputs)
        lines = [
            f"const int64_t across = (inner + {TILE} - 1) / {TILE}, row = item / across;",
            f"const int64_t column = item % across * {TILE};",
            f"const int64_t width = inner - column < {TILE} ? inner - column : {TILE};",
            "const int64_t base = row * length * inner + column;",
            *self.declare(TILE, "width"),
            f"const {kind} *restrict x = (const {kind} *)p[{count}] + base;",
            *self.outputs("base"),
            "for (int64_t at = 0; at < length; at++) {",
            "    #pragma omp simd",
            "    for (int64_t l = 0; l < width; l++) {",
            *text.indent(self.element("x[at * inner + l]", "[l]", "y{k}[at * inner + l]", True), 2),
            "    }",
            "}",
        ]
        return [
            *self.header("tiles"),
            "    for (int64_t item = begin; item < end; item++) {",
            *text.indent(lines, 2),
            "    }",
            "}",
        ]

    def driver(self) -> list[str]:
        return [
            f"static int {self.function}(char *const *p, const int64_t *n, const fk_scalar *s, "
            f"const fk_runtime *rt)",
            "{",
            f"    return fk_scan(p, {self.slot}, n, s, rt, {self.function}_rows, "
            f"{self.function}_tiles, "
            f"{self.function}_join, {len(self.traced.identity)}, {self.lanes});",
            "}",
        ]


def kernel(program: rows.ScanProgram, storage: str, variant: str | Isa) -> loops_unit.Kernel:
    """The driver of one scan for one storage dtype."""
    generator = _Generator(program, storage, isa(variant))
    lines = [*generator.rows(), *generator.join(), *generator.tiles(), *generator.driver()]
    results = [
        item("w", operand.name, rows.storage_dtype(operand, storage), "n0*n1*n2")
        for operand in program.outputs
    ]
    said = operands(3, 0, *results, item("r", "x", storage, "n0*n1*n2"))
    return loops_unit.driver(f"{program.name}:{storage}", generator.function, lines, said)


def kernels(variant: str | Isa, names: Iterable[str] | None = None) -> list[loops_unit.Kernel]:
    """Every scan of the table (or those named), for all their storage dtypes."""
    chosen = rows.SCAN_PROGRAMS if names is None else names
    programs = [rows.SCAN_PROGRAMS[name] for name in chosen]
    return [kernel(program, storage, variant) for program in programs for storage in program.dtypes]


def unit(variant: str | Isa, names: Iterable[str] | None = None) -> str:
    """A translation unit with the scans of the table."""
    return loops_unit.translation_unit(kernels(variant, names), PLAN)
