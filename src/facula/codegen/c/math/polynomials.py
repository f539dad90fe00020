"""Orthogonal polynomials in C: one element at a time.

Takes: nothing.
Gives: `polynomials(library)`.
Keeps true: any degree ends at once: closed forms and asymptotic series stand where a recurrence would
take too long; a value beyond the range is infinite.
Sources: Abramowitz & Stegun 1964 chapter 22; DLMF 18.15.
"""

from __future__ import annotations

from facula.codegen.c.math.text import Library

__all__ = ["polynomials"]

#: recurrence of each family: start `p0 = 1`, `p1`, then `p(k+1)` from `p = p(k)` and `q = p(k-1)`
_FAMILIES = {
    "chebyshev_t": ("y", "2.0 * y * p - q"),
    "chebyshev_u": ("2.0 * y", "2.0 * y * p - q"),
    "chebyshev_v": ("2.0 * y - 1.0", "2.0 * y * p - q"),
    "chebyshev_w": ("2.0 * y + 1.0", "2.0 * y * p - q"),
    "hermite_h": ("2.0 * y", "2.0 * (y * p - k * q)"),
    "hermite_he": ("y", "y * p - k * q"),
    "laguerre_l": ("1.0 - y", "((2.0 * k + 1.0 - y) * p - k * q) / (k + 1.0)"),
    "legendre_p": ("y", "((2.0 * k + 1.0) * y * p - k * q) / (k + 1.0)"),
}

#: closed forms for high degrees: inside of [-1, 1], at 1, at -1 (there times (-1)^n), and beyond
_CLOSED = {
    "chebyshev_t": ("__builtin_cos(m * t)", "1.0", "1.0", "__builtin_cosh(m * t)"),
    "chebyshev_u": (
        "__builtin_sin((m + 1.0) * t) / __builtin_sin(t)",
        "m + 1.0",
        "m + 1.0",
        "__builtin_sinh((m + 1.0) * t) / __builtin_sinh(t)",
    ),
    "chebyshev_v": (
        "__builtin_cos((m + 0.5) * t) / __builtin_cos(0.5 * t)",
        "1.0",
        "2.0 * m + 1.0",
        "y > 0.0 ? __builtin_cosh((m + 0.5) * t) / __builtin_cosh(0.5 * t)"
        " : __builtin_sinh((m + 0.5) * t) / __builtin_sinh(0.5 * t)",
    ),
    "chebyshev_w": (
        "__builtin_sin((m + 0.5) * t) / __builtin_sin(0.5 * t)",
        "2.0 * m + 1.0",
        "1.0",
        "y < 0.0 ? __builtin_cosh((m + 0.5) * t) / __builtin_cosh(0.5 * t)"
        " : __builtin_sinh((m + 0.5) * t) / __builtin_sinh(0.5 * t)",
    ),
}

#: degrees from which a recurrence takes too long, and asymptotic series are exact to rounding
_ASYMPTOTIC = {
    "legendre_p": "    if (m > 1e6) return fm_legendre_high_f64(m, y);\n",
    "laguerre_l": "    if (m > 1e6) return fm_laguerre_high_f64(m, y);\n",
}

