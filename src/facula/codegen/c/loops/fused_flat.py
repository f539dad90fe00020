"""C text of fused elementwise kernels.

Takes: a `nest.Flat`. Gives: `Text`: a body kernel over items, with the number of items and the
least number worth a thread.
Keeps true: every element is written once; the innermost loop runs along memory that lies densely;
blocks whose arguments do not fit the fast form of a function are computed again with the full one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from facula.codegen.c.loops.fused_non_temporal import SENT, NonTemporal
from facula.codegen.c.loops.fused_passes import Shared
from facula.codegen.c.loops.printer import Names, Printer, has_guard
from facula.codegen.c.loops.text import C_TYPES, indent, loop, simd, store
from facula.fx.symbols import sym_max
from facula.lower.loops import ir, nest
from facula.lower.loops.elementwise import is_call
from facula.lower.loops.index import Index, Indirect, Var
from facula.ops.expr.node import Scalar, substitute, topological_order

#: elements of a block; of the innermost loop of an item; worth a thread
BLOCK, CHUNK, WORTH = 1024, 16384, 16384
#: elements of a block that is gone over several times
STAGED = 512


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


def _lifted(expressions: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Printer with names for what no loop variable is in, and what these names stand for."""
    varies: dict[int, bool] = {}
    for current in topological_order(expressions):
        if current.op == "input":
            varies[id(current)] = _moves(current.value.index)
        else:
            varies[id(current)] = any(varies[id(arg)] for arg in current.args)
    names: dict[int, Scalar] = {}
    found: list[Scalar] = []
    seen: set[int] = set()
    stack = list(expressions)
    while stack:
        current = stack.pop()
        if id(current) in seen or current.op == "constant":
            continue
        seen.add(id(current))
        if varies[id(current)]:
            stack.extend(current.args)
        elif not isinstance(current.value, ir.Position):
            names[id(current)] = ir.leaf(ir.Named("uniform", -1, len(found)), current.dtype)
            found.append(current)
    return list(substitute(tuple(expressions), names)), found


def _moves(index: Index) -> bool:
    """Whether an index is not the same for all iterations."""
    for atom in index.atoms():
        if isinstance(atom, Var):
            return True
        if isinstance(atom, Indirect) and any(
            _moves(leaf.value.index) for leaf in ir.leaves([atom.value])
        ):
            return True
    return False


def flat(kernel: nest.Flat, dynamic: bool) -> Text:
    """The kernel of a flat nest."""
    return FlatText(kernel, Names(dynamic)).run()


