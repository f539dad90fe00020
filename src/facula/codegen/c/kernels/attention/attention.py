"""Scaled dot product attention: tiled online softmax, memory linear in the sequence length.

Takes: query [B, H, Sq, D], key [B, Hkv, Sk, D], value [B, Hkv, Sk, Dv] (H a multiple of Hkv), any
batch, head and sequence strides, unit last stride; an additive or bool mask by strides (zero where
broadcast); causal from the upper left.
Gives: drivers `attention:<dtype>`, `attention.grad:<dtype>` for f32, f64, bf16, f16 (see below).
Keeps true: scores stand transposed, [keys][64 queries], so that a maximum, an exponential and a
rescaling work on whole vectors of queries, and keys and values are read in place; sums are in the
compute type; a query without an allowed key gives zeros; results do not depend on the number of
threads; dropout of a score depends on seed, offset and its index alone.

Forward   p: out, logsumexp [B, H, Sq], query, key, value, mask or null
Backward  p: grad_query, grad_key, grad_value, grad_scores or null, grad_out, query, key, value,
          out, logsumexp, mask or null
          grad_scores is contiguous [B, H, Sq, Sk] in the compute type
n: 0 B, 1 H, 2 Hkv, 3 Sq, 4 Sk, 5 D, 6 Dv, 7 causal,
   8 mask kind (0 none, 1 bool, 2 compute type, 3 storage type), 9..12 mask strides (B, H, Sq, Sk),
   then strides (batch, head, row) of 13 query, 16 key, 19 value, 22 out,
   and for the backward 25 grad_out, 28 grad_query, 31 grad_key, 34 grad_value
s: scale (f), dropout probability (f), seed (i), offset (i)
logsumexp is natural, in the compute type, +inf for a query without an allowed key.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.attention import attention_backward, attention_tile
from facula.codegen.c.kernels.attention.attention_tile import QUERY_BLOCK, Flavour
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, conversions, fill

DTYPES = ("f32", "f64", "bf16", "f16")

_PROBLEM = """
#include <math.h>
#define UNROLL _Pragma("GCC unroll 16")
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    char *out, *logsumexp, *query, *key, *value, *mask;
    char *grad_out, *grad_query, *grad_key, *grad_value, *grad_scores;
    int64_t batch, heads, key_heads, queries, keys, depth, value_depth, causal, mask_kind;
    const int64_t *mask_stride, *query_stride, *key_stride, *value_stride, *out_stride;
    const int64_t *grad_out_stride, *grad_query_stride, *grad_key_stride, *grad_value_stride;
    double scale, dropout;
    uint64_t seed, offset;
    int64_t units, unit_rows, blocks, items, next, slot_bytes;
    char *scratch, *prepared;
} attention_problem;

/* the queries of one block: which head and row stands in each lane; lanes from `count` to `width`
 * are padding */
typedef struct {
    int64_t batch, key_head, count, width, last_row;
    int64_t head[@Q@], row[@Q@];
} attention_lanes;

