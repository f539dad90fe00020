"""Shared C text of the data-movement templates (index, sort, join, arrange).

Takes nothing; gives the prelude, and the element types by size and by dtype.
Keeps true: all text is plain C11 with GCC attributes, every function is static, and kernels that
only move data exist
once per element size (b1 b2 b4 b8 b16), those that calculate once per dtype.
"""

from __future__ import annotations

#: element types by size; operands of such a kernel may have any dtype of the size
SIZES: dict[str, str] = {
    "b1": "uint8_t",
    "b2": "uint16_t",
    "b4": "uint32_t",
    "b8": "uint64_t",
    "b16": "pair64",
}

ARITHMETIC: dict[str, str] = {
    "f32": "float",
    "f64": "double",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
    "u8": "uint8_t",
}

#: what compares takes these as they are; sums and products have the bits of the signed ones
UNSIGNED: dict[str, str] = {"u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t"}

COMPLEX: dict[str, str] = {"c64": "complex64", "c128": "complex128"}

PRELUDE = r"""
#include "facula_abi.h"

typedef struct { uint64_t low, high; } pair64;
typedef struct { float re, im; } complex64;
typedef struct { double re, im; } complex128;
#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* a row of bytes; the usual short rows are single moves instead of a call */
INLINE void copy_bytes(char *restrict to, const char *restrict from, int64_t bytes) {
    switch (bytes) {
    case 4: __builtin_memcpy(to, from, 4); return;
    case 8: __builtin_memcpy(to, from, 8); return;
    case 16: __builtin_memcpy(to, from, 16); return;
    case 32: __builtin_memcpy(to, from, 32); return;
    case 64: __builtin_memcpy(to, from, 64); return;
    default: __builtin_memcpy(to, from, (uint64_t)bytes);
    }
}
"""

# Rows that go to memory larger than the last-level cache bypass it: no read of the line that is
# about to be overwritten.
STREAM = r"""
#if defined(__AVX512F__)
typedef float stream_vector __attribute__((vector_size(64), may_alias, aligned(4)));
#define STREAM(to, v) __builtin_ia32_movntps512((float *)(to), (v))
#elif defined(__AVX__)
typedef float stream_vector __attribute__((vector_size(32), may_alias, aligned(4)));
#define STREAM(to, v) __builtin_ia32_movntps256((float *)(to), (v))
#elif defined(__SSE__)
typedef float stream_vector __attribute__((vector_size(16), may_alias, aligned(4)));
#define STREAM(to, v) __builtin_ia32_movntps((float *)(to), (v))
#endif
#ifdef STREAM
#define STREAM_FENCE() __builtin_ia32_sfence()
static void stream_bytes(char *restrict to, const char *restrict from, int64_t bytes) {
    int64_t width = (int64_t)sizeof(stream_vector);
    int64_t head = MIN((int64_t)(-(uintptr_t)to & (uintptr_t)(width - 1)), bytes);
    if (head) __builtin_memcpy(to, from, (uint64_t)head);
    int64_t i = head;
    for (; i + width <= bytes; i += width) STREAM(to + i, *(const stream_vector *)(from + i));
    if (i < bytes) __builtin_memcpy(to + i, from + i, (uint64_t)(bytes - i));
}
#else
#define STREAM_FENCE() ((void)0)
#define stream_bytes copy_bytes
#endif
/* outputs from this size on do not stay in any cache */
#define STREAM_FROM (48LL << 20)
"""


def fill(text: str, **values: object) -> str:
    """Replace each `@NAME@` in C text by a value."""
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def width(size: str) -> str:
    """How a kernel's registration says `any dtype of this size`: b4 is x4 there."""
    return size.replace("b", "x")
