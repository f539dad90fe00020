/* The elementwise engine: one contiguous kernel serves every layout, broadcast and mixture of
 * dtypes.
 *
 * Takes: an `fk_iter`: shape, byte strides, addresses, dtypes in memory and the dtypes that the
 * kernel wants.
 * Gives: `fk_map_run`, which runs a kernel over it, and the tilings that copies share (fk_copy.h).
 * Keeps true: outputs stand before inputs; no output has a zero stride over more than one
 * element; an output is the very same memory as an input or does not touch it; the result does
 * not depend on the number of threads.
 *
 * After `fk_iter_prepare` the last dimension is the one that the first output walks in its
 * smallest steps.  What is contiguous everywhere goes to the kernel as it is.  The rest is cut
 * into tiles of about a thousand elements over the last dimension and one other: an operand
 * whose tile is contiguous and of the right dtype is used in place, the others are gathered (and
 * cast) into tiles on the stack, so that strides and casts cost L1 traffic only.  A tile that
 * the next step would fill with the same elements, a broadcast one, is kept. */
#ifndef FK_ITERATE_H
#define FK_ITERATE_H
#include "fk_base.h"
#include <stddef.h>
#include <time.h>

#include "facula_abi.h"
#include "fk_block.h"
#include "fk_cast.h"
#include "fk_pool.h"

enum { FK_MAX_DIMS = 64, FK_MAX_OPERANDS = 10 };

typedef struct {
    int ndim, nout, nin;
    uint8_t dtype[FK_MAX_OPERANDS];   /* in memory; outputs, then inputs */
    uint8_t compute[FK_MAX_OPERANDS]; /* what the kernel reads and writes */
    char *data[FK_MAX_OPERANDS];
    int64_t shape[FK_MAX_DIMS];                   /* last dimension innermost */
    int64_t stride[FK_MAX_OPERANDS][FK_MAX_DIMS]; /* bytes; 0 where an input is broadcast */
} fk_iter;

/* What a copy takes: the strides of operands that there are not stay off. */
FK_INLINE size_t fk_iter_bytes(const fk_iter *it) {
    return offsetof(fk_iter, stride) + (size_t)(it->nout + it->nin) * sizeof it->stride[0];
}

/* Copies what an iteration says; `to` has room for `fk_iter_bytes`. */
FK_INLINE void fk_iter_copy(fk_iter *to, const fk_iter *it) {
    size_t row = (size_t)it->ndim * sizeof it->shape[0];
    memcpy(to, it, offsetof(fk_iter, shape));
    memcpy(to->shape, it->shape, row);
    for (int k = 0; k < it->nout + it->nin; k++) memcpy(to->stride[k], it->stride[k], row);
}

enum {
    FK_PARALLEL_ELEMENTS = 32768, /* the least that a thread gets */
    FK_TILE_ELEMENTS = 1024,
    FK_TILE_BYTES = 49152, /* all tiles of a thread together */
    FK_BLOCK_ELEMENTS = 4096, /* of a tile where an operand is transposed: long pieces of both */
    FK_COPY_ELEMENTS = 16384,
};

/* Whether output k is too large to cache; an output that is an input too has been read already,
 * which makes streaming a loss. */
FK_LOCAL int fk_iter_streams(const fk_iter *it, int k, int64_t numel) {
    if (k >= it->nout || numel * fk_itemsize[it->dtype[k]] < fk_stream_bytes()) return 0;
    for (int i = it->nout; i < it->nout + it->nin; i++)
        if (it->data[i] == it->data[k]) return 0;
    return 1;
}

FK_LOCAL int64_t fk_iter_numel(const fk_iter *it) {
    int64_t count = 1;
    for (int d = 0; d < it->ndim; d++) count *= it->shape[d];
    return count;
}

/* ---- preparing: fewer dimensions, better order ---- */

FK_INLINE void fk_iter_move_dim(fk_iter *it, int to, int from, int operands) {
    it->shape[to] = it->shape[from];
    for (int k = 0; k < operands; k++) it->stride[k][to] = it->stride[k][from];
}

