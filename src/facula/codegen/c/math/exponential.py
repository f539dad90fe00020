"""Exponentials, logarithms and powers in C, vectorisable.

Takes: nothing.
Gives: `fill(library)`.
Keeps true: exp, log and their relatives stay within 2 units in the last place, follow C99 at zeros, infinities, NaN and
subnormals, and never need more than the basic operations (no library calls, no fused multiply-add for correctness).
Coefficients are Chebyshev interpolants computed in 60-digit arithmetic.
"""

from __future__ import annotations

from facula.codegen.c.math.text import Library

TABLE: dict[str, object] = {
    "MAGIC": (12582912.0, 6755399441055744.0),  # 1.5 * 2^23, 1.5 * 2^52: adding it rounds to an integer
    "MAGIC_BITS": ("0x4B400000", "0x4338000000000000LL"),
    "BIAS": ("127", "1023"),
    "SHIFT": ("23", "52"),
    "EXPONENT_BITS": ("8", "11"),
    "LOG2E": 1.4426950408889634,
    "LN2": 0.6931471805599453,
    "LN2_HI": (float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.62e42fefp-1")),
    "LN2_LO": (float.fromhex("0x1.7f7d1cp-20"), float.fromhex("0x1.473de6af278edp-34")),
    "EXP_HI": (90.0, 711.0),
    "EXPM1_HI": (89.0, 710.0),
    "EXP_LO": (-105.0, -746.0),
    "EXP2_HI": (130.0, 1026.0),
    "EXP2_LO": (-152.0, -1078.0),
    "EXPM1_LO": (-30.0, -60.0),
    "EXP": (
        [0.5, 0.166665769897, 0.0416665546172, 0.00836317905272, 0.00139261835877],
        [0.5, 0.16666666666666670991, 0.041666666666666669755, 0.0083333333333261351258, 0.0013888888888883748305,
         0.00019841269874820625271, 0.000024801587325547741216, 2.755725540020642443e-6, 2.7557273643110295328e-7,
         2.5105217004720745164e-8, 2.0914686968086877233e-9],
    ),
    "EXP2": (
        [0.69314718056, 0.240226509224, 0.0555041088392, 0.00961805664952, 0.00133335023638, 0.000154614563013,
         1.52973326913e-5],
        [0.69314718055994530942, 0.24022650695910071228, 0.055504108664821579951, 0.0096181291076284830602,
         0.0013333558146428446148, 0.00015403530393362740197, 0.000015252733804051122205, 1.3215486816015501915e-6,
         1.017808602119264665e-7, 7.0548943794489589637e-9, 4.4455303059176578775e-10, 2.5733579346813660525e-11,
         1.3716967492201851081e-12],
    ),
    "LOG": (
        [0.3333333118, -0.24999996958, 0.200007157489, -0.166678023195, 0.142490576457, -0.124256873315, 0.116854199235,
         -0.114797338466, 0.0697161147145],
        [0.66666666666666696879, 0.39999999999899453616, 0.28571428625998559651, 0.22222211131028518522,
         0.18182889399677719933, 0.15331712479381300315, 0.14616562422104645582],
    ),
    "LOG_TAIL": [0.40000000000000027061, 0.28571428571338515158, 0.22222222271098120426, 0.18181808248233129796,
                 0.15385574746296487261, 0.13285959102550725281, 0.12913597064656067586],
    "SQRT_HALF_BITS": ("0x3f3504f3", "0x3fe6a09e667f3bcdLL"),
    "TINY": (1.1754943508222875e-38, 2.2250738585072014e-308),
    "LIFT": (33554432.0, 18014398509481984.0),
    "LIFT_BITS": ("25", "54"),
    "HEAD": ("0xfffff000", "0xffffffff00000000ULL"),
    "IVLN2_HI": (float.fromhex("0x1.714p+0"), float.fromhex("0x1.71547p+0")),
    "IVLN2_LO": (float.fromhex("0x1.47652cp-12"), float.fromhex("0x1.94ae0bf85ddf4p-22")),
    "IVLN10_HI": (float.fromhex("0x1.bcap-2"), float.fromhex("0x1.bcb7bp-2")),
    "IVLN10_LO": (float.fromhex("0x1.7b1526p-14"), float.fromhex("0x1.526e50e32a6abp-26")),
    "LOG10_2_HI": (float.fromhex("0x1.344p-2"), float.fromhex("0x1.34413509f6p-2")),
    "LOG10_2_LO": (float.fromhex("0x1.3509f8p-18"), float.fromhex("0x1.9fef311f12b36p-42")),
    "TWO_THIRDS": float.fromhex("0x1.5555555555555p-1"),
    "TWO_THIRDS_LO": float.fromhex("0x1.5555555555555p-55"),
    "BIG": (1e18, 1e150),
}  # fmt: skip

BITS = """
FM @I fm_bits_@s(@T x) {
    @I b;
    __builtin_memcpy(&b, &x, sizeof b);
    return b;
}

FM @T fm_from_bits_@s(@I b) {
    @T x;
    __builtin_memcpy(&x, &b, sizeof x);
    return x;
}

FM @T fm_scale_@s(@T x, @I k) {
    @I half = k >> 1, rest = k - half;
    x *= fm_from_bits_@s((@I)((@U)(half + $BIAS) << $SHIFT));
    return x * fm_from_bits_@s((@I)((@U)(rest + $BIAS) << $SHIFT));
}

FM @T fm_to_float_@s(@I k) {
    return fm_from_bits_@s(k + $MAGIC_BITS) - $MAGIC;
}

FM @T fm_head_@s(@T x) {
    return fm_from_bits_@s((@I)((@U)fm_bits_@s(x) & (@U)$HEAD));
}

FM int fm_signbit_@s(@T x) {
    return fm_bits_@s(x) < 0;
}

FM @T fm_abs_@s(@T x) {
    return __builtin_fabs@f(x);
}

FM @T fm_copysign_@s(@T x, @T y) {
    return __builtin_copysign@f(x, y);
}

FM @T fm_floor_@s(@T x) {
    return __builtin_floor@f(x);
}

FM @T fm_ceil_@s(@T x) {
    return __builtin_ceil@f(x);
}

FM @T fm_trunc_@s(@T x) {
    return __builtin_trunc@f(x);
}

FM @T fm_round_@s(@T x) {
    return __builtin_rint@f(x);
}

FM @T fm_sqrt_@s(@T x) {
    return __builtin_sqrt@f(x);
}

FM @T fm_rsqrt_@s(@T x) {
    return 1.0@f / __builtin_sqrt@f(x);
}

FM @T fm_maximum_@s(@T x, @T y) {
    @T r = y > x ? y : x; /* the first of equal ones: zeros have signs */
    return y != y ? y : r;
}

FM @T fm_minimum_@s(@T x, @T y) {
    @T r = y < x ? y : x;
    return y != y ? y : r;
}

FM @T fm_nextafter_@s(@T x, @T y) {
    @I b = fm_bits_@s(x), up = (x < y) == (x > 0.0@f);
    @T step = fm_from_bits_@s(b + (up ? 1 : -1));
    @T least = fm_copysign_@s(fm_from_bits_@s(1), y);
    @T r = x == 0.0@f ? least : step;
    r = x == y ? y : r;
    return (x != x) | (y != y) ? x + y : r;
}
"""

EXPONENTIAL = """
FM @T fm_exp_scaled_@s(@T x, @T low, @I shift) {
    x = x > $EXP_HI ? $EXP_HI : x;
    x = x < $EXP_LO ? $EXP_LO : x;
    @T m = x * $LOG2E + $MAGIC, n = m - $MAGIC;
    @T r = x - n * $LN2_HI;
    r = (r - n * $LN2_LO) + low;
    @T p = 1.0@f + (r + r * r * $poly(r, EXP));
    return fm_scale_@s(p, fm_bits_@s(m) - $MAGIC_BITS + shift);
}

FM @T fm_exp_@s(@T x) {
    return fm_exp_scaled_@s(x, 0.0@f, 0);
}

FM @T fm_exp_moderate_@s(@T x) {
    @T m = x * $LOG2E + $MAGIC, n = m - $MAGIC;
    @T r = x - n * $LN2_HI;
    r = r - n * $LN2_LO;
    @T p = 1.0@f + (r + r * r * $poly(r, EXP));
    @I k = fm_bits_@s(m) - $MAGIC_BITS;
    return p * fm_from_bits_@s((@I)((@U)(k + $BIAS) << $SHIFT));
}

FM @T fm_exp2_@s(@T x) {
    x = x > $EXP2_HI ? $EXP2_HI : x;
    x = x < $EXP2_LO ? $EXP2_LO : x;
    @T m = x + $MAGIC, r = x - (m - $MAGIC);
    return fm_scale_@s(1.0@f + r * $poly(r, EXP2), fm_bits_@s(m) - $MAGIC_BITS);
}

FM @T fm_expm1_@s(@T x) {
    @T y = x > $EXPM1_HI ? $EXPM1_HI : x;
    y = y < $EXPM1_LO ? $EXPM1_LO : y;
    @T m = y * $LOG2E + $MAGIC, n = m - $MAGIC;
    @T r = y - n * $LN2_HI;
    r = r - n * $LN2_LO;
    @T p = r + r * r * $poly(r, EXP);
    @I k = fm_bits_@s(m) - $MAGIC_BITS - 1;
    @T half = fm_from_bits_@s((@I)((@U)(k + $BIAS) << $SHIFT));
    @T e = half * p + (half - 0.5@f);
    return x == 0.0@f ? x : e + e;
}
"""

LOGARITHM = """
FM @T fm_log_special_@s(@T x, @T r) {
    r = x < __builtin_inf@f() ? r : x;
    r = x > 0.0@f ? r : __builtin_nan@f("");
    r = x == 0.0@f ? -__builtin_inf@f() : r;
    return x != x ? x : r;
}

FM @T fm_log_split_@s(@T x, @T *k) {
    int small = x < $TINY;
    @T y = small ? x * $LIFT : x;
    @I b = fm_bits_@s(y), e = (b - $SQRT_HALF_BITS) >> $SHIFT;
    *k = fm_to_float_@s(e) - (small ? (@T)$LIFT_BITS : 0.0@f);
    return fm_from_bits_@s((@I)((@U)b - ((@U)e << $SHIFT)));
}

FM @T fm_log_@s(@T x) {
    @T k, m = fm_log_split_@s(x, &k), f = m - 1.0@f, half = 0.5@f * f * f;
    @T tail = fm_log_tail_@s(f, half) + k * $LN2_LO;
    return fm_log_special_@s(x, k * $LN2_HI + (f - (half - tail)));
}

FM @T fm_log2_@s(@T x) {
    @T k, m = fm_log_split_@s(x, &k), f = m - 1.0@f, half = 0.5@f * f * f;
    @T hi = fm_head_@s(f - half), lo = ((f - hi) - half) + fm_log_tail_@s(f, half);
    @T rest = (lo + hi) * $IVLN2_LO + lo * $IVLN2_HI, main = hi * $IVLN2_HI, sum = k + main;
    return fm_log_special_@s(x, sum + (((k - sum) + main) + rest));
}

FM @T fm_log10_@s(@T x) {
    @T k, m = fm_log_split_@s(x, &k), f = m - 1.0@f, half = 0.5@f * f * f;
    @T hi = fm_head_@s(f - half), lo = ((f - hi) - half) + fm_log_tail_@s(f, half);
    @T rest = k * $LOG10_2_LO + ((lo + hi) * $IVLN10_LO + lo * $IVLN10_HI);
    @T main = hi * $IVLN10_HI, high = k * $LOG10_2_HI, sum = high + main;
    return fm_log_special_@s(x, sum + (((high - sum) + main) + rest));
}

FM @T fm_log1p_@s(@T x) {
    @T u = 1.0@f + x;
    @I b = fm_bits_@s(u), e = (b - $SQRT_HALF_BITS) >> $SHIFT;
    @T k = fm_to_float_@s(e), m = fm_from_bits_@s((@I)((@U)b - ((@U)e << $SHIFT)));
    int direct = e == 0;
    @T f = direct ? x : m - 1.0@f;
    @T lost = x > 1.0@f ? 1.0@f - (u - x) : x - (u - 1.0@f);
    @T shrink = fm_from_bits_@s((@I)((@U)($BIAS - (e > $BIAS ? $BIAS : e)) << $SHIFT));
    @T c = direct ? 0.0@f : lost * shrink * (1.0@f - (m - 1.0@f) * (2.0@f - m));
    @T half = 0.5@f * f * f, tail = fm_log_tail_@s(f, half) + (k * $LN2_LO + c);
    @T r = fm_log_special_@s(u, k * $LN2_HI + (f - (half - tail)));
    return x == 0.0@f ? x : r;
}
"""

LOG_TAIL_F32 = """
FM float fm_log_tail_f32(float f, float half) {
    return f * (half + half) * $poly(f, LOG);
}
"""

LOG_TAIL_F64 = """
FM double fm_log_tail_f64(double f, double half) {
    double s = f / (2.0 + f), z = s * s;
    return s * (half + z * $poly(z, LOG));
}
"""

POWER_PARTS = """
FM @T fm_pow_special_@s(@T x, @T y, @T magnitude) {
    @T a = __builtin_fabs@f(x), whole = __builtin_rint@f(y), halved = y * 0.5@f;
    int integral = whole == y, odd = integral & (__builtin_rint@f(halved) != halved);
    @T inf = __builtin_inf@f();
    @T r = a == 0.0@f ? (y < 0.0@f ? inf : 0.0@f) : magnitude;
    r = a == inf ? (y < 0.0@f ? 0.0@f : inf) : r;
    r = a == 1.0@f ? 1.0@f : r;
    r = (y == inf) & (a != 1.0@f) ? (a > 1.0@f ? inf : 0.0@f) : r;
    r = (y == -inf) & (a != 1.0@f) ? (a > 1.0@f ? 0.0@f : inf) : r;
    r = odd & (fm_bits_@s(x) < 0) ? -r : r;
    r = (x < 0.0@f) & !integral & (a != inf) ? __builtin_nan@f("") : r;
    r = (x != x) | (y != y) ? x + y : r;
    return (y == 0.0@f) | (x == 1.0@f) ? 1.0@f : r;
}

FM int fm_pow_guard_@s(@T x, @T y) {
    @T a = __builtin_fabs@f(y);
    return (x == x) & ((a == 2.0@f) | (a == 0.5@f) | (a == 1.0@f) | (a == 0.0@f) | (y == 3.0@f));
}

FM @T fm_pow_fast_@s(@T x, @T y) {
    @T square = x * x, root = __builtin_sqrt@f(__builtin_fabs@f(x)), nan = __builtin_nan@f("");
    @T down = x == -__builtin_inf@f() ? root : x < 0.0@f ? nan : root;
    @T base = (y == 2.0@f) | (y == -2.0@f) ? square : (y == 0.5@f) | (y == -0.5@f) ? down : x;
    base = y == 3.0@f ? square * x : y == 0.0@f ? 1.0@f : base;
    return y < 0.0@f ? 1.0@f / base : base;
}

FM @T fm_hypot_@s(@T x, @T y) {
    @T a = __builtin_fabs@f(x), b = __builtin_fabs@f(y), inf = __builtin_inf@f();
    return (a == inf) | (b == inf) ? inf : fm_hypot_finite_@s(a, b);
}
"""

POWER_F32 = """
FM float fm_hypot_finite_f32(float a, float b) {
    return (float)__builtin_sqrt((double)a * a + (double)b * b);
}

FM float fm_pow_f32(float x, float y) {
    double k, m = fm_log_split_f64((double)__builtin_fabsf(x), &k), f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double l = k * $LN2 + (s + s + s * z * $poly(z, LOG));
    double e = (double)y * l;
    e = e > 200.0 ? 200.0 : e;
    e = e < -200.0 ? -200.0 : e;
    double n = e * $LOG2E + $MAGIC, r = e - (n - $MAGIC) * $LN2;
    double p = 1.0 + (r + r * r * $poly(r, EXP));
    double scale = fm_from_bits_f64((int64_t)((uint64_t)(fm_bits_f64(n) - $MAGIC_BITS + $BIAS) << $SHIFT));
    return fm_pow_special_f32(x, y, (float)(p * scale));
}
"""

POWER_F64 = """
FM double fm_product_error_f64(double a, double b, double p) {
#ifdef __FMA__
    return __builtin_fma(a, b, -p);
#else
    double ah = fm_from_bits_f64(fm_bits_f64(a) & (int64_t)0xfffffffff8000000ULL), al = a - ah;
    double bh = fm_from_bits_f64(fm_bits_f64(b) & (int64_t)0xfffffffff8000000ULL), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
}

FM double fm_hypot_finite_f64(double a, double b) {
    double big = a > b ? a : b, small = a > b ? b : a;
    double scale = big > 1e150 ? 0x1p-600 : big < 1e-140 ? 0x1p600 : 1.0;
    double back = big > 1e150 ? 0x1p600 : big < 1e-140 ? 0x1p-600 : 1.0;
    big *= scale;
    small *= scale;
    double r = back * __builtin_sqrt(big * big + small * small);
    return (a != a) | (b != b) ? a + b : r;
}

FM double fm_log_pair_f64(double x, double *low) {
    double k, m = fm_log_split_f64(x, &k), f = m - 1.0;
    double den = m + 1.0, den_lo = m - (den - 1.0), rcp = 1.0 / den;
    double s = f * rcp, p = s * den;
    double s_lo = (((f - p) - fm_product_error_f64(s, den, p)) - s * den_lo) * rcp;
    double z = s * s, z_lo = fm_product_error_f64(s, s, z) + 2.0 * s * s_lo;
    double t = z * $TWO_THIRDS;
    double t_lo = fm_product_error_f64(z, $TWO_THIRDS, t) + (z * $TWO_THIRDS_LO + z_lo * $TWO_THIRDS);
    double q = z * z * $poly(z, LOG_TAIL), u = t + q, u_lo = ((t - u) + q) + t_lo;
    double w = s * u, w_lo = fm_product_error_f64(s, u, w) + (s * u_lo + s_lo * u);
    double twice = s + s, l = twice + w, l_lo = ((twice - l) + w) + (w_lo + 2.0 * s_lo);
    double high = k * $LN2_HI, sum = high + l;
    *low = ((high - sum) + l) + (l_lo + k * $LN2_LO);
    return sum;
}

FM double fm_pow_f64(double x, double y) {
    double l_lo, l = fm_log_pair_f64(__builtin_fabs(x), &l_lo);
    double v = y > 0x1p70 ? 0x1p70 : y;
    v = v < -0x1p70 ? -0x1p70 : v;
    double e = v * l, e_lo = fm_product_error_f64(v, l, e) + v * l_lo;
    e_lo = (e > 760.0) | (e < -760.0) ? 0.0 : e_lo;
    return fm_pow_special_f64(x, y, fm_exp_scaled_f64(e, e_lo, 0));
}
"""


def fill(library: Library) -> None:
    """Enter the functions of this module."""
    library.add(BITS, TABLE)
    library.add(EXPONENTIAL, TABLE)
    library.add(LOGARITHM, TABLE)
    library.add(LOG_TAIL_F32, TABLE, ("f32",))
    library.add(LOG_TAIL_F64, TABLE, ("f64",))
    library.add(POWER_PARTS, TABLE)
    library.add(POWER_F64, TABLE, ("f64",))
    library.add(POWER_F32, TABLE, ("f64",))
