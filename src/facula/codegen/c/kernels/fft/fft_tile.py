"""C for tiles of a Fourier transform: passes over them, and their way from and to memory.

Takes an instruction set and a dtype; gives functions on tiles, [place][part][lane]: a vector of real
parts, then one of imaginary parts, for every place. The lanes are separate transforms, so a pass
never moves anything between lanes (Stockham's order: results come out sorted, from one tile into
another). Keeps true: `transpose` and the pairs of shuffles are all that mixes lanes; rows that a
block lacks repeat its first one, which makes whole vectors safe to load and to store.
"""

from __future__ import annotations

from typing import NamedTuple

from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.fft.fft_butterfly import Butterfly
from facula.codegen.c.kernels.movement.storage import fill
from facula.ops.fft.plan import LARGEST_PRIME, PASSES

#: the passes that also take neighbours from memory, or give them to it
FUSED = (4, 8, 16)


class Kind(NamedTuple):
    """What a pass does beside its butterflies: factors after them, memory in a tile's place."""

    name: str
    turned: bool
    source: bool = False
    target: bool = False


KINDS = (
    Kind("turned", True),
    Kind("plain", False),
    Kind("first", True, source=True),
    Kind("only", False, source=True),
    Kind("last", False, target=True),
)

_TYPES = """
typedef @T@ vec_@s@ __attribute__((vector_size(@BYTES@), aligned(@ITEM@), may_alias));
typedef @INT@ mask_@s@ __attribute__((vector_size(@BYTES@)));
#define LOAD_@s@(p) (*(const vec_@s@ *)(p))
#define STORE_@s@(p, x) (*(vec_@s@ *)(p) = (x))

/* 2 @V@ numbers, real and imaginary parts in turn, as two vectors; and the other way */
#define SPLIT_@s@(low, high, re, im) \\
    const vec_@s@ re = __builtin_shuffle(low, high, (mask_@s@){@EVEN@}); \\
    const vec_@s@ im = __builtin_shuffle(low, high, (mask_@s@){@ODD@})
#define JOIN_@s@(re, im, low, high) \\
    const vec_@s@ low = __builtin_shuffle(re, im, (mask_@s@){@LOW@}); \\
    const vec_@s@ high = __builtin_shuffle(re, im, (mask_@s@){@HIGH@})
#define REVERSE_@s@(x) __builtin_shuffle(x, (mask_@s@){@BACK@})
"""

_EDGE = """
#define FUSED_@s@(r) @FUSED@
/* neighbours in memory: where place 0 is, the distance of places, factors of the parts */
typedef struct {
    @T@ *base;
    int64_t step;
    @T@ re, im;
} edge_@s@;
"""

_PASS = """
/* one pass of length @r@: x[q + s (p + m j)] to y[q + s (@r@ p + k)], factors w[p][k - 1] if m > 1 */
static void pass@r@_@KIND@_@s@(const @T@ *restrict x, @T@ *restrict y, const @T@ *w, int64_t m,
    int64_t s, edge_@s@ e)
{
    const int64_t from = @FROM@ * m * s, to = @TO@ * s;
    for (int64_t p = 0; p < m; p++, w += 2 * (@r@ - 1))
        for (int64_t q = 0; q < s; q++) {
            const @T@ *a = x + @FROM@ * (p * s + q);
            @T@ *b = y + @TO@ * (@r@ * p * s + q);
            __asm__("" : "+r"(w)); /* read factors where they are used: hoisted, they would spill */
            @BODY@
        }
}
"""

