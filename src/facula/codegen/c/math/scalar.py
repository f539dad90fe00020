"""Special functions with loops or library calls in C: one element at a time.

Takes: nothing.
Gives: `fill(library)`.
Keeps true: never inlined (`FM_CALL`); computed in double for both float dtypes; relative error a
few 1e-14 away from zeros (1e-12 where a loop sums
many terms); integers that PyTorch answers with infinity or NaN get the same here.
Sources: Abramowitz & Stegun 1964 chapters 6, 9, 10, 22, 23; Temme 1979 for the incomplete gamma prefactor.
"""

from __future__ import annotations

from facula.codegen.c.math.coefficients import AIRY
from facula.codegen.c.math.polynomials import polynomials
from facula.codegen.c.math.text import Library

GAMMA = """
FM_CALL double fm_lgamma_f64(double x) {
    int sign;
    return __builtin_lgamma_r(x, &sign);
}

FM_CALL double fm_digamma_positive_f64(double x) {
    double r = 0.0;
    for (; x < 10.0; x += 1.0) r -= 1.0 / x;
    double z = 1.0 / (x * x);
    double p = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760
               - z * (1.0 / 12)))))));
    return r + __builtin_log(x) - 0.5 / x - p;
}

FM_CALL double fm_digamma_f64(double x) {
    const double pi = 3.14159265358979323846;
    if (x == 0.0) return __builtin_copysign(__builtin_inf(), -x);
    if (x > 0.0) return x == __builtin_inf() ? x : fm_digamma_positive_f64(x);
    if (x == __builtin_trunc(x) || x != x) return __builtin_nan("");
    double part = x - __builtin_trunc(x);
    return fm_digamma_positive_f64(1.0 - x) - pi / __builtin_tan(pi * part);
}

/* q > 0 and x > 1: terms until they tell nothing, else a dozen and x of them, then Euler-Maclaurin */
FM_CALL double fm_zeta_positive_f64(double x, double q) {
    static const double b[12] = {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160,
        -691.0 / 1307674368000.0, 1.0 / 74724249600.0, -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0, 77683.0 / 14101100039391805440000.0,
        -236364091.0 / 1693824136731743669452800000.0};
    double sum = 0.0, w = q;
    for (; w < 12.0 + x && w < 1e4; w += 1.0) {
        double term = __builtin_pow(w, -x);
        sum += term;
        if (term <= 1e-18 * sum) return sum; /* also where the first one is below all doubles */
    }
    double power = __builtin_pow(w, -x), rise = x * power / w;
    sum += power * w / (x - 1.0) + 0.5 * power;
    for (int j = 0; j < 12; j++) {
        double term = b[j] * rise;
        sum += term;
        if (__builtin_fabs(term) < 1e-17 * __builtin_fabs(sum)) break;
        rise *= (x + 2 * j + 1) * (x + 2 * j + 2) / (w * w);
    }
    return sum;
}

FM_CALL double fm_zeta_f64(double x, double q) {
    const double inf = __builtin_inf();
    if (x == 1.0) return inf;
    if (x < 1.0 || x != x || q != q) return __builtin_nan("");
    if (q == inf) return 0.0;
    if (q > 0.0) return fm_zeta_positive_f64(x, q);
    if (q == __builtin_floor(q)) return inf;
    if (x != __builtin_floor(x)) return __builtin_nan("");
    /* the terms below zero, of 1 - q down to the one next to zero, are those of positive numbers but for the sign */
    double next = __builtin_ceil(q) - q, sign = __builtin_fmod(x, 2.0) == 0.0 ? 1.0 : -1.0;
    return fm_zeta_positive_f64(x, 1.0 - next) + sign * fm_zeta_positive_f64(x, next) -
        sign * fm_zeta_positive_f64(x, 1.0 - q);
}

FM_CALL double fm_polygamma_f64(double n, double x) {
    if (n == 0.0) return fm_digamma_f64(x);
    if (x == -__builtin_inf()) return __builtin_nan("");
    double sign = __builtin_fmod(n, 2.0) == 0.0 ? -1.0 : 1.0;
    return sign * __builtin_tgamma(n + 1.0) * fm_zeta_f64(n + 1.0, x);
}
"""

