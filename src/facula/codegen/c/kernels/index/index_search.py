"""C kernels that search: searchsorted, histograms, run boundaries, repeat counts.

`parts()` gives C text and table entries for the index unit. Keeps true: boundaries are taken to be
sorted (nothing is
checked); a NaN value goes behind all of them.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.kernels.movement.movement import fill

SEARCHED = {"f32": "float", "f64": "double", "i64": "int64_t", "i32": "int32_t"}

SEARCH = r"""
/* one batch of values against one row of boundaries: all take the same number of halvings, so the
 * lanes stay together */
INLINE void search_batch_@D@(int64_t *restrict result, const @T@ *restrict sorted,
        const int64_t *order,
                             const @T@ *restrict values, int64_t boundaries, int right,
                                         int64_t count) {
    int64_t low[32] = {0};
    for (int64_t length = boundaries; length > 0;) {
        int64_t half = length > 1 ? length >> 1 : 1;
        if (order)
            for (int64_t j = 0; j < count; j++) {
                @T@ at = sorted[order[low[j] + half - 1]];
                low[j] += (right ? !(at > values[j]) : !(at >= values[j])) ? half : 0;
            }
        else if (right)
            _Pragma("omp simd") for (int64_t j = 0; j < count; j++)
                low[j] += !(sorted[low[j] + half - 1] > values[j]) ? half : 0;
        else
            _Pragma("omp simd") for (int64_t j = 0; j < count; j++)
                low[j] += !(sorted[low[j] + half - 1] >= values[j]) ? half : 0;
        if (length == 1) break;
        length -= half;
    }
    for (int64_t j = 0; j < count; j++) result[j] = low[j];
}

/* searchsorted:@D@  p: result (int64), boundaries, values, sorter (int64) or null.
 * n: boundaries per row, values per row, 1 when all rows share one row of boundaries, 1 for the
 * right side; items values */
static void searchsorted_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    for (int64_t i = begin; i < end;) {
        int64_t row = n[2] ? 0 : i / n[1], stop = n[2] ? end : MIN(end, (row + 1) * n[1]);
        const @T@ *sorted = (const @T@ *)p[1] + row * n[0];
        const int64_t *order = p[3] ? (const int64_t *)p[3] + row * n[0] : 0;
        int64_t *result = (int64_t *)p[0];
        const @T@ *values = (const @T@ *)p[2];
        for (; i + 32 <= stop; i += 32)
            search_batch_@D@(result + i, sorted, order, values + i, n[0], (int)n[3], 32);
        if (i < stop) search_batch_@D@(result + i, sorted, order, values + i, n[0], (int)n[3],
                stop - i);
        i = stop;
    }
}

/* runs:@D@ marks where a value differs from the one before: p: mark (one byte), values [rows,
 * length]; n: length.
 * Items are rows after the first one; mark has one value a row, the first is the operator's. */
static void runs_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    const @T@ *values = (const @T@ *)p[1];
    uint8_t *mark = (uint8_t *)p[0] + 1;
    if (n[0] == 1) {
        for (int64_t i = begin; i < end; i++) mark[i] = values[i] != values[i + 1];
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const @T@ *a = values + i * n[0], *b = a + n[0];
        int64_t j = 0;
        while (j < n[0] && a[j] == b[j]) j++;
        mark[i] = j < n[0];
    }
}
"""

HISTOGRAM = r"""
/* histogram:@D@ p: counts (@D@, zeroed), values, edges (bins + 1) or null for bins of equal width,
 * weights or null.
 * n: values, bins. s: low, high. Values outside and NaN are left out; the last bin holds its right
 * edge. A driver. */
