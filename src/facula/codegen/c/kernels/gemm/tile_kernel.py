"""The register tile: C text of the micro-kernel, of a block of tiles, and of the work queue.

Takes the configuration of a kind (`tile_kind`). Gives `block`, which multiplies rows named by a
cursor with packed panels of B over a list of segments, and `launch`, which spreads units of work
over the pool. Keeps true: all accumulators of a tile stay in registers over all segments; no byte
outside of the operands is read or written.
"""

from facula.codegen.c.kernels.gemm.tile_kind import Kind

__all__ = ["kernel_text"]

MICRO = r"""
#define TALL (2 * MR) /* rows of a tile that is at most half as wide, in as many registers */
enum store { STORE, ACCUMULATE, CONVERT }; /* CONVERT: C holds results, not sums */
/* a_offset and length count words, b_offset counts rows of B */
typedef struct { long a_offset, b_offset, length; } segment;

/* added to the sums of a tile as they are stored */
typedef struct {
    const acc_t *bias; /* of the tile's columns, or NULL */
    long residual;     /* elements from one of C to the one that is added to it; 0: nothing is */
} addition;

/* C[r][0:vecs * VECTOR] (+)= start[r] + sum over segments, k < length: A[r][a_offset + k] *
 * B[b_offset + k].  a_stride: words between two values of A along k;  b_stride: words between two
 * rows of B;  start and add may be NULL. */
INLINE void tile(const int rows, const int vecs, const word *a, const long *a_row,
                 const long a_stride, const segment *segments, long n_segments, const word *b,
                 const long b_stride, acc_t *c, const long *c_row, enum store store,
                 const acc_t *start, const addition *add)
{
    acc_vec sums[TALL][VECS];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vecs; v++) sums[r][v] = (acc_vec){0};
    if (start)
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vecs; v++) sums[r][v] += start[r];
    /* the lines of C arrive while the products are computed */
    if (store != CONVERT)
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vecs; v++)
                __builtin_prefetch(c + c_row[r] + v * VECTOR, 1, 3);
    for (long s = 0; s < n_segments; s++) {
        const word *bk = b + segments[s].b_offset * b_stride;
        const word *ak[TALL];
        UNROLL for (int r = 0; r < rows; r++)
            ak[r] = a + a_row[r] + segments[s].a_offset;
        const long length = segments[s].length;
        for (long k = 0; k < length; k++, bk += b_stride) {
            vec bv[VECS];
            UNROLL for (int v = 0; v < vecs; v++) bv[v] = *(const vec *)(bk + v * VECTOR);
            UNROLL for (int r = 0; r < rows; r++) {
                const word x = ak[r][k * a_stride];
                UNROLL for (int v = 0; v < vecs; v++) {
                    acc_vec acc = sums[r][v];
                    MULTIPLY_ADD(acc, bv[v], x);
                    sums[r][v] = acc;
                }
            }
        }
    }
#if CONVERTS
    if (store == CONVERT) {
        UNROLL for (int r = 0; r < rows; r++)
            convert_row((result_t *)c + c_row[r], sums[r], vecs);
        return;
    }
#endif
    if (store == ACCUMULATE)
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vecs; v++)
                sums[r][v] += *(acc_vec *)(c + c_row[r] + v * VECTOR);
    if (add && add->bias)
        UNROLL for (int v = 0; v < vecs; v++) {
            const acc_vec bias = *(const acc_vec *)(add->bias + v * VECTOR);
            UNROLL for (int r = 0; r < rows; r++) sums[r][v] += bias;
        }
    if (add && add->residual)
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vecs; v++)
                sums[r][v] += *(const acc_vec *)(c + c_row[r] + add->residual + v * VECTOR);
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vecs; v++)
            *(acc_vec *)(c + c_row[r] + v * VECTOR) = sums[r][v];
}

#define TILE_ARGUMENTS                                                                            \
    const word *a, const long *a_row, long a_stride, const segment *segments, long n_segments,    \
        const word *b, long b_stride, acc_t *c, const long *c_row, enum store store,              \
        const acc_t *start, const addition *add
typedef void tile_function(TILE_ARGUMENTS);
#define TILE(R, V)                                                                                \
    NOINLINE void tile_##R##x##V(TILE_ARGUMENTS)                                                  \
    {                                                                                             \
        if (a_stride == 1 && b_stride == NR)                                                      \
            tile(R, V, a, a_row, 1, segments, n_segments, b, NR, c, c_row, store, start, add);    \
        else                                                                                      \
            tile(R, V, a, a_row, a_stride, segments, n_segments, b, b_stride, c, c_row, store,    \
                 start, add);                                                                     \
    }
"""

