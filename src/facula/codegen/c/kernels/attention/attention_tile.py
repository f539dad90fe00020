"""Vectors, 2**x and register-tiled products for the attention kernels, as C text.

Takes: a `Flavour`, that is a dtype on an instruction set. Gives: C functions named by the dtype:
`larger`, `power`, and `product`, which multiplies rows given by two strides with packed columns.
Keeps true: sums are in the compute type; a bf16 product takes pairs along its depth where the
instruction set has that dot product, and is the f32 product of converted values elsewhere.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from facula.codegen.c.kernels.movement.storage import Storage, fill

QUERY_BLOCK = 64
KEY_BLOCK = 384  # a multiple of the tile height (6)
# keys whose maximum stands in for that of all later ones, a multiple of the tile height
FIRST_KEYS = 96
# up to so many queries, dot products along the depth beat tiles of queries
FEW_QUERIES = 6

# 2**x on [-0.5, 0.5], ascending powers: minimax in float (relative error 2e-9), Taylor in double
_EXP2 = (
    1.0,
    6.93147203e-1,
    2.40226479e-1,
    5.55033247e-2,
    9.61843736e-3,
    1.33988746e-3,
    1.53533621e-4,
)


def _taylor(order: int) -> tuple[float, ...]:
    """Coefficients of 2**x around zero."""
    log2 = 0.6931471805599453094
    values = [1.0]
    for power in range(1, order + 1):
        values.append(values[-1] * log2 / power)
    return tuple(values)


@dataclass(frozen=True)
class Flavour:
    """One dtype on one instruction set: its types, lanes, and whether products take pairs."""

    storage: Storage
    vector_bytes: int
    registers: int
    pairs: bool

    @property
    def lanes(self) -> int:
        """Compute elements in a vector."""
        return self.vector_bytes // (8 if self.storage.compute == "double" else 4)

    @property
    def names(self) -> dict[str, object]:
        """The placeholders of the C text."""
        double = self.storage.compute == "double"
        element = "uint16_t" if self.pairs else self.storage.compute
        return {
            "s": self.storage.name,
            "STORAGE": self.storage.ctype,
            "COMPUTE": self.storage.compute,
            "ELEMENT": element,
            "INTEGER": "int64_t" if double else "int32_t",
            "VB": self.vector_bytes,
            "LANES": self.lanes,
            "PAIR": 2 if self.pairs else 1,
            "Q": QUERY_BLOCK,
            "K": KEY_BLOCK,
            "FIRST": FIRST_KEYS,
            "FEW": FEW_QUERIES,
            "c": "f64" if double else "f32",
        }


_VECTOR = """
typedef @COMPUTE@ vector_@s@ __attribute__((vector_size(@VB@), may_alias));
typedef @COMPUTE@ unaligned_@s@ __attribute__((vector_size(@VB@), aligned(2), may_alias));
typedef @INTEGER@ integer_@s@ __attribute__((vector_size(@VB@), may_alias));
#define LOAD_@s@(p) ((vector_@s@)*(const unaligned_@s@ *)(p))
#define STORE_@s@(p, v) (*(unaligned_@s@ *)(p) = (unaligned_@s@)(v))

ALWAYS_INLINE vector_@s@ splat_@s@(@COMPUTE@ x) { return (vector_@s@){@COPIES@}; }

/* the larger of x and y; y where x is not a number */
ALWAYS_INLINE vector_@s@ larger_@s@(vector_@s@ x, vector_@s@ y)
{
@LARGER@
}

/* the smaller of x and y; y where x is not a number */
ALWAYS_INLINE vector_@s@ smaller_@s@(vector_@s@ x, vector_@s@ y)
{
@SMALLER@
}
"""

# neighbours in memory, as many as a vector of the columns that products read
_CELLS = {
    False: """
ALWAYS_INLINE vector_@s@ cells_@s@(const @STORAGE@ *p)
{
    @COMPUTE@ values[@LANES@];
    for (int i = 0; i < @LANES@; i++) values[i] = load_@s@(p[i]);
    return LOAD_@s@(values);
}
""",
    True: """
ALWAYS_INLINE vector_@s@ cells_@s@(const @STORAGE@ *p) { return LOAD_@s@(p); }
""",
}

_EXPONENTIAL = {
    "float": """
