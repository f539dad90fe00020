"""Layers of bytes: C text of linear layers and convolutions u8 x s8 -> s32 that end in integers or numbers.

Takes the kind of 8-bit products; gives `quantized_product:<u8|i8|f32>` (rows of an image with channels last, times
panels), `quantized_pack` (the panels), and `panel_bytes` (their bytes). Keeps true: sums are exact in 32 bits on
every instruction set, so results are the same integers on all of them; a row of sums becomes results while it is in a
cache; no byte outside of the image is read; results do not depend on the number of threads.

`quantized_product_sum:<u8|i8>` adds other integers to these before they are stored.

`quantized_product`: p = results [rows, groups * N], image, panels, base (i32: what zero points add to sums),
    multiplier, shift (f32), zeros (i32, of weights, or null: all are 0); with a sum: what is added
n = 0-2 image, 3 channels, 4-6 result, 7-9 kernel, 10-12 stride, 13-15 padding, 16-18 dilation, 19 groups,
    20 results of a group (N), 21 what lies outside of the image, 22 images
s = integers: zero point, lowest, highest; numbers: lowest; with a sum, behind those of the product: its scale, scale
    and zero point of what is added, scale, zero point, lowest and highest of the sum, what it is at least as a number,
    and whether the product is rounded before (if not, its limits are infinite)
Integers are round((sum + shift) * multiplier) + zero point, numbers sum * multiplier + shift.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill, kinds

__all__ = ["panel_bytes", "quantized_entries", "quantized_text"]

TYPES = r"""
#define PAD_WORDS 16 /* words of k to whose multiple panels are filled up with zeros */
#define A_BYTES (384L << 10) /* rows of A that are gathered at a time */
#define MOST_ROWS 192
#define IN_PLACE_BYTES 1024 /* longer rows are gathered: neighbours would fall into the same sets */
typedef $ELEMENT element; /* what a byte is in a word */

typedef struct quantized {
    const uint8_t *x;
    const word *panels;
    char *out;
    const int32_t *base, *zeros;
    const float *multiplier, *shift;
    const int64_t *n;
    float zero, low, high;
    const char *added; /* and how it and the sum stand for numbers */
    float scale, added_scale, added_zero, inverse, sum_zero, sum_low, sum_high, least;
    int rounds; /* whether the product becomes integers before the sum */
    long size; /* bytes of a result */
    void (*finish)(const struct quantized *, const int32_t *, const int32_t *, long, long, long, long);
    long rows, inner, results, groups, channels; /* of a group: inner, results, channels */
    long words, padded, pitch; /* words of k, filled up, and between gathered rows */
    long panels_each, block_rows, row_units, column_units;
    int in_place;
} quantized;

INLINE long padded_words(long inner) { return CEIL(CEIL(inner, GROUP), PAD_WORDS) * PAD_WORDS; }
"""

GATHER = r"""
/* bytes as elements of words; a body that neither reads nor writes behind its ends */
INLINE element *take(element *to, const uint8_t *from, long count)
{
#if GROUP == 4 && VECTOR == 16
    long i = 0;
    for (; i + 64 <= count; i += 64)
        _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    if (count - i >= 32) {
        const __m256i last = _mm256_loadu_si256((const __m256i *)(from + count - 32));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_loadu_si256((const __m256i *)(from + i)));
        _mm256_storeu_si256((__m256i *)(to + count - 32), last);
    } else if (count - i >= 16) {
        const __m128i last = _mm_loadu_si128((const __m128i *)(from + count - 16));
        _mm_storeu_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
        _mm_storeu_si128((__m128i *)(to + count - 16), last);
    } else if (i < count) {
        const __mmask16 rest = (1U << (count - i)) - 1;
        _mm_mask_storeu_epi8(to + i, rest, _mm_maskz_loadu_epi8(rest, from + i));
    }
#else
    for (long i = 0; i < count; i++) to[i] = from[i];
#endif
    return to + count;
}

INLINE element *outside(element *to, long value, long count)
{
    for (long i = 0; i < count; i++) to[i] = (element)value;
    return to + count;
}

/* one row of the kernel at one place of the result: kernel width x channels of a group */
INLINE element *take_line(const quantized *g, element *to, const uint8_t *line, long ix, long group)
{
    const int64_t *n = g->n;
    const long c = g->channels;
    if (n[18] == 1 && g->groups == 1) {
        const long left = MIN(MAX(-ix, 0), n[9]), right = MIN(MAX(ix + n[9] - n[2], 0), n[9]);
        if (left) to = outside(to, n[21], left * c);
        if (left + right < n[9]) to = take(to, line + (ix + left) * c, (n[9] - left - right) * c);
        return right && left < n[9] ? outside(to, n[21], MIN(right, n[9] - left) * c) : to;
    }
    for (long k = 0; k < n[9]; k++, ix += n[18])
        to = ix < 0 || ix >= n[2] ? outside(to, n[21], c) : take(to, line + ix * n[3] + group * c, c);
    return to;
}