FK_LOCAL void fk_iter_swap_dims(fk_iter *it, int a, int b, int operands) {
    int64_t size = it->shape[a];
    it->shape[a] = it->shape[b];
    it->shape[b] = size;
    for (int k = 0; k < operands; k++) {
        int64_t stride = it->stride[k][a];
        it->stride[k][a] = it->stride[k][b];
        it->stride[k][b] = stride;
    }
}

/* 1: dimension `outer` should stand inside of `inner`; -1: not; 0: no operand can tell */
FK_LOCAL int fk_iter_order(const fk_iter *it, int outer, int inner, int operands) {
    for (int k = 0; k < operands; k++) {
        int64_t a = it->stride[k][outer], b = it->stride[k][inner];
        if (a == 0 || b == 0 || a == b) continue;
        return a < b ? 1 : -1;
    }
    return 0;
}

FK_LOCAL void fk_iter_sort(fk_iter *it, int operands) {
    for (int i = it->ndim - 2; i >= 0; i--) {
        int at = i; /* dimensions behind i are in order: let i sink to its place */
        for (int j = i + 1; j < it->ndim; j++) {
            int order = fk_iter_order(it, at, j, operands);
            if (order < 0) break;
            if (order > 0) {
                for (int k = at; k < j; k++) fk_iter_swap_dims(it, k, k + 1, operands);
                at = j;
            }
        }
    }
}

/* Drops dimensions of size 1, sorts by the strides of the outputs and then of the inputs, merges
 * what is adjacent. Leaves at least one dimension. Preparing twice changes nothing. */
FK_LOCAL void fk_iter_prepare(fk_iter *it) {
    int operands = it->nout + it->nin, kept = 0;
    for (int d = 0; d < it->ndim; d++)
        if (it->shape[d] != 1) {
            if (kept != d) fk_iter_move_dim(it, kept, d, operands);
            kept++;
        }
    it->ndim = kept;
    if (kept == 0) {
        it->ndim = 1;
        it->shape[0] = 1;
        for (int k = 0; k < operands; k++) it->stride[k][0] = fk_itemsize[it->dtype[k]];
        return;
    }
    if (kept == 1) return;
    fk_iter_sort(it, operands);
    int last = 0;
    for (int d = 1; d < it->ndim; d++) {
        int merge = 1;
        for (int k = 0; k < operands && merge; k++)
            merge = it->stride[k][last] == it->shape[d] * it->stride[k][d];
        if (merge) {
            it->shape[last] *= it->shape[d];
            for (int k = 0; k < operands; k++) it->stride[k][last] = it->stride[k][d];
        } else {
            fk_iter_move_dim(it, ++last, d, operands);
        }
    }
    it->ndim = last + 1;
}

/* ---- all contiguous: the kernel as it is ---- */

typedef struct {
    fk_map map;
    const fk_iter *it;
    int64_t numel;
    uint8_t stream[FK_MAX_OPERANDS]; /* an output that goes past the cache */
} fk_direct_job;

enum {
    FK_SENT_ELEMENTS = 128, /* few enough that reads go on while they leave */
    FK_SENT_BYTES = FK_SENT_ELEMENTS * 16,
    FK_TRIAL_ELEMENTS = 16384,
    FK_TRIALS = 3,
};

/* the kernel on a short block at a time, whose large results are sent from the first cache */
static void fk_direct_blocks(
    const fk_direct_job *job, char *const *at, const fk_scalar *s, int64_t count) {
    int operands = job->it->nout + job->it->nin;
    _Alignas(64) char sent[FK_MAX_OPERANDS][FK_SENT_BYTES];
    char *use[FK_MAX_OPERANDS], *to[FK_MAX_OPERANDS];
    memcpy(to, at, sizeof to[0] * (size_t)operands);
    for (int64_t i = 0; i < count; i += FK_SENT_ELEMENTS) {
        int64_t block = count - i < FK_SENT_ELEMENTS ? count - i : FK_SENT_ELEMENTS;
        for (int k = 0; k < operands; k++) use[k] = job->stream[k] ? sent[k] : to[k];
        job->map(use, s, block);
        for (int k = 0; k < operands; k++) {
            int64_t bytes = block * fk_itemsize[job->it->dtype[k]];
            if (job->stream[k]) fk_copy_stream(to[k], sent[k], bytes);
            to[k] += bytes;
        }
    }
}

