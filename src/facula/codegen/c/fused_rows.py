"""C text of fused kernels with reductions.

Takes: a `nest.Rows`. Gives: `fused_flat.Text`: a body kernel over rows (or tiles of rows), and,
where rows are cut into parts, a second phase that merges them.
Keeps true: a result depends on the sizes only, not on the number of threads: how rows are cut is
decided from the sizes, and states merge in order; lanes are joined by halves.

Two layouts: `row` (inner == 1: lanes along the row) and `tile` (lanes across neighbouring rows; a
value of a row is an array over the tile). Names: `a` states, `m` states of a block, `f` folds of a
block, `r` results, `u` values of a row, `t` elements kept between passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from facula.codegen.c import loops_text
from facula.codegen.c.fused_flat import HEAD, Text, decoded
from facula.codegen.c.fused_stream import SENT, Streams
from facula.codegen.c.fused_text import Expressions, Names, has_guard, indent, is_slow, store
from facula.fx.symbols import sym_max
from facula.lower.loops import ir, nest
from facula.lower.loops.index import Index, Indirect
from facula.lower.loops.ir import Named
from facula.ops.scalar_node import Scalar

C_TYPE = {"f32": "float", "f64": "double", "i64": "int64_t", "i32": "int32_t", "b8": "uint8_t"}
#: elements of a block; cells of a tile and positions of its blocks; kept elements of a tile
BLOCK, TILE, TILE_ROWS, TILE_CACHE = 4096, 1024, 64, 32768


def rows(kernel: nest.Rows, dynamic: bool, vector_bytes: int) -> Text:
    """The kernel of a nest with rows."""
    return _Rows(kernel, dynamic, vector_bytes).run()


class _Rows:
    def __init__(self, kernel: nest.Rows, dynamic: bool, vector_bytes: int) -> None:
        self.kernel, self.names = kernel, Names(dynamic)
        self.vector_bytes = vector_bytes
        geometry = kernel.geometry
        self.tiled = geometry.inner > 1
        self.lane = "[l]" if self.tiled else ""
        self.swept = kernel.reduce[-1]  # the digit that a block runs along
        self.around = [*kernel.segments, *kernel.reduce[:-1]]
        self.width = self._width()
        self.size = TILE_ROWS if self.tiled else BLOCK
        self.blocks = -(-self.swept.extent // self.size)
        self.across = -(-kernel.inner[-1].extent // self.width) if self.tiled else 1
        self.items = prod(v.extent for v in [*kernel.outer, *kernel.inner[:-1]]) * self.across
        self.parts = self._parts()
        self.streams = Streams(self.names, kernel.streams, self.swept)
        self.homes = self._homes()

    def _width(self) -> int:
        """Cells of a tile: as wide as stays in the cache where a row is swept several times."""
        if not self.tiled:
            return 1
        width = TILE
        several = len(self.kernel.sweeps) > 1 or self.kernel.kept
        while several and width > 16 and width * self.kernel.geometry.length > TILE_CACHE:
            width //= 2
        return width

    def _parts(self) -> int:
        """Into how many parts a row is cut: only where rows are few and long."""
        geometry = self.kernel.geometry
        work = geometry.length * min(self.width, geometry.inner)
        total = self.blocks * prod(v.extent for v in self.around)
        if not self.kernel.splits or self.items >= 64 or work <= 65536 or total < 2:
            return 1
        return max(min(work // 32768, 256 // self.items, total), 1)

    def _homes(self) -> dict[int, nest.Store]:
        """For kept elements the result in whose memory they lie until it is written itself: lines
        are fetched while something dear is computed, and the last pass finds them in the cache."""
        passes = [p for sweep in self.kernel.sweeps for p in sweep.passes]
        found: dict[int, nest.Store] = {}
        for leaf in self.kernel.kept:
            readers = [
                n for n, p in enumerate(passes) if any(x is leaf for x in ir.leaves(p.expressions))
            ]
            for each in passes[readers[-1] :] if readers else []:
                if has_guard(each.expressions):
                    continue  # it may run twice
                free = [
                    s
                    for s in each.stores
                    if s.buffer.code == leaf.dtype
                    and _plain(s.index)
                    and s.buffer not in self.kernel.streams
                    and all(s is not taken for taken in found.values())
                ]
                if free:
                    found[leaf.value.number] = free[0]
                    break
        return found

    # --- names
    def named(self, value: Named, dtype: str) -> str:
        """The C text of a named value."""
        if value.kind == "place":
            return f"(int32_t)({self.at} - origin)"
        if value.kind == "origin":
            return "base + origin"
        if value.kind == "length":
            return f"({C_TYPE[dtype]})(stop - origin)"
        if value.kind == "kept":
            return self.kept_text(value.number)
        if value.kind == "uniform":
            return f"u{value.number}{self.lane}"
        letter = {"fold": "f", "left": "a", "right": "m", "result": "r"}[value.kind]
        return f"{letter}{self.names.owner(value.owner)}_{value.number}{self.lane}"

    @property
    def at(self) -> str:
        """The variable of the position in the swept digit."""
        return self.names.variable(self.swept)

    def kept_text(self, number: int) -> str:
        """An element kept between passes."""
        if number in self.homes:
            home = self.homes[number]
            place = Expressions(self.names, self.named, False).index(home.index)
            return f"{self.names.buffer(home.buffer)}[{place}]"
        if self.tiled:
            return f"t{number}[(base + {self.at}) * {self.width} + l]"
        return f"t{number}[base + {self.at}]"

    def declare(self, name: str, dtype: str) -> str:
        """Declare a value of a row."""
        return f"{C_TYPE[dtype]} {name}{f'[{self.width}]' if self.tiled else ''};"

    # --- statements for each row
    def per_row(self, statements: Sequence[str]) -> list[str]:
        """Run statements once, or for every row of the tile."""
        if not self.tiled:
            return ["{", *indent(list(statements)), "}"]
        pragma = [] if is_slow(statements) else ["#pragma omp simd"]
        column = self.names.variable(self.kernel.inner[-1])
        return [
            *pragma,
            "for (int64_t l = 0; l < width; l++) {",
            f"    const int64_t {column} = column + l;",
            f"    (void){column};",
            *indent(list(statements)),
            "}",
        ]

    def evaluate(self, roots: Sequence[Scalar], fast: bool = False) -> tuple[list[str], list[str]]:
        """Statements that compute expressions, and the text of each."""
        printer = Expressions(self.names, self.named, fast)
        printer.add(roots)
        return [*printer.invariant, *printer.body], [printer.text(root) for root in roots]

    def assign(self, targets: Sequence[tuple[str, str]], roots: Sequence[Scalar]) -> list[str]:
        """Per row: compute all roots, then assign them to the targets (name, dtype)."""
        lines, texts = self.evaluate(roots)
        held = [
            f"const {C_TYPE[dtype]} out{k} = {text};"
            for k, ((_, dtype), text) in enumerate(zip(targets, texts, strict=True))
        ]
        stores = [f"{name}{self.lane} = out{k};" for k, (name, _) in enumerate(targets)]
        return self.per_row([*lines, *held, *stores])

    def compute(self, targets: Sequence[tuple[str, str]], roots: Sequence[Scalar]) -> list[str]:
        """Declare values of a row and compute them."""
        if not targets:
            return []
        return [*(self.declare(*target) for target in targets), *self.assign(targets, roots)]

    # --- a sweep
    def sweep(self, sweep: nest.Sweep, first: str, last: str) -> list[str]:
        """Run over blocks `[first, last)` of a row."""
        before = [(f"u{leaf.value.number}", leaf.dtype) for leaf, _ in sweep.before]
        lines = self.compute(before, [e for _, e in sweep.before])
        for r in sweep.reductions:
            states = self._states(r, "a")
            lines += self.compute(states, r.identity)
        inner = self._block_start()
        for each in sweep.passes:
            inner += self.one_pass(each, sweep.reductions)
        for r in sweep.reductions:
            inner += self.compute(self._states(r, "m"), r.block)
            inner += self.assign(self._states(r, "a"), r.merge)
        return [
            *lines,
            f"for (int64_t block = {first}; block < {last}; block++) {{",
            *indent(inner),
            "}",
        ]

    def _states(self, r: ir.Reduction, letter: str) -> list[tuple[str, str]]:
        owner = self.names.owner(r.owner)
        return [(f"{letter}{owner}_{k}", e.dtype) for k, e in enumerate(r.identity)]

    def _block_start(self) -> list[str]:
        """Where a block lies."""
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

    def finish(self, sweep: nest.Sweep) -> list[str]:
        """Results of a sweep's reductions from their states."""
        lines = []
        for r in sweep.reductions:
            owner = self.names.owner(r.owner)
            targets = [(f"r{owner}_{k}", e.dtype) for k, e in enumerate(r.finalize)]
            lines += self.compute(targets, r.finalize)
        return lines

    def row_stores(self) -> list[str]:
        """Write the values that belong to rows."""
        if not self.kernel.stores:
            return []
        printer = Expressions(self.names, self.named, False)
        printer.add([s.expression for s in self.kernel.stores])
        writes = [self.write(s, printer) for s in self.kernel.stores]
        return self.per_row([*printer.invariant, *printer.body, *writes])

    def write(self, each: nest.Store, printer: Expressions) -> str:
        """The statement that stores an element."""
        value = store(each.buffer.code, each.expression.dtype, printer.text(each.expression))
        target = self.streams.target(each, "piece", SENT)
        if target is None:
            target = f"{self.names.buffer(each.buffer)}[{printer.index(each.index)}]"
        return f"{target} = {value};"

    # --- a pass over a block
    def element(self, each: nest.Pass, fast: bool, effects: bool = True) -> list[str]:
        """What happens to one element; in the fast form `far` tells whether it holds."""
        printer = Expressions(self.names, self.named, fast)
        roots = each.expressions
        printer.add(roots)
        stores = []
        for leaf, expression in each.kept:
            stores.append(f"{self.kept_text(leaf.value.number)} = {printer.text(expression)};")
        for fold in each.folds:
            name = self.lanes_name(fold)
            dtype = fold.expression.dtype
            step = loops_text.fold_step(fold.operation, dtype, f"{name}[l]", "f")
            value = printer.text(fold.expression)
            stores.append(f"{{ const {C_TYPE[dtype]} f = {value}; {name}[l] = {step}; }}")
        for one in each.stores:
            stores.append(self.write(one, printer))
        guards = printer.guards(roots) if fast else []
        check = [f"far |= !({' & '.join(guards)});"] if guards else []
        return [*printer.invariant, *printer.body, *check, *(stores if effects else [])]

    def lanes_name(self, fold: ir.Fold) -> str:
        """The array in which a fold is carried: in tiles the fold itself."""
        value = fold.leaf.value
        name = f"{self.names.owner(value.owner)}_{value.number}"
        return f"f{name}" if self.tiled else f"lanes{name}"

    def one_pass(self, each: nest.Pass, reductions: list[ir.Reduction]) -> list[str]:
        """Run over the elements of a block."""
        return self._tile_pass(each) if self.tiled else self._row_pass(each)

    def _start(self, each: nest.Pass, extent: str) -> list[str]:
        if not each.folds:
            return []
        starts = [
            f"{self.lanes_name(f)}[l] = "
            f"{loops_text.fold_text(f.operation, f.expression.dtype).start};"
            for f in each.folds
        ]
        return [
            "#pragma omp simd",
            f"for (int64_t l = 0; l < {extent}; l++) {{ {' '.join(starts)} }}",
        ]

    def _row_pass(self, each: nest.Pass) -> list[str]:
        guarded = has_guard(each.expressions)
        if not each.folds and any(s.buffer in self.kernel.streams for s in each.stores):
            return self._in_pieces(each, guarded)
        if not each.folds:
            return self._guarded(guarded, lambda fast: self._plain_loop(each, fast))
        widest = max(loops_text.SIZE[f.expression.dtype] for f in each.folds)
        count = 4 * self.vector_bytes // widest
        while not self.names.dynamic and count // 2 >= max(self.swept.extent, 4):
            count //= 2  # short rows: no lane stays empty
        declared = [
            f"{C_TYPE[f.expression.dtype]} {self.lanes_name(f)}[{count}] "
            "__attribute__((aligned(64)));"
            for f in each.folds
        ]

        def loops(fast: bool) -> list[str]:
            return [*self._start(each, str(count)), *self._lane_loops(each, fast, count)]

        lines = [*declared, *self._guarded(guarded, loops)]
        half = count // 2
        while half:
            steps = " ".join(
                f"{self.lanes_name(f)}[l] = "
                + loops_text.fold_step(
                    f.operation, f.expression.dtype,
                    f"{self.lanes_name(f)}[l]", f"{self.lanes_name(f)}[l + {half}]",
                )
                + ";"
                for f in each.folds
            )  # fmt: skip
            lines += ["#pragma omp simd", f"for (int l = 0; l < {half}; l++) {{ {steps} }}"]
            half //= 2
        for f in each.folds:
            value = f.leaf.value
            name = f"f{self.names.owner(value.owner)}_{value.number}"
            lines.append(f"const {C_TYPE[f.leaf.dtype]} {name} = {self.lanes_name(f)}[0];")
        return lines

    @staticmethod
    def _guarded(guarded: bool, loops: Any) -> list[str]:
        """The fast loops, and where they did not hold, the full ones."""
        if not guarded:
            return loops(False)
        return ["int far = 0;", *loops(True), "if (far) {", *indent(loops(False)), "}"]

    def _lane_loops(self, each: nest.Pass, fast: bool, count: int) -> list[str]:
        body = self.element(each, fast)
        clause = " reduction(| : far)" if any(line.startswith("far |=") for line in body) else ""
        pragma = [] if is_slow(body) else [f"#pragma omp simd{clause}"]

        def loop(extent: str) -> list[str]:
            return [
                *pragma,
                f"for (int l = 0; l < {extent}; l++) {{",
                f"    const int64_t {self.at} = j + l;",
                *indent(body),
                "}",
            ]

        return [
            "{",
            "    int64_t j = origin;",
            f"    for (; j + {count} <= stop; j += {count}) {{",
            *indent(loop(str(count)), 2),
            "    }",
            "    const int rest = (int)(stop - j);",
            *indent(loop("rest")),
            "}",
        ]

    def _in_pieces(self, each: nest.Pass, guarded: bool) -> list[str]:
        """A pass that writes past the caches: piece by piece, each sent when it is complete."""
        loops = self._guarded(
            guarded, lambda fast: self._plain_loop(each, fast, "piece", "piece_end")
        )
        return [
            f"for (int64_t piece = origin; piece < stop; piece += {SENT}) {{",
            f"    const int64_t piece_end = stop - piece < {SENT} ? stop : piece + {SENT};",
            *indent(loops),
            *indent(self.streams.send(each.stores, "piece", "piece_end")),
            "}",
        ]

    def _plain_loop(
        self, each: nest.Pass, fast: bool, first: str = "origin", last: str = "stop"
    ) -> list[str]:
        body = self.element(each, fast)
        clause = " reduction(| : far)" if any(line.startswith("far |=") for line in body) else ""
        pragma = [] if is_slow(body) else [f"#pragma omp simd{clause}"]
        return [
            *pragma,
            f"for (int64_t {self.at} = {first}; {self.at} < {last}; {self.at}++) {{",
            *indent(body),
            "}",
        ]

    def _tile_pass(self, each: nest.Pass) -> list[str]:
        declared = [self.declare(self.lanes_name(f), f.expression.dtype) for f in each.folds]
        if has_guard(each.expressions):
            test = self.element(each, True, effects=False)
            inner = [
                "int far = 0;",
                *self._across(test, " reduction(| : far)"),
                "if (!far) {",
                *indent(
                    self._across([li for li in self.element(each, True) if "far |=" not in li])
                ),
                "} else {",
                *indent(self._across(self.element(each, False))),
                "}",
            ]
        else:
            inner = self._across(self.element(each, False))
        return [
            *declared,
            *self._start(each, "width"),
            f"for (int64_t {self.at} = origin; {self.at} < stop; {self.at}++) {{",
            *indent(inner),
            "}",
        ]

    def _across(self, body: list[str], clause: str = "") -> list[str]:
        pragma = [] if is_slow(body) else [f"#pragma omp simd{clause}"]
        column = self.names.variable(self.kernel.inner[-1])
        return [
            *pragma,
            "for (int64_t l = 0; l < width; l++) {",
            f"    const int64_t {column} = column + l;",
            f"    (void){column};",
            *indent(body),
            "}",
        ]

    # --- the kernel
    def decode(self, number: str) -> list[str]:
        """Where a row or tile lies."""
        lines = []
        if self.tiled:
            across = self.names.number(self.across)
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
        body += self.row_stores()
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
            f"{C_TYPE[leaf.dtype]} t{leaf.value.number}[{cells}] __attribute__((aligned(64)));"
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
            *indent([*declared, *self.streams.declared]),
            f"    for (int64_t {variable} = begin; {variable} < end; {variable}++) {{",
            *indent(body, 2),
            "    }",
            *indent(self.streams.end),
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
        states = [s for r in sweep.reductions for s in self._states(r, "a")]
        merged = [s for r in sweep.reductions for s in self._states(r, "m")]
        spot = f"((item * {len(states)} + {{k}}) * {self.width}{' + l' if self.tiled else ''})"
        body += self.per_row(
            [
                f"(({C_TYPE[dtype]} *)scratch)[{spot.format(k=k)} * {8 // loops_text.SIZE[dtype]}] "
                f"= {name}{self.lane};"
                for k, (name, dtype) in enumerate(states)
            ]
        )
        join = [*self.decode("row")]
        for r in sweep.reductions:
            join += self.compute(self._states(r, "a"), r.identity)
        loads = [
            f"{name}{self.lane} = (({C_TYPE[dtype]} *)scratch)"
            f"[{spot.format(k=k)} * {8 // loops_text.SIZE[dtype]}];"
            for k, (name, dtype) in enumerate(merged)
        ]
        merging = [self.declare(*m) for m in merged] + self.per_row(loads)
        for r in sweep.reductions:
            merging += self.assign(self._states(r, "a"), r.merge)
        join += [
            f"for (int64_t part = 0; part < {parts}; part++) {{",
            f"    const int64_t item = row * {parts} + part;",
            *indent(merging),
            "}",
            *self.finish(sweep),
            *self.row_stores(),
        ]
        slot = len(self.names.buffers)
        scratch = [f"char *const scratch = p[{slot}];"]
        first = self.function(scratch, "item", body)
        second = self.function(scratch, "row", join)
        needed = self.items * self.parts * len(states) * self.width * 8
        return Text(
            first, list(self.names.buffers), self.names.numbers, self.items * self.parts, 1,
            False, (second, self.items, 1, needed),
        )  # fmt: skip


def _plain(index: Index) -> bool:
    """Whether an index is made of loop variables alone."""
    return not any(isinstance(atom, Indirect) for atom in index.atoms())
