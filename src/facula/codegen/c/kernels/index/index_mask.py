"""C kernels over boolean masks: counting, coordinates, selection, and scattering through a mask.

`parts()` gives C text and table entries for the index unit. All work in blocks of the mask:
`mask.count` counts each
block, the operator adds the counts up, and the other kernels start each block at its own place, so
blocks may run on any
thread. Keeps true: the order is that of the mask's elements.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.kernels.movement.movement import SIZES, fill, width

BLOCKS = r"""
/* mask.count p: count of true values per block (int64), mask (one byte each). n: elements, block
 * length; items blocks */
static void mask_count(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    const uint8_t *mask = (const uint8_t *)p[1];
    for (int64_t b = begin; b < end; b++) {
        int64_t stop = MIN(n[0], (b + 1) * n[1]), total = 0;
        for (int64_t i = b * n[1]; i < stop; i++) total += mask[i] != 0;
        ((int64_t *)p[0])[b] = total;
    }
}

/* mask.start p: first place per block and, at the end, the total (int64), counts (int64). n:
 * blocks. A driver. */
static int mask_start(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    (void)s, (void)rt;
    int64_t total = 0;
    for (int64_t b = 0; b < n[0]; b++) {
        ((int64_t *)p[0])[b] = total;
        total += ((const int64_t *)p[1])[b];
    }
    ((int64_t *)p[0])[n[0]] = total;
    return 0;
}

/* positions of the true values of one block, written without branches; `found` ends the loop early
 * and in bounds */
INLINE void block_positions(int64_t *restrict to, const uint8_t *mask, int64_t i, int64_t count) {
    for (int64_t found = 0; found < count; i++) {
        to[found] = i;
        found += mask[i] != 0;
    }
}

/* mask.positions p: coordinates (int64, [total, ndim]), mask, starts. n: elements, block length,
 * ndim, shape[ndim] */
static void mask_positions(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    const uint8_t *mask = (const uint8_t *)p[1];
    const int64_t *start = (const int64_t *)p[2], *shape = n + 3;
    int64_t ndim = n[2];
    for (int64_t b = begin; b < end; b++) {
        int64_t count = start[b + 1] - start[b], *to = (int64_t *)p[0] + start[b] * ndim;
        if (ndim == 1) {
            block_positions(to, mask, b * n[1], count);
            continue;
        }
        int64_t position[64], rest = b * n[1];
        for (int64_t d = ndim - 1; d >= 0; d--) position[d] = rest % shape[d], rest /= shape[d];
        for (int64_t i = b * n[1]; count; i++) {
            if (mask[i]) {
                for (int64_t d = 0; d < ndim; d++) to[d] = position[d];
                to += ndim, count--;
            }
            for (int64_t d = ndim - 1; d >= 0 && ++position[d] == shape[d] && d; d--)
                    position[d] = 0;
        }
    }
}
"""

MOVES = r"""
/* mask.select:@S@  p: result, self, mask, starts.  n: elements, block length */
static void mask_select_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    const @T@ *self = (const @T@ *)p[1];
    const uint8_t *mask = (const uint8_t *)p[2];
    const int64_t *start = (const int64_t *)p[3];
    for (int64_t b = begin; b < end; b++) {
        int64_t count = start[b + 1] - start[b];
        @T@ *to = (@T@ *)p[0] + start[b];
        for (int64_t i = b * n[1], found = 0; found < count; i++) {
            to[found] = self[i];
            found += mask[i] != 0;
        }
    }
}

/* mask.scatter:@S@  p: result, self, mask, starts, source.  n: elements, block length */
static void mask_scatter_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    const @T@ *self = (const @T@ *)p[1], *source = (const @T@ *)p[4];
    @T@ *to = (@T@ *)p[0];
    const uint8_t *mask = (const uint8_t *)p[2];
    for (int64_t b = begin; b < end; b++) {
        int64_t stop = MIN(n[0], (b + 1) * n[1]), next = ((const int64_t *)p[3])[b];
        for (int64_t i = b * n[1]; i < stop; i++)
            if (mask[i]) to[i] = source[next++];
            else to[i] = self[i];
    }
}
"""


#: how many values are selected stands in the last of the starts: the operator allocates by it
OPERANDS = {
    "mask.count": "2;0; w counts i64 N; r mask b8 n0",
    "mask.start": "1;0; w starts i64 n0+1; r counts i64 n0",
    "mask.positions": "3+n2;0; w result i64 0; r mask b8 n0; r starts i64 N+1",
    "mask.select": "2;0; w result @ 0; r self @ n0; r mask b8 n0; r starts i64 N+1",
    "mask.scatter": """2;0; w result @ n0; r self @ n0; r mask b8 n0; r starts i64 N+1;
        r source @ 0""",
}


def parts() -> tuple[str, list[Entry]]:
    """Give the C text and the table entries."""
    text = [BLOCKS]
    entries = [
        ("mask.count", "b", "mask_count", declared(OPERANDS["mask.count"])),
        ("mask.start", "d", "mask_start", declared(OPERANDS["mask.start"])),
        ("mask.positions", "b", "mask_positions", declared(OPERANDS["mask.positions"])),
    ]
    for size, ctype in SIZES.items():
        text.append(fill(MOVES, S=size, T=ctype))
        for name in ("mask.select", "mask.scatter"):
            said = declared(OPERANDS[name], width(size))
            entries.append((f"{name}:{size}", "b", f"{name.replace('.', '_')}_{size}", said))
    return "".join(text), entries
