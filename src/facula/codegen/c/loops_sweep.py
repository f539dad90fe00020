"""Sweeps in C: one pass of a schedule over a row, or over a tile of neighbouring rows.

Takes: passes from `loops_schedule` and the operands' places and dtypes.
Gives: `Sweeper`, which writes the loops of a pass in one of two layouts: `row` (the row is
contiguous: lanes run along it) and `tile` (rows lie interleaved, `[position, inner]`: lanes run
across rows).
Keeps true: lanes are a local array indexed by a `#pragma omp simd` loop and are joined by halves,
so the order of additions is fixed by the source; sums of f32 go over blocks whose totals are f64.

Names in the C text: operands `x<i>`, results `y<i>`, temporaries `t<i>`, folds `fold<i>`, uniform
values `uniform<i>`, states `state<i>` and `next<i>`; `at` is the position in the row, `l` the lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from facula.codegen.c import loops_text as text
from facula.codegen.c.loops_schedule import Pass
from facula.ops import rows
from facula.ops.scalar import Scalar

#: elements (row layout) and positions (tile layout) between two joins of the lanes
BLOCK, TILE_BLOCK = 4096, 64


class Sweeper:
    """Writes sweeps for one program, storage dtype and layout."""

    def __init__(
        self,
        inputs: Sequence[rows.Operand],
        outputs: Sequence[rows.Operand],
        storage: str,
        *,
        tile: int,
        vector_bytes: int,
    ) -> None:
        self.inputs, self.outputs, self.storage = inputs, outputs, storage
        self.tile, self.vector_bytes = tile, vector_bytes
        self.lane = "[l]" if tile else ""
        self.temporary_text: dict[int, str] = {}
        self.has_position = False

    # --- names
    def element(self, pointer: str, place: str) -> str:
        """The C text of one element of an operand."""
        if place == "row":
            return f"{pointer}[l]" if self.tile else f"{pointer}[0]"
        return f"{pointer}[at * inner + l]" if self.tile and place == "full" else f"{pointer}[at]"

    def operand_text(self, number: int) -> str:
        operand = self.inputs[number]
        stored, computed = (
            rows.storage_dtype(operand, self.storage),
            rows.compute_dtype(operand, self.storage),
        )
        if operand.place in ("row", "group") and not self.tile:
            return f"row{number}"
        return text.load(stored, computed, self.element(f"x{number}", operand.place))

    def leaf_text(self, leaf: Scalar) -> str:
        """The C text of a leaf."""
        number = leaf.value
        if number == rows.POSITION:
            return "position"
        if number == rows.LENGTH:
            return "length_value" if leaf.dtype != "f64" else "length_double"
        if number == rows.ORIGIN:
            return "origin"
        space, offset = number // 100 * 100, number % 100
        if space == rows.OPERAND:
            return self.operand_text(offset)
        if space == rows.TEMPORARY:
            return self.temporary_text[offset]
        name = {rows.FOLD: "fold", rows.UNIFORM: "uniform", rows.LEFT: "state", rows.RIGHT: "next"}[
            space
        ]
        return f"{name}{offset}{self.lane}"

    def evaluate(self, roots: Sequence[Scalar]) -> tuple[list[str], list[str]]:
        """Statements that load the leaves of `roots` and compute them; the text of each."""
        return text.expressions(roots, self.leaf_text)

    # --- values that are uniform along the row
    def per_row(self, statements: Iterable[str]) -> list[str]:
        """Statements run once (row layout), or for each lane of the tile."""
        if not self.tile:
            return ["{", *text.indent(list(statements)), "}"]
        return [
            "#pragma omp simd",
            "for (int64_t l = 0; l < width; l++) {",
            *text.indent(list(statements)),
            "}",
        ]

    def declare(self, name: str, dtype: str) -> str:
        """Declare a per-row value: a scalar, or an array over the tile."""
        extent = f"[{self.tile}]" if self.tile else ""
        return f"{text.STORED[dtype]} {name}{extent};"

    def assign(self, targets: Sequence[str], roots: Sequence[Scalar]) -> list[str]:
        """Per row: compute all roots, then assign them to the targets (`name`, an array in the tile
        layout)."""
        lines, texts = self.evaluate(roots)
        held = [
            f"const {text.STORED[root.dtype]} out{k} = {value};"
            for k, (root, value) in enumerate(zip(roots, texts, strict=True))
        ]
        stores = [f"{target}{self.lane} = out{k};" for k, target in enumerate(targets)]
        return self.per_row([*lines, *held, *stores])

    def uniforms(self, sweep: Pass) -> list[str]:
        """Declare and compute the uniform values that a pass wants."""
        if not sweep.uniforms:
            return []
        names = [f"uniform{leaf.value - rows.UNIFORM}" for leaf, _ in sweep.uniforms]
        declared = [
            self.declare(n, leaf.dtype) for n, (leaf, _) in zip(names, sweep.uniforms, strict=True)
        ]
        return declared + self.assign(names, [expression for _, expression in sweep.uniforms])

    def gathers(self, sweep: Pass) -> list[str]:
        """Load the elements at row-uniform positions."""
        lines: list[str] = []
        for number, operand, index in sweep.gathers:
            lines.append(self.declare(f"fold{number}", operand.dtype))
            computed, (where,) = self.evaluate([index])
            load = [
                f"const int64_t at = {where};",
                f"fold{number}{self.lane} = {self.leaf_text(operand)};",
            ]
            lines += self.per_row([*computed, *load])
        return lines

    # --- the sweep itself
    def lanes(self, sweep: Pass) -> int:
        """How many lanes a sweep has: four vectors of its widest value."""
        if self.tile:
            return self.tile
        widest = max(text.SIZE[root.dtype] for root in sweep.roots)
        return 4 * self.vector_bytes // widest

    def body(self, sweep: Pass, operations: dict[int, str]) -> list[str]:
        """What happens to one element."""
        lines, texts = self.evaluate(sweep.roots)
        values = iter(texts)
        stores: list[str] = []
        for leaf, _ in sweep.temporaries:
            stores.append(f"{self.temporary_text[leaf.value - rows.TEMPORARY]} = {next(values)};")
        for number, expression in sweep.folds:
            step = text.fold_step(operations[number], expression.dtype, f"lanes{number}[l]", "f")
            value = f"const {text.STORED[expression.dtype]} f = {next(values)};"
            stores.append(f"{{ {value} lanes{number}[l] = {step}; }}")
        for number, expression in sweep.results:
            stores.append(self.result_text(number, expression, next(values)))
        return lines + stores

    def result_text(self, number: int, expression: Scalar, value: str) -> str:
        operand = self.outputs[number]
        if operand.place == "column":
            return f"y{number}[at] += {value};"
        stored = rows.storage_dtype(operand, self.storage)
        return f"{self.element(f'y{number}', 'full')} = {text.store(stored, value)};"

    def sweep(
        self, sweep: Pass, operations: dict[int, str], start: str, stop: str, *, blocked: bool
    ) -> list[str]:
        """The loops of one pass over positions [start, stop). `blocked` joins lanes block by block
        into totals."""
        lines = self.gathers(sweep) + self.uniforms(sweep)
        lines += [self.declare(f"fold{n}", e.dtype) for n, e in sweep.folds]
        if not sweep.roots:
            return lines
        if not sweep.folds:
            return lines + self._plain(sweep, operations, start, stop)
        if not blocked:
            loops = self._lanes_over(sweep, operations, start, stop)
            joined = [self._take(n, f"lanes{n}") for n, _ in sweep.folds]
            return [*lines, "{", *text.indent([*loops, *self.per_row(joined)]), "}"]
        return lines + ["{", *text.indent(self._blocks(sweep, operations, start, stop)), "}"]

    def _take(self, number: int, source: str) -> str:
        return f"fold{number}{self.lane} = {source}{self.lane or '[0]'};"

    def _blocks(self, sweep: Pass, operations: dict[int, str], start: str, stop: str) -> list[str]:
        lines: list[str] = []
        joins: list[str] = []
        results: list[str] = []
        begin: list[str] = []
        for number, expression in sweep.folds:
            total = text.total_dtype(operations[number], expression.dtype)
            neutral = text.fold_text(operations[number], expression.dtype).start
            lines.append(self.declare(f"total{number}", total))
            begin.append(f"total{number}{self.lane} = {neutral};")
            lanes = f"lanes{number}{self.lane or '[0]'}"
            step = text.fold_step(
                operations[number],
                total,
                f"total{number}{self.lane}",
                f"({text.STORED[total]}){lanes}",
            )
            joins.append(f"total{number}{self.lane} = {step};")
            results.append(
                f"fold{number}{self.lane} = "
                f"({text.STORED[expression.dtype]})total{number}{self.lane};"
            )
        size = TILE_BLOCK if self.tile else BLOCK
        return [
            *lines,
            *self.per_row(begin),
            f"for (int64_t block = {start}; block < {stop}; block += {size}) {{",
            f"    const int64_t block_stop = block + {size} < {stop} ? block + {size} : {stop};",
            *text.indent(self._lanes_over(sweep, operations, "block", "block_stop")),
            *text.indent(self.per_row(joins)),
            "}",
            *self.per_row(results),
        ]

    def _lanes_over(
        self, sweep: Pass, operations: dict[int, str], start: str, stop: str
    ) -> list[str]:
        """Fill `lanes<n>` from positions [start, stop); in the row layout lane 0 ends up with the
        whole."""
        count = self.lanes(sweep)
        declared, neutral = [], []
        for number, expression in sweep.folds:
            declared.append(
                f"{text.STORED[expression.dtype]} lanes{number}[{count}] "
                f"__attribute__((aligned(64)));"
            )
            neutral.append(
                f"lanes{number}[l] = {text.fold_text(operations[number], expression.dtype).start};"
            )
        body = self.body(sweep, operations)
        extent = "width" if self.tile else str(count)
        lines = [
            *declared,
            "#pragma omp simd",
            f"for (int64_t l = 0; l < {extent}; l++) {{ {' '.join(neutral)} }}",
        ]
        if self.tile:
            return lines + [
                f"for (int64_t at = {start}; at < {stop}; at++) {{",
                *self._position(),
                "    #pragma omp simd",
                "    for (int64_t l = 0; l < width; l++) {",
                *text.indent(body, 2),
                "    }",
                "}",
            ]
        lines += [
            "{",
            f"    int64_t j = {start};",
            f"    for (; j + {count} <= {stop}; j += {count}) {{",
        ]
        lines += text.indent(self._lane_loop(body, str(count)), 2)
        lines += ["    }", f"    const int rest = (int)({stop} - j);"]
        lines += text.indent(self._lane_loop(body, "rest"), 1)
        return lines + ["}", *self._halve(sweep, operations, count)]

    def _position(self) -> list[str]:
        return ["    const int32_t position = (int32_t)(at - origin);"] if self.has_position else []

    def _lane_loop(self, body: list[str], extent: str) -> list[str]:
        return [
            "#pragma omp simd",
            f"for (int l = 0; l < {extent}; l++) {{",
            "    const int64_t at = j + l;",
            *(
                ["    const int32_t position = (int32_t)(j - origin) + l;"]
                if self.has_position
                else []
            ),
            *text.indent(body),
            "}",
        ]

    def _halve(self, sweep: Pass, operations: dict[int, str], count: int) -> list[str]:
        lines = []
        half = count // 2
        while half:
            steps = " ".join(
                f"lanes{n}[l] = "
                + text.fold_step(operations[n], e.dtype, f"lanes{n}[l]", f"lanes{n}[l + {half}]")
                + ";"
                for n, e in sweep.folds
            )
            lines += ["#pragma omp simd", f"for (int l = 0; l < {half}; l++) {{ {steps} }}"]
            half //= 2
        return lines

    def _plain(self, sweep: Pass, operations: dict[int, str], start: str, stop: str) -> list[str]:
        body = self.body(sweep, operations)
        if self.tile:
            return [
                f"for (int64_t at = {start}; at < {stop}; at++) {{",
                *self._position(),
                "    #pragma omp simd",
                "    for (int64_t l = 0; l < width; l++) {",
                *text.indent(body, 2),
                "    }",
                "}",
            ]
        return [
            "#pragma omp simd",
            f"for (int64_t at = {start}; at < {stop}; at++) {{",
            *self._position(),
            *text.indent(body),
            "}",
        ]
