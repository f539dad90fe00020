"""Text shared by the structured templates: placeholders, storage dtypes and their conversion.

Takes: C text with `@name@` placeholders, and dtype short names. Gives: filled text, the C types of
a dtype, and inline C functions `load_<dtype>` and `store_<dtype>` between the storage and the
compute type.
Keeps true: f16 and bf16 are stored as `uint16_t`, computed in float and rounded to nearest even;
the conversions are branch-free integer arithmetic that a compiler vectorises on every instruction
set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PROLOGUE = """#include <stdint.h>
#include <string.h>
#include "facula_abi.h"
#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))
"""


@dataclass(frozen=True)
class Storage:
    """How a dtype lies in memory (`ctype`) and in which C type it is computed (`compute`)."""

    name: str
    ctype: str
    compute: str

    @property
    def is_half(self) -> bool:
        """Whether loads and stores convert."""
        return self.ctype != self.compute


STORAGES = {
    storage.name: storage
    for storage in (
        Storage("f32", "float", "float"),
        Storage("f64", "double", "double"),
        Storage("bf16", "uint16_t", "float"),
        Storage("f16", "uint16_t", "float"),
        Storage("i64", "int64_t", "int64_t"),
        Storage("i32", "int32_t", "int32_t"),
        Storage("u8", "uint8_t", "uint8_t"),
    )
}

_CONVERSIONS = {
    "bf16": """
ALWAYS_INLINE float load_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
ALWAYS_INLINE uint16_t store_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
""",
    "f16": """
ALWAYS_INLINE float load_f16(uint16_t x)
{
    uint32_t shifted = ((uint32_t)x & 0x7fffu) << 13, sign = ((uint32_t)x & 0x8000u) << 16;
    uint32_t bits;
    float value;
    memcpy(&value, &shifted, 4);
    value *= 0x1p112f; /* rebias the exponent; exact for subnormal numbers too */
    memcpy(&bits, &value, 4);
    bits |= sign | (shifted >= 0x0f800000u ? 0x7f800000u : 0u);
    memcpy(&value, &bits, 4);
    return value;
}
ALWAYS_INLINE uint16_t store_f16(float value)
{
    uint32_t bits, small_bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    float absolute, small;
    memcpy(&absolute, &magnitude, 4);
    small = absolute + 0.5f; /* aligns a subnormal result with the last mantissa bits */
    memcpy(&small_bits, &small, 4);
    uint32_t subnormal = small_bits - 0x3f000000u;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return (uint16_t)(result | sign);
}
""",
}


def conversions(*names: str) -> str:
    """C functions `load_<dtype>` and `store_<dtype>` for each dtype named."""
    text = []
    for name in names:
        storage = STORAGES[name]
        if storage.is_half:
            text.append(_CONVERSIONS[name])
        else:
            ctype = storage.ctype
            text.append(f"ALWAYS_INLINE {ctype} load_{name}({ctype} x) {{ return x; }}\n")
            text.append(f"ALWAYS_INLINE {ctype} store_{name}({ctype} x) {{ return x; }}\n")
    return "".join(text)


def fill(text: str, **values: object) -> str:
    """`text` with every `@name@` replaced; a placeholder without a value is a KeyError."""
    return re.sub(r"@(\w+)@", lambda match: str(values[match.group(1)]), text)
