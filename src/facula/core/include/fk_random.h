/* Random numbers: Philox4x32-10 by (seed, offset, element index).
 *
 * Takes: the address of n adjacent elements, a dtype code, the distribution's parameters, seed
 * and offset.
 * Gives: uniform, normal, log-normal, exponential, Cauchy, geometric, Bernoulli, integers of a
 * range, permutations.
 * Keeps true: element i is a function of (seed, offset, i), the distribution and the dtype
 * alone: neither the number of threads nor the cut into tiles shows. One call uses up one
 * offset: whoever keeps the generator's state adds 1 to it after each call. Functions return 0,
 * -1 when there is no such distribution for the dtype, or -2 without memory.
 *
 * The counter is (index, offset), the key the seed.  32-bit draws: element i takes word i % 4 of
 * counter i / 4; 64-bit draws: words 2 (i % 2) and the next of counter i / 2.  Floats are
 * computed in float, doubles in double; both parts of a complex number are elements of their
 * own. [Salmon et al. 2011] */
#ifndef FK_RANDOM_H
#define FK_RANDOM_H
#include "fk_base.h"
#include <math.h>
#include "facula_abi.h"
#include "fk_block.h"
#include "fk_cast.h"
#include "fk_pool.h"

enum { FK_RANDOM_TILE = 1024, FK_RANDOM_GRAIN = 8 };

/* ---- the generator ---- */

#define FK_PHILOX_ROUNDS(c0, c1, c2, c3, k0, k1)                                       \
    _Pragma("GCC unroll 10") for (int round = 0; round < 10; round++) {                \
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;       \
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ (k0 + (uint32_t)round * 0x9E3779B9u); \
        uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ (k1 + (uint32_t)round * 0xBB67AE85u); \
        c1 = (uint32_t)b, c3 = (uint32_t)a, c0 = n0, c2 = n2;                          \
    }

/* The four words of one counter. */
FK_LOCAL void fk_philox(uint64_t seed, uint64_t offset, uint64_t index, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)offset,
             c3 = (uint32_t)(offset >> 32);
    FK_PHILOX_ROUNDS(c0, c1, c2, c3, (uint32_t)seed, (uint32_t)(seed >> 32))
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

typedef void (*fk_philox_fn)(
    uint64_t seed, uint64_t offset, uint64_t index, uint32_t *out, int64_t count);

static void fk_philox_fill_plain(
    uint64_t seed, uint64_t offset, uint64_t index, uint32_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) fk_philox(seed, offset, index + (uint64_t)i, out + 4 * i);
}

FK_VECTORIZE_BEGIN
#if defined(__x86_64__)
/* W counters at a time: every word has a 64-bit lane, of which the upper half may hold rubbish,
 * since `multiply` looks at the lower halves only.  (Plain C ends in 64-bit multiplications, which
 * cost three times as much.) */
