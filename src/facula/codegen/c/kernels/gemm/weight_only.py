"""C kernels of products with weights of 8 and 4 bits and activations that stay numbers, for few rows.

Takes an instruction set; `unit` gives `weight_int8` and `weight_int4`, for each dtype of the activations. Keeps true:
weights are read once, as they lie, and become numbers in registers; sums are in float32, and in the same order for any
number of threads and rows. Where the processor multiplies integers into 32 bits, activations of 16-bit floats become
integers of 16 bits with a scale for each block of 32 (half bytes) or 128 (whole ones): what that rounds away is
2^-16 of the block's largest, less than 1 / 50 of what its own dtype does. Rows that are not finite go the other way.

`weight_int8`: p = results [M, N], activations [M, K], weights [N, K], scales [N];  n = M, N, K
`weight_int4`: p = results, activations, weights [N, K / 2] (the lower half of a byte comes first), scales and zeros
    [K / group, N, 2];  n = M, N, K, group;  a weight is (level - 8) * scale + zero
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import STORAGES, conversions, fill

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
#define FROM_MEMORY (4 << 20) /* speed only: weights that no cache of a core holds */
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

#: where the processor multiplies bytes, and pairs of 16 bits, into 32: activations of 16-bit floats become integers
INTEGERS = r"""
#define QUADS 4 /* columns at a time: they share the loads of activations */
#define BLOCK 32 /* activations that have one scale with half bytes */
#define CHUNK 128 /* activations of a step: four blocks with half bytes, one scale with whole ones */
#define LARGEST 32512 /* 127 * 256: both bytes of an integer, balanced, are signed ones */

/* activations of a chunk with half bytes: the upper and lower bytes of those of even and odd places; what stands for
 * the 8 that levels are too high by; the scales of the blocks, four times each: lanes are blocks */
typedef struct { int8_t bytes[4][64]; int32_t shift[2][16]; float scales[16]; } nibble_chunk;
/* with whole bytes: integers, and their one scale */
typedef struct { int16_t x[CHUNK]; float scale; float unused[15]; } byte_chunk;

/* the largest of `vectors` vectors of numbers; -1 where one is not finite, or the scale would be no normal number */
ALWAYS_INLINE float largest_of(const __m512 *x, const int vectors)
{
    __m512 most = _mm512_setzero_ps();
    __mmask16 finite = 0xffff;
    UNROLL for (int v = 0; v < vectors; v++) {
        const __m512 size = _mm512_abs_ps(x[v]);
        finite &= _mm512_cmp_ps_mask(size, _mm512_set1_ps(3.4e38f), _CMP_LE_OQ);
        most = _mm512_max_ps(most, size);
    }
    const float found = _mm512_reduce_max_ps(most);
    return finite != 0xffff || (found > 0 && found < 1e-30f) ? -1 : found;
}

/* 128 activations, `count` of them there, as a chunk, and the sums of its blocks; 0 where they are not finite */
static int nibbles_of(const float *x, int64_t count, nibble_chunk *c, float *sums)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i next = _mm512_set1_epi32(1), half = _mm512_set1_epi32(128), ones = _mm512_set1_epi8(1);
    memset(c, 0, sizeof *c);
    for (int64_t b = 0; b < count / BLOCK; b++) {
        const __m512 both[2] = {_mm512_loadu_ps(x + b * BLOCK), _mm512_loadu_ps(x + b * BLOCK + 16)};
        const float most = largest_of(both, 2), inverse = most > 0 ? LARGEST / most : 0;
        if (most < 0) return 0;
        const __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(both[0], _mm512_set1_ps(inverse)));
        const __m512i second = _mm512_cvtps_epi32(_mm512_mul_ps(both[1], _mm512_set1_ps(inverse)));
        UNROLL for (int odd = 0; odd < 2; odd++) {
            const __m512i places = odd ? _mm512_add_epi32(even, next) : even;
            const __m512i whole = _mm512_permutex2var_epi32(first, places, second);
            const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(whole, half), 8);
            const __m512i lower = _mm512_sub_epi32(whole, _mm512_slli_epi32(upper, 8));
            _mm_storeu_si128((__m128i *)(c->bytes[2 * odd] + 16 * b), _mm512_cvtepi32_epi8(upper));
            _mm_storeu_si128((__m128i *)(c->bytes[2 * odd + 1] + 16 * b), _mm512_cvtepi32_epi8(lower));
        }
        _mm_storeu_ps(c->scales + 4 * b, _mm_set1_ps(most / LARGEST));
        sums[b] = _mm512_reduce_add_ps(_mm512_add_ps(both[0], both[1]));
    }
    UNROLL for (int part = 0; part < 2; part++) { /* eight times the sums of four bytes, below zero */
        __m512i total = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(c->bytes[part]));
        total = _mm512_dpbusd_epi32(total, ones, _mm512_loadu_si512(c->bytes[part + 2]));
        total = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(total, 3));
        _mm512_storeu_si512(c->shift[part], total);
    }
    return 1;
}