BLOCK = r"""
/* Rows of A and C in up to four nested loops, the last the innermost. */
typedef struct { long count[4], a_step[4], c_step[4], at[4], a, c; } cursor;

NOINLINE void cursor_seek(cursor *w, long index)
{
    w->a = w->c = 0;
    for (int d = 3; d >= 0; d--) {
        w->at[d] = index % w->count[d], index /= w->count[d];
        w->a += w->at[d] * w->a_step[d], w->c += w->at[d] * w->c_step[d];
    }
}

INLINE void cursor_next(cursor *w)
{
    w->a += w->a_step[3], w->c += w->c_step[3];
    if (__builtin_expect(++w->at[3] < w->count[3], 1)) return;
    for (int d = 3; d > 0 && w->at[d] == w->count[d]; d--) {
        w->a += w->a_step[d - 1] - w->count[d] * w->a_step[d];
        w->c += w->c_step[d - 1] - w->count[d] * w->c_step[d];
        w->at[d] = 0, w->at[d - 1]++;
    }
}

INLINE cursor cursor_rows(long rows, long a_step, long c_step)
{
    return (cursor){{1, 1, 1, rows}, {0, 0, 0, a_step}, {0, 0, 0, c_step}};
}

/* an elementwise function in the accumulator's dtype, or none, and its attributes */
typedef struct { fk_map map; const fk_scalar *scalars; } epilogue;

/* How sums become results: C = map(alpha * sum + beta * C + bias + residual), in C's own dtype,
 * where sums were started from `start` by whoever makes the jobs. */
typedef struct output {
    void (*finish)(const struct output *o, acc_t *sums, long stride, long rows, long first,
                   long last, const long *c_row);
    char *c;
    const char *bias;
    const acc_t *start; /* what the sums of each row start from, or NULL */
    const acc_t *correction; /* added to each row of sums, from column correction_first on */
    long correction_first;
    acc_t alpha, beta;
    epilogue epilogue;
    long residual; /* bytes from an element of C to the one that is added to it; 0: nothing is */
    long size; /* bytes of an element of C */
    int in_place; /* C takes the sums themselves, and only bias, residual and map are left to do */
} output;

INLINE void map_row(const epilogue *t, acc_t *row, long count)
{
    char *p[] = {(char *)row, (char *)row};
    t->map(p, t->scalars, count);
}

/* Rows of sums in C, which has their dtype, become results where they lie; bias and residual are in them. */
NOINLINE void finish_in_place(const output *o, long rows, long first, long last, const long *c_row)
{
    if (!o->epilogue.map) return;
    const long width = last - first;
    acc_t *c = (acc_t *)o->c + first;
    int together = 1; /* rows that follow each other are mapped at once */
    for (long r = 1; r < rows; r++) together &= c_row[r] == c_row[r - 1] + width;
    if (together) map_row(&o->epilogue, c + c_row[0], rows * width);
    else
        for (long r = 0; r < rows; r++) map_row(&o->epilogue, c + c_row[r], width);
}

/* Whether sums of `columns` columns are worth making in C: single vectors that are not full go
 * through scratch in any case. */
INLINE int worth_in_place(long columns) { return columns >= VECTOR; }

enum a_mode { A_IN_PLACE, A_ROWS, A_COLUMNS };
/* `span` words of each row of A are copied (A_ROWS), or transposed for a few tiles at a time
 * (A_COLUMNS: the rows are neighbours in memory). */
typedef void copy_row_function(const char *source, long step, long elements, word *out);
typedef void columns_function(const char *source, long k_stride, long elements, const long *begin,
                              const long *width, long tiles, word *out, long pitch);
typedef struct {
    enum a_mode mode;
    const char *a;                 /* A_IN_PLACE: words, else elements of `size` bytes */
    long stride, size, elements;   /* along k: words in place, elements otherwise */
    copy_row_function *copy_row;
    columns_function *columns;
    word *buffer;
} a_source;

typedef struct {
    a_source a;
    const segment *segments;
    long n_segments;
    segment *transposed;           /* room for as many, where A_COLUMNS has several */
    const word *b;
    long b_stride, panel_size;
    long first_panel, last_panel, columns; /* panels of this pass; columns of C in all */
    enum store store;
    acc_t *direct;                 /* C, when sums are results; else NULL */
    acc_t *sums;                   /* rows of sums, sums_stride apart, for everything else */
    long sums_stride;
    int keeps, finishes;           /* sums live over several passes; this is the last of them */
    const output *out;
    const acc_t *start;            /* what the sums of each row start from, or NULL */
    char *converted;               /* C, when converted sums are results; else NULL */
} job;

#define A_AHEAD 8 /* tiles that are transposed together, so that lines of A are used whole */
#define A_WIDTH 8 /* words of one step of k in a transposed tile */

INLINE long tile_first(long count, long tiles, long t) { return count * t / tiles; }

/* Tiles t .. t + A_AHEAD - 1, segment after segment; the rows of A follow row `row`. */
NOINLINE void transpose_tiles(const a_source *a, const segment *segments, long n_segments, long words,
                              long count, long tiles, long t, long row)
{
    const long ahead = MIN(A_AHEAD, tiles - t);
    long begin[A_AHEAD], width[A_AHEAD]; /* of the next tile's rows too: a full width copies faster */
    for (long i = 0; i < ahead; i++) {
        begin[i] = row + tile_first(count, tiles, t + i);
        width[i] = MIN(A_WIDTH, row + count - begin[i]);
    }
    for (long s = 0, at = 0; s < n_segments; at += segments[s++].length)
        a->columns(a->a + segments[s].a_offset * a->size, a->stride,
                   n_segments == 1 ? a->elements : segments[s].length, begin, width, ahead,
                   a->buffer + at * A_WIDTH, words * A_WIDTH);
}

NOINLINE void copy_rows(const a_source *a, const long *a_row, long rows, long distance)
{
    for (long r = 0; r < rows; r++)
        a->copy_row(a->a + a_row[r] * a->size, a->stride, a->elements, a->buffer + r * distance);
}

/* The last columns of C where they do not fill a vector, in pieces whose lengths the compiler knows. */
NOINLINE void store_tail(const acc_t *sums, long stride, long rows, long width, acc_t *c,
                         const long *c_row, enum store store, const addition *add)
{
#define TAIL_PIECES(LENGTH)                                                                       \
    for (; width - j >= (LENGTH); j += (LENGTH)) {                                                \
        typedef acc_t piece __attribute__((vector_size((LENGTH) * sizeof(acc_t)),                 \
                                           aligned(sizeof(acc_t)), may_alias));                   \
        piece sum = *(const piece *)(sums + j);                                                   \
        if (store == ACCUMULATE) sum += *(const piece *)(to + j);                                 \
        if (add->bias) sum += *(const piece *)(add->bias + j);                                    \
        if (add->residual) sum += *(const piece *)(to + add->residual + j);                       \
        *(piece *)(to + j) = sum;                                                                 \
    }
    for (long r = 0; r < rows; r++, sums += stride) {
        acc_t *to = c + c_row[r];
        long j = 0;
        TAIL_PIECES(VECTOR)
        TAIL_PIECES(MAX(1, VECTOR / 2))
        TAIL_PIECES(MAX(1, VECTOR / 4))
        TAIL_PIECES(1)
    }
}

/* The lines of C that a tile will finish arrive while its products are computed. */
INLINE void fetch_results(const output *o, const long *c_row, long rows, long first, long width)
{
    for (long r = 0; r < rows; r++) {
        const char *line = o->c + (c_row[r] + first) * o->size, *end = line + width * o->size;
        for (; line < end; line += 64) __builtin_prefetch(line, 1, 3);
    }
}

/* `count` rows from where the cursor stands, times panels.  `row` is the number of the first row:
 * it addresses kept sums and, for A_COLUMNS, A itself. */
NOINLINE void block(const job *j, cursor *w, long count, long row)
{
    if (count <= 0) return;
    const int narrow = j->a.mode == A_IN_PLACE && j->columns - j->first_panel * NR <= NR / 2;
    const long tiles = CEIL(count, narrow ? TALL : MR), words = CEIL(j->a.elements, GROUP);
    const long distance = j->a.mode == A_ROWS ? words + VECTOR : 0;
    const segment whole = {0, j->segments->b_offset, words};
    long copied_row[TALL], sums_row[TALL];
    for (long r = 0; r < TALL; r++)
        copied_row[r] = j->a.mode == A_ROWS ? r * distance : r, sums_row[r] = r * j->sums_stride;
    const int copies = j->a.mode != A_IN_PLACE;
    const segment *segments = copies ? &whole : j->segments;
    const long n_segments = j->a.mode == A_ROWS ? 1 : j->n_segments;
    if (j->a.mode == A_COLUMNS && n_segments > 1) {
        for (long s = 0, at = 0; s < n_segments; at += j->segments[s++].length)
            j->transposed[s] = (segment){at * A_WIDTH, j->segments[s].b_offset, j->segments[s].length};
        segments = j->transposed;
    }
    const long a_stride = j->a.mode == A_COLUMNS ? A_WIDTH : copies ? 1 : j->a.stride;
    /* the columns that the tiles leave as sums: of converted ones, a panel that fills no vector */
    const long end = MIN(j->columns, j->last_panel * NR);
    const long left = end % VECTOR ? (j->last_panel - 1) * NR : end;
    const long first = j->converted ? left : j->first_panel * NR;
    const int in_place = j->direct && j->finishes && j->out->in_place;
    const acc_t *bias = in_place ? (const acc_t *)j->out->bias : NULL;
    addition more = {NULL, in_place ? j->out->residual / (long)sizeof(acc_t) : 0};
    for (long t = 0; t < tiles; t++) {
        const long begin = tile_first(count, tiles, t), rows = tile_first(count, tiles, t + 1) - begin;
        long a_row[TALL], c_row[TALL];
        for (long r = 0; r < rows; r++) a_row[r] = w->a, c_row[r] = w->c, cursor_next(w);
        const word *a = copies ? j->a.buffer : (const word *)j->a.a;
        if (j->a.mode == A_ROWS) copy_rows(&j->a, a_row, rows, distance);
        if (j->a.mode == A_COLUMNS) {
            if (t % A_AHEAD == 0)
                transpose_tiles(&j->a, j->segments, n_segments, words, count, tiles, t, row);
            a += t % A_AHEAD * words * A_WIDTH;
        }
        const long *rows_a = copies ? copied_row : a_row;
        acc_t *sums = j->sums + (j->keeps ? (row + begin) * j->sums_stride : 0);
        const acc_t *start = j->start ? j->start + row + begin : NULL;
        for (long p = j->first_panel; p < j->last_panel; p++) {
            const long width = MIN(NR, j->columns - p * NR);
            tile_function *f = tiles_of[CEIL(width, VECTOR)][rows];
            const word *b = j->b + (p - j->first_panel) * j->panel_size;
            acc_t *to = sums + (p - j->first_panel) * NR;
            if (!j->direct && j->finishes) fetch_results(j->out, c_row, rows, p * NR, width);
            if (j->converted && width % VECTOR == 0)
                f(a, rows_a, a_stride, segments, n_segments, b, j->b_stride,
                  (acc_t *)(j->converted + p * NR * j->out->size), c_row, CONVERT, start, NULL);
            else if (!j->direct)
                f(a, rows_a, a_stride, segments, n_segments, b, j->b_stride, to, sums_row, j->store,
                  start, NULL);
            else if (more.bias = bias ? bias + p * NR : NULL, width % VECTOR == 0)
                f(a, rows_a, a_stride, segments, n_segments, b, j->b_stride, j->direct + p * NR,
                  c_row, j->store, start, &more);
            else {
                f(a, rows_a, a_stride, segments, n_segments, b, j->b_stride, sums, sums_row, STORE,
                  start, NULL);
                store_tail(sums, j->sums_stride, rows, width, j->direct + p * NR, c_row, j->store,
                           &more);
            }
        }
        if (!j->finishes || first >= end) continue;
        if (in_place)
            finish_in_place(j->out, rows, first, end, c_row);
        else if (!j->direct)
            j->out->finish(j->out, sums + first - j->first_panel * NR, j->sums_stride, rows, first,
                           end, c_row);
    }
}
"""

