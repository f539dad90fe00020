"""The backward pass of scaled dot product attention, in the tiles of `attention`.

Takes: a `Flavour` (its vectors, products and masks are in the same translation unit).
Gives: C text of the driver `backward_<dtype>`; pointers and sizes are described in `attention`.
Keeps true: weights are computed again from the logsumexp, so memory stays linear in the sequence
length; products are in float or double; every sum has one owner and a fixed order. With enough
heads for the threads one pass over the tiles gives all gradients (five products a tile); otherwise
key blocks and query blocks are passes of their own (seven products), each owned by one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.codegen.c.kernels.movement.storage import fill

if TYPE_CHECKING:
    from facula.codegen.c.kernels.attention.attention_tile import Flavour

KEY_BLOCK = 64

_SLOT = """
/* one query head, prepared: transposed and row-wise copies in the compute type, padded to whole
 * vectors */
typedef struct {
    @COMPUTE@ *query_columns, *grad_columns, *query_rows, *grad_rows, *logsumexp, *delta,
        *grad_query;
} backward_head_@s@;

typedef struct {
    @COMPUTE@ *key_tile, *value_tile, *weights, *grad_scores, *bias, *keep, *grad_key, *grad_value;
} backward_slot_@s@;

#define TAKE(member, count) into->member = (@COMPUTE@ *)(base + at), at \
    += attention_round((count) * (int64_t)sizeof(@COMPUTE@), 64)
static int64_t backward_head_carve_@s@(const attention_problem *a, char *base,
    backward_head_@s@ *into)
{
    int64_t rows = a->blocks * @Q@, at = 0;
    TAKE(query_columns, rows * a->depth);
    TAKE(grad_columns, rows * a->value_depth);
    TAKE(query_rows, rows * attention_round(a->depth, @LANES@));
    TAKE(grad_rows, rows * attention_round(a->value_depth, @LANES@));
    TAKE(logsumexp, rows);
    TAKE(delta, rows);
    TAKE(grad_query, rows * a->depth);
    return at;
}

/* `keys` rows of key and value gradients: all of a head, or one block */
static int64_t backward_carve_@s@(const attention_problem *a, int64_t keys, char *base,
    backward_slot_@s@ *into)
{
    int64_t at = 0;
    TAKE(key_tile, @B@ * a->depth);
    TAKE(value_tile, @B@ * a->value_depth);
    TAKE(weights, @B@ * @Q@);
    TAKE(grad_scores, @B@ * @Q@);
    TAKE(bias, @B@ * @Q@);
    TAKE(keep, (@B@ + 4) * @Q@);
    TAKE(grad_key, keys * attention_round(a->depth, @LANES@));
    TAKE(grad_value, keys * attention_round(a->value_depth, @LANES@));
    return at;
}
#undef TAKE
"""

_PREPARE = """
/* rows [count][depth] of the storage type as padded rows and as columns [depth][@Q@] of the
 * compute type */
static void backward_copy_@s@(const @STORAGE@ *from, int64_t stride, int64_t count, int64_t depth,
    @COMPUTE@ *rows,
    @COMPUTE@ *columns)
{
    int64_t padded = attention_round(depth, @LANES@);
    memset(columns, 0, (size_t)(depth * @Q@) * sizeof(@COMPUTE@));
    for (int64_t row = 0; row < count; row++) {
        @COMPUTE@ *to = rows + row * padded;
        for (int64_t i = 0; i < depth; i++) to[i] = load_@s@(from[row * stride + i]);
        for (int64_t i = depth; i < padded; i++) to[i] = 0;
        for (int64_t i = 0; i < depth; i++) columns[i * @Q@ + row] = to[i];
    }
}