/* 2**x for x from -127, whose power is exactly zero, to 127; keeps NaN */
ALWAYS_INLINE vector_@s@ power_within_@s@(vector_@s@ x)
{
    vector_@s@ shifted = x + 12583039.0f; /* 1.5 * 2**23 + 127: rounds,
        with the biased exponent in the low bits */
    vector_@s@ r = x - (shifted - 12583039.0f);
    vector_@s@ y = splat_@s@(@TOP@);
@HORNER@
    return y * (vector_@s@)((integer_@s@)shifted << 23);
}
""",
    "table": """
static const int32_t root_table_@s@[32] __attribute__((aligned(64))) = {@ROOTS@};

/* 2**x for x from -127, whose power is exactly zero, to 127, about 2e-7 relative; keeps NaN.
 * Half the multiplications of a polynomial on [-1/2, 1/2]: x is n/32 + r, and the roots stand in
 * two registers, less what their own n << 18 adds to the exponent. */
ALWAYS_INLINE vector_@s@ power_within_@s@(vector_@s@ x)
{
    integer_@s@ low = *(const integer_@s@ *)root_table_@s@;
    integer_@s@ high = *(const integer_@s@ *)(root_table_@s@ + 16);
    vector_@s@ shifted = x + 393216.0f; /* 1.5 * 2**18: rounds to n, in the low bits */
    vector_@s@ r = x - (shifted - 393216.0f);
    integer_@s@ n = (integer_@s@)shifted;
    vector_@s@ root = (vector_@s@)(__builtin_shuffle(low, high, n) + (n << 18));
    return (root * r) * (r * @SQUARE@ + @LINEAR@) + root;
}
""",
    "double": """
/* 2**x for x from -1023, whose power is exactly zero, to 1023; keeps NaN */
ALWAYS_INLINE vector_@s@ power_within_@s@(vector_@s@ x)
{
    vector_@s@ shifted = x + 6755399441056767.0; /* 1.5 * 2**52 + 1023 */
    vector_@s@ r = x - (shifted - 6755399441056767.0);
    vector_@s@ y = splat_@s@(@TOP@);
@HORNER@
    return y * (vector_@s@)((integer_@s@)shifted << 52);
}
""",
}

_POWER = """
/* 2**x for x <= 0, exactly zero below 2**-@LOW@; keeps NaN */
ALWAYS_INLINE vector_@s@ power_@s@(vector_@s@ x)
{
    return power_within_@s@(larger_@s@(splat_@s@(-@LOW@), x));
}

/* 2**x, at most 2**127, exactly zero below 2**-@LOW@; 2**127 or NaN where x is not a number */
ALWAYS_INLINE vector_@s@ bounded_power_@s@(vector_@s@ x)
{
    return power_within_@s@(@BOUNDED@);
}
"""

_BOUNDED = "smaller_@s@(splat_@s@(127), larger_@s@(splat_@s@(-@LOW@), x))"
# the sign of x and the lesser magnitude: both bounds in one instruction
_RANGE = "(vector_@s@)_mm512_range_ps((__m512)x, _mm512_set1_ps(127), 2)"

_MICRO = """
/* c[@ROWS@][@VECTORS@ vectors] (+)= a[@ROWS@][depth] * b[depth][@VECTORS@ vectors], a by row and
 * depth strides */
static void tile_@s@_@ROWS@x@VECTORS@(const @ELEMENT@ *restrict a, int64_t row_stride,
    int64_t depth_stride,
    const @ELEMENT@ *restrict b, int64_t b_stride, @COMPUTE@ *restrict c, int64_t c_stride,
        int64_t depth, int accumulate)
{
    vector_@s@ @SUMS@;
    for (int64_t k = 0; k < depth; k++, a += depth_stride, b += b_stride) {
        column_@s@ left, @RIGHTS@;
@STEPS@
    }
    if (accumulate) {
@ADD@
    }
@STORE@
}
"""

_WEIGH = """
/* weights[@ROWS@][@VECTORS@ vectors] = 2**(scale * a * b - maximum), added to total: the scores
 * never leave the registers */
