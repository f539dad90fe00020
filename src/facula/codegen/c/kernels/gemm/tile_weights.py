"""Convolution weights between PyTorch's order [cout][cin / groups][taps] and the tile's panels.

Takes a kind and a storage dtype; gives `<dtype>_weights`, which packs panels [tap][channel][NR] of
one group in either direction, and, for kinds that compute weight gradients, `<dtype>_gradient`,
which brings sums [tap][cin][cout] back. Keeps true: the backward direction stores taps in reverse
order, so that ascending sources read ascending rows.
"""

from facula.codegen.c.kernels.gemm.tile_epilogue import RESULTS
from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill
from facula.codegen.c.kernels.gemm.tile_pack import storages

__all__ = ["weights_text"]

COMMON = r"""
#define WEIGHT_CHANNELS 32 /* source channels of a unit of packing; a multiple of GROUP */
typedef struct weights_job {
    const char *weights;
    word *panels;
    long groups, from, to, taps; /* channels of a group on the source and the destination side */
    long backward, parts; /* parts: how many sums make a gradient */
    void (*run)(const struct weights_job *, long group, long panel, long first, long last);
} weights_job;

INLINE long weights_words(long groups, long from, long to, long taps)
{
    return groups * CEIL(to, NR) * taps * CEIL(from, GROUP) * NR;
}

static void weights_unit(void *context, long unit, char *scratch)
{
    const weights_job *j = context;
    const long pieces = CEIL(j->from, WEIGHT_CHANNELS), panels = CEIL(j->to, NR);
    const long first = unit % pieces * WEIGHT_CHANNELS, rest = unit / pieces;
    j->run(j, rest / panels, rest % panels, first, MIN(j->from, first + WEIGHT_CHANNELS));
}

NOINLINE int run_weights(weights_job *j, const fk_runtime *rt)
{
    const long units = j->groups * CEIL(j->to, NR) * CEIL(j->from, WEIGHT_CHANNELS);
    return launch(weights_unit, j, units, 0, j->groups * j->from * j->to * j->taps > 30000, rt);
}
"""

PACK = r"""
/* Elements q of rows j_stride apart (each `row` long), transposed: element q goes to row place(q) of
 * the panel, where q counts taps within channels from channel `channel` on. */
INLINE void $S_scatter_rows(const $E *w, long j_stride, long width, long count, long channel,
                            const weights_job *j, word *panel)
{
    const long words = CEIL(j->from, GROUP);
    for (long j0 = 0; j0 < NR; j0 += VECTOR)
        for (long q = 0; q < count; q += VECTOR) {
            const long height = MIN(VECTOR, count - q);
            vec m[VECTOR];
            for (long i = 0; i < VECTOR; i++) {
                const $E *row = w + (j0 + i) * j_stride + q;
                m[i] = (vec){0};
                if (j0 + i >= width) continue;
                if ($RAW && GROUP == 1 && height == VECTOR)
                    m[i] = *(const vec *)row;
                else
                    for (long k = 0; k < height; k++) ((word *)&m[i])[k] = $S_element(row[k]);
            }
            transpose(m);
            long c = channel + q / j->taps, tap = q % j->taps;
            for (long k = 0; k < height; k++) {
                const long place = j->backward ? j->taps - 1 - tap : tap;
                vec *to = (vec *)(panel + (place * words + c / GROUP) * NR + j0);
#if GROUP == 1
                *to = m[k];
#else
                const vec shifted = m[k] << 32 / GROUP * (int)(c % GROUP);
                if (c % GROUP) *to |= shifted;
                else *to = shifted;
#endif
                if (++tap == j->taps) tap = 0, c++;
            }
        }
}

static void $S_weights_run(const weights_job *j, long group, long p, long first, long last)
{
    const long words = CEIL(j->from, GROUP), panels = CEIL(j->to, NR), width = MIN(NR, j->to - p * NR);
    word *panel = j->panels + (group * panels + p) * j->taps * words * NR;
    const $E *w = (const $E *)j->weights + group * j->from * j->to * j->taps;
    if (!j->backward)
        $S_scatter_rows(w + (p * NR * j->from + first) * j->taps, j->from * j->taps, width,
                        (last - first) * j->taps, first, j, panel);
    else if (j->taps == 1)
        $S_interleave((const char *)(w + first * j->to + p * NR), j->to, last - first, width,
                      panel + first / GROUP * NR, NR, NR);
    else
        for (long c = first; c < last; c++)
            $S_scatter_rows(w + (c * j->to + p * NR) * j->taps, j->taps, width, j->taps, c, j, panel);
}

NOINLINE int $S_weights(const char *weights, word *panels, long groups, long from, long to,
                        long taps, int backward, const fk_runtime *rt)
{
    weights_job j = {weights, panels, groups, from, to, taps, backward, 0, $S_weights_run};
    return run_weights(&j, rt);
}
"""

