/* Copies and fills of strided memory.
 *
 * Takes: an `fk_iter` of one output and, for a copy, one input.
 * Gives: `fk_copy_run` (any layout, any two dtypes) and `fk_fill_run`.
 * Keeps true: the two do not overlap, except that they may be the very same memory with the same
 * strides; `compute` is not looked at. */
#ifndef FK_COPY_H
#define FK_COPY_H
#include "fk_base.h"
#include "fk_iterate.h"

typedef struct {
    const fk_iter *it;
    fk_cast_fn cast; /* NULL: same dtype */
    int64_t numel;
    int stream;
} fk_copy_job;

/* through a tile on the stack, and from there past the cache */
FK_LOCAL void fk_cast_stream(
    fk_cast_fn cast, const char *src, int64_t in_item, char *dst, int64_t out_item, int64_t n) {
    _Alignas(64) char tile[FK_TILE_ELEMENTS * 16];
    for (int64_t done = 0; done < n; done += FK_TILE_ELEMENTS) {
        int64_t length = n - done < FK_TILE_ELEMENTS ? n - done : FK_TILE_ELEMENTS;
        cast(src + done * in_item, tile, length);
        fk_copy_stream(dst + done * out_item, tile, length * out_item);
    }
}

/* items are blocks of 1024 elements */
static void fk_copy_contiguous_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    const fk_copy_job *job = (const fk_copy_job *)(const void *)p[0];
    const fk_iter *it = job->it;
    int64_t first = begin * FK_TILE_ELEMENTS, last = end * FK_TILE_ELEMENTS;
    if (last > job->numel) last = job->numel;
    int64_t out_item = fk_itemsize[it->dtype[0]], in_item = fk_itemsize[it->dtype[1]];
    char *dst = it->data[0] + first * out_item;
    const char *src = it->data[1] + first * in_item;
    if (job->cast && job->stream)
        fk_cast_stream(job->cast, src, in_item, dst, out_item, last - first);
    else if (job->cast)
        job->cast(src, dst, last - first);
    else if (job->stream)
        fk_copy_stream(dst, src, (last - first) * out_item);
    else
        memcpy(dst, src, (size_t)((last - first) * out_item));
    fk_stream_end();
}

FK_LOCAL void fk_copy_contiguous(const fk_iter *it, fk_cast_fn cast, int64_t numel) {
    int64_t bytes = numel * fk_itemsize[it->dtype[0]];
    fk_copy_job job = {it, cast, numel, bytes >= fk_stream_bytes()};
    char *p[1] = {(char *)&job};
    fk_parallel(fk_copy_contiguous_body, p, NULL, NULL,
        (numel + FK_TILE_ELEMENTS - 1) / FK_TILE_ELEMENTS, FK_PARALLEL_ELEMENTS / FK_TILE_ELEMENTS);
}

typedef void (*fk_copy_fn)(int item, const char *src, int64_t src_row, int64_t src_column,
    char *dst, int64_t dst_row, int64_t dst_column, int64_t rows, int64_t columns);

/* memory to memory, no tile between */
static void fk_copy_same_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    const fk_tiling *tiling = (const fk_tiling *)(const void *)p[0];
    int item = fk_itemsize[tiling->it->dtype[0]];
    fk_copy_fn copy = tiling->stream[0] ? fk_copy_block_stream : fk_copy_block;
    fk_tile_cursor cursor;
    fk_cursor_start(&cursor, tiling, begin);
    for (int64_t t = begin; t < end; t++, fk_cursor_next(&cursor, tiling)) {
        int64_t row = cursor.row_tile * tiling->rows, column = cursor.column_tile * tiling->columns;
        int64_t rows = tiling->height - row < tiling->rows ? tiling->height - row : tiling->rows;
        int64_t columns =
            tiling->length - column < tiling->columns ? tiling->length - column : tiling->columns;
        char *dst = cursor.base[0] + row * tiling->row_step[0] + column * tiling->column_step[0];
        const char *src =
            cursor.base[1] + row * tiling->row_step[1] + column * tiling->column_step[1];
        copy(item, src, tiling->row_step[1], tiling->column_step[1], dst, tiling->row_step[0],
            tiling->column_step[0], rows, columns);
    }
    fk_stream_end();
}

