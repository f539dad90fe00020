"""C kernels that combine gathered rows into scattered ones, without the rows in between.

`parts` gives the C text and table entries. Keeps true: indices are checked before; for one
destination element, contributions arrive in the order of the indices whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.kernels.movement.movement import ARITHMETIC, fill

ROWS = r"""
/* gather_scatter.@OP@:@S@  self[index[e], :] combined with source[places[e], :] for e < count.
 * p: self (changed), source, index, places (int64).  n: count, inner, rows of self, and 0 where
 * items are columns, 1 where they are rows of self. */
static void gather_scatter_@OP@_@S@(char *const *p, const int64_t *n, const fk_scalar *s,
            int64_t begin, int64_t end) {
    (void)s;
    const int64_t count = n[0], inner = n[1], ahead = 8;
    const int64_t *index = (const int64_t *)p[2], *places = (const int64_t *)p[3];
    const uint64_t low = n[3] ? (uint64_t)begin : 0, span = n[3] ? (uint64_t)(end - begin) : -1ULL;
    const int64_t first = n[3] ? 0 : begin, last = n[3] ? inner : end;
    @T@ *const self = (@T@ *)p[0];
    const @T@ *const source = (const @T@ *)p[1];
    for (int64_t e = 0; e < count; e++) {
        if (e + ahead < count && (uint64_t)index[e + ahead] - low < span) {
            const char *next = (const char *)(source + places[e + ahead] * inner + first);
            const char *room = (const char *)(self + index[e + ahead] * inner + first);
            for (int64_t b = 0; b < MIN((last - first) * (int64_t)sizeof(@T@), 512); b += 64) {
                __builtin_prefetch(next + b);
                __builtin_prefetch(room + b, 1);
            }
        }
        if ((uint64_t)index[e] - low >= span) continue;
        @T@ *restrict to = self + index[e] * inner;
        const @T@ *restrict from = source + places[e] * inner;
        _Pragma("omp simd")
        for (int64_t c = first; c < last; c++) {
            @T@ *a = to + c;
            @T@ b = from[c];
            @COMBINE@
        }
    }
}
"""


#: how far `places` reach into the source is the operator's to check
OPERANDS = """4;0; u self @ n2*n1; r source @ if(n0,n1,0); r index i64 n0; r places i64 n0"""


def parts(combine: Mapping[str, str]) -> tuple[str, list[Entry]]:
    """The text and its entries; `combine` are the statements by operation."""
    text = ""
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        for op, statement in combine.items():
            text += fill(ROWS, COMBINE=statement, OP=op, S=dtype, T=ARITHMETIC[dtype])
            said = declared(OPERANDS, dtype)
            entries.append(
                (f"gather_scatter.{op}:{dtype}", "b", f"gather_scatter_{op}_{dtype}", said)
            )
    return text, entries