GRADIENT = r"""
/* sums [parts][group][tap][cin][cout] to [group][cout][cin][tap] */
static void $S_gradient_run(const weights_job *j, long group, long p, long first, long last)
{
    const long size = j->from * j->to * j->taps, parts = j->parts;
    const acc_t *sums = (const acc_t *)j->panels + group * size;
    $E *to = ($E *)j->weights + group * size;
    const long end = MIN(j->to, (p + 1) * NR);
    for (long tap = 0; tap < j->taps; tap++)
        for (long o = p * NR; o < end; o += VECTOR)
            for (long c = first; c < last; c += VECTOR) {
                const long width = MIN(VECTOR, end - o), height = MIN(VECTOR, last - c);
                acc_vec m[VECTOR];
                for (long k = 0; k < VECTOR; k++) m[k] = (acc_vec){0};
                for (long k = 0; k < height; k++)
                    for (long part = 0; part < parts; part++) {
                        const acc_t *row = sums + part * j->groups * size
                                           + (tap * j->from + c + k) * j->to + o;
                        acc_vec v = {0};
                        if (width == VECTOR) v = *(const acc_vec *)row;
                        else memcpy(&v, row, width * sizeof(acc_t));
                        m[k] += v;
                    }
                transpose((vec *)m);
                for (long i = 0; i < width; i++)
                    for (long k = 0; k < height; k++) {
                        const acc_t x = ((acc_t *)&m[i])[k];
                        to[((o + i) * j->from + c + k) * j->taps + tap] = $STORE;
                    }
            }
}

/* sums [parts][group][cout][cin], one tap, in the order of the weights already */
static void $S_gradient_plain(const weights_job *j, long group, long p, long first, long last)
{
    const long size = j->groups * j->from * j->to, width = MIN(NR, j->to - p * NR);
    for (long c = first; c < last; c++) {
        const long at = (group * j->from + c) * j->to + p * NR;
        const acc_t *row = (const acc_t *)j->panels + at;
        $E *to = ($E *)j->weights + at;
        for (long o = 0; o < width; o++) {
            acc_t x = row[o];
            for (long part = 1; part < j->parts; part++) x += row[part * size + o];
            to[o] = $STORE;
        }
    }
}

NOINLINE int $S_gradient(const acc_t *sums, long parts, char *weights, long groups, long from,
                         long to, long taps, int plain, const fk_runtime *rt)
{
    weights_job j = {weights, (word *)sums, groups, from, to, taps, 0, parts,
                     plain ? $S_gradient_plain : $S_gradient_run};
    return run_weights(&j, rt);
}
"""


def weights_text(kind: Kind) -> str:
    """Weight packing, and unpacking of gradients, for every storage dtype of a kind."""
    parts = [COMMON]
    for storage in storages(kind):
        name = storage.name
        raw = "1" if storage.raw else "0"
        parts.append(fill(PACK, S=name, E=storage.element, RAW=raw))
        if kind.group == 1:
            parts.append(fill(GRADIENT, S=name, E=storage.element, STORE=RESULTS[name][2]))
    return "\n".join(parts)
