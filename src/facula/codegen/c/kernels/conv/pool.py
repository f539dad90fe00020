"""Pooling over windows: maximum, average, adaptive; forward and backward, 1 to 3 dimensions.

Takes: contiguous `[planes, D, H, W]`, or `[batch, D, H, W, channels]` for the `.last` kernels;
fewer dimensions are leading ones.
Gives bodies (p, n below; out first) and keeps true: padding never wins a maximum, NaN always does,
the first of equal values is kept; average windows are summed in row-major order in the compute
type; one thread owns an output (forward) or a plane (backward), so results do not depend on the
number of threads.

n of max_pool and avg_pool: 0 planes or batch, 1 channels, 2..4 input D H W, 5..7 output,
8..10 kernel, 11..13 stride, 14..16 padding, 17..19 dilation,
20 bytes of an index (0, 4, 8) or count_include_pad, 21 divisor override (0: none).
Indices are flat positions in the input volume of a plane.

max_pool, max_pool.last            p: out, indices or null, input     items: output rows
adaptive_max_pool                  the same (planes)
avg_pool, avg_pool.last            p: out, input                      items: output rows
adaptive_avg_pool, adaptive_avg_pool.last                             the same
   (output rows: planes * D * H, or batch * D * H, of the output)
avg_pool.grad, adaptive_avg_pool.grad             p: grad_input, grad_out   items: planes
avg_pool.grad.last, adaptive_avg_pool.grad.last   the same   items: batch * blocks of 64 channels
plane_scatter_add, plane_scatter, plane_gather    p: out, source, indices   items: planes
   n: 0 planes, 1 channels, 2 source count, 3 out count (gather: indices count, source count),
      4 bytes of an index
plane_scatter_add.last, plane_gather.last   items: batch * blocks of 64 channels; indices stand
   channels last too
Positions outside of a plane are nobody's: nothing goes there, and 0 comes from there.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, conversions, fill

FLOATS = ("f32", "f64", "bf16", "f16")
MAXIMUM = (*FLOATS, "i64")
CHUNK = 256
CHANNELS = 64
MAXIMA = 64  # outputs of a row at a time
LINES = 1024  # elements of an input row, split by stride

_GEOMETRY = """
#include <math.h>
typedef struct {
    int64_t planes, channels, in[3], out[3], kernel[3], stride[3], padding[3], dilation[3], flag,
        divisor;
} pool_shape;

ALWAYS_INLINE const pool_shape *pool_sizes(const int64_t *n) { return (const pool_shape *)n; }

/* the input rows of a window along one dimension: positions start + k * step, k in [first, last) */
typedef struct {
    int64_t start, step, first, last;
} pool_window;

ALWAYS_INLINE pool_window pool_fixed(const pool_shape *g, int d, int64_t at)
{
    int64_t start = at * g->stride[d] - g->padding[d], step = g->dilation[d], size = g->in[d];
    pool_window w = {start, step, start < 0 ? (step - 1 - start) / step : 0, g->kernel[d]};
    int64_t inside = start < size ? (size - 1 - start) / step + 1 : 0;
    if (w.last > inside) w.last = inside;
    return w;
}

ALWAYS_INLINE pool_window pool_adaptive(const pool_shape *g, int d, int64_t at)
{
    int64_t start = at * g->in[d] / g->out[d], end = ((at + 1) * g->in[d] + g->out[d] - 1)
        / g->out[d];
    pool_window w = {start, 1, 0, end - start};
    return w;
}

/* outputs [low, high) of a row, cut to [from, to), for which tap k lies inside the input */
ALWAYS_INLINE void pool_range(const pool_shape *g, int64_t tap, int64_t from, int64_t to,
    int64_t *low, int64_t *high)
{
    int64_t offset = tap * g->dilation[2] - g->padding[2], stride = g->stride[2];
    int64_t first = offset < 0 ? (stride - 1 - offset) / stride : 0;
    int64_t last = offset < g->in[2] ? (g->in[2] - 1 - offset) / stride + 1 : 0;
    *low = first > from ? first : from, *high = last < to ? last : to;
}

/* how many positions an average window divides by along one dimension */
ALWAYS_INLINE int64_t pool_count(const pool_shape *g, int d, int64_t at)
{
    int64_t start = at * g->stride[d] - g->padding[d], end = start + g->kernel[d], size = g->in[d];
    int64_t limit = g->flag ? size + g->padding[d] : size;
    if (end > limit) end = limit;
    if (!g->flag && start < 0) start = 0;
    return end - start;
}

