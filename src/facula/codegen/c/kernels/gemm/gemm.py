"""Matrix products: C text of the `gemm` drivers on top of the register tile.

Takes a kind; gives `gemm:<dtype>` for each dtype that it serves. Keeps true:
C[b] = map(alpha * A[b] @ B[b] + beta * C[b] + bias + residual) for any strides of A and B; a product too small
for a thread is computed by the caller on its own stack; results do not depend on the number of
threads.

p = C, A, B, bias or null (N values of C's dtype, or M), residual (in the places of C)
n = batch, M, N, K, A strides (batch, row, column), B strides (batch, row, column),
    C strides (batch, row; its columns are neighbours),
    flags: bits 8 conj(A), 9 conj(B), 10 B is the panels that `gemm_pack` made, 11 there is a
    residual, 12 there is a map, whose address comes next, 13 the bias has M values, which rows
    start from (alpha is 1, and nothing is complex), 14 it has so many for each of the batch
s = alpha, beta, attributes of the map
`gemm_pack:<dtype>`: p = panels, B;  n = N, K, B strides (row, column)
"""

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.gemm.gemm_few_rows import FEW_ROWS
from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill
from facula.codegen.c.kernels.gemm.tile_pack import panel_room, storages

__all__ = ["gemm_entries", "gemm_text"]

TYPES = r"""
typedef void pack_function(const char *source, long k_stride, long j_stride, long elements,
                           long width, int flags, word *out);
/* What a dtype needs.  reals: real numbers in an element (2 when complex). */
typedef struct {
    long a_size, b_size, c_size, bias_size, reals;
    int raw_a, raw_b, same, signed_a; /* same: sums are results; signed_a: A is packed as A + 128 */
    int alike; /* A and B are packed alike, so that they may change places */
    copy_row_function *copy_row;
    columns_function *columns;
    pack_function *pack;
    dots_function *dots;
    void (*finish)(const output *, acc_t *, long, long, long, long, const long *);
    void (*values)(const char *, long, acc_t *);
} format;

typedef struct {
    const format *f;
    const char *a, *b;
    long batch, m, n, k; /* n and k in real numbers */
    long a_batch, a_row, a_column, b_batch, b_row, b_column, c_batch, c_row; /* elements */
    int conjugate, plain, packed, converts;
    long start_batch; /* between what rows of neighbours in the batch start from */
    output out;
    /* the plan: units of rows x panels, K in blocks of kc, rows in blocks of mc */
    long panels, row_units, column_units, kc, mc, rows_kept, panels_kept, k_kept;
    enum { PACKED, IN_PLACE, DOTS, SWAPPED } way;
} product;

#define KC (1024 / (long)sizeof(word))
#define MC 240
#define L2_PANELS MAX(1, L2_BYTES / (KC * NR * (long)sizeof(word)))
#define SMALL 200000 /* products below which a second thread does not pay */
#define STACK_BYTES 24576
#define IN_PLACE_M (4 * MR) /* the most rows for which B is not packed */
#define NEAR_M (16 * MR) /* the same where B has so few rows that its panels stay in L2 */
#define NEAR_K 64
#define NEAR_PANELS 16
#define LARGE_BYTES (16L << 20) /* operands that come from memory */
#define DOTS_WIDTH 64 /* columns of a unit of dots */
"""

