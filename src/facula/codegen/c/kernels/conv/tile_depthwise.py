"""Depthwise convolution, one channel a group: C text of both directions and of the weights' gradient.

Takes a kind and a storage dtype; gives `<dtype>_depthwise` and `<dtype>_depthwise_weight`. A unit of
work copies a band of rows of a few channels into padded scratch with channels last, whatever the
layout and the dtype. Images of the accumulator's dtype that have channels last already are read
where they lie, where taps are 3 or 5 neighbours (`lane_tile`, whose loops pass over what is outside
of the image) or rows are wide. Keeps true: padding is materialised in scratch only; a strided
gradient spreads dy over a grid of zeros.
"""

from facula.codegen.c.kernels.gemm.tile_epilogue import RESULTS
from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill

__all__ = ["depthwise_text"]

COMMON = r"""
#define LANES (64 / (long)sizeof(acc_t)) /* channels of a unit: a cache line */
#define LANE_VECS (LANES / VECTOR)
#define LANE_PIXELS (REGISTERS / 2 / LANE_VECS) /* pixels of an inner step */
#define LANE_HALF MAX(1, LANE_PIXELS / 2) /* and of rows that are shorter */
#define LANE_FEW MAX(1, LANE_PIXELS / 4)
#define BAND_BYTES 65536
#define TOGETHER 64 /* pixels of short rows that are stored at once; few, beside a band in the nearest cache */

typedef struct { acc_vec v[LANE_VECS]; } lanes_of;

INLINE lanes_of load_lanes(const acc_t *p)
{
    lanes_of r;
    UNROLL for (int v = 0; v < LANE_VECS; v++) r.v[v] = *(const acc_vec *)(p + v * VECTOR);
    return r;
}

INLINE void store_lanes(acc_t *p, lanes_of r)
{
    UNROLL for (int v = 0; v < LANE_VECS; v++) *(acc_vec *)(p + v * VECTOR) = r.v[v];
}

INLINE void add_product(lanes_of *sum, lanes_of a, lanes_of b)
{
    UNROLL for (int v = 0; v < LANE_VECS; v++) sum->v[v] += a.v[v] * b.v[v];
}

/* `count` pixels, `step` elements apart, times `length` taps of a row, `apart` elements from one to the next */
INLINE void add_taps(const int count, lanes_of *sums, const acc_t *p, long step, long apart,
                     const acc_t *weights, long length)
{
    for (long k = 0; k < length; k++, p += apart, weights += LANES) {
        const lanes_of w = load_lanes(weights);
        UNROLL for (int i = 0; i < count; i++) add_product(&sums[i], load_lanes(p + i * step), w);
    }
}

#define MOST_KNOWN 5
/* else the compiler reads it again for each product, as fast as a multiplication where that takes no turn of its own */
#ifdef __x86_64__
#define IN_REGISTER(value) __asm__("" : "+v"(value))
#else
#define IN_REGISTER(value) __asm__("" : "+w"(value))
#endif
/* The same for taps side by side, which share pixels: each is read once, and the weights stay in registers.
 * Pixel i is column `at + i` of an image; those outside of [0, size) are zeros, and nothing is done for them. */
INLINE void slide_taps(const int count, const int known, const int step, lanes_of *sums, const acc_t *p,
                       long apart, const acc_t *weights, long at, long size)
{
    UNROLL for (int v = 0; v < LANE_VECS; v++) {
        acc_vec w[MOST_KNOWN];
        UNROLL for (int k = 0; k < known; k++) w[k] = *(const acc_vec *)(weights + k * LANES + v * VECTOR);
        const acc_t *from = p + v * VECTOR;
        _Pragma("GCC unroll 40") for (int i = 0; i < (count - 1) * step + known; i++, from += apart) {
            if ((unsigned long)(at + i) >= (unsigned long)size) {
                if (at + i >= 0) break;
                continue;
            }
            acc_vec read = *(const acc_vec *)from;
            IN_REGISTER(read);
            UNROLL for (int k = 0; k < known; k++)
                if (i >= k && (i - k) % step == 0 && i - k < count * step)
                    sums[(i - k) / step].v[v] += read * w[k];
        }
    }
}

/* Neighbouring results of a block of channels: where their taps are read, and where they go. */
typedef struct {
    const acc_t *from;        /* what the first tap of the first result reads */
    long plane, line, apart;  /* elements from one plane, row and pixel that is read to the next */
    long depth, rows;         /* planes and rows of taps */
    long at, size;            /* column of `from`, and how many there are */
    const acc_t *weights, *bias; /* [depth][rows][taps][LANES] */
    acc_t *to;
    long pixels, to_apart;    /* results that there is room for, and elements from one to the next */
} lane_tile;

#define DEPTHWISE_TILE(NAME, KNOWN, STEP)                                                         \
    NOINLINE void NAME(const lane_tile *t)                                                        \
    {                                                                                             \
        lanes_of sum[LANE_PIXELS];                                                                \
        const acc_t *w = t->weights, *plane = t->from;                                            \
        UNROLL for (int i = 0; i < LANE_PIXELS; i++) sum[i] = load_lanes(t->bias);                \
        for (long z = t->depth; z > 0; z--, plane += t->plane) {                                  \
            const acc_t *p = plane;                                                               \
            for (long y = t->rows; y > 0; y--, p += t->line, w += KNOWN * LANES)                  \
                slide_taps(LANE_PIXELS, KNOWN, STEP, sum, p, t->apart, w, t->at, t->size);        \
        }                                                                                         \
        UNROLL for (int i = 0; i < LANE_PIXELS; i++)                                              \
            if (i < t->pixels) store_lanes(t->to + i * t->to_apart, sum[i]);                      \
    }
DEPTHWISE_TILE(tile_of_3, 3, 1)
DEPTHWISE_TILE(tile_of_5, MOST_KNOWN, 1)
DEPTHWISE_TILE(tile_of_3_by_2, 3, 2)
DEPTHWISE_TILE(tile_of_5_by_2, MOST_KNOWN, 2)

/* the first `count` of a line's channels, in pieces whose lengths the compiler knows */
INLINE void copy_lanes(acc_t *to, const acc_t *from, long count)
{
#define COPY_PIECE(LENGTH)                                                                        \
    if (count & LENGTH) {                                                                         \
        memcpy(to, from, (LENGTH) * sizeof(acc_t));                                               \
        to += LENGTH, from += LENGTH;                                                             \
    }
    COPY_PIECE(8) COPY_PIECE(4) COPY_PIECE(2) COPY_PIECE(1)
}

/* A padded image: position q of dimension d holds source coordinate (q - before) / spread where
 * that is whole and inside, else zero.  Destination o with tap t reads position o * step + t * dilation. */
typedef struct {
    long size[3], before[3], spread[3], step[3], dilation[3], kernel[3], dest[3], width;
} padded;

typedef struct depthwise_job {
    padded x;
    long n, channels, blocks, bands, band, parts; /* parts: only for the weights' gradient */
    const char *source, *other, *weights, *bias;  /* other: dy, for the weights' gradient */
    char *dest;
    acc_t *sums;                                  /* [part][block][taps + 1][LANES] */
    int source_last, dest_last, flip;
    epilogue epilogue;
} depthwise_job;

static padded padded_of(const geometry *g, int backward)
{
    padded x;
    for (int d = 0; d < 3; d++) {
        x.size[d] = backward ? g->out[d] : g->in[d], x.dest[d] = backward ? g->in[d] : g->out[d];
        x.dilation[d] = g->dilation[d], x.kernel[d] = g->kernel[d];
        x.step[d] = backward ? 1 : g->stride[d], x.spread[d] = backward ? g->stride[d] : 1;
        x.before[d] = backward ? g->dilation[d] * (g->kernel[d] - 1) - g->pad[d] : g->pad[d];
    }
    x.width = (x.dest[2] - 1) * x.step[2] + (x.kernel[2] - 1) * x.dilation[2] + 1;
    return x;
}

/* rows of the padded image that `lines` rows of results read */
INLINE long padded_lines(const padded *x, long lines)
{
    return (lines - 1) * x->step[1] + (x->kernel[1] - 1) * x->dilation[1] + 1;
}

INLINE long rows_together(const padded *x) { return MAX(1, TOGETHER / x->dest[2]); }

NOINLINE void plan_bands(depthwise_job *j)
{
    const padded *x = &j->x;
    const long fixed = padded_lines(x, 1), line = x->kernel[0] * x->width * LANES * sizeof(acc_t);
    const long lines = MAX(1, (BAND_BYTES / line - fixed) / x->step[1] + 1);
    j->band = MIN(x->dest[1], MAX(lines, 4)), j->bands = CEIL(x->dest[1], j->band);
    j->band = CEIL(x->dest[1], j->bands);
    j->blocks = CEIL(j->channels, LANES);
}

INLINE long band_bytes(const depthwise_job *j)
{
    const padded *x = &j->x;
    const long taps = volume(x->kernel);
    return PIECE(x->kernel[0] * padded_lines(x, j->band) * x->width * LANES * sizeof(acc_t))
           + PIECE((taps + 1) * LANES * sizeof(acc_t))
           + PIECE(MAX(x->dest[2] * rows_together(x), x->size[2]) * LANES * sizeof(acc_t)) + 64;
}

typedef void tile_function_of_lanes(const lane_tile *);

/* for few neighbouring taps, over which loops are unrolled, else NULL */
INLINE tile_function_of_lanes *lane_tile_of(const padded *x)
{
    const long taps = x->kernel[2], step = x->step[2];
    if (step > 2 || x->dilation[2] != 1 || taps != 3 && taps != MOST_KNOWN) return NULL;
    if (step == 2) return taps == 3 ? tile_of_3_by_2 : tile_of_5_by_2;
    return taps == 3 ? tile_of_3 : tile_of_5;
}

/* a row of results: sums over taps of padded rows times weights, and the bias behind those */
INLINE void depthwise_row(const padded *x, const acc_t *rows, long plane, const acc_t *weights,
                          acc_t *to, const long step)
{
    const long width = x->dest[2];
    long o = 0;
#define DEPTHWISE_STEP(COUNT)                                                                     \
    {                                                                                             \
        lanes_of sum[COUNT];                                                                      \
        const acc_t *w = weights;                                                                 \
        UNROLL for (int i = 0; i < COUNT; i++)                                                    \
            sum[i] = load_lanes(weights + volume(x->kernel) * LANES);                             \
        for (long kz = 0; kz < x->kernel[0]; kz++)                                                \
            for (long ky = 0; ky < x->kernel[1]; ky++) {                                          \
                const acc_t *p = rows + kz * plane                                                \
                                 + (ky * x->dilation[1] * x->width + o * step) * LANES;           \
                add_taps(COUNT, sum, p, step * LANES, x->dilation[2] * LANES, w, x->kernel[2]);   \
                w += x->kernel[2] * LANES;                                                        \
            }                                                                                     \
        UNROLL for (int i = 0; i < COUNT; i++) store_lanes(to + (o + i) * LANES, sum[i]);         \
        o += COUNT;                                                                               \
    }
    /* the last step of a row goes back over pixels that are done, rather than on one by one */
#define DEPTHWISE_STEPS(COUNT)                                                                    \
    if (width >= COUNT) {                                                                         \
        while (o < width) {                                                                       \
            o = MIN(o, width - COUNT);                                                            \
            DEPTHWISE_STEP(COUNT)                                                                 \
        }                                                                                         \
        return;                                                                                   \
    }
    DEPTHWISE_STEPS(LANE_PIXELS)
    DEPTHWISE_STEPS(LANE_HALF)
    DEPTHWISE_STEPS(LANE_FEW)
    while (o < width) DEPTHWISE_STEP(1)
}

NOINLINE void depthwise_row_1(const padded *x, const acc_t *rows, long plane, const acc_t *weights, acc_t *to)
{
    depthwise_row(x, rows, plane, weights, to, 1);
}

NOINLINE void depthwise_row_any(const padded *x, const acc_t *rows, long plane, const acc_t *weights, acc_t *to)
{
    depthwise_row(x, rows, plane, weights, to, x->step[2]);
}

NOINLINE void depthwise_row_of(const padded *x, const acc_t *rows, long plane, const acc_t *weights, acc_t *to)
{
    tile_function_of_lanes *const tile = lane_tile_of(x);
    if (!tile) {
        (x->step[2] == 1 ? depthwise_row_1 : depthwise_row_any)(x, rows, plane, weights, to);
        return;
    }
    lane_tile t = {.plane = plane, .line = x->dilation[1] * x->width * LANES, .apart = LANES,
                   .depth = x->kernel[0], .rows = x->kernel[1], .size = x->width, .weights = weights,
                   .bias = weights + volume(x->kernel) * LANES, .to_apart = LANES};
    for (long o = 0; o < x->dest[2]; o += LANE_PIXELS) {
        t.at = o * x->step[2], t.from = rows + t.at * LANES;
        t.to = to + o * LANES, t.pixels = x->dest[2] - o;
        tile(&t);
    }
}

/* `taps` neighbouring taps of one padded row times a row of dy */
INLINE void gradient_row(const int taps, const acc_t *p, long apart, long step, const acc_t *dy, long width,
                         acc_t *sums)
{
    lanes_of sum[8];
    UNROLL for (int t = 0; t < taps; t++) sum[t] = load_lanes(sums + t * LANES);
    for (long o = 0; o < width; o++, p += step * LANES, dy += LANES) {
        const lanes_of g = load_lanes(dy);
        UNROLL for (int t = 0; t < taps; t++) add_product(&sum[t], load_lanes(p + t * apart * LANES), g);
    }
    UNROLL for (int t = 0; t < taps; t++) store_lanes(sums + t * LANES, sum[t]);
}

NOINLINE void gradient_taps(const padded *x, const acc_t *p, const acc_t *dy, acc_t *sums)
{
    const long apart = x->dilation[2], step = x->step[2], width = x->dest[2];
    long t = 0;
    for (const long kernel = x->kernel[2]; t < kernel; p += apart * LANES, sums += LANES)
        if (kernel - t == 3) { gradient_row(3, p, apart, step, dy, width, sums); return; }
        else if (kernel - t >= 4) {
            gradient_row(4, p, apart, step, dy, width, sums);
            t += 4, p += 3 * apart * LANES, sums += 3 * LANES;
        } else gradient_row(1, p, apart, step, dy, width, sums), t++;
}
"""