ALWAYS_INLINE void pool_put(char *indices, int64_t bytes, int64_t at, int64_t value)
{
    if (bytes == 8) ((int64_t *)indices)[at] = value;
    if (bytes == 4) ((int32_t *)indices)[at] = (int32_t)value;
}

ALWAYS_INLINE int64_t pool_get(const char *indices, int64_t bytes, int64_t at)
{
    return bytes == 8 ? ((const int64_t *)indices)[at] : ((const int32_t *)indices)[at];
}
"""

_MAXIMUM = """
/* one input row split by stride: lines[phase][j] = row[start + j * stride + phase], the lowest
 * value outside the row */
ALWAYS_INLINE void maximum_lines_@s@(const @STORAGE@ *row, int64_t start, int64_t size,
    int64_t stride, int64_t phases,
    int64_t length, @COMPUTE@ *lines)
{
    for (int64_t phase = 0; phase < phases; phase++) {
        @COMPUTE@ *line = lines + phase * length;
        const @STORAGE@ *from = row + start + phase;
        int64_t left = -(start + phase), right = size - start - phase;
        int64_t low = left > 0 ? (left + stride - 1) / stride : 0, high = right > 0
            ? (right + stride - 1) / stride : 0;
        low = low < length ? low : length, high = high < length ? high : length;
        for (int64_t j = 0; j < low; j++) line[j] = @LOWEST@;
        if (stride == 1) {
            for (int64_t j = low; j < high; j++) line[j] = load_@s@(from[j]);
        } else if (stride == 2) {
            for (int64_t j = low; j < high; j++) line[j] = load_@s@(from[2 * j]);
        } else {
            for (int64_t j = low; j < high; j++) line[j] = load_@s@(from[stride * j]);
        }
        for (int64_t j = high > low ? high : low; j < length; j++) line[j] = @LOWEST@;
    }
}

/* line[i] against best[i], sixteen at a time: the first of equal values stays, NaN wins */
ALWAYS_INLINE void maximum_tap_@s@(const @COMPUTE@ *line, int64_t width, int64_t base,
    int64_t stride, @COMPUTE@ *best,
    @INTEGER@ *index)
{
    for (int64_t block = 0; block < width; block += 16)
        _Pragma("omp simd") for (int i = 0; i < 16; i++) {
            @COMPUTE@ value = line[block + i];
            int take = (value > best[block + i])@UNORDERED@;
            best[block + i] = take ? value : best[block + i];
            index[block + i] = take ? (@INTEGER@)(base + (block + i) * stride) : index[block + i];
        }
}

/* all taps of one input row on a chunk of outputs */
ALWAYS_INLINE void maximum_row_@s@(const pool_shape *g, const @STORAGE@ *row, int64_t row_at,
    int64_t from, int64_t width,
    @COMPUTE@ *best, @INTEGER@ *index)
{
    @COMPUTE@ lines[@LINES@];
    int64_t stride = g->stride[2], dilation = g->dilation[2], taps = g->kernel[2], start = from
        * stride - g->padding[2];
    int64_t length = width + (taps - 1) * dilation / stride, reach = (taps - 1) * dilation + 1;
    int64_t phases = reach < stride ? reach : stride;
    if (phases * length <= @LINES@) {
        maximum_lines_@s@(row, start, g->in[2], stride, phases, length, lines);
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t offset = tap * dilation, step = stride == 1 ? offset : stride == 2
                ? offset >> 1 : offset / stride;
            maximum_tap_@s@(lines + (offset - step * stride) * length + step, width, row_at
                + start + offset, stride, best, index);
        }
        return;
    }
    for (int64_t tap = 0; tap < taps; tap++) { /* far apart taps: one at a time */
        maximum_lines_@s@(row, start + tap * dilation, g->in[2], stride, 1, width, lines);
        maximum_tap_@s@(lines, width, row_at + start + tap * dilation, stride, best, index);
    }
}

