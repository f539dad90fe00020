/* Numbers of a Mersenne twister, as PyTorch makes them on x86 with AVX2 and FMA.
 *
 * Takes: words of a twister, 1024 numbers at a time.
 * Gives: uniform and normal numbers in single and double precision.
 * Keeps true: every operation, its order and its rounding are PyTorch's, so that numbers are equal
 * bit for bit: a product that is added goes through `fma` exactly where it does there, and the
 * compiler joins none by itself. A loop of vectors gives the same as one without. */
#ifndef FK_TWISTER_TILES_H
#define FK_TWISTER_TILES_H
#include "fk_random.h"
#include "fk_twister.h"

enum { FK_TWISTER_TILE = 1024, FK_TWISTER_GROUP = 16 };

#if defined(__GNUC__) && !defined(__clang__)
#define FK_ROUNDED_BEGIN        \
    _Pragma("GCC push_options") \
        _Pragma("GCC optimize(\"O3\", \"no-trapping-math\", \"no-math-errno\", \"fp-contract=off\")")
#define FK_ROUNDED_END _Pragma("GCC pop_options")
#else
#define FK_ROUNDED_BEGIN _Pragma("STDC FP_CONTRACT OFF")
#define FK_ROUNDED_END
#endif

FK_ROUNDED_BEGIN
/* ---- uniform ---- */

/* in [0, 1): the lower 24 bits of a word, the lower 53 of two */
FK_CLONES static void fk_unit_tile_float(
    const uint32_t *restrict word, float *restrict out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)(int32_t)(word[i] & 0xffffff) * 0x1p-24f;
}
FK_CLONES static void fk_unit_tile_double(
    const uint32_t *restrict word, double *restrict out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)(word[2 * i] & 0x1fffff) << 32 | word[2 * i + 1];
        out[i] = (double)(int64_t)bits * 0x1p-53;
    }
}
/* from [0, 1) to [low, high): what rounding took to the open end becomes the closed one */
FK_CLONES static void fk_spread_tile_float(float *x, int64_t n, float low, float high) {
    float span = high - low;
    for (int64_t i = 0; i < n; i++) {
        float y = __builtin_fmaf(x[i], span, low);
        x[i] = y == high ? low : y;
    }
}
FK_CLONES static void fk_spread_tile_double(double *x, int64_t n, double low, double high) {
    double span = high - low;
    for (int64_t i = 0; i < n; i++) {
        double y = __builtin_fma(x[i], span, low);
        x[i] = y == high ? low : y;
    }
}
/* whether a number in [0, 1) lies below p */
FK_CLONES static void fk_below_tile(
    const uint32_t *restrict word, uint8_t *restrict out, int64_t n, double p) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)(word[2 * i] & 0x1fffff) << 32 | word[2 * i + 1];
        out[i] = (double)(int64_t)bits * 0x1p-53 < p;
    }
}

/* ---- normal, by groups of 16: eight radii, eight angles ---- */

/* the logarithm of a number that is not subnormal, as Cephes has it */
FK_INLINE float fk_cephes_log(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    float exponent = (float)((int32_t)(bits >> 23) - 126);
    bits = (bits & 0x7fffffu) | 0x3f000000u;
    memcpy(&x, &bits, 4);
    int below = x < 0.707106781186547524f;
    float twice = below ? x : 0.0f;
    exponent -= below ? 1.0f : 0.0f;
    x = x - 1.0f + twice;
    float square = x * x, y = 7.0376836292e-2f;
    y = __builtin_fmaf(y, x, -1.1514610310e-1f);
    y = __builtin_fmaf(y, x, 1.1676998740e-1f);
    y = __builtin_fmaf(y, x, -1.2420140846e-1f);
    y = __builtin_fmaf(y, x, 1.4249322787e-1f);
    y = __builtin_fmaf(y, x, -1.6668057665e-1f);
    y = __builtin_fmaf(y, x, 2.0000714765e-1f);
    y = __builtin_fmaf(y, x, -2.4999993993e-1f);
    y = __builtin_fmaf(y, x, 3.3333331174e-1f);
    y = __builtin_fmaf(y * x, square, exponent * -2.12194440e-4f);
    y = __builtin_fmaf(square, -0.5f, y);
    return __builtin_fmaf(exponent, 0.693359375f, x + y);
}

