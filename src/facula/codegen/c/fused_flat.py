"""C text of fused elementwise kernels.

Takes: a `nest.Flat`. Gives: `Text`: a body kernel over items, with the number of items and the
least number worth a thread.
Keeps true: every element is written once; the innermost loop runs along memory that lies densely;
blocks whose arguments do not fit the fast form of a function are computed again with the full one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from facula.codegen.c.fused_text import Expressions, Names, has_guard, indent, is_slow, store
from facula.lower.loops import ir, nest
from facula.lower.loops.index import Var

#: elements of a block; of the innermost loop of an item; worth a thread
BLOCK, CHUNK, WORTH = 1024, 16384, 16384


@dataclass(slots=True)
class Text:
    """One kernel: its lines without the name, its buffers in pointer order, how it is launched."""

    lines: list[str]
    buffers: list[ir.Buffer]
    numbers: list[int]
    items: int
    grain: int
    in_place: bool
    #: the second phase, that merges parts of rows: (lines, items, grain, bytes of scratch)
    join: tuple[list[str], int, int, int] | None = None


HEAD = "static void @(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)"


def _no_names(named: ir.Named, dtype: str) -> str:
    raise KeyError(f"[codegen] a load was required: got {named}")


def flat(kernel: nest.Flat, dynamic: bool) -> Text:
    """The kernel of a flat nest."""
    return _Flat(kernel, dynamic).run()


class _Flat:
    def __init__(self, kernel: nest.Flat, dynamic: bool) -> None:
        self.kernel, self.names = kernel, Names(dynamic)
        self.expressions = [store.expression for store in kernel.stores]
        self.guarded = has_guard(self.expressions)
        self.lane = kernel.loops[-1]

    def run(self) -> Text:
        loops = self.kernel.loops
        inner = 1  # how many loops an item runs through itself
        while inner < len(loops) - 1 and prod(v.extent for v in loops[-inner:]) < 256:
            inner += 1
        outer, within = loops[:-inner], loops[-inner:]
        name = self.names.variable(self.lane)
        if not outer and inner == 1:  # a single loop: items are elements
            body = self.lanes("begin", "end")
            return self.text(body, self.lane.extent, WORTH)
        chunked = self.lane.extent > 2 * CHUNK
        lines = self.decode(outer, within, chunked)
        if chunked:
            last = self.names.number(self.lane.extent)
            lines += [f"const int64_t stop = start + {CHUNK} < {last} ? start + {CHUNK} : {last};"]
            body = self.lanes("start", "stop")
        else:
            body = self.lanes("0", self.names.number(self.lane.extent))
        for variable in reversed(within[:-1]):
            name = self.names.variable(variable)
            bound = self.names.number(variable.extent)
            body = [f"for (int64_t {name} = 0; {name} < {bound}; {name}++) {{", *indent(body), "}"]
        items = prod(v.extent for v in outer)
        work = prod(v.extent for v in within)
        if chunked:
            items, work = items * -(-self.lane.extent // CHUNK), CHUNK
        wrapped = [
            "for (int64_t item = begin; item < end; item++) {",
            *indent([*lines, *body]),
            "}",
        ]
        return self.text(wrapped, items, max(WORTH // work, 1))

    def decode(self, outer: list[Var], within: list[Var], chunked: bool) -> list[str]:
        """Loop variables from an item's number."""
        lines, rest = [], "item"
        if chunked:
            pieces = self.names.number(-(-self.lane.extent // CHUNK))
            lines += [f"const int64_t start = item % {pieces} * {CHUNK};"]
            rest = f"(item / {pieces})"
        return lines + decoded(self.names, outer, rest)

    def text(self, body: list[str], items: int, grain: int) -> Text:
        lines = [HEAD, "{", "    (void)n, (void)s;", *indent(self.names.pointers()), *indent(body), "}"]
        buffers = list(self.names.buffers)
        return Text(lines, buffers, self.names.numbers, items, grain, not self.guarded)

    # --- the innermost loop
    def lanes(self, first: str, last: str) -> list[str]:
        """The loop over `[first, last)`."""
        if not self.guarded:
            lines, _ = self.body(False)
            return self.loop(lines, first, last, "")
        fast, guards = self.body(True)
        full, _ = self.body(False)
        check = f"far |= !({' & '.join(guards)});"
        return [
            f"for (int64_t at = {first}; at < {last}; at += {BLOCK}) {{",
            f"    const int64_t until = {last} - at < {BLOCK} ? {last} : at + {BLOCK};",
            "    int far = 0;",
            *indent(self.loop([*fast, check], "at", "until", " reduction(| : far)")),
            "    if (far) {",
            *indent(self.loop(full, "at", "until", ""), 2),
            "    }",
            "}",
        ]

    def loop(self, lines: list[str], first: str, last: str, clause: str) -> list[str]:
        name = self.names.variable(self.lane)
        pragma = [] if is_slow(lines) else [f"#pragma omp simd{clause}"]
        return [
            *pragma,
            f"for (int64_t {name} = {first}; {name} < {last}; {name}++) {{",
            *indent(lines),
            "}",
        ]

    def body(self, fast: bool) -> tuple[list[str], list[str]]:
        """What happens to one element, and the conditions for it."""
        printer = Expressions(self.names, _no_names, fast)
        printer.add(self.expressions)
        stores = []
        for each in self.kernel.stores:
            place = printer.index(each.index)
            value = store(each.buffer.code, each.expression.dtype, printer.text(each.expression))
            stores.append(f"{self.names.buffer(each.buffer)}[{place}] = {value};")
        guards = printer.guards(self.expressions) if fast else []
        return [*printer.invariant, *printer.body, *stores], guards


def decoded(names: Names, variables: list[Var], rest: str) -> list[str]:
    """Declare variables as the digits of a number."""
    lines = []
    for k, variable in enumerate(variables):
        below = variables[k + 1 :]
        text = f"{rest} / ({names.product(below)})" if below else rest
        if k:
            text = f"({text}) % {names.number(variable.extent)}"
        lines.append(f"const int64_t {names.variable(variable)} = {text};")
    return lines