#define FK_PHILOX_FILL(name, W, target, multiply, native)                                   \
    target static void name(                                                                \
        uint64_t seed, uint64_t offset, uint64_t index, uint32_t *out, int64_t count) {     \
        typedef uint64_t vector __attribute__((vector_size(8 * W)));                        \
        vector lane, lower = (vector){0} + 0xffffffffu, m0 = (vector){0} + 0xD2511F53u,     \
                     m1 = (vector){0} + 0xCD9E8D57u;                                        \
        for (int k = 0; k < W; k++) lane[k] = (uint64_t)k;                                  \
        int64_t whole = count & ~(int64_t)(W - 1);                                          \
        for (int64_t i = 0; i < whole; i += W) {                                            \
            vector c0 = lane + (index + (uint64_t)i), c1 = c0 >> 32;                        \
            vector c2 = (vector){0} + offset, c3 = (vector){0} + (offset >> 32);            \
            _Pragma("GCC unroll 10") for (uint64_t round = 0; round < 10; round++) {        \
                vector a = (vector)multiply((native)c0, (native)m0),                        \
                       b = (vector)multiply((native)c2, (native)m1);                        \
                c0 = (b >> 32) ^ c1 ^ ((vector){0} + (seed + round * 0x9E3779B9u));         \
                c2 = (a >> 32) ^ c3 ^ ((vector){0} + ((seed >> 32) + round * 0xBB67AE85u)); \
                c1 = b, c3 = a;                                                             \
            }                                                                               \
            vector first = (c0 & lower) | c1 << 32, second = (c2 & lower) | c3 << 32;       \
            vector low = __builtin_shufflevector(first, second, FK_INTERLEAVE_LOW_##W);     \
            vector high = __builtin_shufflevector(first, second, FK_INTERLEAVE_HIGH_##W);   \
            memcpy(out + 4 * i, &low, sizeof low);                                          \
            memcpy(out + 4 * i + 2 * W, &high, sizeof high);                                \
        }                                                                                   \
        fk_philox_fill_plain(                                                               \
            seed, offset, index + (uint64_t)whole, out + 4 * whole, count - whole);         \
    }
FK_PHILOX_FILL(fk_philox_fill_sse2, 2, , _mm_mul_epu32, __m128i)
FK_PHILOX_FILL(fk_philox_fill_avx2, 4, FK_AVX2, _mm256_mul_epu32, __m256i)
FK_PHILOX_FILL(fk_philox_fill_avx512, 8, FK_AVX512, _mm512_mul_epu32, __m512i)
#endif

FK_COLD fk_philox_fn fk_philox_choose(void) {
#if defined(__x86_64__)
    if (fk_has_avx512()) return fk_philox_fill_avx512;
    return __builtin_cpu_supports("avx2") ? fk_philox_fill_avx2 : fk_philox_fill_sse2;
#else
    return fk_philox_fill_plain;
#endif
}

/* The words of `count` counters from `index` on. */
FK_LOCAL void fk_philox_fill(
    uint64_t seed, uint64_t offset, uint64_t index, uint32_t *out, int64_t count) {
    static fk_philox_fn fill;
    fk_philox_fn chosen = __atomic_load_n(&fill, __ATOMIC_RELAXED);
    if (FK_UNLIKELY(!chosen))
        __atomic_store_n(&fill, chosen = fk_philox_choose(), __ATOMIC_RELAXED);
    chosen(seed, offset, index, out, count);
}

/* ---- from words to numbers ---- */

FK_INLINE float fk_uniform_float(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }
FK_INLINE uint64_t fk_two_words(const uint32_t *word) { return (uint64_t)word[1] << 32 | word[0]; }
FK_INLINE double fk_uniform_double(uint64_t bits) {
    return (double)(int64_t)(bits >> 11) * 0x1p-53;
}

/* the open interval (0, 1): for logarithms; finer near 0, where the tail comes from */
FK_INLINE float fk_open_float(uint32_t word) {
    float x = (float)(int32_t)(word >> 1) * 0x1p-31f + 0x1p-33f;
    return x < 1 - 0x1p-24f ? x : 1 - 0x1p-24f;
}
FK_INLINE double fk_open_double(uint64_t bits) {
    double x = (double)(int64_t)(bits >> 1) * 0x1p-63 + 0x1p-65;
    return x < 1 - 0x1p-53 ? x : 1 - 0x1p-53;
}

/* log of a positive normal number: m 2^e with m around 1, then 2 atanh((m - 1) / (m + 1)) */
FK_INLINE float fk_log_float(float x) {
    uint32_t bits = fk_bits_of_float(x) - 0x3f3504f3;
    int32_t exponent = (int32_t)bits >> 23;
    float m = fk_float_of_bits((bits & 0x7fffff) + 0x3f3504f3);
    float s = (m - 1) / (m + 1), z = s * s;
    float series = z * (0.666666667f + z * (0.4f + z * (0.285714286f + z * 0.23f)));
    return (float)exponent * 0.693359375f +
           ((float)exponent * -2.12194440e-4f + (s * series + 2 * s));
}
FK_INLINE double fk_log_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    bits -= 0x3fe6a09e667f3bcd;
    double exponent = (double)(int32_t)((int64_t)bits >> 52), m;
    uint64_t mantissa = (bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd;
    memcpy(&m, &mantissa, 8);
    double s = (m - 1) / (m + 1), z = s * s, series = 2.0 / 23;
    _Pragma("GCC unroll 10") for (int k = 21; k >= 3; k -= 2) series = series * z + 2.0 / k;
    return exponent * 0x1.62e42fefa38p-1 +
           (exponent * 0x1.ef35793c7673p-45 + (s * (series * z) + 2 * s));
}

/* sine and cosine of `turn` full turns, turn in [0, 1): the nearest quarter turn is taken off
 * exactly */
#define FK_SINCOS_TURN(name, type, bits_type, int_type, sine_series, cosine_series)           \
    FK_INLINE void name(type turn, type *sine, type *cosine) {                                \
        int_type quarter = (int_type)(turn * 4 + (type)0.5);                                  \
        type x = (turn - (type)quarter * (type)0.25) * (type)6.283185307179586476925;         \
        type z = x * x;                                                                       \
        type s = x + x * z * (sine_series), c = 1 + z * (cosine_series);                      \
        bits_type s_bits, c_bits, odd = -(bits_type)(quarter & 1);                            \
        memcpy(&s_bits, &s, sizeof s), memcpy(&c_bits, &c, sizeof c);                         \
        bits_type a = (s_bits & ~odd) | (c_bits & odd), b = (c_bits & ~odd) | (s_bits & odd); \
        a ^= (bits_type)(quarter & 2) << (8 * sizeof(type) - 2);                              \
        b ^= (bits_type)((quarter + 1) & 2) << (8 * sizeof(type) - 2);                        \
        memcpy(sine, &a, sizeof a), memcpy(cosine, &b, sizeof b);                             \
    }
FK_SINCOS_TURN(fk_sincos_float, float, uint32_t, int32_t,
    -1.6666667e-1f + z * (8.3333333e-3f + z * (-1.9841270e-4f + z * 2.7557319e-6f)),
    -0.5f + z * (4.1666668e-2f + z * (-1.3888889e-3f + z * (2.4801587e-5f - z * 2.7557319e-7f))))
FK_SINCOS_TURN(fk_sincos_double, double, uint64_t, int64_t,
    -1.0 / 6 + z * (1.0 / 120 +
                       z * (-1.0 / 5040 + z * (1.0 / 362880 +
                                                  z * (-1.0 / 39916800 +
                                                          z * (1.0 / 6227020800 +
                                                                  z * (-1.0 / 1307674368000 +
                                                                          z / 355687428096000)))))),
    -0.5 +
        z * (1.0 / 24 + z * (-1.0 / 720 +
                                z * (1.0 / 40320 +
                                        z * (-1.0 / 3628800 +
                                                z * (1.0 / 479001600 +
                                                        z * (-1.0 / 87178291200 +
                                                                z * (1.0 / 20922789888000 -
                                                                        z / 6402373705728000))))))))

/* ---- tiles of one distribution: words in, numbers out; n even for the normal ones ---- */

FK_CLONES static void fk_uniform_tile_float(
    const uint32_t *word, float *out, int64_t n, double low, double high) {
    float base = (float)low, span = (float)(high - low), limit = (float)high;
    float last = limit > base ? nextafterf(limit, base) : base;
    for (int64_t i = 0; i < n; i++) {
        float x = fk_uniform_float(word[i]) * span + base;
        out[i] = x < limit ? x : last;
    }
}
FK_CLONES static void fk_uniform_tile_double(
    const uint32_t *word, double *out, int64_t n, double low, double high) {
    double span = high - low, last = high > low ? nextafter(high, low) : low;
    for (int64_t i = 0; i < n; i++) {
        double x = fk_uniform_double(fk_two_words(word + 2 * i)) * span + low;
        out[i] = x < high ? x : last;
    }
}
/* square roots in place; by hand, since a compiler that minds errno makes no vectors of the
 * library's */
#if defined(__x86_64__)
FK_LOCAL void fk_roots_float(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 4) _mm_store_ps(x + i, _mm_sqrt_ps(_mm_load_ps(x + i)));
}
FK_LOCAL void fk_roots_double(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 2) _mm_store_pd(x + i, _mm_sqrt_pd(_mm_load_pd(x + i)));
}
#else
FK_LOCAL void fk_roots_float(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = sqrtf(x[i]);
}
FK_LOCAL void fk_roots_double(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = sqrt(x[i]);
}
#endif

