"""What happens to sums on their way to memory: C text of scaling, bias, residual, map, conversion.

Takes a kind; gives `<dtype>_finish` for every result dtype. Keeps true: with beta zero C is not
read; NaN stays NaN; the function at the end is any elementwise kernel of one operand (`fk_map`) in
the accumulator's dtype, which works on a row of sums while it is in a cache: nothing lists which.
"""

from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill

__all__ = ["epilogue_text"]

# result dtype: element type, value of an element `y`, element of a value `x`
RESULTS = {
    "f32": ("float", "y", "x"),
    "f64": ("double", "y", "x"),
    "f16": ("_Float16", "(float)y", "(_Float16)x"),
    "bf16": ("uint16_t", "float_of_bf16(y)", "bf16_of_float(x)"),
    "i32": ("int32_t", "y", "x"),
    "i64": ("int64_t", "y", "x"),
}

FINISH = r"""
/* elements as values of the accumulator's dtype */
static void $S_values(const char *from, long count, acc_t *to)
{
    for (long i = 0; i < count; i++) {
        const $E y = ((const $E *)from)[i];
        to[i] = (acc_t)($LOAD);
    }
}

NOINLINE void $S_finish(const output *o, acc_t *sums, long stride, long rows, long first, long last,
                        const long *c_row)
{
    const long width = last - first;
    const $E *bias = o->bias ? (const $E *)o->bias + first : NULL;
    /* rows that lie close together are mapped at once */
    const int together = o->epilogue.map && stride - width < VECTOR;
    acc_t *const all = sums;
    for (long r = 0; r < rows; r++, sums += stride) {
        $E *c = ($E *)o->c + c_row[r] + first;
        if (o->correction) {
            const acc_t *correction = o->correction + first - o->correction_first;
            for (long j = 0; j < width; j++) sums[j] += correction[j];
        }
        if (o->alpha != 1)
            for (long j = 0; j < width; j++) sums[j] *= o->alpha;
        if (o->beta != 0)
            for (long j = 0; j < width; j++) {
                const $E y = c[j];
                sums[j] += o->beta * (acc_t)($LOAD);
            }
        if (bias)
            for (long j = 0; j < width; j++) {
                const $E y = bias[j];
                sums[j] += (acc_t)($LOAD);
            }
        if (o->residual) {
            const $E *more = (const $E *)((const char *)c + o->residual);
            for (long j = 0; j < width; j++) {
                const $E y = more[j];
                sums[j] += (acc_t)($LOAD);
            }
        }
        if (together) continue;
        if (o->epilogue.map) map_row(&o->epilogue, sums, width);
        for (long j = 0; j < width; j++) {
            const acc_t x = sums[j];
            c[j] = $STORE;
        }
    }
    if (!together) return;
    map_row(&o->epilogue, all, (rows - 1) * stride + width);
    for (long r = 0; r < rows; r++) {
        $E *c = ($E *)o->c + c_row[r] + first;
        for (long j = 0; j < width; j++) {
            const acc_t x = all[r * stride + j];
            c[j] = $STORE;
        }
    }
}
"""


def epilogue_text(kind: Kind) -> str:
    """The finishing functions of a kind."""
    parts = []
    results = {
        "f32": ("f32", "f16", "bf16"),
        "f64": ("f64",),
        "bf16": ("bf16", "f32"),
        "i8": ("i32",),
    }.get(kind.name, (kind.name,))
    for name in results:
        element, load, store = RESULTS[name]
        parts.append(fill(FINISH, S=name, E=element, LOAD=load, STORE=store))
    return "\n".join(parts)
