#include "facula_abi.h"
#include <string.h>
#include <stdint.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("no-thread-jumps")
#endif
#define FM static inline __attribute__((always_inline, unused))
#define FM_CALL static __attribute__((noinline, unused))





FM float fm_maximum_f32(float x, float y) {
    float r = y > x ? y : x; /* the first of equal ones: zeros have signs */
    return y != y ? y : r;
}

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

FM float fm_to_float_f32(int32_t k) {
    return fm_from_bits_f32(k + 0x4B400000) - 0x1.8000000000000p+23f;
}

FM float fm_log_split_f32(float x, float *k) {
    int small = x < 0x1.0000000000000p-126f;
    float y = small ? x * 0x1.0000000000000p+25f : x;
    int32_t b = fm_bits_f32(y), e = (b - 0x3f3504f3) >> 23;
    *k = fm_to_float_f32(e) - (small ? (float)25 : 0.0f);
    return fm_from_bits_f32((int32_t)((uint32_t)b - ((uint32_t)e << 23)));
}

FM float fm_log_tail_f32(float f, float half) {
    return f * (half + half) * ((((((((0x1.1d8ea50b3f54fp-4f * f + -0x1.d635bbe611aa5p-4f) * f + 0x1.dea28241d55fbp-4f) * f + -0x1.fcf4c6730ee8fp-4f) * f + 0x1.23d2196ef7d03p-3f) * f + -0x1.555b4994acf67p-3f) * f + 0x1.999d5a430ca64p-3f) * f + -0x1.fffffbeac6d9bp-3f) * f + 0x1.555553e364bb5p-2f);
}

FM float fm_log_special_f32(float x, float r) {
    r = x < __builtin_inff() ? r : x;
    r = x > 0.0f ? r : __builtin_nanf("");
    r = x == 0.0f ? -__builtin_inff() : r;
    return x != x ? x : r;
}

