"""What the tile template is instantiated for: one `Kind` per accumulator and multiply-add.

Takes an instruction set; gives the kinds that it can run and the C configuration of each: word,
accumulator and vector types, tile shape, the multiply-add. Keeps true: a *word* is what one step of
k reads, `group` elements that are neighbours along k; everything above the micro-kernel counts in
words, so that f32, bf16 pairs and 8-bit quadruples share all code.
"""

import re
from dataclasses import dataclass

from facula.codegen.c.isa import Isa

__all__ = ["Kind", "configuration", "fill", "kinds"]


@dataclass(frozen=True)
class Kind:
    """`name` names the translation unit; `storages` are the tensor dtypes it serves."""

    name: str
    word: str
    accumulator: str
    group: int
    storages: tuple[str, ...]
    multiply_add: str
    convolves: bool = False

    @property
    def accumulator_name(self) -> str:
        """The dtype that the accumulator is, as kernels name it."""
        return {"float": "f32", "double": "f64", "int32_t": "i32", "int64_t": "i64"}[
            self.accumulator
        ]

    @property
    def word_bytes(self) -> int:
        """Bytes in a word."""
        return 8 if self.word in ("double", "int64_t") else 4


# acc += b * x, where $X is the value of A in every lane (a broadcast word or a vector)
PLAIN = "acc += (b) * (x)"
BF16_PAIRS = "acc = (acc_vec)_mm512_dpbf16_ps((__m512)(acc), (__m512bh)(b), (__m512bh)$X)"
BYTES_VNNI = "acc = (acc_vec)_mm512_dpbusd_epi32((__m512i)(acc), $X, (__m512i)(b))"
SHORT_PAIRS = {
    64: "acc += (acc_vec)_mm512_madd_epi16((__m512i)(b), $X)",
    32: "acc += (acc_vec)_mm256_madd_epi16((__m256i)(b), $X)",
    16: "acc += (acc_vec)_mm_madd_epi16((__m128i)(b), $X)",
}
BROADCAST = {64: "_mm512_set1_epi32(x)", 32: "_mm256_set1_epi32(x)", 16: "_mm_set1_epi32(x)"}
INTEGERS = {64: "(__m512i)(x)", 32: "(__m256i)(x)", 16: "(__m128i)(x)"}


def kinds(isa: Isa) -> list[Kind]:
    """The kinds of one instruction set; a dtype without an instruction converts while packing."""
    native = isa.has("bf16")
    halves = ("f16", "f16_f32") if native else ("f16", "f16_f32", "bf16", "bf16_f32")
    found = [
        Kind("f32", "float", "float", 1, ("f32", "c64", *halves), PLAIN, convolves=True),
        Kind("f64", "double", "double", 1, ("f64", "c128"), PLAIN, convolves=True),
        Kind("i32", "int32_t", "int32_t", 1, ("i32",), PLAIN),
        Kind("i64", "int64_t", "int64_t", 1, ("i64",), PLAIN),
    ]
    if native:
        pairs = ("bf16", "bf16_f32")
        found.append(Kind("bf16", "int32_t", "float", 2, pairs, BF16_PAIRS, convolves=True))
    if isa.has("vnni"):
        found.append(Kind("i8", "int32_t", "int32_t", 4, ("u8i8", "i8"), BYTES_VNNI))
    elif isa.architecture == "x86_64":
        multiply = SHORT_PAIRS[isa.vector_bytes]
        found.append(Kind("i8", "int32_t", "int32_t", 2, ("u8i8", "i8"), multiply))
    else:
        found.append(Kind("i8", "int32_t", "int32_t", 1, ("u8i8", "i8"), PLAIN))
    return found


def configuration(isa: Isa, kind: Kind) -> str:
    """The types and sizes that the rest of the unit is written in."""
    vector = isa.vector_bytes // kind.word_bytes
    vecs = 4 if isa.registers >= 32 else 2
    lane = "int64_t" if kind.word_bytes == 8 else "int32_t"
    broadcast, integers = BROADCAST[isa.vector_bytes], INTEGERS[isa.vector_bytes]
    include = "#include <immintrin.h>\n" if isa.architecture == "x86_64" else ""
    return f"""\
#include "facula_abi.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>
{include}
#define VECTOR {vector} /* words in a vector register */
#define VECS {vecs}
#define NR (VECS * VECTOR) /* columns of a tile */
#define MR 6 /* rows of a tile */
#define GROUP {kind.group} /* elements in a word */
#define REGISTERS {isa.registers}
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#define UNROLL _Pragma("GCC unroll 16")
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CEIL(a, b) (((a) + (b) - 1) / (b))

typedef {kind.word} word;
typedef {kind.accumulator} acc_t;
typedef word vec __attribute__((vector_size({isa.vector_bytes}), aligned({kind.word_bytes}), may_alias));
typedef acc_t acc_vec
    __attribute__((vector_size({isa.vector_bytes}), aligned({kind.word_bytes}), may_alias));
typedef {lane} lanes __attribute__((vector_size({isa.vector_bytes})));
#define MULTIPLY_ADD(acc, b, x) {kind.multiply_add.replace("$X", broadcast)}
#define MULTIPLY_ADD_VECTORS(acc, b, x) {kind.multiply_add.replace("$X", integers)}
{convert_text(isa, kind)}{transpose_text(vector)}{quad_text(vector)}"""


