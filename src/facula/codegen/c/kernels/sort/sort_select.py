"""C kernels that need part of an order: top-k, k-th value, medians, modes, lexicographic order of
rows.

`parts` gives the C text and table entries of one dtype; the records and keys are those of `sort`.
Keeps true: among equal
values the earlier position comes first, and NaN is the largest value.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared
from facula.codegen.c.kernels.movement.movement import fill

TOPK = r"""
/* topk:@D@ p: values, positions (int64) [rows, k], self [rows, length]. n: rows, length, k,
 * largest. A driver.
 * One pass keeps the records that beat the k-th best so far; whenever the pool is full it is sorted
 * and cut to k. */
static int64_t topk_cut_@D@(@W@ *pool, @W@ *spare, int64_t count, int64_t k) {
    const @W@ *sorted = order_@W@(pool, spare, count, @BITS@);
    if (sorted != pool) __builtin_memcpy(pool, sorted, (uint64_t)MIN(k, count) * sizeof(@W@));
    return MIN(k, count);
}

/* the keys of 64 values, and whether any beats the bar */
INLINE int topk_hit_@D@(const @U@ *restrict row, @K@ *restrict key, @K@ flip, @K@ bar) {
    @K@ hit = 0;
#pragma omp simd reduction(| : hit)
    for (int64_t j = 0; j < 64; j++) {
        key[j] = key_@D@(row[j]) ^ flip;
        hit |= key[j] < bar;
    }
    return hit != 0;
}

static void topk_row_@D@(const @U@ *restrict row, @W@ *pool, @W@ *spare, int64_t length,
        int64_t k, int64_t capacity,
                         int largest) {
    @K@ flip = largest ? (@K@)(@U@)-1 : 0, bar = 0, key[64];
    int64_t count = 0, full = 0;
    for (int64_t i = 0; i < length; i += 64) {
        int64_t stop = MIN(64, length - i);
        if (stop == 64) {
            if (!topk_hit_@D@(row + i, key, flip, bar) && full) continue;
        } else {
            for (int64_t j = 0; j < stop; j++) key[j] = key_@D@(row[i + j]) ^ flip;
        }
        /* a hit is rare, so this branch is cheaper than storing every record */
        for (int64_t j = 0; j < stop; j++)
            if (!full || key[j] < bar) pool[count++] = MAKE_@W@(key[j], i + j);
        if (count + 64 <= capacity && (full || count < 2 * k)) continue;
        count = topk_cut_@D@(pool, spare, count, k);
        full = count == k;
        if (full) bar = (@K@)KEY_@W@(pool[k - 1]);
    }
    topk_cut_@D@(pool, spare, count, k);
}

static void topk_rows_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t length = n[1], k = n[2], capacity = n[5];
    for (int64_t slot = begin; slot < end; slot++) {
        @W@ *pool = (@W@ *)p[3] + slot * 2 * capacity;
        int64_t stop = (slot + 1) * n[0] / n[4];
        for (int64_t r = slot * n[0] / n[4]; r < stop; r++) {
            const @U@ *row = (const @U@ *)p[2] + r * length;
            topk_row_@D@(row, pool, pool + capacity, length, k, capacity, (int)n[3]);
            for (int64_t i = 0; i < k; i++) {
                int64_t at = POSITION_@W@(pool[i]);
                ((@U@ *)p[0])[r * k + i] = row[at];
                ((int64_t *)p[1])[r * k + i] = at;
            }
        }
    }
}

static int topk_@D@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    if (n[1] >= INT64_C(1) << 32) return 1;
    int64_t slots = MAX(1, MIN(n[0], n[0] * n[1] > 16384 ? rt->threads() : 1));
    int64_t capacity = MIN(MAX(2 * n[2] + 64, 256), n[1] + 64) + 64;
    char *scratch = rt->scratch(slots * 2 * capacity * (int64_t)sizeof(@W@));
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], p[2], scratch};
    int64_t sizes[] = {n[0], n[1], n[2], n[3], slots, capacity};
    rt->parallel(topk_rows_@D@, pointers, sizes, s, slots, 1);
    rt->release(scratch);
    return 0;
}
"""

SELECT = r"""
/* the key that stands at place k (from 0) of the ascending order: the digit that holds it is found
 * from the top down */
static @K@ select_@D@(@K@ *keys, @K@ *spare, int64_t n, int64_t k, int64_t *skipped) {
    int64_t before = 0;
    for (int shift = @BITS@ > 8 ? @BITS@ - 8 : 0; n > 1; shift = shift > 8 ? shift - 8 : 0) {
        uint32_t count[256] = {0};
        for (int64_t i = 0; i < n; i++) count[(keys[i] >> shift) & 255]++;
        int64_t bucket = 0, kept = 0;
        while (k >= count[bucket]) k -= count[bucket], before += count[bucket], bucket++;
        if (count[bucket] < n) {
            for (int64_t i = 0; i < n && kept < count[bucket]; i++) {
                spare[kept] = keys[i];
                kept += ((keys[i] >> shift) & 255) == (uint64_t)bucket;
            }
            @K@ *t = keys;
            keys = spare, spare = t, n = kept;
        }
        if (shift == 0) break;
    }
    *skipped = before;
    return keys[0];
}