UNITS = r"""
INLINE long words_of(long elements) { return CEIL(elements, GROUP); }

/* sum over k of B times -128, which undoes that A was packed as A + 128 */
NOINLINE void add_correction(const word *packed, long words, long panels, acc_t *correction)
{
#if GROUP == 4
    for (long p = 0; p < panels; p++)
        for (long v = 0; v < VECS; v++) {
            acc_vec total = {0};
            for (long k = 0; k < words; k++)
                MULTIPLY_ADD(total, *(const vec *)(packed + (p * words + k) * NR + v * VECTOR),
                             0x01010101);
            *(acc_vec *)(correction + p * NR + v * VECTOR) -= total * 128;
        }
#endif
}

INLINE a_source source_of_a(const product *g, const char *a, long k, long elements, word *buffer)
{
    const format *f = g->f;
    a_source s = {A_ROWS, a + k / f->reals * g->a_column * f->a_size, g->a_column, f->a_size,
                  elements, f->copy_row, f->columns, buffer};
    if (g->a_row == 1 && g->a_column != 1 && f->columns) s.mode = A_COLUMNS;
    return s;
}

/* from one row of sums to the next: no further than the columns from panel `first` on reach */
INLINE long sums_apart(const product *g, long first)
{
    return MIN(g->panels_kept * NR, CEIL(g->n - first * NR, VECTOR) * VECTOR);
}

/* Panels [first, last) of a unit, packed: as gemm does on any machine with caches. */
NOINLINE void packed_panels(const product *g, const output *out, const char *a, const char *b,
                            long first, long last, long r0, long r1, char *scratch)
{
    const format *f = g->f;
    const long group = last - first;
    word *packed = carve(&scratch, g->k_kept * g->panels_kept * NR * sizeof(word));
    word *copy = carve(&scratch, COPY_WORDS(g->kc) * sizeof(word));
    acc_t *sums = carve(&scratch, g->rows_kept * g->panels_kept * NR * sizeof(acc_t));
    acc_t *correction = carve(&scratch, g->panels_kept * NR * sizeof(acc_t));
    output finishing = *out;
    if (f->signed_a) {
        memset(correction, 0, group * NR * sizeof(acc_t));
        finishing.correction = correction, finishing.correction_first = first * NR;
    }
    for (long m0 = r0; m0 < r1; m0 += g->mc) {
        const long rows = MIN(g->mc, r1 - m0);
        long k0 = 0;
        do {
            const long elements = MIN(g->kc, g->k - k0), words = words_of(elements);
            const word *panels = packed + (g->k_kept > words_of(g->kc) ? words_of(k0) * group * NR : 0);
            if (g->packed)
                panels = (const word *)b + (words_of(k0) * g->panels + first * words) * NR;
            else if (m0 == r0 || g->k_kept <= words_of(g->kc) && g->k > g->kc) {
                for (long p = first; p < last; p++)
                    f->pack(b + (k0 / f->reals * g->b_row + p * NR / f->reals * g->b_column)
                                    * f->b_size,
                            g->b_row, g->b_column, elements, MIN(NR, g->n - p * NR), g->conjugate,
                            (word *)panels + (p - first) * words * NR);
                if (f->signed_a) add_correction(panels, words, group, correction);
            }
            const segment one = {0, 0, words};
            job j = {source_of_a(g, a + m0 * g->a_row * f->a_size, k0, elements, copy), &one, 1,
                     NULL, panels, NR, words * NR, first, last, g->n};
            cursor w = cursor_rows(rows, g->a_row, g->c_row * f->reals);
            if (f->raw_a && elements % GROUP == 0 && g->a_row * f->reals % GROUP == 0
                && k0 * g->a_column % GROUP == 0 && (g->a_column == 1 || GROUP == 1 && f->reals == 1)
                && (group == 1 || rows <= MR)) {
                j.a.mode = A_IN_PLACE, j.a.stride = g->a_column == 1 ? 1 : g->a_column;
                w.a_step[3] = g->a_row * f->reals / GROUP;
            }
            j.store = k0 || g->plain && out->beta != 0 ? ACCUMULATE : STORE;
            if (!g->plain) j.store = k0 ? ACCUMULATE : STORE;
            if (out->start && !k0) j.start = out->start + m0;
            j.sums = sums, j.sums_stride = sums_apart(g, first);
            j.keeps = g->k > g->kc, j.finishes = k0 + g->kc >= g->k;
            finishing.c = out->c + m0 * g->c_row * f->c_size;
            j.out = &finishing;
            if (g->plain) j.direct = (acc_t *)finishing.c;
            if (g->converts && !j.keeps) j.converted = finishing.c;
            block(&j, &w, rows, 0);
            k0 += g->kc;
        } while (k0 < g->k);
    }
}

/* rows of B that are read side by side: few when B streams from memory */
INLINE long in_place_k(const product *g)
{
    if (g->m > MR && g->k <= NEAR_K) return g->k;
    if (g->m <= 2) return g->b_row * sizeof(word) % 4096 ? 64 : 8; /* else rows fall into few sets */
    return g->k * g->n * (long)sizeof(word) > LARGE_BYTES ? 16 : 128;
}

/* A few rows times full panels of a row-major B where it lies. */
NOINLINE void panels_in_place(const product *g, const output *out, const char *a, const char *b,
                              long first, long last, char *scratch)
{
    acc_t *sums = carve(&scratch, g->rows_kept * g->panels_kept * NR * sizeof(acc_t));
    long k0 = 0;
    do {
        const long length = MIN(g->kc, g->k - k0);
        const segment one = {0, 0, length};
        job j = {{A_IN_PLACE, a + k0 * g->a_column * sizeof(word), g->a_column, sizeof(word)},
                 &one, 1, NULL, (const word *)b + k0 * g->b_row + first * NR, g->b_row, NR, first, last,
                 g->n};
        cursor w = cursor_rows(g->m, g->a_row, g->c_row);
        j.store = k0 || g->plain && out->beta != 0 ? ACCUMULATE : STORE;
        if (!g->plain) j.store = k0 ? ACCUMULATE : STORE;
        if (!k0) j.start = out->start;
        j.sums = sums, j.sums_stride = sums_apart(g, first);
        j.keeps = g->k > g->kc, j.finishes = k0 + g->kc >= g->k, j.out = out;
        if (g->plain) j.direct = (acc_t *)out->c;
        block(&j, &w, g->m, 0); /* any value does that leaves room for m rows of sums */
        k0 += g->kc;
    } while (k0 < g->k);
}

"""

