"""C kernels of quantized tensors: numbers to integers and back, sums of products to integers.

Takes an instruction set; `unit` gives one translation unit with `quantize`, `dequantize`, `requantize`,
`quantized_depthwise` and `quantized_lookup`. Keeps true: numbers are rounded to the nearest, ties to even, in float32,
and limited to the range of the integers before they become such; NaN becomes the lowest integer.
"""

from __future__ import annotations

from typing import Any

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.kernels.gemm.tile_kind import fill

PROLOGUE = r"""
#include "facula_abi.h"
#include <math.h>
#include <string.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define LOOP _Pragma("GCC ivdep")
#define PIECE 1024
#define BLOCK 64 /* channels whose sums are kept beside each other */
"""

CONVERT = r"""
/* item i: elements [i * inner, (i + 1) * inner) of `total`, of channel i % channels.
 * n: channels, inner, total, whether zero points are added before rounding; s: lowest, highest */
static void quantize_$S(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    const float low = (float)s[0].f, high = (float)s[1].f;
    const $T most = ($T)(int64_t)s[1].f;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * n[1], count = MIN(n[1], n[2] - first);
        const float *x = (const float *)p[1] + first;
        $T *q = ($T *)p[0] + first;
        const float inverse = 1.0f / ((const float *)p[2])[i % n[0]], zero = ((const float *)p[3])[i % n[0]];
        const float before = n[3] ? zero : 0, after = n[3] ? 0 : zero;
        LOOP for (int64_t j = 0; j < count; j++) {
            float v = nearbyintf(x[j] * inverse + before) + after;
            v = v > low ? v : low;
            q[j] = v < high ? ($T)(int32_t)v : most;
        }
    }
}

/* the numbers that integers stand for; n: channels, inner, total */
static void dequantize_$S(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * n[1], count = MIN(n[1], n[2] - first);
        const $T *q = (const $T *)p[1] + first;
        float *x = (float *)p[0] + first;
        const float scale = ((const float *)p[2])[i % n[0]], zero = ((const float *)p[3])[i % n[0]];
        LOOP for (int64_t j = 0; j < count; j++) x[j] = (float)(($C)q[j] - ($C)zero) * scale;
    }
}

/* rows of sums: (sum + bias) * multiplier, rounded, plus the zero point.
 * n: columns, step of result rows, step of rows of sums; s: zero point, lowest, highest */
static void requantize_$S(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    const float zero = (float)s[0].f, low = (float)s[1].f, high = (float)s[2].f;
    const $T most = ($T)(int64_t)s[2].f;
    const float *multiplier = (const float *)p[2], *bias = (const float *)p[3];
    for (int64_t i = begin; i < end; i++) {
        const int32_t *sums = (const int32_t *)p[1] + i * n[2];
        $T *q = ($T *)p[0] + i * n[1];
        LOOP for (int64_t j = 0; j < n[0]; j++) {
            float v = nearbyintf(((float)sums[j] + bias[j]) * multiplier[j]) + zero;
            v = v > low ? v : low;
            q[j] = v < high ? ($T)(int32_t)v : most;
        }
    }
}
"""

FLOATS = r"""
/* rows of sums as numbers: sum * multiplier + bias, at least `low`; n as above; s: lowest */
static void requantize_f32(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    const float *multiplier = (const float *)p[2], *bias = (const float *)p[3], low = (float)s[0].f;
    for (int64_t i = begin; i < end; i++) {
        const int32_t *sums = (const int32_t *)p[1] + i * n[2];
        float *x = (float *)p[0] + i * n[1];
        LOOP for (int64_t j = 0; j < n[0]; j++) {
            const float v = (float)sums[j] * multiplier[j] + bias[j];
            x[j] = v < low ? low : v;
        }
    }
}
"""

