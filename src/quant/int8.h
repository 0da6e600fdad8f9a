/* INT8 weights from float ones: symmetric, a scale per group of 32 inputs (the last may be shorter). */
#ifndef EW_QUANT_INT8_H
#define EW_QUANT_INT8_H

#include "base/error.h"

enum { EW_INT8_GROUP = 32 };

/* One row: scale = F16(max|w| / 127), 1 for a group of zeros; codes[cols] = clamp(rne(w / scale), -127, 127)
 * from the rounded scale, ties decided on the real quotient; scales[ceil(cols / 32)] hold the F16 values.
 * Errors as ew_int4_quantize_row. */
ew_status ew_int8_quantize_row(const char *name, size_t row, const float *w, size_t cols, int8_t *codes,
                               float *scales, ew_error *error);

#endif
