"""The gradient of convolution weights: C text of sums over pixels of x times dy.

Gives `run_backward_weight`: for every tap, rows of the tile are input channels (a transposed A), k
runs along the pixels of output rows; dy and x are packed in blocks that stay in L2. Keeps true: the
number of parts that a sum is split into depends on the shape and the number of threads only; parts
are added in order.
"""

__all__ = ["BACKWARD_WEIGHT"]

BACKWARD_WEIGHT = r"""
#if GROUP == 1
typedef struct {
    const geometry *g;
    const word *x, *dy;            /* channels last */
    acc_t *sums;                   /* [part][group][tap][cin][cout] */
    long cin, cout, taps;          /* channels of a group */
    int swapped;                   /* x is dy and dy is x: one tap that every output sees */
    long lines, block_lines;       /* rows of y in all, and in a block of packed dy */
    long parts, panels, group_panels, panel_units, row_units, rows;
    int transposes;                /* x, where its pixels fall into few sets of a cache */
    pack_function *pack;
    columns_function *columns;
} weight_gradient;

#define GRADIENT_B (L2_BYTES * 4 / 10) /* bytes of packed dy and of x */

/* words between pixels of x that neighbouring outputs see */
INLINE long pixel_step(const weight_gradient *w)
{
    return w->g->groups * w->cin * (w->swapped ? 1 : w->g->stride[2]);
}

/* output coordinates [*first, *last) whose tap t falls inside the image */
INLINE void valid_outputs(const geometry *g, int d, long t, long *first, long *last)
{
    const long offset = t * g->dilation[d] - g->pad[d], stride = g->stride[d];
    *first = offset < 0 ? CEIL(-offset, stride) : 0;
    const long room = g->in[d] - 1 - offset;
    *last = room < 0 ? 0 : MIN(g->out[d], room / stride + 1);
    if (*first > *last) *first = *last;
}

/* The pixels of lines [low, high) of y that a tap sees: a_offset in x, b_offset in the block. */
static long tap_segments(const weight_gradient *w, long tap, long low, long high, segment *segments)
{
    const geometry *g = w->g;
    const long kz = tap / (g->kernel[1] * g->kernel[2]), ky = tap / g->kernel[2] % g->kernel[1];
    const long kx = tap % g->kernel[2], pixel = g->groups * w->cin;
    long z0, z1, y0, y1, x0, x1, count = 0;
    if (w->swapped) {
        *segments = (segment){low * g->out[2] * pixel, 0, (high - low) * g->out[2]};
        return 1;
    }
    valid_outputs(g, 0, kz, &z0, &z1), valid_outputs(g, 1, ky, &y0, &y1);
    valid_outputs(g, 2, kx, &x0, &x1);
    if (x0 == x1) return 0;
    for (long line = low; line < high; line++) {
        const long y = line % g->out[1], z = line / g->out[1] % g->out[0];
        const long n = line / (g->out[1] * g->out[0]);
        if (y < y0 || y >= y1 || z < z0 || z >= z1) continue;
        const long sz = z * g->stride[0] - g->pad[0] + kz * g->dilation[0];
        const long sy = y * g->stride[1] - g->pad[1] + ky * g->dilation[1];
        const long sx = x0 * g->stride[2] - g->pad[2] + kx * g->dilation[2];
        const long a = (((n * g->in[0] + sz) * g->in[1] + sy) * g->in[2] + sx) * pixel;
        const long b = (line - low) * g->out[2] + x0;
        segment *last = segments + count - 1;
        if (count && last->b_offset + last->length == b
            && last->a_offset + last->length * pixel * g->stride[2] == a)
            last->length += x1 - x0;
        else
            segments[count++] = (segment){a, b, x1 - x0};
    }
    return count;
}

/* Panel p of lines [low, high): the pixels of dy or, swapped, the pixels of x that they see. */
static void pack_lines(const weight_gradient *w, long group, long p, long low, long high, word *packed)
{
    const geometry *g = w->g;
    const long pixel = g->groups * w->cout, width = MIN(NR, w->cout - p * NR), out = g->out[2];
    const word *from = w->dy + group * w->cout + p * NR;
    const int whole = !w->swapped || volume(g->stride) == 1 && volume(g->in) == volume(g->out);
    if (whole) {
        w->pack((const char *)(from + low * out * pixel), pixel, 1, (high - low) * out, width, 0, packed);
        return;
    }
    for (long line = low; line < high; line++, packed += out * NR) {
        const long y = line % g->out[1] * g->stride[1], z = line / g->out[1] % g->out[0] * g->stride[0];
        const long n = line / (g->out[1] * g->out[0]);
        const long at = ((n * g->in[0] + z) * g->in[1] + y) * g->in[2] * pixel;
        w->pack((const char *)(from + at), pixel * g->stride[2], 1, out, width, 0, packed);
    }
}

static void weight_gradient_unit(void *context, long unit, char *scratch)
{
    const weight_gradient *w = context;
    const geometry *g = w->g;
    const long part = unit % w->parts, rest = unit / w->parts, row_unit = rest % w->row_units;
    const long group = rest / w->row_units / w->panel_units;
    const long first = rest / w->row_units % w->panel_units * w->group_panels;
    const long last = MIN(w->panels, first + w->group_panels);
    const long r0 = tile_first(w->rows, w->row_units, row_unit);
    const long r1 = tile_first(w->rows, w->row_units, row_unit + 1);
    const long line0 = tile_first(w->lines, w->parts, part), line1 = tile_first(w->lines, w->parts, part + 1);
    const long most = w->block_lines * g->out[2];
    /* what is left of the columns, so that the rows of a tall tile fit into `tail` */
    const long apart = MIN(NR, CEIL(w->cout - first * NR, VECTOR) * VECTOR);
    segment *segments = carve(&scratch, 2 * (w->block_lines + 1) * sizeof *segments);
    acc_t *tail = carve(&scratch, MR * NR * sizeof *tail);
    word *copy = carve(&scratch, A_AHEAD * A_WIDTH * most * sizeof *copy), *packed = (word *)scratch;
    acc_t *sums = w->sums + (part * g->groups + group) * w->taps * w->cin * w->cout;
    for (long low = line0; low < line1; low += w->block_lines) {
        const long high = MIN(line1, low + w->block_lines);
        for (long p = first; p < last; p++)
            pack_lines(w, group, p, low, high, packed + (p - first) * most * NR);
        for (long r = r0; r < r1;) {
            const long tap = r / w->cin, c = r % w->cin, end = MIN(r1, (tap + 1) * w->cin);
            segments[0] = (segment){0};
            const long n_segments = tap_segments(w, tap, low, high, segments);
            a_source a = {A_COLUMNS, (const char *)(w->x + group * w->cin + c),
                          pixel_step(w), sizeof(word), 0, NULL, w->columns, copy};
            for (long i = 0; i < n_segments; i++) a.elements += segments[i].length;
            if (!w->transposes) a.mode = A_IN_PLACE;
            job j = {a, segments, MAX(1, n_segments), segments + w->block_lines + 1, packed, NR, most * NR,
                     first, last, w->cout, low == line0 ? STORE : ACCUMULATE,
                     sums + (tap * w->cin + c) * w->cout, tail, apart};
            cursor rows = cursor_rows(end - r, 1, w->cout);
            if (n_segments || low == line0) block(&j, &rows, end - r, 0);
            r = end;
        }
    }
}

/* Fills sums for `parts` parts; plan_weight_gradient says how many there are. */
NOINLINE void plan_weight_gradient(weight_gradient *w, long threads)
{
    const geometry *g = w->g;
    w->rows = w->taps * w->cin, w->panels = CEIL(w->cout, NR);
    w->lines = g->n * g->out[0] * g->out[1];
    w->transposes = pixel_step(w) * sizeof(word) >= 2048;
    w->group_panels = w->transposes ? MIN(w->panels, 4) : 1;
    if (CEIL(w->panels, w->group_panels) * g->groups * (w->rows / 96) < threads) w->group_panels = 1;
    w->panel_units = CEIL(w->panels, w->group_panels);
    const long line_bytes = g->out[2] * (w->group_panels * NR + A_AHEAD * A_WIDTH) * sizeof(word);
    w->block_lines = MAX(1, MIN(w->lines, (long)GRADIENT_B / line_bytes));
    const long others = w->panel_units * g->groups;
    w->row_units = MAX(1, MIN(w->rows / 96, CEIL(2 * threads, others)));
    if (threads == 1) w->row_units = 1;
    while (w->row_units * others % threads && w->row_units * others < 4 * threads
           && w->row_units < w->rows / 48)
        w->row_units++;
    const long units = w->row_units * others;
    w->parts = units >= threads ? 1 : MIN(CEIL(2 * threads, units), CEIL(w->lines, 8));
    w->parts = MAX(1, MIN(w->parts, 64));
    w->block_lines = MIN(w->block_lines, CEIL(w->lines, w->parts));
}

NOINLINE int run_weight_gradient(weight_gradient *w, const fk_runtime *rt)
{
    const long bytes = PIECE(2 * (w->block_lines + 1) * sizeof(segment)) + PIECE(MR * NR * sizeof(acc_t))
                       + PIECE(A_AHEAD * A_WIDTH * w->block_lines * w->g->out[2] * sizeof(word))
                       + PIECE(w->group_panels * w->block_lines * w->g->out[2] * NR * sizeof(word));
    const double products /* speed only */
        = (double)w->lines * w->g->out[2] * w->rows * w->cout * w->g->groups; /* speed only */
    const long units = w->parts * w->row_units * w->panel_units * w->g->groups;
    const int parallel = products > 200000; /* speed only */
    return launch(weight_gradient_unit, w, units, bytes, parallel, rt);
}

/* sums of dy over pixels */
typedef struct { const word *dy; acc_t *sums; long pixels, channels; } bias_gradient;

static void bias_gradient_unit(void *context, long unit, char *scratch)
{
    const bias_gradient *b = context;
    const long first = unit * NR, width = MIN(NR, b->channels - first);
    double total[NR] = {0};
    for (long p0 = 0; p0 < b->pixels; p0 += 128) { /* short sums, then exact enough ones */
        acc_t block[NR] = {0};
        for (long p = p0; p < MIN(b->pixels, p0 + 128); p++) {
            const word *row = b->dy + p * b->channels + first;
            if (width == NR) for (long j = 0; j < NR; j++) block[j] += row[j];
            else for (long j = 0; j < width; j++) block[j] += row[j];
        }
        for (long j = 0; j < NR; j++) total[j] += block[j];
    }
    for (long j = 0; j < width; j++) b->sums[first + j] = total[j];
}
#endif
"""