_PRIME = """
/* the same for any odd prime r: its roots stand before the factors */
static void pass_prime_@s@(const @T@ *restrict x, @T@ *restrict y, const @T@ *w, int64_t m,
    int64_t s, int64_t r)
{
    const int64_t half = r / 2, from = 2 * @V@ * m * s, to = 2 * @V@ * s;
    const @T@ *root = w;
    w += 2 * r;
    vec_@s@ sum[@HALF@][2], difference[@HALF@][2];
    for (int64_t at = 0; at < m * s; at++) {
        const int64_t p = at / s, q = at % s;
        const @T@ *a = x + 2 * @V@ * at, *turn = w + 2 * (r - 1) * p - 2;
        @T@ *b = y + 2 * @V@ * (r * p * s + q);
        const vec_@s@ re = LOAD_@s@(a), im = LOAD_@s@(a + @V@);
        vec_@s@ all_re = re, all_im = im;
        for (int64_t j = 0; j < half; j++) {
            const @T@ *one = a + (j + 1) * from, *other = a + (r - 1 - j) * from;
            all_re += sum[j][0] = LOAD_@s@(one) + LOAD_@s@(other);
            all_im += sum[j][1] = LOAD_@s@(one + @V@) + LOAD_@s@(other + @V@);
            difference[j][0] = LOAD_@s@(one) - LOAD_@s@(other);
            difference[j][1] = LOAD_@s@(one + @V@) - LOAD_@s@(other + @V@);
        }
        STORE_@s@(b, all_re), STORE_@s@(b + @V@, all_im);
        for (int64_t k = 1; k <= half; k++) {
            vec_@s@ even_re = re, even_im = im, odd_re = {0}, odd_im = {0};
            for (int64_t j = 0, t = k; j < half; j++) {
                even_re += sum[j][0] * root[2 * t], even_im += sum[j][1] * root[2 * t];
                odd_re += difference[j][0] * root[2 * t + 1];
                odd_im += difference[j][1] * root[2 * t + 1];
                if ((t += k) >= r) t -= r;
            }
            for (int side = 0; side < 2; side++) {
                const int64_t to_k = side ? r - k : k;
                const vec_@s@ u = side ? even_re - odd_im : even_re + odd_im;
                const vec_@s@ v = side ? even_im + odd_re : even_im - odd_re;
                const @T@ c = m > 1 ? turn[2 * to_k] : 1, d = m > 1 ? turn[2 * to_k + 1] : 0;
                STORE_@s@(b + to_k * to, u * c - v * d);
                STORE_@s@(b + to_k * to + @V@, u * d + v * c);
            }
        }
    }
}
"""

_TRANSFORM = """
/* all passes of a length; gives the tile (x or y) that has the result. Where neighbours are
 * transformed, `from` and `to` are memory that stands for the first and the last tile: x then need not
 * be filled, and where the result went to memory, it is NULL */
static @T@ *passes_@s@(const int64_t *steps, int64_t count, int64_t length, const @T@ *table,
    @T@ *x, @T@ *y, const edge_@s@ *from, const edge_@s@ *to)
{
    const int64_t none = 0;
    const edge_@s@ inside = {0};
    if (from && (!count || !FUSED_@s@(steps[0]))) {
        load_complex_@s@(x, from->base, &none, length, from->step, 1, 0, from->im);
        from = 0;
    }
    for (int64_t i = 0, s = 1, m = length; i < count; i++) {
        const int64_t r = steps[i];
        m /= r;
        @CASES@
        else {
            pass_prime_@s@(x, y, table, m, s, r);
            table += 2 * r;
        }
        if (m > 1) table += 2 * m * (r - 1);
        s *= r, from = 0;
        @T@ *kept = x;
        x = y, y = kept;
    }
    if (!to) return x;
    store_complex_@s@(x, to->base, &none, length, to->step, 1, 0, @V@, to->re, to->im);
    return 0;
}

/* how many numbers the passes read of their table */
static int64_t roots_@s@(const int64_t *steps, int64_t count, int64_t length)
{
    int64_t total = 0;
    for (int64_t i = 0, m = length; i < count; i++) {
        const int64_t r = steps[i];
        m /= r;
        total += (m > 1 ? 2 * m * (r - 1) : 0) + (@LISTED@ ? 0 : 2 * r);
    }
    return total;
}
"""

_TRANSPOSE = """
ALWAYS_INLINE void transpose_@s@(vec_@s@ *a)
{
    @STEPS@
}
"""

