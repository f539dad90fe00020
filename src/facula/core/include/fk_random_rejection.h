/* Random numbers that take an unknown number of draws each: gamma, Poisson, binomial.
 *
 * Takes: adjacent doubles out, parameters per element, seed and offset.
 * Gives: samples, as doubles; of gamma variates also their logarithms, which do not underflow.
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

/* What is drawn of a gamma variate: a power of a uniform number (where the shape is below 1), the cube of a
 * shifted normal number, and a third of the shape. */
typedef struct {
    double uniform, power, third, cube;
} fk_gamma_parts;

/* Their product, and its logarithm where there is a place for it. */
FK_LOCAL double fk_gamma_value(fk_gamma_parts g, double *logarithm) {
    if (logarithm) *logarithm = g.power * log(g.uniform) + log(g.third * g.cube);
    return pow(g.uniform, g.power) * g.third * g.cube;
}
/* of shape 0, which is certainly 0, and of a shape that is none */
FK_LOCAL double fk_gamma_without_draw(double shape, double *logarithm) {
    if (logarithm) *logarithm = shape == 0 ? -INFINITY : NAN;
    return shape == 0 ? 0 : NAN;
}

/* Cube of a shifted normal number, accepted by its density. [Marsaglia & Tsang 2000] */
FK_LOCAL double fk_draw_gamma(fk_draws *d, double shape, double *logarithm) {
    fk_gamma_parts g = {1, 0, 0, 0};
    if (!(shape > 0) || !isfinite(shape)) return fk_gamma_without_draw(shape, logarithm);
    if (shape < 1) {
        g.uniform = fk_next(d), g.power = 1 / shape;
        shape += 1;
    }
    double third = g.third = shape - 1.0 / 3, c = 1 / sqrt(9 * third);
    for (;;) {
        double x = fk_next_normal(d), y = 1 + c * x;
        if (y <= 0) continue;
        double v = y * y * y, u = fk_next(d), square = x * x;
        if (u < 1 - 0.0331 * square * square || log(u) < 0.5 * square + third * (1 - v + log(v)))
            return g.cube = v, fk_gamma_value(g, logarithm);
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
    double *out, *logs;
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
        job->out[i] = job->kind == FK_DRAW_POISSON    ? fk_draw_poisson(&d, job->a[i])
                      : job->kind == FK_DRAW_BINOMIAL ? fk_draw_binomial(&d, job->a[i], job->b[i])
                                                      : fk_draw_gamma(&d, job->a[i],
                                                            job->logs ? job->logs + i : NULL);
    }
}

/* n samples with parameters per element; `logs`: NULL, or where the logarithms of gamma samples go */
FK_LOCAL void fk_random_draws(int kind, double *out, double *logs, const double *a, const double *b,
    int64_t n, uint64_t seed, uint64_t offset) {
    fk_draw_job job = {
        .out = out, .logs = logs, .a = a, .b = b, .seed = seed, .offset = offset, .kind = kind};
    char *p[1] = {(char *)&job};
    fk_parallel((fk_body)fk_draw_body, p, NULL, NULL, n, 256);
}
#endif