static int bytes_of(const float *x, int64_t count, byte_chunk *c)
{
    __m512 all[CHUNK / 16];
    UNROLL for (int v = 0; v < CHUNK / 16; v++) {
        const int64_t left = count - 16 * v;
        const __mmask16 some = left >= 16 ? 0xffff : left > 0 ? (1U << left) - 1 : 0;
        all[v] = _mm512_maskz_loadu_ps(some, x + 16 * v);
    }
    const float most = largest_of(all, CHUNK / 16), inverse = most > 0 ? LARGEST / most : 0;
    UNROLL for (int v = 0; v < CHUNK / 16; v++) {
        const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(all[v], _mm512_set1_ps(inverse)));
        _mm256_storeu_si256((__m256i *)(c->x + 16 * v), _mm512_cvtepi32_epi16(whole));
    }
    c->scale = most / LARGEST;
    return most >= 0;
}

/* four rows of half bytes, `w_row` apart, times `rows` of activations, `x_row` chunks apart; scales: of each group,
 * COLUMNS apart, of which each has 2^`many` blocks */
ALWAYS_INLINE void dot4_integers(const int rows, const nibble_chunk *x, int64_t x_row, const uint8_t *w,
                                 const int64_t *w_row, const float *scales, const int many, int64_t bytes,
                                 float (*sums)[ROWS])
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512 total[QUADS][ROWS];
    UNROLL for (int c = 0; c < QUADS; c++)
        UNROLL for (int r = 0; r < rows; r++) total[c][r] = _mm512_setzero_ps();
    const int64_t ahead = MAX(AHEAD / 2, QUADS * (w_row[1] - w_row[0])); /* speed only: see `dot8_integers` */
    for (int64_t i = 0; i < bytes; i += 64, x++) {
        const __mmask64 some = bytes - i >= 64 ? ~0ULL : (1ULL << (bytes - i)) - 1;
        const float *at = scales + (i / 16 >> many) * COLUMNS;
        __m512 of_weights = _mm512_broadcast_f32x4(_mm_loadu_ps(at));
        if (many == 0) {
            of_weights = _mm512_insertf32x4(of_weights, _mm_loadu_ps(at + COLUMNS), 1);
            of_weights = _mm512_insertf32x4(of_weights, _mm_loadu_ps(at + 2 * COLUMNS), 2);
            of_weights = _mm512_insertf32x4(of_weights, _mm_loadu_ps(at + 3 * COLUMNS), 3);
        } else if (many == 1)
            of_weights = _mm512_mask_broadcast_f32x4(of_weights, 0xff00, _mm_loadu_ps(at + COLUMNS));
        UNROLL for (int c = 0; c < QUADS; c++) {
            const uint8_t *from = w + w_row[c] + i;
            __builtin_prefetch(from + ahead);
            const __m512i both = some == ~0ULL ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(some, from);
            const __m512i even = _mm512_and_si512(both, low);
            const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
            const __m512 scale = c == 0   ? _mm512_permute_ps(of_weights, 0x00)
                                 : c == 1 ? _mm512_permute_ps(of_weights, 0x55)
                                 : c == 2 ? _mm512_permute_ps(of_weights, 0xaa)
                                          : _mm512_permute_ps(of_weights, 0xff);
            UNROLL for (int r = 0; r < rows; r++) {
                const nibble_chunk *row = x + r * x_row;
                __m512i upper = _mm512_loadu_si512(row->shift[0]), lower = _mm512_loadu_si512(row->shift[1]);
                upper = _mm512_dpbusd_epi32(upper, even, _mm512_loadu_si512(row->bytes[0]));
                lower = _mm512_dpbusd_epi32(lower, even, _mm512_loadu_si512(row->bytes[1]));
                upper = _mm512_dpbusd_epi32(upper, odd, _mm512_loadu_si512(row->bytes[2]));
                lower = _mm512_dpbusd_epi32(lower, odd, _mm512_loadu_si512(row->bytes[3]));
                const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower);
                const __m512 number = _mm512_cvtepi32_ps(sum), both_scales = scale * _mm512_loadu_ps(row->scales);
                total[c][r] = _mm512_fmadd_ps(number, both_scales, total[c][r]);
            }
        }
    }
    UNROLL for (int c = 0; c < QUADS; c++)
        UNROLL for (int r = 0; r < rows; r++) sums[c][r] += _mm512_reduce_add_ps(total[c][r]);
}

