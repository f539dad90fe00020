"""Sweeps in C: the loops of a nest with rows, written once for eager kernels and compiled graphs.

Takes: sweeps of `lower.loops.nest`. Gives: `Sweeps`, which writes their loops in one of two layouts:
`row` (the row is contiguous: lanes run along it) and `tile` (lanes run across neighbouring rows; a
value of a row is an array over the tile). Whoever inherits says where rows and blocks lie.
Keeps true: lanes are a local array indexed by a `#pragma omp simd` loop and are joined by halves, so
the order of additions is fixed by the source.

Names: `a` states, `m` states of a block, `f` folds of a block, `r` results, `u` values of a row, `t`
elements kept between passes, `l` the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from facula.codegen.c.loops.fused_non_temporal import SENT, NonTemporal
from facula.codegen.c.loops.printer import Names, Printer, has_guard
from facula.codegen.c.loops.text import (
    SIZE,
    STORED,
    fold_step,
    fold_text,
    indent,
    loop,
    simd,
    store,
)
from facula.lower.loops import ir, nest
from facula.lower.loops.index import Index, Indirect, Var
from facula.lower.loops.ir import Named
from facula.ops.expr.node import Scalar

#: elements of a block; cells of a tile and positions of its blocks
BLOCK, TILE, TILE_ROWS = 4096, 1024, 64

#: letters of the values that reductions name
_LETTERS = {"fold": "f", "left": "a", "right": "m", "result": "r"}


class Sweeps:
    """Writes the sweeps of one nest.

    Args:
        names: what the kernel's buffers and variables are called.
        swept: the variable that a block runs along.
        width: cells of a tile; 0 where rows are contiguous.
        vector_bytes: of the machine's registers.
        non_temporal: what is stored past the caches.
    """

    #: whether functions are tried in their fast forms; a pass may then run twice
    fast_forms = True
    #: how long rows are, where that is known
    extent: int | None = None

    def __init__(
        self, names: Names, swept: Var, width: int, vector_bytes: int, non_temporal: NonTemporal
    ) -> None:
        self.names, self.swept, self.non_temporal = names, swept, non_temporal
        self.tiled, self.width, self.vector_bytes = width > 0, width, vector_bytes
        self.lane = "[l]" if self.tiled else ""
        self.size = TILE_ROWS if self.tiled else BLOCK
        self.homes: Mapping[int, nest.Store] = {}
        self.in_lanes = False

    # --- what layouts differ in
    def block_start(self, sweep: nest.Sweep) -> list[str]:
        """Where a block lies: declares `origin` and `stop`."""
        raise NotImplementedError

    def block_loop(self, sweep: nest.Sweep, body: list[str], first: str, last: str) -> list[str]:
        """The loop over the blocks of a row."""
        raise NotImplementedError

    def lane_start(self) -> list[str]:
        """What a lane of a tile begins with."""
        return []

    # --- names
    def named(self, value: Named, dtype: str) -> str:
        """The C text of a named value."""
        if value.kind == "place":
            return self.place
        if value.kind == "length":
            return f"({STORED[dtype]})(stop - origin)"
        if value.kind == "kept":
            return self.kept_text(value.number)
        if value.kind == "uniform":
            return f"u{value.number}{self.lane}"
        letter = _LETTERS[value.kind]
        return f"{letter}{self.names.owner(value.owner)}_{value.number}{self.lane}"

    @property
    def at(self) -> str:
        """The variable of the position in the swept digit."""
        return self.names.variable(self.swept)

    def kept_text(self, number: int) -> str:
        """An element kept between passes."""
        if number not in self.homes:
            return f"t{number}[{self.kept_place}]"
        home = self.homes[number]
        place = Printer(self.names, self.named, False).index(home.index)
        return f"{self.names.buffer(home.buffer)}[{place}]"

    @property
    def place(self) -> str:
        """The place in the block; over lanes as a sum of short numbers, which a vector holds as many of
        as of floats (argmax of rows: 1.35 times as fast as a sum of long ones that is cut)."""
        return "(int32_t)(j - origin) + l" if self.in_lanes else f"(int32_t)({self.at} - origin)"

    @property
    def kept_place(self) -> str:
        """Where an element lies in the memory that is kept between passes."""
        return self.at

    def declare(self, name: str, dtype: str) -> str:
        """Declare a value of a row."""
        return f"{STORED[dtype]} {name}{f'[{self.width}]' if self.tiled else ''};"

    def states(self, r: ir.Reduction, letter: str) -> list[tuple[str, str]]:
        """Names and dtypes of a reduction's states."""
        owner = self.names.owner(r.owner)
        return [(f"{letter}{owner}_{k}", e.dtype) for k, e in enumerate(r.identity)]

    # --- statements for each row
    def across(self, body: Sequence[str]) -> list[str]:
        """The loop over the lanes of a tile."""
        head = [*simd(body), "for (int64_t l = 0; l < width; l++) {", *indent(self.lane_start())]
        return [*head, *indent(body), "}"]

    def per_row(self, statements: Sequence[str]) -> list[str]:
        """Run statements once, or for every row of the tile."""
        return self.across(statements) if self.tiled else ["{", *indent(statements), "}"]

    def evaluate(self, roots: Sequence[Scalar]) -> tuple[list[str], list[str]]:
        """Statements that compute expressions, and the text of each."""
        printer = Printer(self.names, self.named, False)
        printer.add(roots)
        return [*printer.invariant, *printer.body], [printer.text(root) for root in roots]

    def assign(self, targets: Sequence[tuple[str, str]], roots: Sequence[Scalar]) -> list[str]:
        """Per row: compute all roots, then assign them to the targets (name, dtype)."""
        return self.per_row(self.assigned(targets, roots))

    def assigned(self, targets: Sequence[tuple[str, str]], roots: Sequence[Scalar]) -> list[str]:
        """The statements of `assign`."""
        lines, texts = self.evaluate(roots)
        held = [
            f"const {STORED[dtype]} out{k} = {text};"
            for k, ((_, dtype), text) in enumerate(zip(targets, texts, strict=True))
        ]
        stores = [f"{name}{self.lane} = out{k};" for k, (name, _) in enumerate(targets)]
        return [*lines, *held, *stores]

    def compute(self, targets: Sequence[tuple[str, str]], roots: Sequence[Scalar]) -> list[str]:
        """Declare values of a row and compute them."""
        if not targets:
            return []
        return [*(self.declare(*target) for target in targets), *self.assign(targets, roots)]

    # --- a sweep
    def sweep(self, sweep: nest.Sweep, first: str, last: str) -> list[str]:
        """Run over `[first, last)` of a row."""
        before = [(f"u{leaf.value.number}", leaf.dtype) for leaf, _ in sweep.before]
        lines = self.compute(before, [e for _, e in sweep.before])
        for r in sweep.reductions:
            lines += self.compute(self.states(r, "a"), r.identity)
        inner = self.block_start(sweep)
        for number, each in enumerate(sweep.passes):
            of_block = [(f"u{leaf.value.number}", leaf.dtype) for leaf, _ in each.before]
            inner += self.compute(of_block, [e for _, e in each.before])
            inner += self.one_pass(each)
            if number == 0:
                inner += self.skip(sweep)
        for r in sweep.reductions:
            inner += self.compute(self.states(r, "m"), r.block)
            inner += self.assign(self.states(r, "a"), r.merge)
        return [*lines, *self.block_loop(sweep, inner, first, last)]

    def skip(self, sweep: nest.Sweep) -> list[str]:
        """Leave a block whose first folds say that the rest of it can not matter."""
        return []

    def finish(self, sweep: nest.Sweep) -> list[str]:
        """Results of a sweep's reductions from their states."""
        lines = []
        for r in sweep.reductions:
            owner = self.names.owner(r.owner)
            targets = [(f"r{owner}_{k}", e.dtype) for k, e in enumerate(r.finalize)]
            lines += self.compute(targets, r.finalize)
        return lines

    def row_stores(self, stores: Sequence[nest.Store]) -> list[str]:
        """Write the values that belong to rows."""
        return self.per_row(self.stored(stores)) if stores else []

    def stored(self, stores: Sequence[nest.Store]) -> list[str]:
        """The statements of `row_stores`."""
        printer = Printer(self.names, self.named, False)
        printer.add([s.expression for s in stores])
        writes = [self.write(s, printer) for s in stores]
        return [*printer.invariant, *printer.body, *writes]

    def write(self, each: nest.Store, printer: Printer) -> str:
        """The statement that stores an element."""
        value = store(each.buffer.code, each.expression.dtype, printer.text(each.expression))
        target = self.non_temporal.target(each, "piece", SENT)
        if target is None:
            target = f"{self.names.buffer(each.buffer)}[{printer.index(each.index)}]"
        return f"{target} {'+=' if each.adds else '='} {value};"

    # --- a pass over a block
    def element(self, each: nest.Pass, fast: bool, effects: bool = True) -> list[str]:
        """What happens to one element; in the fast form `far` tells whether it holds."""
        printer = Printer(self.names, self.named, fast)
        roots = each.expressions
        printer.add(roots)
        stores = []
        for leaf, expression in each.kept:
            stores.append(f"{self.kept_text(leaf.value.number)} = {printer.text(expression)};")
        for fold in each.folds:
            name = self.lanes_name(fold)
            dtype = fold.expression.dtype
            step = fold_step(fold.operation, dtype, f"{name}[l]", "f")
            value = printer.text(fold.expression)
            stores.append(f"{{ const {STORED[dtype]} f = {value}; {name}[l] = {step}; }}")
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

    def one_pass(self, each: nest.Pass) -> list[str]:
        """Run over the elements of a block."""
        guarded = self.fast_forms and has_guard(each.expressions)
        if self.tiled:
            return self._tile_pass(each, guarded)
        if each.folds:
            return self._folding_pass(each, guarded)
        if any(s.buffer in self.non_temporal.buffers for s in each.stores):
            return self._in_pieces(each, guarded)
        return _guarded(guarded, lambda fast: self._plain_loop(each, fast, "origin", "stop"))

    def _start(self, each: nest.Pass, extent: str) -> list[str]:
        if not each.folds:
            return []
        starts = [
            f"{self.lanes_name(f)}[l] = {fold_text(f.operation, f.expression.dtype).start};"
            for f in each.folds
        ]
        return [
            "#pragma omp simd",
            f"for (int64_t l = 0; l < {extent}; l++) {{ {' '.join(starts)} }}",
        ]

    def lanes(self, each: nest.Pass) -> int:
        """How many lanes a pass has: four vectors of its widest fold; of short rows no lane stays
        empty."""
        count = 4 * self.vector_bytes // max(SIZE[f.expression.dtype] for f in each.folds)
        while self.extent is not None and count // 2 >= max(self.extent, 4):
            count //= 2
        return count

    def _folding_pass(self, each: nest.Pass, guarded: bool) -> list[str]:
        count = self.lanes(each)
        declared = [
            f"{STORED[f.expression.dtype]} {self.lanes_name(f)}[{count}] "
            "__attribute__((aligned(64)));"
            for f in each.folds
        ]

        def loops(fast: bool) -> list[str]:
            return [*self._start(each, str(count)), *self._lane_loops(each, fast, count)]

        lines = [*declared, *_guarded(guarded, loops), *self._halve(each, count)]
        for f in each.folds:
            value = f.leaf.value
            name = f"f{self.names.owner(value.owner)}_{value.number}"
            lines.append(f"const {STORED[f.leaf.dtype]} {name} = {self.lanes_name(f)}[0];")
        return lines

    def _halve(self, each: nest.Pass, count: int) -> list[str]:
        lines = []
        half = count // 2
        while half:
            steps = []
            for f in each.folds:
                left, right = (f"{self.lanes_name(f)}[{at}]" for at in ("l", f"l + {half}"))
                steps.append(f"{left} = {fold_step(f.operation, f.expression.dtype, left, right)};")
            head = f"for (int l = 0; l < {half}; l++)"
            lines += ["#pragma omp simd", f"{head} {{ {' '.join(steps)} }}"]
            half //= 2
        return lines

    def _lane_loops(self, each: nest.Pass, fast: bool, count: int) -> list[str]:
        self.in_lanes = True
        body = self.element(each, fast)
        self.in_lanes = False

        def lanes(extent: str) -> list[str]:
            head = [*simd(body), f"for (int l = 0; l < {extent}; l++) {{"]
            return [*head, f"    const int64_t {self.at} = j + l;", *indent(body), "}"]

        return [
            "{",
            "    int64_t j = origin;",
            f"    for (; j + {count} <= stop; j += {count}) {{",
            *indent(lanes(str(count)), 2),
            "    }",
            "    const int rest = (int)(stop - j);",
            *indent(lanes("rest")),
            "}",
        ]

    def _in_pieces(self, each: nest.Pass, guarded: bool) -> list[str]:
        """A pass that writes past the caches: piece by piece, each sent when it is complete."""
        loops = _guarded(guarded, lambda fast: self._plain_loop(each, fast, "piece", "piece_end"))
        return [
            f"for (int64_t piece = origin; piece < stop; piece += {SENT}) {{",
            f"    const int64_t piece_end = stop - piece < {SENT} ? stop : piece + {SENT};",
            *indent(loops),
            *indent(self.non_temporal.send(each.stores, "piece", "piece_end")),
            "}",
        ]

    def _plain_loop(self, each: nest.Pass, fast: bool, first: str, last: str) -> list[str]:
        body = self.element(each, fast)
        return [*simd(body), *loop(self.at, first, last, body)]

    def _tile_pass(self, each: nest.Pass, guarded: bool) -> list[str]:
        # no vector of a fold lies across two lines of the cache
        declared = [
            f"{STORED[f.expression.dtype]} {self.lanes_name(f)}[{self.width}] "
            "__attribute__((aligned(64)));"
            for f in each.folds
        ]
        if guarded:
            test = self.across(self.element(each, True, effects=False))
            fast = [line for line in self.element(each, True) if "far |=" not in line]
            inner = [
                "int far = 0;",
                *test,
                "if (!far) {",
                *indent(self.across(fast)),
                "} else {",
                *indent(self.across(self.element(each, False))),
                "}",
            ]
        else:
            inner = self.across(self.element(each, False))
        return [*declared, *self._start(each, "width"), *loop(self.at, "origin", "stop", inner)]