/* Box and Muller: one pair of draws makes one pair of numbers */
FK_CLONES static void fk_normal_tile_float(
    const uint32_t *word, float *out, int64_t n, double mean, double std) {
    _Alignas(64) float radius[FK_RANDOM_TILE / 2] = {0};
    float base = (float)mean, scale = (float)std;
    for (int64_t i = 0; i < n / 2; i++) radius[i] = -2 * fk_log_float(fk_open_float(word[2 * i]));
    fk_roots_float(radius, n / 2);
    for (int64_t i = 0; i < n / 2; i++) {
        float length = radius[i] * scale, sine, cosine;
        fk_sincos_float(fk_uniform_float(word[2 * i + 1]), &sine, &cosine);
        out[2 * i] = length * cosine + base;
        out[2 * i + 1] = length * sine + base;
    }
}
FK_CLONES static void fk_normal_tile_double(
    const uint32_t *word, double *out, int64_t n, double mean, double std) {
    _Alignas(64) double radius[FK_RANDOM_TILE / 2] = {0};
    for (int64_t i = 0; i < n / 2; i++)
        radius[i] = -2 * fk_log_double(fk_open_double(fk_two_words(word + 4 * i)));
    fk_roots_double(radius, n / 2);
    for (int64_t i = 0; i < n / 2; i++) {
        double length = radius[i] * std, sine, cosine;
        fk_sincos_double(fk_uniform_double(fk_two_words(word + 4 * i + 2)), &sine, &cosine);
        out[2 * i] = length * cosine + mean;
        out[2 * i + 1] = length * sine + mean;
    }
}
FK_CLONES static void fk_exponential_tile_float(
    const uint32_t *word, float *out, int64_t n, double rate, double unused) {
    float scale = (float)(-1 / rate);
    (void)unused;
    for (int64_t i = 0; i < n; i++) out[i] = fk_log_float(fk_open_float(word[i])) * scale;
}
FK_CLONES static void fk_exponential_tile_double(
    const uint32_t *word, double *out, int64_t n, double rate, double unused) {
    double scale = -1 / rate;
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        out[i] = fk_log_double(fk_open_double(fk_two_words(word + 2 * i))) * scale;
}
/* tan(pi (u - 1/2)) = -cos(pi u) / sin(pi u) */
FK_CLONES static void fk_cauchy_tile_double(
    const uint32_t *word, double *out, int64_t n, double median, double sigma) {
    for (int64_t i = 0; i < n; i++) {
        double sine, cosine;
        fk_sincos_double(0.5 * fk_open_double(fk_two_words(word + 2 * i)), &sine, &cosine);
        out[i] = median - sigma * (cosine / sine);
    }
}
/* the number of trials up to the first success: at least 1 */
FK_CLONES static void fk_geometric_tile_double(
    const uint32_t *word, double *out, int64_t n, double scale, double unused) {
    (void)unused;
    for (int64_t i = 0; i < n; i++) {
        double x =
            __builtin_ceil(fk_log_double(fk_open_double(fk_two_words(word + 2 * i))) * scale);
        out[i] = x > 1 ? x : 1;
    }
}
FK_VECTORIZE_END