/* the window of one place of the result */
INLINE void take_window(const quantized *g, element *to, const uint8_t *image, long iz, long iy, long ix,
                        long group)
{
    const int64_t *n = g->n;
    for (long a = 0; a < n[7]; a++)
        for (long b = 0; b < n[8]; b++) {
            const long z = iz + a * n[16], y = iy + b * n[17];
            if (z < 0 || z >= n[0] || y < 0 || y >= n[1])
                to = outside(to, n[21], n[9] * g->channels);
            else
                to = take_line(g, to, image + (z * n[1] + y) * n[2] * n[3], ix, group);
        }
}

/* windows [first, first + count) of a group, `pitch` words apart; behind each row 64 bytes are 0 */
NOINLINE void gather(const quantized *g, long group, long first, long count, word *buffer)
{
    const int64_t *n = g->n;
    const long row = n[2] * n[3], line = n[9] * n[3], image_bytes = n[0] * n[1] * row;
    const long deep = n[7], down = n[8], pitch = g->pitch, inner = g->inner;
    const long down_step = n[17] * row, deep_step = n[16] * n[1] * row;
    const long last_z = n[0] - (deep - 1) * n[16], last_y = n[1] - (down - 1) * n[17], last_x = n[2] - n[9] + 1;
    const int whole = n[18] == 1 && g->groups == 1;
    long x = first % n[6], y = first / n[6] % n[5], z = first / (n[6] * n[5]) % n[4];
    const uint8_t *image = g->x + first / (n[6] * n[5] * n[4]) * image_bytes;
    const uint8_t *const end = g->x + n[22] * image_bytes;
    (void)end;
    for (long r = 0; r < count; r++) {
        element *to = (element *)(buffer + r * pitch);
        const long iz = z * n[10] - n[13], iy = y * n[11] - n[14], ix = x * n[12] - n[15];
        if (whole && ix >= 0 && ix < last_x && iy >= 0 && iy < last_y && iz >= 0 && iz < last_z) {
            const uint8_t *from = image + (iz * n[1] + iy) * row + ix * n[3];
            element *at = to;
#if GROUP == 4 && VECTOR == 16
            /* speed only: short lines as 32 bytes, the next of which lie over the last */
            if (line <= 32 && deep == 1 && from + (down - 1) * down_step + 32 <= end) {
                for (long b = 0; b < down; b++, at += line) {
                    const __m256i taken = _mm256_loadu_si256((const __m256i *)(from + b * down_step));
                    _mm256_storeu_si256((__m256i *)at, taken);
                }
            } else
#endif
            for (long a = 0; a < deep; a++)
                for (long b = 0; b < down; b++) at = take(at, from + a * deep_step + b * down_step, line);
        } else
            take_window(g, to, image, iz, iy, ix, group);
        memset(to + inner, 0, PAD_WORDS * sizeof(word));
        if (++x < n[6]) continue;
        x = 0;
        if (++y < n[5]) continue;
        y = 0;
        if (++z == n[4]) z = 0, image += image_bytes;
    }
}

/* the sum of each gathered row, which weights with zero points need */
NOINLINE void add_rows(const quantized *g, const word *buffer, long count, int32_t *totals)
{
    for (long r = 0; r < count; r++) {
        const element *from = (const element *)(buffer + r * g->pitch);
        int32_t total = 0;
        for (long k = 0; k < g->inner; k++) total += from[k];
        totals[r] = total;
    }
}
"""

FINISH = r"""
/* rows of sums, NR apart, as results: columns [first, first + width) */
NOINLINE void finish_$S(const quantized *g, const int32_t *sums, const int32_t *totals, long row,
                        long count, long first, long width)
{
    const float *multiplier = g->multiplier + first, *shift = g->shift + first;
    const int32_t *base = g->base + first;
    const float zero = g->zero, low = g->low, high = g->high;
    const long stride = g->groups * g->results;
    (void)zero, (void)high;
    $WHOLE
    int32_t full[NR];
    for (long r = 0; r < count; r++, sums += NR) {
        $T *restrict to = ($T *)g->out + (row + r) * stride + first;
        const int32_t *from = sums;
        if (totals) {
            for (long j = 0; j < width; j++) full[j] = sums[j] - totals[r] * g->zeros[first + j];
            from = full;
        }
        _Pragma("GCC ivdep") for (long j = 0; j < width; j++) {
            const float sum = (float)(from[j] + base[j]);
            $BODY
        }
    }
}
"""

#: 16 columns of all rows at a time, up to the products above their lowest: `some` columns, row `r`, numbers `v`
WIDE_COLUMNS = r"""    for (long j = 0; j < width; j += 16) {
        const __mmask16 some = width - j >= 16 ? 0xffff : (1U << (width - j)) - 1;
        const __m512i base = _mm512_maskz_loadu_epi32(some, g->base + first + j);
        const __m512 shift = _mm512_maskz_loadu_ps(some, g->shift + first + j);
        const __m512 multiplier = _mm512_maskz_loadu_ps(some, g->multiplier + first + j);
        const __m512i zeros = totals ? _mm512_maskz_loadu_epi32(some, g->zeros + first + j) : base;
        for (long r = 0; r < count; r++) {
            __m512i sum = _mm512_loadu_si512(sums + r * NR + j);
            if (totals)
                sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(zeros, _mm512_set1_epi32(totals[r])));
            __m512 v = _mm512_add_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sum, base)), shift);
            v = _mm512_max_ps(_mm512_mul_ps(v, multiplier), low); /* NaN becomes the lowest */
