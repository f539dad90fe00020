"""Text of the loop generators: C types, loads and stores by storage dtype, fold operations,
expressions.

Takes: short dtype names and scalar expressions.
Gives: the C fragments that `reduction`, `rowwise`, `scan` and `multi_tensor` put into their loops.
Keeps true: half-precision values are converted by integer arithmetic, so that every loop vectorises
on every instruction set; bf16 and f16 stores round to nearest even and keep NaN.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from facula.codegen.c.math.library import SLOW

#: C type of a value in registers
C_TYPES = {"f32": "float", "f64": "double", "i64": "int64_t", "i32": "int32_t", "b8": "_Bool"}
#: C type of a buffer's numbers
STORED = {
    "f32": "float", "f64": "double", "bf16": "uint16_t", "f16": "uint16_t", "i64": "int64_t",
    "i32": "int32_t", "i16": "int16_t", "i8": "int8_t", "u8": "uint8_t", "b8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "c64": "float", "c128": "double",
}  # fmt: skip
SIZE = {
    "f32": 4,
    "f64": 8,
    "bf16": 2,
    "f16": 2,
    "i64": 8,
    "i32": 4,
    "u8": 1,
    "b8": 1,
    "i16": 2,
    "i8": 1,
}

INFINITY_TEXT = {
    "f32": "__builtin_inff()", "f64": "__builtin_inf()",
    "i32": "INT32_MAX", "i64": "INT64_MAX", "b8": "1",
}  # fmt: skip
LOWEST_TEXT = {
    "f32": "-__builtin_inff()", "f64": "-__builtin_inf()",
    "i32": "INT32_MIN", "i64": "INT64_MIN", "b8": "0",
}  # fmt: skip

#: conversions of half-precision values, as text that every unit starts with
HALF_HELPERS = """\
static inline float fk_load_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}
static inline uint16_t fk_store_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? (bits >> 16) | 0x40u : rounded);
}
static inline float fk_load_f16(uint16_t bits)
{   /* the exponent is rebiased by a multiplication, which also makes subnormals right */
    uint32_t wide = (uint32_t)(bits & 0x7FFFu) << 13;
    float magnitude;
    memcpy(&magnitude, &wide, 4);
    magnitude *= 0x1p112f;
    uint32_t out;
    memcpy(&out, &magnitude, 4);
    out |= (bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;
    out |= (uint32_t)(bits & 0x8000u) << 16;
    float value;
    memcpy(&value, &out, 4);
    return value;
}
static inline uint16_t fk_store_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    float absolute;
    memcpy(&absolute, &magnitude, 4);
    float shifted = absolute + 0.5f; /* subnormal halves: the last place of 0.5 is 2**-24 */
    uint32_t small;
    memcpy(&small, &shifted, 4);
    small -= 0x3F000000u;
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t large = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
    uint32_t out = magnitude < 0x38800000u ? small : normal;
    return (uint16_t)(sign | (magnitude >= 0x47800000u ? large : out));
}
"""


def load(code: str, dtype: str, text: str) -> str:
    """An element as it is computed with."""
    if dtype == "b8":
        return f"{text} != 0"
    held = STORED[code]
    if code in ("bf16", "f16"):
        text, held = f"fk_load_{code}({text})", "float"
    return text if held == C_TYPES[dtype] else f"({C_TYPES[dtype]}){text}"


def store(code: str, dtype: str, text: str) -> str:
    """A value as it is stored."""
    if code in ("bf16", "f16"):
        return f"fk_store_{code}({text})"
    return text if STORED[code] == C_TYPES[dtype] else f"({STORED[code]})({text})"


@dataclass(frozen=True, slots=True)
class FoldText:
    """How a fold is started and continued in C."""

    start: str
    step: str  # over {a} (so far) and {b} (next)


def fold_text(operation: str, dtype: str) -> FoldText:
    """The fold `operation` for values of `dtype`."""
    floating = dtype in ("f32", "f64")
    if operation == "sum":
        return FoldText("0", "{a} + {b}" if floating else "({t})(({u}){a} + ({u}){b})")
    if operation == "prod":
        return FoldText("1", "{a} * {b}" if floating else "({t})(({u}){a} * ({u}){b})")
    sign, start = (">", LOWEST_TEXT) if operation == "max" else ("<", INFINITY_TEXT)
    step = (
        f"({{b}} {sign} {{a}}) | ({{b}} != {{b}}) ? {{b}} : {{a}}"
        if floating
        else f"{{b}} {sign} {{a}} ? {{b}} : {{a}}"
    )
    return FoldText(start[dtype], step)


def fold_step(operation: str, dtype: str, a: str, b: str) -> str:
    """The C expression for one more value `b` beside `a`."""
    unsigned = {"i32": "uint32_t", "i64": "uint64_t"}.get(dtype, "")
    return fold_text(operation, dtype).step.format(a=a, b=b, t=STORED[dtype], u=unsigned)


def total_dtype(operation: str, dtype: str) -> str:
    """The dtype in which blocks of a long row are joined: f32 sums in f64."""
    return "f64" if operation in ("sum", "prod") and dtype == "f32" else dtype


def indent(lines: Sequence[str], depth: int = 1) -> list[str]:
    """The lines, `depth` levels deeper."""
    return ["    " * depth + line if line else line for line in lines]


_FUNCTION = re.compile(r"\bfm_(\w+)")


def is_slow(lines: Sequence[str]) -> bool:
    """Whether a loop calls functions that run one element at a time."""
    called = {name.rsplit("_", 1)[0] for name in _FUNCTION.findall("\n".join(lines))}
    return bool(called & SLOW)


def simd(lines: Sequence[str], clause: str = "") -> list[str]:
    """The pragma of a loop over these lines, if it may have one; `far` is gathered over lanes."""
    if any(line.startswith("far |=") for line in lines):
        clause = " reduction(| : far)"
    return [] if is_slow(lines) else [f"#pragma omp simd{clause}"]


def loop(variable: str, first: str, last: str, body: Sequence[str]) -> list[str]:
    """A plain loop."""
    head = f"for (int64_t {variable} = {first}; {variable} < {last}; {variable}++) {{"
    return [head, *indent(body), "}"]