static void weigh_@s@_@ROWS@x@VECTORS@(const @ELEMENT@ *restrict a, int64_t row_stride,
    const @ELEMENT@ *restrict b, @ELEMENT@ *restrict weights, int64_t depth, @COMPUTE@ scale,
    const @COMPUTE@ *restrict maximum, @COMPUTE@ *restrict total)
{
    vector_@s@ @SUMS@;
    for (int64_t k = 0; k < depth; k++, a += @PAIR@, b += @Q@ * @PAIR@) {
        column_@s@ left, @RIGHTS@;
@STEPS@
    }
@WEIGHTS@
}
"""

_COLUMN = {
    False: """
typedef vector_@s@ column_@s@;
ALWAYS_INLINE column_@s@ column_load_@s@(const @ELEMENT@ *p) { return LOAD_@s@(p); }
ALWAYS_INLINE column_@s@ column_splat_@s@(const @ELEMENT@ *p) { return splat_@s@(*p); }
ALWAYS_INLINE vector_@s@ column_fma_@s@(vector_@s@ c, column_@s@ a, column_@s@ b) {
    return c + a * b; }
""",
    True: """
typedef __m512i column_@s@;
ALWAYS_INLINE column_@s@ column_load_@s@(const @ELEMENT@ *p) { return _mm512_loadu_si512(p); }
ALWAYS_INLINE column_@s@ column_splat_@s@(const @ELEMENT@ *p)
{
    int pair;
    memcpy(&pair, p, 4);
    return _mm512_set1_epi32(pair);
}
ALWAYS_INLINE vector_@s@ column_fma_@s@(vector_@s@ c, column_@s@ a, column_@s@ b)
{
    return (vector_@s@)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
}
/* two rows of floats as pairs of bf16: lane i holds (low[i], high[i]) */
ALWAYS_INLINE void column_store_@s@(@ELEMENT@ *p, vector_@s@ low, vector_@s@ high)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
        24, 8,
                                           23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, both));
}
""",
}

_PRODUCT = """
/* c[rows][width] (+)= a[rows][depth] * b[depth][width]; width a multiple of the vector, depth in
 * pairs for bf16 */
static void product_@s@(const @ELEMENT@ *a, int64_t row_stride, int64_t depth_stride,
    const @ELEMENT@ *b,
    int64_t b_stride, @COMPUTE@ *c, int64_t c_stride, int64_t rows, int64_t depth, int64_t width,
        int accumulate)
{
    int64_t column = 0;
@PRODUCTS@
}
"""

_PANEL = """    for (; column + @WIDTH@ <= width; column += @WIDTH@) {
        int64_t row = 0;
@STEPS@    }
"""

_STEP = """        for (; row + @ROWS@ <= rows; row += @ROWS@)
            tile_@s@_@ROWS@x@VECTORS@(a + row * row_stride, row_stride, depth_stride, b + column
                * @PAIR@, b_stride,
                c + row * c_stride + column, c_stride, depth, accumulate);
"""


_WEIGH_ALL = """
/* weights[count][@Q@] of all keys relative to a maximum of earlier ones; whether none is too large
 * for that, else total is as before and the weights are void */
static int weigh_@s@(const @ELEMENT@ *keys, int64_t row_stride, const @ELEMENT@ *columns,
    @ELEMENT@ *weights, int64_t count, int64_t depth, int64_t width, @COMPUTE@ scale,
    const @COMPUTE@ *maximum, @COMPUTE@ *total)
{
    @COMPUTE@ before[@Q@];
    int64_t column = 0;
    int small = 1;
    memcpy(before, total, sizeof(before));
@WEIGHTS@
    for (int64_t lane = 0; lane < width; lane++) small &= total[lane] <= (@COMPUTE@)0x1p64;
    if (!small) memcpy(total, before, sizeof(before));
    return small;
}
"""

_WEIGH_STEP = """        for (; row + @ROWS@ <= count; row += @ROWS@)
            weigh_@s@_@ROWS@x@VECTORS@(keys + row * row_stride, row_stride, columns + column
                * @PAIR@, weights + row * @Q@ + column * @PAIR@, depth, scale, maximum + column,
                total + column);