"""

#: what the panel of 64 columns has for all rows: `base`, `shift`, `multiplier`, and `sums_of`, the products of a row
WHOLE_PANEL = r"""
/* four vectors of integers as bytes in order: what does not fit saturates, below `low` is `low` */
INLINE __m512i narrowed_$S(const __m512i *q, __m512i zero, __m512i low)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
    const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero);
    return $MAX(_mm512_permutexvar_epi32(order, $PACK(a, b)), low);
}
"""
WHOLE_COLUMNS = r"""
    __m512i base[4];
    __m512 shift[4], multiplier[4];
    UNROLL for (int j = 0; j < 4; j++) {
        base[j] = _mm512_loadu_si512(g->base + first + 16 * j);
        shift[j] = _mm512_loadu_ps(g->shift + first + 16 * j);
        multiplier[j] = _mm512_loadu_ps(g->multiplier + first + 16 * j);
    }
    for (long r = 0; r < count; r++) {
        UNROLL for (int j = 0; j < 4; j++) {
            const __m512i sum = _mm512_loadu_si512(sums + r * NR + 16 * j);
            __m512 v = _mm512_cvtepi32_ps(_mm512_add_epi32(sum, base[j]));
"""
WHOLE_INTEGERS = (
    """    __m512i q[4];"""
    + WHOLE_COLUMNS
    + r"""            v = _mm512_mul_ps(_mm512_add_ps(v, shift[j]), multiplier[j]);
"""
)

#: the same of integers, 16 columns of all rows at a time: limits are integers, so that numbers are limited before they
#: are rounded, and the zero point is added behind; a whole panel is narrowed 64 at a time
FINISH_WIDE = (
    WHOLE_PANEL
    + r"""
INLINE void finish_whole_$S(const quantized *g, const int32_t *sums, long count, long first, char *to, long stride)
{
    const __m512 high = _mm512_set1_ps(g->high - g->zero);
    const __m512i zero = _mm512_set1_epi16((int16_t)g->zero);
    const __m512i low = _mm512_set1_epi8((char)(int)MIN(g->low, g->high));
"""
    + WHOLE_INTEGERS
    + r"""            q[j] = _mm512_cvtps_epi32(_mm512_min_ps(high, v)); /* NaN stays, and becomes the lowest */
        }
        _mm512_storeu_si512(to + r * stride, narrowed_$S(q, zero, low));
    }
}

