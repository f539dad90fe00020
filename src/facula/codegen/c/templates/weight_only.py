"""C kernels of products with weights of 8 and 4 bits and activations that stay numbers, for few rows.

Takes an instruction set; `unit` gives `weight_int8` and `weight_int4`, for each dtype of the activations. Keeps true:
weights are read once, as they lie, and become numbers in registers; sums are in float32, and in the same order for any
number of threads and rows. Where the processor multiplies pairs of bf16, activations of this dtype stay such
(levels are exact in it) with half bytes.

`weight_int8`: p = results [M, N], activations [M, K], weights [N, K], scales [N];  n = M, N, K
`weight_int4`: p = results, activations, weights [N, K / 2] (the lower half of a byte comes first), scales and zeros
    [K / group, N, 2];  n = M, N, K, group;  a weight is (level - 8) * scale + zero
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.templates.storage import STORAGES, conversions, fill

DTYPES = ("f32", "bf16", "f16")

PROLOGUE = r"""
#include "facula_abi.h"
#include <string.h>
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define UNROLL _Pragma("GCC unroll 16")
#define ROWS 4 /* of activations, that are multiplied with a weight while it is in a register */
#define COLUMNS 32 /* results of a piece of work */
#define AHEAD 4096 /* speed only: bytes; the processor itself looks no further than a page */
#define GROUPS 64 /* groups whose scales are gathered at a time */
"""

WIDE = r"""
#include <immintrin.h>
/* a weight's row times `rows` of x, K apart */
ALWAYS_INLINE void dot8(const int rows, const float *x, const int8_t *w, int64_t k, float *sums)
{
    __m512 total[ROWS][4];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < 4; v++) total[r][v] = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 64 <= k; __builtin_prefetch(w + i + AHEAD), i += 64)
        UNROLL for (int v = 0; v < 4; v++) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(w + i + 16 * v));
            const __m512 y = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
            UNROLL for (int r = 0; r < rows; r++)
                total[r][v] = _mm512_fmadd_ps(y, _mm512_loadu_ps(x + r * k + i + 16 * v), total[r][v]);
        }
    for (; i < k; i += 16) {
        const __mmask16 some = k - i >= 16 ? 0xffff : (1U << (k - i)) - 1;
        const __m512 y = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(some, w + i)));
        UNROLL for (int r = 0; r < rows; r++)
            total[r][0] = _mm512_fmadd_ps(y, _mm512_maskz_loadu_ps(some, x + r * k + i), total[r][0]);
    }
    UNROLL for (int r = 0; r < rows; r++)
        sums[r] = _mm512_reduce_add_ps((total[r][0] + total[r][1]) + (total[r][2] + total[r][3]));
}

/* scales and zeros of COLUMNS rows, which lie in pairs of 16 bits: each is the upper half of a number */
ALWAYS_INLINE void split_bf16(const void *from, float *scales, float *zeros)
{
    UNROLL for (int j = 0; j < COLUMNS; j += 16) {
        const __m512i pairs = _mm512_loadu_si512((const int32_t *)from + j);
        _mm512_storeu_si512(scales + j, _mm512_slli_epi32(pairs, 16));
        _mm512_storeu_si512(zeros + j, _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff0000)));
    }
}
#define SPLITS_bf16(count) ((count) == COLUMNS)
#define SPLITS_f32(count) 0
#define SPLITS_f16(count) 0

/* `groups` groups of a weight's row times rows of x: those of even places, and `half` behind them of odd ones;
 * the scales of a row's groups lie COLUMNS apart */