static void fk_log_normal_tile_double(
    const uint32_t *word, double *out, int64_t n, double mean, double std) {
    fk_normal_tile_double(word, out, n, mean, std);
    for (int64_t i = 0; i < n; i++) out[i] = exp(out[i]);
}

typedef void (*fk_float_tile)(const uint32_t *word, float *out, int64_t n, double a, double b);
typedef void (*fk_double_tile)(const uint32_t *word, double *out, int64_t n, double a, double b);

typedef struct fk_random_job {
    char *out;
    int dtype; /* a complex dtype's part where the elements are parts */
    int64_t n;
    double a, b;
    uint64_t seed, offset;
    fk_float_tile float_tile; /* NULL: computed in double */
    fk_double_tile double_tile;
    fk_cast_fn cast;         /* NULL: the tile is written in place */
    uint64_t range;          /* of integers; 0: all 2^64 */
    const char *probability; /* of bernoulli: a tensor, or NULL */
    int probability_dtype;
    int below_high; /* uniform: the rounded value must stay below b */
} fk_random_job;

FK_INLINE int64_t fk_random_length(const fk_random_job *job, int64_t tile) {
    int64_t left = job->n - tile * FK_RANDOM_TILE;
    return left < FK_RANDOM_TILE ? left : FK_RANDOM_TILE;
}

