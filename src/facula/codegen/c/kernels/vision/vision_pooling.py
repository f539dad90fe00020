"""C kernels that pool regions of whole pixels: the largest value of a bin, or the mean of a plane's bin.

Takes feature maps [batch, channels, H, W] and regions [K, 5] (image, x1, y1, x2, y2), contiguous;
the operator has checked that images exist.
Gives, n: 0 channels, 1 H, 2 W, 3 bins down, 4 bins across, 5 regions, 6 batch; s: 0 scale. All but
the one that is a body are drivers:

vision.largest         p: out [K, channels, down, across], where (int32, likewise: the place in its
                       plane, -1 for an empty bin), input, regions
vision.largest.grad    p: grad_input, grad_out, regions, where            (body) items: channels
vision.mean            p: out [K, channels / bins, down, across], source (int32: the plane), input,
                       regions
vision.mean.grad       p: grad_input, grad_out, regions

Keeps true: bins are cut at the borders of the map; the edges of all bins are found once, for all
channels; items of the forward kernels go through the regions of one channel before the next, so
that its planes stay in the cache, and each writes a row of its own.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill

_BIN = """
#include <math.h>
#ifndef POOL_SHAPE
#define POOL_SHAPE
#define MAX(a, b) ((a) > (b) ? (a) : (b))
typedef struct {
    int64_t channels, height, width, down, across, count, batch;
} pool_shape;
static int64_t pool_inside(double x, int64_t size)
{
    return x > 0 ? (x < (double)size ? (int64_t)x : size) : 0;
}
#endif

/* the edges of a region's bins: low and high of each bin down, then of each bin across; `one` is what
 * a region of one pixel has as its size more than the distance of its ends, and without it the last
 * pixel does not count */
static void pool_edges_@s@(const pool_shape *g, const @T@ *region, double scale, int one,
    int64_t *edges)
{
    const int64_t bins[2] = {g->down, g->across}, size[2] = {g->height - !one, g->width - !one};
    for (int a = 0; a < 2; a++) {
        double from = @ROUND@(region[2 - a] * (@T@)scale), to = @ROUND@(region[4 - a] * (@T@)scale);
        double span = to - from + one;
        if (!(span >= 1)) span = 1;
        @T@ step = (@T@)span / (@T@)bins[a];
        for (int64_t b = 0; b < bins[a]; b++) {
            *edges++ = pool_inside(@FLOOR@((@T@)b * step) + from, size[a]);
            *edges++ = pool_inside(@CEIL@((@T@)(b + 1) * step) + from, size[a]);
        }
    }
}

/* runs `part` over so many items, with the edges of all regions as one pointer more */
static int pool_run_@s@(const fk_runtime *rt, fk_body part, char *const *p, const int64_t *n,
    const fk_scalar *s, int regions, int one, int64_t items)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t each = 2 * (g->down + g->across);
    int64_t *edges = (int64_t *)rt->scratch(MAX(g->count * each, 1) * 8);
    if (!edges) return 1;
    for (int64_t k = 0; k < g->count; k++)
        pool_edges_@s@(g, (const @T@ *)p[regions] + 5 * k, s[0].f, one, edges + k * each);
    char *pointers[] = {p[0], p[1], p[2], p[3], (char *)edges};
    rt->parallel(part, pointers, n, s, items, 16);
    rt->release((char *)edges);
    return 0;
}

static void largest_part_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width;
    for (int64_t item = begin; item < end; item++) {
        int64_t c = item / g->count, k = item % g->count, row = (k * g->channels + c) * bins;
        const int64_t *down = (const int64_t *)p[4] + k * 2 * (g->down + g->across);
        int64_t image = (int64_t)((const @T@ *)p[3])[5 * k];
        const @T@ *map = (const @T@ *)p[2] + (image * g->channels + c) * plane;
        @T@ *out = (@T@ *)p[0] + row;
        int32_t *places = (int32_t *)p[1] + row;
        for (int64_t i = 0; i < g->down; i++, down += 2) {
            const int64_t *across = down + 2 * (g->down - i);
            for (int64_t j = 0; j < g->across; j++, across += 2) {
                int empty = down[1] <= down[0] || across[1] <= across[0];
                @T@ best = empty ? 0 : -@MOST@;
                int64_t where = -1;
                for (int64_t y = down[0]; y < down[1]; y++)
                    for (int64_t x = across[0]; x < across[1]; x++)
                        if (map[y * g->width + x] > best)
                            best = map[y * g->width + x], where = y * g->width + x;
                *out++ = best, *places++ = (int32_t)where;
            }
        }
    }
}

