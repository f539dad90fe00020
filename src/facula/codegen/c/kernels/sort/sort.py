"""C kernels for order: sort, top-k, k-th value and medians, modes, lexicographic order of rows.

Takes an instruction set; `unit` gives one translation unit. Every value becomes an unsigned key
whose order is the order
wanted: negative numbers flipped, -0 equal to +0, NaN above everything, all bits inverted for
descending order. Keys up to
32 bits travel in one word with their position, wider ones in a pair; a least-significant-digit
radix sort moves them and
skips digits that all keys share. Keeps true: sorting is stable in both directions; results hold the
original values, so
the sign of zero and the payload of NaN survive.
"""

from __future__ import annotations

from typing import Any

from facula.codegen.c.entries import declared, table
from facula.codegen.c.kernels.movement.movement import PRELUDE, fill
from facula.codegen.c.kernels.sort import sort_select, sort_values

#: dtype: (C type, C type of its bits, significant bits, expression for the ascending key of the
#: bits u)
KEYS: dict[str, tuple[str, str, int, str]] = {}


def _float_key(bits: int, infinity: str) -> str:
    word, size = f"uint{bits}_t", hex(1 << (bits - 1))
    sign, full, magnitude = (
        f"({word}){size}",
        f"({word})-1",
        f"({word})(u & ({word})~({word}){size})",
    )
    return (
        f"({magnitude} > {infinity} ? {full} : {magnitude} == 0 ? {sign} : "
        f"({word})(u ^ ((u >> {bits - 1}) ? {full} : {sign})))"
    )


for _name, _type, _bits, _infinity in (
    ("f32", "float", 32, "UINT32_C(0x7f800000)"),
    ("f64", "double", 64, "UINT64_C(0x7ff0000000000000)"),
    ("f16", "uint16_t", 16, "0x7c00"),
    ("bf16", "uint16_t", 16, "0x7f80"),
):
    KEYS[_name] = (_type, f"uint{_bits}_t", _bits, _float_key(_bits, _infinity))
for _bits in (64, 32, 16, 8):
    _sign = f"(uint{_bits}_t)(UINT{_bits}_C(1) << {_bits - 1})"
    KEYS[f"i{_bits}"] = (f"int{_bits}_t", f"uint{_bits}_t", _bits, f"(uint{_bits}_t)(u ^ {_sign})")
KEYS["u8"] = ("uint8_t", "uint8_t", 8, "u")
KEYS["b8"] = ("uint8_t", "uint8_t", 8, "(uint8_t)(u != 0)")

# W is the record: `word` = key << 32 | position, or `wide` = {key, position}
RADIX = r"""
typedef uint64_t word;
typedef struct { uint64_t key, position; } wide;
#define KEY_word(r) ((r) >> 32)
#define POSITION_word(r) ((int64_t)((r) & UINT32_MAX))
#define MAKE_word(k, i) (((uint64_t)(k) << 32) | (uint64_t)(i))
#define LESS_word(a, b) ((a) < (b))
#define KEY_wide(r) ((r).key)
#define POSITION_wide(r) ((int64_t)(r).position)
#define MAKE_wide(k, i) ((wide){(k), (uint64_t)(i)})
#define LESS_wide(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).position < (b).position))
"""