ALWAYS_INLINE void dot4(const int rows, const float *x, int64_t x_row, int64_t half, const uint8_t *w,
                        const float *scales, int64_t groups, int64_t group, float *sums)
{
    const __m512 levels = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    __m512 total[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) total[r][0] = total[r][1] = _mm512_setzero_ps();
    const int64_t steps = group / 32, all = groups * steps;
    int64_t i = 0;
    if (rows == 1 && steps == 1) { /* four chains of sums */
        __m512 chains[4];
        UNROLL for (int c = 0; c < 4; c++) chains[c] = _mm512_setzero_ps();
        for (; i + 4 <= all; i += 4) {
            __builtin_prefetch(w + 16 * i + AHEAD / 2);
            UNROLL for (int c = 0; c < 4; c++) {
                const float *at = x + 16 * (i + c);
                const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(w + 16 * (i + c))));
                const __m512 high = _mm512_permutexvar_ps(_mm512_srli_epi32(pairs, 4), levels);
                __m512 both = _mm512_mul_ps(high, _mm512_loadu_ps(at + half));
                both = _mm512_fmadd_ps(_mm512_permutexvar_ps(pairs, levels), _mm512_loadu_ps(at), both);
                chains[c] = _mm512_fmadd_ps(both, _mm512_set1_ps(scales[(i + c) * COLUMNS]), chains[c]);
            }
        }
        total[0][0] = chains[0] + chains[1], total[0][1] = chains[2] + chains[3];
    }
    for (; i < all; i++) {
        const __m512 scale = _mm512_set1_ps(scales[(steps == 1 ? i : i / steps) * COLUMNS]);
        __builtin_prefetch(w + 16 * i + AHEAD / 2);
        const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(w + 16 * i)));
        __m512 low = _mm512_permutexvar_ps(pairs, levels);
        __m512 high = _mm512_permutexvar_ps(_mm512_srli_epi32(pairs, 4), levels);
        if (rows > 1) low *= scale, high *= scale;
        UNROLL for (int r = 0; r < rows; r++) {
            const float *at = x + r * x_row + 16 * i;
            if (rows == 1) {
                const __m512 both = _mm512_fmadd_ps(low, _mm512_loadu_ps(at), high * _mm512_loadu_ps(at + half));
                const __m512 next = _mm512_fmadd_ps(both, scale, total[r][0]);
                total[r][0] = total[r][1], total[r][1] = next; /* two chains of sums, in turn */
                continue;
            }
            total[r][0] = _mm512_fmadd_ps(low, _mm512_loadu_ps(at), total[r][0]);
            total[r][1] = _mm512_fmadd_ps(high, _mm512_loadu_ps(at + half), total[r][1]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) sums[r] += _mm512_reduce_add_ps(total[r][0] + total[r][1]);
}
"""

NARROW = r"""
#define split_bf16(from, scales, zeros) (void)0
#define SPLITS_bf16(count) 0
#define SPLITS_f32(count) 0
#define SPLITS_f16(count) 0

ALWAYS_INLINE void dot8(const int rows, const float *x, const int8_t *w, int64_t k, float *sums)
{
    for (int r = 0; r < rows; r++) {
        float total = 0;
        _Pragma("omp simd reduction(+ : total)")
        for (int64_t i = 0; i < k; i++) total += (float)w[i] * x[r * k + i];
        sums[r] = total;
    }
}

ALWAYS_INLINE void dot4(const int rows, const float *x, int64_t x_row, int64_t half, const uint8_t *w,
                        const float *scales, int64_t groups, int64_t group, float *sums)
{
    for (int r = 0; r < rows; r++)
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *bytes = w + g * group / 2;
            const float *at = x + r * x_row + g * group / 2;
            float total = 0;
            _Pragma("omp simd reduction(+ : total)")
            for (int64_t i = 0; i < group / 2; i++)
                total += (float)((bytes[i] & 15) - 8) * at[i] + (float)((bytes[i] >> 4) - 8) * at[half + i];
            sums[r] += total * scales[g * COLUMNS];
        }
}
"""

#: where the processor multiplies pairs of 16-bit floats: activations stay such, levels are looked up as such
PAIRS = r"""
#define QUADS 4 /* columns at a time, for one row of x: they share its loads, and are chains of sums */

/* 64 weights: 32 bytes as words, whose lower five bits look up levels; the table repeats, so that four of them count */
ALWAYS_INLINE void levels_of(__m512i words, __m512i levels, __m512bh *low, __m512bh *high)
{
    *low = (__m512bh)_mm512_permutexvar_epi16(words, levels);
    *high = (__m512bh)_mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4), levels);
}

