"""C text of fused kernels with reductions.

Takes: a `nest.Rows`. Gives: `fused_flat.Text`: a body kernel over rows (or tiles of rows), and,
where rows are cut into parts, a second phase that merges them. The loops are those of `sweeps`.
Keeps true: a result depends on the sizes only, not on the number of threads: how rows are cut is
decided from the sizes, and states merge in order.
"""

from __future__ import annotations

from math import prod

from facula.codegen.c.loops.fused_flat import HEAD, Text, decoded
from facula.codegen.c.loops.fused_non_temporal import NonTemporal
from facula.codegen.c.loops.printer import Names, has_guard
from facula.codegen.c.loops.sweeps import TILE, Sweeps, homes
from facula.codegen.c.loops.text import SIZE, STORED, indent
from facula.fx.symbols import sym_max
from facula.lower.loops import nest
from facula.lower.loops.ir import Named

#: kept elements of a tile
TILE_CACHE = 32768


def rows(kernel: nest.Rows, dynamic: bool, vector_bytes: int) -> Text:
    """The kernel of a nest with rows."""
    return _Rows(kernel, dynamic, vector_bytes).run()


class _Rows(Sweeps):
    def __init__(self, kernel: nest.Rows, dynamic: bool, vector_bytes: int) -> None:
        self.kernel = kernel
        swept, names = kernel.reduce[-1], Names(dynamic)
        non_temporal = NonTemporal(names, kernel.non_temporal, swept)
        super().__init__(names, swept, _width(kernel), vector_bytes, non_temporal)
        self.width = self.width or 1
        self.extent = None if dynamic else swept.extent
        self.around = [*kernel.segments, *kernel.reduce[:-1]]
        self.blocks = -(-swept.extent // self.size)
        self.across_tiles = -(-kernel.inner[-1].extent // self.width) if self.tiled else 1
        self.items = prod(v.extent for v in [*kernel.outer, *kernel.inner[:-1]]) * self.across_tiles
        self.parts = self._parts()
        self.homes = homes(
            kernel.sweeps, kernel.kept, lambda s: s.buffer not in kernel.non_temporal
        )

    def _parts(self) -> int:
        """Into how many parts a row is cut: only where rows are few and long."""
        geometry = self.kernel.geometry
        work = geometry.length * min(self.width, geometry.inner)
        total = self.blocks * prod(v.extent for v in self.around)
        if not self.kernel.splits or self.items >= 64 or work <= 65536 or total < 2:
            return 1
        return max(min(work // 32768, 256 // self.items, total), 1)

    def named(self, value: Named, dtype: str) -> str:
        """The C text of a named value."""
        return "base + origin" if value.kind == "origin" else super().named(value, dtype)

    @property
    def kept_place(self) -> str:
        place = f"base + {self.at}"
        return f"({place}) * {self.width} + l" if self.tiled else place

    def lane_start(self) -> list[str]:
        column = self.names.variable(self.kernel.inner[-1])
        return [f"const int64_t {column} = column + l;", f"(void){column};"]

    def block_loop(self, sweep: nest.Sweep, body: list[str], first: str, last: str) -> list[str]:
        return [f"for (int64_t block = {first}; block < {last}; block++) {{", *indent(body), "}"]

    def block_start(self, sweep: nest.Sweep) -> list[str]:
        extent = self.names.number(self.swept.extent)
        lines = []
        number = "block"
        if self.blocks > 1 or self.names.dynamic:
            blocks = self.names.number(self.blocks)
            lines.append(f"const int64_t origin = block % {blocks} * {self.size};")
            number = f"(block / {blocks})"
        else:
            lines.append("const int64_t origin = 0;")
        lines += decoded(self.names, [v for v in self.around if v.extent != 1], number)
        lines += [f"const int64_t base = {number} * {extent};"]
        lines += [
            f"const int64_t stop = origin + {self.size} < {extent} ? origin + {self.size} : {extent};",
            "(void)base;",
        ]
        return lines

    # --- the kernel
    def decode(self, number: str) -> list[str]:
        """Where a row or tile lies."""
        lines = []
        if self.tiled:
            across = self.names.number(self.across_tiles)
            extent = self.names.number(self.kernel.inner[-1].extent)
            lines += [
                f"const int64_t column = {number} % {across} * {self.width};",
                f"const int64_t width = {extent} - column < {self.width} ? {extent} - column "
                f": {self.width};",
            ]
            number = f"({number} / {across})"
        variables = [v for v in [*self.kernel.outer, *self.kernel.inner[:-1]] if v.extent != 1]
        return lines + decoded(self.names, variables, number)

    def run(self) -> Text:
        kernel = self.kernel
        total = prod(v.extent for v in self.around) * self.blocks
        if self.parts > 1:
            return self._in_parts(total)
        body = self.decode("item")
        for sweep in kernel.sweeps:
            body += [*self.sweep(sweep, "0", self.names.number(total)), *self.finish(sweep)]
        body += self.row_stores(self.kernel.stores)
        lines = self.function(self.kept_arrays(), "item", body)
        work = kernel.geometry.length * min(self.width, max(kernel.geometry.inner, 1)) + 16
        grain = sym_max(16384 // work, 1)
        expressions = [e for s in kernel.sweeps for p in s.passes for e in p.expressions]
        in_place = not has_guard(expressions) and len(kernel.sweeps) == 1
        return Text(
            lines, list(self.names.buffers), self.names.numbers, self.items, grain, in_place
        )

    def kept_arrays(self) -> list[str]:
        """Declarations of the rows that are kept."""
        length = self.names.number(self.kernel.geometry.length)
        cells = f"{length} * {self.width}" if self.tiled else length
        return [
            f"{STORED[leaf.dtype]} t{leaf.value.number}[{cells}] __attribute__((aligned(64)));"
            for leaf in self.kernel.kept
            if leaf.value.number not in self.homes
        ]

    def function(self, declared: list[str], variable: str, body: list[str]) -> list[str]:
        """A body kernel over a variable."""
        return [
            HEAD,
            "{",
            "    (void)n, (void)s;",
            *indent(self.names.pointers(True)),
            *indent([*declared, *self.non_temporal.declared]),
            f"    for (int64_t {variable} = begin; {variable} < end; {variable}++) {{",
            *indent(body, 2),
            "    }",
            *indent(self.non_temporal.end),
            "}",
        ]

    def _in_parts(self, total: int) -> Text:
        """Rows in parts: states of a part go to memory, then they are merged in order."""
        (sweep,) = self.kernel.sweeps
        parts, blocks = self.names.number(self.parts), self.names.number(total)
        body = [
            f"const int64_t row = item / {parts}, part = item % {parts};",
            *self.decode("row"),
            f"const int64_t first = part * {blocks} / {parts};",
            f"const int64_t last = (part + 1) * {blocks} / {parts};",
            *self.sweep(sweep, "first", "last"),
        ]
        states = self._states_of(sweep, "a")
        body += self.per_row(
            [
                f"{self._spot(k, dtype, len(states))} = {name}{self.lane};"
                for k, (name, dtype) in enumerate(states)
            ]
        )
        joined = self._joined(sweep, parts)
        # behind all operands: these are numbered as the text of both halves names them
        scratch = [f"char *const scratch = p[{len(self.names.buffers)}];"]
        first = self.function(scratch, "item", body)
        second = self.function(scratch, "row", joined)
        needed = self.items * self.parts * len(states) * self.width * 8
        return Text(
            first, list(self.names.buffers), self.names.numbers, self.items * self.parts, 1,
            False, (second, self.items, 1, needed),
        )  # fmt: skip

    def _states_of(self, sweep: nest.Sweep, letter: str) -> list[tuple[str, str]]:
        """The names and dtypes of all states of a sweep's reductions."""
        return [state for r in sweep.reductions for state in self.states(r, letter)]

    def _spot(self, k: int, dtype: str, count: int) -> str:
        """Where a part keeps the state number `k` of so many: a cell of 8 bytes for each."""
        spot = f"((item * {count} + {k}) * {self.width}{' + l' if self.tiled else ''})"
        return f"(({STORED[dtype]} *)scratch)[{spot} * {8 // SIZE[dtype]}]"

    def _joined(self, sweep: nest.Sweep, parts: str) -> list[str]:
        """A row from the states of its parts."""
        lines = [*self.decode("row")]
        for r in sweep.reductions:
            lines += self.compute(self.states(r, "a"), r.identity)
        merged = self._states_of(sweep, "m")
        loads = [
            f"{name}{self.lane} = {self._spot(k, dtype, len(merged))};"
            for k, (name, dtype) in enumerate(merged)
        ]
        merging = [self.declare(*m) for m in merged] + self.per_row(loads)
        for r in sweep.reductions:
            merging += self.assign(self.states(r, "a"), r.merge)
        return [
            *lines,
            f"for (int64_t part = 0; part < {parts}; part++) {{",
            f"    const int64_t item = row * {parts} + part;",
            *indent(merging),
            "}",
            *self.finish(sweep),
            *self.row_stores(self.kernel.stores),
        ]


def _width(kernel: nest.Rows) -> int:
    """Cells of a tile: as wide as stays in the cache where a row is swept several times."""
    if not kernel.geometry.inner > 1:
        return 0
    width = TILE
    several = len(kernel.sweeps) > 1 or kernel.kept
    while several and width > 16 and width * kernel.geometry.length > TILE_CACHE:
        width //= 2
    return width
