/* A stream of random numbers: one interface, two implementations.
 *
 * Takes: a stream (a counter and its seed, or a Mersenne twister) and a request: which distribution,
 * its parameters, where its numbers go and in which dtype.
 * Gives: the numbers; 0, -1 when there is no such distribution for the dtype, -2 without memory.
 * Keeps true: nothing else in the runtime asks which kind of stream it is. The counter (`fk_random.h`)
 * makes element i out of (seed, offset, i) on all threads; the twister (`fk_twister.h`) makes PyTorch's
 * numbers one behind the other, on the caller's thread, and lets one request in at a time. */
#ifndef FK_STREAM_H
#define FK_STREAM_H
#include "fk_random.h"
#include "fk_random_rejection.h"
#include "fk_scratch.h"
#include "fk_twister_draws.h"

enum {
    FK_UNIFORM, FK_NORMAL, FK_LOG_NORMAL, FK_EXPONENTIAL, FK_CAUCHY, FK_GEOMETRIC, FK_BERNOULLI,
    FK_INTEGERS, FK_PERMUTATION, FK_NORMAL_EACH, FK_WHOLE, FK_GAMMA, FK_GAMMA_SINGLE, FK_POISSON,
    FK_BINOMIAL
};

typedef struct fk_stream {
    uint64_t seed, offset;
    fk_twister *twister; /* NULL: the counter */
} fk_stream;

typedef struct fk_request {
    int kind, dtype;
    char *out;
    int64_t n;
    double a, b;
    int64_t low; /* integers: low .. low + range - 1; range 0 means all 2^64 */
    uint64_t range;
    const char *p; /* a parameter per element: of bernoulli, or (as doubles) of gamma and behind */
    int p_dtype;
    const double *q; /* the second one of binomial */
    double *logs;    /* NULL, or where the logarithms of gamma samples go, which do not underflow */
} fk_request;

/* ---- the counter ---- */

FK_LOCAL int fk_counter_fill(const fk_request *r, uint64_t seed, uint64_t offset) {
    char *out = r->out;
    const double *p = (const double *)(const void *)r->p;
    switch (r->kind) {
        case FK_UNIFORM: return fk_random_uniform(out, r->dtype, r->n, r->a, r->b, seed, offset);
        case FK_NORMAL:
        case FK_NORMAL_EACH: return fk_random_normal(out, r->dtype, r->n, r->a, r->b, seed, offset);
        case FK_LOG_NORMAL:
            return fk_random_log_normal(out, r->dtype, r->n, r->a, r->b, seed, offset);
        case FK_EXPONENTIAL:
            return fk_random_exponential(out, r->dtype, r->n, r->a, seed, offset);
        case FK_CAUCHY: return fk_random_cauchy(out, r->dtype, r->n, r->a, r->b, seed, offset);
        case FK_GEOMETRIC: return fk_random_geometric(out, r->dtype, r->n, r->a, seed, offset);
        case FK_BERNOULLI:
            return r->p ? fk_random_bernoulli_tensor(
                              out, r->dtype, r->n, r->p, r->p_dtype, seed, offset)
                        : fk_random_bernoulli(out, r->dtype, r->n, r->a, seed, offset);
        case FK_INTEGERS:
        case FK_WHOLE:
            return fk_random_integers(out, r->dtype, r->n, r->low, r->range, seed, offset);
        case FK_PERMUTATION: return fk_random_permutation(out, r->dtype, r->n, seed, offset);
        default: break;
    }
    int draw = r->kind == FK_POISSON    ? FK_DRAW_POISSON
               : r->kind == FK_BINOMIAL ? FK_DRAW_BINOMIAL
                                        : FK_DRAW_GAMMA;
    fk_random_draws(draw, (double *)(void *)out, r->logs, p, r->q, r->n, seed, offset);
    return 0;
}

/* ---- the twister ---- */

