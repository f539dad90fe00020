"""C kernels that pool regions of whole pixels: the largest value of a bin, or the mean of a plane's bin.

Takes feature maps [batch, channels, H, W] and regions [K, 5] (image, x1, y1, x2, y2), contiguous;
the operator has checked that images exist.
Gives bodies, n: 0 channels, 1 H, 2 W, 3 bins down, 4 bins across, 5 regions, 6 batch; s: 0 scale.

vision.largest         p: out [K, channels, down, across], where (int32, likewise: the place in its
                       plane, -1 for an empty bin), input, regions        items: regions
vision.largest.grad    p: grad_input, grad_out, regions, where            items: channels
vision.mean            p: out [K, channels / bins, down, across], source (int32: the plane), input,
                       regions                                            items: regions
vision.mean.grad       p: grad_input, grad_out, regions                   items: channels

Keeps true: bins are cut at the borders of the map; each thread writes to its own planes.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.templates.storage import PROLOGUE, STORAGES, fill

_BIN = """
#include <math.h>
#ifndef POOL_SHAPE
#define POOL_SHAPE
typedef struct {
    int64_t channels, height, width, down, across, count, batch;
} pool_shape;
static int64_t pool_inside(double x, int64_t size)
{
    return x > 0 ? (x < (double)size ? (int64_t)x : size) : 0;
}
#endif

/* the pixels [at[0], at[1]) x [at[2], at[3]) of bin (i, j); `one` is what a region of one pixel has
 * as its size more than the distance of its ends; the last pixel that counts is `most` */
static void pool_bin_@s@(const pool_shape *g, const @T@ *region, double scale, int64_t i, int64_t j,
    int one, int64_t *at)
{
    const int64_t bin[2] = {i, j}, bins[2] = {g->down, g->across}, size[2] = {g->height, g->width};
    for (int a = 0; a < 2; a++) {
        double from = @ROUND@(region[2 - a] * (@T@)scale), to = @ROUND@(region[4 - a] * (@T@)scale);
        double span = to - from + one;
        if (!(span >= 1)) span = 1;
        @T@ step = (@T@)span / (@T@)bins[a];
        double low = @FLOOR@((@T@)bin[a] * step) + from, high = @CEIL@((@T@)(bin[a] + 1) * step) + from;
        at[2 * a] = pool_inside(low, size[a] - !one), at[2 * a + 1] = pool_inside(high, size[a] - !one);
    }
}

static void vision_largest_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width;
    for (int64_t k = begin; k < end; k++) {
        const @T@ *region = (const @T@ *)p[3] + 5 * k;
        const @T@ *image = (const @T@ *)p[2] + (int64_t)region[0] * g->channels * plane;
        for (int64_t b = 0; b < bins; b++) {
            int64_t at[4];
            pool_bin_@s@(g, region, s[0].f, b / g->across, b % g->across, 1, at);
            int empty = at[1] <= at[0] || at[3] <= at[2];
            for (int64_t c = 0; c < g->channels; c++) {
                const @T@ *map = image + c * plane;
                int64_t out = (k * g->channels + c) * bins + b;
                @T@ best = empty ? 0 : -@MOST@;
                int64_t where = -1;
                for (int64_t y = at[0]; y < at[1]; y++)
                    for (int64_t x = at[2]; x < at[3]; x++)
                        if (map[y * g->width + x] > best)
                            best = map[y * g->width + x], where = y * g->width + x;
                ((@T@ *)p[0])[out] = best, ((int32_t *)p[1])[out] = (int32_t)where;
            }
        }
    }
}

static void vision_largest_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width;
    for (int64_t c = begin; c < end; c++) {
        for (int64_t b = 0; b < g->batch; b++)
            memset((@T@ *)p[0] + (b * g->channels + c) * plane, 0, (size_t)plane * sizeof(@T@));
        for (int64_t k = 0; k < g->count; k++) {
            int64_t image = (int64_t)((const @T@ *)p[2])[5 * k], from = (k * g->channels + c) * bins;
            @T@ *map = (@T@ *)p[0] + (image * g->channels + c) * plane;
            for (int64_t b = 0; b < bins; b++) {
                int32_t where = ((const int32_t *)p[3])[from + b];
                if (where >= 0 && where < plane) map[where] += ((const @T@ *)p[1])[from + b];
            }
        }
    }
}

