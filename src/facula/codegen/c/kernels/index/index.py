"""C kernels for indexing: gather, scatter, masks, index checks, searches.

Takes an instruction set; `unit` gives one translation unit. Every kernel trusts its indices:
operators run `index.check`
first. Keeps true: for one destination element, contributions arrive in index order whatever the
number of threads, so
results are deterministic; negative indices count from the end.
"""

from __future__ import annotations

from typing import Any

from facula.codegen.c.entries import declared, table
from facula.codegen.c.kernels.index import index_mask, index_rows, index_search
from facula.codegen.c.kernels.movement.movement import (
    ARITHMETIC,
    COMPLEX,
    PRELUDE,
    SIZES,
    STREAM,
    UNSIGNED,
    fill,
    width,
)

# p, n of gather and scatter are described at `geometry`; the three innermost levels are walked
# without an odometer.
GEOMETRY = r"""
/* The iteration space of gather and scatter is the index tensor's shape. One coordinate, `dim`, is
 * replaced by the index
 * value in the addressed tensor.
 * n: ndim (at least 2), dim, extent, split, flag, shape[ndim], index strides[ndim], addressed
 * strides[ndim],
 * other strides[ndim] (all in elements; "other" is the result of gather, the source of scatter)
 * 
 * The addressed stride of `dim` is the step of one index value; extent is what negative indices
 * wrap around.
 * split: 0 items are rows (all coordinates but the last; in scatter, all coordinates before dim), 1
 * items are values of
 *        the last coordinate, 2 (scatter) items are index values. */
typedef struct {
    int64_t ndim, dim, extent, index_row, index_column, other_row, other_column;
    int64_t address_row, address_column, step;
    const int64_t *shape, *index, *address, *other;
} geometry;

INLINE geometry read_geometry(const int64_t *n) {
    geometry g;
    g.ndim = n[0], g.dim = n[1], g.extent = n[2];
    g.shape = n + 5, g.index = g.shape + g.ndim, g.address = g.index + g.ndim, g.other = g.address
            + g.ndim;
    int64_t row = g.ndim - 2, column = g.ndim - 1;
    g.step = g.address[g.dim];
    g.index_row = g.index[row], g.index_column = g.index[column];
    g.other_row = g.other[row], g.other_column = g.other[column];
    g.address_row = g.dim == row ? 0 : g.address[row];
    g.address_column = g.dim == column ? 0 : g.address[column];
    return g;
}

/* a run of rows that differ in the second-last coordinate only */
typedef struct { int64_t row, position[64], index, address, other; } walker;

INLINE void walk_to(walker *w, const geometry *g, int64_t row) {
    w->row = row, w->index = w->address = w->other = 0;
    for (int64_t d = g->ndim - 2; d >= 0; d--) {
        int64_t at = row % g->shape[d];
        row /= g->shape[d];
        w->position[d] = at;
        w->index += at * g->index[d];
        w->other += at * g->other[d];
        if (d != g->dim) w->address += at * g->address[d];
    }
}

INLINE int64_t walk_run(const walker *w, const geometry *g, int64_t end) {
    return MIN(end - w->row, g->shape[g->ndim - 2] - w->position[g->ndim - 2]);
}

INLINE void walk_on(walker *w, const geometry *g, int64_t run) {
    int64_t d = g->ndim - 2, by = run;
    w->row += run;
    for (;;) {
        w->position[d] += by;
        w->index += by * g->index[d];
        w->other += by * g->other[d];
        if (d != g->dim) w->address += by * g->address[d];
        if (w->position[d] < g->shape[d] || d == 0) return;
        w->position[d] = 0;
        w->index -= g->shape[d] * g->index[d];
        w->other -= g->shape[d] * g->other[d];
        if (d != g->dim) w->address -= g->shape[d] * g->address[d];
        d--, by = 1;
    }
}

INLINE int64_t wrap(int64_t index, int64_t extent) { return index + ((index >> 63) & extent); }
"""

