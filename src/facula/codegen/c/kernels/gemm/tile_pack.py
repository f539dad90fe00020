"""Packing: C text that brings operands of every dtype into words, rows and panels.

Takes a kind and a storage dtype; gives `<dtype>_copy_row`, `<dtype>_interleave` (neighbours along
the panel), `<dtype>_transpose` (neighbours along k) and `<dtype>_pack`, which chooses; `panel_room`, what
kernels say of panels that were packed ahead. Keeps true:
columns and elements beyond the operand are packed as zeros and never read.
"""

from dataclasses import dataclass

from facula.codegen.c.kernels.gemm.tile_kind import Kind, fill

__all__ = ["Storage", "pack_text", "panel_room", "storages"]


def panel_room(rows: str, columns: str, itemsize: int) -> str:
    """The bytes of the panels of a matrix, whatever the register tile, as an expression over sizes: those that
    `ops/matmul/prepacked.py` makes."""
    return f"({rows}+3)/4*4*(({columns}+63)/64*64)*{max(itemsize, 4)}"


@dataclass(frozen=True)
class Storage:
    """How elements of a dtype become words. `raw`: words are the elements' own bytes."""

    name: str
    element: str
    convert: str
    raw: bool


_BF16_TO_FLOAT = "float_of_bf16(x)"


def storages(kind: Kind) -> list[Storage]:
    """The element types that a kind packs, complex ones aside."""
    if kind.name == "f32":
        found = [Storage("f32", "float", "x", True), Storage("f16", "_Float16", "(float)x", False)]
        return [*found, Storage("bf16", "uint16_t", _BF16_TO_FLOAT, False)]
    if kind.name == "bf16":
        return [Storage("bf16", "uint16_t", "x", True)]
    if kind.name == "i8" and kind.group == 4:
        flipped = Storage("s8", "uint8_t", "(x ^ 0x80)", False)
        return [Storage("u8", "uint8_t", "x", True), flipped, Storage("i8", "uint8_t", "x", True)]
    if kind.name == "i8":
        cast = "(uint16_t)(int16_t)x" if kind.group == 2 else "(int32_t)x"
        return [Storage("u8", "uint8_t", cast, False), Storage("i8", "int8_t", cast, False)]
    return [Storage(kind.name, kind.word, "x", True)]


COMMON = r"""
INLINE float float_of_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

INLINE uint16_t bf16_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return x != x ? (bits >> 16 | 0x40) : rounded;
}
"""

# what a compiler for the same processor would write itself if it knew that the strides are large
PREFETCH = r"""
#define COPY_AHEAD 16 /* rows between the one that is copied and the one that is fetched */

/* asks for the cache lines of a row that is far from its neighbours, so that no stream finds it */
INLINE void prefetch_words(const void *row, long bytes)
{
    for (long at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)row + at, 0, 2);
}
"""

