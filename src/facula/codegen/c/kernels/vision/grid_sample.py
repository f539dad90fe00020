"""Sampling an image at the places that a grid names: forward and gradients, in 2 and 3 dimensions.

Takes: a `Storage`; the conversions are in the same translation unit (`resample`). Kernel arguments:
input contiguous `[batch, channels, D, H, W]`, grid contiguous `[batch, D, H, W, dims]` with x
first, in [-1, 1], of the input's dtype.
Gives: C text and table entries of the bodies below.
Keeps true: rows of up to 64 places share one table of taps for all channels; one thread owns an
output row, or (gradient of the input) a block of channels of one image, so results do not depend
on the number of threads.

grid_sample             p: out, input, grid                  items: batch * D * H of the output
grid_sample.grad.input  p: grad_input, grad_out, grid        items: batch * blocks of 16 channels
grid_sample.grad.grid   p: grad_grid, grad_out, input, grid  items: batch * D * H of the output
n: 0 batch, 1 channels, 2..4 input D H W, 5..7 output, 8 dims, 9 mode (0 linear, 1 nearest,
   2 cubic), 10 padding (0 zeros, 1 border, 2 reflection), 11 align_corners
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.kernels.movement.storage import Storage, fill

_TABLE = """
#ifndef GRID_SHAPE
#define GRID_SHAPE
typedef struct {
    int64_t batch, channels, in[3], out[3], dims, mode, padding, align;
} grid_shape;
enum { GRID_RUN = 64, GRID_TAPS = 16, GRID_CHANNELS = 16 };
#endif

/* taps of a run of places: offset (-1: outside), weight, and the weight's slope along each grid
 * coordinate */
typedef struct {
    int64_t taps;
    int64_t offset[GRID_TAPS][GRID_RUN];
    char undefined[GRID_RUN]; /* the place is no number, and so is what is sampled there */
    @COMPUTE@ weight[GRID_TAPS][GRID_RUN], slope[3][GRID_TAPS][GRID_RUN];
} grid_taps_@s@;

/* Rounded as PyTorch does: at a sample's place the last bit says between which samples it lies, and so the gradient.
 * Over images the product is not rounded before the half is taken away, over volumes it is. */
static @COMPUTE@ grid_unit_@s@(@COMPUTE@ x, const grid_shape *g, int64_t size, @COMPUTE@ *slope)
{
    int64_t align = g->align;
    *slope = align ? (@COMPUTE@)(size - 1) / 2 : (@COMPUTE@)size / 2;
    if (align) return (x + 1) / 2 * (@COMPUTE@)(size - 1);
    if (g->dims == 2) return @FMA@(x + 1, *slope, (@COMPUTE@)-0.5);
    return ((x + 1) * (@COMPUTE@)size - 1) / 2;
}

static @COMPUTE@ grid_fold_@s@(@COMPUTE@ x, const grid_shape *g, int64_t size, @COMPUTE@ *slope)
{
    if (g->padding == 2) {
        @COMPUTE@ low = g->align ? 0 : (@COMPUTE@)-0.5, span = g->align ? (@COMPUTE@)(size - 1)
            : (@COMPUTE@)size;
        if (span <= 0) {
            *slope = 0;
            return 0;
        }
        x -= low;
        if (x < 0) x = -x, *slope = -*slope;
        @COMPUTE@ flips = @FLOOR@(x / span), rest = @FMOD@(x, span);
        int odd = @FMOD@(flips, 2) != 0;
        x = (odd ? span - rest : rest) + low;
        if (odd) *slope = -*slope;
    }
    if (g->padding != 0) {
        @COMPUTE@ limit = (@COMPUTE@)(size - 1);
        if (!(x > 0)) x = 0, *slope = 0; /* no number, too */
        else if (x >= limit) x = limit, *slope = 0;
    }
    /* places that are far away, and without padding those that are infinite or no number, are outside */
    return x > -1e9 && x < 1e9 ? x : -100;
}