RECORD = r"""
static void insertion_@W@(@W@ *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        @W@ r = a[i];
        int64_t j = i;
        for (; j > 0 && LESS_@W@(r, a[j - 1]); j--) a[j] = a[j - 1];
        a[j] = r;
    }
}

#define DIGIT_@W@(r, shift, width) ((KEY_@W@(r) >> (shift)) & (((uint64_t)1 << (width)) - 1))
/* one digit: count, place, move; 0 when all records share the digit and nothing moved */
INLINE int digit_@W@(const @W@ *restrict from, @W@ *restrict to, int64_t n, int shift, int width,
                     const uint32_t *count) {
    uint32_t place[2048], total = 0;
    int64_t buckets = (int64_t)1 << width;
    if (count[DIGIT_@W@(from[0], shift, width)] == n) return 0;
    for (int64_t b = 0; b < buckets; b++) place[b] = total, total += count[b];
    for (int64_t i = 0; i < n; i++) {
        @W@ r = from[i];
        to[place[DIGIT_@W@(r, shift, width)]++] = r;
    }
    return 1;
}

#define MAX_DIGITS 8
INLINE @W@ *radix_@W@(@W@ *a, @W@ *b, int64_t n, int bits, int width, int digits) {
    uint32_t count[MAX_DIGITS << 8 > 6 << 11 ? MAX_DIGITS << 8 : 6 << 11];
    __builtin_memset(count, 0, sizeof(uint32_t) * ((uint64_t)digits << width));
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < digits; d++) count[((uint64_t)d << width) + DIGIT_@W@(a[i], d * width,
                width)]++;
    for (int d = 0; d < digits; d++) {
        if (d * width >= bits) break;
        if (!digit_@W@(a, b, n, d * width, width, count + ((uint64_t)d << width))) continue;
        @W@ *t = a;
        a = b, b = t;
    }
    return a;
}

/* sort n records by key and position (positions rise at the start); gives the array that holds the
 * result */
static @W@ *order_@W@(@W@ *a, @W@ *b, int64_t n, int bits) {
    if (n <= 32) return insertion_@W@(a, n), a;
    if (bits <= 8) return radix_@W@(a, b, n, bits, 8, 1);
    if (bits <= 16) return radix_@W@(a, b, n, bits, 8, 2);
    int narrow = n < 1500 || n > 1 << 20;
    if (bits <= 32) return narrow ? radix_@W@(a, b, n, bits, 8, 4) : radix_@W@(a, b, n, bits, 11,
            3);
    return narrow ? radix_@W@(a, b, n, bits, 8, 8) : radix_@W@(a, b, n, bits, 11, 6);
}
"""

SORT = r"""
INLINE @K@ key_@D@(@U@ u) { return (@K@)@KEY@; }
/* the row as records in the order wanted */
static void records_@D@(const @U@ *restrict row, @W@ *restrict to, int64_t n, int descending) {
    @K@ flip = descending ? (@K@)(@U@)-1 : 0;
    for (int64_t i = 0; i < n; i++) to[i] = MAKE_@W@((@K@)(key_@D@(row[i]) ^ flip), i);
}

/* sort:@D@ p: values, positions (int64), self [rows, length]. n: rows, length, descending. A
 * driver. */
static void sort_rows_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t length = n[1];
    for (int64_t slot = begin; slot < end; slot++) {
        @W@ *a = (@W@ *)p[3] + slot * 2 * length;
        int64_t stop = (slot + 1) * n[0] / n[3];
        for (int64_t r = slot * n[0] / n[3]; r < stop; r++) {
            const @U@ *row = (const @U@ *)p[2] + r * length;
            @U@ *restrict values = (@U@ *)p[0] + r * length;
            int64_t *restrict positions = (int64_t *)p[1] + r * length;
            records_@D@(row, a, length, (int)n[2]);
            const @W@ *sorted = order_@W@(a, a + length, length, @BITS@);
            for (int64_t i = 0; i < length; i++) {
                positions[i] = POSITION_@W@(sorted[i]);
                values[i] = row[positions[i]];
            }
        }
    }
}

static int sort_@D@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    if (n[1] >= INT64_C(1) << 32) return 1;
    int64_t slots = MAX(1, MIN(n[0], n[0] * n[1] > 8192 ? rt->threads() : 1));
    char *scratch = rt->scratch(slots * 2 * n[1] * (int64_t)sizeof(@W@));
    if (!scratch) return 1;
    char *pointers[] = {p[0], p[1], p[2], scratch};
    int64_t sizes[] = {n[0], n[1], n[2], slots};
    rt->parallel(sort_rows_@D@, pointers, sizes, s, slots, 1);
    rt->release(scratch);
    return 0;
}
"""


OPERANDS = "3;0; w values @ n0*n1; w positions i64 n0*n1; r self @ n0*n1"


def unit(isa: Any) -> str:
    """Give the translation unit of the ordering kernels; the compiler's flags alone make it fit
    `isa`.
    """
    text = [PRELUDE, RADIX, fill(RECORD, W="word"), fill(RECORD, W="wide")]
    entries = []
    for dtype, (_, bits_type, bits, key) in KEYS.items():
        names: dict[str, object] = {
            "D": dtype,
            "U": bits_type,
            "K": "uint64_t" if bits == 64 else "uint32_t",
            "W": "wide" if bits == 64 else "word",
            "BITS": bits,
            "KEY": key,
        }
        text.append(fill(SORT, **names))
        entries.append((f"sort:{dtype}", "d", f"sort_{dtype}", declared(OPERANDS, dtype)))
        for part in (sort_select, sort_values):
            more_text, more = part.parts(dtype, names)
            text.append(more_text)
            entries += more
    return "".join(text) + table(entries)
