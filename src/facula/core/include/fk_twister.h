/* The Mersenne twister, PyTorch's source of random numbers on the CPU; or, in its place, words of a
 * cipher, which cannot be foretold from those that were seen.
 *
 * Takes: a seed, or the 5056 bytes in which PyTorch keeps a generator.
 * Gives: 32-bit words one by one or many at a time, uniform doubles, normal numbers one by one; the
 * state as PyTorch's bytes.
 * Keeps true: the words are those of mt19937; `left` and `next` count as PyTorch's do, so that bytes
 * agree too. One call of a drawing function at a time: whoever draws holds `lock`.
 *
 * [Matsumoto & Nishimura 1998] */
#ifndef FK_TWISTER_H
#define FK_TWISTER_H
#include "fk_aes.h"
#include "fk_base.h"
#include <math.h>

enum { FK_TWISTER_N = 624, FK_TWISTER_M = 397, FK_TWISTER_BYTES = 5056 };

/* words that AES makes of a counter, instead of the twister's */
typedef struct fk_cipher {
    fk_aes aes;
    fk_counter at;
    int64_t forks; /* of this process and those before it, when the key was drawn */
} fk_cipher;

/* counts the forks that lie before this process: a child must not draw its parent's words again */
static int64_t fk_forks;
FK_COLD void fk_forks_count(void) { fk_forks++; }

typedef struct fk_twister {
    uint64_t seed;
    fk_cipher *cipher; /* NULL: the twister itself */
    int32_t left; /* words of this block that are not drawn yet, and one */
    int32_t next; /* the place of the next word */
    int32_t has_normal;
    double normal; /* the second one of a pair, where there is one */
    _Atomic int lock;
    uint32_t state[FK_TWISTER_N];
} fk_twister;

FK_LOCAL void fk_twister_seed(fk_twister *t, uint64_t seed) {
    fk_lock(&t->lock);
    t->seed = seed;
    t->left = 1, t->next = 0, t->has_normal = 0, t->normal = 0;
    t->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < FK_TWISTER_N; i++)
        t->state[i] = 1812433253u * (t->state[i - 1] ^ t->state[i - 1] >> 30) + i;
    fk_unlock(&t->lock);
}

/* The state of `from`, which others may be drawing from. */
FK_LOCAL void fk_twister_copy(fk_twister *t, fk_twister *from) {
    fk_twister copy;
    fk_lock(&from->lock);
    memcpy(&copy, from, sizeof copy);
    fk_unlock(&from->lock);
    fk_lock(&t->lock);
    copy.lock = 1;
    memcpy(t, &copy, sizeof copy);
    fk_unlock(&t->lock);
}

FK_INLINE uint32_t fk_twister_mix(uint32_t first, uint32_t second, uint32_t far) {
    uint32_t joined = (first & 0x80000000u) | (second & 0x7fffffffu);
    return far ^ joined >> 1 ^ ((0u - (second & 1u)) & 0x9908b0dfu);
}

FK_VECTORIZE_BEGIN
/* The next block. The second loop reads what it wrote 227 words before: no vector is that long. */
FK_CLONES static void fk_twister_advance(uint32_t *restrict s) {
    enum { FIRST = FK_TWISTER_N - FK_TWISTER_M, PIECE = 32 };
    for (int i = 0; i < FIRST; i++) s[i] = fk_twister_mix(s[i], s[i + 1], s[i + FK_TWISTER_M]);
    uint32_t piece[PIECE];
    for (int start = FIRST; start < FK_TWISTER_N - 1; start += PIECE) {
        int length = FK_TWISTER_N - 1 - start < PIECE ? FK_TWISTER_N - 1 - start : PIECE;
        for (int i = 0; i < length; i++)
            piece[i] = fk_twister_mix(s[start + i], s[start + i + 1], s[start + i - FIRST]);
        for (int i = 0; i < length; i++) s[start + i] = piece[i];
    }
    s[FK_TWISTER_N - 1] = fk_twister_mix(s[FK_TWISTER_N - 1], s[0], s[FK_TWISTER_M - 1]);
}

