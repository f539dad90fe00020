/* Strided two-dimensional copies: rows, fills, transposes and streaming stores.
 *
 * Takes: an item size (1, 2, 4, 8 or 16 bytes), two addresses with byte strides, a number of
 * rows and columns.
 * Gives: `fk_copy_block`, which picks the fastest way; `fk_copy_block_stream` and its parts for
 * results that are too large to stay in the cache.
 * Keeps true: source and destination do not overlap; no alignment is asked for beyond a byte.
 *
 * A transpose is a network of interleaves over N vectors of N items: after log2(N) rounds of
 * "interleave vector i with vector i + N/2", row i of the result stands in vector i. */
#ifndef FK_BLOCK_H
#define FK_BLOCK_H
#include "fk_base.h"
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "fk_cast.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    uint64_t low, high;
} fk_item16;

/* ---- small transposes ---- */

#define FK_INTERLEAVE_LOW_4 0, 4, 1, 5
#define FK_INTERLEAVE_HIGH_4 2, 6, 3, 7
#define FK_INTERLEAVE_LOW_2 0, 2
#define FK_INTERLEAVE_HIGH_2 1, 3
#define FK_INTERLEAVE_LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define FK_INTERLEAVE_HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define FK_INTERLEAVE_LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FK_INTERLEAVE_HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#define FK_STORE(at, value) memcpy(at, &value, sizeof value)
#define FK_STORE_STREAM(at, value) _mm512_stream_si512((__m512i *)(void *)(at), (__m512i)value)

/* dst[r][c] = src[c][r] for r < rows, c < columns; the items of a row are adjacent on both sides */
typedef void (*fk_transpose_fn)(const char *src, int64_t src_stride, char *dst, int64_t dst_stride,
    int64_t rows, int64_t columns);

#define FK_TRANSPOSE(name, type, N, target, store)                                                \
    target static void fk_transpose_##name(const char *src, int64_t src_stride, char *dst,        \
        int64_t dst_stride, int64_t rows, int64_t columns) {                                      \
        typedef type vector __attribute__((vector_size(N * sizeof(type))));                       \
        int64_t whole_rows = rows & ~(int64_t)(N - 1),                                            \
                whole_columns = columns & ~(int64_t)(N - 1);                                      \
        for (int64_t r = 0; r < whole_rows; r += N) {                                             \
            const char *in = src + r * (int64_t)sizeof(type);                                     \
            char *out = dst + r * dst_stride;                                                     \
            for (int64_t c = 0; c < whole_columns; c += N) {                                      \
                vector a[N], b[N];                                                                \
                _Pragma("GCC unroll 16") for (int i = 0; i < N; i++)                              \
                    memcpy(&a[i], in + (c + i) * src_stride, sizeof a[i]);                        \
                _Pragma("GCC unroll 4") for (int round = 1; round < N; round *= 2) {              \
                    _Pragma("GCC unroll 8") for (int i = 0; i < N / 2; i++) {                     \
                        b[2 * i] =                                                                \
                            __builtin_shufflevector(a[i], a[i + N / 2], FK_INTERLEAVE_LOW_##N);   \
                        b[2 * i + 1] =                                                            \
                            __builtin_shufflevector(a[i], a[i + N / 2], FK_INTERLEAVE_HIGH_##N);  \
                    }                                                                             \
                    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) a[i] = b[i];             \
                }                                                                                 \
                char *at = out + c * (int64_t)sizeof(type);                                       \
                _Pragma("GCC unroll 16") for (int i = 0; i < N; i++)                              \
                    store(at + i * dst_stride, a[i]);                                             \
            }                                                                                     \
        }                                                                                         \
        fk_transpose_rest_##type(                                                                 \
            src, src_stride, dst, dst_stride, 0, whole_rows, whole_columns, columns);             \
        fk_transpose_rest_##type(src, src_stride, dst, dst_stride, whole_rows, rows, 0, columns); \
    }

#define FK_TRANSPOSE_REST(type)                                                           \
    static void fk_transpose_rest_##type(const char *src, int64_t src_stride, char *dst,  \
        int64_t dst_stride, int64_t row, int64_t rows, int64_t column, int64_t columns) { \
        for (int64_t r = row; r < rows; r++)                                              \
            for (int64_t c = column; c < columns; c++)                                    \
                memcpy(dst + r * dst_stride + c * (int64_t)sizeof(type),                  \
                    src + c * src_stride + r * (int64_t)sizeof(type), sizeof(type));      \
    }
