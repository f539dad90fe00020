"""C text of a fused graph: kernels, and one driver for each run of consecutive kernels.

Takes: loop nests (`lower.loops.nest`) in order, grouped in runs, and where each buffer lies.
Gives: `kernel_text` for one nest; `unit`, a translation unit with its table.
Keeps true: equal kernels stand in the unit once; the text depends on its input and the variant alone
(in a dynamic unit not on the sizes), so that the disk cache serves every process; rows are folded
over as many lanes as the eager kernels of the variant have, so that sums are the same.

A driver gets `p` = the tensors of the run, `n` = the numbers of its kernels, and launches the
kernels one after the other.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from facula.codegen.c.entries import item, operands, table
from facula.codegen.c.isa import isa
from facula.codegen.c.loops import text as loops_text
from facula.codegen.c.loops.fused_flat import Text, flat
from facula.codegen.c.loops.fused_non_temporal import STREAM
from facula.codegen.c.loops.fused_rows import rows
from facula.codegen.c.loops.fused_tiles import tiled
from facula.codegen.c.loops.fused_unit import Unit
from facula.codegen.c.math import library as math
from facula.lower.loops import ir, nest
from facula.runtime import cpu_features

#: random words by element (Philox4x32-10, as in the core), for units that draw
PHILOX = """\
static inline __attribute__((always_inline)) int64_t fk_philox_word(
    int64_t seed, int64_t offset, int64_t place)
{
    const uint64_t index = (uint64_t)place >> 2;
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)offset;
    uint32_t c3 = (uint32_t)((uint64_t)offset >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
    _Pragma("GCC unroll 10") for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        const uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b, c3 = (uint32_t)a, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const int word = (int)(place & 3);
    const uint32_t low = word & 1 ? c1 : c0, high = word & 1 ? c3 : c2;
    return (int64_t)(word & 2 ? high : low);
}
static inline __attribute__((always_inline)) float fk_philox_uniform(
    int64_t seed, int64_t offset, int64_t place)
{
    return (float)(int32_t)(fk_philox_word(seed, offset, place) >> 8) * 0x1p-24f;
}
"""


#: a value that is rounded before an operator reads it: the compiler must not join its last product
#: with the next operator's sum, which eager does not see either. It does not know that the number is
#: 0, since other libraries could write to it
WHOLE = """\
int64_t fk_whole_zero;
static inline __attribute__((always_inline)) float fk_whole_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof x);
    bits ^= (int32_t)fk_whole_zero;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline __attribute__((always_inline)) double fk_whole_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof x);
    bits ^= fk_whole_zero;
    memcpy(&x, &bits, sizeof x);
    return x;
}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer lies: a tensor of the run, from a byte on; the arena is bytes, not elements."""

    slot: int
    offset: int = 0
    arena: bool = False


@dataclass(slots=True)
class Run:
    """Consecutive kernels, and the places of their buffers."""

    kernels: list[Text]
    places: Mapping[ir.Buffer, Place]


def kernel_text(kernel: nest.Flat | nest.Rows, dynamic: bool = False) -> Text:
    """The C text of one nest."""
    if isinstance(kernel, nest.Flat):
        return tiled(kernel, dynamic) or flat(kernel, dynamic)
    return rows(kernel, dynamic, isa(cpu_features.detected()).vector_bytes)


class _Functions:
    """The functions of a unit, each text once."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def name(self, lines: Sequence[str]) -> str:
        """The name of the function with this text."""
        return self.names.setdefault("\n".join(lines), f"kernel{len(self.names)}")

    @property
    def text(self) -> str:
        """All of them."""
        return "\n\n".join(body.replace("@", name) for body, name in self.names.items())