QUEUE = r"""
#define PIECE(bytes) (((bytes) + 63) / 64 * 64)
/* Units of work that the threads take from a counter; each thread has its own scratch memory. */
typedef struct queue {
    void (*unit)(void *context, long unit, char *scratch);
    void *context;
    long units, scratch_bytes;
    char *scratch;
    atomic_long next;
} queue;

static void queue_worker(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                         int64_t end)
{
    queue *q = (queue *)p[0];
    for (int64_t worker = begin; worker < end; worker++)
        for (long unit; (unit = atomic_fetch_add(&q->next, 1)) < q->units;)
            q->unit(q->context, unit, q->scratch + worker * q->scratch_bytes);
}

/* Runs all units; 1 when there is no memory for the scratch areas. */
NOINLINE int launch(void (*unit)(void *, long, char *), void *context, long units,
                    long scratch_bytes, int parallel, const fk_runtime *rt)
{
    const long workers = parallel ? MAX(1, MIN(units, rt->threads())) : 1;
    queue q = {unit, context, units, PIECE(scratch_bytes), NULL, 0};
    if (scratch_bytes && !(q.scratch = rt->scratch(q.scratch_bytes * workers))) return 1;
    char *p[] = {(char *)&q};
    if (workers == 1)
        queue_worker(p, NULL, NULL, 0, 1);
    else
        rt->parallel(queue_worker, p, NULL, NULL, workers, 1);
    if (q.scratch) rt->release(q.scratch);
    return 0;
}

/* consecutive pieces of a scratch area, each on a cache line of its own */
INLINE void *carve(char **scratch, long bytes)
{
    char *piece = *scratch;
    *scratch += PIECE(bytes);
    return piece;
}
"""