# `of[lane]` are the rows' offsets in elements, `step` is the distance of places, `ahead` that of the
# next block's rows, which are fetched: processors do not guess these
_MEMORY = """
/* @V@ rows of complex numbers into a tile, imaginary parts times `sign` */
static void load_complex_@s@(@T@ *tile, const @T@ *base, const int64_t *of, int64_t length,
    int64_t step, int64_t neighbours, int64_t ahead, @T@ sign)
{
    if (neighbours) {
        const @T@ *a = base + 2 * of[0];
        for (int64_t j = 0; j < length; j++, a += 2 * step, tile += 2 * @V@) {
            const vec_@s@ low = LOAD_@s@(a), high = LOAD_@s@(a + @V@);
            SPLIT_@s@(low, high, re, im);
            STORE_@s@(tile, re), STORE_@s@(tile + @V@, im * sign);
        }
    } else if (step == 1 && length >= @V@ / 2) {
        for (int64_t j = 0; j < length; j += @V@ / 2) {
            const int64_t at = j < length - @V@ / 2 ? j : length - @V@ / 2;
            vec_@s@ a[@V@];
            UNROLL for (int i = 0; i < @V@; i++) {
                __builtin_prefetch(base + 2 * (of[i] + at + ahead), 0, 2);
                a[i] = LOAD_@s@(base + 2 * (of[i] + at));
            }
            transpose_@s@(a);
            UNROLL for (int i = 0; i < @V@; i++)
                STORE_@s@(tile + 2 * @V@ * at + @V@ * i, a[i] * (i & 1 ? sign : (@T@)1));
        }
    } else {
        for (int64_t j = 0; j < length; j++, tile += 2 * @V@)
            for (int i = 0; i < @V@; i++) {
                tile[i] = base[2 * (of[i] + j * step)];
                tile[@V@ + i] = base[2 * (of[i] + j * step) + 1] * sign;
            }
    }
}

static void store_complex_@s@(const @T@ *tile, @T@ *base, const int64_t *of, int64_t length,
    int64_t step, int64_t neighbours, int64_t ahead, int64_t rows, @T@ real, @T@ imaginary)
{
    if (neighbours) {
        @T@ *a = base + 2 * of[0];
        for (int64_t j = 0; j < length; j++, a += 2 * step, tile += 2 * @V@) {
            const vec_@s@ re = LOAD_@s@(tile) * real, im = LOAD_@s@(tile + @V@) * imaginary;
            JOIN_@s@(re, im, low, high);
            STORE_@s@(a, low), STORE_@s@(a + @V@, high);
        }
    } else if (step == 1 && length >= @V@ / 2) {
        for (int64_t j = 0; j < length; j += @V@ / 2) {
            const int64_t at = j < length - @V@ / 2 ? j : length - @V@ / 2;
            vec_@s@ a[@V@];
            UNROLL for (int i = 0; i < @V@; i++)
                a[i] = LOAD_@s@(tile + 2 * @V@ * at + @V@ * i) * (i & 1 ? imaginary : real);
            transpose_@s@(a);
            UNROLL for (int i = 0; i < @V@; i++) {
                __builtin_prefetch(base + 2 * (of[i] + at + ahead), 0, 2);
                STORE_@s@(base + 2 * (of[i] + at), a[i]);
            }
        }
    } else {
        for (int64_t j = 0; j < length; j++, tile += 2 * @V@)
            for (int i = 0; i < rows; i++) {
                base[2 * (of[i] + j * step)] = tile[i] * real;
                base[2 * (of[i] + j * step) + 1] = tile[@V@ + i] * imaginary;
            }
    }
}

/* @V@ rows of real numbers into one part of a tile */
static void load_real_@s@(@T@ *tile, const @T@ *base, const int64_t *of, int64_t length,
    int64_t step, int64_t neighbours, int64_t ahead)
{
    if (neighbours) {
        for (int64_t j = 0; j < length; j++)
            STORE_@s@(tile + 2 * @V@ * j, LOAD_@s@(base + of[0] + j * step));
    } else if (step == 1 && length >= @V@) {
        for (int64_t j = 0; j < length; j += @V@) {
            const int64_t at = j < length - @V@ ? j : length - @V@;
            vec_@s@ a[@V@];
            UNROLL for (int i = 0; i < @V@; i++) {
                __builtin_prefetch(base + of[i] + at + ahead, 0, 2);
                a[i] = LOAD_@s@(base + of[i] + at);
            }
            transpose_@s@(a);
            UNROLL for (int i = 0; i < @V@; i++) STORE_@s@(tile + 2 * @V@ * (at + i), a[i]);
        }
    } else {
        for (int64_t j = 0; j < length; j++)
            for (int i = 0; i < @V@; i++) tile[2 * @V@ * j + i] = base[of[i] + j * step];
    }
}

static void store_real_@s@(const @T@ *tile, @T@ *base, const int64_t *of, int64_t length,
    int64_t step, int64_t neighbours, int64_t ahead, int64_t rows, @T@ scale)
{
    if (neighbours) {
        for (int64_t j = 0; j < length; j++)
            STORE_@s@(base + of[0] + j * step, LOAD_@s@(tile + 2 * @V@ * j) * scale);
    } else if (step == 1 && length >= @V@) {
        for (int64_t j = 0; j < length; j += @V@) {
            const int64_t at = j < length - @V@ ? j : length - @V@;
            vec_@s@ a[@V@];
            UNROLL for (int i = 0; i < @V@; i++) a[i] = LOAD_@s@(tile + 2 * @V@ * (at + i)) * scale;
            transpose_@s@(a);
            UNROLL for (int i = 0; i < @V@; i++) {
                __builtin_prefetch(base + of[i] + at + ahead, 0, 2);
                STORE_@s@(base + of[i] + at, a[i]);
            }
        }
    } else {
        for (int64_t j = 0; j < length; j++)
            for (int i = 0; i < rows; i++) base[of[i] + j * step] = tile[2 * @V@ * j + i] * scale;
    }
}
"""