UNIT = r"""
static void product_unit(void *context, long unit, char *scratch)
{
    const product *g = context;
    const format *f = g->f;
    const long columns = unit % g->column_units, rest = unit / g->column_units;
    const long batch = rest / g->row_units, rows = rest % g->row_units;
    const char *a = g->a + batch * g->a_batch * f->a_size, *b = g->b + batch * g->b_batch * f->b_size;
    output out = g->out;
    out.c += batch * g->c_batch * f->c_size;
    if (out.start) out.start += batch * g->start_batch;
    if (g->way == DOTS || g->way == SWAPPED) {
        const long width = CEIL(CEIL(g->n, g->column_units), 8) * 8;
        (g->way == DOTS ? dots_unit : swapped_unit)(
            g, &out, a, b, MIN(g->n, columns * width), MIN(g->n, (columns + 1) * width), scratch);
        return;
    }
    const long first = tile_first(g->panels, g->column_units, columns);
    const long last = tile_first(g->panels, g->column_units, columns + 1);
    const long tiles = CEIL(g->m, MR);
    const long r0 = tile_first(tiles, g->row_units, rows) * MR;
    const long r1 = MIN(g->m, tile_first(tiles, g->row_units, rows + 1) * MR);
    a += r0 * g->a_row * f->a_size, out.c += r0 * g->c_row * f->c_size;
    if (out.start) out.start += r0;
    if (g->way == IN_PLACE) {
        const long full = MIN(last, g->n / VECTOR * VECTOR == g->n ? last : g->n / NR);
        if (first < full) panels_in_place(g, &out, a, b, first, full, scratch);
        if (full < last)
            packed_panels(g, &out, a, b, MAX(first, full), last, 0, r1 - r0, scratch);
        return;
    }
    packed_panels(g, &out, a, b, first, last, 0, r1 - r0, scratch);
}
"""