def kernel_text(kind: Kind) -> str:
    """Micro-kernels of every tile size, the block of tiles and the work queue."""
    short = [f"TILE({rows}, V)" for rows in range(1, 7)]
    tall = [f"TILE({rows}, V)" for rows in range(7, 13)]
    instances = ["#define TILES(V) " + " ".join(short), "#define TALL_TILES(V) " + " ".join(tall)]
    instances += ["TILES(1) TILES(2) TALL_TILES(1)", "#if VECS == 4"]
    instances += ["TILES(3) TILES(4) TALL_TILES(2)", "#endif"]
    table = ["static tile_function *const tiles_of[VECS + 1][TALL + 1] = {", "    {0},"]
    for vecs in range(1, 5):
        if vecs == 3:
            table.append("#if VECS == 4")
        named = ", ".join(f"tile_{rows}x{vecs}" for rows in range(1, 7))
        more = ", ".join(f"tile_{rows}x{vecs}" for rows in range(7, 13))
        if vecs == 1:
            table.append(f"    {{0, {named}, {more}}},")
        elif vecs == 2:
            table += ["#if VECS == 4", f"    {{0, {named}, {more}}},", "#else"]
            table += [f"    {{0, {named}}},", "#endif"]
        else:
            table.append(f"    {{0, {named}}},")
    table += ["#endif", "};"]
    return "\n".join([MICRO, *instances, *table, BLOCK, QUEUE])
