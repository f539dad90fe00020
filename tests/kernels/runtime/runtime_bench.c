/* Times of the C runtime: `runtime_bench [threads]` prints one line per case.
 *
 * Takes: the number of threads.
 * Gives: microseconds (the least of several runs) and bytes moved per second, counting every
 * operand once. */
#include "fk_storage.h"
#include "fk_copy.h"
#include "fk_pool.h"
#include "fk_random.h"
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

FK_VECTORIZE_BEGIN
FK_CLONES static void add_f32(char *const *p, const fk_scalar *s, int64_t n) {
    float *restrict out = (float *)(void *)p[0];
    const float *a = (const float *)(const void *)p[1], *b = (const float *)(const void *)p[2];
    (void)s;
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}
FK_VECTORIZE_END

static char *buffer[3];

/* strides in elements of 4 bytes, or of the dtype's size */
static void operand(fk_iter *it, int k, int dtype, int64_t s0, int64_t s1, int64_t s2) {
    it->data[k] = buffer[k];
    it->dtype[k] = (uint8_t)dtype;
    it->compute[k] = FK_F32;
    int64_t strides[] = {s0, s1, s2};
    for (int d = 0; d < 3; d++) it->stride[k][d] = strides[d] * fk_itemsize[dtype];
}

typedef void (*case_fn)(void);
static fk_iter prepared;
static void run_map(void) {
    fk_iter it = prepared;
    fk_map_run(add_f32, NULL, &it);
}
static void run_copy(void) {
    fk_iter it = prepared;
    fk_copy_run(&it);
}

static void report(const char *name, case_fn fn, double bytes) {
    double best = 1e9;
    for (int i = 0; i < 7; i++) {
        double start = now();
        int repeats = 0;
        do fn(), repeats++;
        while (now() - start < 0.005);
        double time = (now() - start) / repeats;
        if (time < best) best = time;
    }
    printf("%-44s %10.2f us %8.2f GB/s\n", name, best * 1e6, bytes / best * 1e-9);
}

static void shape(int nin, int64_t a, int64_t b, int64_t c) {
    prepared = (fk_iter){.ndim = 3, .nout = 1, .nin = nin, .shape = {a, b, c}};
}

static void bench_maps(void) {
    const int64_t N = 4096;
    shape(2, 1, 1, 8);
    for (int k = 0; k < 3; k++) operand(&prepared, k, FK_F32, 8, 8, 1);
    report("add 8 f32", run_map, 96);
    shape(2, 1, N, N);
    for (int k = 0; k < 3; k++) operand(&prepared, k, FK_F32, 0, N, 1);
    report("add 4096^2 f32", run_map, 12.0 * N * N);
    operand(&prepared, 2, FK_F32, 0, 0, 1);
    report("add 4096^2 + row", run_map, 8.0 * N * N);
    operand(&prepared, 2, FK_F32, 0, 1, 0);
    report("add 4096^2 + column", run_map, 8.0 * N * N);
    operand(&prepared, 2, FK_F32, 0, 0, 0);
    report("add 4096^2 + scalar", run_map, 8.0 * N * N);
    operand(&prepared, 2, FK_F32, 0, 1, N);
    report("add 4096^2 + transposed", run_map, 12.0 * N * N);
    operand(&prepared, 2, FK_BF16, 0, N, 1);
    report("add 4096^2 f32 + bf16", run_map, 10.0 * N * N);
    for (int k = 0; k < 3; k++) operand(&prepared, k, FK_BF16, 0, N, 1);
    report("add 4096^2 bf16", run_map, 6.0 * N * N);
    shape(2, 1, N, 3072);
    for (int k = 0; k < 3; k++) operand(&prepared, k, FK_F32, 0, k < 2 ? 3072 : 0, 1);
    report("add (4096,3072) + (3072)", run_map, 8.0 * N * 3072);
    shape(2, 32, 64, 3136);
    for (int k = 0; k < 2; k++) operand(&prepared, k, FK_F32, 64 * 3136, 3136, 1);
    operand(&prepared, 2, FK_F32, 0, 1, 0);
    report("add NCHW (32,64,56,56) + channel", run_map, 8.0 * 32 * 64 * 3136);
    shape(2, 1, 1000000, 8);
    for (int k = 0; k < 3; k++) operand(&prepared, k, FK_F32, 0, k < 2 ? 8 : 0, 1);
    report("add (1000000,8) + (8)", run_map, 8.0 * 8e6);
    shape(2, 1, 256, 256);
    for (int k = 0; k < 3; k++) operand(&prepared, k, FK_F32, 0, k < 2 ? 256 : 0, 1);
    report("add (256,256) + (256)", run_map, 8.0 * 65536);
    operand(&prepared, 2, FK_F32, 0, 1, 256);
    report("add (256,256) + transposed", run_map, 12.0 * 65536);
}