NOINLINE void finish_$S(const quantized *g, const int32_t *sums, const int32_t *totals, long row,
                        long count, long first, long width)
{
    const __m512 low = _mm512_set1_ps(g->low - g->zero), high = _mm512_set1_ps(g->high - g->zero);
    const __m512i zero = _mm512_set1_epi32((int32_t)g->zero);
    const long stride = g->groups * g->results;
    char *to = g->out + row * stride + first;
    if (width == NR && !totals) {
        finish_whole_$S(g, sums, count, first, to, stride);
        return;
    }
"""
    + WIDE_COLUMNS
    + r"""            const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(v, high)), zero);
            _mm512_mask_cvtepi32_storeu_epi8(to + r * stride + j, some, q);
        }
    }
}
"""
)
#: integers, and others added to the numbers that they stand for: as `quantized_add`, each number is rounded before the
#: sum is, so that the steps stand in loops of their own
FINISH_SUM = r"""
NOINLINE void finish_sum_$S(const quantized *g, const int32_t *sums, const int32_t *totals, long row,
                            long count, long first, long width)
{
    const float *multiplier = g->multiplier + first, *shift = g->shift + first;
    const int32_t *base = g->base + first;
    const float zero = g->zero, low = g->low, high = g->high, scale = g->scale, inverse = g->inverse;
    const float added_scale = g->added_scale, added_zero = g->added_zero, least = g->least;
    const long stride = g->groups * g->results;
    const int rounds = g->rounds;
    float x[NR], y[NR];
    for (long r = 0; r < count; r++, sums += NR) {
        $T *restrict to = ($T *)g->out + (row + r) * stride + first;
        const $T *with = (const $T *)g->added + (row + r) * stride + first;
        for (long j = 0; j < width; j++)
            x[j] = (float)(sums[j] + base[j] - (totals ? totals[r] * g->zeros[first + j] : 0));
        _Pragma("GCC ivdep") for (long j = 0; j < width; j++) {
            float v = (x[j] + shift[j]) * multiplier[j];
            if (rounds) v = nearbyintf(v);
            v += zero;
            v = v > low ? v : low;
            x[j] = ((v < high ? v : high) - zero) * scale;
        }
        _Pragma("GCC ivdep") for (long j = 0; j < width; j++) y[j] = ((float)with[j] - added_zero) * added_scale;
        _Pragma("GCC ivdep") for (long j = 0; j < width; j++) {
            const float sum = x[j] + y[j];
            x[j] = (sum < least ? least : sum) * inverse;
        }
        _Pragma("GCC ivdep") for (long j = 0; j < width; j++) {
            float v = nearbyintf(x[j] + g->sum_zero);
            v = v > g->sum_low ? v : g->sum_low;
            v = v < g->sum_high ? v : g->sum_high;
            to[j] = ($T)(int32_t)v;
        }
    }
}
"""

#: the same, 16 columns of all rows at a time; APART keeps a product from being joined with the next sum. `least` is a
#: limit of numbers before the last rounding, which keeps their order: the limit, rounded alike, serves behind it
FINISH_SUM_WIDE = (
    r"""
#define APART(v) __asm__("" : "+v"(v))
INLINE void finish_sum_whole_$S(const quantized *g, const int32_t *sums, long count, long first, char *to,
                                const char *with, long stride, const int rounds)
{
    const __m512 low = _mm512_set1_ps(g->low - g->zero), high = _mm512_set1_ps(g->high - g->zero);
    const __m512 scale = _mm512_set1_ps(g->scale), added_scale = _mm512_set1_ps(g->added_scale);
    const __m512 inverse = _mm512_set1_ps(g->inverse), sum_zero = _mm512_set1_ps(g->sum_zero);
    const __m512 sum_high = _mm512_set1_ps(g->sum_high);
    const __m512i added_zero = _mm512_set1_epi32((int32_t)g->added_zero), zero = _mm512_setzero_si512();
    float bound = g->least * g->inverse;
    APART(bound);
    bound = nearbyintf(bound + g->sum_zero);
    const __m512i least = _mm512_set1_epi8((char)(int)MIN(MAX(bound, g->sum_low), g->sum_high));
"""
    + WHOLE_INTEGERS
    + r"""            v = _mm512_min_ps(_mm512_max_ps(v, low), high);
            if (rounds) v = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            v = _mm512_mul_ps(v, scale);
            const __m512i other = $WIDEN(_mm_loadu_si128((const __m128i *)(with + r * stride + 16 * j)));
            __m512 w = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(other, added_zero)), added_scale);
            APART(v);
            APART(w);
            v = _mm512_mul_ps(_mm512_add_ps(v, w), inverse);
            APART(v);
            q[j] = _mm512_cvtps_epi32(_mm512_min_ps(sum_high, _mm512_add_ps(v, sum_zero)));
        }
        _mm512_storeu_si512(to + r * stride, narrowed_$S(q, zero, least));
    }
}

NOINLINE void finish_sum_$S(const quantized *g, const int32_t *sums, const int32_t *totals, long row,
                            long count, long first, long width)
{
    const __m512 low = _mm512_set1_ps(g->low - g->zero), high = _mm512_set1_ps(g->high - g->zero);
    const __m512 scale = _mm512_set1_ps(g->scale), added_scale = _mm512_set1_ps(g->added_scale);
    const __m512 least = _mm512_set1_ps(g->least), inverse = _mm512_set1_ps(g->inverse);
    const __m512 sum_zero = _mm512_set1_ps(g->sum_zero), sum_low = _mm512_set1_ps(g->sum_low);
    const __m512 sum_high = _mm512_set1_ps(g->sum_high);
    const __m512i added_zero = _mm512_set1_epi32((int32_t)g->added_zero);
    const long stride = g->groups * g->results;
    const int rounds = g->rounds;
    char *to = g->out + row * stride + first;
    const char *with = g->added + row * stride + first;
    if (width == NR && !totals) {
        if (rounds)
            finish_sum_whole_$S(g, sums, count, first, to, with, stride, 1);
        else
            finish_sum_whole_$S(g, sums, count, first, to, with, stride, 0);
        return;
    }
"""
    + WIDE_COLUMNS
    + r"""            v = _mm512_min_ps(v, high);
            if (rounds) v = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            v = _mm512_mul_ps(v, scale);
            const __m512i other = $WIDEN(_mm_maskz_loadu_epi8(some, with + r * stride + j));
            __m512 w = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(other, added_zero)), added_scale);
            APART(v);
            APART(w);
            v = _mm512_mul_ps(_mm512_max_ps(_mm512_add_ps(v, w), least), inverse);
            APART(v);
            v = _mm512_min_ps(_mm512_max_ps(_mm512_add_ps(v, sum_zero), sum_low), sum_high);
            _mm512_mask_cvtepi32_storeu_epi8(to + r * stride + j, some, _mm512_cvtps_epi32(v));
        }
    }
}
"""
)
#: numbers of a whole panel: NaN stays
FINISH_NUMBERS_WIDE = (
    r"""