/* linear or nearest: up to two positions and weights along one dimension */
static int grid_line_@s@(const grid_shape *g, int64_t size, @COMPUTE@ x, int64_t *at,
    @COMPUTE@ *weight, @COMPUTE@ *slope)
{
    @COMPUTE@ step;
    x = grid_unit_@s@(x, g, size, &step);
    if (g->mode == 2) {
        if (!(x > -1e9 && x < 1e9)) x = -100;
        int64_t base = (int64_t)@FLOOR@(x);
        @COMPUTE@ t = x - (@COMPUTE@)base, a = (@COMPUTE@)-0.75, unused = 0;
        @COMPUTE@ far = t + 1, near = 1 - t, last = 2 - t;
        weight[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
        weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
        weight[2] = ((a + 2) * near - (a + 3)) * near * near + 1;
        weight[3] = ((a * last - 5 * a) * last + 8 * a) * last - 4 * a;
        slope[0] = ((3 * a * far - 10 * a) * far + 8 * a) * step;
        slope[1] = (3 * (a + 2) * t - 2 * (a + 3)) * t * step;
        slope[2] = -(3 * (a + 2) * near - 2 * (a + 3)) * near * step;
        slope[3] = -((3 * a * last - 10 * a) * last + 8 * a) * step;
        for (int k = 0; k < 4; k++) at[k] = (int64_t)grid_fold_@s@((@COMPUTE@)(base - 1 + k), g,
            size, &unused);
        return 4;
    }
    x = grid_fold_@s@(x, g, size, &step);
    if (g->mode == 1) {
        at[0] = (int64_t)@RINT@(x), weight[0] = 1, slope[0] = 0;
        return 1;
    }
    at[0] = (int64_t)@FLOOR@(x), at[1] = at[0] + 1;
    weight[1] = x - (@COMPUTE@)at[0], weight[0] = 1 - weight[1];
    slope[1] = step, slope[0] = -step;
    return 2;
}

static void grid_table_@s@(const grid_shape *g, const @STORAGE@ *grid, int64_t count,
    grid_taps_@s@ *table)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t at[3][4] = {{0}}, tap = 0;
        @COMPUTE@ weight[3][4] = {{1}, {1}, {1}}, slope[3][4] = {{0}};
        int taps[3] = {1, 1, 1};
        table->undefined[i] = 0;
        for (int64_t d = 0; d < g->dims; d++) { /* the grid names x first, the image ends with it */
            @COMPUTE@ place = load_@s@(grid[i * g->dims + d]);
            /* as in PyTorch: cubic weights of no place, and linear ones where nothing folds it back */
            if (place - place != 0 && (g->mode == 2 || (g->mode == 0 && g->padding == 0 && g->dims == 2)))
                table->undefined[i] = 1;
            taps[2 - d] = grid_line_@s@(g, g->in[2 - d], place,
                at[2 - d], weight[2 - d], slope[2 - d]);
        }
        for (int z = 0; z < taps[0]; z++)
            for (int y = 0; y < taps[1]; y++)
                for (int x = 0; x < taps[2]; x++, tap++) {
                    int64_t pz = at[0][z], py = at[1][y], px = at[2][x];
                    int inside = pz >= 0 && pz < g->in[0] && py >= 0 && py < g->in[1] && px >= 0
                        && px < g->in[2];
                    table->offset[tap][i] = inside ? (pz * g->in[1] + py) * g->in[2] + px : -1;
                    table->weight[tap][i] = inside ? weight[0][z] * weight[1][y] * weight[2][x] : 0;
                    table->slope[0][tap][i] = slope[2][x] * weight[1][y] * weight[0][z];
                    table->slope[1][tap][i] = weight[2][x] * slope[1][y] * weight[0][z];
                    table->slope[2][tap][i] = weight[2][x] * weight[1][y] * slope[0][z];
                }
        table->taps = tap;
    }
}
"""

_FORWARD = """
static void grid_sample_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const grid_shape *g = (const grid_shape *)n;
    grid_taps_@s@ table;
    int64_t rows = g->out[0] * g->out[1], width = g->out[2], volume = g->in[0] * g->in[1]
        * g->in[2];
    for (int64_t item = begin; item < end; item++)
        for (int64_t from = 0; from < width; from += GRID_RUN) {
            int64_t count = width - from < GRID_RUN ? width - from : GRID_RUN, image = item / rows
                * g->channels;
            grid_table_@s@(g, (const @STORAGE@ *)p[2] + (item * width + from) * g->dims, count,
                &table);
            for (int64_t c = 0; c < g->channels; c++) {
                const @STORAGE@ *plane = (const @STORAGE@ *)p[1] + (image + c) * volume;
                @STORAGE@ *out = (@STORAGE@ *)p[0] + ((image + c) * rows + item % rows) * width
                    + from;
                for (int64_t i = 0; i < count; i++) {
                    @COMPUTE@ sum = table.undefined[i] ? (@COMPUTE@)__builtin_nan("") : 0;
                    for (int64_t tap = 0; tap < table.taps; tap++) {
                        int64_t offset = table.offset[tap][i];
                        if (offset >= 0) sum += load_@s@(plane[offset]) * table.weight[tap][i];
                    }
                    out[i] = store_@s@(sum);
                }
            }
        }
}
"""

_BACKWARD = """
static void grid_sample_grad_input_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const grid_shape *g = (const grid_shape *)n;
    grid_taps_@s@ table;
    int64_t rows = g->out[0] * g->out[1], width = g->out[2], volume = g->in[0] * g->in[1]
        * g->in[2];
    int64_t blocks = (g->channels + GRID_CHANNELS - 1) / GRID_CHANNELS;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / blocks, first = item % blocks * GRID_CHANNELS;
        int64_t last = first + GRID_CHANNELS < g->channels ? first + GRID_CHANNELS : g->channels;
        @STORAGE@ *image = (@STORAGE@ *)p[0] + batch * g->channels * volume;
        memset(image + first * volume, 0, (size_t)((last - first) * volume) * sizeof(@STORAGE@));
        for (int64_t row = 0; row < rows; row++)
            for (int64_t from = 0; from < width; from += GRID_RUN) {
                int64_t count = width - from < GRID_RUN ? width - from : GRID_RUN;
                grid_table_@s@(g, (const @STORAGE@ *)p[2] + ((batch * rows + row) * width + from)
                    * g->dims, count, &table);
                for (int64_t c = first; c < last; c++) {
                    const @STORAGE@ *grad = (const @STORAGE@ *)p[1] + ((batch * g->channels + c)
                        * rows + row) * width + from;
                    for (int64_t i = 0; i < count; i++)
                        for (int64_t tap = 0; tap < table.taps; tap++)
                            if (table.offset[tap][i] >= 0)
                                image[c * volume + table.offset[tap][i]] += grad[i]
                                    * table.weight[tap][i];
                }
            }
    }
}