ALWAYS_INLINE __m512i table_of_levels(void)
{
    const __m256i half = _mm256_setr_epi16(
        (short)0xc100, (short)0xc0e0, (short)0xc0c0, (short)0xc0a0, (short)0xc080, (short)0xc040, (short)0xc000,
        (short)0xbf80, 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0); /* -8 .. 7 */
    return _mm512_broadcast_i64x4(half);
}

/* 64 weights of `columns` rows times `rows` of x: one of both is 1; `some` of the activations */
ALWAYS_INLINE void step_of_pairs(const int rows, const int columns, const int whole, const uint16_t *x, int64_t x_row,
                                 int64_t half, const uint8_t *w, int64_t w_row, const float *scales, int64_t next,
                                 const __m512i levels, __m512 *total)
{
    const __mmask32 some = whole ? 0xffffffff : 0xffff;
    UNROLL for (int c = 0; c < columns; c++) {
        const uint8_t *from = w + c * w_row;
        const __m256i packed = whole ? _mm256_loadu_si256((const __m256i *)from)
                                     : _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)from));
        __m512bh low, high;
        levels_of(_mm512_cvtepu8_epi16(packed), levels, &low, &high);
        __m512 scale = _mm512_set1_ps(scales[c]); /* of two groups where they have 32 weights */
        if (next) scale = _mm512_mask_broadcastss_ps(scale, 0xff00, _mm_load_ss(scales + next + c));
        UNROLL for (int r = 0; r < rows; r++) {
            const uint16_t *at = x + r * x_row;
            __m512 sum = _mm512_setzero_ps();
            sum = _mm512_dpbf16_ps(sum, low, (__m512bh)_mm512_maskz_loadu_epi16(some, at));
            sum = _mm512_dpbf16_ps(sum, high, (__m512bh)_mm512_maskz_loadu_epi16(some, at + half));
            total[c + r] = _mm512_fmadd_ps(sum, scale, total[c + r]);
        }
    }
}

ALWAYS_INLINE void dot4_pairs(const int rows, const int columns, const uint16_t *x, int64_t x_row, int64_t half,
                              const uint8_t *w, int64_t w_row, const float *scales, int64_t groups, int64_t group,
                              float (*sums)[ROWS])
{
    const __m512i levels = table_of_levels();
    const int64_t ahead = MAX(AHEAD / 2, columns * w_row); /* speed only: these rows are on their way */
    __m512 total[QUADS];
    UNROLL for (int c = 0; c < rows * columns; c++) total[c] = _mm512_setzero_ps();
    if (group == 32) {
        int64_t g = 0;
        for (; g + 2 <= groups; g += 2, w += 32, x += 32, scales += 2 * COLUMNS) {
            UNROLL for (int c = 0; c < columns; c++) __builtin_prefetch(w + c * w_row + ahead);
            step_of_pairs(rows, columns, 1, x, x_row, half, w, w_row, scales, COLUMNS, levels, total);
        }
        if (g < groups) step_of_pairs(rows, columns, 0, x, x_row, half, w, w_row, scales, 0, levels, total);
    } else
        for (int64_t g = 0; g < groups; g++, scales += COLUMNS)
            for (int64_t i = 0; i < group; i += 64, w += 32, x += 32)
                step_of_pairs(rows, columns, 1, x, x_row, half, w, w_row, scales, 0, levels, total);
    UNROLL for (int c = 0; c < columns; c++)
        UNROLL for (int r = 0; r < rows; r++) sums[c][r] += _mm512_reduce_add_ps(total[c + r]);
}

