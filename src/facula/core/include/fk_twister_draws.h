/* Samples that take an unknown number of draws each, from a Mersenne twister, as PyTorch makes them:
 * Poisson, binomial, gamma; and classes by their weights.
 *
 * Takes: a twister, parameters per element as doubles.
 * Gives: samples as doubles; class numbers.
 * Keeps true: elements are drawn one behind the other; operations and their order are PyTorch's, whose
 * code for these is built without FMA. */
#ifndef FK_TWISTER_DRAWS_H
#define FK_TWISTER_DRAWS_H
#include "fk_twister_tiles.h"

FK_ROUNDED_BEGIN
/* Products of uniform numbers for small rates, transformed rejection above. [Hoermann 1993] */
FK_LOCAL double fk_twister_poisson(fk_twister *t, double rate) {
    if (!(rate > 0)) return 0;
    if (rate < 10) {
        double limit = exp(-rate), product = 1, count = 0;
        for (;; count++) {
            product *= fk_twister_double(t);
            if (!(product > limit)) return count;
        }
    }
    double root = sqrt(rate), logarithm = log(rate);
    double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = fk_twister_double(t) - 0.5, v = fk_twister_double(t), edge = 0.5 - fabs(u);
        double k = floor((2 * a / edge + b) * u + rate + 0.43);
        if (edge >= 0.07 && v <= quick) return k;
        if (k < 0 || (edge < 0.013 && v > edge)) continue;
        if (log(v) + log(inverse) - log(a / (edge * edge) + b) <=
            -rate + k * logarithm - lgamma(k + 1))
            return k;
    }
}

/* log k! less Stirling's formula without its series */
FK_LOCAL double fk_stirling_rest(double k) {
    static const double table[10] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983,
        0.02079067210376509, 0.0166446911898211, 0.0138761288230707, 0.0118967099458917,
        0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
    if (k <= 9) return table[(int)k];
    double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/* How many waiting times fit into the trials. */
FK_LOCAL double fk_twister_waits(fk_twister *t, double trials, double p) {
    double scale = log1p(-p), passed = 0, count = 0;
    for (;; count++) {
        passed += ceil(log(fk_twister_double(t)) / scale);
        if (passed > trials) return count;
    }
}

/* Transformed rejection. [Hoermann 1993] */
FK_LOCAL double fk_twister_many(fk_twister *t, double trials, double p) {
    double spread = sqrt(trials * p * (1 - p)), b = 1.15 + 2.53 * spread;
    double a = -0.0873 + 0.0248 * b + 0.01 * p, centre = trials * p + 0.5, quick = 0.92 - 4.2 / b;
    double odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread, mode = floor((trials + 1) * p);
    for (;;) {
        double u = fk_twister_double(t) - 0.5, v = fk_twister_double(t), edge = 0.5 - fabs(u);
        double k = floor((2 * a / edge + b) * u + centre);
        if (k < 0 || k > trials) continue;
        if (edge >= 0.07 && v <= quick) return k;
        v = log(v * alpha / (a / (edge * edge) + b));
        double limit = (mode + 0.5) * log((mode + 1) / (odds * (trials - mode + 1))) +
                       (trials + 1) * log((trials - mode + 1) / (trials - k + 1)) +
                       (k + 0.5) * log(odds * (trials - k + 1) / (k + 1)) + fk_stirling_rest(mode) +
                       fk_stirling_rest(trials - mode) - fk_stirling_rest(k) -
                       fk_stirling_rest(trials - k);
        if (v <= limit) return k;
    }
}

FK_LOCAL double fk_twister_binomial(fk_twister *t, double trials, double p) {
    if (!(trials > 0) || !(p > 0)) return isnan(p) || isnan(trials) ? NAN : 0;
    if (p >= 1) return trials;
    if (isinf(trials)) return NAN; /* where PyTorch draws for ever */
    double less = p <= 0.5 ? p : 1 - p;
    double count = trials * less >= 10 ? fk_twister_many(t, trials, less)
                                       : fk_twister_waits(t, trials, less);
    return p <= 0.5 ? count : trials - count;
}

/* Cube of a shifted normal number. Shapes of single precision are shifted in single precision; the
 * constants are single in any case. [Marsaglia & Tsang 2000] */
FK_LOCAL double fk_twister_gamma(fk_twister *t, double shape, int single, double *logarithm) {
    fk_gamma_parts g = {1, 0, 0, 0};
    if (!(shape > 0) || isinf(shape)) return fk_gamma_without_draw(shape, logarithm);
    if (shape < 1) {
        g.power = single ? (double)(1.0f / (float)shape) : 1.0 / shape;
        g.uniform = 1 - fk_twister_double(t);
        shape = single ? (double)((float)shape + 1.0f) : shape + 1.0;
    }
    double third = single ? (double)((float)shape - 1.0f / 3.0f) : shape - (double)(1.0f / 3.0f);
    double c = 1 / sqrt(9 * third);
    g.third = third;
    for (;;) {
        double x = fk_twister_normal(t), y = 1 + c * x;
        if (y <= 0) continue;
        double v = y * y * y, u = 1 - fk_twister_double(t), square = x * x;
        if (u < 1 - (double)0.0331f * square * square ||
            log(u) < 0.5 * square + third * (1 - v + log(v)))
            return g.cube = v, fk_gamma_value(g, logarithm);
    }
}

/* One row of weights to shares of the sum so far; in single precision where that is asked for. */
FK_LOCAL void fk_running_shares(const double *weight, double *share, int64_t classes, int single) {
    double sum = 0;
    for (int64_t i = 0; i < classes; i++) {
        sum = single ? (double)((float)sum + (float)weight[i]) : sum + weight[i];
        share[i] = sum;
    }
    for (int64_t i = 0; i < classes; i++)
        share[i] = single ? (double)((float)share[i] / (float)sum) : share[i] / sum;
    share[classes - 1] = 1;
}

/* `count` class numbers for each row of weights, the first one whose share is not below a uniform
 * number; `share` is room for a row. */
FK_LOCAL void fk_twister_choose(fk_twister *t, const double *weight, double *share, int64_t *out,
    int64_t rows, int64_t classes, int64_t count, int single) {
    for (int64_t row = 0; row < rows; row++, weight += classes) {
        fk_running_shares(weight, share, classes, single);
        for (int64_t i = 0; i < count; i++) {
            double x = fk_twister_double(t);
            int64_t left = 0, right = classes;
            while (left < right) {
                int64_t middle = left + (right - left) / 2;
                if (share[middle] < x)
                    left = middle + 1;
                else
                    right = middle;
            }
            *out++ = left;
        }
    }
}
FK_ROUNDED_END
#endif