static void fk_direct_part(
    const fk_direct_job *job, char **at, const fk_scalar *s, int64_t count, int send) {
    if (send)
        fk_direct_blocks(job, at, s, count);
    else
        job->map(at, s, count);
    for (int k = 0; k < job->it->nout + job->it->nin; k++)
        at[k] += count * fk_itemsize[job->it->dtype[k]];
}

FK_INLINE int64_t fk_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Sending is faster where memory is what a kernel waits for, and slower where it waits for its own
 * arithmetic: the first pieces go either way in turn, and the rest goes the faster one. */
static void fk_direct_send(const fk_direct_job *job, char **at, const fk_scalar *s, int64_t count) {
    int64_t least[2] = {INT64_MAX, INT64_MAX}, done = 0;
    for (int trial = 0; trial < 2 * FK_TRIALS && count - done >= FK_TRIAL_ELEMENTS; trial++) {
        int64_t begin = fk_nanoseconds(), took;
        fk_direct_part(job, at, s, FK_TRIAL_ELEMENTS, trial & 1);
        took = fk_nanoseconds() - begin;
        if (took < least[trial & 1]) least[trial & 1] = took;
        done += FK_TRIAL_ELEMENTS;
    }
    if (done < count) fk_direct_part(job, at, s, count - done, least[1] < least[0]);
    fk_stream_end();
}

/* items are blocks of 1024 elements, so that threads share no cache line */
static void fk_direct_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n;
    const fk_direct_job *job = (const fk_direct_job *)(const void *)p[0];
    int64_t first = begin * FK_TILE_ELEMENTS, last = end * FK_TILE_ELEMENTS;
    char *at[FK_MAX_OPERANDS];
    if (last > job->numel) last = job->numel;
    for (int k = 0; k < job->it->nout + job->it->nin; k++)
        at[k] = job->it->data[k] + first * fk_itemsize[job->it->dtype[k]];
    if (p[1])
        fk_direct_send(job, at, s, last - first);
    else
        job->map(at, s, last - first);
}

FK_LOCAL void fk_direct_run(fk_map map, const fk_scalar *s, const fk_iter *it, int64_t numel) {
    if (numel <= FK_PARALLEL_ELEMENTS) {
        map(it->data, s, numel);
        return;
    }
    fk_direct_job job = {map, it, numel, {0}};
    char *p[2] = {(char *)&job, NULL};
    for (int k = 0; k < it->nout; k++) {
        job.stream[k] = (uint8_t)(!((uintptr_t)it->data[k] & 63) && fk_iter_streams(it, k, numel));
        if (job.stream[k]) p[1] = p[0];
    }
    fk_parallel(fk_direct_body, p, NULL, s, (numel + FK_TILE_ELEMENTS - 1) / FK_TILE_ELEMENTS,
        FK_PARALLEL_ELEMENTS / FK_TILE_ELEMENTS);
}

FK_LOCAL int fk_iter_is_direct(const fk_iter *it) {
    if (it->ndim > 1) return 0;
    for (int k = 0; k < it->nout + it->nin; k++)
        if (it->dtype[k] != it->compute[k] || it->stride[k][0] != fk_itemsize[it->dtype[k]])
            return 0;
    return 1;
}

/* ---- tiles ---- */

typedef struct fk_tiling {
    const fk_iter *it;
    fk_map map;        /* NULL: copy the input to the output */
    int inner, across; /* the dimensions of a tile: columns, rows (across < 0: none, one row) */
    int64_t length, height;          /* their sizes */
    int64_t columns, rows;           /* of a tile */
    int64_t column_tiles, row_tiles; /* along the two dimensions */
    int64_t row_step[FK_MAX_OPERANDS],
        column_step[FK_MAX_OPERANDS];    /* bytes from one element to the next */
    int outer[FK_MAX_DIMS], outer_count; /* the other dimensions, outermost first */
    int64_t tiles;
    int64_t capacity; /* elements that a tile can hold */
    int by_row;       /* the kernel is called for each row of a tile, which spares operands with
                         contiguous rows a copy */
    uint8_t in_place[FK_MAX_OPERANDS]; /* the operand's own memory serves as the tile */
    uint8_t stream[FK_MAX_OPERANDS];   /* an output that leaves its tile past the cache */
    fk_cast_fn cast[FK_MAX_OPERANDS];  /* NULL: same dtype */
} fk_tiling;