ALWAYS_INLINE int64_t columns_of_pairs(const int rows, const uint16_t *x, int64_t x_row, int64_t half,
                                       const uint8_t *w, int64_t w_row, const float *scales, int64_t groups,
                                       int64_t group, float (*sums)[ROWS], int64_t left)
{
    if (rows == 1 && left >= QUADS) {
        dot4_pairs(1, QUADS, x, x_row, half, w, w_row, scales, groups, group, sums);
        return QUADS;
    }
    dot4_pairs(rows, 1, x, x_row, half, w, w_row, scales, groups, group, sums);
    return 1;
}
"""

#: the same of numbers of 32 bits, one column at a time
SINGLES = r"""
ALWAYS_INLINE int64_t columns_of_singles(const int rows, const float *x, int64_t x_row, int64_t half,
                                         const uint8_t *w, int64_t w_row, const float *scales, int64_t groups,
                                         int64_t group, float (*sums)[ROWS], int64_t left)
{
    (void)w_row, (void)left;
    dot4(rows, x, x_row, half, w, scales, groups, group, sums[0]);
    return 1;
}
"""

BY_ROWS = r"""
#define BY_ROWS(call)                                                                             \
    switch (rows) {                                                                               \
    case 1: call(1); break;                                                                       \
    case 2: call(2); break;                                                                       \
    case 3: call(3); break;                                                                       \
    default: call(4);                                                                             \
    }
"""

BODIES = r"""
/* item: COLUMNS results of all rows; p: results, activations as float, weights, scales */
static void weight_int8_unit_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t k = n[2], last = MIN(end * COLUMNS, n[1]);
    for (int64_t r0 = 0; r0 < n[0]; r0 += ROWS) {
        const int rows = (int)MIN(ROWS, n[0] - r0);
        const float *x = (const float *)p[1] + r0 * k;
        for (int64_t j = begin * COLUMNS; j < last; j++) {
            float sums[ROWS];
            const int8_t *w = (const int8_t *)p[2] + j * k;
#define CALL(R) dot8(R, x, w, k, sums)
            BY_ROWS(CALL)
#undef CALL
            const float scale = load_@s@(((const @STORAGE@ *)p[3])[j]);
            for (int r = 0; r < rows; r++)
                ((@STORAGE@ *)p[0])[(r0 + r) * n[1] + j] = store_@s@(sums[r] * scale);
        }
    }
}

/* scales and zeros of one group: scales are kept, zeros times the sums of rows of x are added up */
ALWAYS_INLINE void gather_@s@(const int rows, const int64_t count, const @STORAGE@ *from, float *scales,
                              const float *totals, const int64_t groups, float (*shifts)[COLUMNS])
{
    float zeros[COLUMNS];
    if (SPLITS_@s@(count))
        split_bf16(from, scales, zeros);
    else
        for (int64_t j = 0; j < count; j++)
            scales[j] = load_@s@(from[2 * j]), zeros[j] = load_@s@(from[2 * j + 1]);
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < count; j++) shifts[r][j] += zeros[j] * totals[r * groups];
}

/* the same of half bytes; p[4]: the sum of each group of the activations */
static void weight_int4_unit_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t k = n[2], half = k / 2, group = n[3], groups = k / group;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * COLUMNS, count = MIN(COLUMNS, n[1] - first);
        for (int64_t r0 = 0; r0 < n[0]; r0 += ROWS) {
            const int rows = (int)MIN(ROWS, n[0] - r0);
            float sums[COLUMNS][ROWS] = {{0}}, shifts[ROWS][COLUMNS] = {{0}}, scales[GROUPS][COLUMNS];
            for (int64_t g0 = 0; g0 < groups; g0 += GROUPS) {
                const int64_t some = MIN(GROUPS, groups - g0);
                for (int64_t g = 0; g < some; g++) {
                    const @STORAGE@ *from = (const @STORAGE@ *)p[3] + ((g0 + g) * n[1] + first) * 2;
                    const float *totals = (const float *)p[4] + r0 * groups + g0 + g;
                    /* speed only: groups lie far apart, where the processor does not look ahead */
                    __builtin_prefetch(from + 2 * COLUMNS), __builtin_prefetch(from + 3 * COLUMNS);
                    if (count == COLUMNS)
                        gather_@s@(rows, COLUMNS, from, scales[g], totals, groups, shifts);
                    else
                        gather_@s@(rows, count, from, scales[g], totals, groups, shifts);
                }
                const @KEPT@ *x = (const @KEPT@ *)p[1] + r0 * k + g0 * group / 2;
                for (int64_t j = 0, done = 1; j < count; j += done) {
                    const uint8_t *w = (const uint8_t *)p[2] + (first + j) * half + g0 * group / 2;
#define CALL(R) done = columns_of_@FORM@(R, x, k, half, w, half, scales[0] + j, some, group, sums + j, count - j)
                    BY_ROWS(CALL)
#undef CALL
                }
            }
            for (int64_t j = 0; j < count; j++)
                for (int r = 0; r < rows; r++)
                    ((@STORAGE@ *)p[0])[(r0 + r) * n[1] + first + j] = store_@s@(sums[j][r] + shifts[r][j]);
        }
    }
}