static void backward_prepare_@s@(const attention_problem *a, int64_t batch, int64_t head,
    int64_t block,
    const backward_head_@s@ *into)
{
    int64_t first = block * @Q@, count = a->queries - first < @Q@ ? a->queries - first : @Q@;
    int64_t grad_depth = attention_round(a->value_depth, @LANES@);
    const int64_t *out_stride = a->out_stride, *query_stride = a->query_stride, *grad_stride
        = a->grad_out_stride;
    const @STORAGE@ *query = (const @STORAGE@ *)a->query + batch * query_stride[0] + head
        * query_stride[1];
    const @STORAGE@ *grad = (const @STORAGE@ *)a->grad_out + batch * grad_stride[0] + head
        * grad_stride[1];
    const @STORAGE@ *out = (const @STORAGE@ *)a->out + batch * out_stride[0] + head * out_stride[1];
    const @COMPUTE@ *logsumexp = (const @COMPUTE@ *)a->logsumexp + (batch * a->heads + head)
        * a->queries;
    @COMPUTE@ *grad_rows = into->grad_rows + first * grad_depth;
    backward_copy_@s@(query + first * query_stride[2], query_stride[2], count, a->depth,
        into->query_rows + first * attention_round(a->depth, @LANES@), into->query_columns + first
            * a->depth);
    backward_copy_@s@(grad + first * grad_stride[2], grad_stride[2], count, a->value_depth,
        grad_rows,
        into->grad_columns + first * a->value_depth);
    memset(into->grad_query + first * a->depth, 0, (size_t)(a->depth * @Q@) * sizeof(@COMPUTE@));
    for (int64_t row = 0; row < @Q@; row++) {
        @COMPUTE@ sum = 0;
        if (row < count)
            for (int64_t i = 0; i < a->value_depth; i++)
                sum += grad_rows[row * grad_depth + i]
                    * load_@s@(out[(first + row) * out_stride[2] + i]);
        into->delta[first + row] = sum;
        into->logsumexp[first + row] = row < count
            ? logsumexp[first + row] * (@COMPUTE@)1.44269504088896340736 : (@COMPUTE@)INFINITY;
    }
}
"""

_TILE = """
static void backward_lanes_@s@(const attention_problem *a, int64_t batch, int64_t head,
    int64_t block, attention_lanes *lanes)
{
    int64_t first = block * @Q@, count = a->queries - first < @Q@ ? a->queries - first : @Q@;
    lanes->batch = batch, lanes->key_head = head / (a->heads / a->key_heads), lanes->count = count;
    lanes->width = attention_round(count, @LANES@), lanes->last_row = first + count - 1;
    for (int64_t lane = 0; lane < @Q@; lane++)
        lanes->head[lane] = head, lanes->row[lane] = first + (lane < count ? lane : count - 1);
}

/* weights and gradients of the scores, in place: weights become dropped weights, grad_scores from
 * those of the weights */
static void backward_scores_@s@(@COMPUTE@ *weights, @COMPUTE@ *grad_scores, const @COMPUTE@ *keep,
    int64_t count,
    int64_t width, @COMPUTE@ scale, const @COMPUTE@ *logsumexp, const @COMPUTE@ *delta)
{
    for (int64_t row = 0; row < count; row++)
        for (int64_t lane = 0; lane < width; lane += @LANES@) {
            int64_t at = row * @Q@ + lane;
            vector_@c@ weight = power_@c@(LOAD_@c@(weights + at) * scale
                - LOAD_@c@(logsumexp + lane));
            vector_@c@ grad = LOAD_@c@(grad_scores + at), dropped = weight;
            if (keep) {
                vector_@c@ kept = LOAD_@c@(keep + at);
                grad *= kept, dropped *= kept;
            }
            STORE_@c@(grad_scores + at, weight * (grad - LOAD_@c@(delta + lane)));
            STORE_@c@(weights + at, dropped);
        }
}

/* the tile of one key block (keys, values: compute type rows) and one query block; a null gradient
 * is not wanted */
static void backward_tile_@s@(const attention_problem *a, const backward_head_@s@ *head,
    const backward_slot_@s@ *slot,
    const attention_lanes *lanes, int64_t first_key, int64_t count, const @COMPUTE@ *keys,
        int64_t key_stride,
    const @COMPUTE@ *values, int64_t value_stride, @COMPUTE@ *grad_key, @COMPUTE@ *grad_value,
        @COMPUTE@ *grad_query)
{
    int64_t first = lanes->row[0], width = lanes->width;
    int64_t depth = attention_round(a->depth, @LANES@), value_depth
        = attention_round(a->value_depth, @LANES@);
    @COMPUTE@ scale = (@COMPUTE@)(a->scale * 1.44269504088896340736);
    product_@c@(keys, key_stride, 1, head->query_columns + first * a->depth, @Q@, slot->weights,
        @Q@, count, a->depth, width, 0);
    if (a->mask_kind || (a->causal && first_key + count - 1 > first)) {
        biased_@s@(a, lanes, first_key, count, scale, slot->weights, slot->bias);
        scale = 1;
    }
    product_@c@(values, value_stride, 1, head->grad_columns + first * a->value_depth, @Q@,
        slot->grad_scores, @Q@, count,
        a->value_depth, width, 0);
    if (a->dropout > 0) keep_@s@(a, lanes, first_key, count, slot->keep);
    backward_scores_@s@(slot->weights, slot->grad_scores, a->dropout > 0 ? slot->keep : 0, count,
        width, scale,
        head->logsumexp + first, head->delta + first);
    if (grad_value)
        product_@c@(slot->weights, @Q@, 1, head->grad_rows + first * value_depth, value_depth,
            grad_value, value_depth, count,
            lanes->count, value_depth, 1);
    if (grad_key)
        product_@c@(slot->grad_scores, @Q@, 1, head->query_rows + first * depth, depth, grad_key,
            depth, count, lanes->count,
            depth, 1);
    if (grad_query)
        product_@c@(keys, 1, key_stride, slot->grad_scores, @Q@, grad_query, @Q@, a->depth, count,
            width, 1);
    if (grad_query && a->grad_scores) {
        @COMPUTE@ *to = (@COMPUTE@ *)a->grad_scores
            + ((lanes->batch * a->heads + lanes->head[0]) * a->queries + first) * a->keys
                + first_key;
        for (int64_t lane = 0; lane < lanes->count; lane++)
            for (int64_t key = 0; key < count; key++) to[lane * a->keys + key]
                = slot->grad_scores[key * @Q@ + lane];
    }
}
"""

_LOOPS = """
static void backward_store_@s@(@STORAGE@ *to, int64_t stride, const @COMPUTE@ *from,
    int64_t row_stride,
    int64_t depth_stride, int64_t rows, int64_t depth, @COMPUTE@ scale)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < depth; i++)
            to[row * stride + i] = store_@s@(from[row * row_stride + i * depth_stride] * scale);
}

