"""C kernels of quantized tensors: numbers to integers and back, sums of products to integers.

Takes an instruction set; `unit` gives one translation unit with `quantize`, `dequantize`, `requantize`,
`requantize_float`, `quantized_patches`, `quantized_depthwise` and `quantized_lookup`. Keeps true: numbers are
rounded to the
nearest, ties to even, in float32, and limited to the range of the integers before they become such; NaN becomes the
lowest integer.
"""

from __future__ import annotations

from typing import Any

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.templates.tile_kind import fill

PROLOGUE = r"""
#include "facula_abi.h"
#include <math.h>
#include <string.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define LOOP _Pragma("GCC ivdep")
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

WINDOWS = r"""
/* n of both: 0-2 image, 3 channels, 4-6 result, 7-9 kernel, 10-12 stride, 13-15 padding, 16-18 dilation,
 * then 19 first channel, 20 channels taken, 21 what lies outside */

/* item: a place of the result; p: rows of bytes, image with channels last */
static void quantized_patches(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t taken = n[20], row = n[7] * n[8] * n[9] * taken;
    for (int64_t item = begin; item < end; item++) {
        char *to = p[0] + item * row;
        const int64_t x = item % n[6], y = item / n[6] % n[5], z = item / (n[6] * n[5]) % n[4];
        const int64_t image = item / (n[6] * n[5] * n[4]);
        for (int64_t a = 0; a < n[7]; a++)
            for (int64_t b = 0; b < n[8]; b++)
                for (int64_t c = 0; c < n[9]; c++, to += taken) {
                    const int64_t iz = z * n[10] - n[13] + a * n[16], iy = y * n[11] - n[14] + b * n[17],
                                  ix = x * n[12] - n[15] + c * n[18];
                    if (iz < 0 || iz >= n[0] || iy < 0 || iy >= n[1] || ix < 0 || ix >= n[2])
                        memset(to, (int)n[21], (size_t)taken);
                    else
                        memcpy(to, p[1] + (((image * n[0] + iz) * n[1] + iy) * n[2] + ix) * n[3] + n[19],
                        (size_t)taken);
                }
    }
}

/* item: a place of the result; p: sums, image, weights [taps, channels]; n[21]: the image's zero point */
static void quantized_depthwise(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)s;
    const int64_t channels = n[3];
    const int32_t zero = (int32_t)n[21];
    for (int64_t item = begin; item < end; item++) {
        int32_t *sums = (int32_t *)p[0] + item * channels;
        const int8_t *w = (const int8_t *)p[2];
        const int64_t x = item % n[6], y = item / n[6] % n[5], z = item / (n[6] * n[5]) % n[4];
        const int64_t image = item / (n[6] * n[5] * n[4]);
        memset(sums, 0, (size_t)channels * 4);
        for (int64_t a = 0; a < n[7]; a++)
            for (int64_t b = 0; b < n[8]; b++)
                for (int64_t c = 0; c < n[9]; c++, w += channels) {
                    const int64_t iz = z * n[10] - n[13] + a * n[16], iy = y * n[11] - n[14] + b * n[17],
                                  ix = x * n[12] - n[15] + c * n[18];
                    if (iz < 0 || iz >= n[0] || iy < 0 || iy >= n[1] || ix < 0 || ix >= n[2]) continue;
                    const uint8_t *q = (const uint8_t *)p[1] + (((image * n[0] + iz) * n[1] + iy) * n[2] + 
                        ix) * channels;
                    LOOP for (int64_t j = 0; j < channels; j++) sums[j] += ((int32_t)q[j] - zero) * w[j];
                }
    }
}

/* each byte replaced by that of a table */
static void quantized_lookup(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    (void)n, (void)s;
    const uint8_t *x = (const uint8_t *)p[1], *to = (const uint8_t *)p[2];
    uint8_t *q = (uint8_t *)p[0];
    for (int64_t i = begin; i < end; i++) q[i] = to[x[i]];
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
_PATCHES = f"22;0; w rows bytes N*n7*n8*n9*n20; r image bytes {_IMAGE}; c taken 1+n3-n19-n20"
_DEPTHWISE = f"22;0; w sums i32 N*n3; r image u8 {_IMAGE}; r weight i8 n7*n8*n9*n3"
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
            (f"requantize:{code}", "b", f"requantize_{code}", _requantize(code, 3)),
        ]
    entries.append(("requantize:f32", "b", "requantize_f32", _requantize("f32", 1)))
    for name, text in (("patches", _PATCHES), ("depthwise", _DEPTHWISE), ("lookup", _LOOKUP)):
        entries.append((f"quantized_{name}", "b", f"quantized_{name}", declared(text)))
    return "".join([*parts, FLOATS, WINDOWS]) + table(entries)


def _requantize(code: str, scalars: int) -> str:
    return declared(fill(_REQUANTIZE, S=str(scalars)), code)
