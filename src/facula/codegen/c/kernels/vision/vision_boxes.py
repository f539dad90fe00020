"""C kernels of boxes: greedy suppression of boxes that overlap, and overlaps of rotated boxes.

Gives two drivers:

vision.nms          p: keep (int64 [n + 1]: how many, then positions in the order of scores), boxes
                    [n, 4] as corners, already in falling order of scores.  n: boxes; s: threshold
vision.iou.rotated  p: result [a, b], first boxes [a, 5], second boxes [b, 5] (centre, size, degrees).
                    n: a, b

Keeps true: overlaps are rounded as one division of sums without fused products, so that boxes on the
threshold fall where they do everywhere; each result element is one thread's.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill

_RULES = """
#include <math.h>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define UNFUSED
#else
#define UNFUSED __attribute__((optimize("fp-contract=off")))
#endif
"""

_SUPPRESS = """
/* boxes behind `i` that overlap it: dead is set. Columns are x1 y1 x2 y2 area, `n` long each */
static void UNFUSED nms_strike_@s@(const @T@ *restrict c,
    uint8_t *restrict dead, int64_t i, int64_t n, @T@ limit)
{
    const @T@ *x1 = c, *y1 = c + n, *x2 = c + 2 * n, *y2 = c + 3 * n, *area = c + 4 * n;
    const @T@ left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], own = area[i];
    _Pragma("omp simd") for (int64_t j = i + 1; j < n; j++) {
        @T@ l = x1[j] > left ? x1[j] : left, t = y1[j] > top ? y1[j] : top;
        @T@ r = x2[j] < right ? x2[j] : right, b = y2[j] < bottom ? y2[j] : bottom;
        @T@ w = r - l > 0 ? r - l : 0, h = b - t > 0 ? b - t : 0, both = w * h;
        @T@ share = both / (own + area[j] - both);
        dead[j] |= share > limit;
    }
}

static int vision_nms_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    const int64_t count = n[0];
    int64_t *keep = (int64_t *)p[0], kept = 0;
    const @T@ *boxes = (const @T@ *)p[1];
    @T@ *c = rt->scratch(count * 5 * (int64_t)sizeof(@T@) + count + 1);
    if (!c) return 1;
    uint8_t *dead = (uint8_t *)(c + 5 * count);
    memset(dead, 0, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < 4; k++) c[k * count + i] = boxes[4 * i + k];
        c[4 * count + i] = (boxes[4 * i + 2] - boxes[4 * i]) * (boxes[4 * i + 3] - boxes[4 * i + 1]);
    }
    /* the largest number of this dtype that is no larger than the threshold decides the same */
    @T@ limit = (@T@)s[0].f;
    if ((double)limit > s[0].f) limit = @NEXT@(limit, -(@T@)INFINITY);
    for (int64_t i = 0; i < count; i++) {
        if (dead[i]) continue;
        keep[1 + kept++] = i;
        nms_strike_@s@(c, dead, i, count, limit);
    }
    keep[0] = kept;
    rt->release(c);
    return 0;
}
"""

_ROTATED = """
/* the corners of a box around `(x, y)` */
static void rotated_corners_@s@(const @T@ *box, double x, double y, double *at)
{
    double angle = (double)box[4] * 0.017453292519943295, a = cos(angle) * 0.5, b = sin(angle) * 0.5;
    double w = box[2], h = box[3];
    at[0] = x + b * h + a * w, at[1] = y + a * h - b * w;
    at[2] = x - b * h + a * w, at[3] = y - a * h - b * w;
    at[4] = 2 * x - at[0], at[5] = 2 * y - at[1];
    at[6] = 2 * x - at[2], at[7] = 2 * y - at[3];
}

/* what is left of a polygon on the inner side of the line from a to b */
static int rotated_cut_@s@(const double *in, int n, const double *a, const double *b, double sign,
    double *out)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        const double *p = in + 2 * i, *q = in + 2 * ((i + 1) % n);
        double u = sign * ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]));
        double v = sign * ((b[0] - a[0]) * (q[1] - a[1]) - (b[1] - a[1]) * (q[0] - a[0]));
        if (u >= 0) out[2 * m] = p[0], out[2 * m + 1] = p[1], m++;
        if ((u > 0 && v < 0) || (u < 0 && v > 0)) {
            double t = u / (u - v);
            out[2 * m] = p[0] + t * (q[0] - p[0]), out[2 * m + 1] = p[1] + t * (q[1] - p[1]), m++;
        }
    }
    return m;
}

static double rotated_area_@s@(const double *at, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double *p = at + 2 * i, *q = at + 2 * ((i + 1) % n);
        sum += p[0] * q[1] - p[1] * q[0];
    }
    return 0.5 * sum;
}

static void vision_iou_rotated_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < n[1]; j++) {
            const @T@ *a = (const @T@ *)p[1] + 5 * i, *b = (const @T@ *)p[2] + 5 * j;
            double first[8], second[8], one[40], two[40], own = (double)a[2] * a[3];
            double other = (double)b[2] * b[3], both = 0;
            /* around the middle of the two centres, where few digits are lost */
            double x = ((double)a[0] - b[0]) / 2, y = ((double)a[1] - b[1]) / 2;
            rotated_corners_@s@(a, x, y, first), rotated_corners_@s@(b, -x, -y, second);
            double sign = rotated_area_@s@(second, 4) < 0 ? -1 : 1;
            memcpy(one, first, sizeof first);
            int m = 4;
            for (int k = 0; k < 4 && m; k++) {
                m = rotated_cut_@s@(one, m, second + 2 * k, second + 2 * ((k + 1) % 4), sign, two);
                memcpy(one, two, sizeof(double) * 2 * (size_t)m);
            }
            if (m > 2) both = fabs(rotated_area_@s@(one, m));
            int none = own < 1e-14 || other < 1e-14;
            ((@T@ *)p[0])[i * n[1] + j] = none ? 0 : (@T@)(both / (own + other - both));
        }
}
"""

_OPERANDS = {
    "vision.nms": ("d", "1;1; w keep i64 n0+1; r boxes @ n0*4"),
    "vision.iou.rotated": ("b", "2;0; w result @ N*n1; r first @ N*5; r second @ n1*5"),
}


def unit(isa: Isa) -> str:
    """The translation unit for one instruction set."""
    text: list[str] = []
    entries: list[Entry] = []
    for dtype, nearest in (("f32", "nextafterf"), ("f64", "nextafter")):
        text.append(fill(_SUPPRESS + _ROTATED, s=dtype, T=STORAGES[dtype].ctype, NEXT=nearest))
        for name, (kind, said) in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            entries.append((f"{name}:{dtype}", kind, function, declared(said, dtype)))
    return PROLOGUE + _RULES + "".join(text) + table(entries)