/* where a thread stands */
typedef struct fk_tile_cursor {
    int64_t column_tile, row_tile, index[FK_MAX_DIMS];
    char *base[FK_MAX_OPERANDS]; /* at the outer dimensions' index */
} fk_tile_cursor;

FK_LOCAL void fk_cursor_start(fk_tile_cursor *cursor, const fk_tiling *tiling, int64_t tile) {
    const fk_iter *it = tiling->it;
    int operands = it->nout + it->nin;
    cursor->column_tile = tile % tiling->column_tiles;
    tile /= tiling->column_tiles;
    cursor->row_tile = tile % tiling->row_tiles;
    tile /= tiling->row_tiles;
    for (int k = 0; k < operands; k++) cursor->base[k] = it->data[k];
    for (int i = tiling->outer_count - 1; i >= 0; i--) {
        int d = tiling->outer[i];
        cursor->index[i] = tile % it->shape[d];
        tile /= it->shape[d];
        for (int k = 0; k < operands; k++) cursor->base[k] += cursor->index[i] * it->stride[k][d];
    }
}

FK_LOCAL void fk_cursor_next(fk_tile_cursor *cursor, const fk_tiling *tiling) {
    const fk_iter *it = tiling->it;
    int operands = it->nout + it->nin;
    if (++cursor->column_tile < tiling->column_tiles) return;
    cursor->column_tile = 0;
    if (++cursor->row_tile < tiling->row_tiles) return;
    cursor->row_tile = 0;
    for (int i = tiling->outer_count - 1; i >= 0; i--) {
        int d = tiling->outer[i];
        int carry = ++cursor->index[i] == it->shape[d];
        int64_t back = carry ? it->shape[d] - 1 : -1;
        for (int k = 0; k < operands; k++) cursor->base[k] -= back * it->stride[k][d];
        if (!carry) return;
        cursor->index[i] = 0;
    }
}

/* the dimension along which a transposed operand is contiguous, or -1 */
FK_LOCAL int fk_transposed_dim(const fk_iter *it) {
    int inner = it->ndim - 1;
    if (it->shape[inner] < 4) return -1;
    for (int k = 0; k < it->nout + it->nin; k++) {
        int best = -1;
        int64_t least = it->stride[k][inner];
        if (least <= fk_itemsize[it->dtype[k]]) continue;
        for (int d = 0; d < inner; d++)
            if (it->stride[k][d] > 0 && it->stride[k][d] < least && it->shape[d] >= 4)
                best = d, least = it->stride[k][d];
        if (best >= 0) return best;
    }
    return -1;
}

/* the dimension that gives a tile its rows: the next one, or the longest where the next would make
 * tiny tiles */
FK_LOCAL int fk_row_dim(const fk_iter *it) {
    int inner = it->ndim - 1, across = inner - 1;
    if (across < 0 || it->shape[across] * it->shape[inner] >= 256) return across;
    for (int d = 0; d < inner; d++)
        if (it->shape[d] > it->shape[across]) across = d;
    return across;
}

/* fixes the tile's dimensions and size, and lays the grid out */
FK_LOCAL void fk_tiling_cut(fk_tiling *tiling, int across, int64_t rows, int64_t columns) {
    const fk_iter *it = tiling->it;
    int inner = it->ndim - 1;
    tiling->inner = inner;
    tiling->across = across;
    tiling->length = it->shape[inner];
    tiling->height = across >= 0 ? it->shape[across] : 1;
    tiling->columns = columns < tiling->length ? columns : tiling->length;
    tiling->rows = rows < tiling->height ? rows : tiling->height;
    tiling->column_tiles = (tiling->length + tiling->columns - 1) / tiling->columns;
    tiling->row_tiles = (tiling->height + tiling->rows - 1) / tiling->rows;
    tiling->tiles = tiling->column_tiles * tiling->row_tiles;
    tiling->outer_count = 0;
    for (int d = 0; d < inner; d++)
        if (d != across) {
            tiling->outer[tiling->outer_count++] = d;
            tiling->tiles *= it->shape[d];
        }
    for (int k = 0; k < it->nout + it->nin; k++) {
        tiling->column_step[k] = it->stride[k][inner];
        tiling->row_step[k] = across >= 0 ? it->stride[k][across] : 0;
    }
}