GATHER = r"""
/* gather:@S@  p: result, self, index (int64).  n[4]: 1 when the result is larger than the caches */
static void gather_rows_@S@(const geometry *g, const @T@ *self, @T@ *result, const int64_t *index,
        int64_t run,
                            int64_t first, int64_t last, int streaming) {
    int whole = g->index_column == 0 && g->dim != g->ndim - 1;
    int solid = g->address_column == 1 && g->other_column == 1;
    int64_t bytes = (last - first) * (int64_t)sizeof(@T@), ahead = g->index_row * 6;
    for (int64_t r = 0; r < run; r++) {
        const int64_t *at = index + r * g->index_row;
        const @T@ *from = self + r * g->address_row;
        @T@ *to = result + r * g->other_row;
        if (whole && solid) {
            if (r + 6 < run && bytes >= 32) { /* speed only: a few lines ahead */
                const char *next = (const char *)(from + 6 * g->address_row /* speed only */
                    + wrap(at[ahead], g->extent) * g->step + first); /* speed only */
                for (int64_t b = 0; b < MIN(bytes, 512); b += 64) __builtin_prefetch(next + b);
            }
            const char *source = (const char *)(from + wrap(at[0], g->extent) * g->step + first);
            if (streaming) stream_bytes((char *)(to + first), source, bytes);
            else copy_bytes((char *)(to + first), source, bytes);
        } else if (whole) {
            from += wrap(at[0], g->extent) * g->step;
            for (int64_t c = first; c < last; c++) to[c * g->other_column] =
                    from[c * g->address_column];
        } else if (g->index_column == 1 && g->other_column == 1) {
            for (int64_t c = first; c < last; c++)
                to[c] = from[c * g->address_column + wrap(at[c], g->extent) * g->step];
        } else {
            for (int64_t c = first; c < last; c++)
                to[c * g->other_column] =
                    from[c * g->address_column + wrap(at[c * g->index_column], g->extent)
                            * g->step];
        }
    }
}

static void gather_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    geometry g = read_geometry(n);
    int64_t first = 0, last = g.shape[g.ndim - 1], row = begin, stop = end;
    if (n[3] == 1) {
        first = begin, last = end, row = 0, stop = 1;
        for (int64_t d = 0; d < g.ndim - 1; d++) stop *= g.shape[d];
    }
    walker w;
    walk_to(&w, &g, row);
    while (w.row < stop) {
        int64_t run = walk_run(&w, &g, stop);
        gather_rows_@S@(&g, (const @T@ *)p[1] + w.address, (@T@ *)p[0] + w.other,
                (const int64_t *)p[2] + w.index, run,
                       first, last, (int)n[4]);
        walk_on(&w, &g, run);
    }
    if (n[4]) STREAM_FENCE();
}
"""

SCATTER = r"""
/* scatter.@OP@:@S@ p: self (changed), source, index (int64). A source stride of 0 repeats one
 * value. */
static void scatter_@OP@_rows_@S@(const geometry *g, @T@ *self, const @T@ *source,
        const int64_t *index, int64_t run,
                                  int64_t first, int64_t last, uint64_t low, uint64_t span) {
    int whole = g->index_column == 0 && g->dim != g->ndim - 1;
    for (int64_t r = 0; r < run; r++) {
        const int64_t *at = index + r * g->index_row;
        const @T@ *from = source + r * g->other_row;
        @T@ *to = self + r * g->address_row;
        if (whole) {
            int64_t target = wrap(at[0], g->extent);
            if ((uint64_t)target - low >= span) continue;
            to += target * g->step;
            if (g->address_column == 1 && g->other_column == 1) {
                @ROW@
            } else {
                for (int64_t c = first; c < last; c++) {
                    @T@ *a = to + c * g->address_column;
                    @T@ b = from[c * g->other_column];
                    @COMBINE@
                }
            }
        } else {
            for (int64_t c = first; c < last; c++) {
                int64_t target = wrap(at[c * g->index_column], g->extent);
                if ((uint64_t)target - low >= span) continue;
                @T@ *a = to + c * g->address_column + target * g->step;
                @T@ b = from[c * g->other_column];
                @COMBINE@
            }
        }
    }
}

static void scatter_@OP@_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    geometry g = read_geometry(n);
    int64_t first = 0, last = g.shape[g.ndim - 1], rows = 1, row = 0, inner = 1;
    uint64_t low = 0, span = UINT64_MAX;
    for (int64_t d = 0; d < g.ndim - 1; d++) rows *= g.shape[d], inner *= d < g.dim ? 1
            : g.shape[d];
    if (n[3] == 0) row = begin * inner, rows = end * inner;
    else if (n[3] == 1) first = begin, last = end;
    else low = (uint64_t)begin, span = (uint64_t)(end - begin);
    walker w;
    walk_to(&w, &g, row);
    while (w.row < rows) {
        int64_t run = walk_run(&w, &g, rows);
        scatter_@OP@_rows_@S@(&g, (@T@ *)p[0] + w.address, (const @T@ *)p[1] + w.other,
                (const int64_t *)p[2] + w.index,
                             run, first, last, low, span);
        walk_on(&w, &g, run);
    }
}
"""

