"""C kernels of regions of interest: `roi_align` and its position-sensitive form, with gradients.

Takes feature maps [batch, channels, H, W] and regions [K, 5] (image, x1, y1, x2, y2), contiguous;
the operator has checked that images exist. Bilinear weights of a bin are products of weights along
the two axes, so a bin is two short sums: rows first, along the whole width that the region covers,
then columns.
Gives, n: 0 batch, 1 channels, 2 H, 3 W, 4 K, 5 bins down, 6 bins across, 7 samples a bin (0: as many
as pixels), 8 aligned, 9 position-sensitive; s: 0 scale. All are drivers:

vision.align       p: out [K, channels (or channels / bins), down, across], input, regions
vision.align.grad  p: grad_input, grad_out, regions

Keeps true: taps of an axis lie inside the map, whatever a region says; a thread owns whole regions
(forward) or whole channels (gradient), so results do not depend on the number of threads.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill

_AXIS = """
#include <math.h>
#ifndef ROI_SHAPE
#define ROI_SHAPE
typedef struct {
    int64_t batch, channels, size[2], count, bins[2], samples, aligned, sensitive;
} roi_shape;
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* scratch of one worker in elements: places and weights of both axes, and a row */
static int64_t roi_taps(const roi_shape *r, int axis) { return r->size[axis] + 4 * r->bins[axis] + 8; }
static int64_t roi_slot(const roi_shape *r)
{
    int64_t words = 2 * (roi_taps(r, 0) + roi_taps(r, 1)) + r->bins[0] + r->bins[1] + 2;
    return words + r->size[1] + 64;
}
#endif

/* along one axis: taps [first[b], first[b + 1]) belong to bin b; low and high enclose all of them */
typedef struct {
    int64_t *first, *place, low, high;
    @T@ *weight;
} roi_axis_@s@;

static void roi_fill_@s@(roi_axis_@s@ *axis, @T@ from, @T@ to, int64_t size, int64_t bins,
    int64_t samples, int aligned, int64_t limit)
{
    @T@ span = to - from;
    if (!aligned && !(span >= 1)) span = 1;
    @T@ step = span / (@T@)bins, wide = ceil(span / (@T@)bins);
    /* samples beyond some thousands a bin change nothing that can be seen */
    if (samples <= 0) samples = wide >= 1 ? (int64_t)MIN(wide, (@T@)1e6) : 0;
    int64_t used = 0;
    axis->low = size, axis->high = -1;
    for (int64_t b = 0; b < bins; b++) {
        int64_t begin = used;
        axis->first[b] = used;
        for (int64_t k = 0; k < samples; k++) {
            @T@ x = from + (@T@)b * step + ((@T@)k + (@T@)0.5) * step / (@T@)samples;
            if (!(x >= -1 && x <= (@T@)size)) continue; /* what is no number is outside, too */
            if (x <= 0) x = 0;
            int64_t low = (int64_t)x, high = low + 1;
            if (low >= size - 1) high = low = size - 1, x = (@T@)low;
            @T@ share = (x - (@T@)low) / (@T@)samples, rest = 1 / (@T@)samples - share;
            for (int side = 0; side < 2; side++) {
                int64_t at = side ? high : low, find = used;
                @T@ weight = side ? share : rest;
                if (side && high == low) break;
                /* neighbouring samples share pixels: their taps are among the last three */
                for (int64_t back = used - 1; back >= begin && back >= used - 3; back--)
                    if (axis->place[back] == at) find = back;
                if (find == used) {
                    if (used >= limit) break;
                    axis->place[used] = at, axis->weight[used] = 0, used++;
                }
                axis->weight[find] += weight;
                axis->low = MIN(axis->low, at), axis->high = MAX(axis->high, at);
            }
        }
    }
    axis->first[bins] = used;
}