INCOMPLETE_GAMMA = """
FM_CALL double fm_log1p_minus_f64(double u) {
    double s = u / (2.0 + u), z = s * s, term = s * z, sum = 0.0;
    if (__builtin_fabs(u) > 0.4) return __builtin_log1p(u) - u;
    for (int k = 3; k < 60; k += 2, term *= z) {
        sum += term / k;
        if (__builtin_fabs(term) < 1e-18 * __builtin_fabs(sum)) break;
    }
    return 2.0 * sum - u * s;
}

FM_CALL double fm_gamma_density_f64(double a, double x) {
    if (a < 10.0) return __builtin_exp(a * __builtin_log(x) - x - fm_lgamma_f64(a));
    double z = 1.0 / (a * a);
    double tail = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188))))) / a;
    return __builtin_sqrt(a * 0.15915494309189534) * __builtin_exp(a * fm_log1p_minus_f64((x - a) / a) - tail);
}

FM_CALL double fm_gamma_series_f64(double a, double x) {
    double term = 1.0 / a, sum = term;
    for (int k = 1; k < 1000000; k++) {
        term *= x / (a + k);
        sum += term;
        if (term < 1e-17 * sum) break;
    }
    return sum * fm_gamma_density_f64(a, x);
}

FM_CALL double fm_gamma_fraction_f64(double a, double x) {
    double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
    for (int k = 1; k < 1000000; k++) {
        double top = -(double)k * (k - a);
        b += 2.0;
        d = top * d + b;
        d = 1.0 / (d == 0.0 ? 1e-300 : d);
        c = b + top / c;
        c = c == 0.0 ? 1e-300 : c;
        double step = c * d;
        h *= step;
        if (__builtin_fabs(step - 1.0) < 2e-16) break;
    }
    return h * fm_gamma_density_f64(a, x);
}

/* the lower (side -1) or upper (side 1) part for many degrees of freedom: an error function, and the first terms of the
   uniform asymptotic series. [Temme 1979] */
FM_CALL double fm_gamma_uniform_f64(double a, double x, double side) {
    double u = (x - a) / a, half, eta, rest;
    if (__builtin_fabs(u) > 0.1) return side * u > 0.0 ? 0.0 : 1.0;
    half = -fm_log1p_minus_f64(u);
    eta = __builtin_copysign(__builtin_sqrt(2.0 * half), u);
    rest = -1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta * (1.0 / 864 + eta * (1.0 / 2835)))) - 1.0 / (540 * a);
    rest *= __builtin_exp(-a * half) * 0.3989422804014327 / __builtin_sqrt(a);
    return 0.5 * __builtin_erfc(side * __builtin_copysign(__builtin_sqrt(a * half), u)) + side * rest;
}

FM_CALL double fm_gamma_small_f64(double a, double x) {
    double term = 1.0, sum = 0.0;
    for (int k = 1; k < 200; k++) {
        term *= -x / k;
        sum += term * a / (a + k);
        if (__builtin_fabs(term) < 1e-18) break;
    }
    double lead = a * __builtin_log(x) - fm_lgamma_f64(1.0 + a);
    return -__builtin_expm1(lead) - __builtin_exp(lead) * sum;
}

FM_CALL double fm_igamma_f64(double a, double x) {
    if (!(x >= 0.0 && a >= 0.0)) return __builtin_nan("");
    if (a == 0.0) return x > 0.0 ? 1.0 : __builtin_nan("");
    if (x == 0.0) return 0.0;
    if (a == __builtin_inf()) return x == a ? __builtin_nan("") : 0.0;
    if (x == __builtin_inf()) return 1.0;
    if (a > 1e6) return fm_gamma_uniform_f64(a, x, -1.0);
    return x < a + 1.0 ? fm_gamma_series_f64(a, x) : 1.0 - fm_gamma_fraction_f64(a, x);
}

FM_CALL double fm_igammac_f64(double a, double x) {
    if (!(x >= 0.0 && a >= 0.0)) return __builtin_nan("");
    if (a == 0.0) return x > 0.0 ? 0.0 : __builtin_nan("");
    if (x == 0.0) return 1.0;
    if (a == __builtin_inf()) return x == a ? __builtin_nan("") : 1.0;
    if (x == __builtin_inf()) return 0.0;
    if (a > 1e6) return fm_gamma_uniform_f64(a, x, 1.0);
    if (x < 1.1 && a < 1.0) return fm_gamma_small_f64(a, x);
    return x < a + 1.0 ? 1.0 - fm_gamma_series_f64(a, x) : fm_gamma_fraction_f64(a, x);
}
"""

