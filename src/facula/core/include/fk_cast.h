/* Casts: every dtype of facula_abi.h to every other, n contiguous elements at a time.
 *
 * Takes: two dtype codes.
 * Gives: `fk_cast_get(from, to)`, a function that converts; `fk_itemsize`, `fk_dtype_names`;
 * scalar conversions of the half-width formats.
 * Keeps true: half-width floats round to nearest, ties to even; float8_e4m3fn has no infinity
 * and saturates at 448; integers wrap; floats truncate towards zero, and what fits no integer
 * gives the smallest one (as x86 does); everything that is not zero is true; a complex number
 * loses its imaginary part on the way to a real dtype. Source and destination may be the same
 * memory only when their item sizes are equal; they need no alignment beyond their element's.
 *
 * Narrow dtypes go through a hub (f32 for the half-width floats, i32 for small integers, c64 for
 * c32): direct loops exist between hubs, between a dtype and its hub, and for the hot pairs; the
 * rest is chained through small tiles. */
#ifndef FK_CAST_H
#define FK_CAST_H
#include "fk_base.h"
#include <stdint.h>
#include <string.h>
#include "facula_abi.h"

typedef void (*fk_cast_fn)(const char *src, char *dst, int64_t n);

static const uint8_t fk_itemsize[FK_DTYPES]
    __attribute__((unused)) = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1, 8, 16, 4, 2, 4, 8, 1, 1, 1, 1};
static const char *const fk_dtype_names[FK_DTYPES]
    __attribute__((unused)) = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "b8",
        "c64", "c128", "c32", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f8e4m3z", "f8e5m2z"};

typedef struct {
    float re, im;
} fk_c64;
typedef struct {
    double re, im;
} fk_c128;
typedef struct {
    uint16_t re, im;
} fk_c32;

/* C types by code name */
typedef float fk_t_f32;
typedef double fk_t_f64;
typedef uint16_t fk_t_f16;
typedef uint16_t fk_t_bf16;
typedef int64_t fk_t_i64;
typedef int32_t fk_t_i32;
typedef int16_t fk_t_i16;
typedef int8_t fk_t_i8;
typedef uint8_t fk_t_u8;
typedef uint8_t fk_t_b8;
typedef fk_c64 fk_t_c64;
typedef fk_c128 fk_t_c128;
typedef fk_c32 fk_t_c32;
typedef uint16_t fk_t_u16;
typedef uint32_t fk_t_u32;
typedef uint64_t fk_t_u64;
typedef uint8_t fk_t_f8e4m3;
typedef uint8_t fk_t_f8e5m2;
typedef uint8_t fk_t_f8e4m3z;
typedef uint8_t fk_t_f8e5m2z;

/* ---- half-width floats, branch-free so that loops vectorise ---- */

FK_INLINE float fk_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
FK_INLINE uint32_t fk_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

FK_INLINE float fk_bf16_f32(uint16_t value) { return fk_float_of_bits((uint32_t)value << 16); }

