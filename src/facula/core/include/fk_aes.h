/* The block cipher AES with keys of 128 bits, and the stream of words that a counter makes of it.
 *
 * Takes: 16 bytes of key, blocks of 16 bytes.
 * Gives: blocks encrypted or decrypted, many at a time; a counter's blocks encrypted.
 * Keeps true: the processor's instructions and the plain path give the same bytes. Nothing here is
 * written to a file, and `fk_aes_forget` clears keys so that no compiler leaves it out. [FIPS 197] */
#ifndef FK_AES_H
#define FK_AES_H
#include "fk_base.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct fk_aes {
    _Alignas(16) uint8_t round[11][16], back[11][16]; /* of encryption, of decryption */
} fk_aes;

/* the substitution of bytes and its inverse, made of the field's arithmetic at first use */
static uint8_t fk_aes_box[256], fk_aes_unbox[256];
static _Atomic int fk_aes_boxes;

FK_INLINE uint8_t fk_aes_double(uint8_t x) { return (uint8_t)(x << 1 ^ ((x >> 7) * 0x1b)); }

FK_LOCAL void fk_aes_prepare(void) {
    if (atomic_load_explicit(&fk_aes_boxes, memory_order_acquire)) return;
    uint8_t p = 1, q = 1; /* q is always the inverse of p */
    do {
        p = (uint8_t)(p ^ fk_aes_double(p));
        q ^= (uint8_t)(q << 1), q ^= (uint8_t)(q << 2), q ^= (uint8_t)(q << 4);
        if (q & 0x80) q ^= 0x09;
        uint8_t y = q;
        for (int turn = 1; turn < 5; turn++) y ^= (uint8_t)(q << turn | q >> (8 - turn));
        fk_aes_box[p] = y ^ 0x63;
    } while (p != 1);
    fk_aes_box[0] = 0x63;
    for (int i = 0; i < 256; i++) fk_aes_unbox[fk_aes_box[i]] = (uint8_t)i;
    atomic_store_explicit(&fk_aes_boxes, 1, memory_order_release);
}

/* the column in the field times 14, 11, 13, 9 */
FK_LOCAL void fk_aes_unmix(uint8_t *c) {
    uint8_t a[4], b[4], d[4], e[4];
    for (int i = 0; i < 4; i++) {
        a[i] = c[i];
        b[i] = fk_aes_double(a[i]), d[i] = fk_aes_double(b[i]), e[i] = fk_aes_double(d[i]);
    }
    for (int i = 0; i < 4; i++) {
        int j = (i + 1) & 3, k = (i + 2) & 3, l = (i + 3) & 3;
        c[i] = (uint8_t)(e[i] ^ d[i] ^ b[i] ^ e[j] ^ b[j] ^ a[j] ^ e[k] ^ d[k] ^ a[k] ^ e[l] ^ a[l]);
    }
}

FK_LOCAL void fk_aes_expand(fk_aes *aes, const uint8_t *key) {
    fk_aes_prepare();
    memcpy(aes->round[0], key, 16);
    uint8_t *words = aes->round[0], constant = 1;
    for (int i = 4; i < 44; i++) {
        uint8_t w[4];
        memcpy(w, words + 4 * (i - 1), 4);
        if (i % 4 == 0) {
            uint8_t first = w[0];
            w[0] = fk_aes_box[w[1]] ^ constant;
            w[1] = fk_aes_box[w[2]], w[2] = fk_aes_box[w[3]], w[3] = fk_aes_box[first];
            constant = fk_aes_double(constant);
        }
        for (int j = 0; j < 4; j++) words[4 * i + j] = words[4 * (i - 4) + j] ^ w[j];
    }
    for (int r = 0; r < 11; r++) {
        memcpy(aes->back[r], aes->round[10 - r], 16);
        if (r > 0 && r < 10)
            for (int c = 0; c < 16; c += 4) fk_aes_unmix(aes->back[r] + c);
    }
}