/* all query blocks of one head that see a key block; `with_query` adds to the query gradient too */
static void backward_key_block_@s@(const attention_problem *a, const backward_head_@s@ *head,
    const backward_slot_@s@ *slot,
    int64_t batch, int64_t head_index, int64_t first_key, @COMPUTE@ *grad_key,
        @COMPUTE@ *grad_value, int with_query)
{
    attention_lanes lanes;
    int64_t key_head = head_index / (a->heads / a->key_heads), key_stride, value_stride;
    int64_t count = a->keys - first_key < @B@ ? a->keys - first_key : @B@;
    const @COMPUTE@ *keys = tile_rows_@s@((const @STORAGE@ *)a->key + batch * a->key_stride[0]
        + key_head * a->key_stride[1]
        + first_key * a->key_stride[2], a->key_stride[2], count, a->depth, slot->key_tile,
            &key_stride);
    const @COMPUTE@ *values = tile_rows_@s@((const @STORAGE@ *)a->value + batch * a->value_stride[0]
        + key_head * a->value_stride[1] + first_key * a->value_stride[2], a->value_stride[2],
            count, a->value_depth,
        slot->value_tile, &value_stride);
    for (int64_t block = a->causal ? first_key / @Q@ : 0; block < a->blocks; block++) {
        backward_lanes_@s@(a, batch, head_index, block, &lanes);
        backward_tile_@s@(a, head, slot, &lanes, first_key, count, keys, key_stride, values,
            value_stride, grad_key,
            grad_value, with_query ? head->grad_query + block * @Q@ * a->depth : 0);
    }
}

static void backward_query_block_@s@(const attention_problem *a, const backward_head_@s@ *head,
    const backward_slot_@s@ *slot, int64_t batch, int64_t head_index, int64_t block)
{
    attention_lanes lanes;
    int64_t key_head = head_index / (a->heads / a->key_heads), key_stride, value_stride;
    backward_lanes_@s@(a, batch, head_index, block, &lanes);
    int64_t end = a->causal && lanes.last_row + 1 < a->keys ? lanes.last_row + 1 : a->keys;
    for (int64_t first = 0; first < end; first += @B@) {
        int64_t count = end - first < @B@ ? end - first : @B@;
        const @COMPUTE@ *keys = tile_rows_@s@((const @STORAGE@ *)a->key + batch * a->key_stride[0]
            + key_head * a->key_stride[1] + first * a->key_stride[2], a->key_stride[2], count,
                a->depth, slot->key_tile, &key_stride);
        const @COMPUTE@ *values = tile_rows_@s@((const @STORAGE@ *)a->value + batch
            * a->value_stride[0]
            + key_head * a->value_stride[1] + first * a->value_stride[2], a->value_stride[2],
                count, a->value_depth,
            slot->value_tile, &value_stride);
        backward_tile_@s@(a, head, slot, &lanes, first, count, keys, key_stride, values,
            value_stride, 0, 0,
            head->grad_query + block * @Q@ * a->depth);
    }
}