"""


def _transpose(flavour: Flavour) -> str:
    """A square of vectors transposed in registers: blocks swap places, halving in size."""
    lanes, half, steps = flavour.lanes, flavour.lanes // 2, []
    while half:
        low = ", ".join(str(lanes + i - half if i & half else i) for i in range(lanes))
        high = ", ".join(str(lanes + i if i & half else i + half) for i in range(lanes))
        steps.append(
            f"    UNROLL for (int i = 0; i < {lanes}; i++)\n        if (!(i & {half})) {{\n"
            f"            vector_@s@ low = m[i], high = m[i + {half}];\n"
            f"            m[i] = __builtin_shuffle(low, high, (integer_@s@){{{low}}});\n"
            f"            m[i + {half}] = __builtin_shuffle(low, high, (integer_@s@){{{high}}});\n"
            "        }\n"
        )
        half //= 2
    text = f"\nALWAYS_INLINE void transpose_@s@(vector_@s@ m[{lanes}])\n{{\n{''.join(steps)}}}\n"
    return fill(text, s=flavour.storage.name)


def _choice(flavour: Flavour, function: str, comparison: str) -> str:
    """The body of `larger` or `smaller`: one instruction on x86, a comparison elsewhere."""
    suffix = "d" if flavour.storage.compute == "double" else "s"
    if flavour.vector_bytes == 16:
        kind = "__m128d" if suffix == "d" else "__m128"
        intrinsic = f"_mm_{function}_p{suffix}"
    else:
        bits = flavour.vector_bytes * 8
        kind = f"__m{bits}d" if suffix == "d" else f"__m{bits}"
        intrinsic = f"_mm{bits}_{function}_p{suffix}"
    return fill(
        "#if defined(__x86_64__)\n    return (vector_@s@)@FN@((@KIND@)x, (@KIND@)y);\n#else\n"
        "    integer_@s@ mask = x @COMPARISON@ y;\n"
        "    return (vector_@s@)(((integer_@s@)x & mask) | ((integer_@s@)y & ~mask));\n#endif",
        s=flavour.storage.name,
        FN=intrinsic,
        KIND=kind,
        COMPARISON=comparison,
    )


def _exponential(flavour: Flavour) -> str:
    """C text of `power`, with the polynomial that the dtype needs, and of `bounded_power`."""
    double, wide = flavour.storage.compute == "double", flavour.vector_bytes == 64
    names = {"s": flavour.storage.name, "LOW": "1023" if double else "127"}
    bounded = fill(_BOUNDED if double or not wide else _RANGE, **names)
    if wide and not double:
        text = _table_exponential(flavour)
    else:
        text = _polynomial_exponential(flavour)
    return text + fill(_POWER, BOUNDED=bounded, **names)


def _polynomial_exponential(flavour: Flavour) -> str:
    """C text of `power_within` by a polynomial of the distance to the nearest integer."""
    compute = flavour.storage.compute
    coefficients = _taylor(13) if compute == "double" else _EXP2
    suffix = "" if compute == "double" else "f"
    steps = "\n".join(
        f"    y = y * r + {value!r}{suffix};" for value in reversed(coefficients[:-1])
    )
    top = f"{coefficients[-1]!r}{suffix}"
    return fill(_EXPONENTIAL[compute], TOP=top, HORNER=steps, s=flavour.storage.name)


def _table_exponential(flavour: Flavour) -> str:
    """C text of `power_within` by a table of 32 roots, and 2**r - 1 as r * (linear + square * r).

    Of the cubic term c * r**3, the line 3/4 * c * h**2 * r takes all but c * h**3 / 4 = 5e-8 on
    [-h, h] (Chebyshev).
    """
    roots = []
    for index in range(32):
        (bits,) = struct.unpack("<i", struct.pack("<f", 2 ** (index / 32)))
        roots.append(str(bits - (index << 18)))
    half, (_, linear, square, cubic) = 1 / 64, _taylor(3)
    return fill(
        _EXPONENTIAL["table"],
        ROOTS=", ".join(roots),
        SQUARE=f"{square!r}f",
        LINEAR=f"{linear + 0.75 * cubic * half**2!r}f",
        s=flavour.storage.name,
    )


def _micro(flavour: Flavour, rows: int, vectors: int) -> str:
    """Register tiles, written out: compilers keep named values in registers, arrays not always."""
    places = [(i, j) for i in range(rows) for j in range(vectors)]
    steps = []
    for i in range(rows):
        steps.append(f"        left = column_splat_@s@(a + {i} * row_stride);")
        steps += [
            f"        sum{i}{j} = column_fma_@s@(sum{i}{j}, left, right{j});"
            for j in range(vectors)
        ]
    at = {(i, j): f"c + {i} * c_stride + {j} * @LANES@" for i, j in places}
    parts = {
        "SUMS": ", ".join(f"sum{i}{j} = {{}}" for i, j in places),
        "RIGHTS": ", ".join(
            f"right{j} = column_load_@s@(b + {j} * @LANES@ * @PAIR@)" for j in range(vectors)
        ),
        "STEPS": "\n".join(steps),
        "ADD": "\n".join(f"        sum{i}{j} += LOAD_@s@({at[i, j]});" for i, j in places),
        "STORE": "\n".join(f"    STORE_@s@({at[i, j]}, sum{i}{j});" for i, j in places),
        "WEIGHTS": "\n".join(_weights(flavour, rows, j) for j in range(vectors)),
    }
    names = {key: str(value) for key, value in flavour.names.items()}
    filled = {key: fill(value, **names) for key, value in parts.items()}
    return fill(_MICRO + _WEIGH, ROWS=rows, VECTORS=vectors, **filled, **names)


def _weights(flavour: Flavour, rows: int, j: int) -> str:
    """What becomes of the sums of a tile's vector of queries."""
    lines = [f"    vector_@s@ most{j} = LOAD_@s@(maximum + {j} * @LANES@);"]
    for i in range(rows):
        lines.append(f"    sum{i}{j} = bounded_power_@s@(sum{i}{j} * scale - most{j});")
        place = f"weights + {i} * @Q@ + {j} * @LANES@ * @PAIR@"
        if not flavour.pairs:
            lines.append(f"    STORE_@s@({place}, sum{i}{j});")
        elif i % 2 == 1:
            lines.append(f"    column_store_@s@({place} - @Q@, sum{i - 1}{j}, sum{i}{j});")
        elif i == rows - 1:
            lines.append(f"    column_store_@s@({place}, sum{i}{j}, (vector_@s@){{}});")
    added = " + ".join(f"sum{i}{j}" for i in range(rows))
    place = f"total + {j} * @LANES@"
    lines.append(f"    STORE_@s@({place}, LOAD_@s@({place}) + ({added}));")
    return "\n".join(lines)


