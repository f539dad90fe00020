"""C text of fused elementwise kernels that read across memory: square tiles by way of the cache.

Takes: a `nest.Flat` whose innermost loop jumps through what some loads read. Gives: `tiled`, its
`Text`, or None where no load does.
Keeps true: what is read across is read along its own memory first, into a tile on the stack, so
that every cache line is fetched once; everything else is as in `fused_flat`.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from facula.codegen.c.loops.fused_flat import WORTH, FlatText, Text, decoded
from facula.codegen.c.loops.printer import Names, Printer
from facula.codegen.c.loops.text import STORED, indent, load
from facula.lower.loops import ir, nest, transposed
from facula.lower.loops.index import Var
from facula.ops.expr.node import Scalar, substitute

#: rows (along the memory of what is read across) and columns of a tile: lines of the cache that
#: are read whole, and runs that are long enough for the processor to read ahead
ROWS, COLUMNS = 32, 256
#: bytes of all tiles at most
ROOM = 1 << 16


def tiled(kernel: nest.Flat, dynamic: bool) -> Text | None:
    """The kernel of a flat nest in tiles, where that helps."""
    loads = ir.loads_of([store.expression for store in kernel.stores])
    found = Counter(transposed.along(each, kernel.loops) for each in loads)
    del found[None]
    if not found:
        return None
    return _Tiled(kernel, Names(dynamic), found.most_common(1)[0][0]).run()


class _Tiled(FlatText):
    """Takes also: `across`, the loop variable along which some loads' memory lies."""

    def __init__(self, kernel: nest.Flat, names: Names, across: Var | None) -> None:
        assert across is not None
        self.across = across
        self.fetched: list[Scalar] = []
        super().__init__(kernel, names)

    def prepared(self) -> None:
        """Let expressions read tiles."""
        names: dict[int, Scalar] = {}
        for leaf in ir.leaves(self.expressions):
            value = leaf.value
            if (
                isinstance(value, ir.Load)
                and transposed.along(value, self.kernel.loops) is self.across
            ):
                names[id(leaf)] = ir.leaf(ir.Named("tile", -1, len(self.fetched)), leaf.dtype)
                self.fetched.append(leaf)
        self.expressions = list(substitute(tuple(self.expressions), names))
        cell = sum(ir.ITEMSIZE[leaf.value.buffer.code] for leaf in self.fetched)
        self.columns = COLUMNS
        while self.columns > ROWS and ROWS * self.columns * cell > ROOM:
            self.columns //= 2

    def named(self, value: ir.Named, dtype: str) -> str:
        if value.kind != "tile":
            return super().named(value, dtype)
        code = self.fetched[value.number].value.buffer.code
        row, lane = (self.names.variable(v) for v in (self.across, self.lane))
        return load(
            code, dtype, f"g{value.number}[({row} - row) * {self.columns} + {lane} - column]"
        )

    def run(self) -> Text:
        others = [v for v in self.kernel.loops if v is not self.across and v is not self.lane]
        row, lane = (self.names.variable(v) for v in (self.across, self.lane))
        body = [
            *self._edges(others),
            *self._fetches(row, lane),
            f"for (int64_t {row} = row; {row} < row_end; {row}++) {{",
            *indent(self.lanes("column", "column_end")),
            "}",
        ]
        tiles = [-(-self.across.extent // ROWS), -(-self.lane.extent // self.columns)]
        lines = ["for (int64_t item = begin; item < end; item++) {", *indent(body), "}"]
        items = prod(v.extent for v in others) * prod(tiles)
        return self.text(lines, items, max(WORTH // (ROWS * self.columns), 1))

    def _edges(self, others: list[Var]) -> list[str]:
        """Where a tile lies."""
        lines, rest = [], "item"
        for name, side, variable in (
            ("row", ROWS, self.across),
            ("column", self.columns, self.lane),
        ):
            count, extent = (
                self.names.number(n) for n in (-(-variable.extent // side), variable.extent)
            )
            lines += [
                f"const int64_t {name} = {rest} % {count} * {side};",
                f"const int64_t {name}_end = {extent} - {name} < {side} ? {extent} : "
                f"{name} + {side};",
            ]
            rest = f"({rest} / {count})"
        return lines + decoded(self.names, others, rest)

    def _fetches(self, row: str, lane: str) -> list[str]:
        """Read tiles along their memory."""
        lines = []
        for number, leaf in enumerate(self.fetched):
            buffer = leaf.value.buffer
            printer = Printer(self.names, self.named, False)
            place = printer.index(leaf.value.index)
            lines += [
                f"{STORED[buffer.code]} g{number}[{ROWS * self.columns}] __attribute__((aligned(64)));",
                f"for (int64_t {lane} = column; {lane} < column_end; {lane}++)",
                f"    for (int64_t {row} = row; {row} < row_end; {row}++)",
                f"        g{number}[({row} - row) * {self.columns} + {lane} - column] = "
                f"{self.names.buffer(buffer)}[{place}];",
            ]
        return lines
