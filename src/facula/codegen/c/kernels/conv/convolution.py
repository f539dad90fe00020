"""Convolutions: C text of the drivers, forward and both gradients, in two and three dimensions.

Takes a kind; gives `conv2d_forward`, `conv2d_backward_data`, `conv2d_backward_weight` and the
`conv3d_*` of each dtype. Keeps true: any stride, padding, dilation and number of groups; tensors
with channels first are converted at the edges, tensors with channels last are used where they lie;
padding multiplies nothing.

p = y, x, w, bias or null, residual;  dx, dy, w;  dw, dy, x, dbias or null
n (2d) = N, Cin, H, W, Cout, kernel (h, w), stride (h, w), padding (top, left), dilation (h, w),
         groups, outH, outW, x layout, y layout (0 channels first, 1 last), extras
n (3d) = N, Cin, D, H, W, Cout, kernel (d, h, w), stride, padding, dilation (3 each), groups,
         outD, outH, outW, x layout, y layout, extras
extras = flags: 1 a map, whose address comes next and whose attributes are s; 2 w is what `pack`
         made; 4 p[4] is added to y (only with panels, and y channels last); 8 no transform
`conv*_pack`: p = panels, w; n as of the forward kernel, whose flags say which transform
"""

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.conv.tile_backward_weight import BACKWARD_WEIGHT
from facula.codegen.c.kernels.conv.tile_depthwise import depthwise_text
from facula.codegen.c.kernels.conv.winograd import WINOGRAD
from facula.codegen.c.kernels.conv.winograd_weight import WINOGRAD_WEIGHT
from facula.codegen.c.kernels.gemm.tile_axis import AXIS
from facula.codegen.c.kernels.gemm.tile_gather import GATHER
from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill
from facula.codegen.c.kernels.gemm.tile_layout import layout_text
from facula.codegen.c.kernels.gemm.tile_pack import panel_room
from facula.codegen.c.kernels.gemm.tile_weights import weights_text

__all__ = ["convolution_entries", "convolution_text"]

TYPES = r"""
/* What a storage dtype needs. */
typedef struct {
    long size;
    int raw, same; /* images are words as they are; sums are results as they are */
    int (*image)(const char *, word *, long, long, long, long, int, const fk_runtime *);
    int (*channels_first)(const acc_t *, char *, long, long, long, const char *, epilogue, const fk_runtime *);
    int (*weights)(const char *, word *, long, long, long, long, int, const fk_runtime *);
    int (*gradient)(const acc_t *, long, char *, long, long, long, long, int, const fk_runtime *);
    void (*finish)(const output *, acc_t *, long, long, long, long, const long *);
    int (*depthwise)(const geometry *, int, char *, const char *, const char *, const char *,
                     const fk_runtime *);
    int (*depthwise_weight)(const geometry *, char *, const char *, const char *, char *,
                            const fk_runtime *);
    const format *product; /* of matrices in this dtype, or NULL */
} image_format;

/* An image as words with channels last: the tensor itself where it is that already, else a copy
 * in *kept.  NULL when there is no memory. */
static const word *words_image(const image_format *f, const char *tensor, long n, long groups,
                               long channels, long pixels, int channels_last, void **kept,
                               const fk_runtime *rt)
{
    *kept = NULL;
    const int last = channels_last || pixels == 1;
    if (f->raw && last && channels % GROUP == 0) return (const word *)tensor;
    const long words = groups * CEIL(channels, GROUP);
    word *copy = *kept = rt->scratch(MAX(64, n * pixels * words * sizeof(word)));
    if (!copy) return NULL;
    if (f->image(tensor, copy, n, groups, channels, pixels, last, rt)) return NULL;
    return copy;
}
"""