def _products(flavour: Flavour) -> str:
    """The register tiles, and the loops over them: the widest panels first, then narrower ones."""
    heights = {4: (6, 4, 2, 1), 2: (12, 4, 2, 1), 1: (12, 4, 2, 1)}
    if flavour.registers < 32:
        heights = {2: (6, 4, 2, 1), 1: (12, 4, 2, 1)}
    tiles = [_micro(flavour, count, vectors) for vectors, rows in heights.items() for count in rows]
    panels: dict[str, list[str]] = {"PRODUCTS": [], "WEIGHTS": []}
    for vectors, rows in heights.items():
        for name, step in (
            ("PRODUCTS", _STEP),
            ("WEIGHTS", _WEIGH_STEP),
        ):
            steps = [fill(step, ROWS=count, VECTORS=vectors, **flavour.names) for count in rows]
            panels[name].append(fill(_PANEL, WIDTH=vectors * flavour.lanes, STEPS="".join(steps)))
    filled = {name: "".join(texts) for name, texts in panels.items()}
    return "".join(tiles) + fill(_PRODUCT + _WEIGH_ALL, **filled, **flavour.names)


def text(flavour: Flavour) -> str:
    """Vectors, `larger`, `power` and `product` of one dtype."""
    return "".join(
        (
            fill(
                _VECTOR,
                LARGER=_choice(flavour, "max", ">"),
                SMALLER=_choice(flavour, "min", "<"),
                COPIES=", ".join("x" * flavour.lanes),
                **flavour.names,
            ),
            _transpose(flavour),
            fill(_CELLS[flavour.pairs], **flavour.names),
            _exponential(flavour),
            fill(_COLUMN[flavour.pairs], **flavour.names),
            _products(flavour),
        )
    )
