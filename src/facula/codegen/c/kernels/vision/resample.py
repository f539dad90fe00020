"""Resampling of images: interpolation, and sliding windows as columns (unfold, fold).

Takes: contiguous `[planes, D, H, W]` or, for the `.last` kernels, `[batch, D, H, W, channels]`;
fewer dimensions lead. Grid sampling stands in `grid_sample`.
Keeps true: interpolation is separable, its taps and weights are tabulated per dimension in the
compute type by PyTorch's rules for align_corners and scale factors; one thread owns an output row
(forward) or a plane (backward). Bytes are weighted with whole numbers of 15 bits, as many fractional
ones as the largest weight leaves, and rounded after each dimension: PyTorch's integers.

resample, resample.last, resample.grad (drivers)
   p: out, input   (grad: grad_input, grad_out; planes only)
resample.whole:u8 (driver)           p: out, input   along the second dimension; the third is what lies behind it
resample.nearest:b<bytes> (driver)   p: out, input   planes, or channels last with channels > 1
   n: 0 planes or batch, 1 channels, 2..4 input D H W, 5..7 output,
      8..10 method per dimension (0 nearest, 1 nearest-exact, 2 linear, 3 cubic),
      11 align_corners, 12 antialias     s: scale factor per dimension, 0 where none was given
unfold:b<bytes> (body)   p: out [batch, channels * kh * kw, oh * ow], input
                         items: batch * channels * kh * kw
fold (body)              p: out, columns   items: batch * channels
   n: 0 planes, 1..2 image H W, 3..4 blocks oh ow, 5..6 kernel, 7..8 dilation, 9..10 padding,
      11..12 stride
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, conversions, fill
from facula.codegen.c.kernels.vision import grid_sample

FLOATS = ("f32", "f64", "bf16", "f16")
SIZES = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}

_COMMON = """
#include <math.h>
typedef struct {
    int64_t planes, channels, in[3], out[3], method[3], align, antialias;
} resample_shape;

/* taps of one dimension, tap by tap: index[tap * size + position] and weight[...] */
typedef struct {
    int64_t taps, size;
    int32_t *index;
    void *weight;
} resample_axis;

typedef struct {
    const resample_shape *shape;
    resample_axis axis[3];
    char *out, *scratch;
    const char *input;
    int64_t next, items, slot_bytes;
} resample_problem;

static double resample_scale(int64_t in, int64_t out, int align, double factor)
{
    if (align) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    return factor > 0 ? 1 / factor : (double)in / (double)out;
}

static int64_t resample_taps(const resample_shape *g, int d, double factor)
{
    if (g->method[d] < 2) return 1;
    if (!g->antialias) return g->method[d] == 2 ? 2 : 4;
    double scale = resample_scale(g->in[d], g->out[d], (int)g->align, factor), half
        = g->method[d] == 2 ? 1 : 2;
    return 2 * (int64_t)ceil(scale >= 1 ? half * scale : half) + 1;
}

