/* The C runtime as a shared library, so that tests can drive it from Python and compare with
 * NumPy.
 *
 * Takes: nothing beyond the headers of the core.
 * Gives: exported wrappers of the engine, the casts and the random numbers, and a few small
 * kernels.
 * Keeps true: no logic of its own. */
#include "fk_storage.h"
#include "fk_cast.h"
#include "fk_copy.h"
#include "fk_pool.h"
#include "fk_random.h"

#define EXPORT __attribute__((visibility("default")))

static void add_f32(char *const *p, const fk_scalar *s, int64_t n) {
    float *out = (float *)(void *)p[0];
    const float *a = (const float *)(const void *)p[1], *b = (const float *)(const void *)p[2];
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + (float)s[0].f * b[i];
}

/* two outputs of different dtypes, three inputs of different dtypes */
static void mixed(char *const *p, const fk_scalar *s, int64_t n) {
    double *sum = (double *)(void *)p[0];
    int32_t *sign = (int32_t *)(void *)p[1];
    const double *a = (const double *)(const void *)p[2];
    const float *b = (const float *)(const void *)p[3];
    const int64_t *c = (const int64_t *)(const void *)p[4];
    (void)s;
    for (int64_t i = 0; i < n; i++) {
        double value = a[i] + b[i] + (double)c[i];
        sum[i] = value;
        sign[i] = value > 0;
    }
}

EXPORT void run_add(fk_iter *it, double alpha) {
    fk_scalar s[1] = {{.f = alpha}};
    fk_map_run(add_f32, s, it);
}
EXPORT void run_mixed(fk_iter *it) { fk_map_run(mixed, NULL, it); }
EXPORT void run_copy(fk_iter *it) { fk_copy_run(it); }
EXPORT void run_fill(fk_iter *it, const char *value) { fk_fill_run(it, value); }
EXPORT void run_prepare(fk_iter *it) { fk_iter_prepare(it); }
EXPORT void run_cast(int from, int to, const char *src, char *dst, int64_t n) {
    fk_cast_get(from, to)(src, dst, n);
}
EXPORT int64_t iter_bytes(void) { return sizeof(fk_iter); }
EXPORT void set_threads(int threads) { fk_set_num_threads(threads); }
/* 0: the default; outputs of at least so many bytes are written past the cache */
EXPORT void set_stream(int64_t bytes) { fk_stream_limit = bytes; }
EXPORT int get_threads(void) { return fk_get_num_threads(); }
EXPORT void philox(uint64_t seed, uint64_t offset, uint64_t index, uint32_t *out) {
    fk_philox(seed, offset, index, out);
}
EXPORT int uniform(
    char *out, int dtype, int64_t n, double a, double b, uint64_t seed, uint64_t offset) {
    return fk_random_uniform(out, dtype, n, a, b, seed, offset);
}
EXPORT int normal(
    char *out, int dtype, int64_t n, double a, double b, uint64_t seed, uint64_t offset) {
    return fk_random_normal(out, dtype, n, a, b, seed, offset);
}
EXPORT int log_normal(
    char *out, int dtype, int64_t n, double a, double b, uint64_t seed, uint64_t offset) {
    return fk_random_log_normal(out, dtype, n, a, b, seed, offset);
}
EXPORT int cauchy(
    char *out, int dtype, int64_t n, double a, double b, uint64_t seed, uint64_t offset) {
    return fk_random_cauchy(out, dtype, n, a, b, seed, offset);
}
EXPORT int exponential(
    char *out, int dtype, int64_t n, double rate, uint64_t seed, uint64_t offset) {
    return fk_random_exponential(out, dtype, n, rate, seed, offset);
}
EXPORT int geometric(char *out, int dtype, int64_t n, double p, uint64_t seed, uint64_t offset) {
    return fk_random_geometric(out, dtype, n, p, seed, offset);
}
EXPORT int bernoulli(char *out, int dtype, int64_t n, double p, uint64_t seed, uint64_t offset) {
    return fk_random_bernoulli(out, dtype, n, p, seed, offset);
}
EXPORT int bernoulli_tensor(
    char *out, int dtype, int64_t n, const char *p, int p_dtype, uint64_t seed, uint64_t offset) {
    return fk_random_bernoulli_tensor(out, dtype, n, p, p_dtype, seed, offset);
}
EXPORT int integers(
    char *out, int dtype, int64_t n, int64_t low, uint64_t range, uint64_t seed, uint64_t offset) {
    return fk_random_integers(out, dtype, n, low, range, seed, offset);
}
EXPORT int permutation(char *out, int dtype, int64_t n, uint64_t seed, uint64_t offset) {
    return fk_random_permutation(out, dtype, n, seed, offset);
}