/* both axes of region k, out of a worker's scratch; gives the image, and where the row begins */
static @T@ *roi_axes_@s@(const roi_shape *r, const @T@ *region, double given, int64_t *scratch,
    roi_axis_@s@ *axes)
{
    @T@ scale = (@T@)given, shift = r->aligned ? (@T@)0.5 : 0;
    for (int a = 0; a < 2; a++) {
        axes[a].first = scratch, scratch += r->bins[a] + 1;
        axes[a].place = scratch, scratch += roi_taps(r, a);
        axes[a].weight = (@T@ *)scratch, scratch += roi_taps(r, a);
        roi_fill_@s@(axes + a, region[2 - a] * scale - shift, region[4 - a] * scale - shift,
            r->size[a], r->bins[a], r->samples, r->aligned, roi_taps(r, a));
    }
    return (@T@ *)scratch;
}
"""

_FORWARD = """
static void roi_forward_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const roi_shape *r = (const roi_shape *)n;
    const int64_t down = r->bins[0], across = r->bins[1], width = r->size[1], bins = down * across;
    const int64_t plane = r->size[0] * width, planes = r->sensitive ? r->channels / bins
        : r->channels;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t first = chunk * r->count / n[10], last = (chunk + 1) * r->count / n[10];
        for (int64_t k = first; k < last; k++) {
            const @T@ *region = (const @T@ *)p[2] + 5 * k;
            roi_axis_@s@ axes[2];
            @T@ *row = roi_axes_@s@(r, region, s[0].f, (int64_t *)p[3] + chunk * roi_slot(r), axes);
            const roi_axis_@s@ *y = axes, *x = axes + 1;
            const @T@ *image = (const @T@ *)p[1] + (int64_t)region[0] * r->channels * plane;
            @T@ *out = (@T@ *)p[0] + k * planes * bins;
            const int64_t low = x->low, length = x->high - x->low + 1;
            /* few places of a wide region are read one by one (speed only) */
            const int sparse = r->sensitive || length > 4 * x->first[across];
            const int64_t apart = r->sensitive ? plane : 0, deep = r->sensitive ? bins : 1;
            const int64_t per_line = 64 / sizeof(@T@); /* elements of a cache line */
            for (int64_t c = 0; c < planes; c++)
                for (int64_t i = 0; i < down; i++, out += across) {
                    if (length <= 0 || y->first[i] == y->first[i + 1]) {
                        for (int64_t j = 0; j < across; j++) out[j] = 0;
                        continue;
                    }
                    if (sparse) {
                        for (int64_t j = 0; j < across; j++) {
                            const @T@ *map = image + c * deep * plane + (i * across + j) * apart;
                            @T@ sum = 0;
                            for (int64_t v = y->first[i]; v < y->first[i + 1]; v++)
                                for (int64_t u = x->first[j]; u < x->first[j + 1]; u++)
                                    sum += y->weight[v] * x->weight[u]
                                        * map[y->place[v] * width + x->place[u]];
                            out[j] = sum;
                        }
                        continue;
                    }
                    const @T@ *map = image + c * plane + low;
                    int64_t v = y->first[i], stop = y->first[i + 1];
                    /* the same places of the next channel, which no processor foresees */
                    if (c + 1 < planes)
                        for (int64_t t = v; t < stop; t++)
                            for (int64_t u = 0; u < length + per_line - 1; u += per_line)
                                __builtin_prefetch(map + plane + y->place[t] * width
                                    + MIN(u, length - 1));
                    const @T@ *line = map + y->place[v] * width;
                    @T@ weight = y->weight[v];
                    if (v + 1 < stop) {
                        const @T@ *next = map + y->place[v + 1] * width;
                        @T@ second = y->weight[v + 1];
                        _Pragma("omp simd") for (int64_t u = 0; u < length; u++)
                            row[u] = weight * line[u] + second * next[u];
                        v++;
                    } else {
                        _Pragma("omp simd") for (int64_t u = 0; u < length; u++)
                            row[u] = weight * line[u];
                    }
                    for (v++; v < stop; v++) {
                        line = map + y->place[v] * width, weight = y->weight[v];
                        _Pragma("omp simd") for (int64_t u = 0; u < length; u++)
                            row[u] += weight * line[u];
                    }
                    const @T@ *shifted = row - low;
                    for (int64_t j = 0; j < across; j++) {
                        @T@ sum = 0;
                        for (int64_t u = x->first[j]; u < x->first[j + 1]; u++)
                            sum += x->weight[u] * shifted[x->place[u]];
                        out[j] = sum;
                    }
                }
        }
    }
}

