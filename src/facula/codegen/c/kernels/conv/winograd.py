"""Winograd's F(2x2, 3x3): C text of 3x3 convolutions with stride 1 in 4/9 of the multiplications.

Gives `run_winograd`, for images with channels last: 4x4 patches of the source are transformed (with
additions only), multiplied point by point as 16 matrix products on the register tile, and brought
back to 2x2 results. Keeps true: the error is no larger than that of the direct sum; it is used
only where it was measured to be faster. [Lavin & Gray 2016, arXiv:1509.09308]
"""

__all__ = ["WINOGRAD"]

WINOGRAD = r"""
#if GROUP == 1
#define POINTS 16
typedef struct {
    long n, from, to, height, width, out_height, out_width, top, left; /* padding of the source */
    const word *x, *weights; /* [n][height][width][from], [panel][point][from][NR] */
    output out;              /* [n][out_height][out_width][to] */
    int plain;
    long down, across, tiles, total, panels; /* 2x2 tiles: of an image, of a unit, in all */
} winograd;

/* weights of one group as [panel][point][from][NR]: G w G', G = {1 0 0; .5 .5 .5; .5 -.5 .5; 0 0 1} */
typedef struct { const word *direct; word *to; long from, panels; } winograd_weights;

INLINE void winograd_three(const vec w[3], vec out[4])
{
    const vec half = (word)0.5 * (w[0] + w[2]), middle = (word)0.5 * w[1];
    out[0] = w[0], out[1] = half + middle, out[2] = half - middle, out[3] = w[2];
}

static void winograd_weights_unit(void *context, long unit, char *scratch)
{
    const winograd_weights *j = context;
    const long pieces = CEIL(j->from, 32), panel = unit / pieces, first = unit % pieces * 32;
    const word *direct = j->direct + panel * 9 * j->from * NR;
    word *to = j->to + panel * POINTS * j->from * NR;
    for (long c = first; c < MIN(j->from, first + 32); c++)
        for (long v = 0; v < NR; v += VECTOR) {
            vec rows[3][4], columns[4][4];
            UNROLL for (int y = 0; y < 3; y++) {
                vec w[3];
                UNROLL for (int x = 0; x < 3; x++)
                    w[x] = *(const vec *)(direct + ((y * 3 + x) * j->from + c) * NR + v);
                winograd_three(w, rows[y]);
            }
            UNROLL for (int x = 0; x < 4; x++) {
                const vec w[3] = {rows[0][x], rows[1][x], rows[2][x]};
                winograd_three(w, columns[x]);
            }
            UNROLL for (int y = 0; y < 4; y++)
                UNROLL for (int x = 0; x < 4; x++)
                    *(vec *)(to + ((y * 4 + x) * j->from + c) * NR + v) = columns[x][y];
        }
}

/* B' d B, B' = {1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1} */
INLINE void winograd_source(const vec d[4][4], vec out[4][4])
{
    vec t[4][4];
    UNROLL for (int x = 0; x < 4; x++) {
        t[0][x] = d[0][x] - d[2][x], t[1][x] = d[1][x] + d[2][x];
        t[2][x] = d[2][x] - d[1][x], t[3][x] = d[1][x] - d[3][x];
    }
    UNROLL for (int y = 0; y < 4; y++) {
        out[y][0] = t[y][0] - t[y][2], out[y][1] = t[y][1] + t[y][2];
        out[y][2] = t[y][2] - t[y][1], out[y][3] = t[y][1] - t[y][3];
    }
}

/* A' m A, A' = {1 1 1 0; 0 1 -1 -1} */
INLINE void winograd_result(const acc_vec m[4][4], acc_vec out[2][2])
{
    acc_vec t[2][4];
    UNROLL for (int x = 0; x < 4; x++) {
        t[0][x] = m[0][x] + m[1][x] + m[2][x];
        t[1][x] = m[1][x] - m[2][x] - m[3][x];
    }
    UNROLL for (int y = 0; y < 2; y++) {
        out[y][0] = t[y][0] + t[y][1] + t[y][2];
        out[y][1] = t[y][1] - t[y][2] - t[y][3];
    }
}

INLINE vec load_words(const word *p, long count)
{
    if (count >= VECTOR) return *(const vec *)p;
    vec v = {0};
    memcpy(&v, p, count * sizeof(word));
    return v;
}

/* where tile t of all stands */
INLINE void tile_place(const winograd *w, long t, long *n, long *y, long *x)
{
    *n = t / (w->down * w->across), *y = t / w->across % w->down * 2, *x = t % w->across * 2;
}

static void winograd_transform(const winograd *w, long t0, long count, word *points, long stride)
{
    for (long t = 0; t < count; t++) {
        long n, y, x;
        tile_place(w, t0 + t, &n, &y, &x);
        const long y0 = y - w->top, x0 = x - w->left;
        const word *corner = w->x + ((n * w->height + y0) * w->width + x0) * w->from;
        const int inside = y0 >= 0 && x0 >= 0 && y0 + 4 <= w->height && x0 + 4 <= w->width;
        for (long c = 0; c < w->from; c += VECTOR) {
            vec d[4][4], out[4][4];
            if (inside && c + VECTOR <= w->from)
                UNROLL for (int i = 0; i < 4; i++)
                    UNROLL for (int k = 0; k < 4; k++)
                        d[i][k] = *(const vec *)(corner + (i * w->width + k) * w->from + c);
            else
                for (int i = 0; i < 4; i++)
                    for (int k = 0; k < 4; k++)
                        d[i][k] = y0 + i < 0 || y0 + i >= w->height || x0 + k < 0 || x0 + k >= w->width
                                      ? (vec){0}
                                      : load_words(corner + (i * w->width + k) * w->from + c, w->from - c);
            winograd_source(d, out);
            UNROLL for (int i = 0; i < 4; i++)
                UNROLL for (int k = 0; k < 4; k++)
                    *(vec *)(points + ((i * 4 + k) * w->tiles + t) * stride + c) = out[i][k];
        }
    }
}

/* one 2x2 result of `width` channels from `column` on, whole or cut off at the border */
static void winograd_store(const winograd *w, long n, long y, long x, acc_t *results, long stride,
                           long first, long last)
{
    for (long i = 0; i < MIN(2, w->out_height - y); i++)
        for (long k = 0; k < MIN(2, w->out_width - x); k++) {
            const long row = ((n * w->out_height + y + i) * w->out_width + x + k) * w->to;
            w->out.finish(&w->out, results + (i * 2 + k) * stride, 0, 1, first, last, &row);
        }
}

static void winograd_results(const winograd *w, long t0, long count, const acc_t *points, long stride,
                             acc_t *results)
{
    for (long t = 0; t < count; t++) {
        long n, y, x;
        tile_place(w, t0 + t, &n, &y, &x);
        const int whole = w->plain && y + 2 <= w->out_height && x + 2 <= w->out_width;
        acc_t *corner = (acc_t *)w->out.c + ((n * w->out_height + y) * w->out_width + x) * w->to;
        for (long c = 0; c < w->to; c += VECTOR) {
            acc_vec m[4][4], out[2][2];
            UNROLL for (int i = 0; i < 4; i++)
                UNROLL for (int k = 0; k < 4; k++)
                    m[i][k] = *(const acc_vec *)(points + ((i * 4 + k) * w->tiles + t) * stride + c);
            winograd_result(m, out);
            UNROLL for (int i = 0; i < 2; i++)
                UNROLL for (int k = 0; k < 2; k++)
                    if (whole && c + VECTOR <= w->to)
                        *(acc_vec *)(corner + (i * w->out_width + k) * w->to + c) = out[i][k];
                    else
                        *(acc_vec *)(results + (i * 2 + k) * stride + c) = out[i][k];
        }
        const long done = whole ? w->to / VECTOR * VECTOR : 0;
        if (done < w->to) winograd_store(w, n, y, x, results + done, stride, done, w->to);
    }
}

INLINE long winograd_pitch(long channels) { return CEIL(channels, VECTOR) * VECTOR + VECTOR; }

static void winograd_unit(void *context, long unit, char *scratch)
{
    const winograd *w = context;
    const long t0 = unit * w->tiles, count = MIN(w->tiles, w->total - t0);
    const long from_pitch = winograd_pitch(w->from), to_pitch = w->panels * NR + VECTOR;
    word *points = carve(&scratch, POINTS * w->tiles * from_pitch * sizeof(word));
    acc_t *sums = carve(&scratch, POINTS * w->tiles * to_pitch * sizeof(acc_t));
    acc_t *results = (acc_t *)scratch;
    winograd_transform(w, t0, count, points, from_pitch);
    const segment one = {0, 0, w->from};
    for (long point = 0; point < POINTS; point++) {
        job j = {{A_IN_PLACE, (const char *)(points + point * w->tiles * from_pitch), 1}, &one, 1,
                 NULL, w->weights + point * w->from * NR, NR, POINTS * w->from * NR, 0, w->panels,
                 w->panels * NR, STORE, sums + point * w->tiles * to_pitch, results, NR};
        cursor rows = cursor_rows(count, from_pitch, to_pitch);
        block(&j, &rows, count, 0);
    }
    winograd_results(w, t0, count, sums, to_pitch, results);
}

/* `direct` holds weights as the gathering product packs them: [panel][tap][from][NR] */
NOINLINE int winograd_panels(const word *direct, word *to, long from, long panels, const fk_runtime *rt)
{
    winograd_weights job = {direct, to, from, panels};
    return launch(winograd_weights_unit, &job, panels * CEIL(from, 32), 0, 1, rt);
}

/* w->weights holds transformed weights, or is NULL: then they are transformed here */
NOINLINE int run_winograd(winograd *w, const word *direct, const fk_runtime *rt)
{
    w->panels = CEIL(w->to, NR), w->down = CEIL(w->out_height, 2), w->across = CEIL(w->out_width, 2);
    w->total = w->n * w->down * w->across;
    /* patches and sums of a unit stay in L2, beside a part of the weights */
    const long tile_bytes = POINTS * (winograd_pitch(w->from) + w->panels * NR) * sizeof(word);
    w->tiles = MAX(2 * MR, MIN(16 * MR, (long)WINOGRAD_BYTES / tile_bytes / MR * MR));
    word *weights = NULL;
    int failed = 0;
    if (!w->weights) {
        weights = rt->scratch(w->panels * POINTS * w->from * NR * sizeof(word));
        if (!weights) return 1;
        failed = winograd_panels(direct, weights, w->from, w->panels, rt);
        w->weights = weights;
    }
    const long bytes = PIECE(POINTS * w->tiles * winograd_pitch(w->from) * sizeof(word))
                       + PIECE(POINTS * w->tiles * (w->panels * NR + VECTOR) * sizeof(acc_t))
                       + PIECE(MAX(4 * (w->panels * NR + VECTOR), MR * NR) * sizeof(acc_t));
    if (!failed) failed = launch(winograd_unit, w, CEIL(w->total, w->tiles), bytes, 1, rt);
    if (weights) rt->release(weights);
    return failed;
}

/* where it wins: enough channels on both sides, and pixels enough to pay for the weights */
INLINE int winograd_wins(const geometry *g, long from, long to, long n, long pixels)
{
    for (int d = 0; d < 3; d++) {
        const int flat = d == 0;
        if (g->kernel[d] != (flat ? 1 : 3) || g->stride[d] != 1 || g->dilation[d] != 1) return 0;
    }
    return !g->direct && g->groups == 1 && g->in[0] == 1 && g->out[0] == 1 && from >= 32 && to >= 32
           && n * pixels >= WINOGRAD_PIXELS;
}
#endif
"""