BESSEL_AND_AIRY = """
FM_CALL double fm_bessel_j0_f64(double x) {
    return __builtin_j0(x);
}

FM_CALL double fm_bessel_j1_f64(double x) {
    return __builtin_j1(x);
}

FM_CALL double fm_bessel_y0_f64(double x) {
    return x == 0.0 ? -__builtin_inf() : x < 0.0 ? __builtin_nan("") : __builtin_y0(x);
}

FM_CALL double fm_bessel_y1_f64(double x) {
    return x == 0.0 ? -__builtin_inf() : x < 0.0 ? __builtin_nan("") : __builtin_y1(x);
}

FM_CALL double fm_airy_series_f64(double x, int slope) {
    const long double c = 0.355028053887817239260063186L, d = 0.258819403792806798405183560L;
    long double w = (long double)x * x * x, f, g, u, v;
    int first = slope ? 1 : 0;
    u = slope ? (long double)x * x * 0.5L : 1.0L;
    v = slope ? 1.0L : (long double)x;
    f = u;
    g = v;
    for (int k = first; k < 60; k++) {
        u *= slope ? w / ((3 * k) * (3 * k + 2)) : w / ((3 * k + 2) * (3 * k + 3));
        f += u;
        int m = k - first;
        v *= slope ? w / ((3 * m + 1) * (3 * m + 3)) : w / ((3 * m + 3) * (3 * m + 4));
        g += v;
    }
    return (double)(c * f - d * g);
}

FM_CALL double fm_airy_ai_f64(double x) {
    const double inv_sqrt_pi = 0.56418958354775628695;
    if (x != x) return x;
    if (x >= -4.5 && x < 2.0) return fm_airy_series_f64(x, 0);
    double a = __builtin_fabs(x), z = a * __builtin_sqrt(a) * (2.0 / 3), t = 1.0 / z;
    double root = __builtin_sqrt(__builtin_sqrt(a));
    if (x > 0.0) {
        double scaled = $cheb(t * 3.7712361663282534 - 1.0, AIRY_AI_RIGHT);
        return a > 110.0 ? 0.0 : 0.5 * inv_sqrt_pi / root * __builtin_exp(-z) * scaled;
    }
    if (a == __builtin_inf()) return 0.0;
    double u = t * t * 81.0 - 1.0, angle = z + 0.78539816339744830962;
    double even = $cheb(u, AIRY_LEFT_00), odd = t * $cheb(u, AIRY_LEFT_01);
    return inv_sqrt_pi / root * (__builtin_sin(angle) * even - __builtin_cos(angle) * odd);
}

FM_CALL double fm_airy_ai_derivative_f64(double x) {
    const double inv_sqrt_pi = 0.56418958354775628695;
    if (x != x) return x;
    if (x >= -4.5 && x < 2.0) return fm_airy_series_f64(x, 1);
    double a = __builtin_fabs(x), z = a * __builtin_sqrt(a) * (2.0 / 3), t = 1.0 / z;
    double root = __builtin_sqrt(__builtin_sqrt(a));
    if (x > 0.0) {
        double scaled = $cheb(t * 3.7712361663282534 - 1.0, AIRY_AIP_RIGHT);
        return a > 110.0 ? 0.0 : -0.5 * inv_sqrt_pi * root * __builtin_exp(-z) * scaled;
    }
    double u = t * t * 81.0 - 1.0, angle = z + 0.78539816339744830962;
    double even = $cheb(u, AIRY_LEFT_10), odd = t * $cheb(u, AIRY_LEFT_11);
    return -inv_sqrt_pi * root * (__builtin_cos(angle) * even + __builtin_sin(angle) * odd);
}
"""

_UNARY = "lgamma digamma bessel_j0 bessel_j1 bessel_y0 bessel_y1 airy_ai airy_ai_derivative".split()
_BINARY = "zeta polygamma igamma igammac".split()


def fill(library: Library) -> None:
    """Enter the functions of this module."""
    library.add(GAMMA, {}, ("f64",))
    library.add(INCOMPLETE_GAMMA, {}, ("f64",))
    library.add(BESSEL_AND_AIRY, AIRY, ("f64",))
    binary = _BINARY + polynomials(library)
    for name in _UNARY:
        library.add(
            f"FM_CALL float fm_{name}_f32(float x) {{\n    return (float)fm_{name}_f64(x);\n}}",
            {},
            ("f64",),
        )
    for name in binary:
        library.add(
            f"FM_CALL float fm_{name}_f32(float x, float y) {{\n    return (float)fm_{name}_f64(x, y);\n}}",
            {},
            ("f64",),
        )