FK_LOCAL void fk_copy_same(const fk_iter *it) {
    fk_tiling tiling = {.it = it};
    int64_t length = it->shape[it->ndim - 1];
    int across = fk_transposed_dim(it);
    tiling.stream[0] = (uint8_t)fk_iter_streams(it, 0, fk_iter_numel(it));
    if (across >= 0) {
        int64_t rows = 256, columns = 64;
        if (length < columns) rows = rows * columns / length;
        if (it->shape[across] < rows) columns = rows * columns / it->shape[across];
        fk_tiling_cut(&tiling, across, rows, columns);
    } else {
        int64_t columns = length < FK_COPY_ELEMENTS ? length : FK_COPY_ELEMENTS;
        fk_tiling_cut(&tiling, fk_row_dim(it), FK_COPY_ELEMENTS / columns, columns);
    }
    fk_tiling_run(fk_copy_same_body, &tiling, NULL);
}

/* a cast on the way: gathered straight into the output where its tiles are contiguous */
static void fk_copy_cast_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    const fk_tiling *tiling = (const fk_tiling *)(const void *)p[0];
    _Alignas(64) char memory[FK_TILE_BYTES], spare[FK_BLOCK_ELEMENTS * 16];
    fk_tile_cursor cursor;
    fk_cursor_start(&cursor, tiling, begin);
    for (int64_t t = begin; t < end; t++, fk_cursor_next(&cursor, tiling)) {
        int64_t row = cursor.row_tile * tiling->rows, column = cursor.column_tile * tiling->columns;
        int64_t rows = tiling->height - row < tiling->rows ? tiling->height - row : tiling->rows;
        int64_t columns =
            tiling->length - column < tiling->columns ? tiling->length - column : tiling->columns;
        char *dst = cursor.base[0] + row * tiling->row_step[0] + column * tiling->column_step[0];
        const char *src =
            cursor.base[1] + row * tiling->row_step[1] + column * tiling->column_step[1];
        char *tile = tiling->in_place[0] && !tiling->by_row ? dst : memory;
        fk_gather(tiling, 1, src, tile, spare, rows, columns);
        if (tile != dst) fk_scatter(tiling, 0, tile, dst, spare, rows, columns);
    }
}

/* Copies the input to the output, cast if the dtypes differ; `it` is prepared in place. */
FK_LOCAL void fk_copy_run(fk_iter *it) {
    int64_t numel = fk_iter_numel(it);
    if (numel == 0) return;
    fk_iter_prepare(it);
    int same = it->dtype[0] == it->dtype[1];
    if (same && it->data[0] == it->data[1] &&
        !memcmp(it->stride[0], it->stride[1], sizeof(int64_t) * (size_t)it->ndim))
        return;
    it->compute[0] = it->compute[1] = it->dtype[0];
    int contiguous = it->ndim == 1 && it->stride[0][0] == fk_itemsize[it->dtype[0]] &&
                     it->stride[1][0] == fk_itemsize[it->dtype[1]];
    if (contiguous) {
        fk_copy_contiguous(it, same ? NULL : fk_cast_get(it->dtype[1], it->dtype[0]), numel);
    } else if (same) {
        fk_copy_same(it);
    } else {
        fk_tiling tiling = {.it = it};
        fk_tiling_choose(&tiling);
        fk_tiling_run(fk_copy_cast_body, &tiling, NULL);
    }
}

/* Sets every element of the output to the value at `value`, which has the output's dtype. */
FK_LOCAL void fk_fill_run(fk_iter *it, const char *value) {
    it->nout = it->nin = 1;
    it->dtype[1] = it->dtype[0];
    it->data[1] = (char *)(uintptr_t)value;
    for (int d = 0; d < it->ndim; d++) it->stride[1][d] = 0;
    fk_copy_run(it);
}
#endif