POINTWISE = r"""
#define POINTWISE_FILL 0.85 /* the least share of lanes of a row of pixels that a large batch must fill */

/* A 1x1 kernel that skips no pixel, where the pixels of a channel are neighbours or single. */
static int is_pointwise(const image_format *f, const geometry *g)
{
    const long pixels = volume(g->in);
    if (!f->product || volume(g->kernel) != 1 || !pixels) return 0;
    for (int d = 0; d < 3; d++)
        if (g->stride[d] != 1 || g->pad[d] || g->in[d] != g->out[d]) return 0;
    if (pixels == 1) return 1;
    if (g->x_last || g->y_last) return 0;
    return g->n == 1 || pixels >= POINTWISE_FILL * (CEIL(pixels, VECTOR) * VECTOR);
}

/* dest[n][to][pixels] = weights[to][from] @ source[n][from][pixels], on images as they lie */
static int pointwise_images(const image_format *f, const geometry *g, int backward, char *dest,
                            const char *source, const char *weights, const char *bias,
                            const fk_runtime *rt)
{
    const long pixels = volume(g->in), groups = g->groups, size = f->size;
    const long from = (backward ? g->cout : g->cin) / groups, to = (backward ? g->cin : g->cout) / groups;
    const long row = backward ? 1 : from, column = backward ? to : 1; /* strides of the weights */
    if (pixels == 1) {
        for (long i = 0; i < groups; i++) {
            char *p[] = {dest + i * to * size, (char *)source + i * from * size,
                         (char *)weights + i * to * from * size, (char *)bias + i * to * size};
            if (!bias) p[3] = NULL;
            const int64_t n[] = {1, g->n, to, from, 0, groups * from, 1, 0, column, row, 0, groups * to, 0};
            if (run_product(f->product, p, n, 1, 0, g->epilogue, rt)) return 1;
        }
        return 0;
    }
    const long together = groups == 1 ? g->n : groups, images = groups == 1 ? 1 : g->n;
    const long by_row = (bias != NULL) << 13 | (groups > 1) << 14;
    const int64_t n[] = {together, to, pixels, from, groups == 1 ? 0 : to * from, row, column, from * pixels,
                         pixels, 1, to * pixels, pixels, by_row};
    for (long i = 0; i < images; i++) {
        char *p[] = {dest + i * groups * to * pixels * size, (char *)weights,
                     (char *)source + i * groups * from * pixels * size, (char *)bias};
        if (run_product(f->product, p, n, 1, 0, g->epilogue, rt)) return 1;
    }
    return 0;
}
"""

GATHERING = r"""
/* by Winograd's transform where that wins, else directly */
static int multiply_images(const geometry *g, gather *k, const fk_runtime *rt)
{
#if GROUP == 1
    if (winograd_wins(g, k->from, k->to, k->n, volume(k->dest))) {
        winograd w = {k->n, k->from, k->to, k->source[1], k->source[2], k->dest[1], k->dest[2],
                      k->backward ? 2 - g->pad[1] : g->pad[1], k->backward ? 2 - g->pad[2] : g->pad[2],
                      k->x, NULL, k->out, k->plain && !k->out.in_place};
        if (g->packed) w.weights = k->weights;
        return run_winograd(&w, k->weights, rt);
    }
#endif
    return run_gather(k, rt);
}

/* y from x, or dx from dy: `source` and `dest` are the tensors, bias may be NULL */
static int gather_images(const image_format *f, const geometry *g, int backward, char *dest,
                         const char *source, const char *weights, const char *bias,
                         const fk_runtime *rt)
{
    const long cin = g->cin / g->groups, cout = g->cout / g->groups, taps = volume(g->kernel);
    if (cin == 1 && cout == 1)
        return f->depthwise(g, backward, dest, source, weights, bias, rt);
    if (!g->packed && is_pointwise(f, g))
        return pointwise_images(f, g, backward, dest, source, weights, bias, rt);
    gather k = {.n = g->n, .groups = g->groups, .from = CEIL(backward ? cout : cin, GROUP),
                .to = backward ? cin : cout, .taps = taps, .backward = backward};
    for (int d = 0; d < 3; d++) {
        k.source[d] = backward ? g->out[d] : g->in[d], k.dest[d] = backward ? g->in[d] : g->out[d];
        k.kernel[d] = g->kernel[d];
    }
    const int source_last = backward ? g->y_last : g->x_last;
    const int dest_last = (backward ? g->x_last : g->y_last) || volume(k.dest) == 1;
    const long results = g->n * volume(k.dest) * g->groups * k.to;
    if (!results) return 0;
    long plan_bytes = 0;
    for (int d = 0; d < 3; d++)
        plan_bytes += PIECE(axis_bytes(k.dest[d], g->kernel[d], backward ? g->stride[d] : 1));
    void *image = NULL;
    char *plan = rt->scratch(plan_bytes), *memory = plan;
    word *panels = g->packed ? NULL : rt->scratch(
        weights_words(g->groups, backward ? cout : cin, k.to, taps) * sizeof(word));
    acc_t *sums = dest_last ? NULL : rt->scratch(results * sizeof(acc_t));
    int failed = !plan || !g->packed && !panels || !dest_last && !sums;
    if (!failed)
        failed = !(k.x = words_image(f, source, g->n, g->groups, backward ? cout : cin,
                                     volume(k.source), source_last, &image, rt))
                 || panels && f->weights(weights, panels, g->groups, backward ? cout : cin, k.to,
                                         taps, backward, rt);
    if (!failed) {
        for (int d = 0; d < 3; d++) k.axes[d] = axis_of(g, d, backward, &memory);
        k.weights = panels ? panels : (const word *)weights, k.copy_row = copy_words;
        k.out = (output){.finish = f->finish, .c = dest, .bias = bias, .alpha = 1, .epilogue = g->epilogue,
                         .residual = g->residual ? g->residual - dest : 0, .size = f->size};
        const int sums_only = !bias && !g->epilogue.map && !g->residual;
        k.out.in_place = f->same && !sums_only && worth_in_place(k.to);
        k.plain = f->same && sums_only || k.out.in_place;
        k.converts = CONVERTS && f->size == sizeof(result_t) && sums_only;
        if (!dest_last) {
            k.out = (output){.finish = sums_finish, .c = (char *)sums, .alpha = 1, .size = sizeof(acc_t)};
            k.plain = 1, k.converts = 0;
        }
        failed = multiply_images(g, &k, rt);
        if (!failed && !dest_last)
            failed = f->channels_first(sums, dest, g->n, g->groups * k.to, volume(k.dest), bias,
                                       g->epilogue, rt);
    }
    if (sums) rt->release(sums);
    if (panels) rt->release(panels);
    if (plan) rt->release(plan);
    if (image) rt->release(image);
    return failed;
}
"""