def _guarded(guarded: bool, loops: Callable[[bool], list[str]]) -> list[str]:
    """The fast loops, and where they did not hold, the full ones; a scope of its own, since a block
    may have several such passes."""
    if not guarded:
        return loops(False)
    redo = ["if (far) {", *indent(loops(False)), "}"]
    return ["{", *indent(["int far = 0;", *loops(True), *redo]), "}"]


def homes(
    sweeps: Sequence[nest.Sweep], kept: Sequence[Scalar], usable: Callable[[nest.Store], bool]
) -> dict[int, nest.Store]:
    """For kept elements the result in whose memory they lie until it is written itself: lines are
    fetched while something dear is computed, and the last pass finds them in the cache."""
    passes = [p for sweep in sweeps for p in sweep.passes]
    found: dict[int, nest.Store] = {}
    for leaf in kept:
        readers = [
            n for n, p in enumerate(passes) if any(x is leaf for x in ir.leaves(p.expressions))
        ]
        for each in passes[readers[-1] :] if readers else []:
            free = [
                s
                for s in each.stores
                if s.buffer.code == leaf.dtype
                and _plain(s.index)
                and usable(s)
                and all(s is not taken for taken in found.values())
            ]
            if free and not has_guard(each.expressions):  # such a pass may run twice
                found[leaf.value.number] = free[0]
                break
    return found


def _plain(index: Index) -> bool:
    """Whether an index is made of loop variables alone."""
    return not any(isinstance(atom, Indirect) for atom in index.atoms())