static int64_t resample_pad(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* the nearest position is computed in float whatever the dtype, as PyTorch does */
static int64_t resample_nearest(const resample_shape *g, int d, double factor, int64_t at)
{
    int64_t in = g->in[d], out = g->out[d];
    if (in == out && (g->method[d] == 0 || factor <= 0)) return at;
    float scale = factor > 0 ? (float)(1 / factor) : (float)in / (float)out;
    if (g->method[d] == 0 && out == 2 * in && factor <= 0) return at >> 1;
    float position = g->method[d] == 0 ? floorf((float)at * scale)
        : floorf(((float)at + 0.5f) * scale);
    return (int64_t)position < in - 1 ? (int64_t)position : in - 1;
}

/* bytes of the tables of all dimensions; with base, sets their addresses too */
static int64_t resample_carve(resample_problem *a, const fk_scalar *s, char *base, int64_t element)
{
    int64_t at = 0;
    for (int d = 0; d < 3; d++) {
        resample_axis *axis = a->axis + d;
        axis->taps = resample_taps(a->shape, d, s[d].f), axis->size = a->shape->out[d];
        axis->index = (int32_t *)(base + at), at += resample_pad(axis->taps * axis->size * 4);
        axis->weight = base + at, at += resample_pad(axis->taps * axis->size * element);
    }
    return at;
}
"""

_TABLES = """
ALWAYS_INLINE @COMPUTE@ cubic_near_@s@(@COMPUTE@ x, @COMPUTE@ a) {
    return ((a + 2) * x - (a + 3)) * x * x + 1; }
ALWAYS_INLINE @COMPUTE@ cubic_far_@s@(@COMPUTE@ x, @COMPUTE@ a) {
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

static @COMPUTE@ antialias_@s@(int64_t method, @COMPUTE@ x)
{
    x = @FABS@(x);
    if (method == 2) return x < 1 ? 1 - x : 0;
    return x < 1 ? cubic_near_@s@(x, (@COMPUTE@)-0.5) : x < 2 ? cubic_far_@s@(x, (@COMPUTE@)-0.5)
        : 0;
}

static void smooth_taps_@s@(const resample_shape *g, int d, @COMPUTE@ scale, int64_t at,
    int64_t taps, int32_t *index,
    @COMPUTE@ *weight, int64_t step)
{
    int64_t in = g->in[d];
    @COMPUTE@ size = g->method[d] == 2 ? 2 : 4, inverse = scale >= 1 ? 1 / scale : 1;
    @COMPUTE@ support = scale >= 1 ? size * (@COMPUTE@)0.5 * scale : size * (@COMPUTE@)0.5;
    @COMPUTE@ center = scale * ((@COMPUTE@)at + (@COMPUTE@)0.5), total = 0;
    int64_t first = (int64_t)(center - support + (@COMPUTE@)0.5), last
        = (int64_t)(center + support + (@COMPUTE@)0.5);
    first = first > 0 ? first : 0, last = last < in ? last : in;
    int64_t count = last - first < 0 ? 0 : last - first < taps ? last - first : taps;
    for (int64_t k = 0; k < taps; k++) {
        @COMPUTE@ value = k < count
            ? antialias_@s@(g->method[d], ((@COMPUTE@)(k + first) - center + (@COMPUTE@)0.5)
                * inverse) : 0;
        index[k * step] = (int32_t)(k < count ? first + k : first < in ? first : in - 1);
        weight[k * step] = value, total += value;
    }
    for (int64_t k = 0; k < taps && total != 0; k++) weight[k * step] /= total;
}

static void sharp_taps_@s@(const resample_shape *g, int d, @COMPUTE@ scale, int64_t at,
    int32_t *index,
    @COMPUTE@ *weight, int64_t step)
{
    int64_t in = g->in[d];
    @COMPUTE@ position = g->align ? scale * (@COMPUTE@)at : scale
        * ((@COMPUTE@)at + (@COMPUTE@)0.5) - (@COMPUTE@)0.5;
    if (g->method[d] == 2) {
        if (g->in[d] == g->out[d]) position = (@COMPUTE@)at;
        if (position < 0) position = 0;
    }
    int64_t base = (int64_t)@FLOOR@(position);
    if (base > in - 1) base = in - 1;
    @COMPUTE@ t = position - (@COMPUTE@)base;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    if (g->method[d] == 2) {
        index[0] = (int32_t)base, index[step] = (int32_t)(base < in - 1 ? base + 1 : base);
        weight[0] = 1 - t, weight[step] = t;
        return;
    }
    const @COMPUTE@ a = (@COMPUTE@)-0.75;
    weight[0] = cubic_far_@s@(t + 1, a), weight[step] = cubic_near_@s@(t, a);
    weight[2 * step] = cubic_near_@s@(1 - t, a), weight[3 * step] = cubic_far_@s@(2 - t, a);
    for (int64_t k = 0; k < 4; k++) {
        int64_t place = base - 1 + k;
        index[k * step] = (int32_t)(place < 0 ? 0 : place > in - 1 ? in - 1 : place);
    }
}

static void resample_tables_@s@(resample_problem *a, const fk_scalar *s)
{
    const resample_shape *g = a->shape;
    for (int d = 0; d < 3; d++) {
        resample_axis *axis = a->axis + d;
        @COMPUTE@ factor = (@COMPUTE@)s[d].f, scale;
        if (g->align) scale = g->out[d] > 1 ? (@COMPUTE@)(g->in[d] - 1)
            / (@COMPUTE@)(g->out[d] - 1) : 0;
        else scale = factor > 0 ? (@COMPUTE@)(1 / s[d].f)
            : (@COMPUTE@)g->in[d] / (@COMPUTE@)g->out[d];
        if (g->antialias && g->in[d] == g->out[d]) scale = 1; /* PyTorch leaves such a dimension out */
        for (int64_t at = 0; at < axis->size; at++) {
            int32_t *index = axis->index + at;
            @COMPUTE@ *weight = (@COMPUTE@ *)axis->weight + at;
            if (g->method[d] < 2) index[0] = (int32_t)resample_nearest(g, d, s[d].f, at),
                weight[0] = 1;
            else if (g->antialias) smooth_taps_@s@(g, d, scale, at, axis->taps, index, weight,
                axis->size);
            else sharp_taps_@s@(g, d, scale, at, index, weight, axis->size);
        }
    }
}
"""

_FORWARD = """
/* one output row of a plane: input rows are blended first, whole rows at a time, then positions
 * along the row */
static void resample_row_@s@(const resample_problem *a, int64_t item, @COMPUTE@ *blend)
{
    const resample_shape *g = a->shape;
    const resample_axis *deep = a->axis, *down = a->axis + 1, *across = a->axis + 2;
    int64_t y = item % g->out[1], z = item / g->out[1] % g->out[0], size = g->in[2], width
        = g->out[2];
    const @STORAGE@ *plane = (const @STORAGE@ *)a->input + item / (g->out[1] * g->out[0])
        * g->in[0] * g->in[1] * size;
    int first = 1;
    for (int64_t tz = 0; tz < deep->taps; tz++)
        for (int64_t ty = 0; ty < down->taps; ty++) {
            int64_t at_z = tz * deep->size + z, at_y = ty * down->size + y;
            @COMPUTE@ weight = ((@COMPUTE@ *)deep->weight)[at_z]
                * ((@COMPUTE@ *)down->weight)[at_y];
            const @STORAGE@ *row = plane + ((int64_t)deep->index[at_z] * g->in[1]
                + down->index[at_y]) * size;
            if (first) {
                _Pragma("omp simd") for (int64_t i = 0; i < size; i++) blend[i] = load_@s@(row[i])
                    * weight;
            } else {
                _Pragma("omp simd") for (int64_t i = 0; i < size; i++) blend[i]
                    += load_@s@(row[i]) * weight;
            }
            first = 0;
        }
    @STORAGE@ *out = (@STORAGE@ *)a->out + item * width;
    for (int64_t from = 0; from < width; from += 64) {
        @COMPUTE@ sum[64] = {0};
        int64_t count = width - from < 64 ? width - from : 64;
        for (int64_t tap = 0; tap < across->taps; tap++) {
            const int32_t *index = across->index + tap * across->size + from;
            const @COMPUTE@ *weight = (@COMPUTE@ *)across->weight + tap * across->size + from;
            _Pragma("omp simd") for (int64_t i = 0; i < count; i++) sum[i] += weight[i]
                * blend[index[i]];
        }
        for (int64_t i = 0; i < count; i++) out[from + i] = store_@s@(sum[i]);
    }
}

static void resample_last_row_@s@(const resample_problem *a, int64_t item, @COMPUTE@ *sum)
{
    const resample_shape *g = a->shape;
    const resample_axis *deep = a->axis, *down = a->axis + 1, *across = a->axis + 2;
    int64_t y = item % g->out[1], z = item / g->out[1] % g->out[0], channels = g->channels;
    const @STORAGE@ *volume = (const @STORAGE@ *)a->input
        + item / (g->out[1] * g->out[0]) * g->in[0] * g->in[1] * g->in[2] * channels;
    for (int64_t x = 0; x < g->out[2]; x++) {
        memset(sum, 0, (size_t)channels * sizeof(@COMPUTE@));
        for (int64_t tz = 0; tz < deep->taps; tz++)
            for (int64_t ty = 0; ty < down->taps; ty++)
                for (int64_t tx = 0; tx < across->taps; tx++) {
                    int64_t at_z = tz * deep->size + z, at_y = ty * down->size + y, at_x = tx
                        * across->size + x;
                    @COMPUTE@ weight = ((@COMPUTE@ *)deep->weight)[at_z]
                        * ((@COMPUTE@ *)down->weight)[at_y]
                        * ((@COMPUTE@ *)across->weight)[at_x];
                    const @STORAGE@ *row = volume + (((int64_t)deep->index[at_z] * g->in[1]
                        + down->index[at_y]) * g->in[2]
                        + across->index[at_x]) * channels;
                    _Pragma("omp simd") for (int64_t c = 0; c < channels; c++) sum[c]
                        += load_@s@(row[c]) * weight;
                }
        @STORAGE@ *out = (@STORAGE@ *)a->out + (item * g->out[2] + x) * channels;
        _Pragma("omp simd") for (int64_t c = 0; c < channels; c++) out[c] = store_@s@(sum[c]);
    }
}
"""

_BACKWARD = """
static void resample_grad_plane_@s@(const resample_problem *a, int64_t item, @COMPUTE@ *blend)
{
    const resample_shape *g = a->shape;
    const resample_axis *deep = a->axis, *down = a->axis + 1, *across = a->axis + 2;
    int64_t size = g->in[2], volume = g->in[0] * g->in[1] * size, rows = g->out[0] * g->out[1];
    @STORAGE@ *plane = (@STORAGE@ *)a->out + item * volume;
    memset(plane, 0, (size_t)volume * sizeof(@STORAGE@));
    for (int64_t line = 0; line < rows; line++) {
        const @STORAGE@ *grad = (const @STORAGE@ *)a->input + (item * rows + line) * g->out[2];
        memset(blend, 0, (size_t)size * sizeof(@COMPUTE@));
        for (int64_t tap = 0; tap < across->taps; tap++) {
            const int32_t *index = across->index + tap * across->size;
            const @COMPUTE@ *weight = (@COMPUTE@ *)across->weight + tap * across->size;
            for (int64_t x = 0; x < g->out[2]; x++) blend[index[x]] += weight[x] * grad[x];
        }
        for (int64_t tz = 0; tz < deep->taps; tz++)
            for (int64_t ty = 0; ty < down->taps; ty++) {
                int64_t at_z = tz * deep->size + line / g->out[1], at_y = ty * down->size
                    + line % g->out[1];
                @COMPUTE@ weight = ((@COMPUTE@ *)deep->weight)[at_z]
                    * ((@COMPUTE@ *)down->weight)[at_y];
                @STORAGE@ *row = plane + ((int64_t)deep->index[at_z] * g->in[1]
                    + down->index[at_y]) * size;
                _Pragma("omp simd") for (int64_t i = 0; i < size; i++) row[i] += blend[i] * weight;
            }
    }
}
"""

_DRIVER = """
static void @kernel@_body_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    resample_problem *a = (resample_problem *)p[0];
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t first; (first = __atomic_fetch_add(&a->next, @RUN@, __ATOMIC_RELAXED))
            < a->items;)
            for (int64_t item = first; item < a->items && item < first + @RUN@; item++)
                @kernel@_@ITEM@_@s@(a, item, (@COMPUTE@ *)(a->scratch + slot * a->slot_bytes));
}