# Hilb's formula with its second term; Frenzen & Wong's for Laguerre (DLMF 18.15.19), whose next term
# is of the order of 1 / m^2
_HIGH = """
FM_CALL double fm_bessel_i_series_f64(double order, double z) {
    if (z > 720.0) return __builtin_inf();
    double term = order == 0.0 ? 1.0 : 0.5 * z, sum = term, square = 0.25 * z * z;
    for (double k = 1.0; k < 2000.0; k += 1.0) {
        term *= square / (k * (k + order));
        sum += term;
        if (term < 1e-17 * sum) break;
    }
    return sum;
}

FM_CALL double fm_distance_f64(double y) {
    double d = y - 1.0;
    return __builtin_log1p(d + __builtin_sqrt(d * (d + 2.0)));
}

FM_CALL double fm_legendre_high_f64(double m, double x) {
    double y = __builtin_fabs(x), big = m + 0.5, r;
    if (y < 1.0) {
        double t = __builtin_acos(y), c = 0.125 * (1.0 / __builtin_tan(t) - 1.0 / t);
        r = fm_bessel_j0_f64(big * t) + c * fm_bessel_j1_f64(big * t) / big;
        r *= __builtin_sqrt(t / __builtin_sin(t));
    } else if (y == 1.0) {
        r = 1.0;
    } else {
        double t = fm_distance_f64(y), c = 0.125 * (1.0 / __builtin_tanh(t) - 1.0 / t);
        if (big * t > 720.0) r = __builtin_inf();
        else {
            r = fm_bessel_i_series_f64(0.0, big * t) + c * fm_bessel_i_series_f64(1.0, big * t) / big;
            r *= __builtin_sqrt(t / __builtin_sinh(t));
        }
    }
    return x < 0.0 && __builtin_fmod(m, 2.0) == 1.0 ? -r : r;
}

FM_CALL double fm_laguerre_high_f64(double m, double x) {
    double v = 4.0 * m + 2.0, a = __builtin_fabs(x) / v, root = __builtin_sqrt(a), t, c, f, g, s;
    if (x == 0.0) return 1.0;
    if (!(x < 1500.0)) return __builtin_inf();
    s = x > 0.0 ? -1.0 : 1.0;
    t = 0.5 * (__builtin_sqrt(a + s * a * a) + (x > 0.0 ? __builtin_asin(root) : __builtin_asinh(root)));
    if (x < 0.0 && v * t > 720.0) return __builtin_inf();
    c = a / (1.0 + s * a);
    c = t * __builtin_sqrt((1.0 + s * a) / a) * (-0.125 - s * 0.25 * c + 5.0 / 24.0 * c * c);
    c = -0.5 * (0.125 + c) / v;
    f = x > 0.0 ? fm_bessel_j0_f64(v * t) : fm_bessel_i_series_f64(0.0, v * t);
    g = x > 0.0 ? fm_bessel_j1_f64(v * t) : fm_bessel_i_series_f64(1.0, v * t);
    f = (__builtin_sqrt(t) * f + c / __builtin_sqrt(t) * g) / __builtin_sqrt(__builtin_sqrt(a + s * a * a));
    return __builtin_exp(0.5 * x) * f;
}
"""

_POLYNOMIAL = """
FM_CALL double fm_@NAME_f64(double x, double n) {
    double y = @ARGUMENT, q = 1.0, p = @FIRST, m = __builtin_trunc(n);
    if (!(m >= 0.0)) return 0.0;
    if (m < 1.0) return 1.0;
    if (x != x) return x;
@CLOSED    for (double k = 1.0; k < m; k += 1.0) {
        double next = @NEXT;
        q = p;
        p = next;
        if (!(__builtin_fabs(p) < __builtin_inf())) break;
    }
    return p;
}
"""

_HIGH_DEGREE = """    if (m > 6.0 && __builtin_fabs(y) <= 1.0) {
        double t = __builtin_acos(y), odd = __builtin_fmod(m, 2.0);
        return y == 1.0 ? @TOP : y == -1.0 ? (odd == 1.0 ? -(@BOTTOM) : @BOTTOM) : @INSIDE;
    }
    if (m > 1000.0) {
        double t = fm_distance_f64(__builtin_fabs(y)), odd = __builtin_fmod(m, 2.0), r;
        if (m * t > 750.0) r = __builtin_inf();
        else r = @BEYOND;
        return y < 0.0 && odd == 1.0 ? -r : r;
    }
"""


def polynomials(library: Library) -> list[str]:
    """Enter the functions of this module; gives their names."""
    library.add(_HIGH, {}, ("f64",))
    names = []
    for family, (first, following) in _FAMILIES.items():
        shifts = ("", "shifted_") if family.startswith("chebyshev") else ("",)
        for shift in shifts:
            closed = _ASYMPTOTIC.get(family, "")
            if family in _CLOSED:
                inside, top, bottom, beyond = _CLOSED[family]
                closed = _HIGH_DEGREE.replace("@TOP", top).replace("@BOTTOM", bottom)
                closed = closed.replace("@INSIDE", inside).replace("@BEYOND", beyond)
            text = (
                _POLYNOMIAL.replace("@NAME", shift + family)
                .replace("@CLOSED", closed)
                .replace("@FIRST", first)
            )
            text = text.replace("@NEXT", following).replace(
                "@ARGUMENT", "2.0 * x - 1.0" if shift else "x"
            )
            library.add(text, {}, ("f64",))
            names.append(shift + family)
    return names