TEMPLATE = r"""
INLINE word $S_element($E x) { return (word)($CONVERT); }

/* `count` elements along k, the first in the lowest bits */
INLINE word $S_word(const $E *p, long step, long count)
{
#if GROUP == 1
    return $S_element(p[0]);
#else
    uint32_t bits = 0;
    UNROLL for (long g = 0; g < GROUP; g++)
        if (g < count) bits |= (uint32_t)$S_element(p[g * step]) << (32 / GROUP * g);
    return (word)bits;
#endif
}

NOINLINE void $S_copy_row(const char *source, long step, long elements, word *out)
{
    const $E *p = (const $E *)source;
    const long whole = elements / GROUP;
    if (step == 1 && $RAW)
        memcpy(out, p, whole * sizeof(word));
    else if (step == 1)
        for (long k = 0; k < whole; k++) out[k] = $S_word(p + k * GROUP, 1, GROUP);
    else
        for (long k = 0; k < whole; k++) out[k] = $S_word(p + k * GROUP * step, step, GROUP);
    if (elements % GROUP) out[whole] = $S_word(p + whole * GROUP * step, step, elements % GROUP);
}

INLINE void $S_interleave_row(const $E *p, long k_stride, long count, long width, word *out,
                              long out_width)
{
    for (long j = 0; j < width; j++) out[j] = $S_word(p + j, k_stride, count);
    for (long j = width; j < out_width; j++) out[j] = 0;
}

NOINLINE void $S_interleave(const char *source, long k_stride, long elements, long width, word *out,
                            long out_stride, long out_width)
{
    const $E *p = (const $E *)source;
    for (long k = 0; k < elements; k += GROUP, p += GROUP * k_stride, out += out_stride) {
        prefetch_words(p + COPY_AHEAD * k_stride, width * sizeof($E));
        if (k + GROUP > elements)
            $S_interleave_row(p, k_stride, elements - k, width, out, out_width);
        else if (width == NR)
            $S_interleave_row(p, k_stride, GROUP, NR, out, NR);
        else
            $S_interleave_row(p, k_stride, GROUP, width, out, out_width);
    }
}

/* neighbouring rows of A, transposed: tile i starts at row begin[i] and goes to out + i * pitch */
NOINLINE void $S_columns(const char *source, long k_stride, long elements, const long *begin,
                         const long *width, long tiles, word *out, long pitch)
{
    const $E *p = (const $E *)source;
    const long low = begin[0], high = begin[tiles - 1] + width[tiles - 1];
    for (long k = 0; k < elements; k += GROUP, p += GROUP * k_stride, out += A_WIDTH) {
        prefetch_words(p + COPY_AHEAD * k_stride + low, (high - low) * sizeof($E));
        for (long i = 0; i < tiles; i++)
            if (width[i] == A_WIDTH && k + GROUP <= elements)
                $S_interleave_row(p + begin[i], k_stride, GROUP, A_WIDTH, out + i * pitch, A_WIDTH);
            else
                $S_interleave_row(p + begin[i], k_stride, MIN(GROUP, elements - k), width[i],
                                  out + i * pitch, A_WIDTH);
    }
}

INLINE vec $S_load(const $E *p, long words)
{
    vec v = {0};
    if ($RAW && words == VECTOR) return *(const vec *)p;
    if (words == VECTOR)
        for (long i = 0; i < VECTOR; i++) ((word *)&v)[i] = $S_word(p + i * GROUP, 1, GROUP);
    else
        for (long i = 0; i < words; i++) ((word *)&v)[i] = $S_word(p + i * GROUP, 1, GROUP);
    return v;
}

/* rows of `elements` neighbours along k, j_stride apart, to [k][NR] */
NOINLINE void $S_transpose(const $E *p, long j_stride, long elements, long width, word *out)
{
    const long words = elements / GROUP, vectors = CEIL(width, VECTOR);
    for (long j = 0; j < NR; j += VECTOR)
        for (long k = 0; k < words; k += VECTOR) {
            vec m[VECTOR];
            const long height = MIN(VECTOR, words - k);
            if (j / VECTOR >= vectors) {
                for (long i = 0; i < height; i++) *(vec *)(out + (k + i) * NR + j) = (vec){0};
                continue;
            }
            if (height == VECTOR && j + VECTOR <= width)
                UNROLL for (long i = 0; i < VECTOR; i++)
                    m[i] = $S_load(p + (j + i) * j_stride + k * GROUP, VECTOR);
            else
                for (long i = 0; i < VECTOR; i++)
                    m[i] = j + i < width ? $S_load(p + (j + i) * j_stride + k * GROUP, height)
                                         : (vec){0};
            transpose(m);
            if (height == VECTOR)
                UNROLL for (long i = 0; i < VECTOR; i++) *(vec *)(out + (k + i) * NR + j) = m[i];
            else
                for (long i = 0; i < height; i++) *(vec *)(out + (k + i) * NR + j) = m[i];
        }
    if (elements % GROUP)
        for (long j = 0; j < NR; j++)
            out[words * NR + j] =
                j < width ? $S_word(p + j * j_stride + words * GROUP, 1, elements % GROUP) : 0;
}

/* a panel of B: element (k, j) at k * k_stride + j * j_stride, to [k][NR] */
NOINLINE void $S_pack(const char *source, long k_stride, long j_stride, long elements, long width,
                      int flags, word *out)
{
    const $E *p = (const $E *)source;
    if (j_stride == 1) {
        $S_interleave(source, k_stride, elements, width, out, NR, NR);
    } else if (k_stride == 1) {
        $S_transpose(p, j_stride, elements, width, out);
    } else
        for (long k = 0; k < elements; k += GROUP, p += GROUP * k_stride, out += NR)
            for (long j = 0; j < NR; j++)
                out[j] = j < width ? $S_word(p + j * j_stride, k_stride, MIN(GROUP, elements - k))
                                   : 0;
}
"""

# A complex product is a real one: rows [re, im] of A times B' = [[re, im], [-im, re]].
COMPLEX = r"""
NOINLINE void $S_copy_row(const char *source, long step, long elements, word *out)
{
    const word *p = (const word *)source;
    for (long k = 0; k < elements; k += 2, p += 2 * step) out[k] = p[0], out[k + 1] = p[1];
}

/* elements and width count real numbers, the strides complex ones; flags: 1 conj(A), 2 conj(B) */
NOINLINE void $S_pack(const char *source, long k_stride, long j_stride, long elements, long width,
                      int flags, word *out)
{
    const word *p = (const word *)source;
    const word a = flags & 1 ? -1 : 1, b = flags & 2 ? -1 : 1;
    for (long k = 0; k < elements; k += 2, p += 2 * k_stride, out += 2 * NR) {
        for (long j = 0; j < width; j += 2) {
            const word re = p[j * j_stride], im = b * p[j * j_stride + 1];
            out[j] = re, out[j + 1] = im;
            out[NR + j] = -a * im, out[NR + j + 1] = a * re;
        }
        for (long j = width; j < NR; j++) out[j] = out[NR + j] = 0;
    }
}
"""


def pack_text(kind: Kind) -> str:
    """Packing functions for every storage dtype of a kind."""
    parts = [COMMON, PREFETCH]
    for storage in storages(kind):
        values = {"S": storage.name, "E": storage.element, "CONVERT": storage.convert}
        parts.append(fill(TEMPLATE, RAW="1" if storage.raw else "0", **values))
    complex_name = {"f32": "c64", "f64": "c128"}.get(kind.name)
    if complex_name:
        parts.append(fill(COMPLEX, S=complex_name))
    return "\n".join(parts)