/* to the request's dtype, at element `first`; the narrow floats by way of f32, as PyTorch does */
FK_LOCAL void fk_store_floats(const fk_request *r, int64_t first, const float *x, int64_t n) {
    char *at = r->out + first * fk_itemsize[r->dtype];
    fk_cast_get(FK_F32, r->dtype)((const char *)x, at, n);
}
FK_LOCAL void fk_store_doubles(const fk_request *r, int64_t first, const double *x, int64_t n) {
    char *at = r->out + first * fk_itemsize[r->dtype];
    if (fk_is_float(r->dtype) && fk_itemsize[r->dtype] < 4) {
        _Alignas(64) float narrow[FK_TWISTER_TILE];
        fk_cast_get(FK_F64, FK_F32)((const char *)x, (char *)narrow, n);
        fk_cast_get(FK_F32, r->dtype)((const char *)narrow, at, n);
    } else {
        fk_cast_get(FK_F64, r->dtype)((const char *)x, at, n);
    }
}

FK_INLINE int64_t fk_tile_length(const fk_request *r, int64_t first) {
    return r->n - first < FK_TWISTER_TILE ? r->n - first : FK_TWISTER_TILE;
}

/* What rounding to a narrow dtype took to the open end becomes the closed one, as in PyTorch. */
FK_LOCAL void fk_uniform_ends(const fk_request *r, int64_t first, int64_t n) {
    int item = fk_itemsize[r->dtype];
    char low[8], high[8], *at = r->out + first * item;
    fk_cast_get(FK_F64, r->dtype)((const char *)&r->a, low, 1);
    fk_cast_get(FK_F64, r->dtype)((const char *)&r->b, high, 1);
    for (int64_t i = 0; i < n; i++, at += item)
        if (!memcmp(at, high, (size_t)item)) memcpy(at, low, (size_t)item);
}

FK_LOCAL void fk_twister_uniform(fk_twister *t, const fk_request *r) {
    _Alignas(64) uint32_t words[2 * FK_TWISTER_TILE];
    _Alignas(64) double tile[FK_TWISTER_TILE];
    float *single = (float *)(void *)tile;
    int plain = r->a == 0 && r->b == 1;
    for (int64_t first = 0; first < r->n; first += FK_TWISTER_TILE) {
        int64_t n = fk_tile_length(r, first);
        if (r->dtype == FK_F64) {
            fk_twister_words(t, words, 2 * n);
            fk_unit_tile_double(words, tile, n);
            if (!plain) fk_spread_tile_double(tile, n, r->a, r->b);
            fk_store_doubles(r, first, tile, n);
        } else {
            fk_twister_words(t, words, n);
            fk_unit_tile_float(words, single, n);
            if (!plain) fk_spread_tile_float(single, n, (float)r->a, (float)r->b);
            fk_store_floats(r, first, single, n);
        }
        if (fk_itemsize[r->dtype] < 4) fk_uniform_ends(r, first, n);
    }
}

/* `n` normal numbers, whole groups of 16, to element `first` */
FK_LOCAL void fk_twister_groups(fk_twister *t, const fk_request *r, int64_t first, int64_t n) {
    _Alignas(64) uint32_t words[2 * FK_TWISTER_TILE];
    _Alignas(64) double tile[FK_TWISTER_TILE];
    float *single = (float *)(void *)tile;
    if (r->dtype == FK_F64) {
        fk_twister_words(t, words, 2 * n);
        fk_unit_tile_double(words, tile, n);
        fk_pairs_tile_double(tile, n, r->a, r->b);
        fk_store_doubles(r, first, tile, n);
    } else {
        fk_twister_words(t, words, n);
        fk_unit_tile_float(words, single, n);
        fk_pairs_tile_float(single, n, (float)r->a, (float)r->b);
        fk_store_floats(r, first, single, n);
    }
}

/* 16 numbers and more. What is left behind the last whole group becomes part of one more group that
 * ends with the last element and overwrites what overlaps. In f32 and f64 the words of what is
 * overwritten have been drawn by then, in narrow dtypes they have not. */