static void max_pool_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2];
    for (int64_t item = begin; item < end; item++) {
        const @STORAGE@ *plane = (const @STORAGE@ *)p[2] + item / (g->out[1] * g->out[0]) * volume;
        pool_window deep = pool_fixed(g, 0, item / g->out[1] % g->out[0]), down
            = pool_fixed(g, 1, item % g->out[1]);
        int64_t first = ((deep.start + deep.first * deep.step) * g->in[1] + down.start
            + down.first * down.step) * g->in[2];
        for (int64_t from = 0; from < g->out[2]; from += @MAXIMA@) {
            @COMPUTE@ best[@MAXIMA@];
            @INTEGER@ index[@MAXIMA@];
            int64_t count = g->out[2] - from < @MAXIMA@ ? g->out[2] - from : @MAXIMA@, width
                = (count + 15) / 16 * 16;
            int64_t start = first + from * g->stride[2] - g->padding[2];
            for (int64_t i = 0; i < width; i++) best[i] = @LOWEST@, index[i]
                = (@INTEGER@)(start + i * g->stride[2]);
            for (int64_t i = 0; i < count; i++) {
                /* where nothing exceeds the lowest value: the first position inside */
                int64_t left = g->padding[2] - (from + i) * g->stride[2];
                if (left <= 0) break;
                index[i] += (@INTEGER@)((left + g->dilation[2] - 1) / g->dilation[2]
                    * g->dilation[2]);
            }
            for (int64_t kz = deep.first; kz < deep.last; kz++)
                for (int64_t ky = down.first; ky < down.last; ky++) {
                    int64_t at = ((deep.start + kz * deep.step) * g->in[1] + down.start + ky
                        * down.step) * g->in[2];
                    maximum_row_@s@(g, plane + at, at, from, width, best, index);
                }
            @STORAGE@ *out = (@STORAGE@ *)p[0] + item * g->out[2] + from;
            for (int64_t i = 0; i < count; i++) out[i] = store_@s@(best[i]);
            if (g->flag == 8)
                for (int64_t i = 0; i < count; i++) ((int64_t *)p[1])[item * g->out[2] + from + i]
                    = index[i];
            if (g->flag == 4)
                for (int64_t i = 0; i < count; i++) ((int32_t *)p[1])[item * g->out[2] + from + i]
                    = (int32_t)index[i];
        }
    }
}

/* one output position, all channels of a chunk */
ALWAYS_INLINE void maximum_at_@s@(const pool_shape *g, const @STORAGE@ *volume, pool_window deep,
    pool_window down,
    pool_window across, @STORAGE@ *out, char *indices, int64_t at)
{
    for (int64_t from = 0; from < g->channels; from += @CHUNK@) {
        @COMPUTE@ best[@CHUNK@];
        @INTEGER@ index[@CHUNK@];
        int64_t count = g->channels - from < @CHUNK@ ? g->channels - from : @CHUNK@;
        int64_t first = ((deep.start + deep.first * deep.step) * g->in[1] + down.start
            + down.first * down.step) * g->in[2]
            + across.start + across.first * across.step;
        for (int64_t i = 0; i < count; i++) best[i] = @LOWEST@, index[i] = (@INTEGER@)first;
        for (int64_t kz = deep.first; kz < deep.last; kz++)
            for (int64_t ky = down.first; ky < down.last; ky++)
                for (int64_t kx = across.first; kx < across.last; kx++) {
                    int64_t position = ((deep.start + kz * deep.step) * g->in[1] + down.start + ky
                        * down.step) * g->in[2]
                        + across.start + kx * across.step;
                    const @STORAGE@ *row = volume + position * g->channels + from;
                    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {
                        @COMPUTE@ value = load_@s@(row[i]);
                        int take = (value > best[i])@UNORDERED@;
                        best[i] = take ? value : best[i];
                        index[i] = take ? (@INTEGER@)position : index[i];
                    }
                }
        for (int64_t i = 0; i < count; i++) out[at + from + i] = store_@s@(best[i]);
        if (g->flag)
            for (int64_t i = 0; i < count; i++) pool_put(indices, g->flag, at + from + i, index[i]);
    }
}

static void max_pool_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2] * g->channels;
    for (int64_t item = begin; item < end; item++) {
        const @STORAGE@ *input = (const @STORAGE@ *)p[2] + item / (g->out[1] * g->out[0]) * volume;
        pool_window deep = pool_fixed(g, 0, item / g->out[1] % g->out[0]), down
            = pool_fixed(g, 1, item % g->out[1]);
        for (int64_t x = 0; x < g->out[2]; x++)
            maximum_at_@s@(g, input, deep, down, pool_fixed(g, 2, x), (@STORAGE@ *)p[0], p[1],
                (item * g->out[2] + x) * g->channels);
    }
}

