"""Trigonometric and hyperbolic functions in C, vectorisable.

Takes: nothing.
Gives: `fill(library)`.
Keeps true: sin, cos and tan have a fast form, valid where `fm_<stem>_guard_<dtype>` holds (three-part reduction), and a
full form that asks the C library beyond; the others are valid everywhere.  All but tan, asinh, acosh and atanh (3) stay
within 2 units in the last place.
"""

from __future__ import annotations

from facula.codegen.c.math.text import Library

TABLE: dict[str, object] = {
    "TWO_OVER_PI": 0.6366197723675814,
    "MAGIC": 6755399441055744.0,
    "PIO2_1": float.fromhex("0x1.921fb544p+0"),
    "PIO2_2": float.fromhex("0x1.0b4611a6p-34"),
    "PIO2_3": float.fromhex("0x1.3198a2e037073p-69"),
    "PIO2_REST": float.fromhex("0x1.0b4611a626331p-34"),
    "REACH": (1e6, 1e6),
    "SIN": (
        [-0.166666646611, 0.00833274803752, -0.000195878405213],
        [-0.16666666666666664621, 0.0083333333333309461029, -0.00019841269836754970014, 2.755731610068302914e-6,
         -2.5051131455427947391e-8, 1.5918101230274120348e-10],
    ),
    "COS": (
        [0.0416666646583, -0.00138883028023, 2.45478916198e-5],
        [0.041666666666666665387, -0.0013888888888887395746, 0.000024801587298763433164, -2.7557317270560324065e-7,
         2.0876146024689746601e-9, -1.1382614868556324576e-11],
    ),
    "ASIN": (
        [0.166666656929, 0.0750023846027, 0.0445495882399, 0.0316908640863, 0.0143408244491, 0.0383117101277],
        [0.1666666666666666569, 0.075000000000013060919, 0.044642857139969698878, 0.030381944695118532664,
         0.022372147772889993636, 0.017353069329345238252, 0.013959547773232277168, 0.011613855196311494433,
         0.0092590766195347414267, 0.011223662925803235166, -0.0036970827287566031023, 0.034946735033607376939,
         -0.039702226963393156585, 0.041644273785206364707],
    ),
    "ATAN": (
        [-0.333333317597, 0.199995401462, -0.142639439077, 0.107436051489, -0.0645150951864],
        [-0.33333333333333330153, 0.19999999999995512409, -0.14285714284664817898, 0.11111111015117626207,
         -0.090909045724873477936, 0.076921830598941144474, -0.066645096032553860696, 0.058581328944279221831,
         -0.050853659223442483815, 0.039229237138359425085, -0.019173922285547929251],
    ),
    "SINH": (
        [0.166666666468, 0.00833333967592, 0.000198381019687, 2.80628025823e-6],
        [0.16666666666666666701, 0.0083333333333332993552, 0.00019841269841324197917, 2.7557319191381816996e-6,
         2.5052117695907823572e-8, 1.6057679623801637746e-10, 7.7461785930188274892e-13],
    ),
    "TANH": (
        [-0.333333289441, 0.13332769737, -0.0538509095785, 0.0209971789991, -0.00609671416591],
        [-0.33333333333333332938, 0.13333333333333041602, -0.05396825396789699169, 0.021869488519008305756,
         -0.008863235103240877925, 0.0035921217511549622695, -0.0014557754120478055104, 0.0005896606577757043347,
         -0.00023759064960555619551, 0.000092571161295567682707, -0.000031201101425797400033, 6.48516348279311315e-6],
    ),
    "PIO2": (float.fromhex("0x1.921fb6p+0"), float.fromhex("0x1.921fb54442d18p+0")),
    "PIO2_LO": (float.fromhex("-0x1.777a5cp-25"), float.fromhex("0x1.1a62633145c07p-54")),
    "PIO4": (float.fromhex("0x1.921fb6p-1"), float.fromhex("0x1.921fb54442d18p-1")),
    "PIO4_LO": (float.fromhex("-0x1.777a5cp-26"), float.fromhex("0x1.1a62633145c07p-55")),
    "PI": (float.fromhex("0x1.921fb6p+1"), float.fromhex("0x1.921fb54442d18p+1")),
    "PI_LO": (float.fromhex("-0x1.777a5cp-24"), float.fromhex("0x1.1a62633145c07p-53")),
    "TAN_PIO8": 0.41421356237309503,
    "LN2": 0.6931471805599453,
    "HUGE": (1e9, 1e18),
    "FAR": (10.0, 22.0),
}  # fmt: skip

