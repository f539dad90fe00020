"""The gradient of 3x3 weights by Winograd's transform: C text, the adjoint of `winograd`.

Gives `run_winograd_weight`, which fills the sums of a `weight_gradient` like `run_weight_gradient`:
4x4 patches of x and 2x2 tiles of dy are transformed (with additions only), multiplied point by
point, summed over all tiles, and brought back to nine taps once. Keeps true: 4/9 of the
multiplications; parts depend on the shape and the number of threads only; used only where it was
measured to be faster. [Lavin & Gray 2016, arXiv:1509.09308]
"""

__all__ = ["WINOGRAD_WEIGHT"]

WINOGRAD_WEIGHT = r"""
#if GROUP == 1
#define GRADIENT_ROWS 64 /* channels of x in a unit */
#define GRADIENT_PANELS MAX(1, (L2_BYTES >> 11) / (NR * (long)sizeof(word))) /* of dy in a unit */
#define GRADIENT_TILES 48 /* the most tiles that are multiplied together */
#define GRADIENT_BYTES (WINOGRAD_BYTES * 4 / 3)
#define GRADIENT_PITCH (GRADIENT_ROWS + VECTOR)
typedef struct {
    const weight_gradient *w;
    long down, across, total; /* 2x2 tiles of dy: of an image, in all */
    long tiles;               /* that are multiplied together */
    long row_units, column_units, unit_panels;
} winograd_gradient;

/* size x size pixels of a channel vector, of which `count` channels are left; zero outside */
INLINE void load_patch(const int size, const word *image, long height, long width, long pixel, long y0,
                       long x0, long count, vec d[4][4])
{
    if (y0 >= 0 && x0 >= 0 && y0 + size <= height && x0 + size <= width && count >= VECTOR) {
        UNROLL for (int i = 0; i < size; i++)
            UNROLL for (int k = 0; k < size; k++)
                d[i][k] = *(const vec *)(image + ((y0 + i) * width + x0 + k) * pixel);
        return;
    }
    for (int i = 0; i < size; i++)
        for (int k = 0; k < size; k++) {
            const long y = y0 + i, x = x0 + k;
            const int inside = y >= 0 && y < height && x >= 0 && x < width && count > 0;
            d[i][k] = inside ? load_words(image + (y * width + x) * pixel, count) : (vec){0};
        }
}

/* A d A', A = {1 0; 1 1; 1 -1; 0 -1} */
INLINE void winograd_spread(const vec d[4][4], vec out[4][4])
{
    vec t[4][2];
    UNROLL for (int x = 0; x < 2; x++) {
        t[0][x] = d[0][x], t[1][x] = d[0][x] + d[1][x];
        t[2][x] = d[0][x] - d[1][x], t[3][x] = -d[1][x];
    }
    UNROLL for (int y = 0; y < 4; y++) {
        out[y][0] = t[y][0], out[y][1] = t[y][0] + t[y][1];
        out[y][2] = t[y][0] - t[y][1], out[y][3] = -t[y][1];
    }
}

/* G' s, G as for the weights */
INLINE void winograd_taps(const acc_vec s[4], acc_vec out[3])
{
    const acc_vec even = (acc_t)0.5 * (s[1] + s[2]);
    out[0] = s[0] + even, out[1] = (acc_t)0.5 * (s[1] - s[2]), out[2] = even + s[3];
}

/* x from channel c0 on as [point][tile][GRADIENT_PITCH] */
static void spread_x(const winograd_gradient *j, long t0, long count, long c0, long rows, word *points)
{
    const weight_gradient *w = j->w;
    const geometry *g = w->g;
    for (long t = 0; t < count; t++) {
        const long at = t0 + t, n = at / (j->down * j->across);
        const long y = at / j->across % j->down * 2 - g->pad[1], x = at % j->across * 2 - g->pad[2];
        const word *image = w->x + n * g->in[1] * g->in[2] * w->cin + c0;
        for (long c = 0; c < rows; c += VECTOR) {
            vec d[4][4], out[4][4];
            load_patch(4, image + c, g->in[1], g->in[2], w->cin, y, x, w->cin - c0 - c, d);
            winograd_source(d, out);
            UNROLL for (int i = 0; i < POINTS; i++)
                *(vec *)(points + (i * j->tiles + t) * GRADIENT_PITCH + c) = out[i / 4][i % 4];
        }
    }
}

/* dy as panels [point][panel][tile][NR] */
static void spread_dy(const winograd_gradient *j, long t0, long count, long first, long panels, word *points)
{
    const weight_gradient *w = j->w;
    const geometry *g = w->g;
    for (long t = 0; t < count; t++) {
        const long at = t0 + t, n = at / (j->down * j->across);
        const long y = at / j->across % j->down * 2, x = at % j->across * 2;
        const word *image = w->dy + n * g->out[1] * g->out[2] * w->cout + first * NR;
        for (long o = 0; o < panels * NR; o += VECTOR) {
            vec d[4][4], out[4][4];
            load_patch(2, image + o, g->out[1], g->out[2], w->cout, y, x, w->cout - first * NR - o, d);
            winograd_spread(d, out);
            UNROLL for (int i = 0; i < POINTS; i++)
                *(vec *)(points + ((i * panels + o / NR) * j->tiles + t) * NR + o % NR) = out[i / 4][i % 4];
        }
    }
}

/* sums [point][row][columns] to taps [tap][cin][cout] */
static void gather_taps(const weight_gradient *w, const acc_t *sums, long rows, long columns, long width,
                        acc_t *to)
{
    for (long r = 0; r < rows; r++)
        for (long o = 0; o < width; o += VECTOR) {
            acc_vec lines[4][3];
            UNROLL for (int i = 0; i < 4; i++) {
                acc_vec s[4];
                UNROLL for (int k = 0; k < 4; k++)
                    s[k] = *(const acc_vec *)(sums + ((i * 4 + k) * GRADIENT_ROWS + r) * columns + o);
                winograd_taps(s, lines[i]);
            }
            UNROLL for (int x = 0; x < 3; x++) {
                const acc_vec s[4] = {lines[0][x], lines[1][x], lines[2][x], lines[3][x]};
                acc_vec out[3];
                winograd_taps(s, out);
                for (int y = 0; y < 3; y++)
                    memcpy(to + ((y * 3 + x) * w->cin + r) * w->cout + o, &out[y],
                           MIN(VECTOR, width - o) * sizeof(acc_t));
            }
        }
}

static void winograd_gradient_unit(void *context, long unit, char *scratch)
{
    const winograd_gradient *j = context;
    const weight_gradient *w = j->w;
    const long part = unit % w->parts, rest = unit / w->parts;
    const long c0 = rest % j->row_units * GRADIENT_ROWS, rows = MIN(GRADIENT_ROWS, w->cin - c0);
    const long column_unit = rest / j->row_units, first = tile_first(w->panels, j->column_units, column_unit);
    const long panels = tile_first(w->panels, j->column_units, column_unit + 1) - first, columns = panels * NR;
    word *x = carve(&scratch, POINTS * j->tiles * GRADIENT_PITCH * sizeof(word));
    word *dy = carve(&scratch, POINTS * j->tiles * columns * sizeof(word));
    acc_t *sums = (acc_t *)scratch;
    const long begin = tile_first(j->total, w->parts, part), end = tile_first(j->total, w->parts, part + 1);
    for (long t0 = begin; t0 < end; t0 += j->tiles) {
        const long count = MIN(j->tiles, end - t0);
        const segment one = {0, 0, count};
        spread_x(j, t0, count, c0, rows, x), spread_dy(j, t0, count, first, panels, dy);
        for (long point = 0; point < POINTS; point++) {
            job product = {{A_IN_PLACE, (const char *)(x + point * j->tiles * GRADIENT_PITCH), GRADIENT_PITCH},
                           &one, 1, NULL, dy + point * j->tiles * columns, NR, j->tiles * NR, 0, panels,
                           columns, t0 == begin ? STORE : ACCUMULATE, sums + point * GRADIENT_ROWS * columns};
            cursor all = cursor_rows(rows, 1, columns);
            block(&product, &all, rows, 0);
        }
    }
    acc_t *to = w->sums + (part * 9 * w->cin + c0) * w->cout + first * NR;
    gather_taps(w, sums, rows, columns, MIN(columns, w->cout - first * NR), to);
}

/* as for the images, and where the channels fill most of the tiles */
INLINE int winograd_weight_wins(const geometry *g)
{
    return winograd_wins(g, g->cin, g->cout, g->n, volume(g->out)) && g->cin >= 48 && g->cout >= 48
           && 4 * g->cout >= 3 * CEIL(g->cout, NR) * NR;
}

/* decides on parts, which the sums are allocated for */
NOINLINE void plan_winograd_weight(weight_gradient *w, winograd_gradient *j, long threads)
{
    const geometry *g = w->g;
    w->panels = CEIL(w->cout, NR);
    *j = (winograd_gradient){w, CEIL(g->out[1], 2), CEIL(g->out[2], 2)};
    j->total = g->n * j->down * j->across;
    j->row_units = CEIL(w->cin, GRADIENT_ROWS), j->column_units = CEIL(w->panels, GRADIENT_PANELS);
    j->unit_panels = CEIL(w->panels, j->column_units);
    const long units = j->row_units * j->column_units;
    w->parts = units % threads == 0 || units >= 4 * threads ? 1 : CEIL(2 * threads, units);
    w->parts = MAX(1, MIN(w->parts, j->total / 32));
    const long columns = j->unit_panels * NR, fixed = POINTS * GRADIENT_ROWS * columns * sizeof(acc_t);
    const long tile_bytes = POINTS * (GRADIENT_PITCH + columns) * sizeof(word);
    const long most = MIN(GRADIENT_TILES, MAX(16, (GRADIENT_BYTES - fixed) / tile_bytes));
    j->tiles = MIN(CEIL(j->total, w->parts), most);
}

NOINLINE int run_winograd_weight(winograd_gradient *j, const fk_runtime *rt)
{
    const long columns = j->unit_panels * NR;
    const long bytes = PIECE(POINTS * j->tiles * GRADIENT_PITCH * sizeof(word))
                       + PIECE(POINTS * j->tiles * columns * sizeof(word))
                       + PIECE(POINTS * GRADIENT_ROWS * columns * sizeof(acc_t));
    return launch(winograd_gradient_unit, j, j->w->parts * j->row_units * j->column_units, bytes, 1, rt);
}
#endif
"""