CONVERT_BF16 = r"""#define CONVERTS 1 /* tiles can store rounded results */
typedef uint16_t result_t;
/* A row of sums to bf16.  Sums of the instruction are never denormal, so nothing is lost here. */
INLINE void convert_row(result_t *to, const acc_vec *sums, const int vecs)
{
    UNROLL for (int v = 0; v + 2 <= vecs; v += 2)
        _mm512_storeu_si512(to + v * VECTOR, (__m512i)_mm512_cvtne2ps_pbh((__m512)sums[v + 1],
                                                                          (__m512)sums[v]));
    if (vecs % 2)
        _mm256_storeu_si256((__m256i *)(to + (vecs - 1) * VECTOR),
                            (__m256i)_mm512_cvtneps_pbh((__m512)sums[vecs - 1]));
}
"""


def convert_text(isa: Isa, kind: Kind) -> str:
    """The store of converted sums, where there is an instruction for it."""
    if kind.name == "bf16" and isa.vector_bytes == 64:
        return CONVERT_BF16
    return "#define CONVERTS 0\ntypedef acc_t result_t;\n"


def transpose_text(vector: int) -> str:
    """A `vector` x `vector` transpose in registers: blocks swap places, halving in size."""
    lines = ["INLINE void transpose(vec m[VECTOR])", "{"]
    half = vector // 2
    while half:
        low = ", ".join(str(vector + i - half if i & half else i) for i in range(vector))
        high = ", ".join(str(vector + i if i & half else i + half) for i in range(vector))
        lines += [
            "    UNROLL for (int i = 0; i < VECTOR; i++)",
            f"        if (!(i & {half})) {{",
            f"            const vec low = m[i], high = m[i + {half}];",
            f"            m[i] = __builtin_shuffle(low, high, (lanes){{{low}}});",
            f"            m[i + {half}] = __builtin_shuffle(low, high, (lanes){{{high}}});",
            "        }",
        ]
        half //= 2
    return "\n".join([*lines, "}", ""])


def quad_text(vector: int) -> str:
    """`add_quad`: the sums of the lanes of four vectors, by adding halves of two at a time."""
    half, quarter = vector // 2, vector // 4
    if not quarter:
        return ""
    halves = [(i // half, i % half) for i in range(vector)]
    pairs = [(i // (2 * quarter), i // quarter % 2, i % quarter) for i in range(vector)]
    masks = {
        "first": [v * vector + i for v, i in halves],
        "second": [v * vector + half + i for v, i in halves],
        "low": [v * vector + group * half + i for v, group, i in pairs],
        "high": [v * vector + group * half + quarter + i for v, group, i in pairs],
    }
    lines = ["INLINE void add_quad(const acc_vec v[4], acc_t *sums)", "{"]
    for name, mask in masks.items():
        lines.append(f"    const lanes {name} = {{{', '.join(map(str, mask))}}};")
    for name, one, two in (("a", "v[0]", "v[1]"), ("b", "v[2]", "v[3]")):
        shuffles = [f"__builtin_shuffle({one}, {two}, {mask})" for mask in ("first", "second")]
        lines.append(f"    const acc_vec {name} = {' + '.join(shuffles)};")
    shuffles = [f"__builtin_shuffle(a, b, {mask})" for mask in ("low", "high")]
    lines.append(f"    acc_vec c = {' + '.join(shuffles)};")
    while quarter > 1:
        quarter //= 2
        swapped = ", ".join(str(i ^ quarter) for i in range(vector))
        lines.append(f"    c += __builtin_shuffle(c, (lanes){{{swapped}}});")
    lines.append(f"    UNROLL for (int i = 0; i < 4; i++) sums[i] = c[i * {vector // 4}];")
    return "\n".join([*lines, "}", ""])


def fill(text: str, **values: str) -> str:
    """The text with each `$NAME` (capitals only) replaced."""
    return re.sub(r"\$([A-Z]+)", lambda match: values[match[1]], text)