ROW_SET = (
    "copy_bytes((char *)(to + first), (const char *)(from + first), "
    "(last - first) * (int64_t)sizeof(@T@));"
)
ROW_COMBINE = r"""_Pragma("omp simd")
                for (int64_t c = first; c < last; c++) {
                    @T@ *a = to + c;
                    @T@ b = from[c];
                    @COMBINE@
                }"""

# a is a pointer to the element, b the incoming value; NaN wins in max and min
REAL_COMBINE = {
    "add": "*a = (@T@)(*a + b);",
    "mul": "*a = (@T@)(*a * b);",
    "max": "{ @T@ v = *a; *a = (b > v) | (b != b) ? b : v; }",
    "min": "{ @T@ v = *a; *a = (b < v) | (b != b) ? b : v; }",
}
COMPLEX_COMBINE = {
    "add": "a->re += b.re, a->im += b.im;",
    "mul": "{ @T@ v = *a; a->re = v.re * b.re - v.im * b.im; a->im = v.re * b.im + v.im * b.re; }",
}
OPERATIONS = {
    **dict.fromkeys(COMPLEX, tuple(COMPLEX_COMBINE)),
    **dict.fromkeys(UNSIGNED, ("max", "min")),
}
# signed overflow wraps, as on every processor
UNSIGNED_PRODUCT = {
    "i64": "*a = (int64_t)((uint64_t)*a @OP@ (uint64_t)b);",
    "i32": "*a = (int32_t)((uint32_t)*a @OP@ (uint32_t)b);",
    "i16": "*a = (int16_t)((uint32_t)*a @OP@ (uint32_t)b);",
}

CHECK = r"""
/* the first position whose index is not in [low, low + span) goes to `bad`, which starts at -1 */
static void check_range(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                        int64_t end) {
    (void)s;
    const int64_t *index = (const int64_t *)p[1];
    int64_t *bad = (int64_t *)p[0];
    uint64_t low = (uint64_t)n[0], span = (uint64_t)(n[1] - n[0]);
    for (int64_t i = begin; i < end; i += 1024) {
        int64_t stop = MIN(end, i + 1024), wrong = 0;
        for (int64_t j = i; j < stop; j++) wrong |= (int64_t)((uint64_t)index[j] - low >= span);
        if (!wrong) continue;
        while ((uint64_t)index[i] - low < span) i++;
        int64_t seen = __atomic_load_n(bad, __ATOMIC_RELAXED);
        while (seen < 0 || seen > i)
            if (__atomic_compare_exchange_n(bad, &seen, i, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                break;
        return;
    }
}

/* index.check  p: first bad position or -1 (int64), index (int64).
 * n: low, high, count: low <= index < high is good.  A driver. */
static int index_check(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    *(int64_t *)p[0] = -1;
    rt->parallel(check_range, p, n, s, n[2], 65536);
    return 0;
}

/* index.linear  p: result, index tensors (int64).  n: how many, then extent, step, stride of each:
 * result[i] = sum of wrap(index[i * stride], extent) * step */
static void index_linear(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t *result = (int64_t *)p[0];
    for (int64_t k = 0; k < n[0]; k++) {
        const int64_t *index = (const int64_t *)p[1 + k];
        int64_t extent = n[1 + 3 * k], step = n[2 + 3 * k], stride = n[3 + 3 * k];
        if (k == 0)
            for (int64_t i = begin; i < end; i++) result[i] = wrap(index[i * stride], extent)
                    * step;
        else
            for (int64_t i = begin; i < end; i++) result[i] += wrap(index[i * stride], extent)
                    * step;
    }
}
"""