FK_INLINE uint16_t fk_f32_bf16(float value) {
    uint32_t bits = fk_bits_of_float(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* A format of `mantissa` bits and the exponent range of f16, widened: multiplying by a power of two
 * places the exponent and normalises subnormals in one step. */
FK_INLINE float fk_f16_f32(uint16_t value) {
    uint32_t magnitude = (uint32_t)(value & 0x7fff) << 13, sign = (uint32_t)(value & 0x8000) << 16;
    uint32_t scaled = fk_bits_of_float(fk_float_of_bits(magnitude) * 0x1p112f);
    uint32_t special = magnitude | 0x7f800000;
    return fk_float_of_bits((magnitude >= 0x0f800000 ? special : scaled) | sign);
}

FK_INLINE uint16_t fk_f32_f16(float value) {
    uint32_t bits = fk_bits_of_float(value), magnitude = bits & 0x7fffffff,
             sign = bits >> 16 & 0x8000;
    uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* adding 0.5 puts the unit of the smallest subnormal in the last place: the adder rounds */
    uint32_t subnormal = fk_bits_of_float(fk_float_of_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t result = magnitude < 0x38800000 ? subnormal : normal;
    result = magnitude >= 0x477ff000 ? 0x7c00 : result;
    result = magnitude > 0x7f800000 ? 0x7e00 : result;
    return (uint16_t)(result | sign);
}

FK_INLINE float fk_f8e5m2_f32(uint8_t value) { return fk_f16_f32((uint16_t)(value << 8)); }

FK_INLINE uint8_t fk_f32_f8e5m2(float value) {
    uint32_t bits = fk_bits_of_float(value), magnitude = bits & 0x7fffffff,
             sign = bits >> 24 & 0x80;
    uint32_t normal = (magnitude - 0x38000000 + 0xfffff + (magnitude >> 21 & 1)) >> 21;
    uint32_t subnormal = fk_bits_of_float(fk_float_of_bits(magnitude) + 128.0f) - 0x43000000;
    uint32_t result = magnitude < 0x38800000 ? subnormal : normal;
    result = magnitude >= 0x47700000 ? 0x7c : result;
    result = magnitude > 0x7f800000 ? 0x7f : result;
    return (uint8_t)(result | sign);
}

FK_INLINE float fk_f8e4m3_f32(uint8_t value) {
    uint32_t magnitude = (uint32_t)(value & 0x7f) << 20, sign = (uint32_t)(value & 0x80) << 24;
    uint32_t scaled = fk_bits_of_float(fk_float_of_bits(magnitude) * 0x1p120f);
    return fk_float_of_bits((magnitude == 0x07f00000 ? 0x7fc00000 : scaled) | sign);
}

FK_INLINE uint8_t fk_f32_f8e4m3(float value) {
    uint32_t bits = fk_bits_of_float(value), magnitude = bits & 0x7fffffff,
             sign = bits >> 24 & 0x80;
    uint32_t normal = (magnitude - 0x3c000000 + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    uint32_t subnormal = fk_bits_of_float(fk_float_of_bits(magnitude) + 16384.0f) - 0x46800000;
    uint32_t result = magnitude < 0x3c800000 ? subnormal : normal;
    result = magnitude > 0x43e00000 ? 0x7e : result; /* saturates at 448, infinity too */
    result = magnitude > 0x7f800000 ? 0x7f : result;
    return (uint8_t)(result | sign);
}

/* The forms of one zero: 0x80 is not a number, there is no infinity, and the exponent's bias is one
 * more. What rounds beyond the largest number is not a number. */
FK_INLINE float fk_f8e4m3z_f32(uint8_t value) {
    uint32_t magnitude = (uint32_t)(value & 0x7f) << 20, sign = (uint32_t)(value & 0x80) << 24;
    uint32_t scaled = fk_bits_of_float(fk_float_of_bits(magnitude) * 0x1p119f) | sign;
    return fk_float_of_bits(value == 0x80 ? 0x7fc00000 : scaled);
}

FK_INLINE uint8_t fk_f32_f8e4m3z(float value) {
    uint32_t bits = fk_bits_of_float(value), magnitude = bits & 0x7fffffff,
             sign = bits >> 24 & 0x80;
    uint32_t normal = (magnitude - 0x3b800000 + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    uint32_t subnormal = fk_bits_of_float(fk_float_of_bits(magnitude) + 8192.0f) - 0x46000000;
    uint32_t result = magnitude < 0x3c000000 ? subnormal : normal;
    result = result ? result | sign : 0;
    return (uint8_t)(magnitude >= 0x43780000 ? 0x80 : result);
}

FK_INLINE float fk_f8e5m2z_f32(uint8_t value) {
    uint32_t magnitude = (uint32_t)(value & 0x7f) << 21, sign = (uint32_t)(value & 0x80) << 24;
    uint32_t scaled = fk_bits_of_float(fk_float_of_bits(magnitude) * 0x1p111f) | sign;
    return fk_float_of_bits(value == 0x80 ? 0x7fc00000 : scaled);
}

FK_INLINE uint8_t fk_f32_f8e5m2z(float value) {
    uint32_t bits = fk_bits_of_float(value), magnitude = bits & 0x7fffffff,
             sign = bits >> 24 & 0x80;
    uint32_t normal = (magnitude - 0x37800000 + 0xfffff + (magnitude >> 21 & 1)) >> 21;
    uint32_t subnormal = fk_bits_of_float(fk_float_of_bits(magnitude) + 64.0f) - 0x42800000;
    uint32_t result = magnitude < 0x38000000 ? subnormal : normal;
    result = result ? result | sign : 0;
    return (uint8_t)(magnitude >= 0x47700000 ? 0x80 : result);
}

/* ---- float to integer without undefined behaviour ---- */

FK_INLINE int32_t fk_f32_i32(float x) {
    return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}
FK_INLINE int32_t fk_f64_i32(double x) {
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}
FK_INLINE int64_t fk_f32_i64(float x) {
    return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}
FK_INLINE int64_t fk_f64_i64(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
FK_INLINE uint64_t fk_f64_u64(double x) {
    return x >= 0x1p63 ? (uint64_t)fk_f64_i64(x - 0x1p63) ^ (uint64_t)1 << 63
                       : (uint64_t)fk_f64_i64(x);
}
FK_INLINE fk_c64 fk_pair_c64(float re, float im) {
    fk_c64 z = {re, im};
    return z;
}
FK_INLINE fk_c128 fk_pair_c128(double re, double im) {
    fk_c128 z = {re, im};
    return z;
}

/* ---- the direct pairs: X(from, to, expression in x) ----
 * HOT ones are compiled for several instruction sets. */

#define FK_HOT_CASTS(X)                                                                           \
    X(f32, f64, (double)x)                                                                        \
    X(f64, f32, (float)x) X(f32, f16, fk_f32_f16(x)) X(f16, f32, fk_f16_f32(x))                   \
        X(f32, bf16, fk_f32_bf16(x)) X(bf16, f32, fk_bf16_f32(x)) X(f32, i64, fk_f32_i64(x))      \
            X(i64, f32, (float)x) X(f32, i32, fk_f32_i32(x)) X(i32, f32, (float)x)                \
                X(f32, u8, (uint8_t)fk_f32_i32(x)) X(u8, f32, (float)x) X(f32, b8, x != 0) X(     \
                    b8, f32, (float)(x != 0)) X(f64, i64, fk_f64_i64(x)) X(i64, f64, (double)x)   \
                    X(i64, i32, (int32_t)x) X(i32, i64, (int64_t)x) X(b8, i64, (int64_t)(x != 0)) \
                        X(i64, b8, x != 0) X(b8, i32, (int32_t)(x != 0)) X(i32, b8, x != 0)       \
                            X(u8, i32, (int32_t)x) X(i32, u8, (uint8_t)x) X(u8, b8, x != 0)       \
                                X(b8, u8, (uint8_t)(x != 0)) X(i8, i32, (int32_t)x)               \
                                    X(i32, i8, (int8_t)x) X(i16, i32, (int32_t)x)                 \
                                        X(i32, i16, (int16_t)x) X(f32, f8e4m3, fk_f32_f8e4m3(x))  \
                                            X(f8e4m3, f32, fk_f8e4m3_f32(x))                      \
                                                X(f32, f8e5m2, fk_f32_f8e5m2(x))                  \
                                                    X(f8e5m2, f32, fk_f8e5m2_f32(x))                  \
                                                        X(f32, f8e4m3z, fk_f32_f8e4m3z(x))        \
                                                            X(f8e4m3z, f32, fk_f8e4m3z_f32(x))    \
                                                                X(f32, f8e5m2z, fk_f32_f8e5m2z(x)) \
                                                                    X(f8e5m2z, f32, fk_f8e5m2z_f32(x))

#define FK_PLAIN_CASTS(X)                                                                          \
    X(f32, u64, fk_f64_u64((double)x))                                                             \
    X(f32, c64, fk_pair_c64(x, 0)) X(f32, c128, fk_pair_c128((double)x, 0)) X(f64, i32,            \
        fk_f64_i32(x)) X(f64, u64, fk_f64_u64(x)) X(f64, c64, fk_pair_c64((float)x, 0)) X(f64,     \
        c128, fk_pair_c128(x, 0)) X(f64, u8, (uint8_t)fk_f64_i64(x)) X(f64, u32,                   \
        (uint32_t)fk_f64_i64(x)) X(i64, u64, (uint64_t)x) X(i64, c64, fk_pair_c64((float)x, 0))    \
        X(i64, c128, fk_pair_c128((double)x, 0)) X(i64, u32, (uint32_t)x) X(u32, i64, (int64_t)x)  \
            X(u32, f32, (float)x) X(u32, f64, (double)x) X(f32, u32, (uint32_t)fk_f32_i64(x)) X(   \
                u32, i32, (int32_t)x) X(i32, u32, (uint32_t)x) X(u32, u64, (uint64_t)x) X(u64,     \
                u32, (uint32_t)x) X(u32, b8, x != 0) X(b8, u32, (uint32_t)(x != 0)) X(i32, f64,    \
                (double)x) X(i32, u64, (uint64_t)(int64_t)x) X(i32, c64, fk_pair_c64((float)x, 0)) \
                X(i32, c128, fk_pair_c128((double)x, 0)) X(u64, f32, (float)x) X(u64, f64,         \
                    (double)x) X(u64, i64, (int64_t)x) X(u64, i32, (int32_t)x) X(u64,              \
                    c64, fk_pair_c64((float)x, 0)) X(u64, c128, fk_pair_c128((double)x, 0)) X(c64, \
                    f32, x.re) X(c64, f64, (double)x.re) X(c64, i64, fk_f32_i64(x.re))             \
                    X(c64, i32, fk_f32_i32(x.re)) X(c64, u64, fk_f64_u64((double)x.re)) X(c128,    \
                        f32,                                                                       \
                        (float)x.re) X(c128, f64, x.re) X(c128, i64, fk_f64_i64(x.re))             \
                        X(c128, i32, fk_f64_i32(x.re)) X(c128, u64, fk_f64_u64(x.re))              \
                            X(c128, u8, (uint8_t)fk_f64_i64(x.re)) X(u16, i32, (int32_t)x) X(      \
                                i32, u16, (uint16_t)x) X(u16, b8, x != 0) X(i16, b8, x != 0)       \
                                X(i8, b8, x != 0) X(f64, b8, x != 0) X(b8, f64, (double)(x != 0))  \
                                    X(u64, b8, x != 0) X(b8, u64, (uint64_t)(x != 0))              \
                                        X(c64, b8, (x.re != 0) | (x.im != 0))                      \
                                            X(b8, c64, fk_pair_c64((float)(x != 0), 0))            \
                                                X(c128, b8, (x.re != 0) | (x.im != 0))             \
                                                    X(b8, c128, fk_pair_c128((double)(x != 0), 0))

#define FK_CAST_LOOP(from, to, expression)                                     \
    static void fk_cast_##from##_##to(const char *src, char *dst, int64_t n) { \
        const fk_t_##from *in = (const fk_t_##from *)src;                      \
        fk_t_##to *out = (fk_t_##to *)dst;                                     \
        for (int64_t i = 0; i < n; i++) {                                      \
            const fk_t_##from x = in[i];                                       \
            out[i] = expression;                                               \
        }                                                                      \
    }

FK_VECTORIZE_BEGIN
#define FK_CAST_HOT(from, to, expression) FK_CLONES FK_CAST_LOOP(from, to, expression)
FK_HOT_CASTS(FK_CAST_HOT)
FK_PLAIN_CASTS(FK_CAST_LOOP)
FK_VECTORIZE_END

/* complex to complex: twice as many reals */
#define FK_COMPLEX_CASTS(X) \
    X(c64, c128, f32, f64) X(c128, c64, f64, f32) X(c32, c64, f16, f32) X(c64, c32, f32, f16)
#define FK_CAST_PARTS(from, to, from_part, to_part)                            \
    static void fk_cast_##from##_##to(const char *src, char *dst, int64_t n) { \
        fk_cast_##from_part##_##to_part(src, dst, 2 * n);                      \
    }
FK_COMPLEX_CASTS(FK_CAST_PARTS)

#define FK_CODE_f32 FK_F32
#define FK_CODE_f64 FK_F64
#define FK_CODE_f16 FK_F16
#define FK_CODE_bf16 FK_BF16
#define FK_CODE_i64 FK_I64
#define FK_CODE_i32 FK_I32
#define FK_CODE_i16 FK_I16
#define FK_CODE_i8 FK_I8
#define FK_CODE_u8 FK_U8
#define FK_CODE_b8 FK_B8
#define FK_CODE_c64 FK_C64
#define FK_CODE_c128 FK_C128
#define FK_CODE_c32 FK_C32
#define FK_CODE_u16 FK_U16
#define FK_CODE_u32 FK_U32
#define FK_CODE_u64 FK_U64
#define FK_CODE_f8e4m3 FK_F8E4M3
#define FK_CODE_f8e5m2 FK_F8E5M2
#define FK_CODE_f8e4m3z FK_F8E4M3Z
#define FK_CODE_f8e5m2z FK_F8E5M2Z

#define FK_CAST_COPY(bytes)                                                   \
    static void fk_cast_copy_##bytes(const char *src, char *dst, int64_t n) { \
        memmove(dst, src, (size_t)n * bytes);                                 \
    }
FK_CAST_COPY(1)
FK_CAST_COPY(2)
FK_CAST_COPY(4)
FK_CAST_COPY(8)
FK_CAST_COPY(16)

#define FK_CAST_ENTRY(from, to, ...) [FK_CODE_##from][FK_CODE_##to] = fk_cast_##from##_##to,
static const fk_cast_fn fk_cast_direct[FK_DTYPES][FK_DTYPES] = {
    FK_HOT_CASTS(FK_CAST_ENTRY) FK_PLAIN_CASTS(FK_CAST_ENTRY) FK_COMPLEX_CASTS(FK_CAST_ENTRY)};

/* ---- the chained pairs ---- */

static const uint8_t fk_cast_hub[FK_DTYPES] = {[FK_F32] = FK_F32,
    [FK_F64] = FK_F64,
    [FK_F16] = FK_F32,
    [FK_BF16] = FK_F32,
    [FK_I64] = FK_I64,
    [FK_I32] = FK_I32,
    [FK_I16] = FK_I32,
    [FK_I8] = FK_I32,
    [FK_U8] = FK_I32,
    [FK_B8] = FK_I32,
    [FK_C64] = FK_C64,
    [FK_C128] = FK_C128,
    [FK_C32] = FK_C64,
    [FK_U16] = FK_I32,
    [FK_U32] = FK_I64,
    [FK_U64] = FK_U64,
    [FK_F8E4M3] = FK_F32,
    [FK_F8E5M2] = FK_F32,
    [FK_F8E4M3Z] = FK_F32,
    [FK_F8E5M2Z] = FK_F32};

/* from -> its hub -> the hub of to -> to; a step that is no change is left out, a direct shortcut
 * is taken */
FK_COLD int fk_cast_plan(int from, int to, fk_cast_fn steps[3]) {
    int count = 0, at = from;
    while (at != to) {
        int next = fk_cast_direct[at][to]  ? to
                   : at != fk_cast_hub[at] ? fk_cast_hub[at]
                                           : fk_cast_hub[to];
        steps[count++] = fk_cast_direct[at][next];
        at = next;
    }
    return count;
}

static __attribute__((noinline)) void fk_cast_chain(
    const char *src, char *dst, int64_t n, int from, int to) {
    enum { TILE = 256 };
    _Alignas(64) char buffer[2][TILE * 16];
    fk_cast_fn steps[3];
    int count = fk_cast_plan(from, to, steps);
    int64_t in_bytes = fk_itemsize[from], out_bytes = fk_itemsize[to];
    for (int64_t start = 0; start < n; start += TILE) {
        int64_t length = n - start < TILE ? n - start : TILE;
        const char *at = src + start * in_bytes;
        for (int k = 0; k < count; k++) {
            char *next = k == count - 1 ? dst + start * out_bytes : buffer[k & 1];
            steps[k](at, next, length);
            at = next;
        }
    }
}

#define FK_EACH_DTYPE(X, from)                                                                    \
    X(from, f32)                                                                                  \
    X(from, f64) X(from, f16) X(from, bf16) X(from, i64) X(from, i32) X(from, i16) X(from, i8)    \
        X(from, u8) X(from, b8) X(from, c64) X(from, c128) X(from, c32) X(from, u16) X(from, u32) \
            X(from, u64) X(from, f8e4m3) X(from, f8e5m2) X(from, f8e4m3z) X(from, f8e5m2z)
#define FK_EACH_PAIR(X)                                                                       \
    FK_EACH_DTYPE(X, f32)                                                                     \
    FK_EACH_DTYPE(X, f64) FK_EACH_DTYPE(X, f16) FK_EACH_DTYPE(X, bf16) FK_EACH_DTYPE(X, i64)  \
        FK_EACH_DTYPE(X, i32) FK_EACH_DTYPE(X, i16) FK_EACH_DTYPE(X, i8) FK_EACH_DTYPE(X, u8) \
            FK_EACH_DTYPE(X, b8) FK_EACH_DTYPE(X, c64) FK_EACH_DTYPE(X, c128)                 \
                FK_EACH_DTYPE(X, c32) FK_EACH_DTYPE(X, u16) FK_EACH_DTYPE(X, u32)             \
                    FK_EACH_DTYPE(X, u64) FK_EACH_DTYPE(X, f8e4m3) FK_EACH_DTYPE(X, f8e5m2)   \
                        FK_EACH_DTYPE(X, f8e4m3z) FK_EACH_DTYPE(X, f8e5m2z)

#define FK_CHAIN(from, to)                                                      \
    static void fk_chain_##from##_##to(const char *src, char *dst, int64_t n) { \
        fk_cast_chain(src, dst, n, FK_CODE_##from, FK_CODE_##to);               \
    }
FK_EACH_PAIR(FK_CHAIN)
#define FK_CHAIN_ENTRY(from, to) [FK_CODE_##from][FK_CODE_##to] = fk_chain_##from##_##to,
static const fk_cast_fn fk_cast_chained[FK_DTYPES][FK_DTYPES] = {FK_EACH_PAIR(FK_CHAIN_ENTRY)};

/* The conversion between two dtype codes; a plain copy when they are equal; NULL for a code out of
 * range. */
FK_LOCAL fk_cast_fn fk_cast_get(int from, int to) {
    if ((unsigned)from >= FK_DTYPES || (unsigned)to >= FK_DTYPES) return NULL;
    if (from == to) {
        switch (fk_itemsize[from]) {
        case 1: return fk_cast_copy_1;
        case 2: return fk_cast_copy_2;
        case 4: return fk_cast_copy_4;
        case 8: return fk_cast_copy_8;
        default: return fk_cast_copy_16;
        }
    }
    fk_cast_fn direct = fk_cast_direct[from][to];
    return direct ? direct : fk_cast_chained[from][to];
}
#endif
