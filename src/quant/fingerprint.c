#include "quant/fingerprint.h"

#include <string.h>

static void add_u32(ew_sha256 *hash, uint32_t value) {
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                              (uint8_t)(value >> 24)};
    ew_sha256_add(hash, bytes, sizeof bytes);
}

void ew_fingerprint_tensor(ew_sha256 *hash, const char *name, const ew_matrix *matrix, size_t bytes) {
    ew_sha256_add(hash, name, strlen(name) + 1);
    add_u32(hash, matrix ? (uint32_t)matrix->format : UINT32_MAX);
    add_u32(hash, matrix ? matrix->group : 0);
    add_u32(hash, matrix ? matrix->rows : 0);
    add_u32(hash, matrix ? matrix->cols : (uint32_t)bytes);
}