PLAN = r"""
#define COPY_WORDS(kc) MAX(MR * (words_of(kc) + VECTOR), A_AHEAD * A_WIDTH * words_of(kc))

/* pieces of `count` such that all threads have the same number of them, where there are enough */
INLINE long even_units(long count, long least, long others, long threads)
{
    long units = least;
    while (units < count && units * others < threads) units++;
    if (units * others < 4 * threads)
        while (units * others % threads && units < count) units++;
    return units;
}

NOINLINE void plan_dots(product *g, long threads)
{
    g->column_units = MIN(CEIL(g->n, 8), threads == 1 ? 1 : CEIL(threads * (g->m > DOTS_M ? 2 : 4), g->batch));
    g->row_units = 1;
}

/* Units of rows, where threads take rows rather than columns, or 0: an A that is turned while it is
 * copied is so once for each unit of columns, where a B that stays in L2 is packed once for each
 * unit of rows, at two thirds of the price. */
INLINE long turned_row_units(const product *g, long threads)
{
    const int turns = g->way == PACKED && !g->packed && g->a_row == 1 && g->a_column != 1 && g->f->columns;
    const long columns = even_units(CEIL(g->panels, 2), 1, 1, threads);
    const long rows = columns > threads ? 2 * threads : threads; /* some to spare where there were */
    const int pays = g->m >= rows * MR * A_AHEAD && 2 * rows * g->n < 3 * columns * g->m;
    return turns && g->batch == 1 && g->column_units == 1 && pays ? rows : 0;
}

NOINLINE void plan_product(product *g, long threads)
{
    const format *f = g->f;
    g->panels = CEIL(g->n, NR), g->row_units = g->column_units = 1;
    const long dots_rows = MAX(DOTS_M, MIN(DOTS_MOST, words_of(g->k) / 6));
    const int dots = f->dots && g->b_row == 1 && g->b_column != 1 && g->m <= dots_rows
                     && g->k >= 2 * VECTOR * GROUP && g->batch * g->n >= 4;
    const int near = g->m > MR && g->m <= NEAR_M && g->k <= NEAR_K;
    const int in_place = GROUP == 1 && f->raw_b && f->raw_a && f->reals == 1 && g->b_column == 1
                         && (g->m <= IN_PLACE_M || near);
    g->way = g->packed                  ? PACKED
             : dots && swapping_pays(g) ? SWAPPED
             : dots                     ? DOTS
             : in_place                 ? IN_PLACE
                                        : PACKED;
    if (g->way == DOTS) { plan_dots(g, threads); return; }
    if (g->way == SWAPPED) {
        g->column_units = threads == 1 ? 1 : MIN(CEIL(g->n, SWAP_ROWS), CEIL(threads, g->batch));
        return;
    }
    const long most = g->way != IN_PLACE ? L2_PANELS : near ? NEAR_PANELS : 1024 / VECTOR;
    g->column_units = CEIL(g->panels, most);
    const long row_units = threads > 1 ? turned_row_units(g, threads) : 0;
    if (row_units) {
        g->row_units = row_units;
    } else if (threads > 1) {
        g->column_units = even_units(MAX(g->column_units, CEIL(g->panels, 2)), g->column_units,
                                     g->batch, threads);
        const long tiles = CEIL(g->m, 4 * MR), units = g->column_units * g->batch;
        if (g->way == PACKED && units % threads && units < 4 * threads)
            g->row_units = even_units(tiles, 1, units, threads);
    }
    g->kc = MIN(g->way == IN_PLACE ? in_place_k(g) : KC * GROUP, MAX(g->k, 1)), g->mc = MC;
    g->panels_kept = CEIL(g->panels, g->column_units);
    const long rows = CEIL(CEIL(g->m, MR), g->row_units) * MR;
    g->rows_kept = MAX(MR, g->k > g->kc ? MIN(MC, rows) : MR);
    g->k_kept = rows > MC ? CEIL(g->k, g->kc) * words_of(g->kc) : words_of(g->kc);
    if (g->packed) g->k_kept = 0;
}

NOINLINE long product_scratch(const product *g)
{
    if (g->way == DOTS) {
        const long rows = g->m + g->f->signed_a;
        return PIECE(rows * dots_stride(g) * sizeof(word))
               + PIECE(rows * DOTS_WIDTH * sizeof(acc_t));
    }
    if (g->way == SWAPPED) return swapped_scratch(g);
    const long in_place = PIECE(g->rows_kept * g->panels_kept * NR * sizeof(acc_t));
    const long packed = PIECE(g->k_kept * g->panels_kept * NR * sizeof(word))
                        + PIECE(COPY_WORDS(g->kc) * sizeof(word))
                        + PIECE(g->rows_kept * g->panels_kept * NR * sizeof(acc_t))
                        + PIECE(g->panels_kept * NR * sizeof(acc_t));
    if (g->way == IN_PLACE && g->n % VECTOR == 0) return in_place;
    return MAX(packed, g->way == IN_PLACE ? in_place : 0);
}

/* A shared B and rows of A that follow each other over the batch make one tall product. */
INLINE void fold_batch(product *g)
{
    if (g->batch > 1 && g->b_batch == 0 && g->a_batch == g->m * g->a_row
        && g->c_batch == g->m * g->c_row)
        g->m *= g->batch, g->batch = 1;
}

static int run_planned(product *g, const fk_runtime *rt)
{
    const int small = (double)g->batch * g->m * g->n * g->k < SMALL; /* speed only */
    plan_product(g, small ? 1 : rt->threads());
    const long bytes = product_scratch(g), units = g->batch * g->row_units * g->column_units;
    if (small && bytes <= STACK_BYTES) {
        char stack[STACK_BYTES + 64] __attribute__((aligned(64)));
        for (long u = 0; u < units; u++) product_unit(g, u, stack);
        return 0;
    }
    return launch(product_unit, g, units, bytes, !small, rt);
}

static int run_product(const format *f, char *const *p, const int64_t *n, acc_t alpha, acc_t beta,
                       epilogue map, const fk_runtime *rt)
{
    product g = {f, p[1], p[2], n[0], n[1], n[2] * f->reals, n[3] * f->reals, n[4], n[5], n[6], n[7],
                 n[8], n[9], n[10], n[11]};
    if (g.batch <= 0 || g.m <= 0 || g.n <= 0) return 0;
    g.out = (output){.finish = f->finish, .c = p[0], .bias = p[3], .alpha = alpha, .beta = beta,
                     .epilogue = map, .size = f->c_size};
    if (n[12] >> 11 & 1) g.out.residual = p[4] - p[0];
    g.conjugate = n[12] >> 8 & 3, g.packed = n[12] >> 10 & 1;
    const int by_row = n[12] >> 13 & 1;
    if (by_row) g.out.bias = NULL;
    const int unscaled = alpha == 1 && !f->signed_a;
    const int sums = unscaled && !g.out.bias && !map.map && !g.out.residual;
    g.out.in_place = f->same && unscaled && !sums && beta == 0 && worth_in_place(g.n);
    g.plain = f->same && sums && (beta == 0 || beta == 1) || g.out.in_place;
    g.converts = CONVERTS && f->c_size == sizeof(result_t) && sums && beta == 0;
    if (g.k == 1 * f->reals) g.a_column = g.b_row = 1; /* a stride that is never taken */
    if (g.n == 1 * f->reals && g.b_column != 1) g.b_column = MAX(g.k, 2);
    if (!by_row || !p[3]) {
        fold_batch(&g);
        return run_planned(&g, rt);
    }
    const int own = n[12] >> 14 & 1;
    const long count = own ? g.batch * g.m : g.m;
    acc_t *start = rt->scratch(count * sizeof(acc_t));
    if (!start) return 1;
    f->values(p[3], count, start), g.out.start = start, g.start_batch = own ? g.m : 0;
    const int failed = run_planned(&g, rt);
    rt->release(start);
    return failed;
}
"""