/* planes are channels last with one channel */
static void adaptive_max_pool_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2];
    for (int64_t item = begin; item < end; item++) {
        const @STORAGE@ *plane = (const @STORAGE@ *)p[2] + item / (g->out[1] * g->out[0]) * volume;
        pool_window deep = pool_adaptive(g, 0, item / g->out[1] % g->out[0]), down
            = pool_adaptive(g, 1, item % g->out[1]);
        for (int64_t x = 0; x < g->out[2]; x++) {
            pool_window across = pool_adaptive(g, 2, x);
            int64_t best_at = (deep.start * g->in[1] + down.start) * g->in[2] + across.start;
            @COMPUTE@ best = @LOWEST@;
            for (int64_t kz = 0; kz < deep.last; kz++)
                for (int64_t ky = 0; ky < down.last; ky++)
                    for (int64_t kx = 0; kx < across.last; kx++) {
                        int64_t at = ((deep.start + kz) * g->in[1] + down.start + ky) * g->in[2]
                            + across.start + kx;
                        @COMPUTE@ value = load_@s@(plane[at]);
                        if ((value > best)@UNORDERED@) best = value, best_at = at;
                    }
            ((@STORAGE@ *)p[0])[item * g->out[2] + x] = store_@s@(best);
            if (g->flag) pool_put(p[1], g->flag, item * g->out[2] + x, best_at);
        }
    }
}
"""

_AVERAGE = """
static void avg_pool_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t width = g->out[2], volume = g->in[0] * g->in[1] * g->in[2], stride = g->stride[2];
    for (int64_t item = begin; item < end; item++) {
        int64_t y = item % g->out[1], z = item / g->out[1] % g->out[0];
        const @STORAGE@ *plane = (const @STORAGE@ *)p[1] + item / (g->out[1] * g->out[0]) * volume;
        pool_window deep = pool_fixed(g, 0, z), down = pool_fixed(g, 1, y);
        int64_t rows = pool_count(g, 0, z) * pool_count(g, 1, y);
        for (int64_t from = 0; from < width; from += @CHUNK@) {
            @COMPUTE@ sum[@CHUNK@];
            int64_t count = width - from < @CHUNK@ ? width - from : @CHUNK@;
            memset(sum, 0, sizeof sum);
            for (int64_t kz = deep.first; kz < deep.last; kz++)
                for (int64_t ky = down.first; ky < down.last; ky++)
                    for (int64_t kx = 0; kx < g->kernel[2]; kx++) {
                        int64_t low, high;
                        const @STORAGE@ *row = plane + ((deep.start + kz) * g->in[1] + down.start
                            + ky) * g->in[2]
                            + from * stride - g->padding[2] + kx;
                        pool_range(g, kx, from, from + count, &low, &high);
                        if (stride == 1) {
                            _Pragma("omp simd") for (int64_t i = low - from; i < high - from; i++)
                                sum[i] += load_@s@(row[i]);
                        } else if (stride == 2) {
                            _Pragma("omp simd") for (int64_t i = low - from; i < high - from; i++)
                                sum[i] += load_@s@(row[2 * i]);
                        } else {
                            for (int64_t i = low - from; i < high - from; i++) sum[i]
                                += load_@s@(row[stride * i]);
                        }
                    }
            @STORAGE@ *out = (@STORAGE@ *)p[0] + item * width + from;
            for (int64_t i = 0; i < count; i++) {
                int64_t divisor = g->divisor ? g->divisor : rows * pool_count(g, 2, from + i);
                out[i] = store_@s@(sum[i] / (@COMPUTE@)divisor);
            }
        }
    }
}

ALWAYS_INLINE void average_at_@s@(const pool_shape *g, const @STORAGE@ *volume, pool_window deep,
    pool_window down,
    pool_window across, @COMPUTE@ divisor, @STORAGE@ *out)
{
    for (int64_t from = 0; from < g->channels; from += @CHUNK@) {
        @COMPUTE@ sum[@CHUNK@];
        int64_t count = g->channels - from < @CHUNK@ ? g->channels - from : @CHUNK@;
        memset(sum, 0, sizeof sum);
        for (int64_t kz = deep.first; kz < deep.last; kz++)
            for (int64_t ky = down.first; ky < down.last; ky++)
                for (int64_t kx = across.first; kx < across.last; kx++) {
                    const @STORAGE@ *row = volume + (((deep.start + kz) * g->in[1] + down.start
                        + ky) * g->in[2]
                        + across.start + kx) * g->channels + from;
                    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) sum[i]
                        += load_@s@(row[i]);
                }
        for (int64_t i = 0; i < count; i++) out[from + i] = store_@s@(sum[i] / divisor);
    }
}