/* the words of a tile, 1 or 2 per element, rounded up to whole counters */
FK_INLINE void fk_random_words(
    const fk_random_job *job, int64_t tile, int64_t length, int words, uint32_t *out) {
    fk_philox_fill(job->seed, job->offset, (uint64_t)tile * (FK_RANDOM_TILE / 4) * (uint64_t)words,
        out, (length * words + 3) / 4);
}

FK_LOCAL void fk_random_run(fk_body body, const fk_random_job *job) {
    char *p[1] = {(char *)(uintptr_t)job};
    fk_parallel(
        body, p, NULL, NULL, (job->n + FK_RANDOM_TILE - 1) / FK_RANDOM_TILE, FK_RANDOM_GRAIN);
}

/* ---- real distributions ---- */

/* Rounding to a narrow dtype may reach the open end: the largest value below takes its place.  Bit
 * patterns of a narrow float are ordered like its magnitude, so that one step is one unit. */
FK_LOCAL void fk_random_keep_below(const fk_random_job *job, char *out, int64_t n) {
    int item = fk_itemsize[job->dtype];
    uint32_t limit = 0, sign = item == 2 ? 0x8000 : 0x80;
    float high = (float)job->b;
    fk_cast_get(FK_F32, job->dtype)((const char *)&high, (char *)&limit, 1);
    uint32_t last = limit == 0 || limit == sign ? sign + 1 : limit & sign ? limit + 1 : limit - 1;
    uint32_t other = limit == 0 || limit == sign ? limit ^ sign : limit; /* the other zero */
    for (int64_t i = 0; i < n; i++) {
        if (item == 2) {
            uint16_t *at = (uint16_t *)(void *)out + i;
            if (*at == limit || *at == other) *at = (uint16_t)last;
        } else {
            uint8_t *at = (uint8_t *)out + i;
            if (*at == limit || *at == other) *at = (uint8_t)last;
        }
    }
}

static void fk_random_real_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    const fk_random_job *job = (const fk_random_job *)(const void *)p[0];
    _Alignas(64) uint32_t words[2 * FK_RANDOM_TILE];
    _Alignas(64) double tile[FK_RANDOM_TILE];
    int wide = !job->float_tile;
    for (int64_t t = begin; t < end; t++) {
        int64_t length = fk_random_length(job, t), even = (length + 1) & ~(int64_t)1;
        char *out = job->out + t * FK_RANDOM_TILE * fk_itemsize[job->dtype];
        void *to = job->cast || even != length ? (void *)tile : (void *)out;
        fk_random_words(job, t, even, wide ? 2 : 1, words);
        if (wide)
            job->double_tile(words, to, even, job->a, job->b);
        else
            job->float_tile(words, to, even, job->a, job->b);
        if (job->cast)
            job->cast((const char *)tile, out, length);
        else if (to != (void *)out)
            memcpy(out, tile, (size_t)(length * fk_itemsize[job->dtype]));
        if (job->below_high) fk_random_keep_below(job, out, length);
    }
}

