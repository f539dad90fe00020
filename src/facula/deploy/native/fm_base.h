/* What the parts of the runtime of packaged models share: errors as text, digests.
 *
 * Takes: bytes. Gives: `fm_fail`, `fm_sha256`, `facula_digest`.
 * Keeps true: a failing function has written one line. */
#ifndef FM_BASE_H
#define FM_BASE_H
#include "fk_pool.h"
#include "facula_model.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FM_CHUNK = 1 << 16 }; /* bytes of weights that a thread digests at a time */

typedef struct {
    char *text;
    size_t room;
} fm_error;

__attribute__((format(printf, 2, 3))) static int fm_fail(const fm_error *e, const char *format, ...) {
    va_list values;
    if (!e || !e->text || !e->room) return -1;
    va_start(values, format);
    vsnprintf(e->text, e->room, format, values);
    va_end(values);
    return -1;
}

/* ---- SHA-256 (FIPS 180-4), for code and descriptions ---- */

static const uint32_t fm_sha_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7,
    0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
    0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#define FM_ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))

static void fm_sha_block(uint32_t *h, const uint8_t *p) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        a = FM_ROTATE(a, 7) ^ FM_ROTATE(a, 18) ^ a >> 3;
        b = FM_ROTATE(b, 17) ^ FM_ROTATE(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t = s[7] + (FM_ROTATE(e, 6) ^ FM_ROTATE(e, 11) ^ FM_ROTATE(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                     fm_sha_constants[i] + w[i];
        uint32_t u = (FM_ROTATE(a, 2) ^ FM_ROTATE(a, 13) ^ FM_ROTATE(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

/* the digest as 64 hexadecimal digits */
static void fm_sha256(const void *bytes, size_t size, char hex[65]) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = bytes;
    uint8_t last[128] = {0};
    size_t whole = size / 64 * 64, rest = size - whole, length = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64) fm_sha_block(h, p + at);
    if (rest) memcpy(last, p + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) last[length - 1 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t at = 0; at < length; at += 64) fm_sha_block(h, last + at);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", h[i]);
}

/* ---- the digest of weights: as fast as memory, so that a start does not wait for it ---- */

static inline void fm_digest_word(uint64_t word, uint64_t number, uint64_t sums[2]) {
    word = (word ^ number * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    word ^= word >> 32;
    sums[0] += word;
    sums[1] += word * (2 * number + 1);
}

static void fm_digest_body(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    const char *bytes = p[0];
    const int64_t stop = end * FM_CHUNK < n[0] ? end * FM_CHUNK : n[0], whole = stop - stop % 8;
    uint64_t sums[2] = {0, 0}, word = 0;
    int64_t at = begin * FM_CHUNK;
    (void)s;
    for (; at < whole; at += 8) {
        memcpy(&word, bytes + at, 8);
        fm_digest_word(word, (uint64_t)at / 8 + 1, sums);
    }
    word = 0;
    if (at < stop) {
        memcpy(&word, bytes + at, (size_t)(stop - at));
        fm_digest_word(word, (uint64_t)at / 8 + 1, sums);
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

/* ---- memory ---- */

enum { FM_CHUNK_OF_MEMORY = 1 << 21 };

/* Memory at a multiple of 64, with 64 bytes to spare; on huge pages where it is long. */
static void *fm_memory(int64_t bytes) {
    void *made = NULL;
    int huge = bytes >= 2 * FM_CHUNK_OF_MEMORY;
    if (bytes < 0 || bytes > (int64_t)1 << 46) return NULL;
    if (posix_memalign(&made, huge ? FM_CHUNK_OF_MEMORY : 64, (size_t)bytes + 64)) return NULL;
#ifdef MADV_HUGEPAGE
    if (huge) madvise(made, (size_t)bytes, MADV_HUGEPAGE);
#endif
    return made;
}
#endif