static int @kernel@_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    resample_problem a = {.shape = (const resample_shape *)n, .out = p[0], .input = p[1]};
    const resample_shape *g = a.shape;
    int64_t tables = resample_carve(&a, s, 0, sizeof(@COMPUTE@));
    a.items = @ITEMS@;
    int64_t slots = a.items < rt->threads() ? a.items : rt->threads();
    a.slot_bytes = resample_pad(@SLOT@ * (int64_t)sizeof(@COMPUTE@));
    if (!slots) return 0;
    char *base = rt->scratch(tables + slots * a.slot_bytes);
    if (!base) return 1;
    resample_carve(&a, s, base, sizeof(@COMPUTE@));
    resample_tables_@s@(&a, s);
    a.scratch = base + tables;
    char *problem[1] = {(char *)&a};
    rt->parallel(@kernel@_body_@s@, problem, n, s, slots, 1);
    rt->release(base);
    return 0;
}
"""

_NEAREST = """
static void nearest_body_b@BYTES@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const resample_problem *a = (const resample_problem *)p[0];
    const resample_shape *g = a->shape;
    int64_t width = g->out[2], channels = g->channels, before = -1;
    for (int64_t item = begin; item < end; item++) {
        int64_t plane = item / (g->out[1] * g->out[0]);
        int64_t row = (plane * g->in[0] + a->axis[0].index[item / g->out[1] % g->out[0]]) * g->in[1]
            + a->axis[1].index[item % g->out[1]];
        const @TYPE@ *from = (const @TYPE@ *)a->input + row * g->in[2] * channels;
        @TYPE@ *to = (@TYPE@ *)a->out + item * width * channels;
        const int32_t *index = a->axis[2].index;
        if (row == before) /* upsampling repeats whole rows */
            memcpy(to, to - width * channels, (size_t)(width * channels) * sizeof(@TYPE@));
        else if (channels == 1)
            for (int64_t x = 0; x < width; x++) to[x] = from[index[x]];
        else
            for (int64_t x = 0; x < width; x++)
                memcpy(to + x * channels, from + index[x] * channels, (size_t)channels
                    * sizeof(@TYPE@));
        before = row;
    }
}