/* complex numbers become twice as many reals; returns the real dtype */
FK_LOCAL int fk_random_parts(int dtype, int64_t *n) {
    int part = dtype == FK_C64    ? FK_F32
               : dtype == FK_C128 ? FK_F64
               : dtype == FK_C32  ? FK_F16
                                  : dtype;
    if (part != dtype) *n *= 2;
    return part;
}

FK_LOCAL int fk_is_float(int dtype) {
    return dtype == FK_F32 || dtype == FK_F64 || dtype == FK_F16 || dtype == FK_BF16 ||
           dtype == FK_F8E4M3 || dtype == FK_F8E5M2 || dtype == FK_F8E4M3Z || dtype == FK_F8E5M2Z;
}

FK_LOCAL void fk_random_real(
    fk_random_job *job, fk_float_tile float_tile, fk_double_tile double_tile) {
    job->double_tile = double_tile;
    job->float_tile = job->dtype == FK_F64 ? NULL : float_tile;
    int compute = job->float_tile ? FK_F32 : FK_F64;
    job->cast = job->dtype == compute ? NULL : fk_cast_get(compute, job->dtype);
    fk_random_run(fk_random_real_body, job);
}

/* Uniform in [low, high); both parts of a complex number are. */
FK_LOCAL int fk_random_uniform(
    char *out, int dtype, int64_t n, double low, double high, uint64_t seed, uint64_t offset) {
    fk_random_job job = {.out = out, .a = low, .b = high, .seed = seed, .offset = offset};
    job.dtype = fk_random_parts(dtype, &n);
    job.n = n;
    if (!fk_is_float(job.dtype)) return -1;
    job.below_high = fk_itemsize[job.dtype] < 4 && high > low;
    fk_random_real(&job, fk_uniform_tile_float, fk_uniform_tile_double);
    return 0;
}

/* Normal; a complex number's parts have half the variance each, and both the mean. */
FK_LOCAL int fk_random_normal(
    char *out, int dtype, int64_t n, double mean, double std, uint64_t seed, uint64_t offset) {
    int64_t parts = n;
    int part = fk_random_parts(dtype, &parts);
    fk_random_job job = {
        .out = out, .dtype = part, .n = parts, .a = mean, .b = std, .seed = seed, .offset = offset};
    if (!fk_is_float(part)) return -1;
    if (part != dtype) job.b = std * 0.70710678118654752440;
    fk_random_real(&job, fk_normal_tile_float, fk_normal_tile_double);
    return 0;
}

FK_LOCAL int fk_random_simple(char *out, int dtype, int64_t n, double a, double b, uint64_t seed,
    uint64_t offset, fk_float_tile float_tile, fk_double_tile double_tile) {
    fk_random_job job = {
        .out = out, .dtype = dtype, .n = n, .a = a, .b = b, .seed = seed, .offset = offset};
    if (!fk_is_float(dtype)) return -1;
    fk_random_real(&job, float_tile, double_tile);
    return 0;
}

/* exp of a normal number. */
FK_LOCAL int fk_random_log_normal(
    char *out, int dtype, int64_t n, double mean, double std, uint64_t seed, uint64_t offset) {
    return fk_random_simple(
        out, dtype, n, mean, std, seed, offset, NULL, fk_log_normal_tile_double);
}

/* Exponential of the given rate; never 0. */
FK_LOCAL int fk_random_exponential(
    char *out, int dtype, int64_t n, double rate, uint64_t seed, uint64_t offset) {
    return fk_random_simple(out, dtype, n, rate, 0, seed, offset, fk_exponential_tile_float,
        fk_exponential_tile_double);
}