def names_of(isa: Isa, dtype: str) -> dict[str, object]:
    """What the placeholders of all texts stand for."""
    item = 4 if dtype == "f32" else 8
    lanes = isa.vector_bytes // item
    each = range(lanes)

    def listed(values: list[int]) -> str:
        return ", ".join(map(str, values))

    return {
        "s": dtype,
        "T": "float" if item == 4 else "double",
        "INT": "int32_t" if item == 4 else "int64_t",
        "ITEM": item,
        "BYTES": isa.vector_bytes,
        "V": lanes,
        "HALF": LARGEST_PRIME // 2 + 1,
        "EVEN": listed([2 * i for i in each]),
        "ODD": listed([2 * i + 1 for i in each]),
        "LOW": listed([i // 2 + lanes * (i % 2) for i in each]),
        "HIGH": listed([i // 2 + lanes // 2 + lanes * (i % 2) for i in each]),
        "BACK": listed([lanes - 1 - i for i in each]),
        "FUSED": "(" + " || ".join(f"(r) == {r}" for r in FUSED) + ")",
        "LISTED": "(" + " || ".join(f"r == {r}" for r in PASSES) + ")",
    }


def _load(names: dict[str, object], j: int, memory: bool) -> list[str]:
    """Statements that make `x<j>r` and `x<j>i`, out of a tile or of neighbours in memory."""
    s, lanes = names["s"], names["V"]
    place = f"a + {j} * from"
    if not memory:
        return [
            f"const vec_{s} x{j}r = LOAD_{s}({place});",
            f"const vec_{s} x{j}i = LOAD_{s}({place} + {lanes});",
        ]
    return [
        f"const vec_{s} l{j} = LOAD_{s}({place}), h{j} = LOAD_{s}({place} + {lanes});",
        f"SPLIT_{s}(l{j}, h{j}, x{j}r, s{j}i);",
        f"const vec_{s} x{j}i = s{j}i * e.im;",
    ]


def _store(names: dict[str, object], k: int, re: str, im: str, memory: bool) -> list[str]:
    """Statements that store one result."""
    s, lanes = names["s"], names["V"]
    place = f"b + {k} * to"
    if not memory:
        return [f"STORE_{s}({place}, {re}), STORE_{s}({place} + {lanes}, {im});"]
    return [
        f"const vec_{s} y{k}r = {re} * e.re, y{k}i = {im} * e.im;",
        f"JOIN_{s}(y{k}r, y{k}i, l_{k}, h_{k});",
        f"STORE_{s}({place}, l_{k}), STORE_{s}({place} + {lanes}, h_{k});",
    ]


def _pass_text(names: dict[str, object], radix: int, kind: Kind) -> str:
    """The pass of one length and kind."""
    loads = [_load(names, j, kind.source) for j in range(radix)]
    body = Butterfly(str(names["T"]), f"vec_{names['s']}", loads)
    for k, (re, im) in body.outputs():
        if kind.turned and k:
            c, d = f"w[{2 * k - 2}]", f"w[{2 * k - 1}]"
            re, im = f"{re} * {c} - {im} * {d}", f"{re} * {d} + {im} * {c}"
        body.lines += _store(names, k, re, im, kind.target)
    tile, memory = f"(2 * {names['V']})", "(2 * e.step)"
    return fill(
        _PASS,
        **names,
        r=radix,
        KIND=kind.name,
        FROM=memory if kind.source else tile,
        TO=memory if kind.target else tile,
        BODY="\n            ".join(body.lines),
    )


def _case(s: object, radix: int) -> str:
    """The branch of `passes` that runs a pass of that length."""
    plain = f"pass{radix}_plain_{s}(x, y, table, 1, s, inside)"
    turned = f"pass{radix}_turned_{s}(x, y, table, m, s, inside)"
    if radix not in FUSED:
        return f"if (r == {radix}) {{\n            if (m > 1) {turned};\n            else {plain};\n        }}"
    return f"""if (r == {radix}) {{
            if (from && m > 1) pass{radix}_first_{s}(from->base, y, table, m, s, *from);
            else if (m > 1) {turned};
            else if (from) pass{radix}_only_{s}(from->base, y, table, 1, s, *from);
            else if (to) return pass{radix}_last_{s}(x, to->base, table, 1, s, *to), NULL;
            else {plain};
        }}"""


def _transpose_text(names: dict[str, object], lanes: int) -> str:
    """A lanes x lanes transpose: off-diagonal blocks change places, halving in size."""
    s, steps, half = names["s"], [], lanes // 2
    while half:
        low = ", ".join(str(lanes + i - half if i & half else i) for i in range(lanes))
        high = ", ".join(str(lanes + i if i & half else i + half) for i in range(lanes))
        for i in (i for i in range(lanes) if not i & half):
            one, two = f"a[{i}]", f"a[{i + half}]"
            steps.append(f"const vec_{s} p{half}_{i} = {one}, q{half}_{i} = {two};")
            pair = f"p{half}_{i}, q{half}_{i}"
            steps.append(f"{one} = __builtin_shuffle({pair}, (mask_{s}){{{low}}});")
            steps.append(f"{two} = __builtin_shuffle({pair}, (mask_{s}){{{high}}});")
        half //= 2
    return fill(_TRANSPOSE, **names, STEPS="\n    ".join(steps))


def tile_text(isa: Isa, dtype: str) -> str:
    """Everything that works on tiles of one dtype."""
    names = names_of(isa, dtype)
    cases = "\n        else ".join(_case(dtype, radix) for radix in PASSES)
    return "".join(
        [
            fill(_TYPES, **names),
            fill(_EDGE, **names),
            *(
                _pass_text(names, radix, kind)
                for radix in PASSES
                for kind in (KINDS if radix in FUSED else KINDS[:2])  # speed only: unused text
            ),
            fill(_PRIME, **names),
            _transpose_text(names, isa.vector_bytes // int(str(names["ITEM"]))),
            fill(_MEMORY, **names),
            fill(_TRANSFORM, **names, CASES=cases),
        ]
    )