static void backward_store_query_@s@(const attention_problem *a, const backward_head_@s@ *head,
    int64_t batch,
    int64_t head_index, int64_t block)
{
    const int64_t *stride = a->grad_query_stride;
    int64_t first = block * @Q@, count = a->queries - first < @Q@ ? a->queries - first : @Q@;
    backward_store_@s@((@STORAGE@ *)a->grad_query + batch * stride[0] + head_index * stride[1]
        + first * stride[2],
        stride[2], head->grad_query + first * a->depth, 1, @Q@, count, a->depth,
            (@COMPUTE@)a->scale);
}

static void backward_store_keys_@s@(const attention_problem *a, const backward_slot_@s@ *slot,
    int64_t batch,
    int64_t key_head, int64_t first, int64_t count)
{
    const int64_t *key = a->grad_key_stride, *value = a->grad_value_stride;
    backward_store_@s@((@STORAGE@ *)a->grad_key + batch * key[0] + key_head * key[1] + first
        * key[2], key[2],
        slot->grad_key, attention_round(a->depth, @LANES@), 1, count, a->depth,
            (@COMPUTE@)a->scale);
    backward_store_@s@((@STORAGE@ *)a->grad_value + batch * value[0] + key_head * value[1] + first
        * value[2], value[2],
        slot->grad_value, attention_round(a->value_depth, @LANES@), 1, count, a->value_depth, 1);
}

static void backward_clear_@s@(const attention_problem *a, const backward_slot_@s@ *slot,
    int64_t keys)
{
    memset(slot->grad_key, 0, (size_t)(keys * attention_round(a->depth, @LANES@))
        * sizeof(@COMPUTE@));
    memset(slot->grad_value, 0, (size_t)(keys * attention_round(a->value_depth, @LANES@))
        * sizeof(@COMPUTE@));
}
"""

_DRIVER = """
/* one pass: an item is a key head with all query heads that share it */
static void backward_fused_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    attention_problem *a = (attention_problem *)p[0];
    int64_t group = a->heads / a->key_heads, depth = attention_round(a->depth, @LANES@);
    int64_t value_depth = attention_round(a->value_depth, @LANES@);
    for (int64_t index = begin; index < end; index++) {
        backward_slot_@s@ slot;
        backward_head_@s@ head;
        char *scratch = a->scratch + index * a->slot_bytes;
        scratch += backward_carve_@s@(a, a->keys, scratch, &slot);
        backward_head_carve_@s@(a, scratch, &head);
        for (int64_t item; (item = __atomic_fetch_add(&a->next, 1, __ATOMIC_RELAXED)) < a->items;) {
            int64_t batch = item / a->key_heads, key_head = item % a->key_heads;
            backward_clear_@s@(a, &slot, a->keys);
            for (int64_t h = key_head * group; h < (key_head + 1) * group; h++) {
                for (int64_t block = 0; block < a->blocks; block++)
                    backward_prepare_@s@(a, batch, h, block, &head);
                for (int64_t first = 0; first < a->keys; first += @B@)
                    backward_key_block_@s@(a, &head, &slot, batch, h, first, slot.grad_key + first
                        * depth,
                        slot.grad_value + first * value_depth, 1);
                for (int64_t block = 0; block < a->blocks; block++)
                    backward_store_query_@s@(a, &head, batch, h, block);
            }
            backward_store_keys_@s@(a, &slot, batch, key_head, 0, a->keys);
        }
    }
}

static void backward_prepared_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    attention_problem *a = (attention_problem *)p[0];
    for (int64_t item = begin; item < end; item++) {
        backward_head_@s@ head;
        int64_t index = item / a->blocks, bytes = backward_head_carve_@s@(a, 0, &head);
        backward_head_carve_@s@(a, a->prepared + index * bytes, &head);
        backward_prepare_@s@(a, index / a->heads, index % a->heads, item % a->blocks, &head);
    }
}