WEIGHT = r"""
#if GROUP == 1
static int bias_gradient_of(const image_format *f, const geometry *g, const word *dy, char *to,
                            const fk_runtime *rt)
{
    acc_t *sums = rt->scratch(CEIL(g->cout, NR) * NR * sizeof(acc_t));
    if (!sums) return 1;
    bias_gradient b = {dy, sums, g->n * volume(g->out), g->cout};
    int failed = launch(bias_gradient_unit, &b, CEIL(g->cout, NR), 0, b.pixels * b.channels > 50000, rt);
    const output out = {.finish = f->finish, .c = to, .alpha = 1, .size = f->size};
    const long row = 0;
    if (!failed) f->finish(&out, sums, 0, 1, 0, g->cout, &row);
    rt->release(sums);
    return failed;
}

/* A 1x1 kernel without padding may have x and dy change places: the side with more channels is
 * read once, and dy as that side gives sums in the order of the weights, which counts where there
 * are few pixels. */
static int swaps_images(const geometry *g)
{
    if (volume(g->kernel) != 1) return 0;
    for (int d = 0; d < 3; d++)
        if (g->pad[d] || (g->out[d] - 1) * g->stride[d] >= g->in[d]) return 0;
    return g->cout >= g->cin || g->n * volume(g->out) * g->groups < 2 * g->cout;
}

static int weight_of_images(const image_format *f, const geometry *g, char *dw, const char *dy,
                            const char *x, char *dbias, const fk_runtime *rt)
{
    if (g->cin == g->groups && g->cout == g->groups)
        return f->depthwise_weight(g, dw, dy, x, dbias, rt);
    const long cin = g->cin / g->groups, cout = g->cout / g->groups;
    const int swapped = swaps_images(g); /* then sums have the order of the weights */
    weight_gradient w = {g, .cin = swapped ? cout : cin, .cout = swapped ? cin : cout,
                         .swapped = swapped,
                         .taps = volume(g->kernel), .pack = words_pack, .columns = words_columns};
    void *x_image = NULL, *dy_image = NULL;
    const word *x_words = NULL, *dy_words = NULL;
    const double products = (double)g->n * volume(g->out) * w.taps * cin * g->cout;
    const long threads = products > 200000 ? rt->threads() : 1;
    const int transformed = winograd_weight_wins(g);
    winograd_gradient j;
    if (transformed)
        plan_winograd_weight(&w, &j, threads);
    else
        plan_weight_gradient(&w, threads);
    const long size = g->groups * w.taps * w.cin * w.cout;
    const int direct = swapped && f->same && w.parts == 1;
    w.sums = direct ? (acc_t *)dw : rt->scratch(MAX(1, w.parts * size) * sizeof(acc_t));
    int failed = !w.sums;
    if (!failed)
        failed = !(x_words = words_image(f, x, g->n, g->groups, cin, volume(g->in), g->x_last, &x_image, rt))
                 || !(dy_words = words_image(f, dy, g->n, g->groups, cout, volume(g->out), g->y_last,
                                             &dy_image, rt));
    w.x = swapped ? dy_words : x_words, w.dy = swapped ? x_words : dy_words;
    if (!failed && g->n * volume(g->out) == 0)
        memset(w.sums, 0, w.parts * size * sizeof(acc_t));
    else if (!failed && transformed)
        failed = run_winograd_weight(&j, rt);
    else if (!failed)
        failed = run_weight_gradient(&w, rt);
    if (!failed && !direct)
        failed = f->gradient(w.sums, w.parts, dw, g->groups, w.cin, w.cout, w.taps, swapped, rt);
    if (!failed && dbias) failed = bias_gradient_of(f, g, dy_words, dbias, rt);
    if (w.sums && !direct) rt->release(w.sums);
    if (x_image) rt->release(x_image);
    if (dy_image) rt->release(dy_image);
    return failed;
}
#endif
"""