/* sine and cosine of an angle that is not negative, as Cephes has them */
FK_INLINE void fk_cephes_sincos(float x, float *sine, float *cosine) {
    int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)octant;
    x = __builtin_fmaf(y, -0.78515625f, x);
    x = __builtin_fmaf(y, -2.4187564849853515625e-4f, x);
    x = __builtin_fmaf(y, -3.77489497744594108e-8f, x);
    float square = x * x;
    float c = __builtin_fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f);
    c = __builtin_fmaf(c, square, 4.166664568298827e-2f) * square;
    c = __builtin_fmaf(c, square, square * -0.5f) + 1.0f;
    float s = __builtin_fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f);
    s = __builtin_fmaf(s, square, -1.6666654611e-1f) * square;
    s = __builtin_fmaf(s, x, x);
    uint32_t s_bits, c_bits, odd = 0u - ((uint32_t)octant >> 1 & 1u);
    memcpy(&s_bits, &s, 4), memcpy(&c_bits, &c, 4);
    uint32_t a = (s_bits & ~odd) | (c_bits & odd), b = (c_bits & ~odd) | (s_bits & odd);
    a ^= ((uint32_t)octant & 4u) << 29;
    b ^= (~((uint32_t)octant - 2u) & 4u) << 29;
    memcpy(sine, &a, 4), memcpy(cosine, &b, 4);
}

/* squares of radii out of uniform numbers, in place */
FK_CLONES static void fk_radii_tile(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = -2.0f * fk_cephes_log(1.0f - x[i]);
}
/* the pairs of radii and parts of a turn, in place */
FK_CLONES static void fk_points_tile(
    float *restrict radius, float *restrict turn, int64_t n, float mean, float std) {
    for (int64_t i = 0; i < n; i++) {
        float length = radius[i], sine, cosine;
        fk_cephes_sincos(6.283185307179586476925f * turn[i], &sine, &cosine);
        radius[i] = __builtin_fmaf(length * cosine, std, mean);
        turn[i] = __builtin_fmaf(length * sine, std, mean);
    }
}
FK_ROUNDED_END

/* `n` numbers, whole groups of at most a tile, in place of uniform ones */
FK_LOCAL void fk_pairs_tile_float(float *x, int64_t n, float mean, float std) {
    _Alignas(64) float radius[FK_TWISTER_TILE / 2], turn[FK_TWISTER_TILE / 2];
    for (int64_t i = 0; i < n; i += FK_TWISTER_GROUP) {
        memcpy(radius + i / 2, x + i, 32);
        memcpy(turn + i / 2, x + i + 8, 32);
    }
    fk_radii_tile(radius, n / 2);
    fk_roots_float(radius, n / 2);
    fk_points_tile(radius, turn, n / 2, mean, std);
    for (int64_t i = 0; i < n; i += FK_TWISTER_GROUP) {
        memcpy(x + i, radius + i / 2, 32);
        memcpy(x + i + 8, turn + i / 2, 32);
    }
}

/* in double precision PyTorch asks the C library, and so does this */
FK_LOCAL void fk_pairs_tile_double(double *x, int64_t n, double mean, double std) {
    for (int64_t group = 0; group < n; group += FK_TWISTER_GROUP)
        for (double *at = x + group; at < x + group + 8; at++) {
            double radius = sqrt(-2.0 * log(1.0 - at[0]));
            double angle = 2.0 * 3.14159265358979323846 * at[8];
            at[0] = fma(radius * cos(angle), std, mean);
            at[8] = fma(radius * sin(angle), std, mean);
        }
}
#endif