INLINE void finish_whole_$S(const quantized *g, const int32_t *sums, long count, long first, float *to, long stride)
{
    const __m512 low = _mm512_set1_ps(g->low);
"""
    + WHOLE_COLUMNS
    + r"""            v = _mm512_fmadd_ps(v, multiplier[j], shift[j]);
            _mm512_storeu_ps(to + r * stride + 16 * j, _mm512_max_ps(low, v));
        }
    }
}
"""
)
IF_WHOLE = """if (width == NR && !totals) {
        finish_whole_$S(g, sums, count, first, (float *)g->out + row * stride + first, stride);
        return;
    }"""
INTEGERS = """float v = nearbyintf((sum + shift[j]) * multiplier[j]) + zero;
            v = v > low ? v : low;
            v = v < high ? v : high;
            to[j] = ($T)(int32_t)v;"""
NUMBERS = """const float v = sum * multiplier[j] + shift[j];
            to[j] = v < low ? low : v;"""

TILES = r"""
/* `count` rows of A, `pitch` words apart, times a panel: sums are NR apart */
NOINLINE void vector_sums(const quantized *g, const word *a, long pitch, long count, const word *b,
                         long width, int32_t *sums)
{
    const segment all = {0, 0, g->words};
    const long tiles = CEIL(count, MR), vecs = CEIL(width, VECTOR);
    for (long t = 0; t < tiles; t++) {
        const long begin = tile_first(count, tiles, t), rows = tile_first(count, tiles, t + 1) - begin;
        long a_row[MR], c_row[MR];
        for (long r = 0; r < rows; r++) a_row[r] = r * pitch, c_row[r] = r * NR;
        tiles_of[vecs][rows](a + begin * pitch, a_row, 1, &all, 1, b, NR, sums + begin * NR, c_row,
                             STORE, NULL, NULL);
    }
}
"""

# what a panel needs where there are no matrix registers
VECTORS_ONLY = """#define STEP_ROWS MR
#define PLACE_BYTES 4
#define BLOCK_STEP MR
#define END_TILES(shape) (void)0
#define panel_sums(g, a, pitch, count, b, width, sums, shape) \\
    vector_sums(g, a, pitch, count, b, width, sums)
"""

# matrix registers: 0-3 sums, 4 and 5 rows, 6 and 7 columns
MATRICES = r"""
#include <sys/syscall.h>
#include <unistd.h>
#define STEP_ROWS 32
#define PLACE_BYTES 64
#define BLOCK_STEP 32
#define FEW 6 /* rows that vectors do as fast */

/* The system lends a process the registers when it asks; where it does not, vectors do the work. */
static int may_use_matrices;
__attribute__((constructor)) static void ask_for_matrices(void)
{
    may_use_matrices = !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */);
}

/* tiles of `above` and `below` rows; shape is what they have, 0 for none */
INLINE void shape_matrices(long above, long below, long *shape)
{
    if (*shape == above * 32 + below) return;
    struct { uint8_t palette, start, none[14]; uint16_t bytes[16]; uint8_t rows[16]; } c = {1};
    for (int i = 0; i < 8; i++) c.bytes[i] = 64, c.rows[i] = 16;
    c.rows[0] = c.rows[1] = c.rows[4] = above, c.rows[2] = c.rows[3] = c.rows[5] = below;
    __asm__ volatile("" ::: "memory"); /* the compiler knows of the first bytes only */
    _tile_loadconfig(&c);
    *shape = above * 32 + below;
}
#define END_TILES(shape) do { if (shape) _tile_release(); } while (0)

/* up to 32 rows times 32 columns */
INLINE void two_by_two(const word *a, long pitch, long steps, const word *b, int32_t *sums)
{
    const long row = pitch * 4;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (long k = 0; k < steps; k++, a += 16, b += 16 * NR) {
        _tile_loadd(4, a, row);
        _tile_loadd(6, b, NR * 4);
        _tile_loadd(7, b + 16, NR * 4);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(5, a + 16 * pitch, row);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums, NR * 4);
    _tile_stored(1, sums + 16, NR * 4);
    _tile_stored(2, sums + 16 * NR, NR * 4);
    _tile_stored(3, sums + 16 * NR + 16, NR * 4);
}