FK_LOCAL int fk_random_cauchy(
    char *out, int dtype, int64_t n, double median, double sigma, uint64_t seed, uint64_t offset) {
    return fk_random_simple(
        out, dtype, n, median, sigma, seed, offset, NULL, fk_cauchy_tile_double);
}

/* Trials up to the first success of probability p, 0 < p <= 1; integer dtypes too. */
FK_LOCAL int fk_random_geometric(
    char *out, int dtype, int64_t n, double p, uint64_t seed, uint64_t offset) {
    fk_random_job job = {.out = out, .dtype = dtype, .n = n, .seed = seed, .offset = offset};
    if (dtype == FK_B8 || dtype == FK_C64 || dtype == FK_C128 || dtype == FK_C32) return -1;
    job.a = p < 1 ? 1 / log1p(-p) : 0;
    fk_random_real(&job, NULL, fk_geometric_tile_double);
    return 0;
}

/* ---- yes or no ---- */

static void fk_bernoulli_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    const fk_random_job *job = (const fk_random_job *)(const void *)p[0];
    _Alignas(64) uint32_t words[FK_RANDOM_TILE];
    _Alignas(64) double chance[FK_RANDOM_TILE];
    _Alignas(64) uint8_t tile[FK_RANDOM_TILE];
    uint64_t threshold = (uint64_t)(job->a * 0x1p32);
    fk_cast_fn from = job->probability ? fk_cast_get(job->probability_dtype, FK_F64) : NULL;
    for (int64_t t = begin; t < end; t++) {
        int64_t length = fk_random_length(job, t), first = t * FK_RANDOM_TILE;
        fk_random_words(job, t, length, 1, words);
        if (from) {
            from(job->probability + first * fk_itemsize[job->probability_dtype], (char *)chance,
                length);
            for (int64_t i = 0; i < length; i++) tile[i] = (double)words[i] * 0x1p-32 < chance[i];
        } else {
            for (int64_t i = 0; i < length; i++) tile[i] = words[i] < threshold;
        }
        job->cast((const char *)tile, job->out + first * fk_itemsize[job->dtype], length);
    }
}

/* 1 with probability p, else 0, in any dtype. */
FK_LOCAL int fk_random_bernoulli(
    char *out, int dtype, int64_t n, double p, uint64_t seed, uint64_t offset) {
    fk_random_job job = {
        .out = out, .dtype = dtype, .n = n, .a = p, .seed = seed, .offset = offset};
    job.cast = fk_cast_get(FK_B8, dtype);
    if (!job.cast || !(p >= 0 && p <= 1)) return -1;
    fk_random_run(fk_bernoulli_body, &job);
    return 0;
}

/* The same with a probability per element, n of them adjacent; the caller checks that they are in
 * [0, 1]. */
FK_LOCAL int fk_random_bernoulli_tensor(
    char *out, int dtype, int64_t n, const char *p, int p_dtype, uint64_t seed, uint64_t offset) {
    fk_random_job job = {.out = out, .dtype = dtype, .n = n, .seed = seed, .offset = offset};
    job.probability = p;
    job.probability_dtype = p_dtype;
    job.cast = fk_cast_get(FK_B8, dtype);
    if (!job.cast || !fk_is_float(p_dtype)) return -1;
    fk_random_run(fk_bernoulli_body, &job);
    return 0;
}

/* ---- integers ---- */