/* `columns` rows of bytes, `w_row` apart, times `rows` of activations */
ALWAYS_INLINE void dot8_integers(const int rows, const int columns, const byte_chunk *x, int64_t x_row,
                                 const int8_t *w, const int64_t *w_row, int64_t k, float (*sums)[ROWS])
{
    __m512 total[QUADS][ROWS];
    UNROLL for (int c = 0; c < columns; c++)
        UNROLL for (int r = 0; r < rows; r++) total[c][r] = _mm512_setzero_ps();
    const int64_t ahead = MAX(AHEAD, columns * k); /* speed only: these rows are on their way */
    for (int64_t i = 0; i < k; i += CHUNK, x++) {
        __m512i whole[QUADS][ROWS];
        UNROLL for (int c = 0; c < columns; c++) {
            const int8_t *next = w + w_row[c] + i + ahead;
            __builtin_prefetch(next), __builtin_prefetch(next + 64);
            UNROLL for (int r = 0; r < rows; r++) whole[c][r] = _mm512_setzero_si512();
        }
        UNROLL for (int v = 0; v < CHUNK; v += 32) {
            const int64_t left = k - i - v;
            if (left <= 0) break;
            const __mmask32 some = left >= 32 ? ~0U : (1U << left) - 1;
            UNROLL for (int c = 0; c < columns; c++) {
                const int8_t *from = w + w_row[c] + i + v;
                const __m256i bytes = left >= 32 ? _mm256_loadu_si256((const __m256i *)from)
                                                 : _mm256_maskz_loadu_epi8(some, from);
                const __m512i words = _mm512_cvtepi8_epi16(bytes);
                UNROLL for (int r = 0; r < rows; r++)
                    whole[c][r] = _mm512_dpwssd_epi32(whole[c][r], words,
                                                      _mm512_loadu_si512((x + r * x_row)->x + v));
            }
        }
        UNROLL for (int c = 0; c < columns; c++)
            UNROLL for (int r = 0; r < rows; r++)
                total[c][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[c][r]),
                                              _mm512_set1_ps((x + r * x_row)->scale), total[c][r]);
    }
    UNROLL for (int c = 0; c < columns; c++)
        UNROLL for (int r = 0; r < rows; r++) sums[c][r] = _mm512_reduce_add_ps(total[c][r]);
}

/* where four rows lie; behind the last one it stands again, and is not written */
ALWAYS_INLINE void four_rows(int64_t left, int64_t apart, int64_t *places)
{
    UNROLL for (int c = 0; c < QUADS; c++) places[c] = MIN(c, left - 1) * apart;
}
"""

#: a driver that makes integers of the activations first; where one is not finite, the others' way is taken
INTEGER_BODIES = r"""
static void weight_int8_integers_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t k = n[2], chunks = (k + CHUNK - 1) / CHUNK, last = MIN(end * COLUMNS, n[1]);
    for (int64_t r0 = 0; r0 < n[0]; r0 += ROWS) {
        const int rows = (int)MIN(ROWS, n[0] - r0);
        const byte_chunk *x = (const byte_chunk *)p[1] + r0 * chunks;
        /* speed only: what comes from memory is read in one stream */
        const int64_t step = rows > 1 ? 2 : n[1] * k > FROM_MEMORY ? 1 : QUADS;
        for (int64_t j = begin * COLUMNS; j < last; j += step) {
            float sums[QUADS][ROWS];
            int64_t places[QUADS];
            const int8_t *w = (const int8_t *)p[2] + j * k;
            four_rows(last - j, k, places);
#define CALL(R) dot8_integers(R, R == 1 ? QUADS : 2, x, chunks, w, places, k, sums)
            if (step == 1)
                dot8_integers(1, 1, x, chunks, w, places, k, sums);
            else
                BY_ROWS(CALL)
#undef CALL
            for (int64_t c = 0; c < MIN(step, last - j); c++) {
                const float scale = load_@s@(((const @STORAGE@ *)p[3])[j + c]);
                for (int r = 0; r < rows; r++)
                    ((@STORAGE@ *)p[0])[(r0 + r) * n[1] + j + c] = store_@s@(sums[c][r] * scale);
            }
        }
    }
}

