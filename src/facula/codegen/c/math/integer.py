"""Integer arithmetic, and division with remainder of floats, in C.

Takes: nothing.
Gives: `fill(library)`.
Keeps true: no undefined behaviour: shifts beyond the width, division by zero (the result is 0; the operator raises
before) and the least integer by -1 have values.  Float remainders are exact: the fast form holds where the quotient
is below 2^22 (`fm_<stem>_guard_<dtype>`), the full form asks the C library beyond.
"""

from __future__ import annotations

from facula.codegen.c.math.text import Library

_INTEGER = """
FM @K fm_abs_@D(@K x) {
    return x < 0 ? (@K)(0 - (@N)x) : x;
}

FM @K fm_shl_@D(@K x, @K y) {
    return (y >= 0) & (y < @W) ? (@K)((@N)x << (y & (@W - 1))) : 0;
}

FM @K fm_shr_@D(@K x, @K y) {
    return x >> ((y >= 0) & (y < @W) ? y : @W - 1);
}

FM @K fm_truncated_divide_@D(@K x, @K y) {
    return y == 0 ? 0 : y == -1 ? (@K)(0 - (@N)x) : x / y;
}

FM @K fm_truncated_remainder_@D(@K x, @K y) {
    return y == 0 || y == -1 ? 0 : x % y;
}

FM @K fm_floored_remainder_@D(@K x, @K y) {
    @K r = fm_truncated_remainder_@D(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

FM @K fm_floored_divide_@D(@K x, @K y) {
    @K r = fm_truncated_remainder_@D(x, y);
    return fm_truncated_divide_@D(x, y) - (r != 0 && (r < 0) != (y < 0));
}

FM @K fm_integer_pow_@D(@K x, @K y) {
    @N base = (@N)x, r = 1;
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    for (; y; y >>= 1) {
        r = y & 1 ? r * base : r;
        base *= base;
    }
    return (@K)r;
}

FM @K fm_gcd_@D(@K x, @K y) {
    @N a = (@N)fm_abs_@D(x), b = (@N)fm_abs_@D(y);
    while (b) {
        @N r = a % b;
        a = b;
        b = r;
    }
    return (@K)a;
}

FM @K fm_lcm_@D(@K x, @K y) {
    @K g = fm_gcd_@D(x, y);
    return g == 0 ? 0 : fm_abs_@D((@K)((@N)(x / g) * (@N)y));
}
"""

FLOAT_REMAINDER = """
FM int fm_fmod_guard_@s(@T x, @T y) {
    return (__builtin_fabs@f(x / y) < 4194304.0@f) & (__builtin_fabs@f(y) < __builtin_inf@f());
}

FM int fm_remainder_guard_@s(@T x, @T y) {
    return fm_fmod_guard_@s(x, y);
}

FM int fm_floor_divide_guard_@s(@T x, @T y) {
    return fm_fmod_guard_@s(x, y);
}

FM @T fm_fmod_@s(@T x, @T y) {
    return __builtin_fmod@f(x, y);
}

FM @T fm_floored_@s(@T r, @T y) {
    return (r != 0.0@f) & ((r < 0.0@f) != (y < 0.0@f)) ? r + y : r;
}

FM @T fm_remainder_fast_@s(@T x, @T y) {
    return fm_floored_@s(fm_fmod_fast_@s(x, y), y);
}

FM @T fm_remainder_@s(@T x, @T y) {
    return fm_floored_@s(__builtin_fmod@f(x, y), y);
}

FM @T fm_floor_quotient_@s(@T x, @T y, @T r) {
    @T q = (x - r) / y;
    q = (r != 0.0@f) & ((r < 0.0@f) != (y < 0.0@f)) ? q - 1.0@f : q;
    @T whole = __builtin_floor@f(q);
    int below = q - whole > 0.5@f; /* any value does: q is a whole number, or nearly so */
    whole = below ? whole + 1.0@f : whole;
    whole = q == 0.0@f ? fm_copysign_@s(0.0@f, x / y) : whole;
    return y == 0.0@f ? x / y : whole;
}

FM @T fm_floor_divide_fast_@s(@T x, @T y) {
    return fm_floor_quotient_@s(x, y, fm_fmod_fast_@s(x, y));
}

FM @T fm_floor_divide_@s(@T x, @T y) {
    return fm_floor_quotient_@s(x, y, __builtin_fmod@f(x, y));
}
"""

FMOD_F32 = """
FM float fm_fmod_fast_f32(float x, float y) {
    double a = __builtin_fabs((double)x), b = __builtin_fabs((double)y);
    double r = a - __builtin_trunc(a / b) * b;
    r = r < 0.0 ? r + b : r;
    return fm_copysign_f32((float)r, x);
}
"""

FMOD_F64 = """
FM double fm_fmod_fast_f64(double x, double y) {
    double a = __builtin_fabs(x), b = __builtin_fabs(y), q = __builtin_trunc(a / b), p = q * b;
    double r = (a - p) - fm_product_error_f64(q, b, p);
    r = r < 0.0 ? r + b : r;
    return fm_copysign_f64(r, x);
}
"""


def fill(library: Library) -> None:
    """Enter the functions of this module."""
    for dtype, kind, unsigned, width in (
        ("i32", "int32_t", "uint32_t", "32"),
        ("i64", "int64_t", "uint64_t", "64"),
    ):
        text = (
            _INTEGER.replace("@K", kind)
            .replace("@N", unsigned)
            .replace("@W", width)
            .replace("@D", dtype)
        )
        library.add(text, {}, ("f64",))
    library.add(FLOAT_REMAINDER)
    library.add(FMOD_F32, {}, ("f64",))
    library.add(FMOD_F64, {}, ("f64",))