PACK = r"""
/* the weights of a forward convolution as `multiply_images` reads them where they are packed */
static int pack_weights(const image_format *f, const geometry *g, word *panels, const char *weights,
                        const fk_runtime *rt)
{
    const long cin = g->cin / g->groups, cout = g->cout / g->groups, taps = volume(g->kernel);
#if GROUP == 1
    if (winograd_wins(g, cin, cout, g->n, volume(g->out))) {
        word *direct = rt->scratch(weights_words(1, cin, cout, taps) * sizeof(word));
        if (!direct) return 1;
        int failed = f->weights(weights, direct, 1, cin, cout, taps, 0, rt)
                     || winograd_panels(direct, panels, cin, CEIL(cout, NR), rt);
        rt->release(direct);
        return failed;
    }
#endif
    return f->weights(weights, panels, g->groups, cin, cout, taps, 0, rt);
}
"""

FORMAT = r"""
static const image_format $S_images = {
    $SIZE, $RAW, $SAME, $S_image, $S_channels_first, $S_weights, $GRADIENT, $S_finish, $S_depthwise,
    $S_depthwise_weight, $PRODUCT};
"""

GATHER_DRIVERS = r"""
static int conv$Dd_forward_$S(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const geometry g = with_extras(geometry_$Dd(n), p, n + 6 * $D + 6, s);
    return gather_images(&$S_images, &g, 0, p[0], p[1], p[2], p[3], rt);
}

static int conv$Dd_pack_$S(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const geometry g = with_extras(geometry_$Dd(n), p, n + 6 * $D + 6, s);
    return pack_weights(&$S_images, &g, (word *)p[0], p[1], rt);
}

static int conv$Dd_backward_data_$S(char *const *p, const int64_t *n, const fk_scalar *s,
                                    const fk_runtime *rt)
{
    const geometry g = geometry_$Dd(n);
    return gather_images(&$S_images, &g, 1, p[0], p[1], p[2], NULL, rt);
}
"""

WEIGHT_DRIVER = r"""
static int conv$Dd_backward_weight_$S(char *const *p, const int64_t *n, const fk_scalar *s,
                                      const fk_runtime *rt)
{
    const geometry g = geometry_$Dd(n);
    return weight_of_images(&$S_images, &g, p[0], p[1], p[2], p[3], rt);
}
"""


def image_dtypes(kind: Kind) -> list[tuple[str, bool, bool]]:
    """Dtypes of a kind's convolutions, and whether it gathers and whether it sums weights."""
    if kind.name == "f32":
        return [("f32", True, True), ("f16", True, True), ("bf16", "bf16" in kind.storages, True)]
    return [(kind.name, True, kind.group == 1)]


def convolution_text(isa: Isa, kind: Kind) -> str:
    """Everything that convolutions add to a unit."""
    words = kind.name
    own = {"f32": "f32", "f64": "f64", "bf16": "f32"}[kind.name]
    winograd = [f"#define WINOGRAD_BYTES {3 << 18 if isa.vector_bytes == 64 else 3 << 17}L"]
    winograd.append("#define WINOGRAD_PIXELS 100 /* the fewest that pay for transformed weights */")
    parts = [
        *winograd,
        AXIS,
        layout_text(kind),
        weights_text(kind),
        GATHER,
        WINOGRAD,
        BACKWARD_WEIGHT,
        WINOGRAD_WEIGHT,
    ]
    parts.append(f"#define copy_words {words}_copy_row\n#define words_pack {words}_pack")
    parts.append(f"#define words_columns {words}_columns")
    parts.append(f"#define sums_finish {own}_finish")
    parts.append(depthwise_text(kind, [name for name, _, _ in image_dtypes(kind)]))
    parts += [TYPES, POINTWISE, GATHERING, PACK, WEIGHT]
    for name, gathers, sums in image_dtypes(kind):
        raw = int(name == kind.name)
        same = int(name == kind.accumulator_name)
        gradient = f"{name}_gradient" if sums else "NULL"
        size = {"f32": 4, "f64": 8}.get(name, 2)
        values = {"S": name, "SIZE": str(size), "RAW": str(raw), "SAME": str(same)}
        product = f"&{name}_format" if name in kind.storages else "NULL"
        parts.append(fill(FORMAT, GRADIENT=gradient, PRODUCT=product, **values))
        for dims in "23":
            if gathers:
                parts.append(fill(GATHER_DRIVERS, S=name, D=dims))
            if sums:
                parts.append(fill(WEIGHT_DRIVER, S=name, D=dims))
    return "\n".join(parts)