ROWS = r"""
INLINE acc_t $S_real($E y) { return (acc_t)($LOAD); }
INLINE $E $S_stored(acc_t x) { return $STORE; }

/* one row of `count` channels of an image, pixel i to to[i * spread], with channels last; `room`
 * elements of a channel's plane follow where the row starts */
static void $S_row_lanes(const $E *from, long width, long room, long pixel, long plane,
                         int channels_last, long count, acc_t *to, long spread)
{
    if (channels_last && $EXACT && count == LANES)
        for (long i = 0; i < width; i++)
            store_lanes(to + i * spread * LANES, load_lanes((const acc_t *)from + i * pixel));
    else if (channels_last && $EXACT)
        for (long i = 0; i < width; i++) {
            store_lanes(to + i * spread * LANES, (lanes_of){0});
            copy_lanes(to + i * spread * LANES, (const acc_t *)from + i * pixel, count);
        }
    else if (channels_last && count == LANES)
        for (long i = 0; i < width; i++)
            for (long c = 0; c < LANES; c++) to[i * spread * LANES + c] = $S_real(from[i * pixel + c]);
    else if (channels_last)
        for (long i = 0; i < width; i++)
            for (long c = 0; c < LANES; c++)
                to[i * spread * LANES + c] = c < count ? $S_real(from[i * pixel + c]) : 0;
    else
        for (long i = 0; i < width; i += VECTOR)
            for (long c0 = 0; c0 < LANES; c0 += VECTOR) {
                const long height = MIN(VECTOR, width - i);
                acc_vec m[VECTOR];
                for (long c = 0; c < VECTOR; c++) {
                    const $E *row = from + (c0 + c) * plane + i;
                    m[c] = (acc_vec){0};
                    if (c0 + c >= count) continue;
                    if (room - i >= VECTOR) /* of the next row too */
                        for (long k = 0; k < VECTOR; k++) ((acc_t *)&m[c])[k] = $S_real(row[k]);
                    else
                        for (long k = 0; k < height; k++) ((acc_t *)&m[c])[k] = $S_real(row[k]);
                }
                transpose((vec *)m);
                for (long k = 0; k < height; k++)
                    *(acc_vec *)(to + (i + k) * spread * LANES + c0) = m[k];
            }
}
"""

