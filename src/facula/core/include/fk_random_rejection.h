/* Random numbers that take an unknown number of draws each: gamma, Poisson, binomial.
 *
 * Takes: adjacent doubles out, parameters per element, seed and offset.
 * Gives: samples, as doubles; and the derivative of a gamma sample by its shape.
 * Keeps true: element i is a function of (seed, offset, i) and its parameters alone. Its draws are
 * the counters i, i + 2^40, i + 2 * 2^40, ... of one offset. Parameters out of range give NaN, never
 * an endless loop. */
#ifndef FK_RANDOM_REJECTION_H
#define FK_RANDOM_REJECTION_H
#include "fk_random.h"

enum { FK_DRAW_GAMMA, FK_DRAW_POISSON, FK_DRAW_BINOMIAL };

/* the draws of one element: two doubles a counter */
typedef struct {
    uint64_t seed, offset, index;
    uint32_t words[4];
    int used;
} fk_draws;

FK_LOCAL double fk_next(fk_draws *d) {
    if (d->used == 2) {
        fk_philox(d->seed, d->offset, d->index, d->words);
        d->index += (uint64_t)1 << 40;
        d->used = 0;
    }
    return fk_open_double(fk_two_words(d->words + 2 * d->used++));
}

FK_LOCAL double fk_next_normal(fk_draws *d) {
    double radius = sqrt(-2 * log(fk_next(d))), sine, cosine;
    fk_sincos_double(fk_next(d), &sine, &cosine);
    return radius * cosine;
}

/* log k!: the table below 10, Stirling's series above */
FK_LOCAL double fk_log_factorial(double k) {
    static const double table[10] = {0, 0, 0.69314718055994530942, 1.7917594692280550008,
        3.1780538303479456197, 4.7874917427820459943, 6.5792512120101009951, 8.5251613610654143002,
        10.604602902745250228, 12.801827480081469611};
    if (k < 10) return table[(int)k];
    double x = k + 1, y = 1 / (x * x);
    double series = (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y / 1680))) / x;
    return (x - 0.5) * log(x) - x + 0.91893853320467274178 + series;
}

/* Cube of a shifted normal number, accepted by its density. [Marsaglia & Tsang 2000] */
FK_LOCAL double fk_draw_gamma(fk_draws *d, double shape) {
    double factor = 1;
    if (shape == 0) return 0;
    if (!(shape > 0) || !isfinite(shape)) return NAN;
    if (shape < 1) {
        factor = pow(fk_next(d), 1 / shape);
        shape += 1;
    }
    double third = shape - 1.0 / 3, c = 1 / sqrt(9 * third);
    for (;;) {
        double x = fk_next_normal(d), y = 1 + c * x;
        if (y <= 0) continue;
        double v = y * y * y, u = fk_next(d), square = x * x;
        if (u < 1 - 0.0331 * square * square || log(u) < 0.5 * square + third * (1 - v + log(v)))
            return factor * third * v;
    }
}

/* Products of uniform numbers for small rates, transformed rejection above. [Hoermann 1993] */
FK_LOCAL double fk_draw_poisson(fk_draws *d, double rate) {
    if (rate == 0) return 0;
    if (!(rate > 0) || !isfinite(rate)) return NAN;
    if (rate < 10) {
        double limit = exp(-rate), product = fk_next(d), count = 0;
        for (; product > limit; count++) product *= fk_next(d);
        return count;
    }
    double root = sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = fk_next(d) - 0.5, v = fk_next(d), edge = 0.5 - fabs(u);
        double k = floor((2 * a / edge + b) * u + rate + 0.43);
        if (edge >= 0.07 && v <= quick) return k;
        if (k < 0 || (edge < 0.013 && v > edge)) continue;
        if (log(v * inverse / (a / (edge * edge) + b)) <=
            k * log(rate) - rate - fk_log_factorial(k))
            return k;
    }
}

/* The number of waiting times that fit into the trials, or transformed rejection when many are
 * expected. [Hoermann 1993] */
