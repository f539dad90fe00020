"""Products of a few rows with weights: C text of dot products along k, and of changed places.

Takes the types of `gemm`, where B has neighbours along k, as the weights of a linear layer have.
Gives `dots_unit`, which reads B once and packs nothing, and `swapped_unit`, which packs A instead
of the larger B: rows of the tile are then columns of the result, which is turned on its way to
memory. Keeps true: every operand is read once from memory; finishing sees rows of results.
"""

__all__ = ["FEW_ROWS"]

FEW_ROWS = r"""
/* words between copied rows, which fall into different sets of a cache */
INLINE long dots_stride(const product *g) { return CEIL(words_of(g->k), VECTOR) * VECTOR + VECTOR; }

#define NEAR_BYTES (1 << 18) /* of a B that may well be in a cache when it is read */

/* Columns [first, last) by dot products along k. */
NOINLINE void dots_unit(const product *g, const output *out, const char *a, const char *b,
                        long first, long last, char *scratch)
{
    const format *f = g->f;
    const long stride = dots_stride(g), rows = g->m + f->signed_a;
    word *copy = carve(&scratch, rows * stride * sizeof(word));
    acc_t *sums = carve(&scratch, rows * DOTS_WIDTH * sizeof(acc_t));
    memset(copy, 0, rows * stride * sizeof(word));
    if (f->signed_a) memset(copy + g->m * stride, 1, words_of(g->k) * sizeof(word));
    for (long r = 0; r < rows; r++) {
        if (r < g->m) f->copy_row(a + r * g->a_row * f->a_size, g->a_column, g->k, copy + r * stride);
        align_tail(copy + r * stride, g->k);
    }
    const int far = g->n * g->k * f->b_size > NEAR_BYTES;
    for (long j = first; j < last; j += DOTS_WIDTH) {
        const long columns = MIN(DOTS_WIDTH, last - j);
        f->dots(copy, stride, rows, b + j * g->b_column * f->b_size, g->b_column, columns, g->k, far,
                sums, DOTS_WIDTH);
        output finishing = *out;
        if (f->signed_a) {
            acc_t *ones = sums + g->m * DOTS_WIDTH;
            for (long i = 0; i < columns; i++) ones[i] *= -128;
            finishing.correction = ones, finishing.correction_first = j;
        }
        for (long r = 0; r < g->m; r++) {
            const long c_row = r * g->c_row;
            if (out->start)
                for (long i = 0; i < columns; i++) sums[r * DOTS_WIDTH + i] += out->start[r];
            f->finish(&finishing, sums + r * DOTS_WIDTH, DOTS_WIDTH, 1, j, j + columns, &c_row);
        }
    }
}

#define SWAP_LEAST 24 /* rows of C from which the turning pays */
#define SWAP_ROWS (8 * MR) /* columns of C that are computed and turned together */

/* Whether A is worth packing in the place of B: it is the smaller one, stays in L2, and fills the
 * vectors of its panels. */
INLINE int swapping_pays(const product *g)
{
    const long lanes = CEIL(g->m, VECTOR) * VECTOR;
    const long bytes = CEIL(g->m, NR) * NR * words_of(g->k) * sizeof(word);
    return g->f->alike && g->m >= SWAP_LEAST && g->n >= g->m && 16 * g->m >= 15 * lanes
           && bytes <= L2_BYTES / 2;
}

INLINE long swapped_scratch(const product *g)
{
    const long width = CEIL(g->m, NR) * NR;
    return PIECE(width * words_of(g->k) * sizeof(word))
           + PIECE(MR * (words_of(g->k) + VECTOR) * sizeof(word))
           + 2 * PIECE(SWAP_ROWS * width * sizeof(acc_t));
}

/* sums[count][stride], a row for each column of C, to rows[m][SWAP_ROWS] */
NOINLINE void turn_sums(const acc_t *sums, long stride, long count, long m, acc_t *rows)
{
    for (long r = 0; r < m; r += VECTOR)
        for (long j = 0; j < count; j += VECTOR) {
            vec square[VECTOR];
            UNROLL for (long i = 0; i < VECTOR; i++) square[i] = *(const vec *)(sums + (j + i) * stride + r);
            transpose(square);
            UNROLL for (long i = 0; i < VECTOR; i++) *(vec *)(rows + (r + i) * SWAP_ROWS + j) = square[i];
        }
}

/* Columns [first, last) of C, whose rows stand in the lanes of the tile. */
NOINLINE void swapped_unit(const product *g, const output *out, const char *a, const char *b,
                           long first, long last, char *scratch)
{
    const format *f = g->f;
    const long panels = CEIL(g->m, NR), words = words_of(g->k);
    word *packed = carve(&scratch, panels * NR * words * sizeof(word));
    word *copy = carve(&scratch, MR * (words + VECTOR) * sizeof(word));
    acc_t *sums = carve(&scratch, SWAP_ROWS * panels * NR * sizeof(acc_t));
    acc_t *rows = carve(&scratch, SWAP_ROWS * panels * NR * sizeof(acc_t));
    for (long p = 0; p < panels; p++)
        f->pack(a + p * NR * g->a_row * f->a_size, g->a_column, g->a_row, g->k, MIN(NR, g->m - p * NR), 0,
                packed + p * words * NR);
    const segment one = {0, 0, words};
    for (long j0 = first; j0 < last; j0 += SWAP_ROWS) {
        const long count = MIN(SWAP_ROWS, last - j0);
        const char *from = b + j0 * g->b_column * f->b_size;
        job j = {{A_ROWS, from, 1, f->b_size, g->k, f->copy_row, NULL, copy}, &one, 1, NULL,
                 packed, NR, words * NR, 0, panels, g->m, STORE, NULL, sums, panels * NR};
        cursor w = cursor_rows(count, g->b_column, 0);
        if (f->raw_b && g->k % GROUP == 0 && g->b_column % GROUP == 0) {
            j.a.mode = A_IN_PLACE;
            w.a_step[3] = g->b_column / GROUP;
        }
        j.keeps = 1;
        block(&j, &w, count, 0);
        turn_sums(sums, panels * NR, count, g->m, rows);
        for (long r = 0; r < g->m; r++) {
            const long c_row = r * g->c_row;
            if (out->start)
                for (long i = 0; i < count; i++) rows[r * SWAP_ROWS + i] += out->start[r];
            f->finish(out, rows + r * SWAP_ROWS, SWAP_ROWS, 1, j0, j0 + count, &c_row);
        }
    }
}
"""
