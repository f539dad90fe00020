/* How samples move with the parameters of their distribution, at a fixed probability: minus the derivative
 * of the distribution function by the parameter over the density. [Figurnov et al. 2018]
 *
 * Takes: samples of the standard gamma and of beta distributions, and their parameters, as doubles.
 * Gives: the derivatives by the shape, and by the first shape over one minus the sample.
 * Keeps true: to some 1e-8 of their size for shapes of 1e-3 to 1e6 wherever the sample lies, in either tail too.
 * The distribution function is a factor, of which the logarithm is differentiated, times a series or a continued
 * fraction, which carries its own derivative; 1 / shape is taken out of both, where they would cancel. */
#ifndef FK_SAMPLE_RATES_H
#define FK_SAMPLE_RATES_H
#include <math.h>
#include "facula_abi.h"
#include "fk_base.h"

/* a quantity and its derivative by the parameter */
typedef struct {
    double value, slope;
} fk_sloped;

/* the asymptotic series of digamma less the logarithm */
FK_LOCAL double fk_digamma_rest(double x) {
    double y = 1 / (x * x);
    return -0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

FK_LOCAL double fk_digamma_positive(double x) {
    double shift = 0;
    for (; x < 10; x += 1) shift -= 1 / x;
    return shift + log(x) + fk_digamma_rest(x);
}

/* digamma(x + step) - digamma(x), for x > 0 and x + step > 0, also where the step is small */
FK_LOCAL double fk_digamma_step(double x, double step) {
    double shift = 0;
    for (; x < 10 || x + step < 10; x += 1) shift += step / (x * (x + step));
    return shift + log1p(step / x) + (fk_digamma_rest(x + step) - fk_digamma_rest(x));
}

/* Sum of x^k / ((a+1) .. (a+k)): the lower incomplete gamma function without its factor x^a e^-x / a. */
FK_LOCAL double fk_gamma_rate_below(double a, double x) {
    double term = 1, slope = 0;
    fk_sloped sum = {1, 0};
    for (double k = 1; k < 1e6; k++) {
        term *= x / (a + k), slope -= 1 / (a + k);
        sum.value += term, sum.slope += term * slope;
        if (fabs(term * slope) < 1e-17 * fabs(sum.slope) && term < 1e-17 * sum.value) break;
    }
    return -x / a * (sum.value * (log(x) - fk_digamma_positive(a + 1)) + sum.slope);
}

/* What Lentz's method keeps of a continued fraction 1 / (b0 + n1 / (b1 + ...)). */
typedef struct {
    fk_sloped above, below, result;
} fk_fraction;

/* One more level, `n` over `b`; whether it changed nothing. */
FK_INLINE int fk_deeper(fk_fraction *f, fk_sloped n, fk_sloped b) {
    double ratio = n.value / f->above.value;
    double dratio = (n.slope - ratio * f->above.slope) / f->above.value;
    double below = b.value + n.value * f->below.value;
    double dbelow = b.slope + n.slope * f->below.value + n.value * f->below.slope;
    f->above = (fk_sloped){b.value + ratio, b.slope + dratio};
    f->below = (fk_sloped){1 / below, -dbelow / (below * below)};
    double step = f->above.value * f->below.value;
    double dstep = f->above.slope * f->below.value + f->above.value * f->below.slope;
    f->result.slope = f->result.slope * step + f->result.value * dstep;
    f->result.value *= step;
    return fabs(step - 1) < 4e-16 && fabs(f->result.value * dstep) <= 4e-16 * fabs(f->result.slope);
}

/* The upper incomplete gamma function without its factor x^a e^-x. */
FK_LOCAL double fk_gamma_rate_above(double a, double x) {
    fk_sloped b = {x + 1 - a, -1};
    fk_sloped first = {1 / b.value, 1 / (b.value * b.value)};
    fk_fraction f = {{1e300, 0}, first, first};
    for (double k = 1; k < 10000; k++) {
        b.value += 2;
        if (fk_deeper(&f, (fk_sloped){-k * (k - a), k}, b)) break;
    }
    return x * (f.result.value * (log(x) - fk_digamma_positive(a)) + f.result.slope);
}

/* The derivative of a standard gamma sample by its shape. */
FK_LOCAL double fk_gamma_rate(double shape, double sample) {
    if (!(shape > 0) || !(sample >= 0) || !isfinite(shape)) return NAN;
    if (sample == 0) return 0;
    if (shape > 1e6) { /* Wilson and Hilferty's cube at a fixed normal number */
        double t = 1 / (9 * shape), cube = cbrt(sample / shape), z = (cube - 1 + t) / sqrt(t);
        return cube * cube * cube + 3 * cube * cube * (t - 0.5 * z * sqrt(t));
    }
    return sample < shape + 1 ? fk_gamma_rate_below(shape, sample)
                              : fk_gamma_rate_above(shape, sample);
}

/* The incomplete beta function of x, p and q without its factor x^p (1-x)^q / p, and its derivative by p or by q. It
 * takes some sqrt(p + q) levels, as long as x is not much above the mean. */
FK_LOCAL fk_sloped fk_beta_fraction(double p, double q, double x, int by_q) {
    fk_fraction f = {{1e300, 0}, {1, 0}, {1, 0}};
    for (int k = 1; k < 1000000; k++) {
        double m = k / 2, w = p + 2 * m;
        fk_sloped n;
        if (k % 2) {
            n.value = -(p + m) * ((p + q + m) / w) * x / (w + 1);
            n.slope = 1 / (p + q + m);
            if (!by_q) n.slope += 1 / (p + m) - 1 / w - 1 / (w + 1);
            n.slope *= n.value;
        } else {
            double unit = m * x / ((w - 1) * w);
            n.value = unit * (q - m);
            n.slope = by_q ? unit : -n.value * (1 / (w - 1) + 1 / w);
        }
        if (fk_deeper(&f, n, (fk_sloped){1, 0})) break;
    }
    return f.result;
}

/* The derivative of a beta sample by the first of its shapes, over one minus the sample. */
FK_LOCAL double fk_beta_rate(double x, double a, double b) {
    if (!(a > 0) || !(b >= 0) || !(x >= 0) || !(x <= 1) || !isfinite(a + b)) return NAN;
    if (x == 0 || b == 0) return 0; /* without a second shape there is one point only, which stays */
    if (x <= (a + 1) / (a + b + 2)) {
        fk_sloped f = fk_beta_fraction(a, b, x, 0);
        return -x / a * (f.value * (log(x) + fk_digamma_step(a + 1, b - 1)) + f.slope);
    }
    fk_sloped f = fk_beta_fraction(b, a, 1 - x, 1);
    return x / b * (f.value * (log(x) + fk_digamma_step(a, b)) + f.slope);
}

static void fk_gamma_rate_body(
    char **p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    double *out = (double *)(void *)p[0];
    const double *shape = (const double *)(const void *)p[1];
    const double *sample = (const double *)(const void *)p[2];
    for (int64_t i = begin; i < end; i++) out[i] = fk_gamma_rate(shape[i], sample[i]);
}

static void fk_beta_rate_body(
    char **p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    double *out = (double *)(void *)p[0];
    const double *x = (const double *)(const void *)p[1];
    const double *a = (const double *)(const void *)p[2];
    const double *b = (const double *)(const void *)p[3];
    for (int64_t i = begin; i < end; i++) out[i] = fk_beta_rate(x[i], a[i], b[i]);
}
#endif