static void grid_sample_grad_grid_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const grid_shape *g = (const grid_shape *)n;
    grid_taps_@s@ table;
    int64_t rows = g->out[0] * g->out[1], width = g->out[2], volume = g->in[0] * g->in[1]
        * g->in[2];
    for (int64_t item = begin; item < end; item++)
        for (int64_t from = 0; from < width; from += GRID_RUN) {
            int64_t count = width - from < GRID_RUN ? width - from : GRID_RUN, image = item / rows
                * g->channels;
            int64_t place = (item * width + from) * g->dims;
            grid_table_@s@(g, (const @STORAGE@ *)p[3] + place, count, &table);
            @STORAGE@ *out = (@STORAGE@ *)p[0] + place;
            memset(out, 0, (size_t)(count * g->dims) * sizeof(@STORAGE@));
            for (int64_t c = 0; c < g->channels; c++) {
                const @STORAGE@ *plane = (const @STORAGE@ *)p[2] + (image + c) * volume;
                const @STORAGE@ *grad = (const @STORAGE@ *)p[1] + ((image + c)
                    * rows + item % rows) * width + from;
                for (int64_t i = 0; i < count; i++)
                    for (int64_t tap = 0; tap < table.taps; tap++) {
                        if (table.offset[tap][i] < 0) continue;
                        @COMPUTE@ value = grad[i] * plane[table.offset[tap][i]];
                        for (int64_t d = 0; d < g->dims; d++) out[i * g->dims + d] += value
                            * table.slope[d][tap][i];
                    }
            }
        }
}
"""


def text(storage: Storage) -> str:
    """C text of the bodies of one dtype; gradients in f32 and f64 only."""
    double = storage.compute == "double"
    functions = {"FLOOR": "floor", "FMOD": "fmod", "RINT": "rint", "FMA": "__builtin_fma"}
    names = {key: name if double else name + "f" for key, name in functions.items()}
    names |= {"s": storage.name, "STORAGE": storage.ctype, "COMPUTE": storage.compute}
    return fill(_TABLE + _FORWARD + ("" if storage.is_half else _BACKWARD), **names)


_IN, _OUT, _GRID = "n0*n1*n2*n3*n4", "n0*n1*n5*n6*n7", "n0*n5*n6*n7*n8"
#: items are rows of the output
_ROWS = "c items 1+n0*n5*n6-N; c rows min(n5,n6)"
_OPERANDS = {
    "grid_sample": f"12;0; w out @ {_OUT}; r input @ {_IN}; r grid @ {_GRID}; {_ROWS}",
    "grid_sample.grad.input": f"""12;0; w grad_input @ {_IN}; r grad_out @ {_OUT};
        r grid @ {_GRID}; c items 1+n0*((n1+15)/16)-N; c channels n1""",
    "grid_sample.grad.grid": f"""12;0; w grad_grid @ {_GRID}; r grad_out @ {_OUT};
        r input @ {_IN}; r grid @ {_GRID}; {_ROWS}""",
}


def entries(storage: Storage) -> list[Entry]:
    """Rows of the kernel table for one dtype."""
    kernels = ["grid_sample"]
    if not storage.is_half:
        kernels += ["grid_sample.grad.input", "grid_sample.grad.grid"]
    name = storage.name
    return [
        (f"{k}:{name}", "b", f"{k.replace('.', '_')}_{name}", declared(_OPERANDS[k], name))
        for k in kernels
    ]