FM float fm_log_f32(float x) {
    float k, m = fm_log_split_f32(x, &k), f = m - 1.0f, half = 0.5f * f * f;
    float tail = fm_log_tail_f32(f, half) + k * 0x1.7f7d1c0000000p-20f;
    return fm_log_special_f32(x, k * 0x1.62e4000000000p-1f + (f - (half - tail)));
}
static void kernel0(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    float *restrict b0 = (float *)p[0];
    float *restrict b1 = (float *)p[1];
    for (int64_t item = begin; item < end; item++) {
        const int64_t i0 = item;
        float a0_0;
        {
            const float out0 = (-__builtin_inff());
            a0_0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 10;
            const int64_t stop = origin + 4096 < 10 ? origin + 4096 : 10;
            (void)base;
            float lanes0_0[16] __attribute__((aligned(64)));
            #pragma omp simd
            for (int64_t l = 0; l < 16; l++) { lanes0_0[l] = -__builtin_inff(); }
            {
                int64_t j = origin;
                for (; j + 16 <= stop; j += 16) {
                    #pragma omp simd
                    for (int l = 0; l < 16; l++) {
                        const int64_t i1 = j + l;
                        const float v0 = b0[i0 * 10 + i1];
                        { const float f = v0; lanes0_0[l] = (f > lanes0_0[l]) | (f != f) ? f : lanes0_0[l]; }
                    }
                }
                const int rest = (int)(stop - j);
                #pragma omp simd
                for (int l = 0; l < rest; l++) {
                    const int64_t i1 = j + l;
                    const float v0 = b0[i0 * 10 + i1];
                    { const float f = v0; lanes0_0[l] = (f > lanes0_0[l]) | (f != f) ? f : lanes0_0[l]; }
                }
            }
            #pragma omp simd
            for (int l = 0; l < 8; l++) { lanes0_0[l] = (lanes0_0[l + 8] > lanes0_0[l]) | (lanes0_0[l + 8] != lanes0_0[l + 8]) ? lanes0_0[l + 8] : lanes0_0[l]; }
            #pragma omp simd
            for (int l = 0; l < 4; l++) { lanes0_0[l] = (lanes0_0[l + 4] > lanes0_0[l]) | (lanes0_0[l + 4] != lanes0_0[l + 4]) ? lanes0_0[l + 4] : lanes0_0[l]; }
            #pragma omp simd
            for (int l = 0; l < 2; l++) { lanes0_0[l] = (lanes0_0[l + 2] > lanes0_0[l]) | (lanes0_0[l + 2] != lanes0_0[l + 2]) ? lanes0_0[l + 2] : lanes0_0[l]; }
            #pragma omp simd
            for (int l = 0; l < 1; l++) { lanes0_0[l] = (lanes0_0[l + 1] > lanes0_0[l]) | (lanes0_0[l + 1] != lanes0_0[l + 1]) ? lanes0_0[l + 1] : lanes0_0[l]; }
            const float f0_0 = lanes0_0[0];
            float m0_0;
            {
                const float v0 = f0_0;
                const float out0 = v0;
                m0_0 = out0;
            }
            {
                const float v0 = a0_0;
                const float v1 = m0_0;
                const float v2 = fm_maximum_f32(v0, v1);
                const float out0 = v2;
                a0_0 = out0;
            }
        }
        float r0_0;
        {
            const float v0 = a0_0;
            const float out0 = v0;
            r0_0 = out0;
        }
        double a1_0;
        {
            const double out0 = 0.0;
            a1_0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 10;
            const int64_t stop = origin + 4096 < 10 ? origin + 4096 : 10;
            (void)base;
            float lanes1_0[16] __attribute__((aligned(64)));
            #pragma omp simd
            for (int64_t l = 0; l < 16; l++) { lanes1_0[l] = 0; }
            {
                int64_t j = origin;
                for (; j + 16 <= stop; j += 16) {
                    #pragma omp simd
                    for (int l = 0; l < 16; l++) {
                        const int64_t i1 = j + l;
                        const float v0 = b0[i0 * 10 + i1];
                        const float v1 = r0_0;
                        const float v2 = (v0 - v1);
                        const float v3 = fm_exp_f32(v2);
                        { const float f = v3; lanes1_0[l] = lanes1_0[l] + f; }
                    }
                }
                const int rest = (int)(stop - j);
                #pragma omp simd
                for (int l = 0; l < rest; l++) {
                    const int64_t i1 = j + l;
                    const float v0 = b0[i0 * 10 + i1];
                    const float v1 = r0_0;
                    const float v2 = (v0 - v1);
                    const float v3 = fm_exp_f32(v2);
                    { const float f = v3; lanes1_0[l] = lanes1_0[l] + f; }
                }
            }
            #pragma omp simd
            for (int l = 0; l < 8; l++) { lanes1_0[l] = lanes1_0[l] + lanes1_0[l + 8]; }
            #pragma omp simd
            for (int l = 0; l < 4; l++) { lanes1_0[l] = lanes1_0[l] + lanes1_0[l + 4]; }
            #pragma omp simd
            for (int l = 0; l < 2; l++) { lanes1_0[l] = lanes1_0[l] + lanes1_0[l + 2]; }
            #pragma omp simd
            for (int l = 0; l < 1; l++) { lanes1_0[l] = lanes1_0[l] + lanes1_0[l + 1]; }
            const float f1_0 = lanes1_0[0];
            double m1_0;
            {
                const float v0 = f1_0;
                const double v1 = (double)v0;
                const double out0 = v1;
                m1_0 = out0;
            }
            {
                const double v0 = a1_0;
                const double v1 = m1_0;
                const double v2 = (v0 + v1);
                const double out0 = v2;
                a1_0 = out0;
            }
        }
        float r1_0;
        {
            const double v0 = a1_0;
            const float v1 = (float)v0;
            const float out0 = v1;
            r1_0 = out0;
        }
        float u0;
        {
            const float v0 = r1_0;
            const float v1 = fm_log_f32(v0);
            const float out0 = v1;
            u0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 10;
            const int64_t stop = origin + 4096 < 10 ? origin + 4096 : 10;
            (void)base;
            #pragma omp simd
            for (int64_t i1 = origin; i1 < stop; i1++) {
                const float v0 = b0[i0 * 10 + i1];
                const float v1 = r0_0;
                const float v2 = (v0 - v1);
                const float v3 = u0;
                const float v4 = (v2 - v3);
                b1[i0 * 10 + i1] = v4;
            }
        }
    }
}