/* whether each operand's memory can serve as its tile */
FK_LOCAL void fk_tiling_place(fk_tiling *tiling, int may_stream) {
    const fk_iter *it = tiling->it;
    int64_t numel = fk_iter_numel(it);
    for (int k = 0; k < it->nout + it->nin; k++) {
        int64_t item = fk_itemsize[it->dtype[k]];
        int same = it->dtype[k] == it->compute[k];
        int row = tiling->column_step[k] == item || tiling->columns == 1;
        int block =
            tiling->rows == 1 ||
            (tiling->columns == tiling->length && tiling->row_step[k] == tiling->length * item) ||
            tiling->by_row;
        tiling->stream[k] = (uint8_t)(may_stream && row && same && fk_iter_streams(it, k, numel));
        tiling->in_place[k] = (uint8_t)(same && row && block && !tiling->stream[k]);
        int is_output = k < it->nout;
        int from = is_output ? it->compute[k] : it->dtype[k],
            to = is_output ? it->dtype[k] : it->compute[k];
        tiling->cast[k] = same ? NULL : fk_cast_get(from, to);
    }
}

/* how many elements of every operand fit the tile memory */
FK_LOCAL int64_t fk_tile_capacity(const fk_iter *it, int64_t most) {
    int64_t bytes = 0;
    for (int k = 0; k < it->nout + it->nin; k++) bytes += fk_itemsize[it->compute[k]];
    int64_t capacity = (FK_TILE_BYTES / bytes) & ~(int64_t)63;
    return capacity < most ? capacity : most;
}

/* Whether calling the kernel row by row needs no tile (1), and whether whole blocks would not
 * either, but for operands that are the same in every row (2). */
FK_LOCAL int fk_row_contiguity(const fk_iter *it, int across) {
    int inner = it->ndim - 1, result = across >= 0 ? 2 : 1;
    for (int k = 0; k < it->nout + it->nin; k++) {
        int64_t item = fk_itemsize[it->dtype[k]];
        if (it->dtype[k] != it->compute[k] || it->stride[k][inner] != item) return 0;
        if (across >= 0 && it->stride[k][across] != 0 &&
            it->stride[k][across] != it->shape[inner] * item)
            result = 1;
    }
    return result;
}

/* a transposed operand: tiles about as high as they are wide */
FK_LOCAL void fk_tiling_blocks(fk_tiling *tiling, int across) {
    const fk_iter *it = tiling->it;
    int64_t length = it->shape[it->ndim - 1], height = it->shape[across], edge = 64;
    tiling->capacity = fk_tile_capacity(it, FK_BLOCK_ELEMENTS);
    while (edge * edge > tiling->capacity) edge /= 2;
    int64_t columns = length < edge ? length : edge;
    int64_t rows = height < edge ? height : edge;
    if (columns < edge)
        rows = tiling->capacity / columns;
    else
        columns = tiling->capacity / rows;
    fk_tiling_cut(tiling, across, rows, columns);
    for (int k = 0; k < it->nout + it->nin && tiling->columns >= 32; k++)
        tiling->by_row |=
            it->dtype[k] == it->compute[k] && tiling->column_step[k] == fk_itemsize[it->dtype[k]];
    fk_tiling_place(tiling, !tiling->by_row);
}

/* otherwise: whole rows if they are long, else as many rows as a tile holds */
FK_LOCAL void fk_tiling_rows(fk_tiling *tiling) {
    const fk_iter *it = tiling->it;
    int64_t capacity = tiling->capacity = fk_tile_capacity(it, FK_TILE_ELEMENTS),
            length = it->shape[it->ndim - 1];
    int across = fk_row_dim(it), contiguity = fk_row_contiguity(it, across);
    int by_row = contiguity == 1 ? length >= 32 : length >= 512;
    if (by_row && contiguity) {
        fk_tiling_cut(tiling, across, 1, FK_COPY_ELEMENTS);
    } else if (by_row) {
        int64_t pieces = (length + capacity - 1) / capacity; /* of about the same size */
        fk_tiling_cut(tiling, across, 1, ((length + pieces - 1) / pieces + 15) & ~(int64_t)15);
    } else {
        fk_tiling_cut(tiling, across, capacity / (length < capacity ? length : capacity), capacity);
    }
    /* where nothing needs a tile, writing in place was measured faster than streaming */
    fk_tiling_place(tiling, contiguity == 0);
}