ROWS = r"""
/* rows:@S@  result[o, i, :] = self[o, index[i], :] over contiguous tensors, indices checked first.
 * p: result, self, index (int64), first bad position or -1 (int64).
 * n: outer, extent, inner, count, low: low <= index < extent.  A driver. */
static void rows_part_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                          int64_t end) {
    (void)s;
    int64_t extent = n[1], inner = n[2], count = n[3], bytes = inner * (int64_t)sizeof(@T@);
    const int64_t *index = (const int64_t *)p[2];
    int streaming = n[0] * count * bytes >= STREAM_FROM;
    for (int64_t at = begin; at < end; at++) {
        int64_t o = at / count, i = at - o * count;
        const char *plane = p[1] + o * extent * bytes;
        if (i + 6 < count && bytes >= 32) {
            const char *next = plane + wrap(index[i + 6], extent) * bytes;
            for (int64_t b = 0; b < MIN(bytes, 512); b += 64) __builtin_prefetch(next + b);
        }
        const char *from = plane + wrap(index[i], extent) * bytes;
        if (streaming) stream_bytes(p[0] + at * bytes, from, bytes);
        else if (inner == 1) ((@T@ *)p[0])[at] = *(const @T@ *)from;
        else copy_bytes(p[0] + at * bytes, from, bytes);
    }
    if (streaming) STREAM_FENCE();
}

static int rows_@S@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    char *check[] = {p[3], p[2]};
    int64_t range[] = {n[4], n[1], n[3]};
    index_check(check, range, s, rt);
    if (*(int64_t *)p[3] < 0)
        rt->parallel(rows_part_@S@, p, n, s, n[0] * n[3], MAX(1, 32768 / MAX(1, n[2])));
    return 0;
}
"""


#: the iteration space of gather and scatter is that of `geometry`; what is addressed reaches as far
#: as the largest coordinates, with the largest index in the place of `dim`
_ADDRESSED = (
    "if(product(n0,5),high(n0,5,5+2*n0)-(n[5+n1]-1)*n[5+2*n0+n1]+max(n2-1,0)*n[5+2*n0+n1],0)"
)
OPERANDS = {
    "gather": f"""5+4*n0;0; w result @ high(n0,5,5+3*n0); r self @ {_ADDRESSED};
        r index i64 high(n0,5,5+n0); c shape product(n0,5); c dimension min(1+n1,n0-n1)""",
    "scatter": f"""5+4*n0;0; u self @ {_ADDRESSED}; r source @ high(n0,5,5+3*n0);
        r index i64 high(n0,5,5+n0); c shape product(n0,5); c dimension min(1+n1,n0-n1)""",
    "index.check": "3;0; w bad i64 1; r index i64 n2",
    "index.linear": "1+3*n0;0; w result i64 N; *n0 r index i64 span(N,n[3+3*i])",
    "rows": """5;0; w result @ n0*n3*n2; r self @ n0*n1*n2; r index i64 n3; w bad i64 1""",
}


def _scatter(op: str, suffix: str, ctype: str, combine: str) -> str:
    row = ROW_SET if op == "set" else ROW_COMBINE
    text = fill(SCATTER, ROW=row, COMBINE=combine)
    return fill(text, OP=op, S=suffix, T=ctype)


def _combine(op: str, dtype: str) -> str:
    if dtype in COMPLEX:
        return COMPLEX_COMBINE[op]
    if op in ("add", "mul") and dtype in UNSIGNED_PRODUCT:
        return fill(UNSIGNED_PRODUCT[dtype], OP="+" if op == "add" else "*")
    return REAL_COMBINE[op]


def unit(isa: Any) -> str:
    """Give the translation unit of the indexing kernels; the compiler's flags alone make it fit
    `isa`.
    """
    parts = [PRELUDE, STREAM, GEOMETRY, CHECK]
    entries = [
        ("index.check", "d", "index_check", declared(OPERANDS["index.check"])),
        ("index.linear", "b", "index_linear", declared(OPERANDS["index.linear"])),
    ]
    for size, ctype in SIZES.items():
        any_ = width(size)
        parts.append(fill(GATHER, S=size, T=ctype))
        entries.append(
            (f"gather:{size}", "b", f"gather_{size}", declared(OPERANDS["gather"], any_))
        )
        parts.append(fill(ROWS, S=size, T=ctype))
        entries.append((f"rows:{size}", "d", f"rows_{size}", declared(OPERANDS["rows"], any_)))
        parts.append(_scatter("set", size, ctype, "*a = b;"))
        said = declared(OPERANDS["scatter"], any_)
        entries.append((f"scatter.set:{size}", "b", f"scatter_set_{size}", said))
    for dtype, ctype in {**ARITHMETIC, **COMPLEX, **UNSIGNED}.items():
        for op in OPERATIONS.get(dtype, tuple(REAL_COMBINE)):
            parts.append(_scatter(op, dtype, ctype, _combine(op, dtype)))
            said = declared(OPERANDS["scatter"], dtype)
            entries.append((f"scatter.{op}:{dtype}", "b", f"scatter_{op}_{dtype}", said))
    for text, more in (index_mask.parts(), index_search.parts(), index_rows.parts(REAL_COMBINE)):
        parts.append(text)
        entries += more
    return "".join(parts) + table(entries)