/* up to 16 rows times 64 columns */
INLINE void one_by_four(const word *a, long pitch, long steps, const word *b, int32_t *sums)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (long k = 0; k < steps; k++, a += 16, b += 16 * NR) {
        _tile_loadd(4, a, pitch * 4);
        _tile_loadd(6, b, NR * 4);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, b + 16, NR * 4);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(6, b + 32, NR * 4);
        _tile_dpbusd(2, 4, 6);
        _tile_loadd(7, b + 48, NR * 4);
        _tile_dpbusd(3, 4, 7);
    }
    _tile_stored(0, sums, NR * 4);
    _tile_stored(1, sums + 16, NR * 4);
    _tile_stored(2, sums + 32, NR * 4);
    _tile_stored(3, sums + 48, NR * 4);
}

NOINLINE void panel_sums(const quantized *g, const word *a, long pitch, long count, const word *b,
                         long width, int32_t *sums, long *shape)
{
    const long steps = g->padded / 16;
    if (!may_use_matrices || count <= FEW) {
        vector_sums(g, a, pitch, count, b, width, sums);
    } else if (count > 16) {
        shape_matrices(16, count - 16, shape);
        two_by_two(a, pitch, steps, b, sums);
        if (width > 32) two_by_two(a, pitch, steps, b + 32, sums + 32);
    } else {
        shape_matrices(count, count, shape);
        one_by_four(a, pitch, steps, b, sums);
    }
}
"""

UNIT = r"""
static void quantized_unit(void *context, long unit, char *scratch)
{
    const quantized *g = context;
    const long column = unit % g->column_units, rest = unit / g->column_units;
    const long group = rest / g->row_units, first = rest % g->row_units * g->block_rows;
    const long count = MIN(g->block_rows, g->rows - first);
    word *buffer = carve(&scratch, g->in_place ? 0 : g->block_rows * g->pitch * sizeof(word));
    int32_t *sums = carve(&scratch, STEP_ROWS * NR * sizeof(int32_t));
    int32_t *totals = g->zeros ? carve(&scratch, g->block_rows * sizeof(int32_t)) : NULL;
    const long pitch = g->in_place ? g->n[12] * g->inner / GROUP : g->pitch;
    const word *a = g->in_place ? (const word *)g->x + first * pitch : buffer;
    if (!g->in_place) gather(g, group, first, count, buffer);
    if (totals) add_rows(g, buffer, count, totals);
    long shape = 0;
    const long last = tile_first(g->panels_each, g->column_units, column + 1);
    const long begin = tile_first(g->panels_each, g->column_units, column);
    for (long p = begin; p < last; p++) {
        const word *b = g->panels + (group * g->panels_each + p) * g->padded * NR;
        const long width = MIN(NR, g->results - p * NR);
        for (long r = 0; r < count; r += STEP_ROWS) {
            const long rows = MIN(STEP_ROWS, count - r);
            /* speed only: short rows far apart, which the next tile reads for the first time */
            if (g->in_place && p == begin)
                for (long i = r + STEP_ROWS; i < MIN(r + 2 * STEP_ROWS, count); i++)
                    for (long at = 0; at < g->words; at += 16) __builtin_prefetch(a + i * pitch + at);
            /* speed only: lines far apart, wanted when the sums are there */
            for (long i = 0; i < rows; i++) {
                const long place = ((first + r + i) * g->groups + group) * g->results + p * NR;
                if (g->added) __builtin_prefetch(g->added + place);
                for (long at = 0; at < width * g->size; at += 64) __builtin_prefetch(g->out + place * g->size + at, 1);
            }
            panel_sums(g, a + r * pitch, pitch, rows, b, width, sums, &shape);
            g->finish(g, sums, totals ? totals + r : NULL, first + r, rows, group * g->results + p * NR,
                      width);
        }
    }
    END_TILES(shape);
}

/* rows of A where they lie: one place after the other, or every stride-th of a line of one */
INLINE int lies_in_rows(const quantized *g)
{
    const int64_t *n = g->n;
    const int plain = n[7] * n[8] * n[9] == 1 && n[10] == 1 && n[11] == 1 && n[12] == 1 && g->groups == 1
                      && !(n[13] | n[14] | n[15]);
    return GROUP == 4 && plain && !g->zeros && g->inner % PLACE_BYTES == 0 && g->inner <= IN_PLACE_BYTES;
}