FK_TRANSPOSE_REST(uint8_t)
FK_TRANSPOSE_REST(uint16_t)
FK_TRANSPOSE_REST(uint32_t)
FK_TRANSPOSE_REST(uint64_t)
FK_TRANSPOSE_REST(fk_item16)

FK_VECTORIZE_BEGIN
FK_TRANSPOSE(1, uint8_t, 16, , FK_STORE)
FK_TRANSPOSE(2, uint16_t, 8, , FK_STORE)
FK_TRANSPOSE(4, uint32_t, 4, , FK_STORE)
FK_TRANSPOSE(8, uint64_t, 2, , FK_STORE)
static void fk_transpose_16(const char *src, int64_t src_stride, char *dst, int64_t dst_stride,
    int64_t rows, int64_t columns) {
    fk_transpose_rest_fk_item16(src, src_stride, dst, dst_stride, 0, rows, 0, columns);
}
#if defined(__x86_64__)
#define FK_AVX2 __attribute__((target("avx2")))
#define FK_AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,prefer-vector-width=512")))
FK_TRANSPOSE(4_avx2, uint32_t, 8, FK_AVX2, FK_STORE)
FK_TRANSPOSE(8_avx2, uint64_t, 4, FK_AVX2, FK_STORE)
FK_TRANSPOSE(2_avx512, uint16_t, 16, FK_AVX512, FK_STORE)
FK_TRANSPOSE(4_avx512, uint32_t, 16, FK_AVX512, FK_STORE)
FK_TRANSPOSE(8_avx512, uint64_t, 8, FK_AVX512, FK_STORE)
/* for rows that are aligned to a cache line, and so are all of them */
FK_TRANSPOSE(4_stream, uint32_t, 16, FK_AVX512, FK_STORE_STREAM)
FK_TRANSPOSE(8_stream, uint64_t, 8, FK_AVX512, FK_STORE_STREAM)
#endif
FK_VECTORIZE_END

#if defined(__x86_64__)
FK_LOCAL int fk_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

static fk_transpose_fn fk_transpose_table[5]; /* by log2 of the item size */

FK_COLD void fk_transpose_choose(void) {
    fk_transpose_fn best[5] = {
        fk_transpose_1, fk_transpose_2, fk_transpose_4, fk_transpose_8, fk_transpose_16};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        best[2] = fk_transpose_4_avx2, best[3] = fk_transpose_8_avx2;
    if (fk_has_avx512())
        best[1] = fk_transpose_2_avx512, best[2] = fk_transpose_4_avx512,
        best[3] = fk_transpose_8_avx512;
#endif
    for (int i = 4; i >= 0; i--)
        __atomic_store_n(&fk_transpose_table[i], best[i], __ATOMIC_RELEASE);
}

FK_INLINE int fk_item_log2(int item) { return __builtin_ctz((unsigned)item); }

FK_LOCAL void fk_transpose(int item, const char *src, int64_t src_stride, char *dst,
    int64_t dst_stride, int64_t rows, int64_t columns) {
    fk_transpose_fn *slot = &fk_transpose_table[fk_item_log2(item)];
    if (FK_UNLIKELY(!__atomic_load_n(slot, __ATOMIC_ACQUIRE))) fk_transpose_choose();
    (*slot)(src, src_stride, dst, dst_stride, rows, columns);
}

/* ---- fills and general strides ---- */

#define FK_FILL(bytes, type)                                               \
    static void fk_fill_##bytes(char *dst, const char *value, int64_t n) { \
        type item;                                                         \
        memcpy(&item, value, sizeof item);                                 \
        for (int64_t i = 0; i < n; i++)                                    \
            memcpy(dst + i * (int64_t)sizeof item, &item, sizeof item);    \
    }
