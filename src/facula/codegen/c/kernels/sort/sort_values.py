"""C kernels that sort or select values alone, for callers that do not want to know where they stood.

`parts` gives the C text and table entries of one dtype; `names` are those of `sort`. Keeps true:
the values are those of `sort`, bit for bit: keys map to bits and back, and rows with what equal
keys would lose (negative zeros, NaN) are sorted with their positions.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.kernels.movement.movement import fill

KEYS = r"""
/* one digit after the other, the lowest first; gives the array that holds the result */
INLINE @K@ *digits_@D@(@K@ *a, @K@ *b, int64_t n, const int width, const int digits) {
    uint32_t count[@BITS@ > 32 ? 6 << 11 : @BITS@ > 16 ? 3 << 11 : 2 << 8];
    const @K@ mask = (@K@)((1 << width) - 1);
    __builtin_memset(count, 0, sizeof(uint32_t) * ((uint64_t)digits << width));
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < digits; d++)
            count[((uint64_t)d << width) + ((a[i] >> (d * width)) & mask)]++;
    for (int d = 0; d < digits; d++) {
        uint32_t *restrict place = count + ((uint64_t)d << width), total = 0;
        const @K@ *restrict from = a;
        @K@ *restrict to = b;
        const int shift = d * width;
        if (place[(a[0] >> shift) & mask] == n) continue;
        for (int64_t bucket = 0; bucket < (int64_t)1 << width; bucket++) {
            const uint32_t here = place[bucket];
            place[bucket] = total;
            total += here;
        }
        for (int64_t i = 0; i < n; i++) {
            const @K@ key = from[i];
            to[place[(key >> shift) & mask]++] = key;
        }
        b = a, a = to;
    }
    return a;
}

/* sort n keys; gives the array that holds the result */
static @K@ *keys_@D@(@K@ *a, @K@ *b, int64_t n) {
    if (n <= 32) {
        for (int64_t i = 1; i < n; i++) {
            @K@ key = a[i];
            int64_t j = i;
            for (; j > 0 && key < a[j - 1]; j--) a[j] = a[j - 1];
            a[j] = key;
        }
        return a;
    }
    if (@BITS@ <= 16 || n < 1500 || n > 1 << 20) return digits_@D@(a, b, n, 8, (@BITS@ + 7) / 8);
    return digits_@D@(a, b, n, 11, (@BITS@ + 10) / 11);
}
"""

SORT = r"""
/* sort_values:@D@ p: values, self [rows, length]. n: rows, length, descending. A driver. */
static void sort_values_rows_@D@(char *const *p, const int64_t *n, const fk_scalar *s,
            int64_t begin, int64_t end) {
    (void)s;
    const int64_t length = n[1];
    const @K@ flip = n[2] ? (@K@)(@U@)-1 : 0;
    for (int64_t slot = begin; slot < end; slot++) {
        char *scratch = p[2] + slot * 2 * length * (int64_t)sizeof(@W@);
        @K@ *a = (@K@ *)scratch;
        const int64_t stop = (slot + 1) * n[0] / n[3];
        for (int64_t r = slot * n[0] / n[3]; r < stop; r++) {
            const @U@ *restrict row = (const @U@ *)p[1] + r * length;
            @U@ *restrict values = (@U@ *)p[0] + r * length;
            @K@ *restrict to = a;
            int lossy = 0;
            for (int64_t i = 0; i < length; i++) {
                const @U@ u = row[i];
                to[i] = (@K@)(@U@)(@FORTH@) ^ flip;
                lossy |= @LOSSY@;
            }
            if (!lossy) {
                const @K@ *sorted = keys_@D@(a, a + length, length);
                for (int64_t i = 0; i < length; i++) {
                    const @U@ k = (@U@)(sorted[i] ^ flip);
                    values[i] = (@U@)(@BACK@);
                }
                continue;
            }
            @W@ *records = (@W@ *)scratch;
            records_@D@(row, records, length, (int)n[2]);
            const @W@ *ordered = order_@W@(records, records + length, length, @BITS@);
            for (int64_t i = 0; i < length; i++) values[i] = row[POSITION_@W@(ordered[i])];
        }
    }
}

static int sort_values_@D@(char *const *p, const int64_t *n, const fk_scalar *s,
            const fk_runtime *rt) {
    if (n[1] >= INT64_C(1) << 32) return 1;
    int64_t slots = MAX(1, MIN(n[0], n[0] * n[1] > 8192 ? rt->threads() : 1));
    char *scratch = rt->scratch(slots * 2 * n[1] * (int64_t)sizeof(@W@));
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], scratch};
    int64_t sizes[] = {n[0], n[1], n[2], slots};
    rt->parallel(sort_values_rows_@D@, pointers, sizes, s, slots, 1);
    rt->release(scratch);
    return 0;
}
"""


TOPK = r"""
/* the k smallest of `count` keys stay, in no order; gives the largest of them */
static @K@ keep_smallest_@D@(@K@ *pool, @K@ *spare, int64_t count, int64_t k) {
    int64_t skipped, kept = 0;
    @K@ *const copy = spare + count;
    __builtin_memcpy(copy, pool, (uint64_t)count * sizeof(@K@));
    const @K@ bar = select_@D@(copy, spare, count, k - 1, &skipped);
    for (int64_t i = 0; i < count; i++) {
        const @K@ key = pool[i];
        spare[kept] = key;
        kept += key < bar;
    }
    __builtin_memcpy(pool, spare, (uint64_t)kept * sizeof(@K@));
    while (kept < k) pool[kept++] = bar;
    return bar;
}

