"""Error functions and modified Bessel functions in C, vectorisable.

Takes: nothing.
Gives: `fill(library)`.
Keeps true: erf within 2 units in the last place, the others within 4 (their absolute error where a value crosses zero);
limits at zero, infinity and NaN are the functions'.
"""

from __future__ import annotations

from facula.codegen.c.math.coefficients import BESSEL, ERROR
from facula.codegen.c.math.text import Library

TABLE: dict[str, object] = {
    **ERROR,
    "HEAD_BITS": ("0xfffff000", "0xfffffffff8000000ULL"),
    "ERFC_END": (10.5, 27.5),
    "ERFCX_LOW": (-9.5, -26.8),
    "SQRT2": 1.4142135623730951,
    "TWO_OVER_SQRT_PI": 1.1283791670955126,
}

ERROR_FUNCTIONS = """
FM @T fm_erf_near_@s(@T x, @T z) {
    return x + x * $poly(z, ERF);
}

FM @T fm_erfcx_positive_@s(@T a) {
    @T t = (a - 3.0@f) / (a + 3.0@f);
    t = a > 1e18@f ? 1.0@f : t; /* any value does beyond which t rounds to 1 */
    return $poly(t, ERFCX) / (1.0@f + (a + a));
}

FM @T fm_square_parts_@s(@T a, @T *low) {
    @T head = fm_from_bits_@s((@I)((@U)fm_bits_@s(a) & (@U)$HEAD_BITS));
    *low = (a - head) * (a + head);
    return head * head;
}

FM @T fm_erfc_tail_@s(@T a) {
    @T b = a > $ERFC_END ? $ERFC_END : a, low, high = fm_square_parts_@s(b, &low);
    return fm_exp_scaled_@s(-high, -low, 0) * fm_erfcx_positive_@s(b);
}

FM @T fm_erfc_@s(@T x) {
    @T a = __builtin_fabs@f(x), tail = fm_erfc_tail_@s(a);
    @T near = 1.0@f - fm_erf_near_@s(x, x * x);
    @T far = x < 0.0@f ? 2.0@f - tail : tail;
    return a < 0.5@f ? near : far;
}

FM @T fm_erfcx_@s(@T x) {
    @T a = __builtin_fabs@f(x), low, y = x < $ERFCX_LOW ? $ERFCX_LOW : x, high = fm_square_parts_@s(y, &low);
    @T e = fm_exp_scaled_@s(high, low, 0);
    @T far = fm_erfcx_positive_@s(a < 0.5@f ? 0.5@f : a);
    @T near = e * (1.0@f - fm_erf_near_@s(x, x * x));
    @T r = 2.0@f * e - far;
    r = x < 0.0@f ? r : far; /* any value does where `near` is taken */
    r = a < 0.5@f ? near : r;
    return x < $ERFCX_LOW ? __builtin_inf@f() : r;
}
"""

# the tail needs absolute accuracy only: erfc as the exponential of a polynomial
ERF_F32 = """
FM float fm_erf_f32(float x) {
    float a = __builtin_fabsf(x), b = a > 4.0f ? 4.0f : a, far = 1.0f - fm_exp_moderate_f32($poly(b, LOG_ERFC));
    float r = a < 1.0f ? fm_erf_near_f32(x, x * x) : fm_copysign_f32(far, x);
    return x != x ? x : r;
}
"""

ERF_F64 = """
FM double fm_erf_f64(double x) {
    double a = __builtin_fabs(x), far = 1.0 - fm_erfc_tail_f64(a);
    return a < 1.0 ? fm_erf_near_f64(x, x * x) : fm_copysign_f64(far, x);
}
"""

# the inverse is refined in double once, by Halley's step on erfc, so one start serves erfinv and ndtri
INVERSE_ERROR = """
FM double fm_erfinv_start_f64(double w) {
    double root = __builtin_sqrt(w);
    double central = $cheb((w - 3.125) * 0.32, ERFINV_CENTRAL);
    double middle = $cheb(root - 3.5, ERFINV_MIDDLE);
    double far = root > 27.5 ? 27.5 : root;
    double tail = $cheb((far - 16.0) * (1.0 / 11.5), ERFINV_TAIL);
    return w < 6.25 ? central : root < 4.5 ? middle : tail;
}

FM double fm_halley_f64(double y, double miss) {
    double d = miss / ($TWO_OVER_SQRT_PI * fm_exp_f64(-y * y));
    return y - d / (1.0 + y * d);
}

FM double fm_erfinv_f64(double x) {
    double a = __builtin_fabs(x), c = 1.0 - a, y = a * fm_erfinv_start_f64(-fm_log_f64(c * (1.0 + a)));
    double miss = a < 0.5 ? fm_erf_f64(y) - a : c - fm_erfc_f64(y);
    double r = fm_halley_f64(y, miss);
    r = a == 1.0 ? __builtin_inf() : r;
    r = a > 1.0 ? __builtin_nan("") : r;
    return x == 0.0 ? x : fm_copysign_f64(r, x);
}

FM double fm_ndtri_f64(double p) {
    double q = p > 0.5 ? 1.0 - p : p, c = q + q, a = 1.0 - c;
    double y = a * fm_erfinv_start_f64(-fm_log_f64(c * (1.0 + a)));
    double miss = a < 0.5 ? fm_erf_f64(y) - a : c - fm_erfc_f64(y);
    double r = fm_halley_f64(y, miss) * $SQRT2;
    r = q == 0.0 ? __builtin_inf() : r;
    r = p < 0.5 ? -r : r;
    r = (p < 0.0) | (p > 1.0) ? __builtin_nan("") : r;
    return p == 0.5 ? 0.0 : r;
}

FM float fm_erfinv_f32(float x) {
    double a = __builtin_fabs((double)x);
    double y = a * fm_erfinv_start_f64(-fm_log_f64((1.0 - a) * (1.0 + a)));
    float r = (float)y;
    r = a == 1.0 ? __builtin_inff() : r;
    r = a > 1.0 ? __builtin_nanf("") : r;
    return x == 0.0f ? x : fm_copysign_f32(r, x);
}

FM float fm_ndtri_f32(float p) {
    return (float)fm_ndtri_f64((double)p);
}
"""

