#include "facula_abi.h"
#include <string.h>
#include <stdint.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("no-thread-jumps")
#endif
#define FM static inline __attribute__((always_inline, unused))
#define FM_CALL static __attribute__((noinline, unused))





FM float fm_from_bits_f32(int32_t b) {
    float x;
    __builtin_memcpy(&x, &b, sizeof x);
    return x;
}

FM float fm_scale_f32(float x, int32_t k) {
    int32_t half = k >> 1, rest = k - half;
    x *= fm_from_bits_f32((int32_t)((uint32_t)(half + 127) << 23));
    return x * fm_from_bits_f32((int32_t)((uint32_t)(rest + 127) << 23));
}

FM int32_t fm_bits_f32(float x) {
    int32_t b;
    __builtin_memcpy(&b, &x, sizeof b);
    return b;
}

FM float fm_exp_scaled_f32(float x, float low, int32_t shift) {
    x = x > 0x1.6800000000000p+6f ? 0x1.6800000000000p+6f : x;
    x = x < -0x1.a400000000000p+6f ? -0x1.a400000000000p+6f : x;
    float m = x * 0x1.71547652b82fep+0f + 0x1.8000000000000p+23f, n = m - 0x1.8000000000000p+23f;
    float r = x - n * 0x1.62e4000000000p-1f;
    r = (r - n * 0x1.7f7d1c0000000p-20f) + low;
    float p = 1.0f + (r + r * r * ((((0x1.6d11093a16789p-10f * r + 0x1.120b6e42d1b44p-7f) * r + 0x1.5555192d5f34bp-5f) * r + 0x1.5554dcf88fed0p-3f) * r + 0x1.0000000000000p-1f));
    return fm_scale_f32(p, fm_bits_f32(m) - 0x4B400000 + shift);
}

FM float fm_exp_f32(float x) {
    return fm_exp_scaled_f32(x, 0.0f, 0);
}
static void kernel0(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    float *const b0 = (float *)p[0];
    #pragma omp simd
    for (int64_t i0 = begin; i0 < end; i0++) {
        b0[i0] = 0x0.0p+0f;
    }
}

static void kernel1(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    int64_t *const b0 = (int64_t *)p[0];
    int64_t *const b1 = (int64_t *)p[1];
    float *const b2 = (float *)p[2];
    float *const b3 = (float *)p[3];
    int64_t *const b4 = (int64_t *)p[4];
    const float v0 = b3[0];
    const int64_t v1 = b4[0];
    const float v2 = (float)v1;
    const float v3 = (v0 / v2);
    const float v4 = (-v3);
    const float u0 = v4;
    #pragma omp simd
    for (int64_t i0 = begin; i0 < end; i0++) {
        const int64_t v0 = b0[i0];
        const _Bool v1 = (v0 != (-100LL));
        const int64_t v2 = v1 ? v0 : 0LL;
        const float v3 = u0;
        const float v4 = v1 ? v3 : 0x0.0p+0f;
        b1[i0] = v2;
        b2[i0] = v4;
    }
}

static void kernel2(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    float *restrict b0 = (float *)p[0];
    float *restrict b1 = (float *)p[1];
    float *restrict b2 = (float *)p[2];
    for (int64_t item = begin; item < end; item++) {
        const int64_t i0 = item;
        double a0_0;
        {
            const double out0 = 0.0;
            a0_0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 10;
            const int64_t stop = origin + 4096 < 10 ? origin + 4096 : 10;
            (void)base;
            float lanes0_0[16] __attribute__((aligned(64)));
            #pragma omp simd
            for (int64_t l = 0; l < 16; l++) { lanes0_0[l] = 0; }
            {
                int64_t j = origin;
                for (; j + 16 <= stop; j += 16) {
                    #pragma omp simd
                    for (int l = 0; l < 16; l++) {
                        const int64_t i1 = j + l;
                        const float v0 = b0[i0 * 10 + i1];
                        { const float f = v0; lanes0_0[l] = lanes0_0[l] + f; }
                    }
                }
                const int rest = (int)(stop - j);
                #pragma omp simd
                for (int l = 0; l < rest; l++) {
                    const int64_t i1 = j + l;
                    const float v0 = b0[i0 * 10 + i1];
                    { const float f = v0; lanes0_0[l] = lanes0_0[l] + f; }
                }
            }
            #pragma omp simd
            for (int l = 0; l < 8; l++) { lanes0_0[l] = lanes0_0[l] + lanes0_0[l + 8]; }
            #pragma omp simd
            for (int l = 0; l < 4; l++) { lanes0_0[l] = lanes0_0[l] + lanes0_0[l + 4]; }
            #pragma omp simd
            for (int l = 0; l < 2; l++) { lanes0_0[l] = lanes0_0[l] + lanes0_0[l + 2]; }
            #pragma omp simd
            for (int l = 0; l < 1; l++) { lanes0_0[l] = lanes0_0[l] + lanes0_0[l + 1]; }
            const float f0_0 = lanes0_0[0];
            double m0_0;
            {
                const float v0 = f0_0;
                const double v1 = (double)v0;
                const double out0 = v1;
                m0_0 = out0;
            }
            {
                const double v0 = a0_0;
                const double v1 = m0_0;
                const double v2 = (v0 + v1);
                const double out0 = v2;
                a0_0 = out0;
            }
        }
        float r0_0;
        {
            const double v0 = a0_0;
            const float v1 = (float)v0;
            const float out0 = v1;
            r0_0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 10;
            const int64_t stop = origin + 4096 < 10 ? origin + 4096 : 10;
            (void)base;
            #pragma omp simd
            for (int64_t i1 = origin; i1 < stop; i1++) {
                const float v0 = b0[i0 * 10 + i1];
                const float v1 = b1[i0 * 10 + i1];
                const float v2 = fm_exp_f32(v1);
                const float v3 = r0_0;
                const float v4 = (v2 * v3);
                const float v5 = (v0 - v4);
                b2[i0 * 10 + i1] = v5;
            }
        }
    }
}

static int run0(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    (void)p, (void)n, (void)s;
    {
        char *const q[] = {p[0]};
        rt->parallel(kernel0, q, n, s, 640, 16384);
    }
    {
        char *const q[] = {p[1], p[2], p[3], p[4], p[5]};
        rt->parallel(kernel1, q, n, s, 64, 16384);
    }
    return 0;
}

static int run1(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    (void)p, (void)n, (void)s;
    {
        char *const q[] = {p[0], p[1], p[2]};
        rt->parallel(kernel2, q, n, s, 64, 630);
    }
    return 0;
}
const int facula_abi = FACULA_ABI;
const fk_entry facula_kernels[] = {
    {"fused/5719d2b442f3253f4d17/0", 'd', (void *)run0, "0;0;u tensor0 f32 640;u tensor1 i64 64;u tensor2 i64 64;u tensor3 f32 64;u tensor4 f32 1;u tensor5 i64 1"},
    {"fused/5719d2b442f3253f4d17/1", 'd', (void *)run1, "0;0;u tensor0 f32 640;u tensor1 f32 640;u tensor2 f32 640"},
    {0},
};