FK_INLINE uint32_t fk_temper(uint32_t y) {
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* The next block, of whichever kind. */
FK_LOCAL void fk_twister_refill(fk_twister *t) {
    if (t->cipher)
        fk_aes_count(&t->cipher->aes, &t->cipher->at, (uint8_t *)t->state, FK_TWISTER_N / 4, 0);
    else
        fk_twister_advance(t->state);
}

FK_CLONES static void fk_temper_words(const uint32_t *restrict s, uint32_t *restrict out, int n) {
    for (int i = 0; i < n; i++) out[i] = fk_temper(s[i]);
}
FK_VECTORIZE_END

/* The next word. */
FK_INLINE uint32_t fk_twister_word(fk_twister *t) {
    if (FK_UNLIKELY(--t->left == 0)) {
        fk_twister_refill(t);
        t->left = FK_TWISTER_N, t->next = 0;
    }
    uint32_t word = t->state[t->next++];
    return FK_UNLIKELY(t->cipher != NULL) ? word : fk_temper(word);
}

/* The next n words; `out` may be NULL, which passes over them. */
FK_LOCAL void fk_twister_words(fk_twister *t, uint32_t *out, int64_t n) {
    while (n > 0) {
        if (t->left == 1) {
            fk_twister_refill(t);
            t->left = FK_TWISTER_N + 1, t->next = 0;
        }
        int32_t some = t->left - 1 < n ? t->left - 1 : (int32_t)n;
        if (out) {
            if (t->cipher)
                memcpy(out, t->state + t->next, (size_t)some * sizeof *out);
            else
                fk_temper_words(t->state + t->next, out, some);
            out += some;
        }
        t->left -= some, t->next += some, n -= some;
    }
}

/* Have the words come from AES of a counter that starts at 0; what the twister held is gone. */
FK_LOCAL void fk_twister_encipher(fk_twister *t, fk_cipher *cipher, const uint8_t *key) {
    fk_lock(&t->lock);
    fk_aes_expand(&cipher->aes, key);
    cipher->at.low = cipher->at.high = 0;
    cipher->forks = fk_forks;
    t->cipher = cipher;
    t->left = 1, t->next = 0, t->has_normal = 0, t->normal = 0, t->seed = 0;
    memset(t->state, 0, sizeof t->state);
    fk_unlock(&t->lock);
}

/* Whether the process has forked since the key was drawn. */
FK_INLINE int fk_cipher_is_inherited(const fk_cipher *cipher) { return cipher->forks != fk_forks; }

/* Two words as one: the first is the upper half. */
FK_INLINE uint64_t fk_twister_long(fk_twister *t) {
    uint64_t upper = fk_twister_word(t);
    return upper << 32 | fk_twister_word(t);
}

FK_INLINE double fk_twister_double(fk_twister *t) {
    return (double)(int64_t)(fk_twister_long(t) & ((1ull << 53) - 1)) * 0x1p-53;
}

/* A standard normal number; they come in pairs, and the second one waits. */
FK_LOCAL double fk_twister_normal(fk_twister *t) {
    if (t->has_normal) {
        t->has_normal = 0;
        double waiting = t->normal;
        t->normal = 0;
        return waiting;
    }
    double angle = fk_twister_double(t), radius = fk_twister_double(t);
    radius = sqrt(-2.0 * log1p(-radius));
    angle *= 2.0 * 3.14159265358979323846;
    t->has_normal = 1;
    t->normal = radius * sin(angle);
    return radius * cos(angle);
}

/* ---- PyTorch's bytes: seed, left, 1, next, 624 words of 8 bytes, 0, the normal number that waits,
 * 0, whether one does, and 8 bytes of a float that nobody draws ---- */

FK_LOCAL void fk_twister_save(fk_twister *t, char *bytes) {
    int32_t seeded = 1;
    fk_lock(&t->lock);
    uint64_t next = (uint64_t)t->next, word;
    memset(bytes, 0, FK_TWISTER_BYTES);
    memcpy(bytes, &t->seed, 8);
    memcpy(bytes + 8, &t->left, 4);
    memcpy(bytes + 12, &seeded, 4);
    memcpy(bytes + 16, &next, 8);
    for (int i = 0; i < FK_TWISTER_N; i++) {
        word = t->state[i];
        memcpy(bytes + 24 + 8 * i, &word, 8);
    }
    memcpy(bytes + 5024, &t->normal, 8);
    memcpy(bytes + 5040, &t->has_normal, 4);
    fk_unlock(&t->lock);
}

/* Gives 0, or -1 where the bytes are no state; the generator stays as it was then. */
FK_LOCAL int fk_twister_load(fk_twister *t, const char *bytes) {
    int32_t left, seeded;
    uint64_t next, word;
    memcpy(&left, bytes + 8, 4);
    memcpy(&seeded, bytes + 12, 4);
    memcpy(&next, bytes + 16, 8);
    if (seeded != 1 || left < 1 || left > FK_TWISTER_N || next > FK_TWISTER_N ||
        (uint64_t)left - 1 > FK_TWISTER_N - next)
        return -1;
    fk_lock(&t->lock);
    memcpy(&t->seed, bytes, 8);
    t->left = left, t->next = (int32_t)next;
    for (int i = 0; i < FK_TWISTER_N; i++) {
        memcpy(&word, bytes + 24 + 8 * i, 8);
        t->state[i] = (uint32_t)word;
    }
    memcpy(&t->normal, bytes + 5024, 8);
    memcpy(&t->has_normal, bytes + 5040, 4);
    if (!t->has_normal) t->normal = 0;
    fk_unlock(&t->lock);
    return 0;
}
#endif