FK_VECTORIZE_BEGIN
/* the upper half of a 64-bit draw times the range; the bias is below range / 2^64 */
FK_CLONES static void fk_integer_tile(
    const uint32_t *word, int64_t *out, int64_t n, uint64_t range, int64_t low) {
    if (range == 0) {
        for (int64_t i = 0; i < n; i++)
            out[i] = (int64_t)(fk_two_words(word + 2 * i) + (uint64_t)low);
    } else if (range <= 0xffffffffu) {
        uint32_t span = (uint32_t)range;
        for (int64_t i = 0; i < n; i++) {
            uint64_t carry = (uint64_t)word[2 * i] * span >> 32;
            out[i] = (int64_t)((((uint64_t)word[2 * i + 1] * span + carry) >> 32) + (uint64_t)low);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            unsigned __int128 product = (unsigned __int128)fk_two_words(word + 2 * i) * range;
            out[i] = (int64_t)((uint64_t)(product >> 64) + (uint64_t)low);
        }
    }
}
FK_VECTORIZE_END

static void fk_integer_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n;
    const fk_random_job *job = (const fk_random_job *)(const void *)p[0];
    _Alignas(64) uint32_t words[2 * FK_RANDOM_TILE];
    _Alignas(64) int64_t tile[FK_RANDOM_TILE];
    (void)s;
    int64_t low;
    memcpy(&low, &job->a, 8); /* carried as bits */
    for (int64_t t = begin; t < end; t++) {
        int64_t length = fk_random_length(job, t);
        char *out = job->out + t * FK_RANDOM_TILE * fk_itemsize[job->dtype];
        fk_random_words(job, t, length, 2, words);
        fk_integer_tile(
            words, job->dtype == FK_I64 ? (int64_t *)(void *)out : tile, length, job->range, low);
        if (job->dtype != FK_I64) job->cast((const char *)tile, out, length);
    }
}

/* Integers low .. low + range - 1, in any real dtype; range 0 means all 2^64 of them. */
FK_LOCAL int fk_random_integers(
    char *out, int dtype, int64_t n, int64_t low, uint64_t range, uint64_t seed, uint64_t offset) {
    fk_random_job job = {
        .out = out, .dtype = dtype, .n = n, .range = range, .seed = seed, .offset = offset};
    memcpy(&job.a, &low, 8);
    job.cast = fk_cast_get(FK_I64, dtype);
    if (!job.cast) return -1;
    fk_random_run(fk_integer_body, &job);
    return 0;
}

/* ---- permutations ---- */

/* Fisher and Yates from the end; draw k serves the k-th swap.  The places of a tile are known
 * before its swaps, which lets them be fetched ahead. */
FK_LOCAL void fk_permute(int64_t *out, int64_t n, uint64_t seed, uint64_t offset) {
    _Alignas(64) uint32_t words[2 * FK_RANDOM_TILE];
    int64_t place[FK_RANDOM_TILE];
    fk_random_job job = {.n = n, .seed = seed, .offset = offset};
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t first = 0, last = n - 1; last > 0; first++) {
        int64_t length = last < FK_RANDOM_TILE ? last : FK_RANDOM_TILE;
        fk_random_words(&job, first, length, 2, words);
        for (int64_t i = 0; i < length; i++) {
            unsigned __int128 product =
                (unsigned __int128)fk_two_words(words + 2 * i) * (uint64_t)(last - i + 1);
            place[i] = (int64_t)(product >> 64);
            __builtin_prefetch(out + place[i], 1);
        }
        for (int64_t i = 0; i < length; i++, last--) {
            int64_t item = out[place[i]];
            out[place[i]] = out[last];
            out[last] = item;
        }
    }
}

/* A permutation of 0 .. n - 1. */
FK_LOCAL int fk_random_permutation(
    char *out, int dtype, int64_t n, uint64_t seed, uint64_t offset) {
    if (dtype == FK_I64) {
        fk_permute((int64_t *)(void *)out, n, seed, offset);
        return 0;
    }
    fk_cast_fn cast = fk_cast_get(FK_I64, dtype);
    if (!cast) return -1;
    int64_t *scratch = fk_scratch(n * 8);
    if (!scratch) return -2;
    fk_permute(scratch, n, seed, offset);
    cast((const char *)scratch, out, n);
    fk_scratch_release(scratch);
    return 0;
}
#endif