static int64_t attention_round(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static void attention_sizes(attention_problem *a, const int64_t *n, const fk_scalar *s)
{
    a->batch = n[0], a->heads = n[1], a->key_heads = n[2], a->queries = n[3], a->keys = n[4];
    a->depth = n[5], a->value_depth = n[6], a->causal = n[7], a->mask_kind = n[8];
    a->mask_stride = n + 9, a->query_stride = n + 13, a->key_stride = n + 16, a->value_stride = n
        + 19;
    a->out_stride = n + 22;
    a->scale = s[0].f, a->dropout = s[1].f, a->seed = (uint64_t)s[2].i, a->offset
        = (uint64_t)s[3].i;
    a->next = 0;
}

/* few queries: the heads that share a key head fill one block together; many: a block stays within
 * a head */
static void attention_units(attention_problem *a)
{
    int64_t group = a->heads / a->key_heads;
    int together = a->queries < @Q@;
    a->units = a->batch * (together ? a->key_heads : a->heads);
    a->unit_rows = together ? a->queries * group : a->queries;
    a->blocks = (a->unit_rows + @Q@ - 1) / @Q@;
    a->items = a->units * a->blocks;
}

static void attention_select(const attention_problem *a, int64_t item, attention_lanes *lanes)
{
    int64_t unit = item / a->blocks, block = a->blocks - 1 - item % a->blocks;
    /* causal: the longest first */
    int64_t group = a->heads / a->key_heads, units = a->units / a->batch;
    int64_t first = block * @Q@, count = a->unit_rows - first < @Q@ ? a->unit_rows - first : @Q@;
    int64_t head = units == a->heads ? unit % units : unit % units * group;
    lanes->batch = unit / units, lanes->key_head = head / group, lanes->count = count,
        lanes->last_row = 0;
    for (int64_t lane = 0; lane < @Q@; lane++) {
        int64_t index = first + (lane < count ? lane : count - 1);
        lanes->head[lane] = head + index / a->queries, lanes->row[lane] = index % a->queries;
        if (lanes->row[lane] > lanes->last_row) lanes->last_row = lanes->row[lane];
    }
}

/* Philox 4x32-10 for four consecutive keys of each lane; u in [0, 1) from the upper 24 bits of
 * each word */
static void attention_uniform(uint64_t seed, uint64_t offset, const uint64_t *counter,
    uint64_t step, float *u)
{
    for (int lane = 0; lane < @Q@; lane++) {
        uint32_t c0 = (uint32_t)(counter[lane] + step), c1
            = (uint32_t)((counter[lane] + step) >> 32);
        uint32_t c2 = (uint32_t)offset, c3 = (uint32_t)(offset >> 32);
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t first = (uint64_t)c0 * 0xD2511F53u, second = (uint64_t)c2 * 0xCD9E8D57u;
            c0 = (uint32_t)(second >> 32) ^ c1 ^ k0, c1 = (uint32_t)second;
            c2 = (uint32_t)(first >> 32) ^ c3 ^ k1, c3 = (uint32_t)first;
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        u[lane] = (float)(int32_t)(c0 >> 8) * 0x1p-24f, u[@Q@ + lane] = (float)(int32_t)(c1 >> 8)
            * 0x1p-24f;
        u[2 * @Q@ + lane] = (float)(int32_t)(c2 >> 8) * 0x1p-24f;
        u[3 * @Q@ + lane] = (float)(int32_t)(c3 >> 8) * 0x1p-24f;
    }
}
"""

_OPERANDS = {
    # keys are rows [count][depth]; values are rows, or pairs of rows for the bf16 dot product
    "direct": """
ALWAYS_INLINE const @ELEMENT@ *rows_@s@(const @STORAGE@ *source, int64_t stride, int64_t count,
    int64_t depth,
    @ELEMENT@ *tile, int64_t *tile_stride)
{
    if (stride <= 2 * depth) {
        *tile_stride = stride;
        return source;
    }
    for (int64_t row = 0; row < count; row++) /* far apart rows would share few cache sets */
        memcpy(tile + row * depth, source + row * stride, (size_t)depth * sizeof(@ELEMENT@));
    *tile_stride = depth;
    return tile;
}
#define values_@s@ rows_@s@
""",
    "convert": """
static const @ELEMENT@ *rows_@s@(const @STORAGE@ *source, int64_t stride, int64_t count,
    int64_t depth,
    @ELEMENT@ *tile, int64_t *tile_stride)
{
    for (int64_t row = 0; row < count; row++) {
        const @STORAGE@ *from = source + row * stride;
        @ELEMENT@ *to = tile + row * depth;
        _Pragma("omp simd") for (int64_t i = 0; i < depth; i++) to[i] = load_@s@(from[i]);
    }
    *tile_stride = depth;
    return tile;
}
#define values_@s@ rows_@s@
""",
    "pairs": """
ALWAYS_INLINE const @ELEMENT@ *rows_@s@(const @STORAGE@ *source, int64_t stride, int64_t count,
    int64_t depth,
    @ELEMENT@ *tile, int64_t *tile_stride)
{
    if (depth % 2 == 0 && stride <= 2 * depth) {
        *tile_stride = stride;
        return source;
    }
    int64_t padded = depth + depth % 2;
    for (int64_t row = 0; row < count; row++) {
        memcpy(tile + row * padded, source + row * stride, (size_t)depth * sizeof(@ELEMENT@));
        if (padded > depth) tile[row * padded + depth] = 0;
    }
    *tile_stride = padded;
    return tile;
}
static const @ELEMENT@ *values_@s@(const @STORAGE@ *source, int64_t stride, int64_t count,
    int64_t depth,
    @ELEMENT@ *tile, int64_t *tile_stride)
{
    for (int64_t row = 0; row < count; row += 2) {
        const @STORAGE@ *even = source + row * stride, *odd = even + stride;
        @ELEMENT@ *to = tile + row * depth;
        if (row + 1 < count) {
            for (int64_t i = 0; i < depth; i++) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
        } else {
            for (int64_t i = 0; i < depth; i++) to[2 * i] = even[i], to[2 * i + 1] = 0;
        }
    }
    *tile_stride = 2 * depth;
    return tile;
}
""",
}

_QUERIES = """
/* where the row of each of the @LANES@ lanes from `first` on begins; padding lanes repeat the last */
static void lane_rows_@s@(const char *base, const int64_t *stride, const attention_lanes *lanes,
    int64_t first, @STORAGE@ **rows)
{
    for (int64_t lane = 0; lane < @LANES@; lane++)
        rows[lane] = (@STORAGE@ *)base + lanes->batch * stride[0]
            + lanes->head[first + lane] * stride[1] + lanes->row[first + lane] * stride[2];
}

/* columns[depth / pair][@Q@][pair]: one lane per query, padding lanes and an odd last depth are
 * zero */
static void columns_@s@(const char *base, const int64_t *stride, const attention_lanes *lanes,
    int64_t depth, @ELEMENT@ *columns)
{
    int64_t padded = attention_round(depth, @PAIR@);
    for (int64_t first = 0; first < lanes->width; first += @LANES@) {
        int64_t count = lanes->count - first, i = 0;
        @STORAGE@ *from[@LANES@];
        lane_rows_@s@(base, stride, lanes, first, from);
        for (; i + @LANES@ * @PAIR@ <= depth; i += @LANES@ * @PAIR@) {
            vector_@s@ m[@LANES@];
            UNROLL for (int lane = 0; lane < @LANES@; lane++)
                m[lane] = lane < count ? cells_@s@(from[lane] + i) : (vector_@s@){};
            transpose_@s@(m);
            UNROLL for (int row = 0; row < @LANES@; row++)
                STORE_@s@(columns + ((i / @PAIR@ + row) * @Q@ + first) * @PAIR@, m[row]);
        }
        for (int64_t lane = 0; lane < @LANES@; lane++)
            for (int64_t at = i; at < padded; at++)
                columns[(at / @PAIR@ * @Q@ + first + lane) * @PAIR@ + at % @PAIR@]
                    = lane < count && at < depth ? @GET@(from[lane][at]) : 0;
    }
}
"""

_MASK_ROWS = """
static void mask_rows_@s@_@KIND@(const attention_problem *a, const int64_t *base, int64_t first,
    int64_t count,
    int64_t width, @COMPUTE@ *bias)
{
    const @MASK@ *mask = (const @MASK@ *)a->mask;
    int64_t step = a->mask_stride[3];
    int same = 1;
    /* speed only: each lane may look up its own */
    for (int64_t lane = 1; lane < width; lane++) same &= base[lane] == base[0]; /* speed only */
    if (same) {
        for (int64_t row = 0; row < count; row++) {
            @MASK@ entry = mask[base[0] + (first + row) * step];
            @COMPUTE@ value = @VALUE@;
            for (int64_t lane = 0; lane < width; lane++) bias[row * @Q@ + lane] = value;
        }
        return;
    }
    for (int64_t lane = 0; lane < width; lane++)
        for (int64_t row = 0; row < count; row++) {
            @MASK@ entry = mask[base[lane] + (first + row) * step];
            bias[row * @Q@ + lane] = @VALUE@;
        }
}
"""

_BIAS = """
/* scores times scale plus mask, -inf beyond the causal limit, in place; bias holds the mask tile
 * (base 2 logarithm) */
static void biased_@s@(const attention_problem *a, const attention_lanes *lanes, int64_t first,
    int64_t count,
    @COMPUTE@ scale, @COMPUTE@ *scores, @COMPUTE@ *bias)
{
    int64_t base[@Q@], width = lanes->width;
    @INTEGER@ limit[@Q@];
    for (int64_t lane = 0; lane < @Q@; lane++) {
        base[lane] = lanes->batch * a->mask_stride[0] + lanes->head[lane] * a->mask_stride[1]
            + lanes->row[lane] * a->mask_stride[2];
        limit[lane] = (@INTEGER@)(a->causal ? lanes->row[lane] - first : count);
    }
    if (a->mask_kind == 1) mask_rows_@s@_1(a, base, first, count, width, bias);
    if (a->mask_kind == 2) mask_rows_@s@_2(a, base, first, count, width, bias);
    if (a->mask_kind == 3) mask_rows_@s@_3(a, base, first, count, width, bias);
    for (int64_t row = 0; row < count; row++) {
        @COMPUTE@ *score = scores + row * @Q@;
        const @COMPUTE@ *added = bias + row * @Q@;
        if (a->mask_kind) {
            _Pragma("omp simd") for (int64_t lane = 0; lane < width; lane++) score[lane]
                = score[lane] * scale + added[lane];
        } else {
            _Pragma("omp simd") for (int64_t lane = 0; lane < width; lane++) score[lane] *= scale;
        }
        _Pragma("omp simd") for (int64_t lane = 0; lane < width; lane++)
            score[lane] = (@INTEGER@)row > limit[lane] ? (@COMPUTE@)-INFINITY : score[lane];
    }
}

/* keep[count][@Q@]: 1 / (1 - p) where a score is kept, 0 where it is dropped */
static void keep_@s@(const attention_problem *a, const attention_lanes *lanes, int64_t first,
    int64_t count,
    @COMPUTE@ *keep)
{
    uint64_t counter[@Q@];
    float uniform[4 * @Q@], probability = (float)a->dropout;
    @COMPUTE@ kept = (@COMPUTE@)(a->dropout < 1.0 ? 1.0 / (1.0 - a->dropout) : 0.0);
    uint64_t groups = (uint64_t)(a->keys + 3) / 4;
    for (int64_t lane = 0; lane < @Q@; lane++)
        counter[lane] = groups * (uint64_t)((lanes->batch * a->heads + lanes->head[lane])
            * a->queries + lanes->row[lane]);
    for (int64_t row = 0; row < count; row += 4) {
        attention_uniform(a->seed, a->offset, counter, (uint64_t)(first + row) / 4, uniform);
        int64_t end = count - row < 4 ? count - row : 4;
        for (int64_t i = 0; i < end * @Q@; i++)
            keep[row * @Q@ + i] = uniform[i] >= probability && a->dropout < 1.0 ? kept : 0;
    }
}
"""

_SOFTMAX = """
/* one key block of the online softmax, scale > 0: scores [count][@Q@] become weights relative to
 * the new maximum; ratio rescales
 * what was summed before.  An odd count gets a zero row for the pairs. */
static int softmax_@s@(@COMPUTE@ *scores, @ELEMENT@ *weights, const @COMPUTE@ *keep,
    int64_t count, int64_t width,
    @COMPUTE@ scale, @COMPUTE@ *maximum, @COMPUTE@ *total, @COMPUTE@ *ratio)
{
    int rescale = 0;
    for (int64_t lane = 0; lane < width; lane += @LANES@) {
        const @COMPUTE@ *column = scores + lane;
        vector_@s@ before = LOAD_@s@(maximum + lane), first = splat_@s@(-INFINITY), second
            = first, third = first, fourth = first;
        int64_t row = 0;
        for (; row + 4 <= count; row += 4) {
            first = larger_@s@(LOAD_@s@(column + row * @Q@), first);
            second = larger_@s@(LOAD_@s@(column + (row + 1) * @Q@), second);
            third = larger_@s@(LOAD_@s@(column + (row + 2) * @Q@), third);
            fourth = larger_@s@(LOAD_@s@(column + (row + 3) * @Q@), fourth);
        }
        for (; row < count; row++) first = larger_@s@(LOAD_@s@(column + row * @Q@), first);
        vector_@s@ now = larger_@s@(larger_@s@(larger_@s@(first, second),
            larger_@s@(third, fourth)) * scale, before);
        vector_@s@ finite = (vector_@s@)((integer_@s@)now & (now > -INFINITY));
        /* nothing allowed yet: subtract zero */
        vector_@s@ factor = power_@s@(before - finite), sum = LOAD_@s@(total + lane) * factor,
            other = {};
        integer_@s@ moved = before != now;
        for (int i = 0; i < @LANES@; i++) rescale |= moved[i] != 0;
        STORE_@s@(maximum + lane, now);
        STORE_@s@(ratio + lane, factor);
@WEIGHTS@
        STORE_@s@(total + lane, sum + other);
    }
    return rescale;
}
"""

_WEIGHTS = {
    False: """        (void)weights;
        for (row = 0; row + 2 <= count; row += 2) {
            vector_@s@ even = power_@s@(LOAD_@s@(column + row * @Q@) * scale - finite);
            vector_@s@ odd = power_@s@(LOAD_@s@(column + (row + 1) * @Q@) * scale - finite);
            sum += even, other += odd;
            if (keep) {
                even *= LOAD_@s@(keep + row * @Q@ + lane);
                odd *= LOAD_@s@(keep + (row + 1) * @Q@ + lane);
            }
            STORE_@s@(scores + row * @Q@ + lane, even);
            STORE_@s@(scores + (row + 1) * @Q@ + lane, odd);
        }
        if (row < count) {
            vector_@s@ even = power_@s@(LOAD_@s@(column + row * @Q@) * scale - finite);
            sum += even;
            if (keep) even *= LOAD_@s@(keep + row * @Q@ + lane);
            STORE_@s@(scores + row * @Q@ + lane, even);
        }""",
    True: """        for (row = 0; row < count; row += 2) {
            vector_@s@ even = power_@s@(LOAD_@s@(column + row * @Q@) * scale - finite), odd = {};
            sum += even;
            if (keep) even *= LOAD_@s@(keep + row * @Q@ + lane);
            if (row + 1 < count) {
                odd = power_@s@(LOAD_@s@(column + (row + 1) * @Q@) * scale - finite);
                other += odd;
                if (keep) odd *= LOAD_@s@(keep + (row + 1) * @Q@ + lane);
            }
            column_store_@s@(weights + row * @Q@ + 2 * lane, even, odd);
        }""",
}

_FORWARD = """
typedef struct {
    @ELEMENT@ *columns, *key_tile, *value_tile, *weights;
    @COMPUTE@ *scores, *sums, *bias, *keep, *rows;
} forward_slot_@s@;

static int64_t forward_carve_@s@(const attention_problem *a, char *base, forward_slot_@s@ *slot)
{
    int64_t depth = attention_round(a->depth, 2), at = 0;
#define TAKE(member, type, count) slot->member = (type *)(base + at), at \
    += attention_round((count) * (int64_t)sizeof(type), 64)
    TAKE(columns, @ELEMENT@, depth * @Q@);
    TAKE(key_tile, @ELEMENT@, depth * @K@);
    TAKE(value_tile, @ELEMENT@, a->value_depth * @K@);
    TAKE(weights, @ELEMENT@, @K@ * @Q@);
    TAKE(scores, @COMPUTE@, @K@ * @Q@);
    TAKE(sums, @COMPUTE@, a->value_depth * @Q@);
    TAKE(bias, @COMPUTE@, @K@ * @Q@);
    TAKE(keep, @COMPUTE@, (@K@ + 4) * @Q@);
    TAKE(rows, @COMPUTE@, a->depth * @FEW@);
#undef TAKE
    return at;
}

/* logsumexp of each query, and what its sums are multiplied with: zero where nothing was allowed */
static void forward_totals_@s@(const attention_problem *a, const attention_lanes *lanes,
    const @COMPUTE@ *maximum, const @COMPUTE@ *total, @COMPUTE@ *inverse)
{
    for (int64_t lane = 0; lane < @Q@; lane++) inverse[lane] = 0;
    for (int64_t lane = 0; lane < lanes->count; lane++) {
        int empty = total[lane] == 0;
        int64_t at = (lanes->batch * a->heads + lanes->head[lane]) * a->queries + lanes->row[lane];
        inverse[lane] = empty ? 0 : 1 / total[lane];
        ((@COMPUTE@ *)a->logsumexp)[at] = empty ? (@COMPUTE@)INFINITY
            : (maximum[lane] + @LOG2@(total[lane])) * (@COMPUTE@)0.69314718055994530942;
    }
}

/* results from sums[value depth][@Q@] */
static void forward_store_@s@(const attention_problem *a, const attention_lanes *lanes,
    const @COMPUTE@ *sums, const @COMPUTE@ *inverse)
{
    for (int64_t first = 0; first < lanes->count; first += @LANES@) {
        int64_t count = lanes->count - first < @LANES@ ? lanes->count - first : @LANES@, i = 0;
        @STORAGE@ *out[@LANES@];
        lane_rows_@s@(a->out, a->out_stride, lanes, first, out);
        for (; i + @LANES@ <= a->value_depth; i += @LANES@) {
            vector_@s@ m[@LANES@];
            UNROLL for (int row = 0; row < @LANES@; row++)
                m[row] = LOAD_@s@(sums + (i + row) * @Q@ + first) * LOAD_@s@(inverse + first);
            transpose_@s@(m);
            for (int64_t lane = 0; lane < count; lane++) {
                const @COMPUTE@ *values = (const @COMPUTE@ *)&m[lane];
                _Pragma("omp simd") for (int k = 0; k < @LANES@; k++)
                    out[lane][i + k] = store_@s@(values[k]);
            }
        }
        for (; i < a->value_depth; i++)
            for (int64_t lane = 0; lane < count; lane++)
                out[lane][i] = store_@s@(sums[i * @Q@ + first + lane] * inverse[first + lane]);
    }
}

/* a block of few queries: dot products along the depth, nothing is packed */
static void forward_few_@s@(const attention_problem *a, const attention_lanes *lanes,
    const forward_slot_@s@ *slot,
    int64_t first_row, int64_t end, const @STORAGE@ *keys, const @STORAGE@ *values)
{
    @COMPUTE@ maximum[@Q@], total[@Q@], ratio[@Q@], scale
        = (@COMPUTE@)(a->scale * 1.44269504088896340736);
    int64_t depth = a->depth, value_depth = a->value_depth;
    for (int i = 0; i < @Q@; i++) maximum[i] = -INFINITY, total[i] = 0;
    memset(slot->scores, 0, sizeof(@COMPUTE@) * (size_t)(end < @K@ ? end : @K@) * @Q@);
    memset(slot->sums, 0, sizeof(@COMPUTE@) * (size_t)(value_depth * lanes->count));
    for (int64_t lane = 0; lane < lanes->count; lane++) {
        const @STORAGE@ *from = (const @STORAGE@ *)a->query + lanes->batch * a->query_stride[0]
            + lanes->head[lane] * a->query_stride[1] + lanes->row[lane] * a->query_stride[2];
        for (int64_t i = 0; i < depth; i++) slot->rows[lane * depth + i] = load_@s@(from[i]);
    }
    for (int64_t first = 0; first < end; first += @K@) {
        int64_t count = end - first < @K@ ? end - first : @K@;
        for (int64_t row = 0; row < count; row++) {
            const @STORAGE@ *key = keys + (first + row) * a->key_stride[2];
            for (int64_t lane = 0; lane < lanes->count; lane++) {
                const @COMPUTE@ *query = slot->rows + lane * depth;
                @COMPUTE@ sum = 0;
                _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < depth; i++) sum
                    += query[i] * load_@s@(key[i]);
                slot->scores[row * @Q@ + lane] = sum;
            }
        }
        @COMPUTE@ factor = scale;
        if (a->mask_kind || !(scale > 0) || (a->causal && first + count - 1 > first_row)) {
            biased_@s@(a, lanes, first, count, scale, slot->scores, slot->bias);
            factor = 1;
        }
        if (a->dropout > 0) keep_@s@(a, lanes, first, count, slot->keep);
        softmax_@c@(slot->scores, 0, a->dropout > 0 ? slot->keep : 0, count, lanes->width, factor,
            maximum, total, ratio);
        for (int64_t lane = 0; first && lane < lanes->count; lane++)
            for (int64_t i = 0; i < value_depth; i++)
                slot->sums[lane * value_depth + i] *= ratio[lane];
        for (int64_t row = 0; row < count; row++) {
            const @STORAGE@ *value = values + (first + row) * a->value_stride[2];
            for (int64_t lane = 0; lane < lanes->count; lane++) {
                @COMPUTE@ weight = slot->scores[row * @Q@ + lane], *sums = slot->sums + lane
                    * value_depth;
                _Pragma("omp simd") for (int64_t i = 0; i < value_depth; i++) sums[i] += weight
                    * load_@s@(value[i]);
            }
        }
    }
    forward_totals_@s@(a, lanes, maximum, total, ratio);
    for (int64_t lane = 0; lane < lanes->count; lane++) {
        @STORAGE@ *out = (@STORAGE@ *)a->out + lanes->batch * a->out_stride[0]
            + lanes->head[lane] * a->out_stride[1] + lanes->row[lane] * a->out_stride[2];
        for (int64_t i = 0; i < value_depth; i++)
            out[i] = store_@s@(slot->sums[lane * value_depth + i] * ratio[lane]);
    }
}