#define FK_STRIDED(bytes, type)                                                          \
    static void fk_strided_##bytes(const char *src, int64_t src_row, int64_t src_column, \
        char *dst, int64_t dst_row, int64_t dst_column, int64_t rows, int64_t columns) { \
        for (int64_t r = 0; r < rows; r++) {                                             \
            const char *in = src + r * src_row;                                          \
            char *out = dst + r * dst_row;                                               \
            for (int64_t c = 0; c < columns; c++)                                        \
                memcpy(out + c * dst_column, in + c * src_column, sizeof(type));         \
        }                                                                                \
    }
FK_VECTORIZE_BEGIN
FK_CLONES FK_FILL(2, uint16_t)
FK_CLONES FK_FILL(4, uint32_t)
FK_CLONES FK_FILL(8, uint64_t) FK_FILL(16, fk_item16) FK_STRIDED(1, uint8_t) FK_STRIDED(2, uint16_t)
    FK_STRIDED(4, uint32_t) FK_STRIDED(8, uint64_t) FK_STRIDED(16, fk_item16) FK_VECTORIZE_END

    /* n items of one value, adjacent */
    FK_LOCAL void fk_fill(int item, char *dst, const char *value, int64_t n) {
    switch (item) {
    case 1: memset(dst, *(const unsigned char *)value, (size_t)n); break;
    case 2: fk_fill_2(dst, value, n); break;
    case 4: fk_fill_4(dst, value, n); break;
    case 8: fk_fill_8(dst, value, n); break;
    default: fk_fill_16(dst, value, n); break;
    }
}

FK_LOCAL void fk_copy_strided(int item, const char *src, int64_t src_row, int64_t src_column,
    char *dst, int64_t dst_row, int64_t dst_column, int64_t rows, int64_t columns) {
    switch (item) {
    case 1: fk_strided_1(src, src_row, src_column, dst, dst_row, dst_column, rows, columns); break;
    case 2: fk_strided_2(src, src_row, src_column, dst, dst_row, dst_column, rows, columns); break;
    case 4: fk_strided_4(src, src_row, src_column, dst, dst_row, dst_column, rows, columns); break;
    case 8: fk_strided_8(src, src_row, src_column, dst, dst_row, dst_column, rows, columns); break;
    default:
        fk_strided_16(src, src_row, src_column, dst, dst_row, dst_column, rows, columns);
        break;
    }
}

/* ---- a few columns woven into rows, as channels into pixels ---- */

#define FK_WEAVE_LOOP(type, count)     \
    for (int64_t r = 0; r < rows; r++) \
        for (int c = 0; c < count; c++) out[r * count + c] = in[c][r]
#define FK_WEAVE(bytes, type)                                                        \
    static void fk_weave_##bytes(                                                    \
        const char *src, int64_t src_column, char *dst, int64_t rows, int columns) { \
        typedef type item __attribute__((may_alias, aligned(1)));                    \
        const item *in[4];                                                           \
        item *restrict out = (item *)(void *)dst;                                    \
        for (int c = 0; c < columns; c++)                                            \
            in[c] = (const item *)(const void *)(src + c * src_column);              \
        if (columns == 2)                                                            \
            FK_WEAVE_LOOP(type, 2);                                                  \
        else if (columns == 3)                                                       \
            FK_WEAVE_LOOP(type, 3);                                                  \
        else                                                                         \
            FK_WEAVE_LOOP(type, 4);                                                  \
    }
FK_VECTORIZE_BEGIN
FK_CLONES FK_WEAVE(1, uint8_t)
FK_CLONES FK_WEAVE(2, uint16_t)
FK_CLONES FK_WEAVE(4, uint32_t)
FK_VECTORIZE_END

/* dst[r * columns + c] = src[c][r] for 2 to 4 columns of 1, 2 or 4 bytes */
FK_LOCAL void fk_weave(
    int item, const char *src, int64_t src_column, char *dst, int64_t rows, int64_t columns) {
    if (item == 1)
        fk_weave_1(src, src_column, dst, rows, (int)columns);
    else if (item == 2)
        fk_weave_2(src, src_column, dst, rows, (int)columns);
    else
        fk_weave_4(src, src_column, dst, rows, (int)columns);
}

/* ---- every second, third or fourth item ---- */

#define FK_PICK_LOOP(count) \
    for (int64_t i = 0; i < n; i++) out[i] = in[i * count]
