"""Convolution as a gathering product: every destination pixel sums over the taps that it sees.

Gives C text of `run_gather`, which serves the forward direction and the gradient of the data alike:
rows of the tile are pixels of one axis class, the reduction is the class's list of segments. Keeps
true: each result is computed by one unit of work in a fixed order, whatever the number of threads.
"""

__all__ = ["GATHER"]

GATHER = r"""
typedef struct {
    long n, groups, from, to;      /* per group: words of a source pixel, columns of a result */
    long source[3], dest[3], taps, kernel[3];
    axis axes[3];
    const word *x;                 /* [n][source][groups * from] */
    const word *weights;           /* [group][panel][tap][from][NR] */
    copy_row_function *copy_row;   /* of words */
    output out;                    /* [n][dest][groups * to] */
    int plain, converts, backward;
    /* the plan */
    long panels, group_panels, panel_units, chunks, pixels, pass_taps, longest;
} gather;

#define GATHER_B (L2_BYTES * 6 / 10) /* bytes of weights that stay in L2 */
#define COPIED_PIXEL 512 /* bytes between pixels up to which their rows are read where they lie */
#define GATHER_ROWS 48 /* the fewest pixels that are worth a unit */

INLINE const axis_class *class_of(const gather *g, int d, long index)
{
    return &g->axes[d].classes[index];
}

/* The segments of a triple of classes with taps in [low, high); neighbours are joined. */
static long list_segments(const gather *g, const axis_class *const *c, long low, long high,
                          segment *segments)
{
    const long pixel = g->groups * g->from;
    long count = 0;
    for (long z = 0; z < c[0]->n_taps; z++)
        for (long y = 0; y < c[1]->n_taps; y++)
            for (long x = 0; x < c[2]->n_taps; x++) {
                const long tap = (c[0]->taps[z] * g->kernel[1] + c[1]->taps[y]) * g->kernel[2]
                                 + c[2]->taps[x];
                const long place = g->backward ? g->taps - 1 - tap : tap;
                if (place < low || place >= high) continue;
                const long at = (c[0]->at[z] * g->source[1] + c[1]->at[y]) * g->source[2] + c[2]->at[x];
                segment *last = segments + count - 1;
                if (count && last->a_offset + last->length == at * pixel
                    && last->b_offset + last->length == place * g->from)
                    last->length += g->from;
                else
                    segments[count++] = (segment){at * pixel, place * g->from, g->from};
            }
    if (!count) segments[0] = (segment){0, 0, 0};
    return count;
}

/* Pixels [low, high) of one triple of classes, times a group of panels, over the taps of a pass. */
static void gather_class(const gather *g, const axis_class *const *c, long group, long first_panel,
                         long low, long high, long row, long pass, segment *segments, word *copy,
                         acc_t *sums)
{
    const long pixel = g->groups * g->from, result = g->groups * g->to, words = g->taps * g->from;
    const long n_segments = list_segments(g, c, pass, pass + g->pass_taps, segments);
    const long last_panel = MIN(g->panels, first_panel + g->group_panels);
    const long *s = g->source, *d = g->dest;
    cursor w = {{g->n, c[0]->count, c[1]->count, c[2]->count},
                {volume(s) * pixel, c[0]->anchor_step * s[1] * s[2] * pixel,
                 c[1]->anchor_step * s[2] * pixel, c[2]->anchor_step * pixel},
                {volume(d) * result, c[0]->step * d[1] * d[2] * result, c[1]->step * d[2] * result,
                 c[2]->step * result}};
    const long a = ((c[0]->anchor * s[1] + c[1]->anchor) * s[2] + c[2]->anchor) * pixel + group * g->from;
    const long to = ((c[0]->first * d[1] + c[1]->first) * d[2] + c[2]->first) * result + group * g->to;
    output out = g->out;
    out.c += to * out.size;
    if (out.bias) out.bias += group * g->to * out.size;
    const int copies = g->taps == 1 && n_segments == 1 && last_panel - first_panel >= 4
                       && pixel * sizeof(word) > COPIED_PIXEL;
    job j = {{A_IN_PLACE, (const char *)(g->x + a), 1}, segments, n_segments};
    if (copies)
        j.a = (a_source){A_ROWS, (const char *)(g->x + a + segments[0].a_offset), 1, sizeof(word),
                         g->from * GROUP, g->copy_row, NULL, copy};
    j.b = g->weights + (group * g->panels + first_panel) * words * NR;
    j.b_stride = NR, j.panel_size = words * NR;
    j.first_panel = first_panel, j.last_panel = last_panel, j.columns = g->to;
    j.store = pass ? ACCUMULATE : STORE;
    j.sums = sums;
    j.sums_stride = MIN(g->group_panels * NR, CEIL(g->to - first_panel * NR, VECTOR) * VECTOR);
    j.keeps = g->pass_taps < g->taps, j.finishes = pass + g->pass_taps >= g->taps, j.out = &out;
    if (g->plain) j.direct = (acc_t *)out.c;
    if (g->converts && !j.keeps) j.converted = out.c;
    if (g->plain && pass && !n_segments && !(out.in_place && j.finishes)) return;
    cursor_seek(&w, low);
    block(&j, &w, high - low, row);
}

static void gather_unit(void *context, long unit, char *scratch)
{
    const gather *g = context;
    const long chunk = unit % g->chunks, rest = unit / g->chunks;
    const long group = rest / g->panel_units, first_panel = rest % g->panel_units * g->group_panels;
    const long first = tile_first(g->pixels, g->chunks, chunk);
    const long last = tile_first(g->pixels, g->chunks, chunk + 1);
    segment *segments = carve(&scratch, (g->taps + 1) * sizeof *segments);
    word *copy = carve(&scratch, MR * (g->from + VECTOR) * sizeof(word));
    acc_t *sums = (acc_t *)scratch;
    for (long pass = 0; pass < g->taps; pass += g->pass_taps) {
        long at = 0;
        for (long z = 0; z < g->axes[0].n_classes; z++)
            for (long y = 0; y < g->axes[1].n_classes; y++)
                for (long x = 0; x < g->axes[2].n_classes; x++) {
                    const axis_class *c[] = {class_of(g, 0, z), class_of(g, 1, y), class_of(g, 2, x)};
                    const long count = g->n * c[0]->count * c[1]->count * c[2]->count;
                    const long low = MAX(first - at, 0), high = MIN(last - at, count);
                    if (low < high)
                        gather_class(g, c, group, first_panel, low, high, at + low - first, pass,
                                     segments, copy, sums);
                    at += count;
                }
    }
}

/* Threads for which there are too few pixels take panels, where each gets two, or fewer pixels;
 * gives the number of units that do not differ in pixels. */
INLINE long share_few_pixels(gather *g, long threads)
{
    const long units = MIN(CEIL(threads, g->groups), g->panels / 2); /* speed only */
    if (units > g->panel_units) g->group_panels = CEIL(g->panels, units); /* speed only */
    g->panel_units = CEIL(g->panels, g->group_panels);
    const long others = g->groups * g->panel_units;
    if (others < threads) /* speed only */
        g->chunks = MAX(g->chunks, MIN(CEIL(threads, others), g->pixels / (2 * MR))); /* speed only */
    return others;
}

NOINLINE void plan_gather(gather *g, long threads)
{
    const long panel_bytes = g->taps * g->from * NR * sizeof(word);
    g->panels = CEIL(g->to, NR), g->pixels = g->n * volume(g->dest);
    g->pass_taps = MAX(1, MIN(g->taps, (long)GATHER_B / (g->from * NR * (long)sizeof(word))));
    g->pass_taps = CEIL(g->taps, CEIL(g->taps, g->pass_taps));
    g->group_panels = MIN(g->panels, MAX(1, (long)GATHER_B / panel_bytes));
    if (g->pass_taps < g->taps) g->group_panels = 1;
    g->group_panels = CEIL(g->panels, CEIL(g->panels, g->group_panels));
    g->panel_units = CEIL(g->panels, g->group_panels);
    long others = g->groups * g->panel_units;
    const long wanted = threads == 1 ? 1 : CEIL(4 * threads, others); /* speed only */
    g->chunks = MAX(1, MIN(wanted, g->pixels / GATHER_ROWS));
    if (g->chunks * others < threads) others = share_few_pixels(g, threads); /* speed only */
    if (g->pass_taps < g->taps || others > 1) g->chunks = MAX(g->chunks, CEIL(g->pixels, 1536));
    if (g->chunks * others % threads && g->chunks * others < 8 * threads) /* speed only */
        while (g->chunks * others % threads && g->chunks < g->pixels / GATHER_ROWS) g->chunks++; /* speed only */
}

/* axes and channels stand in g; the plan is made here */
NOINLINE int run_gather(gather *g, const fk_runtime *rt)
{
    if (!g->n || !volume(g->dest) || !g->to || !g->groups) return 0;
    const double products /* speed only */
        = (double)g->n * volume(g->dest) * g->groups * g->to * g->from * g->taps; /* speed only */
    const int parallel = products > 200000; /* speed only */
    plan_gather(g, parallel ? rt->threads() : 1);
    const long rows = g->pass_taps < g->taps ? CEIL(g->pixels, g->chunks) : MR;
    const long bytes = PIECE((g->taps + 1) * sizeof(segment)) + PIECE(MR * (g->from + VECTOR) * sizeof(word))
                       + PIECE(MAX(rows, MR) * g->group_panels * NR * sizeof(acc_t));
    return launch(gather_unit, g, g->chunks * g->panel_units * g->groups, bytes, parallel, rt);
}
"""