class FlatText:
    """Writes one nest; `fused_tiles` has another order of its loops, `pointwise` is called with
    dense memory."""

    def __init__(self, kernel: nest.Flat, names: Names) -> None:
        self.kernel, self.names = kernel, names
        self.expressions, self.once = _lifted([store.expression for store in kernel.stores])
        self.lane = kernel.loops[-1]
        self.non_temporal = NonTemporal(self.names, kernel.non_temporal, self.lane)
        self.prepared()
        self.guarded = has_guard(self.expressions)
        self.stages = _stages(self.expressions)
        self.functions: list[str] = []  # that the kernel calls

    def prepared(self) -> None:
        """What else has to be known before the text is written."""

    def named(self, value: ir.Named, dtype: str) -> str:
        """The text of a named value."""
        return f"u{value.number}" if value.kind == "uniform" else _no_names(value, dtype)

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
        return self.text(wrapped, items, sym_max(WORTH // work, 1))

    def decode(self, outer: list[Var], within: list[Var], chunked: bool) -> list[str]:
        """Loop variables from an item's number."""
        lines, rest = [], "item"
        if chunked:
            pieces = self.names.number(-(-self.lane.extent // CHUNK))
            lines += [f"const int64_t start = item % {pieces} * {CHUNK};"]
            rest = f"(item / {pieces})"
        return lines + decoded(self.names, outer, rest)

    def text(self, body: list[str], items: int, grain: int) -> Text:
        first = self.before()
        lines = [
            *self.functions,
            HEAD,
            "{",
            "    (void)n, (void)s;",
            *indent([*self.names.pointers(), *first, *self.non_temporal.declared]),
            *indent([*body, *self.non_temporal.end]),
            "}",
        ]
        buffers = list(self.names.buffers)
        in_place = not self.guarded and not self.kernel.non_temporal
        return Text(lines, buffers, self.names.numbers, items, grain, in_place)

    def before(self) -> list[str]:
        """What is the same for all elements, computed before the loops."""
        if not self.once:
            return []
        printer = Printer(self.names, _no_names, False)
        printer.add(self.once)
        return [
            *printer.invariant,
            *printer.body,
            *(
                f"const {C_TYPES[e.dtype]} u{k} = {printer.text(e)};"
                for k, e in enumerate(self.once)
            ),
        ]

    # --- the innermost loop
    def lanes(self, first: str, last: str) -> list[str]:
        """The loop over `[first, last)`."""
        full = self.body(False)
        if not self.guarded and not self.stages and not self.kernel.non_temporal:
            return self.loop(full, first, last)
        once = self.body(True) if self.guarded and not self.stages else full
        loops = self.staged() if self.stages else self.loop(once, "at", "until")
        far = ["int far = 0;"] if self.guarded else []
        redo = ["if (far) {", *indent(self.loop(full, "at", "until")), "}"]
        sent = self.non_temporal.send(self.kernel.stores, "at", "until")
        return self.in_blocks(first, last, [*far, *loops, *(redo if self.guarded else []), *sent])

    def in_blocks(self, first: str, last: str, lines: list[str]) -> list[str]:
        """Blocks of `[first, last)`: what happens to `[at, until)`."""
        block = self.block
        return [
            f"for (int64_t at = {first}; at < {last}; at += {block}) {{",
            f"    const int64_t until = {last} - at < {block} ? {last} : at + {block};",
            *indent(lines),
            "}",
        ]

    @property
    def block(self) -> int:
        """Elements of a block."""
        if self.stages:
            return STAGED
        return SENT if self.non_temporal.buffers and not self.guarded else BLOCK

    def staged(self) -> list[str]:
        """Several passes over a block: one for each function on the way from loads to stores.

        A long chain of functions in one loop waits for itself; short loops overlap iterations.
        """
        declared: list[list[str]] = []
        passes: list[list[str]] = []
        types: dict[str, str] = {}
        held: dict[int, Scalar] = {}
        places: dict[int, str] = {}

        def named(value: ir.Named, dtype: str) -> str:
            return places[value.number] if value.kind == "kept" else self.named(value, dtype)

        for number, stage in enumerate([*self.stages, []]):
            printer = Printer(self.names, named, self.guarded)
            roots = substitute(tuple(stage or self.expressions), held)
            printer.add(roots)
            writes = [] if stage else self.stores(printer, roots)
            declared.append([])
            for k, (current, root) in enumerate(zip(stage, roots, strict=False)):
                name, leaf = f"h{number}_{k}", ir.leaf(ir.Named("kept", -1, len(held)), root.dtype)
                types[name] = C_TYPES[root.dtype]
                declared[-1].append(f"{types[name]} {name}[{STAGED}] __attribute__((aligned(64)));")
                places[len(held)] = f"{name}[{self.names.variable(self.lane)} - at]"
                writes.append(f"{places[len(held)]} = {printer.text(root)};")
                held[id(current)] = leaf
            guards = printer.guards(roots) if self.guarded else []
            check = [_check(guards)] if guards else []
            passes.append([*printer.invariant, *printer.body, *check, *writes])
        lane = self.names.variable(self.lane)
        shared = Shared(passes, types, lane, lambda lines: self.loop(lines, "at", "until"))
        self.functions = shared.functions
        return [
            line for own in zip(declared, shared.statements, strict=True) for line in sum(own, [])
        ]

    def loop(self, lines: list[str], first: str, last: str, vector: bool = True) -> list[str]:
        """The innermost loop."""
        pragma = simd(lines) if vector else []
        return [*pragma, *loop(self.names.variable(self.lane), first, last, lines)]

    def body(self, fast: bool, effects: bool = True) -> list[str]:
        """What happens to one element; in the fast form `far` tells whether it holds."""
        printer = Printer(self.names, self.named, fast)
        printer.add(self.expressions)
        stores = self.stores(printer, self.expressions) if effects else []
        guards = printer.guards(self.expressions) if fast else []
        check = [_check(guards)] if guards else []
        return [*printer.invariant, *printer.body, *stores, *check]

    def stores(self, printer: Printer, values: Sequence[Scalar]) -> list[str]:
        """The statements that write."""
        found = []
        for each, expression in zip(self.kernel.stores, values, strict=True):
            value = store(each.buffer.code, expression.dtype, printer.text(expression))
            target = self.non_temporal.target(each, "at", self.block)
            if target is None:
                target = f"{self.names.buffer(each.buffer)}[{printer.index(each.index)}]"
            found.append(f"{target} = {value};")
        return found


def _check(guards: list[str]) -> str:
    return f"far |= !({' & '.join(guards)});"


def _stages(expressions: Sequence[Scalar]) -> list[list[Scalar]]:
    """Calls by how many others lie below them, where some lie below others; those on top, which
    the last pass computes, left out."""
    depth: dict[int, int] = {}
    calls: dict[int, list[Scalar]] = {}
    for current in topological_order(expressions):
        below = max((depth[id(arg)] for arg in current.args), default=0)
        call = is_call(current)
        depth[id(current)] = below + call
        if call:
            calls.setdefault(below, []).append(current)
    return [calls[k] for k in sorted(calls)][:-1]


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