/* topk_values:@D@ p: values [rows, k], self [rows, length]. n: rows, length, k, largest. A driver.
 * As `topk`, with keys instead of records; a row whose answer has what keys lose is done again. */
static int topk_values_row_@D@(const @U@ *restrict row, @U@ *restrict values, @K@ *pool,
            int64_t length, int64_t k, int64_t capacity, int largest) {
    const @K@ flip = largest ? (@K@)(@U@)-1 : 0;
    @K@ bar = 0, key[64], *const spare = pool + capacity;
    int64_t count = 0, full = 0;
    for (int64_t i = 0; i < length; i += 64) {
        const int64_t stop = MIN(64, length - i);
        if (stop == 64) {
            if (!topk_hit_@D@(row + i, key, flip, bar) && full) continue;
        } else {
            for (int64_t j = 0; j < stop; j++) key[j] = key_@D@(row[i + j]) ^ flip;
        }
        if (full)
            for (int64_t j = 0; j < stop; j++) {
                pool[count] = key[j];
                count += key[j] < bar;
            }
        else
            for (int64_t j = 0; j < stop; j++) pool[count++] = key[j];
        if (count + 64 <= capacity && (full || count < 2 * k)) continue;
        bar = keep_smallest_@D@(pool, spare, count, k);
        count = k, full = 1;
    }
    if (count > k) keep_smallest_@D@(pool, spare, count, k);
    const @K@ *sorted = keys_@D@(pool, spare, k);
    for (int64_t i = 0; i < k; i++) {
        const @U@ k = (@U@)(sorted[i] ^ flip), u = (@U@)(@BACK@);
        if (@LOST@) return 0;
        values[i] = u;
    }
    return 1;
}

static void topk_values_rows_@D@(char *const *p, const int64_t *n, const fk_scalar *s,
            int64_t begin, int64_t end) {
    (void)s;
    const int64_t length = n[1], k = n[2], capacity = n[5];
    for (int64_t slot = begin; slot < end; slot++) {
        char *room = p[2] + slot * 4 * capacity * (int64_t)sizeof(@W@);
        const int64_t stop = (slot + 1) * n[0] / n[4];
        for (int64_t r = slot * n[0] / n[4]; r < stop; r++) {
            const @U@ *row = (const @U@ *)p[1] + r * length;
            @U@ *values = (@U@ *)p[0] + r * k;
            if (topk_values_row_@D@(row, values, (@K@ *)room, length, k, capacity, (int)n[3]))
                continue;
            @W@ *pool = (@W@ *)room;
            topk_row_@D@(row, pool, pool + capacity, length, k, capacity, (int)n[3]);
            for (int64_t i = 0; i < k; i++) values[i] = row[POSITION_@W@(pool[i])];
        }
    }
}

static int topk_values_@D@(char *const *p, const int64_t *n, const fk_scalar *s,
            const fk_runtime *rt) {
    if (n[1] >= INT64_C(1) << 32) return 1;
    int64_t slots = MAX(1, MIN(n[0], n[0] * n[1] > 16384 ? rt->threads() : 1));
    int64_t capacity = MIN(2 * n[2] + 128, n[1] + 128);
    char *scratch = rt->scratch(slots * 4 * capacity * (int64_t)sizeof(@W@));
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], scratch};
    int64_t sizes[] = {n[0], n[1], n[2], n[3], slots, capacity};
    rt->parallel(topk_values_rows_@D@, pointers, sizes, s, slots, 1);
    rt->release(scratch);
    return 0;
}
"""


def _maps(dtype: str, bits: int) -> tuple[str, str, str]:
    """The key of the bits `u`, the bits of a key `k`, and whether `u` is lost on the way."""
    word = f"uint{bits}_t"
    sign = f"({word})(UINT{bits}_C(1) << {bits - 1})"
    if dtype in ("u8", "b8"):
        return "u", "k", "u > 1" if dtype == "b8" else "0"
    if dtype[0] == "i":
        return f"u ^ {sign}", f"k ^ {sign}", "0"
    infinity = {"f32": "0x7f800000", "f64": "0x7ff0000000000000", "f16": "0x7c00"}.get(
        dtype, "0x7f80"
    )
    magnitude = f"({word})(u & ({word})~{sign})"
    return (
        f"u ^ ((u & {sign}) ? ({word})-1 : {sign})",
        f"k ^ ((k & {sign}) ? {sign} : ({word})-1)",
        f"(u == {sign}) | ({magnitude} > UINT{bits}_C({infinity}))",
    )


def _lost(dtype: str) -> str:
    """Whether a key `k` of `sort`, or its bits `u`, may stand for other bits: zeros, NaN, truth."""
    if dtype == "b8":
        return "u != 0"
    return "u == 0 || k == (@U@)-1" if dtype[0] in "bf" else "0"


OPERANDS = {
    "sort_values": "3;0; w values @ n0*n1; r self @ n0*n1",
    "topk_values": "4;0; w values @ n0*n2; r self @ n0*n1",
}


def parts(dtype: str, names: dict[str, object]) -> tuple[str, list[Entry]]:
    """The text for one dtype, and its entries."""
    forth, back, lossy = _maps(dtype, int(str(names["BITS"])))
    maps = {"FORTH": forth, "BACK": back, "LOSSY": lossy, "LOST": _lost(dtype)}
    text = fill(KEYS + SORT + TOPK, **maps, **names)
    return text, [
        (f"{name}:{dtype}", "d", f"{name}_{dtype}", declared(said, dtype))
        for name, said in OPERANDS.items()
    ]