def _operands(dims: int, work: str, name: str, sums: str) -> str:
    """What a driver says of its operands: sizes as above, in two or three dimensions."""
    cout, groups = 2 + dims, 3 + 5 * dims
    at, flags = groups + 1, groups + dims + 3

    def volume(first: int) -> str:
        return "*".join(f"n{first + k}" for k in range(dims))

    x, y = f"n0*n1*{volume(2)}", f"n0*n{cout}*{volume(at)}"
    w = f"n{cout}*(n1/n{groups})*{volume(cout + 1)}"
    taps = volume(cout + 1)
    # a kernel of nine taps may be transformed to sixteen points
    rows, columns = f"n1/n{groups}*if({taps}=9,16,{taps})", f"n{cout}/n{groups}"
    panels = f"n{groups}*({panel_room(rows, columns, {'f32': 4, 'f64': 8}.get(name, 2))})"
    weights = f"*1-n{flags}/2%2 r w @ {w}; *n{flags}/2%2 r panels u8 {panels}"
    sizes = f"{flags + 1}+n{flags}%2+"
    residual = f"*max(P-4,n{flags}/4%2) r residual @ if(n{flags}/4%2,{y},0)"
    map = f"*n{flags}%2 m map {sums} n{flags + 1}"
    conditions, sound = _conditions(dims), f"c flags 1+min(n{flags},0)"
    works = {
        "forward": f"{sizes};0+; w y @ {y}; r x @ {x}; {weights}; r? bias @ n{cout}; {residual}; {map}; {sound}",
        "pack": f"{sizes};0; w panels u8 {panels}; r w @ {w}; c flags if(n{flags}%8,0,1+min(n{flags},0))",
        "backward_data": f"{sizes};0; w dx @ {x}; r dy @ {y}; r w @ {w}",
        "backward_weight": f"{sizes};0; w dw @ {w}; r dy @ {y}; r x @ {x}; w? dbias @ n{cout}",
    }
    return declared(f"{works[work]}; {conditions}", name)


def _conditions(dims: int) -> str:
    """What drivers divide by is positive, channels come in whole groups, and the last window begins
    in the image or in the padding, of which there may be more behind than in front."""
    cout, groups = 2 + dims, 3 + 5 * dims
    positive = (1, *range(cout, 3 + 3 * dims), *range(3 + 4 * dims, groups + 1 + dims))
    named = [f"n{k}" for k in positive]
    least = named.pop()
    for size in named:
        least = f"min({size},{least})"
    found = [f"c windows {least}", f"c groups 1-n1%n{groups}-n{cout}%n{groups}"]
    for d in range(dims):
        at = {k: f"n{first + d}" for k, first in (
            ("in", 2), ("kernel", 3 + dims), ("stride", 3 + 2 * dims), ("padding", 3 + 3 * dims),
            ("dilation", 3 + 4 * dims), ("out", groups + 1),
        )}  # fmt: skip
        behind = f"max({at['padding']},({at['kernel']}-1)*{at['dilation']})"
        last = f"(max({at['out']},1)-1)*{at['stride']}"
        found.append(f"c places {at['in']}+{at['padding']}+{behind}-{last}")
    return "; ".join(found)


def convolution_entries(kind: Kind) -> list[Entry]:
    """The rows of the kernel table."""
    entries: list[Entry] = []
    for name, gathers, sums in image_dtypes(kind):
        works = [
            ("forward", gathers),
            ("pack", gathers),
            ("backward_data", gathers),
            ("backward_weight", sums),
        ]
        for dims in "23":
            for work, there in works:
                if there:
                    stem = f"conv{dims}d_{work}"
                    said = _operands(int(dims), work, name, kind.accumulator_name)
                    entries.append((f"{stem}:{name}", "d", f"{stem}_{name}", said))
    return entries
