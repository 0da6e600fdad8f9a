/* Stored rows to float32, exactly as the formats define the values (ggml's block formats as gguf-py and
 * llama.cpp read them: products and sums in float32, no fused operations). */
#ifndef EW_FORMAT_DEQUANTIZE_H
#define EW_FORMAT_DEQUANTIZE_H

#include "base/error.h"
#include "format/dtype.h"

/* out[cols] from one encoded row; `encoded` needs no alignment. EW_ERROR_UNSUPPORTED for integer types and
 * F64, EW_ERROR_FORMAT when cols is no multiple of the type's block. NaN and infinity pass through. */
ew_status ew_dequantize_row(ew_dtype type, const uint8_t *encoded, size_t cols, float *out, ew_error *error);

#endif