REDUCE_F32 = """
FM float fm_reduce_f32(float x, int32_t *quadrant) {
    double wide = x, m = wide * $TWO_OVER_PI + $MAGIC, n = m - $MAGIC;
    int64_t b;
    __builtin_memcpy(&b, &m, sizeof b);
    *quadrant = (int32_t)b;
    return (float)((wide - n * $PIO2_1) - n * $PIO2_REST);
}
"""

CORE_F32 = """
FM float fm_sine_cosine_f32(float x, int32_t *quadrant, float *cosine) {
    float r = fm_reduce_f32(x, quadrant), z = r * r, half = 0.5f * z, w = 1.0f - half;
    *cosine = w + (((1.0f - w) - half) + z * z * $poly(z, COS));
    return r + r * z * $poly(z, SIN);
}
"""

# the reduced argument keeps its rounding error in `tail`, which enters both series to first order
CORE_F64 = """
FM double fm_sine_cosine_f64(double x, int64_t *quadrant, double *cosine) {
    double m = x * $TWO_OVER_PI + $MAGIC, n = m - $MAGIC;
    __builtin_memcpy(quadrant, &m, sizeof m);
    double t = x - n * $PIO2_1, w = n * $PIO2_2, u = t - w, low = ((t - u) - w) - n * $PIO2_3;
    double r = u + low, tail = (u - r) + low, z = r * r, half = 0.5 * z, v = 1.0 - half;
    *cosine = v + ((((1.0 - v) - half) - r * tail) + z * z * $poly(z, COS));
    return r + (r * z * $poly(z, SIN) + (tail - half * tail));
}
"""

CIRCULAR = """
FM int fm_sin_guard_@s(@T x) {
    return __builtin_fabs@f(x) <= $REACH;
}

FM int fm_cos_guard_@s(@T x) {
    return __builtin_fabs@f(x) <= $REACH;
}

FM int fm_tan_guard_@s(@T x) {
    return __builtin_fabs@f(x) <= $REACH;
}

FM @T fm_sin_fast_@s(@T x) {
    @I q;
    @T c, s = fm_sine_cosine_@s(x, &q, &c);
    @T v = (q & 1) ? c : s;
    v = (q & 2) ? -v : v;
    return x == 0.0@f ? x : v;
}

FM @T fm_cos_fast_@s(@T x) {
    @I q;
    @T c, s = fm_sine_cosine_@s(x, &q, &c);
    @T v = (q & 1) ? s : c;
    return ((q + 1) & 2) ? -v : v;
}

FM @T fm_tan_fast_@s(@T x) {
    @I q;
    @T c, s = fm_sine_cosine_@s(x, &q, &c);
    @T v = (q & 1) ? -c / s : s / c;
    return x == 0.0@f ? x : v;
}

FM @T fm_sin_@s(@T x) {
    return fm_sin_guard_@s(x) ? fm_sin_fast_@s(x) : __builtin_sin@f(x);
}

FM @T fm_cos_@s(@T x) {
    return fm_cos_guard_@s(x) ? fm_cos_fast_@s(x) : __builtin_cos@f(x);
}

FM @T fm_tan_@s(@T x) {
    return fm_tan_guard_@s(x) ? fm_tan_fast_@s(x) : __builtin_tan@f(x);
}
"""