/* weights of a block of keys relative to the new maximum, and sums of earlier ones rescaled to it */
static void forward_weights_@s@(const attention_problem *a, const attention_lanes *lanes,
    const forward_slot_@s@ *slot, const @ELEMENT@ *tile, int64_t stride, int64_t first,
    int64_t count, int masked, @COMPUTE@ *maximum, @COMPUTE@ *total)
{
    @COMPUTE@ ratio[@Q@], scale = (@COMPUTE@)(a->scale * 1.44269504088896340736);
    product_@s@(tile, stride, @PAIR@, slot->columns, @Q@ * @PAIR@, slot->scores, @Q@, count,
        (a->depth + @PAIR@ - 1) / @PAIR@, lanes->width, 0);
    if (masked) {
        biased_@s@(a, lanes, first, count, scale, slot->scores, slot->bias);
        scale = 1;
    }
    if (a->dropout > 0) keep_@s@(a, lanes, first, count, slot->keep);
    int rescale = softmax_@s@(slot->scores, slot->weights, a->dropout > 0 ? slot->keep : 0, count,
        lanes->width, scale, maximum, total, ratio);
    if (first && rescale)
        for (int64_t i = 0; i < a->value_depth; i++)
            for (int64_t lane = 0; lane < lanes->width; lane += @LANES@)
                STORE_@s@(slot->sums + i * @Q@ + lane, LOAD_@s@(slot->sums + i * @Q@ + lane)
                    * LOAD_@s@(ratio + lane));
}