static void weight_int4_integers_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t k = n[2], half = k / 2, group = n[3], groups = k / group, chunks = (k + CHUNK - 1) / CHUNK;
    const int many = group == 32 ? 0 : group == 64 ? 1 : group == 128 ? 2 : 3;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * COLUMNS, count = MIN(COLUMNS, n[1] - first);
        for (int64_t r0 = 0; r0 < n[0]; r0 += ROWS) {
            const int rows = (int)MIN(ROWS, n[0] - r0);
            float sums[COLUMNS][ROWS] = {{0}}, shifts[ROWS][COLUMNS] = {{0}}, scales[GROUPS + 3][COLUMNS];
            for (int64_t g0 = 0; g0 < groups; g0 += GROUPS) {
                const int64_t some = MIN(GROUPS, groups - g0), at = g0 * group;
                if (count < COLUMNS) memset(scales, 0, sizeof scales); /* of columns that are not there */
                gather_groups_@s@(rows, count, p, n, r0, first, g0, some, scales, shifts);
                memset(scales[some], 0, 3 * sizeof scales[0]); /* of groups that are not there */
                const nibble_chunk *x = (const nibble_chunk *)p[1] + r0 * chunks + at / CHUNK;
                for (int64_t j = 0; j < count; j += QUADS) {
                    const uint8_t *w = (const uint8_t *)p[2] + (first + j) * half + at / 2;
                    int64_t places[QUADS];
                    float four[QUADS][ROWS] = {{0}};
                    four_rows(count - j, half, places);
#define CALL(R) dot4_integers(R, x, chunks, w, places, scales[0] + j, MANY, some * group / 2, four)
#define MANY 0
                    if (many == 0) { BY_ROWS(CALL) }
#undef MANY
#define MANY 1
                    else if (many == 1) { BY_ROWS(CALL) }
#undef MANY
#define MANY many
                    else { BY_ROWS(CALL) }
#undef MANY
#undef CALL
                    for (int64_t c = 0; c < MIN(QUADS, count - j); c++)
                        for (int r = 0; r < rows; r++) sums[j + c][r] += four[c][r];
                }
            }
            for (int64_t j = 0; j < count; j++)
                for (int r = 0; r < rows; r++)
                    ((@STORAGE@ *)p[0])[(r0 + r) * n[1] + first + j] = store_@s@(sums[j][r] + shifts[r][j]);
        }
    }
}

static int weight_int8_of_integers_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const int64_t k = n[2], chunks = (k + CHUNK - 1) / CHUNK;
    byte_chunk *x = rt->scratch(MAX(n[0] * chunks, 1) * (int64_t)sizeof(byte_chunk));
    if (!x) return 1;
    int finite = 1;
    for (int64_t r = 0; r < n[0]; r++)
        for (int64_t i = 0; i < chunks; i++) {
            float part[CHUNK];
            const int64_t count = MIN(CHUNK, k - i * CHUNK);
            const @STORAGE@ *from = (const @STORAGE@ *)p[1] + r * k + i * CHUNK;
            for (int64_t j = 0; j < count; j++) part[j] = load_@s@(from[j]);
            finite &= bytes_of(part, count, x + r * chunks + i);
        }
    if (finite) {
        char *operands[] = {p[0], (char *)x, p[2], p[3]};
        const int64_t grain = 1 + 65536 / MAX(COLUMNS * n[0] * k, 1);
        rt->parallel(weight_int8_integers_@s@, operands, n, s, (n[1] + COLUMNS - 1) / COLUMNS, grain);
    }
    rt->release(x);
    return finite ? 0 : weight_int8_@s@(p, n, s, rt);
}