IN_PLACE = r"""
#define IN_PLACE_BLOCKS 16 /* the most blocks of channels of a unit: lines of memory are used as they come */
#define IN_PLACE_BYTES 60000 /* the most of an image that a step of a unit reads */
#define IN_PLACE_PIXELS MAX(2, LANE_PIXELS / 2)
#define IN_PLACE_WIDTH (4 * IN_PLACE_PIXELS) /* the least row of results that is worth its borders for any taps */
#define IN_PLACE_UNITS 2 /* the fewest for each thread */

/* A flat image with channels last on both sides, which no tap spreads over. */
static int lies_in_place(const depthwise_job *j)
{
    const padded *x = &j->x;
    return j->source_last && j->dest_last && j->channels >= LANES && x->spread[1] == 1 && x->spread[2] == 1
           && x->kernel[0] == 1 && x->size[0] == 1 && x->dest[0] == 1 && x->before[0] == 0
           && (lane_tile_of(x) || x->dest[2] >= IN_PLACE_WIDTH);
}

/* The taps [begin, end) of dimension d that fall into the image, where tap 0 reads position `at`. */
INLINE void taps_inside(const padded *x, int d, long at, long *begin, long *end)
{
    *begin = at < 0 ? CEIL(-at, x->dilation[d]) : 0;
    *end = at < x->size[d] ? MIN(x->kernel[d], (x->size[d] - 1 - at) / x->dilation[d] + 1) : 0;
}

/* a unit's channels of an image */
typedef struct {
    const padded *x;
    const acc_t *image, *weights;
    acc_t *dest;
    long pixel, count; /* channels, and those of the part */
    const epilogue *map;
} lanes_part;

/* sums of `count` neighbouring pixels of a block of channels, over a rectangle of taps, plus a bias */
INLINE void in_place_pixels(const int count, const lanes_part *p, long c0, long y, long o, const long *ky,
                            const long *kx, const acc_t *weights, acc_t *to)
{
    const padded *x = p->x;
    lanes_of sum[IN_PLACE_PIXELS];
    UNROLL for (int i = 0; i < count; i++) sum[i] = load_lanes(weights + x->kernel[1] * x->kernel[2] * LANES);
    for (long t = ky[0]; t < ky[1]; t++) {
        const long row = (y * x->step[1] - x->before[1] + t * x->dilation[1]) * x->size[2];
        const long column = o * x->step[2] - x->before[2] + kx[0] * x->dilation[2];
        add_taps(count, sum, p->image + c0 + (row + column) * p->pixel, x->step[2] * p->pixel,
                 x->dilation[2] * p->pixel, weights + (t * x->kernel[2] + kx[0]) * LANES, kx[1] - kx[0]);
    }
    UNROLL for (int i = 0; i < count; i++) store_lanes(to + i * p->pixel, sum[i]);
}

/* `pixels` results become what the map makes of them, where they lie */
INLINE void in_place_map(const lanes_part *p, acc_t *to, long pixels)
{
    if (p->map && p->count == p->pixel) map_row(p->map, to, pixels * p->pixel);
    else if (p->map)
        for (long i = 0; i < pixels; i++) map_row(p->map, to + i * p->pixel, p->count);
}

/* Rows of results [first, last).  Where memory is passed over in any case, a strip of a few columns after the
 * other, so that what rows of taps have in common is read from a near cache. */
static void in_place_tiles(const lanes_part *p, long first, long last, tile_function_of_lanes *tile)
{
    const padded *x = p->x;
    const long taps = volume(x->kernel);
    lane_tile t = {.line = x->dilation[1] * x->size[2] * p->pixel, .apart = p->pixel, .depth = 1,
                   .size = x->size[2], .to_apart = p->pixel};
    const long strips = CEIL(x->dest[2], LANE_PIXELS), rows = last - first;
    const int in_order = p->count == p->pixel; /* of memory */
    for (long outer = 0; outer < (in_order ? rows : strips); outer++)
        for (long inner = 0; inner < (in_order ? strips : rows); inner++) {
            const long y = first + (in_order ? outer : inner);
            const long o = (in_order ? inner : outer) * LANE_PIXELS;
            long ky[2];
            taps_inside(x, 1, y * x->step[1] - x->before[1], &ky[0], &ky[1]);
            const long line = (y * x->step[1] - x->before[1] + ky[0] * x->dilation[1]) * x->size[2];
            acc_t *const to = p->dest + (y * x->dest[2] + o) * p->pixel;
            t.at = o * x->step[2] - x->before[2], t.rows = ky[1] - ky[0];
            t.pixels = MIN(LANE_PIXELS, x->dest[2] - o);
            for (long at = 0, block = 0; at < p->count; at += LANES, block++) {
                const long c0 = MIN(at, p->count - LANES);
                const acc_t *weights = p->weights + block * (taps + 1) * LANES;
                t.weights = weights + ky[0] * x->kernel[2] * LANES, t.bias = weights + taps * LANES;
                t.from = p->image + (line + t.at) * p->pixel + c0, t.to = to + c0;
                tile(&t);
            }
            in_place_map(p, to, t.pixels);
        }
}

/* The same for any taps: borders a pixel at a time. */
static void in_place_row(const lanes_part *p, long y)
{
    const padded *x = p->x;
    /* columns of results that every tap reads inside of the image */
    const long low = CEIL(MAX(0, x->before[2]), x->step[2]), taps = volume(x->kernel);
    const long reach = x->size[2] - 1 - (x->kernel[2] - 1) * x->dilation[2] + x->before[2];
    const long high = reach < 0 ? 0 : MIN(x->dest[2], reach / x->step[2] + 1);
    long ky[2], kx[2];
    taps_inside(x, 1, y * x->step[1] - x->before[1], &ky[0], &ky[1]);
    for (long o = 0, pixels; o < x->dest[2]; o += pixels) {
        const int inside = o >= low && o < high && high - low >= IN_PLACE_PIXELS;
        if (inside) o = MIN(o, high - IN_PLACE_PIXELS); /* back over pixels that are done */
        pixels = inside ? IN_PLACE_PIXELS : 1;
        taps_inside(x, 2, o * x->step[2] - x->before[2], &kx[0], &kx[1]);
        acc_t *const row = p->dest + (y * x->dest[2] + o) * p->pixel;
        for (long at = 0, block = 0; at < p->count; at += LANES, block++) {
            const long c0 = MIN(at, p->count - LANES);
            const acc_t *w = p->weights + block * (taps + 1) * LANES;
            if (inside) in_place_pixels(IN_PLACE_PIXELS, p, c0, y, o, ky, kx, w, row + c0);
            else in_place_pixels(1, p, c0, y, o, ky, kx, w, row + c0);
        }
    }
    in_place_map(p, p->dest + y * x->dest[2] * p->pixel, x->dest[2]);
}

/* [block][taps + 1][LANES]: weights, then the bias.  The last block of a row of channels ends with it. */
NOINLINE void in_place_weights(const depthwise_job *j, long begin, long end, acc_t *to)
{
    const acc_t *weights = (const acc_t *)j->weights, *bias = (const acc_t *)j->bias;
    const long taps = volume(j->x.kernel);
    for (long at = begin; at < end; at += LANES, to += (taps + 1) * LANES) {
        const long c0 = MIN(at, end - LANES);
        $S_row_lanes(weights + c0 * taps, taps, (j->channels - c0 - LANES + 1) * taps, 1, taps, 0, LANES,
                     to + (j->flip ? (taps - 1) * LANES : 0), j->flip ? -1 : 1);
        for (long c = 0; c < LANES; c++) to[taps * LANES + c] = bias ? bias[c0 + c] : 0;
    }
}

/* A band of rows of the channels [begin, end). */
static void in_place_unit(void *context, long unit, char *scratch)
{
    const depthwise_job *j = context;
    const padded *x = &j->x;
    const long first = unit % j->bands * j->band, last = MIN(x->dest[1], first + j->band);
    const long part = unit / j->bands % j->parts, n = unit / j->bands / j->parts;
    const long begin = tile_first(j->channels / LANES, j->parts, part) * LANES;
    const long end = part + 1 == j->parts ? j->channels
                                          : tile_first(j->channels / LANES, j->parts, part + 1) * LANES;
    acc_t *weights = (acc_t *)scratch;
    tile_function_of_lanes *const tile = lane_tile_of(x);
    in_place_weights(j, begin, end, weights);
    const lanes_part p = {x, (const acc_t *)j->source + n * volume(x->size) * j->channels + begin, weights,
                          (acc_t *)j->dest + n * volume(x->dest) * j->channels + begin,
                          j->channels, end - begin, j->epilogue.map ? &j->epilogue : NULL};
    if (tile) in_place_tiles(&p, first, last, tile);
    else
        for (long y = first; y < last; y++) in_place_row(&p, y);
}

NOINLINE int in_place_depthwise(depthwise_job *j, int parallel, const fk_runtime *rt)
{
    const long taps = volume(j->x.kernel), threads = parallel ? rt->threads() : 1;
    const long read = ((LANE_PIXELS - 1) * j->x.step[2] + j->x.kernel[2]) * j->x.kernel[1] * 64;
    const long full = j->channels / LANES; /* and what is left over belongs to the last part */
    j->parts = CEIL(full, MAX(1, MIN(IN_PLACE_BLOCKS, IN_PLACE_BYTES / read)));
    j->blocks = CEIL(full, j->parts) + 1;
    j->band = CEIL(j->x.dest[1], MIN(j->x.dest[1], CEIL(IN_PLACE_UNITS * threads, j->n * j->parts)));
    j->bands = CEIL(j->x.dest[1], j->band);
    const long bytes = j->blocks * (taps + 1) * LANES * sizeof(acc_t);
    return launch(in_place_unit, j, j->n * j->parts * j->bands, bytes, parallel, rt);
}
"""