FK_LOCAL double fk_draw_binomial(fk_draws *d, double trials, double p) {
    if (!(trials >= 0) || !(p >= 0 && p <= 1) || !isfinite(trials)) return NAN;
    if (p > 0.5) return trials - fk_draw_binomial(d, trials, 1 - p);
    if (p == 0 || trials == 0) return 0;
    if (trials * p < 10) {
        double scale = 1 / log1p(-p), passed = 0, count = 0;
        for (;; count++) {
            passed += ceil(log(fk_next(d)) * scale);
            if (passed > trials) return count;
        }
    }
    double spread = sqrt(trials * p * (1 - p)), b = 1.15 + 2.53 * spread;
    double a = -0.0873 + 0.0248 * b + 0.01 * p, quick = 0.92 - 4.2 / b;
    double alpha = (2.83 + 5.1 / b) * spread, mode = floor((trials + 1) * p);
    double odds = log(p / (1 - p));
    double top = fk_log_factorial(mode) + fk_log_factorial(trials - mode);
    for (;;) {
        double u = fk_next(d) - 0.5, v = fk_next(d), edge = 0.5 - fabs(u);
        double k = floor((2 * a / edge + b) * u + trials * p + 0.5);
        if (edge >= 0.07 && v <= quick) return k;
        if (k < 0 || k > trials) continue;
        if (log(v * alpha / (a / (edge * edge) + b)) <=
            top - fk_log_factorial(k) - fk_log_factorial(trials - k) + (k - mode) * odds)
            return k;
    }
}

typedef struct {
    double *out;
    const double *a, *b;
    uint64_t seed, offset;
    int kind;
} fk_draw_job;

static void fk_draw_body(
    char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    const fk_draw_job *job = (const fk_draw_job *)(const void *)p[0];
    for (int64_t i = begin; i < end; i++) {
        fk_draws d = {.seed = job->seed, .offset = job->offset, .index = (uint64_t)i, .used = 2};
        job->out[i] = job->kind == FK_DRAW_GAMMA     ? fk_draw_gamma(&d, job->a[i])
                      : job->kind == FK_DRAW_POISSON ? fk_draw_poisson(&d, job->a[i])
                                                     : fk_draw_binomial(&d, job->a[i], job->b[i]);
    }
}

/* n samples with parameters per element. */
FK_LOCAL void fk_random_draws(int kind, double *out, const double *a, const double *b, int64_t n,
    uint64_t seed, uint64_t offset) {
    fk_draw_job job = {
        .out = out, .a = a, .b = b, .seed = seed, .offset = offset, .kind = kind};
    char *p[1] = {(char *)&job};
    fk_parallel((fk_body)fk_draw_body, p, NULL, NULL, n, 256);
}

/* ---- the derivative of a gamma sample by its shape, at a fixed probability ---- */

FK_LOCAL double fk_digamma_positive(double x) {
    double shift = 0;
    for (; x < 10; x += 1) shift -= 1 / x;
    double y = 1 / (x * x);
    return shift + log(x) - 0.5 / x -
           y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

/* Sum of x^k / (a (a+1) .. (a+k)) and its derivative by a: the lower incomplete gamma function
 * without its factor x^a e^-x. */
FK_LOCAL double fk_gamma_rate_below(double a, double x) {
    double term = 1 / a, slope = -1 / a, sum = term, change = term * slope;
    for (double k = 1; k < 1e6; k++) {
        term *= x / (a + k), slope -= 1 / (a + k);
        sum += term, change += term * slope;
        if (fabs(term * slope) < 1e-17 * fabs(change) && term < 1e-17 * sum) break;
    }
    return -x * (sum * (log(x) - fk_digamma_positive(a)) + change);
}

/* The upper incomplete function as a continued fraction (Lentz), every quantity with its
 * derivative by a. */
FK_LOCAL double fk_gamma_rate_above(double a, double x) {
    double b = x + 1 - a, db = -1, c = 1e300, dc = 0;
    double d = 1 / b, dd = -db * d * d, h = d, dh = dd;
    for (double k = 1; k < 10000; k++) {
        double n = -k * (k - a), dn = k;
        b += 2;
        double below = n * d + b, dbelow = dn * d + n * dd + db;
        double ratio = n / c, dratio = dn / c - ratio * dc / c;
        c = b + ratio, dc = db + dratio;
        d = 1 / below, dd = -dbelow * d * d;
        double step = c * d, dstep = dc * d + c * dd;
        dh = dh * step + h * dstep, h *= step;
        if (fabs(step - 1) < 1e-16 && fabs(dstep) < 1e-16 * (fabs(dh / h) + 1e-300)) break;
    }
    return x * (h * (log(x) - fk_digamma_positive(a)) + dh);
}

/* d sample / d shape for a standard gamma sample: minus the derivative of the distribution function
 * by the shape over the density. */
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

static void fk_gamma_rate_body(
    char **p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)n, (void)s;
    double *out = (double *)(void *)p[0];
    const double *shape = (const double *)(const void *)p[1];
    const double *sample = (const double *)(const void *)p[2];
    for (int64_t i = begin; i < end; i++) out[i] = fk_gamma_rate(shape[i], sample[i]);
}
#endif