static int nearest_b@BYTES@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    resample_problem a = {.shape = (const resample_shape *)n, .out = p[0], .input = p[1]};
    const resample_shape *g = a.shape;
    char *problem[1] = {(char *)&a}, *base = rt->scratch(resample_carve(&a, s, 0, 4));
    int64_t row = g->out[2] * g->channels;
    if (!base) return 1;
    resample_carve(&a, s, base, 4);
    for (int d = 0; d < 3; d++)
        for (int64_t at = 0; at < g->out[d]; at++) a.axis[d].index[at]
            = (int32_t)resample_nearest(g, d, s[d].f, at);
    rt->parallel(nearest_body_b@BYTES@, problem, n, s, g->planes * g->out[0] * g->out[1], row
        < 8192 ? 8192 / (row + 1) + 1 : 1);
    rt->release(base);
    return 0;
}
"""

_WHOLE = """
#define WHOLE_LINES 8

typedef struct {
    resample_problem problem;
    const int32_t *weight;
    int bits;
} whole_problem;

/* weights as whole numbers; returns how many of their bits are fractional */
static int whole_weights(const resample_axis *axis, int joins, int32_t *whole)
{
    int64_t count = axis->taps * axis->size;
    double *weight = (double *)axis->weight, most = 0;
    /* taps behind an edge fall on the place at the edge, and are rounded together with it */
    for (int64_t at = 0; joins && at < axis->size; at++)
        for (int64_t tap = 1; tap < axis->taps; tap++)
            for (int64_t other = 0; other < tap; other++) {
                int64_t here = tap * axis->size + at, there = other * axis->size + at;
                if (axis->index[here] != axis->index[there]) continue;
                weight[there] += weight[here], weight[here] = 0;
                break;
            }
    for (int64_t i = 0; i < count; i++) most = weight[i] > most ? weight[i] : most;
    int bits = 0;
    while (bits < 22 && (int64_t)(0.5 + most * (double)((int64_t)2 << bits)) < 1 << 15) bits++;
    double unit = (double)((int64_t)1 << bits);
    for (int64_t i = 0; i < count; i++)
        whole[i] = (int32_t)(weight[i] * unit + (weight[i] < 0 ? -0.5 : 0.5));
    return bits;
}