DEPTHWISE = r"""
/* item: a place of the result; p: results, image, weights [taps, channels], multiplier, shift
 * n: 0-2 image, 3 channels, 4-6 result, 7-9 kernel, 10-12 stride, 13-15 padding, 16-18 dilation, 19 the image's
 * zero point;  s: as `requantize` */
static void quantized_depthwise_$S(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    const int64_t channels = n[3], row = n[9] * channels;
    const int32_t outside = (int32_t)n[19];
    for (int64_t item = begin; item < end; item++) {
        const int64_t ix = item % n[6] * n[12] - n[15], iy = item / n[6] % n[5] * n[11] - n[14],
                      iz = item / (n[6] * n[5]) % n[4] * n[10] - n[13];
        const uint8_t *image = (const uint8_t *)p[1] + item / (n[6] * n[5] * n[4]) * n[0] * n[1] * n[2] * channels;
        for (int64_t first = 0; first < channels; first += BLOCK) {
            const int64_t count = MIN(BLOCK, channels - first);
            int32_t sums[BLOCK] = {0};
            const int8_t *w = (const int8_t *)p[2] + first;
            for (int64_t a = 0; a < n[7]; a++)
                for (int64_t b = 0; b < n[8]; b++, w += row) {
                    const int64_t z = iz + a * n[16], y = iy + b * n[17];
                    if (z < 0 || z >= n[0] || y < 0 || y >= n[1]) continue;
                    const uint8_t *line = image + (z * n[1] + y) * n[2] * channels + first;
                    for (int64_t c = 0; c < n[9]; c++) {
                        const int64_t x = ix + c * n[18];
                        if (x < 0 || x >= n[2]) continue;
                        const uint8_t *q = line + x * channels;
                        const int8_t *tap = w + c * channels;
                        if (count == BLOCK)
                            LOOP for (int j = 0; j < BLOCK; j++) sums[j] += (q[j] - outside) * tap[j];
                        else
                            LOOP for (int64_t j = 0; j < count; j++) sums[j] += (q[j] - outside) * tap[j];
                    }
                }
            char *one[] = {p[0] + (item * channels + first) * (int64_t)sizeof($T), (char *)sums,
                           p[3] + first * 4, p[4] + first * 4};
            requantize_$S(one, (int64_t[]){count, 0, 0}, s, 0, 1);
        }
    }
}
"""

MAXIMUM = r"""
/* the highest integer of each window; what lies outside of the image is not looked at.
 * item: a place of the result; p: results, image with channels last;  n: as `quantized_depthwise` up to 18 */
static void quantized_maximum_$S(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t channels = n[3];
    for (int64_t item = begin; item < end; item++) {
        const int64_t ix = item % n[6] * n[12] - n[15], iy = item / n[6] % n[5] * n[11] - n[14],
                      iz = item / (n[6] * n[5]) % n[4] * n[10] - n[13];
        const $T *image = (const $T *)p[1] + item / (n[6] * n[5] * n[4]) * n[0] * n[1] * n[2] * channels;
        $T *to = ($T *)p[0] + item * channels;
        for (int64_t j = 0; j < channels; j++) to[j] = $L;
        for (int64_t a = 0, z = iz; a < n[7]; a++, z += n[16])
            for (int64_t b = 0, y = iy; b < n[8] && z >= 0 && z < n[0]; b++, y += n[17])
                for (int64_t c = 0, x = ix; c < n[9] && y >= 0 && y < n[1]; c++, x += n[18]) {
                    if (x < 0 || x >= n[2]) continue;
                    const $T *from = image + ((z * n[1] + y) * n[2] + x) * channels;
                    LOOP for (int64_t j = 0; j < channels; j++) to[j] = to[j] > from[j] ? to[j] : from[j];
                }
    }
}
"""

ADD = r"""
/* item: PIECE elements, p: sums, two operands;  n: whether below zero is zero, elements
 * s: scale and zero point of both operands and of the result, lowest, highest.  Each number is rounded before the sum
 * is: the steps stand in loops of their own, that no compiler joins a product and a sum. */
static void quantized_add_$S(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    const float a_scale = (float)s[0].f, b_scale = (float)s[2].f, inverse = 1.0f / (float)s[4].f;
    const int32_t a_zero = (int32_t)s[1].f, b_zero = (int32_t)s[3].f;
    const float zero = (float)s[5].f, high = (float)s[7].f, low = (float)s[6].f;
    const float least = n[0] ? 0.0f : -INFINITY;
    float x[PIECE], y[PIECE];
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * PIECE, count = MIN(PIECE, n[1] - first);
        const $T *a = (const $T *)p[1] + first, *b = (const $T *)p[2] + first;
        $T *to = ($T *)p[0] + first;
        LOOP for (int64_t j = 0; j < count; j++) x[j] = (float)((int32_t)a[j] - a_zero) * a_scale;
        LOOP for (int64_t j = 0; j < count; j++) y[j] = (float)((int32_t)b[j] - b_zero) * b_scale;
        LOOP for (int64_t j = 0; j < count; j++) {
            const float sum = x[j] + y[j];
            x[j] = (sum < least ? least : sum) * inverse;
        }
        LOOP for (int64_t j = 0; j < count; j++) {
            float v = nearbyintf(x[j] + zero);
            v = v > low ? v : low;
            v = v < high ? v : high;
            to[j] = ($T)(int32_t)v;
        }
    }
}
"""

LOOKUP = r"""
/* each byte replaced by that of a table */
static void quantized_lookup(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    const uint8_t *x = (const uint8_t *)p[1], *to = (const uint8_t *)p[2];
    uint8_t *q = (uint8_t *)p[0];
    for (int64_t i = begin; i < end; i++) q[i] = to[x[i]];
}
"""