/* kth:@D@ p: values, positions (int64) [rows], self [rows, length]. n: rows, length, k (from 0),
 * mode. A driver.
 * mode 0: the k-th smallest; 1: the lower median, NaN when the row has one; 2: the lower median of
 * what is not NaN */
static void kth_rows_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t length = n[1], mode = n[3];
    for (int64_t slot = begin; slot < end; slot++) {
        @K@ *keys = (@K@ *)p[3] + slot * 2 * length;
        int64_t stop = (slot + 1) * n[0] / n[4];
        for (int64_t r = slot * n[0] / n[4]; r < stop; r++) {
            const @U@ *row = (const @U@ *)p[2] + r * length;
            int64_t bad = 0, k = n[2], skipped, at = 0;
            for (int64_t i = 0; i < length; i++) keys[i] = key_@D@(row[i]);
            if (mode && @FLOAT@) {
                for (int64_t i = 0; i < length; i++) bad += keys[i] == (@K@)(@U@)-1;
                k = mode == 2 ? (MAX(length - bad, 1) - 1) / 2 : bad ? length - bad : (length - 1)
                        / 2;
            }
            @K@ found = select_@D@(keys, keys + length, length, k, &skipped);
            for (int64_t left = k - skipped;; at++)
                if (key_@D@(row[at]) == found && left-- == 0) break;
            ((@U@ *)p[0])[r] = row[at];
            ((int64_t *)p[1])[r] = at;
        }
    }
}

static int kth_@D@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    int64_t slots = MAX(1, MIN(n[0], n[0] * n[1] > 16384 ? rt->threads() : 1));
    char *scratch = rt->scratch(slots * 2 * n[1] * (int64_t)sizeof(@K@));
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], p[2], scratch};
    int64_t sizes[] = {n[0], n[1], n[2], n[3], slots};
    rt->parallel(kth_rows_@D@, pointers, sizes, s, slots, 1);
    rt->release(scratch);
    return 0;
}
"""

RUNS = r"""
/* mode:@D@ the value that stands most often in a sorted row, the smallest of several, and its last
 * position.
 * p: values, positions [rows], sorted values, sorted positions [rows, length]. n: length; items are
 * rows */
static void mode_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    for (int64_t r = begin; r < end; r++) {
        const @U@ *row = (const @U@ *)p[2] + r * n[0];
        int64_t best = 0, last = 0;
        for (int64_t i = 0; i < n[0];) {
            int64_t start = i;
            @K@ key = key_@D@(row[i]);
            while (i < n[0] && key_@D@(row[i]) == key) i++;
            if (i - start > best) best = i - start, last = i - 1;
        }
        ((@U@ *)p[0])[r] = row[last];
        ((int64_t *)p[1])[r] = ((const int64_t *)p[3])[r * n[0] + last];
    }
}

/* lexsort:@D@ p: order (int64, [rows]), values [rows, length]. n: rows, length. A driver: stable
 * merges. */
static int lexsort_@D@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    (void)s;
    int64_t rows = n[0], length = n[1], *a = (int64_t *)p[0];
    int64_t *scratch = rt->scratch(rows * (int64_t)sizeof(int64_t)), *b = scratch;
    if (!scratch) return 1;
    const @U@ *values = (const @U@ *)p[1];
    for (int64_t i = 0; i < rows; i++) a[i] = i;
    for (int64_t run = 1; run < rows; run *= 2) {
        for (int64_t start = 0; start < rows; start += 2 * run) {
            int64_t i = start, middle = MIN(rows, start + run), j = middle, stop = MIN(rows, start
                    + 2 * run);
            for (int64_t k = start; k < stop; k++) {
                int left = j >= stop;
                if (!left && i < middle) {
                    const @U@ *x = values + a[i] * length, *y = values + a[j] * length;
                    int64_t c = 0;
                    while (c < length && key_@D@(x[c]) == key_@D@(y[c])) c++;
                    left = c == length || key_@D@(x[c]) < key_@D@(y[c]);
                }
                b[k] = left ? a[i++] : a[j++];
            }
        }
        int64_t *t = a;
        a = b, b = t;
    }
    if (a == scratch) __builtin_memcpy(p[0], a, (uint64_t)rows * sizeof(int64_t));
    rt->release(scratch);
    return 0;
}
"""


#: kind of each kernel, and what it says of its operands
KERNELS = {
    "topk": ("d", "4;0; w values @ n0*n2; w positions i64 n0*n2; r self @ n0*n1; c k 1+n1-n2"),
    "kth": (
        "d",
        "4;0; w values @ n0; w positions i64 n0; r self @ n0*n1; c k if(n3,n1,min(1+n2,n1-n2))",
    ),
    "mode": ("b", "1;0; w values @ N; w positions i64 N; r sorted @ N*n0; r places i64 N*n0"),
    "lexsort": ("d", "2;0; w order i64 n0; r values @ n0*n1"),
}


def parts(dtype: str, names: dict[str, object]) -> tuple[str, list[Entry]]:
    """Give the C text and the table entries of one dtype."""
    text = fill(TOPK + SELECT + RUNS, FLOAT=int(dtype[0] in "fb" and dtype != "b8"), **names)
    return text, [
        (f"{name}:{dtype}", kind, f"{name}_{dtype}", declared(said, dtype))
        for name, (kind, said) in KERNELS.items()
    ]