#define FK_PICK(bytes, type)                                                       \
    static void fk_pick_##bytes(const char *src, int step, char *dst, int64_t n) { \
        typedef type item __attribute__((may_alias, aligned(1)));                  \
        const item *in = (const item *)(const void *)src;                          \
        item *restrict out = (item *)(void *)dst;                                  \
        if (step == 2)                                                             \
            FK_PICK_LOOP(2);                                                       \
        else if (step == 3)                                                        \
            FK_PICK_LOOP(3);                                                       \
        else                                                                       \
            FK_PICK_LOOP(4);                                                       \
    }
FK_VECTORIZE_BEGIN
FK_CLONES FK_PICK(1, uint8_t)
FK_CLONES FK_PICK(2, uint16_t)
FK_CLONES FK_PICK(4, uint32_t)
FK_CLONES FK_PICK(8, uint64_t)
FK_VECTORIZE_END

/* dst[i] = src[i * step] for steps of 2 to 4 items of up to 8 bytes */
FK_LOCAL void fk_pick(int item, const char *src, int step, char *dst, int64_t n) {
    if (item == 1)
        fk_pick_1(src, step, dst, n);
    else if (item == 2)
        fk_pick_2(src, step, dst, n);
    else if (item == 4)
        fk_pick_4(src, step, dst, n);
    else
        fk_pick_8(src, step, dst, n);
}

/* ---- the choice ---- */

FK_LOCAL void fk_copy_block(int item, const char *src, int64_t src_row, int64_t src_column,
    char *dst, int64_t dst_row, int64_t dst_column, int64_t rows, int64_t columns) {
    if (dst_column == item && src_column == item && columns * item >= 32) {
        if (src_row == columns * item && dst_row == src_row) columns *= rows, rows = 1;
        for (int64_t r = 0; r < rows; r++)
            memcpy(dst + r * dst_row, src + r * src_row, (size_t)(columns * item));
    } else if (dst_column == item && src_column == 0 && (columns >= 8 || src_row == 0)) {
        if (src_row == 0 && dst_row == columns * item) columns *= rows, rows = 1;
        for (int64_t r = 0; r < rows; r++)
            fk_fill(item, dst + r * dst_row, src + r * src_row, columns);
    } else if (dst_column == item && src_row == item && columns > 1 && columns <= 4 &&
               dst_row == columns * item && item <= 4) {
        fk_weave(item, src, src_column, dst, rows, columns);
    } else if (dst_column == item && src_row == item && rows > 1) {
        fk_transpose(item, src, src_column, dst, dst_row, rows, columns);
    } else if (dst_row == item && src_column == item && rows > 1) {
        fk_transpose(item, src, src_row, dst, dst_column, columns, rows);
    } else if (dst_column == item && columns >= 16 && item <= 8 &&
               (src_column == 2 * item || src_column == 3 * item || src_column == 4 * item)) {
        int step = (int)(src_column / item);
        for (int64_t r = 0; r < rows; r++)
            fk_pick(item, src + r * src_row, step, dst + r * dst_row, columns);
    } else if (rows > columns) {
        fk_copy_strided(item, src, src_column, src_row, dst, dst_column, dst_row, columns, rows);
    } else {
        fk_copy_strided(item, src, src_row, src_column, dst, dst_row, dst_column, rows, columns);
    }
}

/* ---- streaming: stores past the cache, which spare reading the lines that are overwritten ----
 * Whoever streams ends with `fk_stream_end`, so that other threads see the stores in order. */

/* results of at least this many bytes do not stay in the cache beside their operands anyway */
static int64_t fk_stream_limit; /* 0: not yet determined */

FK_LOCAL int64_t fk_stream_bytes(void) {
    int64_t known = __atomic_load_n(&fk_stream_limit, __ATOMIC_RELAXED);
    if (FK_UNLIKELY(!known)) {
        int64_t cache = 0, least = (int64_t)4 << 20, most = (int64_t)32 << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
        cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        known = cache <= 0          ? 2 * least
                : cache / 2 < least ? least
                : cache / 2 > most  ? most
                                    : cache / 2;
        __atomic_store_n(&fk_stream_limit, known, __ATOMIC_RELAXED);
    }
    return known;
}