RANGE = r"""
/* p: scale and zero point by which the integers of [n0, n1] cover the numbers from p[1] to p[2]; p[3]: below 0 where
 * both are finite.  In 64 bits, as `choose_qparams` has it; a scale whose inverse leaves 32 bits is 0.1. */
static void quantized_range(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s, (void)begin, (void)end;
    const double least = (double)n[0], most = (double)n[1], smallest = 6.1e-5;
    double low = *(const float *)p[1], high = *(const float *)p[2];
    if (!isfinite(low) || !isfinite(high)) {
        *(int64_t *)p[3] = 0;
        return;
    }
    *(int64_t *)p[3] = -1;
    low = low < 0 ? low : 0, high = high > 0 ? high : 0;
    double scale = (high - low) / (most - least);
    if (scale == 0 || isinf(1.0f / (float)scale)) scale = 0.1;
    if (scale < smallest) {
        const double former = scale;
        scale = smallest;
        if (low == 0)
            high = smallest * (most - least);
        else if (high == 0)
            low = -smallest * (most - least);
        else
            low = low * smallest / former, high = high * smallest / former;
    }
    const double error_low = fabs(least) - fabs(low / scale), error_high = fabs(most) - fabs(high / scale);
    double zero = error_low < error_high ? least - low / scale : most - high / scale;
    zero = zero > least ? zero : least;
    ((float *)p[0])[0] = (float)scale;
    ((float *)p[0])[1] = (float)nearbyint(zero < most ? zero : most);
}
"""

#: storage: type, the type in which the zero point is taken off
_STORAGES = {
    "u8": ("uint8_t", "float"),
    "i8": ("int8_t", "float"),
    "i32": ("int32_t", "double"),
}
_QUANTIZE = "4;2; w q @ n2; r x f32 n2; r scale f32 n0; r zero f32 n0; c rows min(n0,n1)"
_DEQUANTIZE = "3;0; w x f32 n2; r q @ n2; r scale f32 n0; r zero f32 n0; c rows min(n0,n1)"
_REQUANTIZE = """3;$S; w q @ span(N,n1,n0,1); r sums i32 span(N,n2,n0,1); r multiplier f32 n0;
    r bias f32 n0"""
_IMAGE = "N/max(n4*n5*n6,1)*n0*n1*n2*n3"
_DEPTHWISE = f"""20;$S; w result @ N*n3; r image u8 {_IMAGE}; r weight i8 n7*n8*n9*n3;
    r multiplier f32 n3; r bias f32 n3"""
_MAXIMUM = f"19;0; w results @ N*n3; r image @ {_IMAGE}"
_ADD = "2;8; w result @ n1; r a @ n1; r b @ n1; c pieces N*1024-n1+1; c last n1-(N-1)*1024"
_RANGE = "2;0; w pair f32 2; r low f32 1; r high f32 1; w bad i64 1"
_LOOKUP = "0;0; w q bytes N; r x bytes N; r table bytes 256"


def unit(isa: Any) -> str:
    """The translation unit of the kernels of quantized tensors."""
    parts = [PROLOGUE]
    entries: list[Entry] = []
    for code, (kind, compute) in _STORAGES.items():
        parts.append(fill(CONVERT, S=code, T=kind, C=compute))
        entries += [
            (f"quantize:{code}", "b", f"quantize_{code}", declared(_QUANTIZE, code)),
            (f"dequantize:{code}", "b", f"dequantize_{code}", declared(_DEQUANTIZE, code)),
        ]
    parts.append(FLOATS)
    for code, kind, scalars in (
        ("u8", "uint8_t", "3"),
        ("i8", "int8_t", "3"),
        ("i32", "int32_t", "3"),
        ("f32", "float", "1"),
    ):
        parts.append(fill(DEPTHWISE, S=code, T=kind))
        for name, text in (("requantize", _REQUANTIZE), ("quantized_depthwise", _DEPTHWISE)):
            said = declared(fill(text, S=scalars), code)
            entries.append((f"{name}:{code}", "b", f"{name}_{code}", said))
    for code, kind, lowest in (("u8", "uint8_t", "0"), ("i8", "int8_t", "-128")):
        parts.append(fill(MAXIMUM, S=code, T=kind, L=lowest))
        said = declared(_MAXIMUM, code)
        entries.append((f"quantized_maximum:{code}", "b", f"quantized_maximum_{code}", said))
        parts.append(fill(ADD, S=code, T=kind))
        said = declared(_ADD, code)
        entries.append((f"quantized_add:{code}", "b", f"quantized_add_{code}", said))
    entries.append(("quantized_lookup", "b", "quantized_lookup", declared(_LOOKUP)))
    entries.append(("quantized_range", "b", "quantized_range", declared(_RANGE)))
    return "".join([*parts, LOOKUP, RANGE]) + table(entries)
