"""The k-vectorised dot kernel: few rows of A times rows of B that are contiguous along k.

Takes a kind and a storage dtype of B; gives `<dtype>_dots`, which multiplies a few copied rows of A
with a range of rows of B where they lie. Keeps true: B is read once, in order, without packing, so
that a vector times a weight matrix runs at the speed of memory.
"""

from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill
from facula.codegen.c.kernels.gemm.tile_pack import storages

__all__ = ["dot_text"]

COMMON = r"""
#if REGISTERS >= 32
#define DOT_ROWS 6
#else
#define DOT_ROWS 3
#endif
#define DOT_COLUMNS 4
#define AHEAD_BYTES (1 << 17) /* from rows of B to the next ones, up to which those are fetched */
#define ALONG_BYTES 1024
typedef void dots_function(const word *a, long a_stride, long rows, const char *b, long j_stride,
                           long columns, long elements, int far, acc_t *sums, long sums_stride);

/* The elements of a row behind its last whole vector move to the end of the vector after it. */
INLINE void align_tail(word *row, long elements)
{
    const long rest = elements % (VECTOR * GROUP), size = sizeof(word) / GROUP;
    const long gap = (VECTOR * GROUP - rest) * size;
    char *tail = (char *)(row + elements / (VECTOR * GROUP) * VECTOR);
    if (!rest) return;
    memmove(tail + gap, tail, rest * size);
    memset(tail, 0, gap);
}

INLINE acc_t sum_of(acc_vec v)
{
    acc_t sums[VECTOR];
    *(acc_vec *)sums = v;
    UNROLL for (int half = VECTOR / 2; half; half /= 2)
        UNROLL for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}
"""

TEMPLATE = r"""
/* rows x columns sums over k, of at least a vector; the last vector of B is that which ends where k
 * ends, and the last one of a row of A (see align_tail) is zero where both were seen before */
INLINE void $S_dot_tile(const int rows, const int columns, const word *a, long a_stride,
                        const $E *b, long j_stride, long elements, long ahead, acc_t *sums,
                        long sums_stride)
{
    acc_vec total[DOT_ROWS][8];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int j = 0; j < columns; j++) total[r][j] = (acc_vec){0};
    const long words = elements / GROUP, whole = words / VECTOR * VECTOR;
    for (long k = 0; k < whole; k += VECTOR) {
        vec av[DOT_ROWS];
        UNROLL for (int r = 0; r < rows; r++) av[r] = *(const vec *)(a + r * a_stride + k);
        UNROLL for (int j = 0; j < columns; j++) {
            const vec bv = $S_load(b + j * j_stride + k * GROUP, VECTOR);
            if (ahead) __builtin_prefetch(b + j * j_stride + k * GROUP + ahead, 0, 2);
            UNROLL for (int r = 0; r < rows; r++) {
                acc_vec acc = total[r][j];
                MULTIPLY_ADD_VECTORS(acc, bv, av[r]);
                total[r][j] = acc;
            }
        }
    }
    if (whole * GROUP < elements)
        UNROLL for (int j = 0; j < columns; j++) {
            const vec bv = $S_load(b + j * j_stride + elements - VECTOR * GROUP, VECTOR);
            UNROLL for (int r = 0; r < rows; r++) {
                acc_vec acc = total[r][j];
                MULTIPLY_ADD_VECTORS(acc, bv, *(const vec *)(a + r * a_stride + whole));
                total[r][j] = acc;
            }
        }
    UNROLL for (int r = 0; r < rows; r++) {
        int j = 0;
#if VECTOR >= 4
        UNROLL for (; j + 4 <= columns; j += 4) add_quad(total[r] + j, sums + r * sums_stride + j);
#endif
        UNROLL for (; j < columns; j++) sums[r * sums_stride + j] = sum_of(total[r][j]);
    }
}

#define $S_DOT(R, C)                                                                              \
    NOINLINE void $S_dot_##R##x##C(const word *a, long a_stride, const $E *b, long j_stride,      \
                                   long elements, long ahead, acc_t *sums, long sums_stride)      \
    {                                                                                             \
        $S_dot_tile(R, C, a, a_stride, b, j_stride, elements, ahead, sums, sums_stride);          \
    }
$INSTANCES

NOINLINE void $S_dots(const word *a, long a_stride, long rows, const char *source, long j_stride,
                      long columns, long elements, int far, acc_t *sums, long sums_stride)
{
    static void (*const wide[])(const word *, long, const $E *, long, long, long, acc_t *, long) = {
        0, $WIDE};
    static void (*const narrow[])(const word *, long, const $E *, long, long, long, acc_t *, long) = {
        0, $NARROW};
    const $E *b = (const $E *)source;
    const long tiles = CEIL(rows, DOT_ROWS);
    for (long j = 0; j < columns;) {
        const long step = columns - j >= DOT_COLUMNS ? DOT_COLUMNS : 1;
        const long taken = rows == 1 && columns - j >= 8 ? 8 : step;
        const char *next = (const char *)(b + (j + taken) * j_stride);
        /* a single tile waits for memory: for the rows of B that come next, or further along these */
        const long apart = taken * j_stride, near = apart * (long)sizeof($E) <= AHEAD_BYTES;
        const long ahead = !far || tiles > 1 ? 0 : near ? apart : ALONG_BYTES / (long)sizeof($E);
        for (long t = 0; t < tiles; t++) {
            /* a share of the rows of B that come next arrives during this tile */
            const long from = tile_first(elements, tiles, t) * sizeof($E);
            const long share = tile_first(elements, tiles, t + 1) * sizeof($E) - from;
            for (long i = 0; tiles > 1 && i < taken; i++)
                prefetch_words(next + i * j_stride * sizeof($E) + from, share);
            const long r = tile_first(rows, tiles, t), count = tile_first(rows, tiles, t + 1) - r;
            (taken == 8 ? $S_dot_1x8 : step == 1 ? narrow[count] : wide[count])(
                a + r * a_stride, a_stride, b + j * j_stride, j_stride, elements, ahead,
                sums + r * sums_stride + j, sums_stride);
        }
        j += taken;
    }
}
"""


def dot_text(kind: Kind, registers: int) -> str:
    """Dot kernels for every storage dtype that B may have."""
    rows = range(1, (6 if registers >= 32 else 3) + 1)
    parts = [COMMON]
    for storage in storages(kind):
        if storage.name == "s8":
            continue
        name = storage.name
        instances = [f"{name}_DOT({r}, {c})" for r in rows for c in (1, 4)]
        values = {
            "INSTANCES": " ".join([*instances, f"{name}_DOT(1, 8)"]),
            "WIDE": ", ".join(f"{name}_dot_{r}x4" for r in rows),
            "NARROW": ", ".join(f"{name}_dot_{r}x1" for r in rows),
        }
        parts.append(fill(TEMPLATE, S=name, E=storage.element, **values))
    return "\n".join(parts)