FK_LOCAL void fk_stream_end(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* whole cache lines; dst is aligned to one */
FK_INLINE void fk_stream_lines(char *dst, const char *src, int64_t bytes) {
#if defined(__x86_64__)
    for (int64_t i = 0; i < bytes; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(src + i)),
                b = _mm_loadu_si128((const __m128i *)(src + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(src + i + 32)),
                d = _mm_loadu_si128((const __m128i *)(src + i + 48));
        _mm_stream_si128((__m128i *)(dst + i), a);
        _mm_stream_si128((__m128i *)(dst + i + 16), b);
        _mm_stream_si128((__m128i *)(dst + i + 32), c);
        _mm_stream_si128((__m128i *)(dst + i + 48), d);
    }
#else
    memcpy(dst, src, (size_t)bytes);
#endif
}

/* memcpy past the cache */
FK_LOCAL void fk_copy_stream(char *dst, const char *src, int64_t bytes) {
    int64_t head = (int64_t)(-(uintptr_t)dst & 63);
    if (bytes < 128 + head) {
        memcpy(dst, src, (size_t)bytes);
        return;
    }
    int64_t lines = (bytes - head) & ~(int64_t)63;
    memcpy(dst, src, (size_t)head);
    fk_stream_lines(dst + head, src + head, lines);
    memcpy(dst + head + lines, src + head + lines, (size_t)(bytes - head - lines));
}

/* square blocks of cache lines, transposed on the stack */
FK_LOCAL void fk_transpose_lines(int item, const char *src, int64_t src_stride, char *dst,
    int64_t dst_stride, int64_t rows, int64_t columns) {
    _Alignas(64) char block[64 * 64];
    int64_t width = 64 / item;
    for (int64_t r = 0; r < rows; r += width) {
        int64_t height = rows - r < width ? rows - r : width;
        for (int64_t c = 0; c < columns; c += width) {
            fk_transpose(
                item, src + c * src_stride + r * item, src_stride, block, 64, height, width);
            char *at = dst + r * dst_stride + c * item;
            for (int64_t k = 0; k < height; k++)
                fk_stream_lines(at + k * dst_stride, block + k * 64, 64);
        }
    }
}

/* dst[r][c] = src[c][r] past the cache, as far as whole lines go */
FK_LOCAL void fk_transpose_stream(int item, const char *src, int64_t src_stride, char *dst,
    int64_t dst_stride, int64_t rows, int64_t columns) {
    int64_t head = (int64_t)(-(uintptr_t)dst & 63) / item, width = 64 / item;
    if (dst_stride & 63 || (uintptr_t)dst % (uintptr_t)item || columns < head + width) {
        fk_transpose(item, src, src_stride, dst, dst_stride, rows, columns);
        return;
    }
    int64_t whole = (columns - head) / width * width, tail = head + whole;
    const char *from = src + head * src_stride;
    char *to = dst + head * item;
#if defined(__x86_64__)
    if (item == 4 && fk_has_avx512())
        fk_transpose_4_stream(from, src_stride, to, dst_stride, rows, whole);
    else if (item == 8 && fk_has_avx512())
        fk_transpose_8_stream(from, src_stride, to, dst_stride, rows, whole);
    else
#endif
        fk_transpose_lines(item, from, src_stride, to, dst_stride, rows, whole);
    if (head) fk_transpose(item, src, src_stride, dst, dst_stride, rows, head);
    if (tail < columns)
        fk_transpose(item, src + tail * src_stride, src_stride, dst + tail * item, dst_stride, rows,
            columns - tail);
}

/* `fk_copy_block` for a destination that is not to be cached, where there is such a way */
FK_LOCAL void fk_copy_block_stream(int item, const char *src, int64_t src_row, int64_t src_column,
    char *dst, int64_t dst_row, int64_t dst_column, int64_t rows, int64_t columns) {
    if (dst_column == item && src_column == item && columns * item >= 256) {
        for (int64_t r = 0; r < rows; r++)
            fk_copy_stream(dst + r * dst_row, src + r * src_row, columns * item);
    } else if (dst_column == item && src_row == item && rows > 1) {
        fk_transpose_stream(item, src, src_column, dst, dst_row, rows, columns);
    } else {
        fk_copy_block(item, src, src_row, src_column, dst, dst_row, dst_column, rows, columns);
    }
}
#endif