FK_LOCAL void fk_twister_normal_many(fk_twister *t, const fk_request *r) {
    int64_t whole = r->n - r->n % FK_TWISTER_GROUP, rest = r->n - whole;
    for (int64_t first = 0; first < whole; first += FK_TWISTER_TILE)
        fk_twister_groups(
            t, r, first, whole - first < FK_TWISTER_TILE ? whole - first : FK_TWISTER_TILE);
    if (!rest) return;
    if (r->dtype == FK_F64 || r->dtype == FK_F32)
        fk_twister_words(t, NULL, r->dtype == FK_F64 ? 2 * rest : rest);
    fk_twister_groups(t, r, r->n - FK_TWISTER_GROUP, FK_TWISTER_GROUP);
}

/* one number of a distribution that PyTorch draws in double precision, element by element */
FK_LOCAL double fk_twister_one(fk_twister *t, const fk_request *r) {
    switch (r->kind) {
        case FK_LOG_NORMAL: return exp(fma(fk_twister_normal(t), r->b, r->a));
        case FK_EXPONENTIAL: return -1.0 / r->a * log1p(-fk_twister_double(t));
        case FK_CAUCHY:
            return fma(r->b, tan(3.14159265358979323846 * (fk_twister_double(t) - 0.5)), r->a);
        case FK_GEOMETRIC: return ceil(log(fk_twister_double(t)) / log1p(-r->a));
        default: return fma(fk_twister_normal(t), r->b, r->a);
    }
}

FK_LOCAL void fk_twister_each(fk_twister *t, const fk_request *r) {
    _Alignas(64) double tile[FK_TWISTER_TILE];
    for (int64_t first = 0; first < r->n; first += FK_TWISTER_TILE) {
        int64_t n = fk_tile_length(r, first);
        for (int64_t i = 0; i < n; i++) tile[i] = fk_twister_one(t, r);
        fk_store_doubles(r, first, tile, n);
    }
}

FK_LOCAL void fk_twister_bernoulli(fk_twister *t, const fk_request *r) {
    _Alignas(64) uint32_t words[2 * FK_TWISTER_TILE];
    _Alignas(64) uint8_t tile[FK_TWISTER_TILE];
    for (int64_t first = 0; first < r->n; first += FK_TWISTER_TILE) {
        int64_t n = fk_tile_length(r, first);
        fk_twister_words(t, words, 2 * n);
        fk_below_tile(words, tile, n, r->a);
        fk_cast_get(FK_B8, r->dtype)(
            (const char *)tile, r->out + first * fk_itemsize[r->dtype], n);
    }
}

/* A probability per element: those of f64 meet 53 bits, others 24. */
FK_LOCAL void fk_twister_bernoulli_tensor(fk_twister *t, const fk_request *r) {
    _Alignas(64) double tile[FK_TWISTER_TILE];
    int wide = r->p_dtype == FK_F64;
    for (int64_t first = 0; first < r->n; first += FK_TWISTER_TILE) {
        int64_t n = fk_tile_length(r, first);
        fk_cast_get(r->p_dtype, FK_F64)(
            r->p + first * fk_itemsize[r->p_dtype], (char *)tile, n);
        for (int64_t i = 0; i < n; i++) {
            double x =
                wide ? fk_twister_double(t) : (double)(fk_twister_word(t) & 0xffffff) * 0x1p-24;
            tile[i] = x < tile[i];
        }
        fk_store_doubles(r, first, tile, n);
    }
}

/* Integers of a range: of 2^28 and more out of two words each. All that a dtype holds (FK_WHOLE): of
 * two words each in eight-byte dtypes. */