static void avg_pool_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2] * g->channels;
    for (int64_t item = begin; item < end; item++) {
        int64_t y = item % g->out[1], z = item / g->out[1] % g->out[0];
        const @STORAGE@ *input = (const @STORAGE@ *)p[1] + item / (g->out[1] * g->out[0]) * volume;
        for (int64_t x = 0; x < g->out[2]; x++) {
            int64_t divisor = g->divisor ? g->divisor : pool_count(g, 0, z) * pool_count(g, 1, y)
                * pool_count(g, 2, x);
            average_at_@s@(g, input, pool_fixed(g, 0, z), pool_fixed(g, 1, y),
                pool_fixed(g, 2, x), (@COMPUTE@)divisor,
                (@STORAGE@ *)p[0] + (item * g->out[2] + x) * g->channels);
        }
    }
}

"""

#: means over parts of any size; `average_at` is the block's above
_ADAPTIVE_AVERAGE = """
static void adaptive_avg_pool_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2] * g->channels;
    for (int64_t item = begin; item < end; item++) {
        const @STORAGE@ *input = (const @STORAGE@ *)p[1] + item / (g->out[1] * g->out[0]) * volume;
        pool_window deep = pool_adaptive(g, 0, item / g->out[1] % g->out[0]), down
            = pool_adaptive(g, 1, item % g->out[1]);
        for (int64_t x = 0; x < g->out[2]; x++) {
            pool_window across = pool_adaptive(g, 2, x);
            average_at_@s@(g, input, deep, down, across,
                (@COMPUTE@)(deep.last * down.last * across.last),
                (@STORAGE@ *)p[0] + (item * g->out[2] + x) * g->channels);
        }
    }
}

static void adaptive_avg_pool_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2];
    if (g->out[0] * g->out[1] * g->out[2] == 1) { /* one mean a plane */
        for (int64_t item = begin; item < end; item++) {
            const @STORAGE@ *plane = (const @STORAGE@ *)p[1] + item * volume;
            @COMPUTE@ sum = 0;
            _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < volume; i++) sum
                += load_@s@(plane[i]);
            ((@STORAGE@ *)p[0])[item] = store_@s@(sum / (@COMPUTE@)volume);
        }
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        const @STORAGE@ *plane = (const @STORAGE@ *)p[1] + item / (g->out[1] * g->out[0]) * volume;
        pool_window deep = pool_adaptive(g, 0, item / g->out[1] % g->out[0]), down
            = pool_adaptive(g, 1, item % g->out[1]);
        for (int64_t x = 0; x < g->out[2]; x++) {
            pool_window across = pool_adaptive(g, 2, x);
            int64_t rows = down.last, length = across.last;
            if (length == g->in[2]) length *= rows, rows = 1; /* whole rows are one run */
            @COMPUTE@ sum = 0;
            for (int64_t kz = 0; kz < deep.last; kz++)
                for (int64_t ky = 0; ky < rows; ky++) {
                    const @STORAGE@ *row = plane + ((deep.start + kz) * g->in[1] + down.start
                        + ky) * g->in[2] + across.start;
                    @COMPUTE@ run = 0;
                    _Pragma("omp simd reduction(+ : run)") for (int64_t i = 0; i < length; i++)
                        run += load_@s@(row[i]);
                    sum += run;
                }
            ((@STORAGE@ *)p[0])[item * g->out[2] + x]
                = store_@s@(sum / (@COMPUTE@)(deep.last * down.last * across.last));
        }
    }
}
"""

_AVERAGE_GRAD = """
/* adds one output's share to its window, for a run of channels (planes: one) */
ALWAYS_INLINE void spread_@s@(const pool_shape *g, @STORAGE@ *volume, pool_window deep,
    pool_window down,
    pool_window across, int64_t from, int64_t count, const @STORAGE@ *grad, @STORAGE@ divisor)
{
    for (int64_t kz = deep.first; kz < deep.last; kz++)
        for (int64_t ky = down.first; ky < down.last; ky++)
            for (int64_t kx = across.first; kx < across.last; kx++) {
                @STORAGE@ *row = volume + (((deep.start + kz) * g->in[1] + down.start + ky)
                    * g->in[2] + across.start + kx)
                    * g->channels + from;
                _Pragma("omp simd") for (int64_t i = 0; i < count; i++) row[i] += grad[i] / divisor;
            }
}