static void kernel1(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    float *restrict b0 = (float *)p[0];
    float *restrict b1 = (float *)p[1];
    for (int64_t item = begin; item < end; item++) {
        double a0_0;
        {
            const double out0 = 0.0;
            a0_0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 64;
            const int64_t stop = origin + 4096 < 64 ? origin + 4096 : 64;
            (void)base;
            float lanes0_0[64] __attribute__((aligned(64)));
            #pragma omp simd
            for (int64_t l = 0; l < 64; l++) { lanes0_0[l] = 0; }
            {
                int64_t j = origin;
                for (; j + 64 <= stop; j += 64) {
                    #pragma omp simd
                    for (int l = 0; l < 64; l++) {
                        const int64_t i0 = j + l;
                        const float v0 = b0[i0];
                        { const float f = v0; lanes0_0[l] = lanes0_0[l] + f; }
                    }
                }
                const int rest = (int)(stop - j);
                #pragma omp simd
                for (int l = 0; l < rest; l++) {
                    const int64_t i0 = j + l;
                    const float v0 = b0[i0];
                    { const float f = v0; lanes0_0[l] = lanes0_0[l] + f; }
                }
            }
            #pragma omp simd
            for (int l = 0; l < 32; l++) { lanes0_0[l] = lanes0_0[l] + lanes0_0[l + 32]; }
            #pragma omp simd
            for (int l = 0; l < 16; l++) { lanes0_0[l] = lanes0_0[l] + lanes0_0[l + 16]; }
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
        {
            const float v0 = r0_0;
            b1[0] = v0;
        }
    }
}

static void kernel2(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    int64_t *restrict b0 = (int64_t *)p[0];
    int64_t *restrict b1 = (int64_t *)p[1];
    for (int64_t item = begin; item < end; item++) {
        int64_t a0_0;
        {
            const int64_t out0 = 0LL;
            a0_0 = out0;
        }
        for (int64_t block = 0; block < 1; block++) {
            const int64_t origin = 0;
            const int64_t base = block * 64;
            const int64_t stop = origin + 4096 < 64 ? origin + 4096 : 64;
            (void)base;
            int64_t lanes0_0[32] __attribute__((aligned(64)));
            #pragma omp simd
            for (int64_t l = 0; l < 32; l++) { lanes0_0[l] = 0; }
            {
                int64_t j = origin;
                for (; j + 32 <= stop; j += 32) {
                    #pragma omp simd
                    for (int l = 0; l < 32; l++) {
                        const int64_t i0 = j + l;
                        const int64_t v0 = b0[i0];
                        const _Bool v1 = (v0 != (-100LL));
                        const int32_t v2 = (int32_t)v1;
                        const int64_t v3 = (int64_t)v2;
                        { const int64_t f = v3; lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)f); }
                    }
                }
                const int rest = (int)(stop - j);
                #pragma omp simd
                for (int l = 0; l < rest; l++) {
                    const int64_t i0 = j + l;
                    const int64_t v0 = b0[i0];
                    const _Bool v1 = (v0 != (-100LL));
                    const int32_t v2 = (int32_t)v1;
                    const int64_t v3 = (int64_t)v2;
                    { const int64_t f = v3; lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)f); }
                }
            }
            #pragma omp simd
            for (int l = 0; l < 16; l++) { lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)lanes0_0[l + 16]); }
            #pragma omp simd
            for (int l = 0; l < 8; l++) { lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)lanes0_0[l + 8]); }
            #pragma omp simd
            for (int l = 0; l < 4; l++) { lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)lanes0_0[l + 4]); }
            #pragma omp simd
            for (int l = 0; l < 2; l++) { lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)lanes0_0[l + 2]); }
            #pragma omp simd
            for (int l = 0; l < 1; l++) { lanes0_0[l] = (int64_t)((uint64_t)lanes0_0[l] + (uint64_t)lanes0_0[l + 1]); }
            const int64_t f0_0 = lanes0_0[0];
            int64_t m0_0;
            {
                const int64_t v0 = f0_0;
                const int64_t out0 = v0;
                m0_0 = out0;
            }
            {
                const int64_t v0 = a0_0;
                const int64_t v1 = m0_0;
                const int64_t v2 = ((int64_t)((uint64_t)v0 + (uint64_t)v1));
                const int64_t out0 = v2;
                a0_0 = out0;
            }
        }
        int64_t r0_0;
        {
            const int64_t v0 = a0_0;
            const int64_t out0 = v0;
            r0_0 = out0;
        }
        {
            const int64_t v0 = r0_0;
            b1[0] = v0;
        }
    }
}

static void kernel3(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    float *const b0 = (float *)p[0];
    float *const b1 = (float *)p[1];
    int64_t *const b2 = (int64_t *)p[2];
    const float v0 = b1[0];
    const int64_t v1 = b2[0];
    const float v2 = (float)v1;
    const float v3 = (v0 / v2);
    const float u0 = v3;
    #pragma omp simd
    for (int64_t i0 = begin; i0 < end; i0++) {
        const float v0 = u0;
        b0[0] = v0;
    }
}

static int run0(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    (void)p, (void)n, (void)s;
    {
        char *const q[] = {p[0], p[1]};
        rt->parallel(kernel0, q, n, s, 64, 630);
    }
    return 0;
}

static int run1(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    (void)p, (void)n, (void)s;
    {
        char *const q[] = {p[0], p[1]};
        rt->parallel(kernel1, q, n, s, 1, 204);
    }
    {
        char *const q[] = {p[2], p[3]};
        rt->parallel(kernel2, q, n, s, 1, 204);
    }
    {
        char *const q[] = {p[4], p[1], p[3]};
        rt->parallel(kernel3, q, n, s, 1, 16384);
    }
    return 0;
}
const int facula_abi = FACULA_ABI;
const fk_entry facula_kernels[] = {
    {"fused/26a5d6dc5eaf3f21b656/0", 'd', (void *)run0, "0;0;u tensor0 f32 640;u tensor1 f32 640"},
    {"fused/26a5d6dc5eaf3f21b656/1", 'd', (void *)run1, "0;0;u tensor0 f32 64;u arena bytes 4;u tensor2 i64 64;u tensor3 i64 1;u tensor4 f32 1"},
    {0},
};
