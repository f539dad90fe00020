"""Which taps of a convolution kernel an output pixel sees: C text of axis classes and segments.

Gives `geometry` (a convolution in three dimensions), `axis` (coordinates grouped by the taps that
fall inside the source) and `list_segments`. Keeps true: padding multiplies nothing, since pixels
with the same valid taps share one list of segments; a stride in the backward direction falls into
phases in the same way.
"""

__all__ = ["AXIS"]

AXIS = r"""
/* A convolution: x[n][spatial][cin] -> y[n][spatial][cout]; dimensions are depth, height, width. */
typedef struct {
    long n, cin, cout, groups;
    long in[3], kernel[3], out[3], stride[3], pad[3], dilation[3];
    int x_last, y_last; /* channels are the last dimension in memory */
    int packed, direct; /* the weights are panels; no transform is wanted */
    const char *residual;
    epilogue epilogue;
} geometry;

enum { WITH_MAP = 1, WITH_PANELS = 2, WITH_RESIDUAL = 4, DIRECT = 8 };

/* what stands behind the layouts: flags, then the address of a map */
INLINE geometry with_extras(geometry g, char *const *p, const int64_t *n, const fk_scalar *s)
{
    g.packed = n[0] & WITH_PANELS ? 1 : 0, g.direct = n[0] & DIRECT ? 1 : 0;
    if (n[0] & WITH_RESIDUAL) g.residual = p[4];
    if (n[0] & WITH_MAP) g.epilogue.map = (fk_map)n[1], g.epilogue.scalars = s;
    return g;
}

static geometry geometry_2d(const int64_t *n)
{
    return (geometry){n[0], n[1], n[4], n[13], {1, n[2], n[3]}, {1, n[5], n[6]}, {1, n[14], n[15]},
                      {1, n[7], n[8]}, {0, n[9], n[10]}, {1, n[11], n[12]}, n[16], n[17]};
}

static geometry geometry_3d(const int64_t *n)
{
    return (geometry){n[0], n[1], n[5], n[18], {n[2], n[3], n[4]}, {n[6], n[7], n[8]},
                      {n[19], n[20], n[21]}, {n[9], n[10], n[11]}, {n[12], n[13], n[14]},
                      {n[15], n[16], n[17]}, n[22], n[23]};
}

INLINE long volume(const long *size) { return size[0] * size[1] * size[2]; }

/* Destination coordinates first, first + step, ... that see the same taps.  Tap i of coordinate
 * number c reads source coordinate anchor + c * anchor_step + at[i]. */
typedef struct { long first, step, count, anchor, anchor_step, n_taps, *taps, *at; } axis_class;
typedef struct { long n_classes; axis_class *classes; } axis;

INLINE long axis_most_classes(long size, long kernel, long period)
{
    return MIN(size, period * (2 * kernel + 2));
}

INLINE long axis_bytes(long size, long kernel, long period)
{
    return (axis_most_classes(size, kernel, period) + 1) * (sizeof(axis_class) + 2 * kernel * sizeof(long));
}

/* the source coordinate that tap t of destination coordinate o reads, or -1 */
INLINE long axis_source(int backward, long o, long t, long size, long stride, long pad, long dilation)
{
    const long at = backward ? o + pad - t * dilation : o * stride - pad + t * dilation;
    if (at < 0 || backward && at % stride) return -1;
    const long source = backward ? at / stride : at;
    return source < size ? source : -1;
}

/* Groups the coordinates of one dimension.  Forward the destination is y, backward it is x. */
NOINLINE axis axis_of(const geometry *g, int d, int backward, char **memory)
{
    const long size = backward ? g->in[d] : g->out[d], source = backward ? g->out[d] : g->in[d];
    const long kernel = g->kernel[d], stride = g->stride[d], period = backward ? stride : 1;
    axis result = {0, carve(memory, axis_bytes(size, kernel, period))};
    long *lists = (long *)(result.classes + axis_most_classes(size, kernel, period) + 1);
    for (long o = 0; o < size; o++) {
        axis_class *next = &result.classes[result.n_classes];
        long *taps = lists + result.n_classes * 2 * kernel, *at = taps + kernel, found = 0;
        const long anchor = backward ? (o + g->pad[d]) / stride : o * stride - g->pad[d];
        for (long i = 0; i < kernel; i++) { /* sources ascend, so that neighbours join */
            const long t = backward ? kernel - 1 - i : i;
            const long s = axis_source(backward, o, t, source, stride, g->pad[d], g->dilation[d]);
            if (s >= 0) taps[found] = t, at[found++] = s - anchor;
        }
        axis_class *same = next - 1;
        while (same >= result.classes && (same->first - o) % period) same--;
        if (same >= result.classes && same->first + same->count * period == o
            && same->n_taps == found && !memcmp(same->taps, taps, found * sizeof *taps))
            same->count++;
        else {
            *next = (axis_class){o, period, 1, anchor, backward ? 1 : stride, found, taps, at};
            result.n_classes++;
        }
    }
    return result;
}
"""