static void bench_copies(void) {
    const int64_t N = 4096;
    const char *names[] = {"transpose 4096^2 u8", "transpose 4096^2 u16", "transpose 4096^2 f32",
        "transpose 4096^2 f64"};
    int dtypes[] = {FK_U8, FK_BF16, FK_F32, FK_F64};
    for (int k = 0; k < 4; k++) {
        shape(1, 1, N, N);
        operand(&prepared, 0, dtypes[k], 0, N, 1);
        operand(&prepared, 1, dtypes[k], 0, 1, N);
        report(names[k], run_copy, 2.0 * fk_itemsize[dtypes[k]] * N * N);
    }
    shape(1, 1, 1000, 1000);
    operand(&prepared, 0, FK_F32, 0, 1000, 1);
    operand(&prepared, 1, FK_F32, 0, 1, 1000);
    report("transpose 1000^2 f32", run_copy, 8e6);
    shape(1, 1, N, N);
    for (int k = 0; k < 2; k++) operand(&prepared, k, FK_F32, 0, N, 1);
    report("copy 4096^2 f32", run_copy, 8.0 * N * N);
    operand(&prepared, 1, FK_BF16, 0, N, 1);
    report("copy 4096^2 bf16 -> f32", run_copy, 6.0 * N * N);
    operand(&prepared, 1, FK_F32, 0, N, 1);
    operand(&prepared, 0, FK_BF16, 0, N, 1);
    report("copy 4096^2 f32 -> bf16", run_copy, 6.0 * N * N);
    operand(&prepared, 0, FK_F16, 0, N, 1);
    report("copy 4096^2 f32 -> f16", run_copy, 6.0 * N * N);
    operand(&prepared, 0, FK_I64, 0, N, 1);
    report("copy 4096^2 f32 -> i64", run_copy, 12.0 * N * N);
    operand(&prepared, 0, FK_F32, 0, N, 1);
    operand(&prepared, 1, FK_F32, 0, 0, 0);
    report("fill 4096^2 f32", run_copy, 4.0 * N * N);
    shape(1, 32, 64, 3136);
    operand(&prepared, 0, FK_F32, 64 * 3136, 1, 64);
    operand(&prepared, 1, FK_F32, 64 * 3136, 3136, 1);
    report("NCHW -> NHWC (32,64,56,56)", run_copy, 8.0 * 32 * 64 * 3136);
    shape(1, 32, 3, 50176);
    operand(&prepared, 0, FK_F32, 3 * 50176, 1, 3);
    operand(&prepared, 1, FK_F32, 3 * 50176, 50176, 1);
    report("NCHW -> NHWC (32,3,224,224)", run_copy, 8.0 * 32 * 3 * 50176);
    prepared.ndim = 4;
    int64_t sizes[] = {32, 12, 128, 64}, out[] = {12 * 128 * 64, 128 * 64, 64, 1},
            in[] = {128 * 768, 64, 768, 1};
    for (int d = 0; d < 4; d++) {
        prepared.shape[d] = sizes[d];
        prepared.stride[0][d] = out[d] * 4;
        prepared.stride[1][d] = in[d] * 4;
    }
    report("heads (32,128,12,64) -> (32,12,128,64)", run_copy, 8.0 * 32 * 128 * 768);
    shape(1, 1, 2048, 2048);
    operand(&prepared, 0, FK_F32, 0, 2048, 1);
    operand(&prepared, 1, FK_F32, 0, 4096, 2);
    report("strided [:, ::2] 2048^2 f32", run_copy, 8.0 * 2048 * 2048);
}

static const int64_t many = 16 << 20;
static void run_uniform(void) { fk_random_uniform(buffer[0], FK_F32, many, 0, 1, 1, 1); }
static void run_uniform64(void) { fk_random_uniform(buffer[0], FK_F64, many, 0, 1, 1, 1); }
static void run_normal(void) { fk_random_normal(buffer[0], FK_F32, many, 0, 1, 1, 1); }
static void run_normal64(void) { fk_random_normal(buffer[0], FK_F64, many, 0, 1, 1, 1); }
static void run_exponential(void) { fk_random_exponential(buffer[0], FK_F32, many, 1, 1, 1); }
static void run_bernoulli(void) { fk_random_bernoulli(buffer[0], FK_B8, many, 0.5, 1, 1); }
static void run_integers(void) { fk_random_integers(buffer[0], FK_I64, many, 0, 1000, 1, 1); }
static void run_permutation(void) { fk_random_permutation(buffer[0], FK_I64, 1 << 20, 1, 1); }

static void bench_random(void) {
    report("uniform 16M f32", run_uniform, 4.0 * (double)many);
    report("uniform 16M f64", run_uniform64, 8.0 * (double)many);
    report("normal 16M f32", run_normal, 4.0 * (double)many);
    report("normal 16M f64", run_normal64, 8.0 * (double)many);
    report("exponential 16M f32", run_exponential, 4.0 * (double)many);
    report("bernoulli 16M b8", run_bernoulli, (double)many);
    report("integers 16M i64", run_integers, 8.0 * (double)many);
    report("permutation 1M i64", run_permutation, 8.0 * 1048576);
}

static void nothing(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)p, (void)n, (void)s, (void)begin, (void)end;
}
static void run_fork_join(void) { fk_parallel(nothing, NULL, NULL, NULL, 64, 1); }
static void run_storage(void) { fk_storage_decref(fk_storage_new(128)); }
static void run_storage_large(void) { fk_storage_decref(fk_storage_new(64 << 20)); }

int main(int argc, char **argv) {
    if (argc > 1) fk_set_num_threads(atoi(argv[1]));
    printf("%d threads\n", fk_get_num_threads());
    for (int k = 0; k < 3; k++) {
        buffer[k] = fk_storage_new((int64_t)128 << 20)->data;
        memset(buffer[k], k + 1, 128 << 20);
    }
    report("fork and join", run_fork_join, 0);
    report("storage, 128 bytes", run_storage, 0);
    report("storage, 64 MiB", run_storage_large, 0);
    bench_maps();
    bench_copies();
    bench_random();
    return 0;
}