static int vision_align_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    int64_t sizes[11], chunks = MIN(n[4], (int64_t)rt->threads() * 4);
    memcpy(sizes, n, 10 * sizeof *n), sizes[10] = chunks;
    if (!chunks) return 0;
    char *scratch = rt->scratch(chunks * roi_slot((const roi_shape *)n) * 8);
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], p[2], scratch};
    rt->parallel(roi_forward_@s@, pointers, sizes, s, chunks, 1);
    rt->release(scratch);
    return 0;
}
"""

_BACKWARD = """
/* items are blocks of channels; every worker walks over all regions and adds to its own channels */
static void roi_backward_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const roi_shape *r = (const roi_shape *)n;
    const int64_t down = r->bins[0], across = r->bins[1], width = r->size[1], bins = down * across;
    const int64_t plane = r->size[0] * width, planes = r->sensitive ? r->channels / bins
        : r->channels;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t first = chunk * planes / n[10], last = (chunk + 1) * planes / n[10];
        int64_t each = r->sensitive ? bins : 1;
        for (int64_t b = 0; b < r->batch; b++)
            memset((@T@ *)p[0] + (b * r->channels + first * each) * plane, 0,
                (size_t)((last - first) * each * plane) * sizeof(@T@));
        for (int64_t k = 0; k < r->count; k++) {
            const @T@ *region = (const @T@ *)p[2] + 5 * k;
            roi_axis_@s@ axes[2];
            @T@ *row = roi_axes_@s@(r, region, s[0].f, (int64_t *)p[3] + chunk * roi_slot(r), axes);
            const roi_axis_@s@ *y = axes, *x = axes + 1;
            @T@ *image = (@T@ *)p[0] + (int64_t)region[0] * r->channels * plane;
            const int64_t low = x->low, length = x->high - x->low + 1;
            if (length <= 0) continue;
            for (int64_t c = first; c < last; c++)
                for (int64_t i = 0; i < down; i++) {
                    const @T@ *grad = (const @T@ *)p[1] + ((k * planes + c) * down + i) * across;
                    if (r->sensitive) {
                        for (int64_t j = 0; j < across; j++) {
                            @T@ *map = image + (c * bins + i * across + j) * plane;
                            for (int64_t v = y->first[i]; v < y->first[i + 1]; v++)
                                for (int64_t u = x->first[j]; u < x->first[j + 1]; u++)
                                    map[y->place[v] * width + x->place[u]] += y->weight[v]
                                        * x->weight[u] * grad[j];
                        }
                        continue;
                    }
                    memset(row, 0, (size_t)length * sizeof(@T@));
                    for (int64_t j = 0; j < across; j++)
                        for (int64_t u = x->first[j]; u < x->first[j + 1]; u++)
                            row[x->place[u] - low] += x->weight[u] * grad[j];
                    for (int64_t v = y->first[i]; v < y->first[i + 1]; v++) {
                        @T@ *line = image + c * plane + y->place[v] * width + low;
                        @T@ weight = y->weight[v];
                        _Pragma("omp simd") for (int64_t u = 0; u < length; u++)
                            line[u] += weight * row[u];
                    }
                }
        }
    }
}

static int vision_align_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    const roi_shape *r = (const roi_shape *)n;
    int64_t planes = r->sensitive ? r->channels / (r->bins[0] * r->bins[1]) : r->channels;
    int64_t sizes[11], chunks = MIN(planes, (int64_t)rt->threads() * 4);
    memcpy(sizes, n, 10 * sizeof *n), sizes[10] = chunks;
    if (!chunks) return 0;
    char *scratch = rt->scratch(chunks * roi_slot(r) * 8);
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], p[2], scratch};
    rt->parallel(roi_backward_@s@, pointers, sizes, s, chunks, 1);
    rt->release(scratch);
    return 0;
}
"""

_MAPS = "n0*n1*n2*n3"
_BINS = "n4*if(n9,n1/(n5*n6),n1)*n5*n6"
_RULES = "c down n5; c across n6; c height n2; c width n3"
_OPERANDS = {
    "vision.align": f"10;1; w out @ {_BINS}; r input @ {_MAPS}; r regions @ n4*5; {_RULES}",
    "vision.align.grad": f"""10;1; w grad_input @ {_MAPS}; r grad @ {_BINS}; r regions @ n4*5;
        {_RULES}""",
}


def unit(isa: Isa) -> str:
    """The translation unit for one instruction set."""
    text: list[str] = []
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        text.append(fill(_AXIS + _FORWARD + _BACKWARD, s=dtype, T=STORAGES[dtype].ctype))
        for name, said in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            entries.append((f"{name}:{dtype}", "d", function, declared(said, dtype)))
    return PROLOGUE + "".join(text) + table(entries)