DRIVER = r"""
static const format $S_format = {$FORMAT};
static int gemm_$S(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const epilogue map = {n[12] >> 12 & 1 ? (fk_map)n[13] : NULL, s + 2};
    return run_product(&$S_format, p, n, (acc_t)s[0].$M, (acc_t)s[1].$M, map, rt);
}
"""

PACK = r"""
typedef struct { const format *f; const char *b; word *panels; long n, k, row, column; } panel_job;

/* one panel of all blocks of k: [block of k][panel][k][NR] */
static void panel_unit(void *context, long p, char *scratch)
{
    const panel_job *j = context;
    const long all = CEIL(j->n, NR), kc = MIN(KC * GROUP, MAX(j->k, 1));
    for (long k0 = 0; k0 < j->k; k0 += kc) {
        const long elements = MIN(kc, j->k - k0), words = words_of(elements);
        j->f->pack(j->b + (k0 * j->row + p * NR * j->column) * j->f->b_size, j->row, j->column,
                   elements, MIN(NR, j->n - p * NR), 0,
                   j->panels + (words_of(k0) * all + p * words) * NR);
    }
}
"""

PACK_DRIVER = r"""
static int gemm_pack_$S(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    panel_job j = {&$S_format, p[1], (word *)p[0], n[0], n[1], n[2], n[3]};
    return launch(panel_unit, &j, CEIL(n[0], NR), 0, n[0] * n[1] > 30000, rt);
}
"""

BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, "i8": 1, "u8": 1}


