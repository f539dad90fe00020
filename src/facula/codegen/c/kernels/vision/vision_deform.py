"""C kernels of convolutions whose taps are displaced: columns of sampled pixels, and gradients.

Takes inputs [images, channels, H, W], displacements [images, groups * 2 * taps, out] (down, across),
factors [images, groups * taps, out] or none, contiguous; out is OH * OW places.
Gives bodies, n: 0 images, 1 channels, 2 H, 3 W, 4 OH, 5 OW, 6 KH, 7 KW, 8-9 stride, 10-11 padding,
12-13 dilation, 14 groups:

vision.deform             p: columns [images, channels * taps, out], input, offset, mask
                          items: images * groups * taps
vision.deform.grad.input  p: grad_input, grad of columns, offset, mask    items: images * channels
vision.deform.grad.taps   p: grad of offset, grad of mask (or null), grad of columns, input, offset,
                          mask                                    items: images * groups * taps

Keeps true: pixels outside of the image are zeros; a run of places shares one table of corners for
all channels of a group; each thread writes to its own planes.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill

_CORNERS = """
#include <math.h>
#ifndef DEFORM_SHAPE
#define DEFORM_SHAPE
typedef struct {
    int64_t images, channels, height, width, oh, ow, kh, kw, stride[2], padding[2], dilation[2], groups;
} deform_shape;
enum { RUN = 128 };
#endif

/* the corners of a run of places: where, their shares, and whether they lie inside; a corner outside
 * is read at place 0 with a share of 0 */
typedef struct {
    int32_t at[4][RUN];
    @T@ share[4][RUN], inside[4][RUN], down[RUN], across[RUN], factor[RUN];
} corners_@s@;

static void deform_corners_@s@(const deform_shape *g, const @T@ *offset, const @T@ *mask, int64_t image,
    int64_t group, int64_t tap, int64_t from, int64_t count, corners_@s@ *c)
{
    const int64_t out = g->oh * g->ow, taps = g->kh * g->kw;
    const @T@ *dy = offset + ((image * g->groups + group) * 2 * taps + 2 * tap) * out + from;
    const @T@ *dx = dy + out, *m = mask ? mask + ((image * g->groups + group) * taps + tap) * out + from
        : 0;
    const @T@ y0 = (@T@)(tap / g->kw * g->dilation[0] - g->padding[0]);
    const @T@ x0 = (@T@)(tap % g->kw * g->dilation[1] - g->padding[1]);
    const @T@ high = (@T@)g->height, wide = (@T@)g->width;
    const int32_t rows = (int32_t)g->height, columns = (int32_t)g->width;
    _Alignas(64) @T@ ys[RUN], xs[RUN];
    int64_t oy = from / g->ow, ox = from % g->ow;
    for (int64_t i = 0; i < count; i++) {
        ys[i] = y0 + (@T@)(oy * g->stride[0]) + dy[i], xs[i] = x0 + (@T@)(ox * g->stride[1]) + dx[i];
        if (++ox == g->ow) ox = 0, oy++;
    }
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {
        @T@ y = ys[i], x = xs[i];
        int there = y > -1 && y < high && x > -1 && x < wide;
        y = there ? y : 0, x = there ? x : 0;
        /* `y` is above -1, so cutting `y + 1` off is rounding down */
        int32_t top = (int32_t)(y + 1) - 1, left = (int32_t)(x + 1) - 1;
        @T@ ly = y - (@T@)top, lx = x - (@T@)left, hy = 1 - ly, hx = 1 - lx;
        int up = there & (top >= 0), low = there & (top + 1 < rows);
        int near = left >= 0, far = left + 1 < columns;
        int in0 = up & near, in1 = up & far, in2 = low & near, in3 = low & far;
        int32_t base = top * columns + left;
        c->at[0][i] = in0 ? base : 0, c->at[1][i] = in1 ? base + 1 : 0;
        c->at[2][i] = in2 ? base + columns : 0, c->at[3][i] = in3 ? base + columns + 1 : 0;
        c->inside[0][i] = (@T@)in0, c->inside[1][i] = (@T@)in1;
        c->inside[2][i] = (@T@)in2, c->inside[3][i] = (@T@)in3;
        c->share[0][i] = in0 ? hy * hx : 0, c->share[1][i] = in1 ? hy * lx : 0;
        c->share[2][i] = in2 ? ly * hx : 0, c->share[3][i] = in3 ? ly * lx : 0;
        c->down[i] = ly, c->across[i] = lx;
    }
    for (int64_t i = 0; i < count; i++) c->factor[i] = m ? m[i] : 1;
}

static void vision_deform_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const deform_shape *g = (const deform_shape *)n;
    const int64_t out = g->oh * g->ow, taps = g->kh * g->kw, plane = g->height * g->width;
    const int64_t each = g->channels / g->groups;
    corners_@s@ c;
    for (int64_t item = begin; item < end; item++) {
        const int64_t tap = item % taps, group = item / taps % g->groups, image = item / taps / g->groups;
        for (int64_t from = 0; from < out; from += RUN) {
            const int64_t count = out - from < RUN ? out - from : RUN;
            deform_corners_@s@(g, (const @T@ *)p[2], (const @T@ *)p[3], image, group, tap, from, count,
                &c);
            if (p[3])
                for (int k = 0; k < 4; k++)
                    for (int64_t i = 0; i < count; i++) c.share[k][i] *= c.factor[i];
            for (int64_t ch = 0; ch < each; ch++) {
                const int64_t channel = image * g->channels + group * each + ch;
                const @T@ *restrict map = (const @T@ *)p[1] + channel * plane;
                @T@ *restrict to = (@T@ *)p[0] + (channel * taps + tap) * out + from;
                _Pragma("omp simd") for (int64_t i = 0; i < count; i++)
                    to[i] = c.share[0][i] * map[c.at[0][i]] + c.share[1][i] * map[c.at[1][i]]
                        + c.share[2][i] * map[c.at[2][i]] + c.share[3][i] * map[c.at[3][i]];
            }
        }
    }
}