/* two passes: items are key blocks, and then query blocks (a->units tells the pass) */
static void backward_split_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    attention_problem *a = (attention_problem *)p[0];
    backward_head_@s@ head;
    int64_t group = a->heads / a->key_heads, bytes = backward_head_carve_@s@(a, 0, &head);
    int64_t key_blocks = (a->keys + @B@ - 1) / @B@;
    for (int64_t index = begin; index < end; index++) {
        backward_slot_@s@ slot;
        backward_carve_@s@(a, @B@, a->scratch + index * a->slot_bytes, &slot);
        for (int64_t item; (item = __atomic_fetch_add(&a->next, 1, __ATOMIC_RELAXED)) < a->items;) {
            if (a->units) {
                int64_t unit = item / key_blocks, first = item % key_blocks * @B@;
                int64_t batch = unit / a->key_heads, key_head = unit % a->key_heads;
                backward_clear_@s@(a, &slot, @B@);
                for (int64_t h = key_head * group; h < (key_head + 1) * group; h++) {
                    backward_head_carve_@s@(a, a->prepared + (batch * a->heads + h) * bytes, &head);
                    backward_key_block_@s@(a, &head, &slot, batch, h, first, slot.grad_key,
                        slot.grad_value, 0);
                }
                backward_store_keys_@s@(a, &slot, batch, key_head, first, a->keys - first < @B@
                    ? a->keys - first : @B@);
            } else {
                int64_t unit = item / a->blocks, block = a->blocks - 1 - item % a->blocks;
                int64_t batch = unit / a->heads, h = unit % a->heads;
                backward_head_carve_@s@(a, a->prepared + unit * bytes, &head);
                backward_query_block_@s@(a, &head, &slot, batch, h, block);
                backward_store_query_@s@(a, &head, batch, h, block);
            }
        }
    }
}

static int backward_run_split_@s@(attention_problem *a, const int64_t *n, const fk_scalar *s,
    const fk_runtime *rt)
{
    backward_slot_@s@ slot;
    backward_head_@s@ head;
    char *problem[1] = {(char *)a};
    int64_t heads = a->batch * a->heads, threads = rt->threads();
    a->slot_bytes = backward_carve_@s@(a, @B@, 0, &slot);
    int64_t prepared = heads * backward_head_carve_@s@(a, 0, &head);
    if (!(a->prepared = rt->scratch(prepared + threads * a->slot_bytes))) return 1;
    a->scratch = a->prepared + prepared;
    rt->parallel(backward_prepared_@s@, problem, n, s, heads * a->blocks, 1);
    a->units = 1, a->next = 0, a->items = a->batch * a->key_heads * ((a->keys + @B@ - 1) / @B@);
    rt->parallel(backward_split_@s@, problem, n, s, a->items < threads ? a->items : threads, 1);
    a->units = 0, a->next = 0, a->items = heads * a->blocks;
    rt->parallel(backward_split_@s@, problem, n, s, a->items < threads ? a->items : threads, 1);
    rt->release(a->prepared);
    return 0;
}

static int backward_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    attention_problem a = {.grad_query = p[0], .grad_key = p[1], .grad_value = p[2], .grad_scores
        = p[3], .grad_out = p[4],
        .query = p[5], .key = p[6], .value = p[7], .out = p[8], .logsumexp = p[9], .mask = p[10]};
    backward_slot_@s@ slot;
    backward_head_@s@ head;
    attention_sizes(&a, n, s);
    a.grad_out_stride = n + 25, a.grad_query_stride = n + 28, a.grad_key_stride = n + 31,
        a.grad_value_stride = n + 34;
    a.blocks = (a.queries + @Q@ - 1) / @Q@, a.items = a.batch * a.key_heads;
    if (a.grad_scores) memset(a.grad_scores, 0, (size_t)(a.batch * a.heads * a.queries * a.keys)
        * sizeof(@COMPUTE@));
    if (!a.items) return 0;
    int64_t threads = rt->threads(), waves = (a.items + threads - 1) / threads;
    if (a.items * 7 < waves * threads * 5) return backward_run_split_@s@(&a, n, s, rt);
    int64_t slots = a.items < threads ? a.items : threads;
    a.slot_bytes = backward_carve_@s@(&a, a.keys, 0, &slot) + backward_head_carve_@s@(&a, 0, &head);
    if (!(a.scratch = rt->scratch(slots * a.slot_bytes))) return 1;
    char *problem[1] = {(char *)&a};
    rt->parallel(backward_fused_@s@, problem, n, s, slots, 1);
    rt->release(a.scratch);
    return 0;
}
"""

_ROWS = """
static const @COMPUTE@ *tile_rows_@s@(const @STORAGE@ *source, int64_t stride, int64_t count,
    int64_t depth,
    @COMPUTE@ *tile, int64_t *tile_stride)
{
    for (int64_t row = 0; row < count; row++)
        for (int64_t i = 0; i < depth; i++) tile[row * depth + i]
            = load_@s@(source[row * stride + i]);
    *tile_stride = depth;
    return tile;
}
"""


def text(flavour: Flavour) -> str:
    """C text of the backward driver of one dtype; products are those of the compute type."""
    names = {**flavour.names, "B": KEY_BLOCK}
    parts = [_ROWS, _SLOT, _PREPARE, _TILE, _LOOPS, _DRIVER]
    return "".join(fill(part, **names) for part in parts)
