"""C of the row by row way of Fourier transforms: one long row as a matrix of neighbours.

Takes the geometry of `fft.py` and n[63..]: the length of the complex transform that a row becomes,
the length that is computed (larger: by a chirp), its two factors, and the passes of each, counted.
The table holds the passes' roots of both factors, the matrix's, those of half-length real rows, and
the chirp with its transform, as far as a plan needs them. Keeps true: a row is read to its end
before its place is written; rows run side by side, or, where there are few long ones, the columns and
then the rows of the matrix do.
"""

from __future__ import annotations

ROWS = """
typedef struct {
    char *const *p;
    const int64_t *n;
    const fk_scalar *s;
    const fk_runtime *rt;
    int64_t length, whole, first, second, columns, blocks, one_count, two_count;
    const int64_t *one, *two;
    const @T@ *one_roots, *two_roots, *matrix, *half, *chirp, *spectrum;
    @T@ *memory, *tiles;          /* of one slot after another */
    int64_t memory_size, tile_size; /* in numbers */
    int64_t rows, slots, inner;   /* slots: rows side by side; inner: parts of one row */
} rows_job_@s@;

/* what the next row reads or writes: it is fetched while this one is computed */
typedef struct {
    const char *place;
    int64_t bytes;
} fetch_@s@;

/* a transform of `whole` numbers from one place to another, in two steps */
typedef struct {
    const rows_job_@s@ *g;
    const @T@ *from;
    @T@ *to, *middle, scale, sign;
    int64_t tile, parts, second_step; /* the tile of part 0 */
    fetch_@s@ taken, given;
} matrix_job_@s@;

/* fetch the share of item `at` out of `items` */
ALWAYS_INLINE void fetch_share_@s@(fetch_@s@ f, int64_t at, int64_t items)
{
    for (int64_t b = at * f.bytes / items & -64; b < (at + 1) * f.bytes / items; b += 64)
        __builtin_prefetch(f.place + b, 0, 2);
}

/* columns of V neighbours: transforms, factors, and V x V transposes into tiles of the second step */
static void matrix_columns_@s@(const matrix_job_@s@ *a, int64_t begin, int64_t end, @T@ *x, @T@ *y)
{
    const rows_job_@s@ *g = a->g;
    for (int64_t column = begin; column < end; column++) {
        const int64_t at = column * @V@, left = g->second - at;
        fetch_share_@s@(a->taken, column, g->columns);
        const edge_@s@ edge = {(@T@ *)a->from + 2 * at, g->second, 1, a->sign};
        if (left < @V@) {
            memset(x, 0, (size_t)g->first * 2 * @V@ * sizeof(@T@));
            for (int64_t j = 0; j < g->first; j++)
                for (int64_t i = 0; i < left; i++) {
                    const @T@ *value = a->from + 2 * (j * g->second + at + i);
                    x[2 * @V@ * j + i] = value[0];
                    x[2 * @V@ * j + @V@ + i] = value[1] * a->sign;
                }
        }
        const @T@ *z = passes_@s@(g->one, g->one_count, g->first, g->one_roots, x, y,
            left < @V@ ? 0 : &edge, 0);
        const @T@ *w = g->matrix + 2 * @V@ * g->first * column;
        for (int64_t block = 0; block < g->blocks; block++) {
            vec_@s@ re[@V@], im[@V@];
            const vec_@s@ zero = {0};
            UNROLL for (int i = 0; i < @V@; i++) {
                const int64_t k = 2 * @V@ * (block * @V@ + i);
                re[i] = im[i] = zero;
                if (block * @V@ + i >= g->first) continue;
                const vec_@s@ u = LOAD_@s@(z + k), v = LOAD_@s@(z + k + @V@);
                const vec_@s@ c = LOAD_@s@(w + k), d = LOAD_@s@(w + k + @V@);
                re[i] = u * c - v * d, im[i] = u * d + v * c;
            }
            transpose_@s@(re);
            transpose_@s@(im);
            @T@ *to = a->middle + 2 * @V@ * (block * g->columns * @V@ + at);
            UNROLL for (int i = 0; i < @V@; i++) {
                STORE_@s@(to + 2 * @V@ * i, re[i]);
                STORE_@s@(to + 2 * @V@ * i + @V@, im[i]);
            }
        }
    }
}

/* the second step: blocks of V rows of the matrix, whose results are neighbours */
static void matrix_rows_@s@(const matrix_job_@s@ *a, int64_t begin, int64_t end, @T@ *y)
{
    const rows_job_@s@ *g = a->g;
    for (int64_t block = begin; block < end; block++) {
        const int64_t at = block * @V@, left = g->first - at;
        fetch_share_@s@(a->given, block, g->blocks);
        @T@ *x = a->middle + 2 * @V@ * (at * g->columns);
        const edge_@s@ edge = {a->to + 2 * at, g->first, a->scale, a->scale * a->sign};
        const @T@ *z = passes_@s@(g->two, g->two_count, g->second, g->two_roots, x, y, 0,
            left < @V@ ? 0 : &edge);
        if (!z) continue;
        for (int64_t k = 0; k < g->second; k++)
            for (int64_t i = 0; i < left; i++) {
                @T@ *value = a->to + 2 * (k * g->first + at + i);
                value[0] = z[2 * @V@ * k + i] * a->scale;
                value[1] = z[2 * @V@ * k + @V@ + i] * a->scale * a->sign;
            }
    }
}

static void matrix_body_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const matrix_job_@s@ *a = (const matrix_job_@s@ *)p[0];
    const int64_t items = a->second_step ? a->g->blocks : a->g->columns;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part * items / a->parts, last = (part + 1) * items / a->parts;
        @T@ *x = a->g->tiles + 2 * (a->tile + part) * a->g->tile_size, *y = x + a->g->tile_size;
        if (a->second_step) matrix_rows_@s@(a, first, last, y);
        else matrix_columns_@s@(a, first, last, x, y);
    }
}

/* a transform of `whole` complex numbers; `to` may be `from` */
static void matrix_transform_@s@(const rows_job_@s@ *g, const @T@ *from, @T@ *to, @T@ *middle,
    int64_t slot, @T@ scale, @T@ sign, fetch_@s@ taken, fetch_@s@ given)
{
    matrix_job_@s@ a = {g, from, to, middle, scale, sign, slot, g->inner, 0, taken, given};
    char *context[1] = {(char *)&a};
    for (; a.second_step < 2; a.second_step++)
        if (g->inner == 1) matrix_body_@s@(context, 0, 0, 0, 1);
        else g->rt->parallel(matrix_body_@s@, context, 0, 0, g->inner, 1);
}

/* a transform of any length as a convolution with a chirp; work holds `whole` complex numbers */
static void chirp_transform_@s@(const rows_job_@s@ *g, const @T@ *from, @T@ *to, @T@ *work,
    @T@ *middle, int64_t slot, @T@ scale, @T@ sign)
{
    const @T@ *chirp = g->chirp, *spectrum = g->spectrum;
    const fetch_@s@ none = {0};
    _Pragma("omp simd") for (int64_t j = 0; j < g->length; j++) {
        const @T@ re = from[2 * j], im = from[2 * j + 1] * sign;
        const @T@ c = chirp[2 * j], d = chirp[2 * j + 1];
        work[2 * j] = re * c - im * d, work[2 * j + 1] = re * d + im * c;
    }
    memset(work + 2 * g->length, 0, (size_t)(g->whole - g->length) * 2 * sizeof(@T@));
    matrix_transform_@s@(g, work, work, middle, slot, 1, 1, none, none);
    _Pragma("omp simd") for (int64_t j = 0; j < g->whole; j++) {
        const @T@ re = work[2 * j], im = work[2 * j + 1];
        const @T@ c = spectrum[2 * j], d = spectrum[2 * j + 1];
        work[2 * j] = re * c - im * d, work[2 * j + 1] = re * d + im * c;
    }
    matrix_transform_@s@(g, work, work, middle, slot, 1, -1, none, none);
    _Pragma("omp simd") for (int64_t k = 0; k < g->length; k++) {
        const @T@ re = work[2 * k] * scale, im = work[2 * k + 1] * scale;
        const @T@ c = chirp[2 * k], d = chirp[2 * k + 1];
        to[2 * k] = re * c - im * d, to[2 * k + 1] = (re * d + im * c) * sign;
    }
}

/* the spectrum of 2 m real numbers, m + 1 places, out of half the transform of m complex ones */
static void half_apart_@s@(@T@ *z, const @T@ *c, int64_t m)
{
    const @T@ *d = c + m / 2 + 1, re = 2 * z[0], im = 2 * z[1];
    int64_t k = 1;
    z[0] = re + im, z[1] = 0, z[2 * m] = re - im, z[2 * m + 1] = 0;
    for (; m - 2 * k + 1 >= 2 * @V@; k += @V@) {
        @T@ *one = z + 2 * k, *other = z + 2 * (m - k - @V@ + 1);
        const vec_@s@ a0 = LOAD_@s@(one), a1 = LOAD_@s@(one + @V@);
        const vec_@s@ b0 = LOAD_@s@(other), b1 = LOAD_@s@(other + @V@);
        SPLIT_@s@(a0, a1, ar, ai);
        SPLIT_@s@(b0, b1, back_r, back_i);
        const vec_@s@ br = REVERSE_@s@(back_r), bi = REVERSE_@s@(back_i);
        const vec_@s@ er = ar + br, ei = ai - bi, or = ai + bi, oi = br - ar;
        const vec_@s@ cr = LOAD_@s@(c + k), di = LOAD_@s@(d + k);
        const vec_@s@ tr = or * cr - oi * di, ti = or * di + oi * cr;
        const vec_@s@ ur = er + tr, ui = ei + ti, vr = er - tr, vi = ti - ei;
        JOIN_@s@(ur, ui, u0, u1);
        const vec_@s@ wr = REVERSE_@s@(vr), wi = REVERSE_@s@(vi);
        JOIN_@s@(wr, wi, w0, w1);
        STORE_@s@(one, u0), STORE_@s@(one + @V@, u1);
        STORE_@s@(other, w0), STORE_@s@(other + @V@, w1);
    }
    for (; k <= m - k; k++) {
        @T@ *one = z + 2 * k, *other = z + 2 * (m - k);
        const @T@ er = one[0] + other[0], ei = one[1] - other[1];
        const @T@ or = one[1] + other[1], oi = other[0] - one[0];
        const @T@ tr = or * c[k] - oi * d[k], ti = or * d[k] + oi * c[k];
        one[0] = er + tr, one[1] = ei + ti;
        if (k < m - k) other[0] = er - tr, other[1] = ti - ei;
    }
}

/* and back: m complex numbers whose inverse transform is 2 m real ones */
static void half_together_@s@(const @T@ *x, int64_t step, @T@ *z, const @T@ *c, int64_t m)
{
    const @T@ *d = c + m / 2 + 1;
    int64_t k = 1;
    z[0] = x[0] + x[2 * step * m], z[1] = x[0] - x[2 * step * m];
    for (; step == 1 && m - 2 * k + 1 >= 2 * @V@; k += @V@) {
        const @T@ *one = x + 2 * k, *other = x + 2 * (m - k - @V@ + 1);
        const vec_@s@ a0 = LOAD_@s@(one), a1 = LOAD_@s@(one + @V@);
        const vec_@s@ b0 = LOAD_@s@(other), b1 = LOAD_@s@(other + @V@);
        SPLIT_@s@(a0, a1, ar, ai);
        SPLIT_@s@(b0, b1, back_r, back_i);
        const vec_@s@ br = REVERSE_@s@(back_r), bi = REVERSE_@s@(back_i);
        const vec_@s@ er = ar + br, ei = ai - bi, or = ar - br, oi = ai + bi;
        const vec_@s@ cr = LOAD_@s@(c + k), di = LOAD_@s@(d + k);
        const vec_@s@ tr = or * di - oi * cr, ti = or * cr + oi * di;
        const vec_@s@ ur = er + tr, ui = ei + ti, vr = er - tr, vi = ti - ei;
        JOIN_@s@(ur, ui, u0, u1);
        const vec_@s@ wr = REVERSE_@s@(vr), wi = REVERSE_@s@(vi);
        JOIN_@s@(wr, wi, w0, w1);
        @T@ *to = z + 2 * k, *back = z + 2 * (m - k - @V@ + 1);
        STORE_@s@(to, u0), STORE_@s@(to + @V@, u1);
        STORE_@s@(back, w0), STORE_@s@(back + @V@, w1);
    }
    for (; k <= m - k; k++) {
        const @T@ *one = x + 2 * step * k, *other = x + 2 * step * (m - k);
        const @T@ er = one[0] + other[0], ei = one[1] - other[1];
        const @T@ or = one[0] - other[0], oi = one[1] + other[1];
        const @T@ tr = or * d[k] - oi * c[k], ti = or * c[k] + oi * d[k];
        z[2 * k] = er + tr, z[2 * k + 1] = ei + ti;
        if (k < m - k) z[2 * (m - k)] = er - tr, z[2 * (m - k) + 1] = ti - ei;
    }
}

/* `count` numbers or (parts 2) complex numbers from one distance to another */
static void move_@s@(const @T@ *from, int64_t step, @T@ *to, int64_t other, int64_t count,
    int parts)
{
    for (int64_t j = 0; j < count; j++)
        for (int i = 0; i < parts; i++) to[parts * other * j + i] = from[parts * step * j + i];
}

/* a row as the complex numbers that are transformed, in `stage` unless it is so in memory */
static const @T@ *row_taken_@s@(const rows_job_@s@ *g, const @T@ *in, @T@ *stage)
{
    const int64_t *n = g->n, length = n[1], step = n[4];
    if (n[0] == HALF && g->half) {
        half_together_@s@(in, step, stage, g->half, g->length);
    } else if (n[0] == HALF) {
        stage[0] = in[0], stage[1] = 0;
        for (int64_t k = 1; k < n[2]; k++) {
            const @T@ re = in[2 * step * k], im = in[2 * step * k + 1];
            stage[2 * k] = stage[2 * (length - k)] = re;
            stage[2 * k + 1] = im, stage[2 * (length - k) + 1] = -im;
        }
    } else if (n[0] == REAL && !g->half) {
        for (int64_t j = 0; j < length; j++) stage[2 * j] = in[step * j], stage[2 * j + 1] = 0;
    } else if (step == 1) {
        return in;
    } else {
        move_@s@(in, step, stage, 1, length, n[0] == REAL ? 1 : 2);
    }
    return stage;
}

/* a row's result, `z`, to where it belongs (it may stand there) */
static void row_given_@s@(const rows_job_@s@ *g, @T@ *z, @T@ *out)
{
    const int64_t *n = g->n, length = n[1], step = n[5];
    if (n[0] == HALF) {
        const int64_t parts = g->half ? 1 : 2;
        if (z != out)
            for (int64_t j = 0; j < length; j++) out[step * j] = z[parts * j];
        return;
    }
    if (n[0] == REAL && g->half) half_apart_@s@(z, g->half, g->length);
    const int64_t there = n[0] == REAL ? length / 2 + 1 : length;
    if (z != out) move_@s@(z, 1, out, step, there, 2);
    for (int64_t k = there; k < n[3]; k++) {
        out[2 * step * k] = out[2 * step * (length - k)];
        out[2 * step * k + 1] = -out[2 * step * (length - k) + 1];
    }
}

/* where the next row of a slot stands in the input or (side 1) the output, if it is not scattered */
static fetch_@s@ next_row_@s@(const rows_job_@s@ *g, int64_t row, int64_t slot, int side)
{
    const int64_t *n = g->n, parts = n[0] == COMPLEX || (n[0] == REAL) == side ? 2 : 1;
    fetch_@s@ next = {0};
    int64_t of;
    if (n[4 + side] != 1 || row + 1 >= (slot + 1) * g->rows / g->slots || g->inner > 1) return next;
    fft_offsets(n, n + 9 + (1 + side) * DIMS, row + 1, 1, 1, &of);
    next.bytes = n[2 + side] * parts * (int64_t)sizeof(@T@);
    next.place = g->p[1 - side] + of * parts * (int64_t)sizeof(@T@);
    return next;
}

static void one_row_@s@(const rows_job_@s@ *g, int64_t row, int64_t slot)
{
    const int64_t *n = g->n, size = 2 * n[1] + 2;
    int64_t from, to;
    fft_offsets(n, n + 9 + DIMS, row, 1, 1, &from);
    fft_offsets(n, n + 9 + 2 * DIMS, row, 1, 1, &to);
    @T@ *stage = g->memory + slot * g->memory_size, *second = stage + size, *work = second + size;
    @T@ *middle = g->chirp ? work + 2 * g->whole : work;
    const @T@ *x = row_taken_@s@(g, (const @T@ *)g->p[1] + from * (n[0] == REAL ? 1 : 2), stage);
    @T@ *out = (@T@ *)g->p[0] + to * (n[0] == HALF ? 1 : 2);
    @T@ *z = n[5] == 1 && (n[0] == COMPLEX || g->half) ? out : second;
    const @T@ sign = (@T@)g->s[1].f;
    const @T@ scale = (@T@)g->s[0].f * (n[0] == REAL && g->half ? (@T@)0.5 : 1);
    const fetch_@s@ taken = next_row_@s@(g, row, slot, 0), given = next_row_@s@(g, row, slot, 1);
    if (g->chirp) chirp_transform_@s@(g, x, z, work, middle, slot, scale, sign);
    else matrix_transform_@s@(g, x, z, middle, slot, scale, sign, taken, given);
    row_given_@s@(g, z, out);
}

static void rows_body_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const rows_job_@s@ *g = (const rows_job_@s@ *)p[0];
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t row = slot * g->rows / g->slots; row < (slot + 1) * g->rows / g->slots; row++)
            one_row_@s@(g, row, slot);
}

/* the plan's integers and the parts of its table */
static void rows_plan_@s@(rows_job_@s@ *g, const int64_t *plan, const @T@ *table)
{
    const int64_t count = g->n[1];
    g->length = plan[0], g->whole = plan[1], g->first = plan[2], g->second = plan[3];
    g->columns = (g->second + @V@ - 1) / @V@, g->blocks = (g->first + @V@ - 1) / @V@;
    g->one_count = plan[4], g->one = plan + 5;
    g->two_count = plan[5 + g->one_count], g->two = plan + 6 + g->one_count;
    g->one_roots = table;
    g->two_roots = table += roots_@s@(g->one, g->one_count, g->first);
    g->matrix = table += roots_@s@(g->two, g->two_count, g->second);
    table += 2 * @V@ * g->first * g->columns;
    if (g->length != count) g->half = table, table += 2 * (count / 4 + 1);
    if (g->length != g->whole) g->chirp = table, g->spectrum = table + 2 * g->length;
}

static int rows_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    rows_job_@s@ g = {.p = p, .n = n, .s = s, .rt = rt, .rows = n[7], .slots = 1, .inner = 1};
    rows_plan_@s@(&g, n + PLAN, (const @T@ *)p[2]);
    const int64_t most = rt->threads(), items = g.blocks < g.columns ? g.blocks : g.columns;
    if (g.rows >= most && g.rows * g.whole >= 8192) g.slots = most;
    else if (g.whole >= 32768) g.inner = items < most ? items : most;
    const int64_t long_ = g.first > g.second ? g.first : g.second;
    g.tile_size = (long_ * 2 * @V@ + 31) & ~(int64_t)31;
    g.memory_size = 4 * n[1] + 4 + (g.chirp ? 2 * g.whole : 0) /* any value does that is no less */
        + 2 * @V@ * g.blocks * g.columns * @V@;
    g.memory_size = (g.memory_size + 31) & ~(int64_t)31;
    const int64_t tiles = g.slots > g.inner ? g.slots : g.inner;
    const int64_t total = 2 * tiles * g.tile_size + g.slots * g.memory_size;
    if (!(g.tiles = rt->scratch(total * (int64_t)sizeof(@T@)))) return 1;
    g.memory = g.tiles + 2 * tiles * g.tile_size;
    char *context[1] = {(char *)&g};
    if (g.inner > 1) for (int64_t row = 0; row < g.rows; row++) one_row_@s@(&g, row, 0);
    else rt->parallel(rows_body_@s@, context, n, s, g.slots, 1);
    rt->release(g.tiles);
    return 0;
}
"""