INVERSE = """
FM @T fm_asin_core_@s(@T a, @T *small) {
    *small = a < 0.541@f;
    @T z = *small ? a * a : (1.0@f - a) * 0.5@f;
    @T w = *small ? a : __builtin_sqrt@f(z);
    return w + w * z * $poly(z, ASIN);
}

FM @T fm_asin_@s(@T x) {
    @T a = __builtin_fabs@f(x), small, p = fm_asin_core_@s(a, &small);
    @T r = small != 0.0@f ? p : $PIO2 - (p + p - $PIO2_LO);
    r = a > 1.0@f ? __builtin_nan@f("") : r;
    return x == 0.0@f ? x : fm_copysign_@s(r, x);
}

FM @T fm_acos_@s(@T x) {
    @T a = __builtin_fabs@f(x), small, p = fm_asin_core_@s(a, &small);
    @T signed_p = x < 0.0@f ? -p : p;
    @T inner = $PIO2 - (signed_p - $PIO2_LO);
    @T outer = x < 0.0@f ? $PI - (p + p - $PI_LO) : p + p;
    @T r = small != 0.0@f ? inner : outer;
    return a > 1.0@f ? __builtin_nan@f("") : r;
}

FM @T fm_atan_ratio_@s(@T low, @T high) {
    int folded = low > $TAN_PIO8 * high;
    @T top = folded ? low - high : low, bottom = folded ? low + high : high;
    bottom = bottom == 0.0@f ? 1.0@f : bottom;
    @T t = top / bottom, z = t * t, r = t * z * $poly(z, ATAN);
    return folded ? $PIO4 + (t + (r + $PIO4_LO)) : t + r;
}

FM @T fm_atan_@s(@T x) {
    @T a = __builtin_fabs@f(x);
    int big = a > 1.0@f;
    @T inf = __builtin_inf@f();
    @T r = fm_atan_ratio_@s(big ? 1.0@f : a, big ? a : 1.0@f);
    r = big ? $PIO2 - (r - $PIO2_LO) : r;
    r = a == inf ? $PIO2 : r;
    return x != x ? x : fm_copysign_@s(r, x);
}

FM @T fm_atan2_@s(@T y, @T x) {
    @T a = __builtin_fabs@f(y), b = __builtin_fabs@f(x), inf = __builtin_inf@f();
    int both = (a == inf) & (b == inf);
    a = both ? 1.0@f : a;
    b = both ? 1.0@f : b;
    int steep = a > b;
    @T high = steep ? a : b, low = steep ? b : a;
    @T scale = high > $HUGE ? 0x1p-30@f : 1.0@f;
    int flat = high == inf;
    @T r = fm_atan_ratio_@s(flat ? 0.0@f : low * scale, flat ? 1.0@f : high * scale);
    r = steep ? $PIO2 - (r - $PIO2_LO) : r;
    r = fm_bits_@s(x) < 0 ? $PI - (r - $PI_LO) : r;
    r = fm_copysign_@s(r, y);
    return (x != x) | (y != y) ? x + y : r;
}
"""

HYPERBOLIC = """
FM @T fm_sinh_@s(@T x) {
    @T a = __builtin_fabs@f(x), z = a * a;
    @T e = fm_exp_scaled_@s(a, 0.0@f, -1), far = e - 0.25@f / e;
    @T near = a + a * z * $poly(z, SINH);
    return fm_copysign_@s(a < 1.0@f ? near : far, x);
}

FM @T fm_cosh_@s(@T x) {
    @T e = fm_exp_scaled_@s(__builtin_fabs@f(x), 0.0@f, -1);
    return e + 0.25@f / e;
}

FM @T fm_tanh_@s(@T x) {
    @T a = __builtin_fabs@f(x), z = a * a;
    @T near = a + a * z * $poly(z, TANH);
    @T b = a > $FAR ? $FAR : a, far = 1.0@f - 2.0@f / (fm_exp_moderate_@s(b + b) + 1.0@f);
    @T r = a < 0.625@f ? near : far;
    return x != x ? x : fm_copysign_@s(r, x);
}

FM @T fm_asinh_@s(@T x) {
    @T a = __builtin_fabs@f(x), z = a * a;
    int big = a > $HUGE;
    @T inner = a + z / (1.0@f + __builtin_sqrt@f(1.0@f + z));
    @T r = fm_log1p_@s(big ? a : inner) + (big ? $LN2 : 0.0@f);
    return x == 0.0@f ? x : fm_copysign_@s(r, x);
}

FM @T fm_acosh_@s(@T x) {
    @T t = x - 1.0@f;
    int big = x > $HUGE;
    @T inner = t + __builtin_sqrt@f(t * (t + 2.0@f));
    @T r = fm_log1p_@s(big ? x : inner) + (big ? $LN2 : 0.0@f);
    return x < 1.0@f ? __builtin_nan@f("") : r;
}

FM @T fm_atanh_@s(@T x) {
    @T a = __builtin_fabs@f(x);
    @T r = 0.5@f * fm_log1p_@s((a + a) / (1.0@f - a));
    r = a > 1.0@f ? __builtin_nan@f("") : r;
    return x == 0.0@f ? x : fm_copysign_@s(r, x);
}
"""


def fill(library: Library) -> None:
    """Enter the functions of this module."""
    library.add(REDUCE_F32, TABLE, ("f64",))
    library.add(CORE_F32, TABLE, ("f32",))
    library.add(CORE_F64, TABLE, ("f64",))
    library.add(CIRCULAR, TABLE)
    library.add(INVERSE, TABLE)
    library.add(HYPERBOLIC, TABLE)