static int weight_int8_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    float *x = rt->scratch(MAX(n[0] * n[2], 1) * (int64_t)sizeof(float));
    if (!x) return 1;
    for (int64_t i = 0; i < n[0] * n[2]; i++) x[i] = load_@s@(((const @STORAGE@ *)p[1])[i]);
    char *operands[] = {p[0], (char *)x, p[2], p[3]};
    const int64_t grain = 1 + 65536 / MAX(COLUMNS * n[0] * n[2], 1);
    rt->parallel(weight_int8_unit_@s@, operands, n, s, (n[1] + COLUMNS - 1) / COLUMNS, grain);
    rt->release(x);
    return 0;
}

static int weight_int4_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const int64_t k = n[2], half = k / 2, group = n[3], groups = k / group;
    float *totals = rt->scratch(MAX(n[0] * (k + groups), 1) * (int64_t)sizeof(float));
    if (!totals) return 1;
    @KEPT@ *x = (@KEPT@ *)(totals + n[0] * groups);
    for (int64_t r = 0; r < n[0]; r++) {
        const @STORAGE@ *from = (const @STORAGE@ *)p[1] + r * k;
        @KEPT@ *even = x + r * k, *odd = even + half;
        for (int64_t i = 0; i < half; i++) even[i] = @KEEP@(from[2 * i]), odd[i] = @KEEP@(from[2 * i + 1]);
        for (int64_t g = 0; g < groups; g++) {
            float total = 0;
            for (int64_t i = g * group / 2; i < (g + 1) * group / 2; i++) total += @NUMBER@(even[i]) + @NUMBER@(odd[i]);
            totals[r * groups + g] = total;
        }
    }
    char *operands[] = {p[0], (char *)x, p[2], p[3], (char *)totals};
    const int64_t grain = 1 + 65536 / MAX(COLUMNS * n[0] * k, 1);
    rt->parallel(weight_int4_unit_@s@, operands, n, s, (n[1] + COLUMNS - 1) / COLUMNS, grain);
    rt->release(totals);
    return 0;
}
"""

_INT8 = "3;0; w results @ n0*n1; r x @ n0*n2; r weights i8 n1*n2; r scales @ n1"
_INT4 = """4;0; w results @ n0*n1; r x @ n0*n2; r weights u8 n1*(n2/2); r parameters @ n2/n3*n1*2;
    c groups 1-n2%n3; c vectors 1-n3%32"""


def unit(isa: Isa) -> str:
    """The translation unit of the kernels of weights of 8 and 4 bits."""
    wide = isa.vector_bytes == 64 and isa.architecture == "x86_64"
    pairs = wide and isa.has("bf16")
    parts = [PROLOGUE, conversions(*DTYPES), WIDE if wide else NARROW, SINGLES]
    parts += [PAIRS, BY_ROWS] if pairs else [BY_ROWS]
    entries: list[Entry] = []
    for name in DTYPES:
        form = {"KEPT": "float", "KEEP": f"load_{name}", "NUMBER": "", "FORM": "singles"}
        if pairs and name == "bf16":  # activations as they are
            form = {"KEPT": "uint16_t", "KEEP": "", "NUMBER": "load_bf16", "FORM": "pairs"}
        parts.append(fill(BODIES, s=name, STORAGE=STORAGES[name].ctype, **form))
        for bits, text in ((8, _INT8), (4, _INT4)):
            kernel = f"weight_int{bits}"
            entries.append((f"{kernel}:{name}", "d", f"{kernel}_{name}", declared(text, name)))
    return "".join(parts) + table(entries)