static void avg_pool_grad_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2], blocks = (g->channels + @CHANNELS@ - 1)
        / @CHANNELS@;
    int64_t outputs = g->out[0] * g->out[1] * g->out[2];
    for (int64_t item = begin; item < end; item++) {
        @STORAGE@ *grad_input = (@STORAGE@ *)p[0] + item / blocks * volume * g->channels;
        const @STORAGE@ *grad = (const @STORAGE@ *)p[1] + item / blocks * outputs * g->channels;
        int64_t from = item % blocks * @CHANNELS@;
        int64_t count = g->channels - from < @CHANNELS@ ? g->channels - from : @CHANNELS@;
        for (int64_t i = 0; i < volume; i++)
            memset(grad_input + i * g->channels + from, 0, (size_t)count * sizeof(@STORAGE@));
        for (int64_t at = 0; at < outputs; at++) {
            int64_t x = at % g->out[2], y = at / g->out[2] % g->out[1], z
                = at / (g->out[2] * g->out[1]);
            int64_t divisor = g->divisor ? g->divisor : pool_count(g, 0, z) * pool_count(g, 1, y)
                * pool_count(g, 2, x);
            spread_@s@(g, grad_input, pool_fixed(g, 0, z), pool_fixed(g, 1, y),
                pool_fixed(g, 2, x), from, count,
                grad + at * g->channels + from, (@STORAGE@)divisor);
        }
    }
}

static void adaptive_avg_pool_grad_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2], blocks = (g->channels + @CHANNELS@ - 1)
        / @CHANNELS@;
    int64_t outputs = g->out[0] * g->out[1] * g->out[2];
    for (int64_t item = begin; item < end; item++) {
        @STORAGE@ *grad_input = (@STORAGE@ *)p[0] + item / blocks * volume * g->channels;
        const @STORAGE@ *grad = (const @STORAGE@ *)p[1] + item / blocks * outputs * g->channels;
        int64_t from = item % blocks * @CHANNELS@;
        int64_t count = g->channels - from < @CHANNELS@ ? g->channels - from : @CHANNELS@;
        for (int64_t i = 0; i < volume; i++)
            memset(grad_input + i * g->channels + from, 0, (size_t)count * sizeof(@STORAGE@));
        for (int64_t at = 0; at < outputs; at++) {
            pool_window across = pool_adaptive(g, 2, at % g->out[2]), down
                = pool_adaptive(g, 1, at / g->out[2] % g->out[1]);
            pool_window deep = pool_adaptive(g, 0, at / (g->out[2] * g->out[1]));
            spread_@s@(g, grad_input, deep, down, across, from, count, grad + at * g->channels
                + from,
                (@STORAGE@)(deep.last * down.last * across.last));
        }
    }
}

static void avg_pool_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2], width = g->out[2], stride = g->stride[2];
    for (int64_t item = begin; item < end; item++) {
        @STORAGE@ *plane = (@STORAGE@ *)p[0] + item * volume;
        memset(plane, 0, (size_t)volume * sizeof(@STORAGE@));
        for (int64_t line = 0; line < g->out[0] * g->out[1]; line++) {
            int64_t y = line % g->out[1], z = line / g->out[1], rows = pool_count(g, 0, z)
                * pool_count(g, 1, y);
            const @STORAGE@ *grad = (const @STORAGE@ *)p[1]
                + (item * g->out[0] * g->out[1] + line) * width;
            pool_window deep = pool_fixed(g, 0, z), down = pool_fixed(g, 1, y);
            for (int64_t from = 0; from < width; from += @CHUNK@) {
                @STORAGE@ share[@CHUNK@];
                int64_t count = width - from < @CHUNK@ ? width - from : @CHUNK@;
                for (int64_t i = 0; i < count; i++)
                    share[i] = grad[from + i] / (@STORAGE@)(g->divisor ? g->divisor : rows
                        * pool_count(g, 2, from + i));
                for (int64_t kz = deep.first; kz < deep.last; kz++)
                    for (int64_t ky = down.first; ky < down.last; ky++)
                        for (int64_t kx = 0; kx < g->kernel[2]; kx++) {
                            int64_t low, high;
                            @STORAGE@ *row = plane + ((deep.start + kz) * g->in[1] + down.start
                                + ky) * g->in[2]
                                + from * stride - g->padding[2] + kx;
                            pool_range(g, kx, from, from + count, &low, &high);
                            _Pragma("omp simd") for (int64_t i = low - from; i < high - from; i++)
                                row[i * stride] += share[i];
                        }
            }
        }
    }
}