class _Driver:
    """The text of one driver."""

    def __init__(self, run: Run, functions: _Functions, dynamic: bool) -> None:
        self.run, self.functions, self.dynamic = run, functions, dynamic
        self.numbers: list[int] = []

    def number(self, value: int) -> str:
        """A number of a launch."""
        if not self.dynamic:
            return str(value)
        self.numbers.append(value)
        return f"n[{len(self.numbers) - 1}]"

    def pointer(self, buffer: ir.Buffer) -> str:
        """Where a buffer lies."""
        place = self.run.places[buffer]
        if not place.offset:
            return f"p[{place.slot}]"
        return f"p[{place.slot}] + {self.number(place.offset)}"

    def lines(self, name: str) -> list[str]:
        """The driver."""
        body = []
        for kernel in self.run.kernels:
            body += self.launch(kernel)
        return [
            f"static int {name}(char *const *p, const int64_t *n, const fk_scalar *s, "
            "const fk_runtime *rt)",
            "{",
            "    (void)p, (void)n, (void)s;",
            *loops_text.indent(body),
            "    return 0;",
            "}",
        ]

    def operands(self) -> str:
        """What the driver says of its operands: how far the buffers of the run reach in each, and which
        are only read."""
        held: dict[int, list[tuple[ir.Buffer, Place]]] = {}
        for buffer, place in self.run.places.items():
            held.setdefault(place.slot, []).append((buffer, place))
        items = []
        for slot in sorted(held):
            codes = {buffer.code for buffer, _ in held[slot]}
            if len(codes) == 1 and not any(p.offset or p.arena for _, p in held[slot]):
                (code,), least = codes, max(buffer.extent for buffer, _ in held[slot])
            else:
                code = "bytes"
                least = max(place.offset + buffer.nbytes for buffer, place in held[slot])
            if self.dynamic:
                self.numbers.append(least)
            extent = f"n{len(self.numbers) - 1}" if self.dynamic else str(least)
            given = all(buffer.role in ("input", "constant") for buffer, _ in held[slot])
            name = "arena" if code == "bytes" else f"tensor{slot}"
            items.append(item("r" if given else "u", name, code, extent))
        return operands(len(self.numbers), 0, *items)

    def launch(self, kernel: Text) -> list[str]:
        """The statements that run one kernel."""
        pointers = [self.pointer(buffer) for buffer in kernel.buffers]
        at = len(self.numbers)
        self.numbers += kernel.numbers
        sizes = f"n + {at}" if kernel.numbers else "n"
        name = self.functions.name(kernel.lines)
        items, grain = self.number(kernel.items), self.number(kernel.grain)
        if kernel.join is None:
            return [
                "{",
                f"    char *const q[] = {{{', '.join(pointers)}}};",
                f"    rt->parallel({name}, q, {sizes}, s, {items}, {grain});",
                "}",
            ]
        lines, rows_, rows_grain, scratch = kernel.join
        join = self.functions.name(lines)
        return [
            "{",
            f"    char *const scratch = (char *)rt->scratch({self.number(scratch)});",
            "    if (!scratch) return 1;",
            f"    char *const q[] = {{{', '.join([*pointers, 'scratch'])}}};",
            f"    rt->parallel({name}, q, {sizes}, s, {items}, {grain});",
            f"    rt->parallel({join}, q, {sizes}, s, {self.number(rows_)}, {rows_grain});",
            "    rt->release(scratch);",
            "}",
        ]


#: calls of a full form from which on it is a function of its own instead of inlined text
MANY = 3


def _called_once(functions: str, body: str) -> str:
    """The library functions; those that only far arguments need are not inlined where they are
    called often, since their text is long."""
    calls = Counter(math.calls(body))
    for stem in sorted(math.GUARDED - math.SMOOTH):
        for dtype in ("f32", "f64"):
            name = f"fm_{stem}_{dtype}"
            if calls[name] >= MANY:
                functions = re.sub(rf"^FM (\w+ {name}\()", r"FM_CALL \1", functions, flags=re.M)
    return functions


def unit(runs: Sequence[Run], dynamic: bool = False) -> Unit:
    """A translation unit with a driver for each run."""
    functions = _Functions()
    drivers = [_Driver(run, functions, dynamic) for run in runs]
    texts = ["\n".join(driver.lines(f"run{k}")) for k, driver in enumerate(drivers)]
    body = "\n\n".join([functions.text, *texts])
    helpers = loops_text.HALF_HELPERS if re.search(r"fk_(load|store)_", body) else ""
    parts = [
        '#include "facula_abi.h"',
        "#include <string.h>",
        math.PREAMBLE,
        helpers,
        WHOLE if "fk_whole_" in body else "",
        PHILOX if "fk_philox_" in body else "",
        STREAM if "fk_stream(" in body else "",
        _called_once(math.functions_for(body), body),
        body,
    ]
    text = "\n".join(parts)
    said = [driver.operands() for driver in drivers]
    digest = hashlib.sha256("\n".join([text, *said]).encode()).hexdigest()[:20]
    names = [f"fused/{digest}/{k}" for k in range(len(runs))]
    text += table((name, "d", f"run{k}", said[k]) for k, name in enumerate(names))
    return Unit(text, names, [driver.numbers for driver in drivers])