static void vision_mean_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width, planes = g->channels / bins;
    for (int64_t k = begin; k < end; k++) {
        const @T@ *region = (const @T@ *)p[3] + 5 * k;
        const @T@ *image = (const @T@ *)p[2] + (int64_t)region[0] * g->channels * plane;
        for (int64_t b = 0; b < bins; b++) {
            int64_t at[4];
            pool_bin_@s@(g, region, s[0].f, b / g->across, b % g->across, 0, at);
            int empty = at[1] <= at[0] || at[3] <= at[2];
            for (int64_t c = 0; c < planes; c++) {
                const @T@ *map = image + (c * bins + b) * plane;
                int64_t out = (k * planes + c) * bins + b;
                @T@ sum = 0;
                for (int64_t y = at[0]; y < at[1]; y++)
                    for (int64_t x = at[2]; x < at[3]; x++) sum += map[y * g->width + x];
                ((@T@ *)p[0])[out] = empty ? 0 : sum / (@T@)((at[1] - at[0]) * (at[3] - at[2]));
                ((int32_t *)p[1])[out] = (int32_t)(c * bins + b);
            }
        }
    }
}

static void vision_mean_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width, planes = g->channels / bins;
    for (int64_t c = begin; c < end; c++) {
        for (int64_t b = 0; b < g->batch; b++)
            memset((@T@ *)p[0] + (b * g->channels + c) * plane, 0, (size_t)plane * sizeof(@T@));
        int64_t b = c % bins, out = c / bins;
        for (int64_t k = 0; k < g->count; k++) {
            const @T@ *region = (const @T@ *)p[2] + 5 * k;
            @T@ *map = (@T@ *)p[0] + ((int64_t)region[0] * g->channels + c) * plane;
            int64_t at[4];
            pool_bin_@s@(g, region, s[0].f, b / g->across, b % g->across, 0, at);
            if (at[1] <= at[0] || at[3] <= at[2]) continue;
            @T@ share = ((const @T@ *)p[1])[(k * planes + out) * bins + b]
                / (@T@)((at[1] - at[0]) * (at[3] - at[2]));
            for (int64_t y = at[0]; y < at[1]; y++)
                for (int64_t x = at[2]; x < at[3]; x++) map[y * g->width + x] += share;
        }
    }
}
"""

_MAPS, _RULES = "n6*n0*n1*n2", "c down n3; c across n4; c height n1; c width n2"
_FULL, _PART = "n5*n0*n3*n4", "n5*(n0/(n3*n4))*n3*n4"
_OPERANDS = {
    "vision.largest": f"w out @ {_FULL}; w where i32 {_FULL}; r input @ {_MAPS}; r regions @ N*5",
    "vision.largest.grad": f"""w grad_input @ {_MAPS}; r grad @ {_FULL}; r regions @ n5*5;
        r where i32 {_FULL}; c items 1+n0-N""",
    "vision.mean": f"w out @ {_PART}; w source i32 {_PART}; r input @ {_MAPS}; r regions @ N*5",
    "vision.mean.grad": f"""w grad_input @ {_MAPS}; r grad @ {_PART}; r regions @ n5*5;
        c items 1+n0-N""",
}


def unit(isa: Isa) -> str:
    """The translation unit for one instruction set."""
    text: list[str] = []
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        tail = "f" if dtype == "f32" else ""
        named = {"ROUND": "round", "FLOOR": "floor", "CEIL": "ceil"}
        names = {key: name + tail for key, name in named.items()}
        names["MOST"] = "__FLT_MAX__"
        text.append(fill(_BIN, s=dtype, T=STORAGES[dtype].ctype, **names))
        for name, said in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            text_of = declared(f"7;1; {said}; {_RULES}", dtype)
            entries.append((f"{name}:{dtype}", "b", function, text_of))
    return PROLOGUE + "".join(text) + table(entries)