static void forward_block_@s@(const attention_problem *a, int64_t item, char *scratch)
{
    attention_lanes lanes;
    forward_slot_@s@ slot;
    @COMPUTE@ maximum[@Q@], total[@Q@], ratio[@Q@], scale
        = (@COMPUTE@)(a->scale * 1.44269504088896340736);
    attention_select(a, item, &lanes);
    forward_carve_@s@(a, scratch, &slot);
    lanes.width = attention_round(lanes.count, @LANES@);
    int64_t end = a->causal && lanes.last_row + 1 < a->keys ? lanes.last_row + 1 : a->keys;
    int64_t depth = (a->depth + @PAIR@ - 1) / @PAIR@;
    const @STORAGE@ *keys = (const @STORAGE@ *)a->key + lanes.batch * a->key_stride[0]
        + lanes.key_head * a->key_stride[1];
    const @STORAGE@ *values = (const @STORAGE@ *)a->value + lanes.batch * a->value_stride[0]
        + lanes.key_head * a->value_stride[1];
    int64_t first_row = lanes.row[0];
    for (int64_t i = 1; i < lanes.count; i++) first_row = lanes.row[i] < first_row ? lanes.row[i]
        : first_row;
    if (lanes.count <= @FEW@) {
        forward_few_@s@(a, &lanes, &slot, first_row, end, keys, values);
        return;
    }
    for (int i = 0; i < @Q@; i++) maximum[i] = -INFINITY, total[i] = 0;
    columns_@s@(a->query, a->query_stride, &lanes, a->depth, slot.columns);
    for (int64_t first = 0, count; first < end; first += count) {
        int64_t stride;
        count = end - first < @K@ ? end - first : @K@;
        int masked = a->mask_kind || !(scale > 0) || (a->causal && first + count - 1 > first_row);
        int plain = !masked && !(a->dropout > 0);
        if (!first && plain && count > @FIRST@) count = @FIRST@; /* their maximum serves on */
        const @ELEMENT@ *tile = rows_@s@(keys + first * a->key_stride[2], a->key_stride[2], count,
            a->depth, slot.key_tile, &stride);
        if (!first || !plain || !weigh_@s@(tile, stride, slot.columns, @RIGHT@, count, depth,
                lanes.width, scale, maximum, total))
            forward_weights_@s@(a, &lanes, &slot, tile, stride, first, count, masked, maximum,
                total);
        tile = values_@s@(values + first * a->value_stride[2], a->value_stride[2], count,
            a->value_depth, slot.value_tile, &stride);
        product_@s@(tile, @PAIR@, stride, @RIGHT@, @Q@ * @PAIR@, slot.sums, @Q@, a->value_depth,
            (count + @PAIR@ - 1) / @PAIR@, lanes.width, first > 0);
    }
    if (!end) memset(slot.sums, 0, sizeof(@COMPUTE@) * (size_t)(a->value_depth * @Q@));
    forward_totals_@s@(a, &lanes, maximum, total, ratio);
    forward_store_@s@(a, &lanes, slot.sums, ratio);
}