static void adaptive_avg_pool_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = pool_sizes(n);
    int64_t volume = g->in[0] * g->in[1] * g->in[2], outputs = g->out[0] * g->out[1] * g->out[2];
    for (int64_t item = begin; item < end; item++) {
        @STORAGE@ *plane = (@STORAGE@ *)p[0] + item * volume;
        memset(plane, 0, (size_t)volume * sizeof(@STORAGE@));
        for (int64_t at = 0; at < outputs; at++) {
            pool_window across = pool_adaptive(g, 2, at % g->out[2]), down
                = pool_adaptive(g, 1, at / g->out[2] % g->out[1]);
            pool_window deep = pool_adaptive(g, 0, at / (g->out[2] * g->out[1]));
            @STORAGE@ share = ((const @STORAGE@ *)p[1])[item * outputs
                + at] / (@STORAGE@)(deep.last * down.last * across.last);
            for (int64_t kz = 0; kz < deep.last; kz++)
                for (int64_t ky = 0; ky < down.last; ky++) {
                    @STORAGE@ *row = plane + ((deep.start + kz) * g->in[1] + down.start + ky)
                        * g->in[2] + across.start;
                    _Pragma("omp simd") for (int64_t i = 0; i < across.last; i++) row[i] += share;
                }
        }
    }
}
"""

_PLANES = """
static void plane_scatter_add_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    int64_t count = n[2], size = n[3];
    for (int64_t plane = begin; plane < end; plane++) {
        @STORAGE@ *out = (@STORAGE@ *)p[0] + plane * size;
        const @STORAGE@ *source = (const @STORAGE@ *)p[1] + plane * count;
        memset(out, 0, (size_t)size * sizeof(@STORAGE@));
        for (int64_t i = 0; i < count; i++) {
            int64_t to = pool_get(p[2], n[4], plane * count + i);
            if ((uint64_t)to < (uint64_t)size) out[to] += source[i];
        }
    }
}

static void plane_scatter_add_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    int64_t channels = n[1], count = n[2], size = n[3], blocks = (channels + @CHANNELS@ - 1)
        / @CHANNELS@;
    for (int64_t item = begin; item < end; item++) {
        @STORAGE@ *out = (@STORAGE@ *)p[0] + item / blocks * size * channels;
        int64_t from = item % blocks * @CHANNELS@, to = from + @CHANNELS@ < channels ? from
            + @CHANNELS@ : channels;
        for (int64_t i = 0; i < size; i++)
            memset(out + i * channels + from, 0, (size_t)(to - from) * sizeof(@STORAGE@));
        for (int64_t i = 0; i < count; i++) {
            int64_t row = (item / blocks * count + i) * channels;
            for (int64_t c = from; c < to; c++) {
                int64_t place = pool_get(p[2], n[4], row + c);
                if ((uint64_t)place < (uint64_t)size)
                    out[place * channels + c] += ((const @STORAGE@ *)p[1])[row + c];
            }
        }
    }
}

static void plane_gather_last_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    int64_t channels = n[1], count = n[2], size = n[3], blocks = (channels + @CHANNELS@ - 1)
        / @CHANNELS@;
    for (int64_t item = begin; item < end; item++) {
        const @STORAGE@ *source = (const @STORAGE@ *)p[1] + item / blocks * size * channels;
        int64_t from = item % blocks * @CHANNELS@, to = from + @CHANNELS@ < channels ? from
            + @CHANNELS@ : channels;
        for (int64_t i = 0; i < count; i++) {
            int64_t row = (item / blocks * count + i) * channels;
            for (int64_t c = from; c < to; c++) {
                int64_t place = pool_get(p[2], n[4], row + c);
                ((@STORAGE@ *)p[0])[row + c] = (uint64_t)place < (uint64_t)size
                    ? source[place * channels + c] : (@STORAGE@)0;
            }
        }
    }
}

static void plane_scatter_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    int64_t count = n[2], size = n[3];
    for (int64_t plane = begin; plane < end; plane++) {
        @STORAGE@ *out = (@STORAGE@ *)p[0] + plane * size;
        memset(out, 0, (size_t)size * sizeof(@STORAGE@));
        for (int64_t i = 0; i < count; i++) {
            int64_t to = pool_get(p[2], n[4], plane * count + i);
            if ((uint64_t)to < (uint64_t)size) out[to] = ((const @STORAGE@ *)p[1])[plane * count + i];
        }
    }
}