FK_LOCAL void fk_tiling_choose(fk_tiling *tiling) {
    int across = fk_transposed_dim(tiling->it);
    if (across >= 0)
        fk_tiling_blocks(tiling, across);
    else
        fk_tiling_rows(tiling);
}

/* ---- gather and scatter ---- */

/* a block of memory into a contiguous tile, cast if need be; `spare` holds a tile in the memory's
 * dtype */
FK_LOCAL void fk_gather(const fk_tiling *tiling, int k, const char *src, char *tile, char *spare,
    int64_t rows, int64_t columns) {
    const fk_iter *it = tiling->it;
    int item = fk_itemsize[it->dtype[k]], wide = fk_itemsize[it->compute[k]];
    int64_t row = tiling->row_step[k], column = tiling->column_step[k];
    fk_cast_fn cast = tiling->cast[k];
    if (!cast) {
        fk_copy_block(item, src, row, column, tile, columns * item, item, rows, columns);
    } else if (row == 0 && column == 0) {
        cast(src, spare, 1);
        fk_fill(wide, tile, spare, rows * columns);
    } else if (column == item && (rows == 1 || row == columns * item)) {
        cast(src, tile, rows * columns);
    } else if (column == item && columns >= 64) {
        for (int64_t r = 0; r < rows; r++) cast(src + r * row, tile + r * columns * wide, columns);
    } else {
        fk_copy_block(item, src, row, column, spare, columns * item, item, rows, columns);
        cast(spare, tile, rows * columns);
    }
}

FK_LOCAL void fk_scatter(const fk_tiling *tiling, int k, const char *tile, char *dst, char *spare,
    int64_t rows, int64_t columns) {
    const fk_iter *it = tiling->it;
    int item = fk_itemsize[it->dtype[k]], wide = fk_itemsize[it->compute[k]];
    int64_t row = tiling->row_step[k], column = tiling->column_step[k];
    fk_cast_fn cast = tiling->cast[k];
    if (tiling->stream[k]) {
        fk_copy_block_stream(item, tile, columns * item, item, dst, row, column, rows, columns);
    } else if (!cast) {
        fk_copy_block(item, tile, columns * item, item, dst, row, column, rows, columns);
    } else if (column == item && (rows == 1 || row == columns * item)) {
        cast(tile, dst, rows * columns);
    } else if (column == item && columns >= 64) {
        for (int64_t r = 0; r < rows; r++) cast(tile + r * columns * wide, dst + r * row, columns);
    } else {
        cast(tile, spare, rows * columns);
        fk_copy_block(item, spare, columns * item, item, dst, row, column, rows, columns);
    }
}

/* what an input's tile holds at the moment */
typedef struct fk_tile_content {
    const char *src;
    int64_t rows, columns;
} fk_tile_content;

FK_INLINE int fk_tile_holds(const fk_tiling *tiling, int k, const fk_tile_content *content,
    const char *src, int64_t rows, int64_t columns) {
    if (content->src != src) return 0;
    if (tiling->row_step[k] == 0 && tiling->column_step[k] == 0)
        return 1; /* was filled to the brim */
    if (columns == content->columns) return rows <= content->rows;
    return rows == 1 && content->rows == 1 && columns < content->columns;
}

FK_LOCAL char *fk_tile_input(const fk_tiling *tiling, int k, const char *src, char *tile,
    char *spare, fk_tile_content *content, int64_t rows, int64_t columns) {
    if (fk_tile_holds(tiling, k, content, src, rows, columns)) return tile;
    int everywhere = tiling->row_step[k] == 0 && tiling->column_step[k] == 0;
    if (everywhere) rows = tiling->rows, columns = tiling->columns;
    fk_gather(tiling, k, src, tile, spare, rows, columns);
    *content = (fk_tile_content){src, rows, columns};
    return tile;
}