static void forward_body_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    attention_problem *a = (attention_problem *)p[0];
    for (int64_t slot = begin; slot < end; slot++)
        for (;;) {
            int64_t item = __atomic_fetch_add(&a->next, 1, __ATOMIC_RELAXED);
            if (item >= a->items) break;
            forward_block_@s@(a, item, a->scratch + slot * a->slot_bytes);
        }
}

static int forward_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    attention_problem a = {.out = p[0], .logsumexp = p[1], .query = p[2], .key = p[3], .value
        = p[4], .mask = p[5]};
    forward_slot_@s@ slot;
    attention_sizes(&a, n, s);
    if (!a.batch || !a.heads || !a.queries) return 0;
    attention_units(&a);
    a.slot_bytes = forward_carve_@s@(&a, 0, &slot);
    int64_t slots = a.items < rt->threads() ? a.items : rt->threads();
    if (!(a.scratch = rt->scratch(slots * a.slot_bytes))) return 1;
    char *problem[1] = {(char *)&a};
    rt->parallel(forward_body_@s@, problem, n, s, slots, 1);
    rt->release(a.scratch);
    return 0;
}
"""


def _flavour_text(flavour: Flavour) -> str:
    """Everything that depends on the dtype: products, masks, softmax, forward and backward."""
    storage, name = flavour.storage, flavour.storage.name
    names = flavour.names
    operands = "pairs" if flavour.pairs else "convert" if storage.is_half else "direct"
    kinds = (
        (1, "uint8_t", "entry ? 0 : (@COMPUTE@)-INFINITY"),
        (2, storage.compute, "entry * (@COMPUTE@)1.44269504088896340736"),
        (3, storage.ctype, "load_@s@(entry) * (@COMPUTE@)1.44269504088896340736"),
    )
    log2 = "log2" if storage.compute == "double" else "log2f"
    parts = [
        attention_tile.text(flavour),
        fill(_OPERANDS[operands], **names),
        fill(_QUERIES, GET="" if flavour.pairs else f"load_{name}", **names),
        *(
            fill(_MASK_ROWS, KIND=kind, MASK=mask, VALUE=fill(value, **names), **names)
            for kind, mask, value in kinds
        ),
        fill(_BIAS, **names),
        fill(_SOFTMAX, WEIGHTS=fill(_WEIGHTS[flavour.pairs], **names), **names),
        fill(
            _FORWARD, LOG2=log2, RIGHT="slot.weights" if flavour.pairs else "slot.scores", **names
        ),
        attention_backward.text(flavour),
    ]
    return "".join(parts)


_QUERY, _KEY = "span(n0,n{},n1,n{},n3,n{},{},1)", "span(n0,n{},n2,n{},n4,n{},{},1)"
_MASK = "span(n0,n9,n1,n10,n3,n11,n4,n12)"
_INPUTS = f"""r query @ {_QUERY.format(13, 14, 15, "n5")}; r key @ {_KEY.format(16, 17, 18, "n5")};
    r value @ {_KEY.format(19, 20, 21, "n6")}"""
_MASKS = f"""*n8=0 r mask bytes 0; *n8=1 r mask b8 {_MASK}; *n8=2 r mask $ {_MASK};
    *n8=3 r mask @ {_MASK}; c heads if(n1<1,1,1-n1%n2)"""
#: `@` the storage dtype, `$` the compute dtype
_SAID = {
    "attention": f"""25;4; w out @ {_QUERY.format(22, 23, 24, "n6")}; w logsumexp $ n0*n1*n3;
        {_INPUTS}; {_MASKS}""",
    "attention.grad": f"""37;4; w grad_query @ {_QUERY.format(28, 29, 30, "n5")};
        w grad_key @ {_KEY.format(31, 32, 33, "n5")};
        w grad_value @ {_KEY.format(34, 35, 36, "n6")}; w? grad_scores $ n0*n1*n3*n4;
        r grad_out @ {_QUERY.format(25, 26, 27, "n6")}; {_INPUTS};
        r out @ {_QUERY.format(22, 23, 24, "n6")}; r logsumexp $ n0*n1*n3; {_MASKS}""",
}


def unit(isa: Isa) -> str:
    """The translation unit of the attention kernels for one instruction set."""
    text = [PROLOGUE, fill(_PROBLEM, Q=QUERY_BLOCK), conversions(*DTYPES)]
    entries: list[Entry] = []
    for dtype in DTYPES:
        pairs = dtype == "bf16" and isa.has("bf16") and isa.vector_bytes == 64
        flavour = Flavour(STORAGES[dtype], isa.vector_bytes, isa.registers, pairs)
        text.append(_flavour_text(flavour))
        for name, function in (("attention", "forward"), ("attention.grad", "backward")):
            compute = "f64" if dtype == "f64" else "f32"
            said = declared(_SAID[name], dtype).replace("$", compute)
            entries.append((f"{name}:{dtype}", "d", f"{function}_{dtype}", said))
    return "".join(text) + table(entries)
