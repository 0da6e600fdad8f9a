/* The `weights` fingerprint of an Edgewise file: SHA-256 over its tensors in the file's order. For each: its
 * name with the closing NUL, four uint32 (format, group, rows, cols; for a tensor that is no packed matrix
 * 0xffffffff, 0, 0 and its number of bytes), all little-endian, and its bytes. */
#ifndef EW_QUANT_FINGERPRINT_H
#define EW_QUANT_FINGERPRINT_H

#include "base/sha256.h"
#include "kernel/matrix.h"

/* What comes before the bytes. `matrix` is NULL for a tensor that is none (then `bytes` is its size); of a
 * matrix only format, group, rows and cols are looked at. */
void ew_fingerprint_tensor(ew_sha256 *hash, const char *name, const ew_matrix *matrix, size_t bytes);

#endif