static void vision_deform_grad_input_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const deform_shape *g = (const deform_shape *)n;
    const int64_t out = g->oh * g->ow, taps = g->kh * g->kw, plane = g->height * g->width;
    const int64_t each = g->channels / g->groups;
    corners_@s@ c;
    memset((@T@ *)p[0] + begin * plane, 0, (size_t)((end - begin) * plane) * sizeof(@T@));
    for (int64_t item = begin; item < end;) {
        /* the channels of this range that share a group share the tables */
        const int64_t image = item / g->channels, group = item % g->channels / each;
        int64_t stop = image * g->channels + (group + 1) * each;
        stop = stop < end ? stop : end;
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t from = 0; from < out; from += RUN) {
                const int64_t count = out - from < RUN ? out - from : RUN;
                deform_corners_@s@(g, (const @T@ *)p[2], (const @T@ *)p[3], image, group, tap, from,
                    count, &c);
                for (int64_t channel = item; channel < stop; channel++) {
                    @T@ *map = (@T@ *)p[0] + channel * plane;
                    const @T@ *grad = (const @T@ *)p[1] + (channel * taps + tap) * out + from;
                    for (int64_t i = 0; i < count; i++) {
                        @T@ x = grad[i] * c.factor[i];
                        for (int k = 0; k < 4; k++) map[c.at[k][i]] += x * c.share[k][i];
                    }
                }
            }
        item = stop;
    }
}

static void vision_deform_grad_taps_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const deform_shape *g = (const deform_shape *)n;
    const int64_t out = g->oh * g->ow, taps = g->kh * g->kw, plane = g->height * g->width;
    const int64_t each = g->channels / g->groups;
    corners_@s@ c;
    _Alignas(64) @T@ sum[3][RUN];
    for (int64_t item = begin; item < end; item++) {
        const int64_t tap = item % taps, group = item / taps % g->groups, image = item / taps / g->groups;
        for (int64_t from = 0; from < out; from += RUN) {
            const int64_t count = out - from < RUN ? out - from : RUN;
            deform_corners_@s@(g, (const @T@ *)p[4], (const @T@ *)p[5], image, group, tap, from, count,
                &c);
            memset(sum, 0, sizeof sum);
            for (int64_t ch = 0; ch < each; ch++) {
                const int64_t channel = image * g->channels + group * each + ch;
                const @T@ *restrict map = (const @T@ *)p[3] + channel * plane;
                const @T@ *restrict grad = (const @T@ *)p[2] + (channel * taps + tap) * out + from;
                _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {
                    @T@ a = c.inside[0][i] * map[c.at[0][i]], b = c.inside[1][i] * map[c.at[1][i]];
                    @T@ d = c.inside[2][i] * map[c.at[2][i]], e = c.inside[3][i] * map[c.at[3][i]];
                    @T@ ly = c.down[i], lx = c.across[i], up = a + lx * (b - a), low = d + lx * (e - d);
                    sum[0][i] += grad[i] * (low - up);
                    sum[1][i] += grad[i] * ((1 - ly) * (b - a) + ly * (e - d));
                    sum[2][i] += grad[i] * (up + ly * (low - up));
                }
            }
            @T@ *dy = (@T@ *)p[0] + ((image * g->groups + group) * 2 * taps + 2 * tap) * out + from;
            for (int64_t i = 0; i < count; i++)
                dy[i] = sum[0][i] * c.factor[i], dy[out + i] = sum[1][i] * c.factor[i];
            if (p[1]) memcpy((@T@ *)p[1] + item * out + from, sum[2], (size_t)count * sizeof(@T@));
        }
    }
}
"""

_INPUT, _COLUMNS = "n0*n1*n2*n3", "n0*n1*n6*n7*n4*n5"
_OFFSET, _MASK = "n0*n14*2*n6*n7*n4*n5", "n0*n14*n6*n7*n4*n5"
#: places are counted in 32 bits
_RULES = "c places 2147483647-n2*n3; c groups n14; c taps n6*n7; c width n5"
_OPERANDS = {
    "vision.deform": f"""w columns @ {_COLUMNS}; r input @ {_INPUT}; r offset @ {_OFFSET};
        r? mask @ {_MASK}; c items 1+n0*n14*n6*n7-N""",
    "vision.deform.grad.input": f"""w grad_input @ {_INPUT}; r grad @ {_COLUMNS};
        r offset @ {_OFFSET}; r? mask @ {_MASK}; c items 1+n0*n1-N""",
    "vision.deform.grad.taps": f"""w grad_offset @ {_OFFSET}; w? grad_mask @ {_MASK};
        r grad @ {_COLUMNS}; r input @ {_INPUT}; r offset @ {_OFFSET}; r? mask @ {_MASK};
        c items 1+n0*n14*n6*n7-N""",
}


def unit(isa: Isa) -> str:
    """The translation unit for one instruction set."""
    text: list[str] = []
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        text.append(fill(_CORNERS, s=dtype, T=STORAGES[dtype].ctype))
        for name, said in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            text_of = declared(f"15;0; {said}; {_RULES}", dtype)
            entries.append((f"{name}:{dtype}", "b", function, text_of))
    return PROLOGUE + "".join(text) + table(entries)