static int weight_int4_of_integers_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const int64_t k = n[2], group = n[3], groups = k / group, chunks = (k + CHUNK - 1) / CHUNK;
    const int64_t size = n[0] * chunks * (int64_t)sizeof(nibble_chunk);
    char *scratch = rt->scratch(size + MAX(n[0] * groups, 1) * (int64_t)sizeof(float));
    if (!scratch) return 1;
    nibble_chunk *x = (nibble_chunk *)scratch;
    float *totals = (float *)(scratch + size);
    int finite = 1;
    for (int64_t r = 0; r < n[0]; r++) {
        for (int64_t g = 0; g < groups; g++) totals[r * groups + g] = 0;
        for (int64_t i = 0; i < chunks; i++) {
            float part[CHUNK];
            const int64_t count = MIN(CHUNK, k - i * CHUNK);
            const @STORAGE@ *from = (const @STORAGE@ *)p[1] + r * k + i * CHUNK;
            for (int64_t j = 0; j < count; j++) part[j] = load_@s@(from[j]);
            float sums[CHUNK / BLOCK] = {0};
            finite &= nibbles_of(part, count, x + r * chunks + i, sums);
            for (int64_t b = 0; b < count; b += BLOCK) totals[r * groups + (i * CHUNK + b) / group] += sums[b / BLOCK];
        }
    }
    if (finite) {
        char *operands[] = {p[0], (char *)x, p[2], p[3], (char *)totals};
        const int64_t grain = 1 + 65536 / MAX(COLUMNS * n[0] * k, 1);
        rt->parallel(weight_int4_integers_@s@, operands, n, s, (n[1] + COLUMNS - 1) / COLUMNS, grain);
    }
    rt->release(scratch);
    return finite ? 0 : weight_int4_@s@(p, n, s, rt);
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

/* the same of `some` groups from g0 on, for columns from `first` and rows from r0 on; p, n as below */
ALWAYS_INLINE void gather_groups_@s@(const int rows, int64_t count, char *const *p, const int64_t *n, int64_t r0,
                                     int64_t first, int64_t g0, int64_t some, float (*scales)[COLUMNS],
                                     float (*shifts)[COLUMNS])
{
    const int64_t groups = n[2] / n[3];
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
}

/* items as above, of half bytes; p[4]: the sum of each group of the activations */
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
                gather_groups_@s@(rows, count, p, n, r0, first, g0, some, scales, shifts);
                const float *x = (const float *)p[1] + r0 * k + g0 * group / 2;
                for (int64_t j = 0; j < count; j++) {
                    const uint8_t *w = (const uint8_t *)p[2] + (first + j) * half + g0 * group / 2;
#define CALL(R) dot4(R, x, k, half, w, scales[0] + j, some, group, sums[j])
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
    float *x = (float *)(totals + n[0] * groups);
    for (int64_t r = 0; r < n[0]; r++) {
        const @STORAGE@ *from = (const @STORAGE@ *)p[1] + r * k;
        float *even = x + r * k, *odd = even + half;
        for (int64_t i = 0; i < half; i++) even[i] = load_@s@(from[2 * i]), odd[i] = load_@s@(from[2 * i + 1]);
        for (int64_t g = 0; g < groups; g++) {
            float total = 0;
            for (int64_t i = g * group / 2; i < (g + 1) * group / 2; i++) total += even[i] + odd[i];
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
    integers = wide and isa.has("vnni")
    parts = [PROLOGUE, conversions(*DTYPES), WIDE if wide else NARROW, BY_ROWS]
    parts += [INTEGERS] if integers else []
    entries: list[Entry] = []
    for name in DTYPES:
        texts = [BODIES, INTEGER_BODIES] if integers and name != "f32" else [BODIES]
        parts += [fill(text, s=name, STORAGE=STORAGES[name].ctype) for text in texts]
        form = "of_integers_" if len(texts) == 2 else ""
        for bits, text in ((8, _INT8), (4, _INT4)):
            kernel = f"weight_int{bits}"
            entries.append(
                (f"{kernel}:{name}", "d", f"{kernel}_{form}{name}", declared(text, name))
            )
    return "".join(parts) + table(entries)
