#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void expand(const uint8_t *block, uint32_t w[64]) {
    for (int t = 0; t < 16; t++) {
        const uint8_t *b = block + 4 * t;
        w[t] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

/* One round. The caller turns the names instead of the values, so that nothing is moved. */
static inline void round_of(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                            uint32_t g, uint32_t *h, uint32_t constant) {
    uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    uint32_t t1 = *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + constant;
    *d += t1;
    *h = t1 + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
}

static void compress(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    expand(block, w);
    for (int t = 0; t < 64; t += 8) {
        const uint32_t *k = round_constants + t, *x = w + t;
        round_of(a, b, c, &d, e, f, g, &h, k[0] + x[0]);
        round_of(h, a, b, &c, d, e, f, &g, k[1] + x[1]);
        round_of(g, h, a, &b, c, d, e, &f, k[2] + x[2]);
        round_of(f, g, h, &a, b, c, d, &e, k[3] + x[3]);
        round_of(e, f, g, &h, a, b, c, &d, k[4] + x[4]);
        round_of(d, e, f, &g, h, a, b, &c, k[5] + x[5]);
        round_of(c, d, e, &f, g, h, a, &b, k[6] + x[6]);
        round_of(b, c, d, &e, f, g, h, &a, k[7] + x[7]);
    }
    const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) {
        state[i] += sums[i];
    }
}

void ew_sha256_begin(ew_sha256 *hash) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *hash = (ew_sha256){0};
    memcpy(hash->state, initial, sizeof initial);
}

void ew_sha256_add(ew_sha256 *hash, const void *bytes, size_t length) {
    const uint8_t *next = bytes;
    size_t held = hash->length % 64;
    hash->length += length;
    if (held > 0) {
        size_t wanted = 64 - held < length ? 64 - held : length;
        memcpy(hash->block + held, next, wanted);
        next += wanted;
        length -= wanted;
        if (held + wanted < 64) {
            return;
        }
        compress(hash->state, hash->block);
    }
    for (; length >= 64; length -= 64, next += 64) {
        compress(hash->state, next);
    }
    if (length > 0) {
        memcpy(hash->block, next, length);
    }
}

void ew_sha256_end(ew_sha256 *hash, uint8_t digest[32]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->length * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    ew_sha256_add(hash, padding, 1 + (119 - hash->length % 64) % 64);
    ew_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void ew_sha256_end_hex(ew_sha256 *hash, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[32];
    ew_sha256_end(hash, digest);
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}