FK_LOCAL void fk_twister_integers(fk_twister *t, const fk_request *r) {
    _Alignas(64) int64_t tile[FK_TWISTER_TILE];
    _Alignas(64) uint32_t words[2 * FK_TWISTER_TILE];
    /* a power of two needs no division (speed only) */
    const uint64_t mask = r->range & (r->range - 1) ? 0 : r->range - 1;
    int wide = r->kind == FK_WHOLE ? fk_itemsize[r->dtype] == 8
                                   : r->range == 0 || r->range >= 1ull << 28;
    fk_cast_fn cast = fk_cast_get(FK_I64, r->dtype);
    for (int64_t first = 0; first < r->n; first += FK_TWISTER_TILE) {
        int64_t n = fk_tile_length(r, first);
        fk_twister_words(t, words, wide ? 2 * n : n);
        for (int64_t i = 0; i < n; i++) {
            uint64_t x = wide ? (uint64_t)words[2 * i] << 32 | words[2 * i + 1] : words[i];
            tile[i] = (int64_t)((mask ? x & mask : x % r->range) + (uint64_t)r->low);
        }
        cast((const char *)tile, r->out + first * fk_itemsize[r->dtype], n);
    }
}

/* Fisher and Yates from the start. From 2^32 / 20 elements on PyTorch draws two words each, and
 * makes the list while it shuffles. */
FK_LOCAL int fk_twister_permute(fk_twister *t, const fk_request *r) {
    int64_t n = r->n, *place = (int64_t *)(void *)r->out;
    if (r->dtype != FK_I64) return -1;
    if (n < 0xffffffffll / 20) {
        for (int64_t i = 0; i < n; i++) place[i] = i;
        for (int64_t i = 0; i < n - 1; i++) {
            int64_t other = i + (int64_t)(fk_twister_word(t) % (uint64_t)(n - i)), item = place[i];
            place[i] = place[other];
            place[other] = item;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            int64_t other = (int64_t)(fk_twister_long(t) % (uint64_t)(i + 1));
            place[i] = i;
            place[i] = place[other];
            place[other] = i;
        }
    }
    return 0;
}

FK_LOCAL void fk_twister_samples(fk_twister *t, const fk_request *r) {
    const double *p = (const double *)(const void *)r->p;
    double *out = (double *)(void *)r->out;
    for (int64_t i = 0; i < r->n; i++)
        out[i] = r->kind == FK_POISSON    ? fk_twister_poisson(t, p[i])
                 : r->kind == FK_BINOMIAL ? fk_twister_binomial(t, p[i], r->q[i])
                                          : fk_twister_gamma(t, p[i], r->kind == FK_GAMMA_SINGLE,
                                                r->logs ? r->logs + i : NULL);
}

FK_LOCAL int fk_twister_fill(fk_twister *t, const fk_request *r) {
    if (r->kind >= FK_GAMMA) {
        fk_twister_samples(t, r);
    } else if (r->kind == FK_INTEGERS || r->kind == FK_WHOLE) {
        if (!fk_cast_get(FK_I64, r->dtype)) return -1;
        fk_twister_integers(t, r);
    } else if (r->kind == FK_PERMUTATION) {
        return fk_twister_permute(t, r);
    } else if (r->kind == FK_BERNOULLI) {
        (r->p ? fk_twister_bernoulli_tensor : fk_twister_bernoulli)(t, r);
    } else if (r->kind == FK_GEOMETRIC) {
        fk_twister_each(t, r);
    } else {
        if (!fk_is_float(r->dtype)) return -1;
        if (r->kind == FK_UNIFORM)
            fk_twister_uniform(t, r);
        else if (r->kind == FK_NORMAL && r->n >= FK_TWISTER_GROUP)
            fk_twister_normal_many(t, r);
        else
            fk_twister_each(t, r);
    }
    return 0;
}

/* ---- either ---- */

FK_LOCAL int fk_stream_fill(const fk_stream *s, const fk_request *r) {
    if (!s->twister) return fk_counter_fill(r, s->seed, s->offset);
    fk_lock(&s->twister->lock);
    int status = fk_twister_fill(s->twister, r);
    fk_unlock(&s->twister->lock);
    return status;
}
#endif