TEMPLATE = r"""
/* rows of results back, `width` pixels, through the map; `room` elements of a channel's plane, from the row's
 * first, are still to be written */
static void $S_row_store(const depthwise_job *j, acc_t *row, $E *to, long width, long room, long pixel,
                         long plane, int channels_last, long count)
{
    if (j->epilogue.map) map_row(&j->epilogue, row, width * LANES);
    if (channels_last && $EXACT && count == LANES)
        for (long i = 0; i < width; i++)
            store_lanes((acc_t *)to + i * pixel, load_lanes(row + i * LANES));
    else if (channels_last && $EXACT)
        for (long i = 0; i < width; i++) copy_lanes((acc_t *)to + i * pixel, row + i * LANES, count);
    else if (channels_last && count == LANES)
        for (long i = 0; i < width; i++)
            for (long c = 0; c < LANES; c++) to[i * pixel + c] = $S_stored(row[i * LANES + c]);
    else if (channels_last)
        for (long i = 0; i < width; i++)
            for (long c = 0; c < count; c++) to[i * pixel + c] = $S_stored(row[i * LANES + c]);
    else
        for (long i = 0; i < width; i += VECTOR)
            for (long c0 = 0; c0 < count; c0 += VECTOR) {
                const long height = MIN(VECTOR, width - i);
                acc_vec m[VECTOR];
                for (long k = 0; k < VECTOR; k++)
                    m[k] = k < height ? *(const acc_vec *)(row + (i + k) * LANES + c0) : (acc_vec){0};
                transpose((vec *)m);
                for (long c = 0; c < MIN(VECTOR, count - c0); c++) {
                    $E *place = to + (c0 + c) * plane + i;
                    if (room - i >= VECTOR) /* what is too much is overwritten */
                        for (long k = 0; k < VECTOR; k++) place[k] = $S_stored(((acc_t *)&m[c])[k]);
                    else
                        for (long k = 0; k < height; k++) place[k] = $S_stored(((acc_t *)&m[c])[k]);
                }
            }
}

/* the rows that destination rows from `line` of plane z read, to [kernel depth][lines][width][LANES] */
static void $S_fill_band(const depthwise_job *j, long n, long block, long z, long line, long lines, acc_t *to)
{
    const padded *x = &j->x;
    const long plane = volume(x->size), c0 = block * LANES, count = MIN(LANES, j->channels - c0);
    const $E *image = (const $E *)j->source + n * plane * j->channels + (j->source_last ? c0 : c0 * plane);
    const long pixel = j->source_last ? j->channels : 1, s = x->spread[2];
    const long low = x->before[2] >= 0 ? 0 : CEIL(-x->before[2], s);
    const long high = MIN(x->size[2], CEIL(x->width - x->before[2], s));
    for (long kz = 0; kz < x->kernel[0]; kz++)
        for (long q = 0; q < lines; q++, to += x->width * LANES) {
            const long pz = z * x->step[0] + kz * x->dilation[0] - x->before[0];
            const long py = line * x->step[1] + q - x->before[1];
            const long sz = pz / x->spread[0], sy = py / x->spread[1];
            const int inside = pz >= 0 && pz % x->spread[0] == 0 && sz < x->size[0] && py >= 0
                               && py % x->spread[1] == 0 && sy < x->size[1] && low < high;
            if (!inside || s > 1)
                memset(to, 0, x->width * LANES * sizeof(acc_t));
            else { /* the borders */
                const long left = x->before[2] + low, right = x->before[2] + high;
                memset(to, 0, left * LANES * sizeof(acc_t));
                memset(to + right * LANES, 0, (x->width - right) * LANES * sizeof(acc_t));
            }
            if (!inside) continue;
            const long start = (sz * x->size[1] + sy) * x->size[2] + low;
            $S_row_lanes(image + start * pixel, high - low, plane - start, pixel, plane, j->source_last,
                         count, to + (x->before[2] + low * s) * LANES, s);
        }
}

static void $S_depthwise_unit(void *context, long unit, char *scratch)
{
    const depthwise_job *j = context;
    const padded *x = &j->x;
    const long first = unit % j->bands * j->band, block = unit / j->bands % j->blocks;
    const long n = unit / j->bands / j->blocks, last = MIN(x->dest[1], first + j->band);
    const long lines = padded_lines(x, last - first), plane = lines * x->width * LANES;
    const long taps = volume(x->kernel), c0 = block * LANES, count = MIN(LANES, j->channels - c0);
    const long image = volume(x->dest), pixel = j->dest_last ? j->channels : 1;
    acc_t *weights = carve(&scratch, (taps + 1) * LANES * sizeof(acc_t)), *bias = weights + taps * LANES;
    const long together = rows_together(x), width = x->dest[2];
    acc_t *sums = carve(&scratch, width * together * LANES * sizeof(acc_t)), *rows = (acc_t *)scratch;
    /* what follows the weights of a channel, up to their end, may be read */
    $S_row_lanes((const $E *)j->weights + c0 * taps, taps, (j->channels - c0 - count + 1) * taps, 1, taps, 0,
                 count, weights + (j->flip ? (taps - 1) * LANES : 0), j->flip ? -1 : 1);
    for (long c = 0; c < LANES; c++)
        bias[c] = j->bias && c < count ? $S_real(((const $E *)j->bias)[c0 + c]) : 0;
    for (long z = 0; z < x->dest[0]; z++) {
        $S_fill_band(j, n, block, z, first, lines, rows);
        $E *to = ($E *)j->dest + n * image * j->channels + (j->dest_last ? c0 : c0 * image);
        for (long y = first, count_y; y < last; y += count_y) {
            count_y = MIN(together, last - y);
            for (long i = 0; i < count_y; i++)
                depthwise_row_of(x, rows + (y + i - first) * x->step[1] * x->width * LANES, plane,
                                 weights, sums + i * width * LANES);
            $S_row_store(j, sums, to + (z * x->dest[1] + y) * width * pixel, count_y * width,
                         (last - y) * width, pixel, image, j->dest_last, count);
        }
    }
}

static void $S_depthwise_weight_unit(void *context, long unit, char *scratch)
{
    const depthwise_job *j = context;
    const padded *x = &j->x;
    const long part = unit % j->parts, block = unit / j->parts, taps = volume(x->kernel);
    const long c0 = block * LANES, count = MIN(LANES, j->channels - c0), image = volume(x->dest);
    const long pixel = j->dest_last ? j->channels : 1;
    acc_t *sums = j->sums + (part * j->blocks + block) * (taps + 1) * LANES;
    acc_t *dy = carve(&scratch, x->dest[2] * LANES * sizeof(acc_t)), *rows = (acc_t *)scratch;
    memset(sums, 0, (taps + 1) * LANES * sizeof(acc_t));
    for (long i = tile_first(j->n * x->dest[0] * j->bands, j->parts, part);
         i < tile_first(j->n * x->dest[0] * j->bands, j->parts, part + 1); i++) {
        const long first = i % j->bands * j->band, last = MIN(x->dest[1], first + j->band);
        const long z = i / j->bands % x->dest[0], n = i / j->bands / x->dest[0];
        const long lines = padded_lines(x, last - first), plane = lines * x->width * LANES;
        $S_fill_band(j, n, block, z, first, lines, rows);
        const $E *from = (const $E *)j->other + n * image * j->channels + (j->dest_last ? c0 : c0 * image);
        for (long y = first; y < last; y++) {
            const long start = (z * x->dest[1] + y) * x->dest[2];
            $S_row_lanes(from + start * pixel, x->dest[2], image - start, pixel, image, j->dest_last,
                         count, dy, 1);
            for (long kz = 0; kz < x->kernel[0]; kz++)
                for (long ky = 0; ky < x->kernel[1]; ky++)
                    gradient_taps(x, rows + kz * plane
                                      + ((y - first) * x->step[1] + ky * x->dilation[1]) * x->width * LANES,
                                  dy, sums + (kz * x->kernel[1] + ky) * x->kernel[2] * LANES);
            for (long o = 0; o < x->dest[2]; o++)
                for (long c = 0; c < LANES; c++) sums[taps * LANES + c] += dy[o * LANES + c];
        }
    }
}

/* y from x, or dx from dy */
NOINLINE int $S_depthwise(const geometry *g, int backward, char *dest, const char *source,
                          const char *weights, const char *bias, const fk_runtime *rt)
{
    depthwise_job j = {padded_of(g, backward), g->n, g->groups, .source = source, .weights = weights,
                       .bias = bias, .dest = dest, .flip = backward, .epilogue = g->epilogue};
    j.source_last = backward ? g->y_last : g->x_last, j.dest_last = backward ? g->x_last : g->y_last;
    if (!j.n || !volume(j.x.dest)) return 0;
    const double products = (double)j.n * j.channels * volume(j.x.dest) * volume(j.x.kernel);
#if $EXACT
    if (lies_in_place(&j)) return in_place_depthwise(&j, products > 100000, rt);
#endif
    plan_bands(&j);
    const long units = j.n * j.blocks * j.bands;
    return launch($S_depthwise_unit, &j, units, band_bytes(&j), products > 100000, rt);
}

NOINLINE int $S_depthwise_weight(const geometry *g, char *dw, const char *dy, const char *x, char *dbias,
                                 const fk_runtime *rt)
{
    depthwise_job j = {padded_of(g, 0), g->n, g->groups, .source = x, .other = dy,
                       .source_last = g->x_last, .dest_last = g->y_last};
    plan_bands(&j);
    const long taps = volume(j.x.kernel), work = j.n * j.x.dest[0] * j.bands;
    const double products = (double)j.n * j.channels * volume(j.x.dest) * taps;
    const int parallel = products > 100000;
    j.parts = MAX(1, MIN(work, parallel ? CEIL(2 * rt->threads(), j.blocks) : 1));
    j.sums = rt->scratch(j.parts * j.blocks * (taps + 1) * LANES * sizeof(acc_t));
    if (!j.sums) return 1;
    const int failed = launch($S_depthwise_weight_unit, &j, j.parts * j.blocks, band_bytes(&j), parallel, rt);
    for (long c = 0; c < j.channels && !failed; c++)
        for (long t = 0; t <= taps; t++) {
            acc_t total = 0;
            for (long part = 0; part < j.parts; part++)
                total += j.sums[((part * j.blocks + c / LANES) * (taps + 1) + t) * LANES + c % LANES];
            if (t < taps) (($E *)dw)[c * taps + t] = $S_stored(total);
            else if (dbias) (($E *)dbias)[c] = $S_stored(total);
        }
    rt->release(j.sums);
    return failed;
}
"""


def depthwise_text(kind: Kind, dtypes: list[str]) -> str:
    """Depthwise kernels for every storage dtype that a kind's convolutions serve."""
    parts = [COMMON]
    for name in dtypes:
        element, load, store = RESULTS[name]
        exact = (load, store) == ("y", "x")
        values = {"S": name, "E": element, "LOAD": load, "STORE": store, "EXACT": str(int(exact))}
        parts += [fill(text, **values) for text in (ROWS, *([IN_PLACE] if exact else []), TEMPLATE)]
    return "\n".join(parts)