FK_LOCAL void fk_aes_forget(void *memory, size_t size) {
    memset(memory, 0, size);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* ---- the plain path ---- */

FK_LOCAL void fk_aes_plain_block(const fk_aes *aes, const uint8_t *in, uint8_t *out) {
    uint8_t s[16], t[16];
    for (int i = 0; i < 16; i++) s[i] = in[i] ^ aes->round[0][i];
    for (int r = 1; r < 11; r++) {
        for (int i = 0; i < 16; i++) t[i] = fk_aes_box[s[(i + 4 * (i & 3)) & 15]];
        for (int c = 0; c < 16; c += 4) {
            uint8_t all = t[c] ^ t[c + 1] ^ t[c + 2] ^ t[c + 3];
            for (int i = 0; i < 4; i++) {
                uint8_t mixed = t[c + i] ^ all ^ fk_aes_double(t[c + i] ^ t[c + ((i + 1) & 3)]);
                s[c + i] = (r < 10 ? mixed : t[c + i]) ^ aes->round[r][c + i];
            }
        }
    }
    memcpy(out, s, 16);
}

FK_LOCAL void fk_aes_plain_unblock(const fk_aes *aes, const uint8_t *in, uint8_t *out) {
    uint8_t s[16], t[16];
    for (int i = 0; i < 16; i++) s[i] = in[i] ^ aes->back[0][i];
    for (int r = 1; r < 11; r++) {
        for (int i = 0; i < 16; i++) t[i] = fk_aes_unbox[s[(i + 12 * (i & 3)) & 15]];
        for (int c = 0; r < 10 && c < 16; c += 4) fk_aes_unmix(t + c);
        for (int i = 0; i < 16; i++) s[i] = t[i] ^ aes->back[r][i];
    }
    memcpy(out, s, 16);
}

FK_LOCAL void fk_aes_plain(const fk_aes *aes, const uint8_t *in, uint8_t *out, int64_t blocks,
                           int decrypt) {
    for (int64_t b = 0; b < blocks; b++)
        (decrypt ? fk_aes_plain_unblock : fk_aes_plain_block)(aes, in + 16 * b, out + 16 * b);
}

/* ---- the processor's instructions ---- */

#if defined(__x86_64__)
enum { FK_AES_LANES = 8 }; /* blocks in flight, which hides what a round takes */

__attribute__((target("aes,sse4.1"), unused)) static void fk_aes_fast(
    const fk_aes *aes, const uint8_t *in, uint8_t *out, int64_t blocks, int decrypt) {
    __m128i k[11], x[FK_AES_LANES];
    for (int r = 0; r < 11; r++)
        k[r] = _mm_load_si128((const __m128i *)(decrypt ? aes->back[r] : aes->round[r]));
    for (int64_t b = 0; b < blocks; b += FK_AES_LANES) {
        int lanes = blocks - b < FK_AES_LANES ? (int)(blocks - b) : FK_AES_LANES;
        for (int i = 0; i < lanes; i++)
            x[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(in + 16 * (b + i))), k[0]);
        for (int i = lanes; i < FK_AES_LANES; i++) x[i] = k[0];
        for (int r = 1; r < 10; r++) {
            if (decrypt) {
                _Pragma("GCC unroll 8") for (int i = 0; i < FK_AES_LANES; i++)
                    x[i] = _mm_aesdec_si128(x[i], k[r]);
            } else {
                _Pragma("GCC unroll 8") for (int i = 0; i < FK_AES_LANES; i++)
                    x[i] = _mm_aesenc_si128(x[i], k[r]);
            }
        }
        for (int i = 0; i < lanes; i++)
            _mm_storeu_si128((__m128i *)(out + 16 * (b + i)),
                decrypt ? _mm_aesdeclast_si128(x[i], k[10]) : _mm_aesenclast_si128(x[i], k[10]));
    }
}
#endif

/* whether the instructions are used; tests take the plain path by clearing it */
static _Atomic int fk_aes_allowed = 1;

FK_LOCAL int fk_aes_is_fast(void) {
#if defined(__x86_64__)
    return atomic_load_explicit(&fk_aes_allowed, memory_order_relaxed)
        && __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1");
#else
    return 0;
#endif
}

FK_LOCAL void fk_aes_blocks(const fk_aes *aes, const uint8_t *in, uint8_t *out, int64_t blocks,
                            int decrypt) {
#if defined(__x86_64__)
    if (fk_aes_is_fast()) {
        fk_aes_fast(aes, in, out, blocks, decrypt);
        return;
    }
#endif
    fk_aes_plain(aes, in, out, blocks, decrypt);
}

/* ---- counters ---- */

typedef struct fk_counter { uint64_t low, high; } fk_counter;

FK_INLINE void fk_counter_write(const fk_counter *at, uint8_t *block, int big) {
    uint64_t low = at->low, high = at->high;
    if (big) {
        uint64_t first = __builtin_bswap64(high);
        low = __builtin_bswap64(low);
        memcpy(block, &first, 8), memcpy(block + 8, &low, 8);
    } else {
        memcpy(block, &low, 8), memcpy(block + 8, &high, 8);
    }
}

FK_INLINE void fk_counter_next(fk_counter *at) { at->high += ++at->low == 0; }

enum { FK_AES_GROUP = 128 };

/* `blocks` encrypted counters; the counter moves on. */
FK_LOCAL void fk_aes_count(const fk_aes *aes, fk_counter *at, uint8_t *out, int64_t blocks, int big) {
    _Alignas(16) uint8_t counters[16 * FK_AES_GROUP];
    for (int64_t b = 0; b < blocks; b += FK_AES_GROUP) {
        int64_t some = blocks - b < FK_AES_GROUP ? blocks - b : FK_AES_GROUP;
        for (int64_t i = 0; i < some; i++, fk_counter_next(at))
            fk_counter_write(at, counters + 16 * i, big);
        fk_aes_blocks(aes, counters, out + 16 * b, some, 0);
    }
}

FK_VECTORIZE_BEGIN
FK_CLONES static void fk_aes_mix(
    const uint8_t *restrict in, const uint8_t *restrict with, uint8_t *restrict out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = in[i] ^ with[i];
}
FK_VECTORIZE_END

/* `size` bytes joined with encrypted counters: the same for encryption and decryption. */
FK_LOCAL void fk_aes_join(const fk_aes *aes, fk_counter *at, const uint8_t *in, uint8_t *out,
                          int64_t size, int big) {
    _Alignas(16) uint8_t stream[16 * FK_AES_GROUP];
    for (int64_t from = 0; from < size; from += (int64_t)sizeof stream) {
        int64_t some = size - from < (int64_t)sizeof stream ? size - from : (int64_t)sizeof stream;
        fk_aes_count(aes, at, stream, (some + 15) / 16, big);
        fk_aes_mix(in + from, stream, out + from, some);
    }
    fk_aes_forget(stream, sizeof stream);
}
#endif