static int vision_largest_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    return pool_run_@s@(rt, largest_part_@s@, p, n, s, 3, 1, n[0] * n[5]);
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

static void mean_part_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width, planes = g->channels / bins;
    for (int64_t item = begin; item < end; item++) {
        int64_t c = item / g->count, k = item % g->count, row = (k * planes + c) * bins;
        const int64_t *down = (const int64_t *)p[4] + k * 2 * (g->down + g->across);
        int64_t image = (int64_t)((const @T@ *)p[3])[5 * k];
        const @T@ *map = (const @T@ *)p[2] + (image * g->channels + c * bins) * plane;
        @T@ *out = (@T@ *)p[0] + row;
        int32_t *source = (int32_t *)p[1] + row;
        for (int64_t i = 0; i < g->down; i++, down += 2) {
            const int64_t *across = down + 2 * (g->down - i);
            for (int64_t j = 0; j < g->across; j++, across += 2, map += plane) {
                int64_t high = down[1] - down[0], wide = across[1] - across[0];
                const @T@ *line = map + down[0] * g->width + across[0];
                @T@ sum = 0;
                for (int64_t y = 0; y < high; y++, line += g->width)
                    for (int64_t x = 0; x < wide; x++) sum += line[x];
                *out++ = high > 0 && wide > 0 ? sum / (@T@)(high * wide) : 0;
                *source++ = (int32_t)(c * bins + i * g->across + j);
            }
        }
    }
}

static int vision_mean_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    int64_t planes = n[0] / (n[3] * n[4]);
    return pool_run_@s@(rt, mean_part_@s@, p, n, s, 3, 0, planes * n[5]);
}

static void mean_grad_part_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const pool_shape *g = (const pool_shape *)n;
    int64_t bins = g->down * g->across, plane = g->height * g->width, planes = g->channels / bins;
    for (int64_t c = begin; c < end; c++) {
        for (int64_t b = 0; b < g->batch; b++)
            memset((@T@ *)p[0] + (b * g->channels + c) * plane, 0, (size_t)plane * sizeof(@T@));
        int64_t b = c % bins, out = c / bins, i = b / g->across, j = b % g->across;
        const int64_t *down = (const int64_t *)p[4] + 2 * i, *across = down + 2 * (g->down - i + j);
        const @T@ *grad = (const @T@ *)p[1] + out * bins + b, *region = (const @T@ *)p[2];
        for (int64_t k = 0; k < g->count; k++) {
            int64_t high = down[1] - down[0], wide = across[1] - across[0];
            @T@ *line = (@T@ *)p[0] + ((int64_t)*region * g->channels + c) * plane
                + down[0] * g->width + across[0];
            if (high > 0 && wide > 0) {
                @T@ share = *grad / (@T@)(high * wide);
                for (int64_t y = 0; y < high; y++, line += g->width)
                    for (int64_t x = 0; x < wide; x++) line[x] += share;
            }
            down += 2 * (g->down + g->across), across += 2 * (g->down + g->across);
            grad += planes * bins, region += 5;
        }
    }
}

static int vision_mean_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    char *const pointers[] = {p[0], p[1], p[2], p[2]}; /* there is no fourth */
    return pool_run_@s@(rt, mean_grad_part_@s@, pointers, n, s, 2, 0, n[0]);
}
"""

_MAPS, _RULES = "n6*n0*n1*n2", "c down n3; c across n4; c height n1; c width n2"
_FULL, _PART = "n5*n0*n3*n4", "n5*(n0/(n3*n4))*n3*n4"
_OPERANDS = {
    "vision.largest": f"w out @ {_FULL}; w where i32 {_FULL}; r input @ {_MAPS}; r regions @ n5*5",
    "vision.largest.grad": f"""w grad_input @ {_MAPS}; r grad @ {_FULL}; r regions @ n5*5;
        r where i32 {_FULL}; c items 1+n0-N""",
    "vision.mean": f"w out @ {_PART}; w source i32 {_PART}; r input @ {_MAPS}; r regions @ n5*5",
    "vision.mean.grad": f"w grad_input @ {_MAPS}; r grad @ {_PART}; r regions @ n5*5",
}
#: kernels whose items are channels, and which find no edges
_BODIES = ("vision.largest.grad",)


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
            kind = "b" if name in _BODIES else "d"
            entries.append((f"{name}:{dtype}", kind, function, text_of))
    return PROLOGUE + "".join(text) + table(entries)