ALWAYS_INLINE uint8_t whole_byte(int32_t sum, int bits)
{
    sum = (sum + (bits ? (int32_t)1 << (bits - 1) : 0)) >> bits;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* positions of one line, whose elements lie `step` apart */
ALWAYS_INLINE void whole_line(const whole_problem *a, const uint8_t *from, uint8_t *to,
    int64_t step)
{
    const resample_axis *axis = a->problem.axis + 1;
    for (int64_t first = 0; first < axis->size; first += 64) {
        int64_t count = axis->size - first < 64 ? axis->size - first : 64;
        int32_t sum[64] = {0};
        for (int64_t tap = 0; tap < axis->taps; tap++) {
            const int32_t *index = axis->index + tap * axis->size + first;
            const int32_t *weight = a->weight + tap * axis->size + first;
            for (int64_t i = 0; i < count; i++) sum[i] += weight[i]
                * from[index[i] * step];
        }
        for (int64_t i = 0; i < count; i++) to[(first + i) * step] = whole_byte(sum[i], a->bits);
    }
}

static void whole_body(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const whole_problem *a = (const whole_problem *)p[0];
    const resample_shape *g = a->problem.shape;
    const resample_axis *axis = a->problem.axis + 1;
    const uint8_t *input = (const uint8_t *)a->problem.input;
    uint8_t *out = (uint8_t *)a->problem.out;
    int64_t width = g->in[2];
    for (int64_t item = begin; item < end; item++) {
        if (width < WHOLE_LINES) {
            const uint8_t *from = input + item * g->in[1] * width;
            uint8_t *to = out + item * axis->size * width;
            if (width == 1) whole_line(a, from, to, 1);
            else for (int64_t i = 0; i < width; i++) whole_line(a, from + i, to + i, width);
            continue;
        }
        int64_t at = item % axis->size;
        const uint8_t *plane = input + item / axis->size * g->in[1] * width;
        for (int64_t first = 0; first < width; first += 256) {
            int64_t count = width - first < 256 ? width - first : 256;
            int32_t sum[256] = {0};
            for (int64_t tap = 0; tap < axis->taps; tap++) {
                int32_t weight = a->weight[tap * axis->size + at];
                const uint8_t *row = plane + axis->index[tap * axis->size + at] * width + first;
                if (!weight) continue;
                _Pragma("omp simd") for (int64_t i = 0; i < count; i++) sum[i] += weight * row[i];
            }
            uint8_t *to = out + item * width + first;
            _Pragma("omp simd") for (int64_t i = 0; i < count; i++) to[i]
                = whole_byte(sum[i], a->bits);
        }
    }
}

static int whole_u8(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    whole_problem a = {.problem = {.shape = (const resample_shape *)n, .out = p[0], .input = p[1]}};
    const resample_shape *g = a.problem.shape;
    const resample_axis *axis = a.problem.axis + 1;
    int64_t tables = resample_carve(&a.problem, s, 0, sizeof(double));
    int lines = g->in[2] < WHOLE_LINES; /* speed only: what lies behind is too short for a vector */
    int64_t line = g->in[2] * axis->taps * (lines ? axis->size : 1);
    int64_t items = g->planes * (lines ? 1 : axis->size);
    char *base = rt->scratch(tables + axis->taps * axis->size * 4);
    if (!base) return 1;
    resample_carve(&a.problem, s, base, sizeof(double));
    resample_tables_f64(&a.problem, s);
    a.weight = (const int32_t *)(base + tables);
    a.bits = whole_weights(axis, !g->antialias, (int32_t *)(base + tables));
    char *problem[1] = {(char *)&a};
    rt->parallel(whole_body, problem, n, s, items, line < 65536 ? 65536 / (line + 1) + 1 : 1);
    rt->release(base);
    return 0;
}
"""

_UNFOLD = """
/* positions [low, high) of a window row along one dimension that fall inside the image */
ALWAYS_INLINE void inside_b@BYTES@(int64_t start, int64_t stride, int64_t size, int64_t count,
    int64_t *low, int64_t *high)
{
    *low = start < 0 ? (-start + stride - 1) / stride : 0;
    *high = start < size ? (size - 1 - start) / stride + 1 : 0;
    if (*low > count) *low = count;
    if (*high > count) *high = count;
    if (*high < *low) *high = *low;
}

static void unfold_b@BYTES@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    int64_t height = n[1], width = n[2], rows = n[3], columns = n[4], taps = n[5] * n[6], stride
        = n[12];
    for (int64_t item = begin; item < end; item++) {
        int64_t ky = item % taps / n[6], kx = item % n[6], low, high;
        const @TYPE@ *image = (const @TYPE@ *)p[1] + item / taps * height * width;
        inside_b@BYTES@(kx * n[8] - n[10], stride, width, columns, &low, &high);
        for (int64_t row = 0; row < rows; row++) {
            @TYPE@ *to = (@TYPE@ *)p[0] + (item * rows + row) * columns;
            int64_t y = row * n[11] + ky * n[7] - n[9];
            if (y < 0 || y >= height) {
                memset(to, 0, (size_t)columns * sizeof(@TYPE@));
                continue;
            }
            const @TYPE@ *from = image + y * width + kx * n[8] - n[10];
            memset(to, 0, (size_t)low * sizeof(@TYPE@));
            if (stride == 1) memcpy(to + low, from + low, (size_t)(high - low) * sizeof(@TYPE@));
            else for (int64_t x = low; x < high; x++) to[x] = from[x * stride];
            memset(to + high, 0, (size_t)(columns - high) * sizeof(@TYPE@));
        }
    }
}
"""

_FOLD = """
static void fold_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    int64_t height = n[1], width = n[2], rows = n[3], columns = n[4], taps = n[5] * n[6], stride
        = n[12];
    for (int64_t item = begin; item < end; item++) {
        @STORAGE@ *image = (@STORAGE@ *)p[0] + item * height * width;
        memset(image, 0, (size_t)(height * width) * sizeof(@STORAGE@));
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t ky = tap / n[6], kx = tap % n[6], low, high;
            inside_b8(kx * n[8] - n[10], stride, width, columns, &low, &high);
            for (int64_t row = 0; row < rows; row++) {
                const @STORAGE@ *from = (const @STORAGE@ *)p[1] + ((item * taps + tap)
                    * rows + row) * columns;
                int64_t y = row * n[11] + ky * n[7] - n[9];
                if (y < 0 || y >= height) continue;
                @STORAGE@ *to = image + y * width + kx * n[8] - n[10];
                if (stride == 1) {
                    _Pragma("omp simd") for (int64_t x = low; x < high; x++) to[x] += from[x];
                } else {
                    for (int64_t x = low; x < high; x++) to[x * stride] += from[x];
                }
            }
        }
    }
}
"""

#: kernel, C text of one item, its function, count of items, items taken at a time, scratch elements
_KERNELS = (
    ("resample", "row", "g->planes * g->out[0] * g->out[1]", 4, "g->in[2]"),
    ("resample_last", "row", "g->planes * g->out[0] * g->out[1]", 2, "g->channels"),
    ("resample_grad", "plane", "g->planes", 1, "g->in[2]"),
)


_IN, _OUT = "n0*n1*n2*n3*n4", "n0*n1*n5*n6*n7"
#: what the positions of windows are divided by
_WINDOWS = "c windows min(n5,min(n6,min(n7,min(n8,min(n11,n12)))))"
_OPERANDS = {
    "resample": f"13;3; w out @ {_OUT}; r input @ {_IN}",
    "resample_last": f"13;3; w out @ {_OUT}; r input @ {_IN}",
    "resample_grad": f"13;3; w grad_input @ {_IN}; r grad_out @ {_OUT}",
    "unfold": f"13;0; w out @ N*n3*n4; r input @ N/(n5*n6)*n1*n2; {_WINDOWS}",
    "fold": f"13;0; w out @ N*n1*n2; r columns @ N*n5*n6*n3*n4; {_WINDOWS}",
}


def unit(isa: Isa) -> str:
    """The translation unit of the resampling kernels for one instruction set."""
    text = [PROLOGUE, conversions(*FLOATS), _COMMON]
    entries: list[Entry] = []
    for bytes_, ctype in SIZES.items():
        text.append(fill(_NEAREST + _UNFOLD, BYTES=bytes_, TYPE=ctype))
        said = [declared(_OPERANDS[name], f"x{bytes_}") for name in ("resample", "unfold")]
        entries.append((f"resample.nearest:b{bytes_}", "d", f"nearest_b{bytes_}", said[0]))
        entries.append((f"unfold:b{bytes_}", "b", f"unfold_b{bytes_}", said[1]))
    for dtype in FLOATS:
        storage = STORAGES[dtype]
        double = storage.compute == "double"
        names = {
            "s": dtype,
            "STORAGE": storage.ctype,
            "COMPUTE": storage.compute,
            "FLOOR": "floor" if double else "floorf",
            "FABS": "fabs" if double else "fabsf",
        }
        text.append(fill(_TABLES + _FORWARD, **names))
        for kernel, item, items, run, slot in _KERNELS:
            if storage.is_half and kernel == "resample_grad":
                continue
            if kernel == "resample_grad":
                text.append(fill(_BACKWARD + _FOLD, **names))
                said_fold = declared(_OPERANDS["fold"], dtype)
                entries.append((f"fold:{dtype}", "b", f"fold_{dtype}", said_fold))
            text.append(
                fill(_DRIVER, kernel=kernel, ITEM=item, ITEMS=items, RUN=run, SLOT=slot, **names)
            )
            name = f"{kernel.replace('_', '.')}:{dtype}"
            entries.append((name, "d", f"{kernel}_{dtype}", declared(_OPERANDS[kernel], dtype)))
        text.append(grid_sample.text(storage))
        entries += grid_sample.entries(storage)
    text.append(_WHOLE)
    entries.append(("resample.whole:u8", "d", "whole_u8", declared(_OPERANDS["resample"], "u8")))
    return "".join(text) + table(entries)
