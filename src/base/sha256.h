/* SHA-256 (FIPS 180-4), for fingerprints of models. Source of constants and test vectors: that standard. */
#ifndef EW_BASE_SHA256_H
#define EW_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct ew_sha256 {
    uint32_t state[8];
    uint64_t length;   /* bytes taken in so far */
    uint8_t block[64]; /* the last, incomplete block */
} ew_sha256;

void ew_sha256_begin(ew_sha256 *hash);
void ew_sha256_add(ew_sha256 *hash, const void *bytes, size_t length);
void ew_sha256_end(ew_sha256 *hash, uint8_t digest[32]);

/* As ew_sha256_end, in lower-case hexadecimal with a NUL. */
void ew_sha256_end_hex(ew_sha256 *hash, char hex[65]);

#endif