static void plane_gather_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    int64_t count = n[2], size = n[3];
    for (int64_t plane = begin; plane < end; plane++) {
        const @STORAGE@ *source = (const @STORAGE@ *)p[1] + plane * size;
        for (int64_t i = 0; i < count; i++) {
            int64_t from = pool_get(p[2], n[4], plane * count + i);
            ((@STORAGE@ *)p[0])[plane * count + i]
                = (uint64_t)from < (uint64_t)size ? source[from] : (@STORAGE@)0;
        }
    }
}
"""

_IN, _OUT = "n2*n3*n4", "n5*n6*n7"
#: items of the forward kernels are rows of the output, of which a plane (an image) has n5 * n6
_FORWARD = {
    "": (f"N/(n5*n6)*{_IN}", "N*n7"),
    ".last": (f"N/(n5*n6)*{_IN}*n1", "N*n7*n1"),
}
_PLANE = {"": "N", ".last": "n0*n1"}
#: what fixed windows are divided by, that each begins inside the image or its padding, and that
#: none is longer than both
_WINDOWS = ";c windows min(n8,min(n9,min(n10,min(n11,min(n12,min(n13,min(n17,min(n18,n19))))))))"
_WINDOWS += ";c padding 1+min(n14,min(n15,n16))" + "".join(
    f";c places n{2 + d}+n{14 + d}-(max(n{5 + d},1)-1)*n{11 + d};c taps n{2 + d}+2*n{14 + d}+1-n{8 + d}"
    for d in range(3)
)
#: an average takes one element at least
_FILLED = "".join(f";c padding n{8 + d}-n{14 + d}" for d in range(3))


def _operands(kernel: str) -> str:
    """What a kernel says of its operands."""
    stem, last = (kernel[:-5], ".last") if kernel.endswith(".last") else (kernel, "")
    (given, made), planes = _FORWARD[last], _PLANE[last]
    windows = "" if stem.startswith("adaptive") else _WINDOWS
    windows += _FILLED if stem.startswith("avg") else ""
    if stem in ("max_pool", "adaptive_max_pool"):
        return f"22;0; w out @ {made}; w indices bytes {made}*n20; r input @ {given}{windows}"
    if stem in ("avg_pool", "adaptive_avg_pool"):
        return f"22;0; w out @ {made}; r input @ {given}{windows}"
    if stem.endswith(".grad"):
        return f"22;0; w grad_input @ {planes}*{_IN}; r grad_out @ {planes}*{_OUT}{windows}"
    out, source = ("n2", "n3") if stem == "plane_gather" else ("n3", "n2")
    return (
        f"5;0; w out @ {planes}*{out}; r source @ {planes}*{source};r indices bytes {planes}*n2*n4"
    )


_BLOCKS = (
    (_MAXIMUM, MAXIMUM, ("max_pool", "max_pool.last", "adaptive_max_pool")),
    (
        _AVERAGE,
        (*FLOATS, "i64"),
        ("avg_pool", "avg_pool.last"),
    ),
    (_ADAPTIVE_AVERAGE, FLOATS, ("adaptive_avg_pool", "adaptive_avg_pool.last")),
    (
        _AVERAGE_GRAD,
        ("f32", "f64"),
        (
            "avg_pool.grad",
            "avg_pool.grad.last",
            "adaptive_avg_pool.grad",
            "adaptive_avg_pool.grad.last",
        ),
    ),
    (
        _PLANES,
        ("f32", "f64"),
        (
            "plane_scatter_add",
            "plane_scatter_add.last",
            "plane_scatter",
            "plane_gather",
            "plane_gather.last",
        ),
    ),
)


def unit(isa: Isa) -> str:
    """The translation unit of the pooling kernels for one instruction set."""
    text = [PROLOGUE, _GEOMETRY, conversions(*MAXIMUM)]
    entries: list[Entry] = []
    for block, dtypes, kernels in _BLOCKS:
        for dtype in dtypes:
            storage = STORAGES[dtype]
            names = {
                "s": dtype,
                "STORAGE": storage.ctype,
                "COMPUTE": storage.compute,
                "INTEGER": "int64_t" if dtype in ("f64", "i64") else "int32_t",
                "LOWEST": "INT64_MIN" if dtype == "i64" else f"({storage.compute})-INFINITY",
                "CHUNK": CHUNK,
                "CHANNELS": CHANNELS,
                "MAXIMA": MAXIMA,
                "LINES": LINES,
                "UNORDERED": "" if dtype == "i64" else " | (value != value)",
            }
            text.append(fill(block, **names))
            for kernel in kernels:
                said = declared(_operands(kernel), dtype)
                function = f"{kernel.replace('.', '_')}_{dtype}"
                entries.append((f"{kernel}:{dtype}", "b", function, said))
    return "".join(text) + table(entries)