NOINLINE void plan_quantized(quantized *g, long threads)
{
    g->in_place = lies_in_rows(g);
    g->words = CEIL(g->inner, GROUP), g->padded = padded_words(g->inner);
    g->pitch = g->padded + PAD_WORDS; /* speed only: rows of 4096 bytes would share sets */
    g->panels_each = CEIL(g->results, NR);
    long rows = A_BYTES / (g->pitch * (long)sizeof(word)) / BLOCK_STEP * BLOCK_STEP;
    rows = MIN(MAX(rows, BLOCK_STEP), MOST_ROWS);
    const long even = CEIL(CEIL(g->rows, threads), BLOCK_STEP) * BLOCK_STEP;
    g->block_rows = MIN(rows, MAX(even, BLOCK_STEP));
    g->row_units = CEIL(g->rows, g->block_rows);
    const long units = g->row_units * g->groups;
    g->column_units = units >= 2 * threads ? 1 : MIN(g->panels_each, CEIL(2 * threads, units));
    if (threads == 1) g->column_units = 1;
}

static int run_quantized(quantized *g, char *const *p, const int64_t *n, const fk_runtime *rt)
{
    g->out = p[0], g->x = (const uint8_t *)p[1], g->panels = (const word *)p[2];
    g->base = (const int32_t *)p[3], g->multiplier = (const float *)p[4];
    g->shift = (const float *)p[5], g->zeros = (const int32_t *)p[6], g->n = n;
    g->rows = n[22] * n[4] * n[5] * n[6], g->groups = n[19], g->channels = n[3] / n[19];
    g->inner = n[7] * n[8] * n[9] * g->channels, g->results = n[20];
    if (!g->rows || !g->results) return 0;
    int32_t some = 0; /* zero points that are all 0 need no sums of rows */
    for (long i = 0; g->zeros && i < g->groups * g->results; i++) some |= g->zeros[i];
    if (!some) g->zeros = NULL;
    const int small = (double)g->rows * g->results * g->inner < 400000; /* speed only */
    plan_quantized(g, small ? 1 : rt->threads());
    const long bytes = (g->in_place ? 0 : PIECE(g->block_rows * g->pitch * sizeof(word)))
                       + PIECE(STEP_ROWS * NR * sizeof(int32_t)) + PIECE(g->block_rows * sizeof(int32_t));
    return launch(quantized_unit, g, g->row_units * g->groups * g->column_units, bytes, !small, rt);
}
"""

DRIVER = r"""
static int quantized_product_$S(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    quantized g = {.finish = finish_$S, .size = sizeof($T), $LIMITS};
    return run_quantized(&g, p, n, rt);
}
"""

DRIVER_SUM = r"""
static int quantized_product_sum_$S(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    quantized g = {.finish = finish_sum_$S, .size = sizeof($T), $LIMITS};
    g.added = p[7], g.scale = (float)s[3].f, g.added_scale = (float)s[4].f, g.added_zero = (float)s[5].f;
    g.inverse = 1.0f / (float)s[6].f, g.sum_zero = (float)s[7].f, g.sum_low = (float)s[8].f;
    g.sum_high = (float)s[9].f, g.least = (float)s[10].f, g.rounds = s[11].f != 0;
    return run_quantized(&g, p, n, rt);
}
"""

PACK = r"""
typedef struct { const int8_t *rows; word *panels; long results, inner; } quantized_panels_job;

/* one panel: [words of k][NR], what is beside the weight is 0 */
static void quantized_panel(void *context, long unit, char *scratch)
{
    const quantized_panels_job *j = context;
    const long each = CEIL(j->results, NR), words = padded_words(j->inner);
    const long group = unit / each, first = unit % each * NR, width = MIN(NR, j->results - first);
    $WEIGHT *to = ($WEIGHT *)(j->panels + unit * words * NR);
    memset(to, 0, words * NR * sizeof(word));
    for (long c = 0; c < width; c++) {
        const int8_t *row = j->rows + (group * j->results + first + c) * j->inner;
        for (long k = 0; k < j->inner; k++) to[(k / GROUP * NR + c) * GROUP + k % GROUP] = row[k];
    }
}