static int histogram_@D@(char *const *p, const int64_t *n, const fk_scalar *s,
            const fk_runtime *rt) {
    (void)rt;
    @T@ *counts = (@T@ *)p[0];
    const @T@ *values = (const @T@ *)p[1], *edges = (const @T@ *)p[2], *weights = (const @T@ *)p[3];
    int64_t bins = n[1];
    @T@ low = edges ? edges[0] : (@T@)s[0].f, high = edges ? edges[bins] : (@T@)s[1].f;
    for (int64_t i = 0; i < n[0]; i++) {
        @T@ v = values[i];
        if (!(v >= low && v <= high)) continue;
        int64_t bin;
        if (edges) {
            int64_t length = bins + 1;
            for (bin = 0; length > 0;) {
                int64_t half = length >> 1;
                if (!(edges[bin + half] > v)) bin += half + 1, length -= half + 1;
                else length = half;
            }
            bin -= 1;
        } else {
            bin = (int64_t)((v - low) * (@T@)bins / (high - low));
        }
        counts[MIN(bin, bins - 1)] += weights ? weights[i] : 1;
    }
    return 0;
}
"""

COUNT = r"""
/* bincount  p: counts (int64, [bins]), values (int64, in [0, bins)).  n: values, bins.  A driver:
 * each thread counts a part on its own, in two tables so that repeats do not wait for each other.
 * */
static void bincount_part(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                          int64_t end) {
    (void)s;
    const int64_t *values = (const int64_t *)p[1];
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t *even = (int64_t *)p[2] + slot * 2 * n[1], *odd = even + n[1];
        int64_t i = slot * n[0] / n[2], stop = (slot + 1) * n[0] / n[2];
        __builtin_memset(even, 0, (uint64_t)(2 * n[1]) * sizeof(int64_t));
        for (; i + 2 <= stop; i += 2) even[values[i]]++, odd[values[i + 1]]++;
        if (i < stop) even[values[i]]++;
    }
}

static int bincount(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    int64_t *counts = (int64_t *)p[0];
    int worth = n[0] > 65536 && n[1] * 16 < n[0]; /* speed only */
    int64_t slots = worth ? rt->threads() : 1;
    int64_t *tables = rt->scratch(slots * 2 * n[1] * (int64_t)sizeof(int64_t));
    if (!tables) return 1;
    char *pointers[] = {p[0], p[1], (char *)tables};
    int64_t sizes[] = {n[0], n[1], slots};
    rt->parallel(bincount_part, pointers, sizes, s, slots, 1);
    for (int64_t b = 0; b < n[1]; b++) {
        counts[b] = 0;
        for (int64_t t = 0; t < 2 * slots; t++) counts[b] += tables[t * n[1] + b];
    }
    rt->release(tables);
    return 0;
}
"""

REPEAT = r"""
/* repeat.index p: result (int64), ends (int64: running totals of the repeats). Items are entries.
 * */
static void repeat_index(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)n, (void)s;
    const int64_t *ends = (const int64_t *)p[1];
    int64_t *result = (int64_t *)p[0];
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = i ? ends[i - 1] : 0; j < ends[i]; j++) result[j] = i;
}
"""


_BOUNDARIES = "if(n2,n0,(N+n1-1)/n1*n0)"
#: the result of `repeat.index` is as long as the last of the ends says: the operator allocates by it
OPERANDS = {
    "searchsorted": f"""4;0; w result i64 N; r boundaries @ {_BOUNDARIES}; r values @ N;
        r? sorter i64 {_BOUNDARIES}""",
    "runs": "1;0; w mark b8 N+1; r values @ (N+1)*n0",
    "histogram": "2;2; u counts @ n1; r values @ n0; r? edges @ n1+1; r? weights @ n0; c bins n1",
    "bincount": "2;0; w counts i64 n1; r values i64 n0",
    "repeat.index": "0;0; w result i64 0; r ends i64 N",
}


def parts() -> tuple[str, list[Entry]]:
    """Give the C text and the table entries."""
    text = [REPEAT, COUNT]
    entries = [
        ("repeat.index", "b", "repeat_index", declared(OPERANDS["repeat.index"])),
        ("bincount", "d", "bincount", declared(OPERANDS["bincount"])),
    ]
    for dtype, ctype in SEARCHED.items():
        text.append(fill(SEARCH, D=dtype, T=ctype))
        for name in ("searchsorted", "runs"):
            said = declared(OPERANDS[name], dtype)
            entries.append((f"{name}:{dtype}", "b", f"{name}_{dtype}", said))
    for dtype in ("f32", "f64"):
        text.append(fill(HISTOGRAM, D=dtype, T=SEARCHED[dtype]))
        said = declared(OPERANDS["histogram"], dtype)
        entries.append((f"histogram:{dtype}", "d", f"histogram_{dtype}", said))
    return "".join(text), entries