MODIFIED_BESSEL = """
FM @T fm_i0e_parts_@s(@T a) {
    @T near = $cheb(a * 0.25@f - 1.0@f, I0E_SMALL);
    @T b = a > 8.0@f ? a : 8.0@f, far = $cheb(16.0@f / b - 1.0@f, I0E_LARGE) / __builtin_sqrt@f(b);
    return a < 8.0@f ? near : far;
}

FM @T fm_i1e_parts_@s(@T a) {
    @T near = a * $cheb(a * 0.25@f - 1.0@f, I1E_SMALL);
    @T b = a > 8.0@f ? a : 8.0@f, far = $cheb(16.0@f / b - 1.0@f, I1E_LARGE) / __builtin_sqrt@f(b);
    return a < 8.0@f ? near : far;
}

FM @T fm_i0e_@s(@T x) {
    @T r = fm_i0e_parts_@s(__builtin_fabs@f(x));
    return x != x ? x : r;
}

FM @T fm_i1e_@s(@T x) {
    @T r = fm_i1e_parts_@s(__builtin_fabs@f(x));
    return x != x ? x : fm_copysign_@s(r, x);
}

FM @T fm_unscale_@s(@T r, @T a) {
    @T half = fm_exp_@s(0.5@f * a), grown = r * half * half;
    return a == __builtin_inf@f() ? a : grown;
}

FM @T fm_i0_@s(@T x) {
    @T a = __builtin_fabs@f(x), r = fm_unscale_@s(fm_i0e_parts_@s(a), a);
    return x != x ? x : r;
}

FM @T fm_i1_@s(@T x) {
    @T a = __builtin_fabs@f(x), r = fm_unscale_@s(fm_i1e_parts_@s(a), a);
    return x != x ? x : fm_copysign_@s(r, x);
}
"""

MODIFIED_BESSEL_SECOND = """
FM double fm_k0_near_f64(double x) {
    return $cheb(x * x * 0.5 - 1.0, K0_SMALL) - fm_log_f64(0.5 * x) * fm_i0_f64(x);
}

FM double fm_k1_near_f64(double x) {
    return $cheb(x * x * 0.5 - 1.0, K1_SMALL) / x + fm_log_f64(0.5 * x) * fm_i1_f64(x);
}

FM double fm_k0_far_f64(double x) {
    return $cheb(4.0 / x - 1.0, K0_LARGE) / __builtin_sqrt(x);
}

FM double fm_k1_far_f64(double x) {
    return $cheb(4.0 / x - 1.0, K1_LARGE) / __builtin_sqrt(x);
}

FM double fm_k_limits_f64(double x, double r) {
    r = x == __builtin_inf() ? 0.0 : r;
    r = x == 0.0 ? __builtin_inf() : r;
    r = x < 0.0 ? __builtin_nan("") : r;
    return x != x ? x : r;
}

FM double fm_bessel_k0e_f64(double x) {
    double a = x < 2.0 ? x : 2.0, b = x > 2.0 ? x : 2.0;
    return fm_k_limits_f64(x, x <= 2.0 ? fm_k0_near_f64(a) * fm_exp_f64(a) : fm_k0_far_f64(b));
}

FM double fm_bessel_k1e_f64(double x) {
    double a = x < 2.0 ? x : 2.0, b = x > 2.0 ? x : 2.0;
    return fm_k_limits_f64(x, x <= 2.0 ? fm_k1_near_f64(a) * fm_exp_f64(a) : fm_k1_far_f64(b));
}

FM double fm_bessel_k0_f64(double x) {
    double a = x < 2.0 ? x : 2.0, b = x > 2.0 ? x : 2.0;
    return fm_k_limits_f64(x, x <= 2.0 ? fm_k0_near_f64(a) : fm_k0_far_f64(b) * fm_exp_f64(-b));
}

FM double fm_bessel_k1_f64(double x) {
    double a = x < 2.0 ? x : 2.0, b = x > 2.0 ? x : 2.0;
    return fm_k_limits_f64(x, x <= 2.0 ? fm_k1_near_f64(a) : fm_k1_far_f64(b) * fm_exp_f64(-b));
}
"""

#: functions whose float version is the double one, rounded
_ROUNDED = ("bessel_k0", "bessel_k1", "bessel_k0e", "bessel_k1e")


def fill(library: Library) -> None:
    """Enter the functions of this module."""
    library.add(ERROR_FUNCTIONS, TABLE)
    library.add(ERF_F32, TABLE, ("f32",))
    library.add(ERF_F64, TABLE, ("f64",))
    library.add(INVERSE_ERROR, TABLE, ("f64",))
    library.add(MODIFIED_BESSEL, BESSEL)
    library.add(MODIFIED_BESSEL_SECOND, BESSEL, ("f64",))
    for name in _ROUNDED:
        library.add(
            f"FM float fm_{name}_f32(float x) {{\n    return (float)fm_{name}_f64((double)x);\n}}",
            {},
            ("f64",),
        )