/* the kernel on one tile, at once or row by row */
FK_LOCAL void fk_tile_call(
    const fk_tiling *tiling, char *const *use, const fk_scalar *s, int64_t rows, int64_t columns) {
    const fk_iter *it = tiling->it;
    int operands = it->nout + it->nin;
    char *at[FK_MAX_OPERANDS];
    int64_t step[FK_MAX_OPERANDS];
    if (!tiling->by_row) {
        tiling->map(use, s, rows * columns);
        return;
    }
    for (int k = 0; k < operands; k++) {
        at[k] = use[k];
        step[k] = tiling->in_place[k] ? tiling->row_step[k] : columns * fk_itemsize[it->compute[k]];
    }
    for (int64_t r = 0; r < rows; r++) {
        tiling->map(at, s, columns);
        for (int k = 0; k < operands; k++) at[k] += step[k];
    }
}

/* where the tiles lie in a thread's memory */
FK_LOCAL void fk_tile_layout(
    const fk_tiling *tiling, char *memory, char **tile, fk_tile_content *content) {
    const fk_iter *it = tiling->it;
    for (int k = 0; k < it->nout + it->nin; k++) {
        tile[k] = memory;
        memory += tiling->capacity * fk_itemsize[it->compute[k]];
        content[k].src = NULL;
    }
}

static void fk_tile_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n;
    const fk_tiling *tiling = (const fk_tiling *)(const void *)p[0];
    int nout = tiling->it->nout, operands = nout + tiling->it->nin;
    _Alignas(64) char memory[FK_TILE_BYTES], spare[FK_BLOCK_ELEMENTS * 16];
    char *tile[FK_MAX_OPERANDS], *at[FK_MAX_OPERANDS], *use[FK_MAX_OPERANDS];
    fk_tile_content content[FK_MAX_OPERANDS];
    fk_tile_cursor cursor;
    fk_tile_layout(tiling, memory, tile, content);
    fk_cursor_start(&cursor, tiling, begin);
    for (int64_t t = begin; t < end; t++, fk_cursor_next(&cursor, tiling)) {
        int64_t row = cursor.row_tile * tiling->rows, column = cursor.column_tile * tiling->columns;
        int64_t rows = tiling->height - row < tiling->rows ? tiling->height - row : tiling->rows;
        int64_t columns =
            tiling->length - column < tiling->columns ? tiling->length - column : tiling->columns;
        for (int k = 0; k < operands; k++) {
            at[k] = cursor.base[k] + row * tiling->row_step[k] + column * tiling->column_step[k];
            if (tiling->in_place[k])
                use[k] = at[k];
            else if (k < nout)
                use[k] = tile[k];
            else
                use[k] =
                    fk_tile_input(tiling, k, at[k], tile[k], spare, &content[k], rows, columns);
        }
        fk_tile_call(tiling, use, s, rows, columns);
        for (int k = 0; k < nout; k++)
            if (!tiling->in_place[k]) fk_scatter(tiling, k, tile[k], at[k], spare, rows, columns);
    }
    fk_stream_end();
}

FK_LOCAL void fk_tiling_run(fk_body body, const fk_tiling *tiling, const fk_scalar *s) {
    char *p[1] = {(char *)(uintptr_t)tiling};
    fk_parallel(
        body, p, NULL, s, tiling->tiles, FK_PARALLEL_ELEMENTS / (tiling->rows * tiling->columns));
}

/* Runs a map kernel over an iteration; `it` is prepared in place. */
FK_LOCAL void fk_map_run(fk_map map, const fk_scalar *s, fk_iter *it) {
    int64_t numel = fk_iter_numel(it);
    if (numel == 0) return;
    fk_iter_prepare(it);
    if (fk_iter_is_direct(it)) {
        fk_direct_run(map, s, it, numel);
        return;
    }
    fk_tiling tiling = {.it = it, .map = map};
    fk_tiling_choose(&tiling);
    fk_tiling_run(fk_tile_body, &tiling, s);
}
#endif