/* p = panels, rows [groups * N, K];  n = N, K, groups */
static int quantized_pack(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    quantized_panels_job j = {(const int8_t *)p[1], (word *)p[0], n[0], n[1]};
    return launch(quantized_panel, &j, CEIL(n[0], NR) * n[2], 0, n[0] * n[1] * n[2] > 30000, rt);
}
"""

#: result: C type, what is done with a sum, the scalars
RESULTS = {
    "u8": ("uint8_t", INTEGERS, 3),
    "i8": ("int8_t", INTEGERS, 3),
    "f32": ("float", NUMBERS, 1),
}
_LIMITS = {
    3: ".zero = (float)s[0].f, .low = (float)s[1].f, .high = (float)s[2].f",
    1: ".low = (float)s[0].f",
}
_PRODUCT = """23;$COUNT; w results $S n22*n4*n5*n6*n19*n20; r image u8 n22*n0*n1*n2*n3;
    r panels u8 $PANELS; r base i32 n19*n20; r multiplier f32 n19*n20; r shift f32 n19*n20;
    r? zeros i32 n19*n20; c groups n19; c channels 1-n3%max(n19,1)"""
#: the integers to which others may be added: how a byte of 16 becomes 32 bits
_SUMS = {"u8": "_mm512_cvtepu8_epi32", "i8": "_mm512_cvtepi8_epi32"}
#: 16 bits as bytes, and the larger one of bytes
_NARROW = {
    "u8": ("_mm512_packus_epi16", "_mm512_max_epu8"),
    "i8": ("_mm512_packs_epi16", "_mm512_max_epi8"),
}
_PACK = "3;0; w panels u8 $PANELS; r rows i8 n0*n1*n2"


def quantized_text(isa: Isa, kind: Kind) -> str:
    """What stands behind the tile: gathering, results, units of work, the drivers, packing."""
    element = {4: "uint8_t", 2: "int16_t", 1: "int32_t"}[kind.group]
    weight = {4: "int8_t", 2: "int16_t", 1: "int32_t"}[kind.group]
    parts = [fill(TYPES, ELEMENT=element), GATHER]
    for name, (c_type, body, _) in RESULTS.items():
        if isa.vector_bytes == 64 and body is INTEGERS:
            parts.append(fill(FINISH_WIDE, S=name, PACK=_NARROW[name][0], MAX=_NARROW[name][1]))
            continue
        whole = isa.vector_bytes == 64
        if whole:
            parts.append(fill(FINISH_NUMBERS_WIDE, S=name))
        text = fill(FINISH, S=name, T=c_type, BODY=body, WHOLE=IF_WHOLE if whole else "")
        parts.append(fill(text, S=name, T=c_type))
    for name, widen in _SUMS.items():
        sums = FINISH_SUM_WIDE if isa.vector_bytes == 64 else FINISH_SUM
        parts.append(fill(sums, S=name, T=RESULTS[name][0], WIDEN=widen))
    parts += [TILES, MATRICES if isa.has("amx") else VECTORS_ONLY, UNIT, fill(PACK, WEIGHT=weight)]
    for name, (c_type, _, scalars) in RESULTS.items():
        parts.append(fill(DRIVER, S=name, T=c_type, LIMITS=_LIMITS[scalars]))
        if name in _SUMS:
            parts.append(fill(DRIVER_SUM, S=name, T=c_type, LIMITS=_LIMITS[scalars]))
    return "\n".join(parts)


def _columns(isa: Isa, kind: Kind) -> int:
    """The columns of a panel."""
    return (4 if isa.registers >= 32 else 2) * isa.vector_bytes // kind.word_bytes


def panel_bytes(isa: Isa, results: int, inner: int, groups: int) -> int:
    """The bytes of the panels that `quantized_pack` writes on processors of a variant."""
    (kind,) = (each for each in kinds(isa) if each.name == "i8")
    columns = _columns(isa, kind)
    words = -(-inner // kind.group)
    return -(-results // columns) * columns * -(-words // 16) * 16 * kind.word_bytes * groups


def _panel_bytes(isa: Isa, kind: Kind, results: str, inner: str) -> str:
    """The bytes of a group's panels, as an expression over sizes."""
    columns = _columns(isa, kind)
    words = f"(({inner}+{kind.group - 1})/{kind.group}+15)/16*16"
    return f"({results}+{columns - 1})/{columns}*{columns}*({words})*{kind.word_bytes}"


def quantized_entries(isa: Isa, kind: Kind) -> list[Entry]:
    """The rows of the kernel table."""
    product = _panel_bytes(isa, kind, "n20", "n7*n8*n9*(n3/n19)")
    entries = [
        (
            f"quantized_product:{name}",
            "d",
            f"quantized_product_{name}",
            declared(fill(_PRODUCT, S=name, COUNT=str(count), PANELS=f"n19*({product})")),
        )
        for name, (_, _, count) in RESULTS.items()
    ]
    for name in _SUMS:
        said = fill(_PRODUCT, S=name, COUNT="12", PANELS=f"n19*({product})")
        said = said.replace("; c groups", f"; r added {name} n22*n4*n5*n6*n19*n20; c groups")
        entry = f"quantized_product_sum_{name}"
        entries.append((f"quantized_product_sum:{name}", "d", entry, declared(said)))
    packed = f"n2*({_panel_bytes(isa, kind, 'n0', 'n1')})"
    entries.append(("quantized_pack", "d", "quantized_pack", declared(fill(_PACK, PANELS=packed))))
    return entries
