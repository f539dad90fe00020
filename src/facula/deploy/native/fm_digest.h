/* Digests: SHA-256 for code and descriptions, two sums for weights.
 *
 * Takes: bytes. Gives: `fm_sha256`, `facula_digest`.
 * Keeps true: the same words on every processor, however many threads there are; weights are digested about as fast as they
 * are read, and code by the processor's own instructions where it has some, so that a start does not wait for either. */
#ifndef FM_DIGEST_H
#define FM_DIGEST_H
#include "fm_base.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* ---- SHA-256 (FIPS 180-4) ---- */

static const uint32_t fm_sha_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7,
    0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
    0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#define FM_ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))

/* one round, which leaves the eight words where they are: the next one names them one further */
#define FM_ROUND(a, b, c, d, e, f, g, h, number)                                                                  \
    do {                                                                                                          \
        uint32_t t = h + (FM_ROTATE(e, 6) ^ FM_ROTATE(e, 11) ^ FM_ROTATE(e, 25)) + (g ^ (e & (f ^ g))) +           \
                     fm_sha_constants[number] + w[number];                                                        \
        d += t;                                                                                                   \
        h = t + (FM_ROTATE(a, 2) ^ FM_ROTATE(a, 13) ^ FM_ROTATE(a, 22)) + ((a & b) | (c & (a | b)));               \
    } while (0)

static void fm_sha_block(uint32_t *s, const uint8_t *p) {
    uint32_t w[64], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (FM_ROTATE(x, 7) ^ FM_ROTATE(x, 18) ^ x >> 3) + w[i - 7] + (FM_ROTATE(y, 17) ^ FM_ROTATE(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 64; i += 8) {
        FM_ROUND(a, b, c, d, e, f, g, h, i);
        FM_ROUND(h, a, b, c, d, e, f, g, i + 1);
        FM_ROUND(g, h, a, b, c, d, e, f, i + 2);
        FM_ROUND(f, g, h, a, b, c, d, e, i + 3);
        FM_ROUND(e, f, g, h, a, b, c, d, i + 4);
        FM_ROUND(d, e, f, g, h, a, b, c, i + 5);
        FM_ROUND(c, d, e, f, g, h, a, b, i + 6);
        FM_ROUND(b, c, d, e, f, g, h, a, i + 7);
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

static void fm_sha_blocks_plain(uint32_t *s, const uint8_t *p, size_t blocks) {
    for (; blocks; blocks--, p += 64) fm_sha_block(s, p);
}

#if defined(__x86_64__)
/* The processor's instructions hold the words as (a, b, e, f) and (c, d, g, h), the highest lane first, and do two rounds at
 * a time; four words of the schedule are one vector. */
__attribute__((target("sha,sse4.1"))) static void fm_sha_blocks_fast(uint32_t *s, const uint8_t *p, size_t blocks) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i first = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)s), 0xb1);
    __m128i second = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(s + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(first, second, 8), cdgh = _mm_blend_epi16(second, first, 0xf0);
    for (; blocks; blocks--, p += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++) {
            const __m128i *constants = (const __m128i *)(fm_sha_constants + 4 * k);
            if (k < 4) {
                w[k] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * k)), swap);
            } else {
                __m128i sevens = _mm_alignr_epi8(w[(k + 3) & 3], w[(k + 2) & 3], 4);
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[k & 3], w[(k + 1) & 3]), sevens);
                w[k & 3] = _mm_sha256msg2_epu32(sum, w[(k + 3) & 3]);
            }
            __m128i given = _mm_add_epi32(w[k & 3], _mm_loadu_si128(constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, given);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(given, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    first = _mm_shuffle_epi32(abef, 0x1b);
    second = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)s, _mm_blend_epi16(first, second, 0xf0));
    _mm_storeu_si128((__m128i *)(s + 4), _mm_alignr_epi8(second, first, 8));
}

static int fm_sha_is_fast(void) {
    unsigned a, b, c, d, ssse3_and_sse41 = 1u << 9 | 1u << 19;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & ssse3_and_sse41) != ssse3_and_sse41) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1;
}
#endif

static void fm_sha_blocks(uint32_t *s, const uint8_t *p, size_t blocks) {
#if defined(__x86_64__)
    if (fm_sha_is_fast()) {
        fm_sha_blocks_fast(s, p, blocks);
        return;
    }
#endif
    fm_sha_blocks_plain(s, p, blocks);
}

/* the digest as 64 hexadecimal digits */
static void fm_sha256(const void *bytes, size_t size, char hex[65]) {
    uint32_t s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = bytes;
    uint8_t last[128] = {0};
    size_t whole = size / 64, rest = size % 64, length = rest < 56 ? 64 : 128;
    fm_sha_blocks(s, p, whole);
    if (rest) memcpy(last, p + 64 * whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) last[length - 1 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    fm_sha_blocks(s, last, length / 64);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", s[i]);
}

/* ---- the digest of weights ---- */

/* bytes that a thread digests at a time */
enum { FM_CHUNK = 1 << 16 };

static const uint64_t fm_digest_step = 0x9e3779b97f4a7c15u;

/* a word of eight bytes, mixed with its number */
static inline uint64_t fm_digest_word(uint64_t word, uint64_t offset) {
    word = (word ^ offset) * 0xff51afd7ed558ccdu;
    return word ^ word >> 32;
}

/* Adds the sum of the words, and that of each word times (2 * its number + 1). The second is one of sums up to each word, so
 * that a word takes one product: of the words x(1) to x(n), n * (all of them) less the sums up to x(1), ... x(n - 1) is the
 * sum of k * x(k). */
static void fm_digest_words(const char *bytes, int64_t count, uint64_t number, uint64_t sums[2]) {
    uint64_t all = 0, up_to = 0, offset = number * fm_digest_step, word;
    for (int64_t i = 0; i < count; i++, offset += fm_digest_step) {
        memcpy(&word, bytes + 8 * i, 8);
        up_to += all;
        all += fm_digest_word(word, offset);
    }
    sums[0] += all;
    sums[1] += 2 * ((uint64_t)count * all - up_to) + (2 * number - 1) * all;
}

static void fm_digest_body(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    const int64_t first = begin * FM_CHUNK, stop = end * FM_CHUNK < n[0] ? end * FM_CHUNK : n[0], whole = (stop - first) / 8;
    uint64_t sums[2] = {0, 0}, number = (uint64_t)first / 8 + 1;
    char last[8] = {0};
    (void)s;
    fm_digest_words(p[0] + first, whole, number, sums);
    if ((stop - first) % 8) {
        memcpy(last, p[0] + first + 8 * whole, (size_t)(stop - first) % 8);
        fm_digest_words(last, 1, number + (uint64_t)whole, sums);
    }
    atomic_fetch_add((_Atomic uint64_t *)(void *)p[1], sums[0]);
    atomic_fetch_add((_Atomic uint64_t *)(void *)p[1] + 1, sums[1]);
}

FACULA_API void facula_digest(const void *bytes, size_t size, uint64_t digest[2]) {
    _Atomic uint64_t sums[2] = {size, ~(uint64_t)size};
    char *p[2] = {(char *)(uintptr_t)bytes, (char *)sums};
    int64_t n[1] = {(int64_t)size};
    fk_parallel(fm_digest_body, p, n, NULL, (n[0] + FM_CHUNK - 1) / FM_CHUNK, 4);
    digest[0] = (sums[0] ^ sums[0] >> 29) * 0xbf58476d1ce4e5b9u;
    digest[1] = (sums[1] ^ sums[1] >> 31) * 0x94d049bb133111ebu;
}
#endif