def format_text(kind: Kind, name: str) -> str:
    """The initializer of a `format`."""
    if name in ("c64", "c128"):
        real = kind.name
        size = 2 * BYTES[real]
        return (
            f"{size}, {size}, {size}, {size}, 2, 1, 0, 1, 0, 0, {name}_copy_row, NULL, {name}_pack, "
            f"NULL, {real}_finish, {real}_values"
        )
    result = {"f16_f32": "f32", "bf16_f32": "f32", "i8": "i32", "u8i8": "i32"}.get(name, name)
    a = {"u8i8": "u8", "f16_f32": "f16", "bf16_f32": "bf16"}.get(name, name)
    b = {"u8": "i8"}.get(a, a)
    signed = name == "i8" and kind.group == 4
    raw = next(storage.raw for storage in storages(kind) if storage.name == b)
    same = result == kind.accumulator_name
    packed_a = "s8" if signed else a
    raw_a = int(raw and not signed)
    return (
        f"{BYTES[a]}, {BYTES[b]}, {BYTES[result]}, {BYTES[result]}, 1, {raw_a}, {int(raw)}, "
        f"{int(same)}, {int(signed)}, {int(a == b)}, {packed_a}_copy_row, {packed_a}_columns, {b}_pack, "
        f"{b}_dots, {result}_finish, {result}_values"
    )


def gemm_text(isa: Isa, kind: Kind) -> str:
    """Everything between the tile and the drivers, and the drivers."""
    l2_bytes = 1 << 20 if isa.vector_bytes == 64 else 3 << 17
    parts = [f"#define L2_BYTES {l2_bytes}L", f"#define DOTS_M {16 if isa.registers >= 32 else 8}"]
    parts.append(
        "#define DOTS_MOST 128 /* rows of A by dots where k is long; DOTS_M where it is not */"
    )
    copy_words, _, plan = PLAN.partition("\n\n")
    parts += [TYPES, copy_words, UNITS, FEW_ROWS, UNIT, plan, PACK]
    member = "f" if kind.accumulator in ("float", "double") else "i"
    for name in kind.storages:
        parts.append(fill(DRIVER, S=name, M=member, FORMAT=format_text(kind, name)))
        if name in packed_dtypes(kind):
            parts.append(fill(PACK_DRIVER, S=name))
    return "\n".join(parts)


#: what is multiplied and what comes out, where a dtype's name does not say it alone
MIXED = {
    "u8i8": ("u8", "i8", "i32"),
    "i8": ("i8", "i8", "i32"),
    "f16_f32": ("f16", "f16", "f32"),
    "bf16_f32": ("bf16", "bf16", "f32"),
}
_PLACES = "span(n0,n10,n1,n11,n2,1)"
#: B is a matrix, or its panels; a residual may be left out
_OPERANDS = f"""13+n12/4096%2+;2+; u C $C {_PLACES}; r A $A span(n0,n4,n1,n5,n3,n6);
    *1-n12/1024%2 r B $B span(n0,n7,n3,n8,n2,n9); *n12/1024%2 r panels u8 $ROOM;
    r? bias $C if(n12/8192%2,if(n12/16384%2,n0,1)*n1,n2);
    *max(P-4,n12/2048%2) r residual $C if(n12/2048%2,{_PLACES},0); *n12/4096%2 m map $SUMS n13;
    c flags 1+min(n12,0)"""
_PACK_OPERANDS = "4;0; w panels u8 $ROOM; r B $A span(n1,n2,n0,n3)"
_SIZES = {"f64": 8, "c64": 8, "c128": 16, "i64": 8, "bf16": 2, "f16": 2, "i8": 1}


def gemm_entries(kind: Kind) -> list[Entry]:
    """The rows of the kernel table."""

    def said(text: str, name: str, rows: str, columns: str) -> str:
        a, b, c = MIXED.get(name, (name, name, name))
        room, sums = panel_room(rows, columns, _SIZES.get(b, 4)), kind.accumulator_name
        return fill(declared(text), A=a, B=b, C=c, ROOM=room, SUMS=sums)

    packs = [
        (f"gemm_pack:{name}", "d", f"gemm_pack_{name}", said(_PACK_OPERANDS, name, "n1", "n0"))
        for name in packed_dtypes(kind)
    ]
    products = [
        (f"gemm:{name}", "d", f"gemm_{name}", said(_OPERANDS, name, "n3", "n2"))
        for name in kind.storages
    ]
    return products + packs


def packed_dtypes(kind: Kind) -> list[str]:
    """The dtypes whose B may be packed ahead: real floats that give their own dtype."""
    floats = ("f32", "f64", "f16", "bf16")
    return [name for name in kind.storages if name in floats]
